/*
 * frontend/http.h - the parts of the HTTP transport: head (parser), rules (who
 * may ask what), reply (bytes of answers), and the connection. For http*.c and
 * client.c.
 */
#ifndef BAILEY_FRONTEND_HTTP_H
#define BAILEY_FRONTEND_HTTP_H

#include "message.h"

#define HTTP_HEAD_MAX ((size_t)16384) /* request line and headers */
#define HTTP_FIELDS_MAX 64u
#define HTTP_TARGET_MAX 1024u
#define HTTP_TOKEN_MAX 256u /* as the broker takes it */
#define HTTP_SESSION_LEN 48u

enum http_method {
	HTTP_OTHER,
#define HTTP_METHOD(name) HTTP_##name,
#define HTTP_HEADER(id, name, rule)
#define HTTP_STATUS(code, reason, line)
#define HTTP_ERROR(code, legacy, modern)
#include "http.def"
#undef HTTP_METHOD
#undef HTTP_HEADER
};
enum http_repeat {
	HTTP_ONCE, /* a second one is refused */
	HTTP_LIST, /* several mean their values joined */
};
enum http_header {
#define HTTP_METHOD(name)
#define HTTP_HEADER(id, name, rule) HTTP_H_##id,
#include "http.def"
#undef HTTP_METHOD
#undef HTTP_HEADER
#undef HTTP_STATUS
#undef HTTP_ERROR
	HTTP_HEADERS
};

/* ---- http_head.c ---- */
struct http_head { /* strings point into the text it was parsed from */
	enum http_method method;
	const char *target;
	const char *value[HTTP_HEADERS]; /* NULL: did not come; HTTP_LIST rows: the last one */
	uint64_t length;                 /* of the body */
	bool accepts_json, accepts_stream;
	bool close; /* the client wants no further request */
};
struct http_refusal { // NOLINT(clang-analyzer-optin.performance.Padding): rows read in this order
	unsigned status;
	const char *text;
	bool close; /* at once: what else this client sends is not looked at */
};
/* How long the head in text is, with its empty line; 0 while that has not come; -EBADMSG for a byte
 * no head may hold, -E2BIG past HTTP_HEAD_MAX. *scanned from 0: how far it was looked at. */
ssize_t http_head_end(const char *text, size_t len, size_t *scanned);
/* Parses a whole head in place, text[len] is NUL. NULL, or why not: then nothing behind it is to be
 * trusted. */
const struct http_refusal *http_head_parse(char *text, size_t len, struct http_head *ret);

/* ---- http_rules.c ---- */
struct http_client { /* comma separated, lower case; "" permits none */
	char hosts[2049], origins[2049];
};
/* NULL: the request may go on to the broker's word on token and session. */
const struct http_refusal *
http_rules_check(const struct http_head *head, const struct http_client *client);
/* The token, or NULL when there is none of the right form. */
const char *http_rules_token(const struct http_head *head);
/* Its version header names the stateless revision: no sessions. */
bool http_rules_modern(const struct http_head *head);

/* ---- http_reply.c: appended to a buffer; 0 or -ENOSPC ---- */
struct http_reply {
	unsigned status;
	bool close;          /* nothing is read after it */
	const char *session; /* Mcp-Session-Id to tell; NULL: none */
};
unsigned http_reply_status(const struct sent *as); /* of an answer */
/* A whole answer; len 0: without a body. */
int http_reply_json(struct buf *out, const struct http_reply *r, const char *text, size_t len);
int http_reply_refusal(struct buf *out, const struct http_refusal *why, bool close);
/* Events: the head, messages and comments, the end. */
int http_reply_stream(struct buf *out, const struct http_reply *r);
int http_reply_event(struct buf *out, const char *text, size_t len);
int http_reply_beat(struct buf *out);
int http_reply_stream_end(struct buf *out);

/* ---- http.c, http_send.c: the connection ---- */
struct http_times {
	uint32_t idle_ms; /* between requests */
	uint32_t head_ms; /* from a request's first byte to its head's end; at first: from the start
			   */
	uint32_t admit_ms;  /* for the broker's word */
	uint32_t body_ms;   /* for the whole body */
	uint32_t beat_ms;   /* a sign of life while a call runs */
	uint32_t stall_ms;  /* the client takes nothing of what is queued */
	uint32_t linger_ms; /* after the last answer, for what the client still sends */
};
extern const struct http_times http_times_default;
struct admit_ask {
	const char *token;
	const char *session; /* NULL: none named, or none wanted */
	bool close;          /* the session is to end */
};
enum admit_word {
	ADMIT_YES,
	ADMIT_BAD_TOKEN,
	ADMIT_CROWDED,
	ADMIT_NO_SESSION,
	ADMIT_NO_BROKER,
	ADMIT_WORDS
};
/* Does not take fd, a connected stream socket, but makes it non-blocking. client, times and events
 * must outlive it. */
int
http_new(struct event_base *base, int fd, const struct transport_events *events, void *ctx,
	 const struct http_client *client, const struct http_times *times, struct transport **ret);
/* The answer to on_admit, from inside it or later; once. */
void http_admitted(struct transport *base, enum admit_word word);
/* The answer to the message in work waits for http_session … */
void http_hold(struct transport *base);
/* … and tells the session's id. NULL: there is none, and the client is refused. */
void http_session(struct transport *base, const char *id);

enum http_state {
	HTTP_IDLE,   /* between requests */
	HTTP_HEAD,   /* a head has begun */
	HTTP_ADMIT,  /* the broker is asked about token and session */
	HTTP_BODY,   /* a body comes; kept, or dropped when the request is refused */
	HTTP_WORK,   /* the message was handed over */
	HTTP_LINGER, /* all is said; what still comes is dropped, so that the client reads the
			answer */
	HTTP_OVER,
	HTTP_STATES
};
struct http {
	struct transport base; /* first */
	int fd;
	const struct transport_events *events;
	void *ctx;
	const struct http_client *client;
	const struct http_times *times;
	struct event *read_event, *write_event, *timer, *end_event;
	enum http_state state;
	struct buf in, head_text, body, queue, held;
	size_t scanned; /* bytes of in known to hold no whole head */
	struct http_head head;
	const struct http_refusal *refusal; /* told once the body was dropped */
	struct message_side side;
	struct sent held_as;
	char session[HTTP_SESSION_LEN + 1]; /* to tell with the answer; "" none */
	uint64_t body_left;
	bool streaming; /* the answer's head is out, as an event stream */
	bool holding;   /* the answer waits for a session's id */
	bool closing;   /* this request is the last */
	bool known;     /* the broker knew the token of a request */
	bool stepping, stopped;
	int end_reason;
};
void http_arm(struct http *t, uint32_t ms);
/* Reported from the loop, never from inside a caller's send. */
void http_end(struct http *t, int reason);
/* http_send.c */
int http_send(struct transport *base, char *text, size_t len, const struct sent *as);
void http_send_nothing(struct transport *base, bool request);
/* Answers the request in work by a refusal, and ends the connection where that says so. */
void http_refuse(struct http *t, const struct http_refusal *why);
void http_send_interim(struct http *t);
void http_send_empty(struct http *t, unsigned status);
/* A sign of life; begins the stream. */
void http_send_beat(struct http *t);
void http_on_writable(evutil_socket_t fd, short what, void *arg);

#endif
