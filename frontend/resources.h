/*
 * frontend/resources.h - the methods beside tools: resources, prompts, completion. Part of
 * frontend.h.
 */
#ifndef BAILEY_RESOURCES_H
#define BAILEY_RESOURCES_H

#include "message.h"

struct call;
struct cJSON;
struct frontend;
struct log_state;

/* ---- contents.c: what resources/read answers ---- */
void contents_send(const struct call *c, const char *uri, const uint8_t *data, size_t len);
/* Both parts of what is kept, and where bytes are missing. */
void contents_send_output(const struct call *c, const char *uri, const struct log_state *s);

/* ---- resources.c, prompts.c: methods of mcp.c's table ---- */
typedef void (*method_handler)(struct frontend *fe, const struct reply_to *to,
			       const struct cJSON *params);
/* bailey://sandboxes/ID/files/PATH, not terminated. */
void resources_file_uri(struct buf *b, const char *sandbox, const char *path);
void resources_list(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void
resources_templates(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void resources_read(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void
resources_subscribe(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
/* What a prompt is built from: the words of prompts.def's column `build`. */
struct prompt_request {
	struct frontend *fe;
	const struct reply_to *to;
	const struct cJSON *params;
	const struct cJSON *arguments; /* checked; NULL: none */
};
void prompts_list(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void prompts_get(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void prompts_complete(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);

#endif
