/*
 * frontend/frontend.h - the process that reads what a client sends.
 *
 * One process per client connection. The walk of a request: stdio.c (a line) or
 * http.c (a POST; client.c asks who it is) -> jsonlint.c (gate) -> jsonrpc.c (message) -> era.c,
 * mcp.c (method) -> tools.c, args.c (arguments) -> specs.c (what to run) -> calls.c (in flight) ->
 * upcalls.c (broker), and back through output.c, progress.c, result.c, jsonrpc.c, stdio.c.
 */
#ifndef BAILEY_FRONTEND_H
#define BAILEY_FRONTEND_H

#include "base.h"
#include "call.h"
#include "http.h"
#include "ipc.h"
#include "message.h"
#include "resources.h"
#include "tool.h"

#define LOG_LINES_PER_10S 20u /* of each kind that others provoke */
#define LEAVE_WAIT_MS 500u    /* for unsent answers at the end */
#define ALONE_MAX_S 70        /* a broker is restarted within 60 s; past it the link was refused */

/* ---- mcp.c ---- */
void mcp_on_message(void *ctx, char *text, size_t len);
void mcp_on_oversize(void *ctx);
/* Lists have one page: a request with a cursor was answered with an error. */
bool mcp_cursor_refused(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
void mcp_send_progress(struct frontend *fe, const struct reply_to *to, const struct rpc_id *token,
		       uint64_t progress, const char *message);

/* ---- era.c ---- */
enum era { LEGACY = 1, MODERN = 2, BOTH = 3 };
/* The revision of what does not name one. */
enum mcp_rev era_assumed(const struct frontend *fe);
/* The era of a message, to->rev with it. 0: its headers do not fit it, and the error was sent. */
unsigned era_of(struct frontend *fe, struct reply_to *to, const struct rpc_message *message);
/* What every modern request carries is whole; else the error was sent. */
bool era_envelope_ok(struct frontend *fe, struct reply_to *to, const struct cJSON *params);

/* ---- client.c: how the client is connected; over http also who it is ---- */
enum client_asks {
	CLIENT_ASKS_NOTHING,
	CLIENT_TOKEN,
	CLIENT_CHECKS, /* a session */
	CLIENT_CLOSES,
	CLIENT_OPENS,
};
struct client {
	enum client_kind kind; /* 0 until the supervisor told */
	struct http_client names;
	char token[HTTP_TOKEN_MAX + 1];     /* "" until one came */
	bool bound;                         /* the broker knew it */
	char session[HTTP_SESSION_LEN + 1]; /* of the message in work; "" none */
	char asked[HTTP_SESSION_LEN + 1];   /* the one in question */
	bool closes;
	enum client_asks asks; /* what the broker has not answered */
	enum mcp_rev opens_rev;
	uint64_t no, token_no, last_no; /* of the rows that ask */
};
void client_on_admit(void *ctx, const struct admit_ask *ask); /* of struct transport_events */
void client_link_up(struct frontend *fe);                     /* first of all rows on a new link */
bool client_has_sessions(const struct frontend *fe);
/* initialize over http: its answer waits for the session. */
void client_open_session(struct frontend *fe);
/* The log level the client set holds for its session, where it has one. */
void client_note_level(struct frontend *fe);
/* What a call is named by on other connections of its session; "" where there are none. */
void client_tag(const struct frontend *fe, const struct rpc_id *id, char ret[RPC_TAG_MAX + 1]);
void client_cancel(struct frontend *fe, const struct rpc_id *id);
void frontend_on_client(void *ctx, struct link *l, const struct ipc_row *row);
void frontend_on_auth_end(void *ctx, struct link *l, const struct ipc_row *row);
void frontend_on_session_row(void *ctx, struct link *l, const struct ipc_row *row);

/* ---- main.c ---- */
struct frontend {
	struct event_base *base;
	struct transport *transport;
	struct link *supervisor, *broker;
	int peer_fd; /* came with a peer message, not yet in place; -1 */
	bool configured, warm_due, warmed;
	struct client client;
	enum mcp_rev negotiated; /* by initialize, http: of the session; REV_NONE without */
	struct idmap *calls;
	struct call *call_list;
	uint64_t last_call, last_batch;
	size_t held_bytes;
	struct rpc_batch *batches;
	uint32_t default_timeout_ms; /* of the default profile, once a grant told it */
	struct {                     /* the same of the sandbox used last */
		char id[SANDBOX_ID_LEN + 1];
		uint32_t timeout_ms;
	} last_sandbox;
	uint32_t client_can; /* enum client_can, by initialize */
	struct ask *asks;
	uint8_t log_level; /* enum log_word by logging/setLevel, http: of the session; 0: nothing is
			      logged to the client */
	struct event *leave_timer, *memory_timer;
	bool leaving, finishing;
	int exit_code;
	struct log_limit client_log, broker_log;
};

/* ---- memory.c ---- */
void memory_init(void); /* before anything is allocated; from here on "no memory" is fatal */
int memory_open(struct frontend *fe);
void memory_close(struct frontend *fe);
void memory_used(struct frontend *fe); /* a call ended; a closed one is no error */

/* ---- leave.c ---- */
extern const struct transport_events frontend_events;
int leave_init(struct frontend *fe);
/* Stop reading, send what is queued for at most wait_ms, then leave the loop. */
void frontend_leave(struct frontend *fe, int exit_code, uint32_t wait_ms);
/* No broker link (any more): without a new one in ALONE_MAX_S the frontend ends with 1. */
void frontend_alone(struct frontend *fe, bool alone);
/* Called when a call ended: leaves when the input is over and nothing is in flight. */
void frontend_idle(struct frontend *fe);

#endif
