/*
 * broker/engine_parts.h - what the files behind engine.h share: HTTP, the
 * Docker endpoints, bodies and replies. Nothing else in broker/ includes it.
 */
#ifndef BAILEY_ENGINE_PARTS_H
#define BAILEY_ENGINE_PARTS_H

#include "engine.h"

#define ENGINE_MESSAGE_MAX 401u /* an engine_result's message with its NUL */
#define ENGINE_API_MIN 40u      /* 1.x: NonRecursive binds need it */
#define ENGINE_API_MAX 45u      /* the newest whose replies the check table was written for */
#define ENGINE_PRODUCT "bailey"
#define ENGINE_LABEL "io.bailey."

struct cJSON;
struct http;
struct http_op;
struct http_raw;

/* ---- http.c: requests and raw connections, in the loop; callbacks never come from inside a
 * starting call, nor from inside curl: they may start, cancel and free anything ---- */
struct http_reply {
	int err;             /* 0: an answer came whole, whatever its status */
	int status;          /* 0 when not even a status came */
	const char *message; /* why err, printable; "" */
	const char *api;     /* the Api-Version header, "" */
	const uint8_t *body; /* borrowed */
	size_t len;
};
struct http_request {
	const char *method; /* GET, POST, DELETE: a literal */
	const char *path;   /* copied */
	const char *body;   /* copied; NULL none */
	size_t body_len;
	uint32_t deadline_ms; /* of a stream: until its headers */
	size_t reply_max;     /* of a stream: unread bytes */
	void *ctx;
	void (*done)(void *ctx, const struct http_reply *r); /* once; op is gone */
	/* Both set for a stream that answers with 200: told once, then fed whatever came; fed
	 * consumes what it can. done comes when the stream ends. */
	void (*opened)(void *ctx);
	void (*fed)(void *ctx, struct buf *in);
};
/* Once per process and before it is confined: what libcurl and TLS read from files. */
int http_global_init(void);
struct http *http_new(struct event_base *base, const struct engine_config *config);
void http_free(struct http *h);               /* ops and raws become invalid */
const char *http_where(const struct http *h); /* "unix:/path", "tcp://host:port" for people */
const char *http_host(const struct http *h);  /* for a Host header */
struct http_op *http_start(struct http *h, const struct http_request *req);
void http_cancel(struct http_op *op); /* no callback */

/* A connection without HTTP on it, by CURLOPT_CONNECT_ONLY (TLS included). */
struct http_raw *http_raw_open(struct http *h, uint32_t deadline_ms, void *ctx,
			       void (*opened)(void *ctx, int err, const char *message));
int http_raw_fd(const struct http_raw *raw);          /* after opened; to be watched by its user */
bool http_raw_same_retry(const struct http_raw *raw); /* after -EAGAIN the same bytes must follow */
ssize_t http_raw_send(struct http_raw *raw, const void *p, size_t n); /* -EAGAIN, -EPIPE */
ssize_t http_raw_recv(struct http_raw *raw, void *p, size_t n);       /* 0 EOF; -EAGAIN, -EPIPE */
void http_raw_close(struct http_raw *raw); /* stop watching the fd first */

/* ---- docker_api.c ---- */
struct engine {
	struct event_base *base;
	struct http *http;
	struct engine_config config;
	struct engine_info info; /* of the last probe; api "1.40" before */
	struct engine_call *calls;
	struct attach *attaches;
	struct engine_stream *stream; /* /events; NULL before engine_events */
};
/* The code of engine.h for an answer's status that was not the expected one. */
int docker_status_err(int status);
bool docker_id_ok(const char *id);     /* 64 hex */
bool docker_name_ok(const char *name); /* a container's name or id */

/* ---- docker_events.c ---- */
void docker_events_stop(struct engine *e);

/* ---- docker_body.c: cJSON user ---- */
/* The create body, the one description of a box: it is sent, and it is what docker_check compares
 * the container with. NULL when memory is out or spec has a figure out of range. */
struct cJSON *docker_body_tree(const struct box_spec *spec, const struct engine_info *info);
char *docker_body_update(uint64_t memory_bytes, uint32_t cpus_milli); /* free() */

/* ---- docker_check.c: cJSON user ---- */
/* Whether an inspect reply has the limits an update was to set (0: was not touched). As below. */
int docker_check_update(const uint8_t *body, size_t len, uint64_t memory_bytes, uint32_t cpus_milli,
			const char **ret_field);
/* Compares an inspect reply with what docker_body_tree says. -EPERM: *ret_field names the first
 * field that differs (a literal); -EPROTO: not an inspect reply. */
int docker_check(const uint8_t *body, size_t len, const struct box_spec *spec,
		 const struct engine_info *info, const char **ret_field);
/* Row i of the table, for tests; NULL past its end. */
const char *docker_check_field(size_t i);

/* ---- docker_reply.c: cJSON user; untrusted text in, typed structs out; -EPROTO ---- */
/* The "message" of an error reply, or the start of a text that is none, made printable. */
void docker_reply_message(const uint8_t *body, size_t len, char out[ENGINE_MESSAGE_MAX]);
int docker_reply_created(const uint8_t *body, size_t len, char ret_id[65]);
int docker_reply_image(const uint8_t *body, size_t len, char ret_id[72]);
int docker_reply_pid(const uint8_t *body, size_t len, uint32_t *ret_pid); /* 0: not running */
int docker_reply_version(const uint8_t *body, size_t len, struct engine_info *info);
int docker_reply_info(const uint8_t *body, size_t len, struct engine_info *info);
/* Containers without our label or with broken label values are left out; free() *ret. */
int
docker_reply_list(const uint8_t *body, size_t len, struct engine_container **ret, size_t *ret_n);
/* One line of /events: 1 an event of ours, 0 something else, -EPROTO no JSON object. */
int docker_reply_event(const uint8_t *line, size_t len, struct engine_event *ret);
/* "1.41" → 41; -EPROTO. */
int docker_reply_api(const char *text, uint32_t *ret_minor);

/* ---- stdcopy.c: the 8-byte frames of an attach stream; untrusted ---- */
#define STDCOPY_FRAME_MAX (4u * 1024 * 1024)
struct stdcopy {
	uint8_t head[8];
	uint32_t have; /* bytes of head */
	uint32_t left; /* payload bytes still to come */
	int stream;
};
/* Takes the next piece of a frame from *p, *n (both advanced). 1: *ret_piece, *ret_len of stream
 * *ret_stream (0..3, never empty); 0: more bytes needed; -EPROTO: not a frame, give up. */
int stdcopy_next(struct stdcopy *s, const uint8_t **p, size_t *n, int *ret_stream,
		 const uint8_t **ret_piece, size_t *ret_len);

/* ---- attach.c ---- */
/* Reads the answer to the upgrade request at in (ended by a NUL or not part of a string: the bytes
 * after len are not looked at beyond a line's end). 0 more bytes needed; > 0 bytes of header;
 * -EPROTO. Strict: HTTP/1.1, header lines of visible text, CRLF, <= 8 KiB; below 300 only a 101
 * with "Upgrade: tcp" or a 200 of Docker's stream type, neither with a body of its own. */
struct attach_head {
	int status;
	bool has_body, upgraded, stream;
};
ssize_t attach_head_parse(const uint8_t *in, size_t len, struct attach_head *ret);
void attach_engine_gone(struct attach *a); /* engine_free */

#endif
