/*
 * frontend/message.h - one message on its way in and out: transport, gate,
 * text, JSON-RPC. Included by frontend.h.
 */
#ifndef BAILEY_FRONTEND_MESSAGE_H
#define BAILEY_FRONTEND_MESSAGE_H

#include <event2/event.h>

#include "base.h"

struct cJSON;
struct frontend;

#define MESSAGE_MAX ((size_t)8 << 20)     /* one line, without its end */
#define SEND_QUEUE_MAX ((size_t)48 << 20) /* unsent answers; past it the client is cut */
#define BATCH_MAX 64u                     /* elements */
#define RPC_ID_MAX 128u                   /* bytes of a string id or progress token */
#define RPC_TAG_MAX 160u

/* ---- revisions of the protocol, oldest first ---- */
enum mcp_rev {
	REV_NONE,
	REV_2024_11_05,
	REV_2025_03_26, /* + annotations, progress message */
	REV_2025_06_18, /* + title, outputSchema, structuredContent; no batches */
	REV_2025_11_25, /* an error without a readable id has none */
	REV_2026_07_28, /* stateless: every request names its revision */
	REV_COUNT,
};
#define NEWEST_LEGACY REV_2025_11_25
const char *mcp_rev_name(enum mcp_rev rev);  /* era.c */
enum mcp_rev mcp_rev_find(const char *name); /* REV_NONE: unknown */

/* ---- transport.c: what carries messages: stdio.c or http.c ---- */
struct transport;
struct admit_ask;
struct transport_events {
	/* text[len] is NUL; the text may be changed and dies when the handler returns */
	void (*on_message)(void *ctx, char *text, size_t len);
	void (*on_oversize)(void *ctx);        /* a message past MESSAGE_MAX was skipped */
	void (*on_end)(void *ctx, int reason); /* once: 0 end of input, else -errno */
	void (*on_drained)(void *ctx);         /* nothing is left to send */
	/* http: a request wants in; answered by http_admitted */
	void (*on_admit)(void *ctx, const struct admit_ask *ask);
};
/* What a transport other than lines must know of a message it sends. */
struct sent {
	bool more;        /* others for the same request follow: a notification … */
	bool alone;       /* … that belongs to none: only a stream of everything carries it */
	bool refused;     /* an error that says the message itself was not acceptable */
	struct buf *own;  /* the message is this buffer's and it may be taken; NULL: it may not */
	int code;         /* of an error; else 0 */
	enum mcp_rev rev; /* that it is written in */
};
/* Headers that came beside a message; NULL where one is missing. */
struct message_side {
	const char *version, *method, *name;
};
struct transport_ops {
	int (*start)(struct transport *t);
	int (*send)(struct transport *t, char *text, size_t len, const struct sent *as);
	void (*send_nothing)(struct transport *t, bool request);
	size_t (*queued)(const struct transport *t);
	void (*stop_reading)(struct transport *t);
	void (*free)(struct transport *t);
};
struct transport { /* what each kind begins with */
	const struct transport_ops *ops;
	bool end_is_hangup;              /* the input's end says that the client left */
	const struct message_side *side; /* of the message in work; NULL: there are no headers */
};
int transport_start(struct transport *t);
/* Sends one message; text[len] must be writable, it may become the line's end. */
int transport_send(struct transport *t, char *text, size_t len, const struct sent *as);
/* The message in work gets no (further) answer. request: one was due. */
void transport_send_nothing(struct transport *t, bool request);
size_t transport_queued(const struct transport *t);
void transport_stop_reading(struct transport *t);
void transport_free(struct transport *t); /* NULL ok */

/* ---- stdio.c ---- */
/* Takes neither descriptor, puts their flags back at the end. Call before the confinement. */
int stdio_new(struct event_base *base, int in, int out, const struct transport_events *events,
	      void *ctx, struct transport **ret);

/* ---- jsonlint.c: what reaches cJSON went through here ---- */
#define JSON_DEPTH_MAX 32u
#define JSON_VALUES_MAX 65536u
#define JSON_KEYS_MAX 8192u /* in a whole text */
#define JSON_KEY_BYTES_MAX 256u
struct json_lint {
	const char *why; /* NULL: accepted */
	size_t at;       /* byte offset of the fault */
	bool grammar;    /* not JSON at all, or too deep to go on */
	size_t id_at,
		id_len; /* the top object's "id" value where it could be read; id_len 0: none */
	size_t long_at,
		long_len; /* the longest string that is a value and has no escape, unquoted */
};
/* 0, or -EBADMSG with *ret telling why. */
int jsonlint(const char *text, size_t len, struct json_lint *ret);

/* ---- jsonlong.c ---- */
#define JSON_LONG_BYTES ((size_t)64 << 10) /* a string that is worth the way around cJSON */
/* As rpc_parse; where the gate's longest string has that many bytes, it stays in the text, which
 * is changed for it and must not go before what is returned. */
