/*
 * frontend/frontend.h - the process that reads what a client sends.
 *
 * One process per client connection. The walk of a request: stdio.c (a line)
 * -> jsonlint.c (gate) -> jsonrpc.c (message) -> mcp.c (method) -> tools.c
 * (arguments) -> calls.c (in flight) -> upcalls.c (broker), and back through
 * output.c, progress.c, result.c, jsonrpc.c, stdio.c.
 */
#ifndef BAILEY_FRONTEND_H
#define BAILEY_FRONTEND_H

#include "base.h"
#include "ipc.h"
#include "message.h"

#define CALLS_MAX 128u                     /* in flight */
#define CALLS_BYTES_MAX ((size_t)16 << 20) /* code and stdin of all of them */
#define STDIN_MAX ((size_t)4 << 20)
#define OUTPUT_HEAD ((size_t)24576)
#define OUTPUT_TAIL ((size_t)8192)
#define LOST_WAIT_MS 2000u    /* for a new broker, then engine_unavailable */
#define LOG_LINES_PER_10S 20u /* of each kind that others provoke */
#define LEAVE_WAIT_MS 500u    /* for unsent answers at the end */
#define ALONE_MAX_S 70        /* a broker is restarted within 60 s; past it the link was refused */

struct call;

/* ---- mcp.c ---- */
void mcp_on_message(void *ctx, char *text, size_t len);
void mcp_on_oversize(void *ctx);
const char *mcp_rev_name(enum mcp_rev rev);
void mcp_send_progress(struct frontend *fe, const struct reply_to *to, const struct rpc_id *token,
		       uint64_t progress, const char *message);

/* ---- tools.c, schema.c: tools.def ---- */
enum tool_no {
#define TOOL(name, listed, shape, hints, title, description) TOOL_##name,
#define ARG(tool, name, type, required, min, max, choices, help)
#include "tools.def"
#undef TOOL
#undef ARG
	TOOL_COUNT
};
enum tool_hint { HINT_READ_ONLY = 1, HINT_IDEMPOTENT = 2 };
enum tool_shape { /* of a result */
#define SHAPE(name) SHAPE_##name,
#define OUT(shape, name, type, nested, help)
#include "results.def"
#undef SHAPE
#undef OUT
		  SHAPE_COUNT
};
enum arg_type {
	ARG_STRING,  /* min..max bytes */
	ARG_CHOICE,  /* one word of choices */
	ARG_INTEGER, /* min..max */
	ARG_NUMBER,  /* min..max thousandths */
	ARG_STRINGS, /* at most max strings */
	ARG_STRMAP,  /* object of strings, at most max */
};
struct tool_row {
	const char *name;
	bool listed;
	enum tool_shape shape;
	unsigned hints;
	const char *title, *description;
};
struct arg_row {
	enum tool_no tool;
	const char *name;
	enum arg_type type;
	bool required;
	uint64_t min, max;
	const char *choices; /* "a|b", "" where none */
	const char *help;
};
extern const struct tool_row tool_rows[TOOL_COUNT];
extern const struct arg_row arg_rows[];
extern const size_t arg_row_count;
/* The next argument row of a tool; cursor from 0; NULL at the end. */
const struct arg_row *arg_next(enum tool_no tool, size_t *cursor);
struct cJSON *schema_tool(enum tool_no tool, enum mcp_rev rev); /* one element of tools/list */
struct cJSON *schema_shape(enum tool_shape wanted);
void tools_call(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
/* Checks arguments against the table; -EINVAL with a sentence in why. */
int tools_check(enum tool_no tool, const struct cJSON *args, struct buf *why);

/* ---- output.c: the head and tail of one stream ---- */
struct output {
	struct buf head, tail;
	uint64_t received;      /* bytes of g_out and g_tail */
	uint64_t tail_received; /* of them g_tail */
	uint64_t credit;        /* limit granted so far */
};
struct output_view {
	const uint8_t *head, *tail;
	size_t head_len, tail_len; /* tail_len 0: head is everything */
	uint64_t bytes, omitted;
	bool utf8, hidden;
};
void output_init(struct output *o);
void output_done(struct output *o);
void output_add(struct output *o, const uint8_t *data, size_t len, bool tail);
/* true when a new limit should be granted; it counts as granted then. */
bool output_credit(struct output *o, uint64_t *ret_limit);
/* At the end, once. written, dropped: as the guest reported, 0 when it did not. */
void output_view(struct output *o, uint64_t written, uint64_t dropped, struct output_view *ret);

/* ---- progress.c ---- */
struct progress {
	struct rpc_id token; /* kind NONE: not asked for */
	uint64_t sent;       /* notifications so far */
	uint64_t last_ms;
	uint64_t started_ms;
	bool any_output;
	struct buf lines; /* output not told yet */
	struct event *timer;
};
int progress_init(struct call *c, const struct rpc_id *token);
void progress_done(struct progress *p);
void progress_output(struct call *c, const uint8_t *data, size_t len);

/* ---- calls.c ---- */
enum call_kind { CALL_RUN, CALL_HEALTH };
enum call_state {
	CALL_WAITING, /* no broker to give it to */
	CALL_SUBMITTED,
	CALL_GRANTED,
	CALL_CANCELLED, /* the broker was told; nothing is answered any more */
	CALL_STATES,
};
enum call_event {
	EV_LINK_UP,
	EV_LINK_DOWN,
	EV_GRANTED,
	EV_FRAME,
	EV_ENDED,
	EV_CANCEL,
	EV_TIMER,
	CALL_EVENTS,
};
struct call_limits { /* what was asked for: 0 = the profile's */
	char profile[65], image[257];
	uint32_t timeout_ms, cpus_milli;
	uint64_t memory_bytes;
};
struct call_grant {
	uint32_t start, queue_ms, timeout_ms, cpus_milli, pids;
	char run_id[33];
	uint64_t memory_bytes, workspace_bytes, tmp_bytes;
};
struct call {
	struct frontend *fe;
	uint64_t no;
	struct reply_to to;
	enum call_kind kind;
	enum call_state state;
	bool resubmitted;
	enum box_class box_class;
	uint32_t flags; /* enum call_flag */
	struct call_limits ask;
	struct call_grant grant; /* run_id "" before the grant */
	struct buf spec;         /* encoded, timeout not yet known */
	bool spec_sent;          /* it went with the submission */
	struct buf input;        /* stdin not yet sent */
	size_t held_bytes;       /* counted against CALLS_BYTES_MAX */
	uint64_t input_sent, input_credit;
	bool input_open;
	struct output out[2]; /* stdout, stderr */
	struct progress progress;
	struct cJSON *health;
	uint64_t created_ms;
	struct event *timer;
	struct call *next;
};
/* Each returns NULL when CALLS_MAX is reached. */
struct call *call_new(struct frontend *fe, const struct reply_to *to, enum call_kind kind);
void call_free(struct call *c);
struct call *call_find(struct frontend *fe, uint64_t no);
struct call *call_find_id(struct frontend *fe, const struct rpc_id *id);
/* Counts bytes against CALLS_BYTES_MAX: -ENOBUFS. */
int call_hold(struct call *c, size_t bytes);
void call_start(struct call *c);
/* arg: struct ipc_run_frame, ipc_call_granted or ipc_call_ended where the event has one. The call
 * may be gone afterwards. */
void call_event(struct call *c, enum call_event ev, const void *arg);
void call_answer(struct call *c, enum run_status status); /* ends it without the broker's word */
void calls_event_all(struct frontend *fe, enum call_event ev);
void calls_answer_all(struct frontend *fe, enum run_status status);
void calls_free_all(struct frontend *fe);

/* ---- result.c ---- */
/* structuredContent of a run: ended as the broker said; c is NULL where there was no call. */
struct cJSON *result_run(struct call *c, const struct ipc_call_ended *ended);
void result_send_run(struct frontend *fe, const struct reply_to *to, struct call *c,
		     const struct ipc_call_ended *ended);
/* Sends structured (taken) as a tool's result. */
void result_send(struct frontend *fe, const struct reply_to *to, struct cJSON *structured,
		 bool is_error);
void result_send_refusal(struct frontend *fe, const struct reply_to *to, const char *why);
/* Adds resultType and serverInfo where the revision has them. */
void result_finish(struct cJSON *result, enum mcp_rev rev);
void result_add_milli(struct cJSON *object, const char *name, uint64_t thousandths); /* exact */

/* ---- health.c ---- */
struct cJSON *health_new(void);
void health_free(struct cJSON *health);
void health_row(struct cJSON *health, const struct ipc_row *row);
void health_send(struct call *c, enum run_status status); /* status counts where no row told one */

/* ---- upcalls.c: everything to and from the broker and the supervisor ---- */
int upcalls_open(struct frontend *fe, uint32_t layers);
void upcalls_close(struct frontend *fe);
bool upcalls_ready(const struct frontend *fe);
void upcalls_warm(struct frontend *fe); /* at most one hint per link */
int upcalls_submit(struct call *c);
int upcalls_cancel(const struct call *c);
int upcalls_run(struct call *c);   /* after the grant: the spec unless it was sent, first stdin */
int upcalls_stdin(struct call *c); /* as far as the credit goes */
int upcalls_credit(const struct call *c, unsigned stream, uint64_t limit);

/* ---- main.c ---- */
struct frontend {
	struct event_base *base;
	struct transport *transport;
	struct link *supervisor, *broker;
	int peer_fd; /* came with a peer message, not yet in place; -1 */
	bool configured, warm_due, warmed;
	enum mcp_rev negotiated; /* by initialize; REV_NONE before */
	struct idmap *calls;
	struct call *call_list;
	uint64_t last_call, last_batch;
	size_t held_bytes;
	struct rpc_batch *batches;
	uint32_t default_timeout_ms; /* of the default profile, once a grant told it */
	struct event *leave_timer;
	bool leaving, finishing;
	int exit_code;
	struct log_limit client_log, broker_log;
};

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