struct cJSON *rpc_parse_long(char *text, size_t len, const struct json_lint *lint, size_t least);

/* ---- text.c: what may be shown as it is ---- */
/* The code point of the n bytes of one valid sequence (utf8_step). */
uint32_t text_code_point(const uint8_t *s, size_t n);
/* A code point that may hide or forge text (controls but \n \t, bidi, tags, …). */
bool text_is_hidden(uint32_t code_point);
/* true when every byte is part of valid UTF-8; *ret_hidden when a hidden code point is among them.
 */
bool text_scan(const uint8_t *s, size_t n, bool *ret_hidden);
/* Appends s, hidden code points as \u{HEX} and the backslash doubled. s is valid UTF-8. */
int text_append_escaped(struct buf *b, const uint8_t *s, size_t n);
/* For words of our own making around foreign ones: hidden code points as \u{HEX}, bytes that are
 * not UTF-8 as U+FFFD, the backslash as it is. */
int text_append_visible(struct buf *b, const uint8_t *s, size_t n);
/* Appends s as a JSON string, quotes included: at most six bytes for one. s is valid UTF-8. What
 * is hidden stands there as \uXXXX, so that it is seen where the JSON itself is shown as text. */
int text_append_json(struct buf *b, const uint8_t *s, size_t n);
/* Largest m <= n such that s[0..m) ends on a code point boundary (n when it is not UTF-8). */
size_t text_floor(const uint8_t *s, size_t n);
/* Bytes to skip at the front to reach a boundary: 0..3. */
size_t text_skip(const uint8_t *s, size_t n);

/* ---- jsonrpc.c ---- */
enum rpc_code {
	RPC_PARSE = -32700,
	RPC_REQUEST = -32600,
	RPC_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_HEADER = -32020, /* http: a header and the message differ */
	RPC_VERSION = -32022,
	RPC_RESOURCE = -32002, /* no such resource; legacy revisions only */
};
enum rpc_id_kind { RPC_ID_NONE, RPC_ID_STRING, RPC_ID_NUMBER };
struct rpc_id { /* a request id or a progress token */
	enum rpc_id_kind kind;
	int64_t number;
	char text[RPC_ID_MAX + 1];
};
/* Where an answer goes. */
struct reply_to {
	struct rpc_id id;
	enum mcp_rev rev;
	uint8_t log_level;         /* enum log_word the request itself asked for; 0: none */
	bool refused;              /* an error to it says that the message is not acceptable */
	uint64_t batch;            /* 0: none */
	char tag[RPC_TAG_MAX + 1]; /* what call_submit is named by for cancel_tag; "" none */
};
enum rpc_kind { RPC_KIND_REQUEST, RPC_KIND_NOTIFICATION, RPC_KIND_RESPONSE };
struct rpc_message {
	enum rpc_kind kind;
	struct rpc_id id;
	const char *method;
	const struct cJSON *params; /* NULL or an object */
};
/* NULL is never returned for text that passed jsonlint, but for lack of memory. */
struct cJSON *rpc_parse(const char *text, size_t len);
/* 0; -EINVAL with *ret_why, and ret->id where it could be read. */
int
rpc_read(const struct cJSON *json, struct rpc_message *ret, int *ret_code, const char **ret_why);
int rpc_read_id(const struct cJSON *item, struct rpc_id *ret);
bool rpc_id_equal(const struct rpc_id *a, const struct rpc_id *b);
struct cJSON *rpc_id_json(const struct rpc_id *id);
/* Each takes result, data and params. */
void rpc_send_result(struct frontend *fe, const struct reply_to *to, struct cJSON *result);
/* Wherever RPC_HOLE stands in the printed result, data as base64: much of it is not printed over
 * and over. No other string of the result may hold that byte; none that is UTF-8 does. */
#define RPC_HOLE "\xff"
void rpc_send_result_filled(struct frontend *fe, const struct reply_to *to, struct cJSON *result,
			    const uint8_t *data, size_t n);
void rpc_send_error(struct frontend *fe, const struct reply_to *to, int code, struct cJSON *data,
		    const char *fmt, ...) PRINTF_LIKE(5, 6);
/* to: the request it belongs to, whose stream carries it; NULL: none. */
void rpc_send_notification(struct frontend *fe, const struct reply_to *to, const char *method,
			   struct cJSON *params);
/* A request to the client, on the stream of the request it belongs to. */
void rpc_send_request(struct frontend *fe, const struct reply_to *to, const char *id,
		      const char *method, struct cJSON *params);
/* No answer (any more): a notification, or a request that was cancelled. */
void rpc_send_nothing(struct frontend *fe, const struct reply_to *to);
/* A batch collects its answers and sends them when the last is in. */
uint64_t rpc_batch_open(struct frontend *fe, size_t elements, enum mcp_rev rev);
void rpc_batches_free(struct frontend *fe);

#endif
