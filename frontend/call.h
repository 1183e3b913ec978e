/*
 * frontend/call.h - a request in flight: its plan, its exchanges with the broker, its output and
 * progress. Included by frontend.h.
 *
 * A call is what a client asked for and waits for. Its plan is a table of steps;
 * each step is one exchange with the broker, or several of the same kind, each
 * under a number of its own. Most plans have one step: a run, a listing.
 */
#ifndef BAILEY_FRONTEND_CALL_H
#define BAILEY_FRONTEND_CALL_H

#include "base.h"
#include "ipc.h"
#include "message.h"

struct call;
struct cJSON;

#define CALLS_MAX 128u                     /* in flight */
#define CALLS_BYTES_MAX ((size_t)16 << 20) /* code, stdin and files of all of them */
#define ANSWER_GROWTH 3u                   /* of a file's bytes: base64, twice in one answer */
#define STDIN_MAX ((size_t)4 << 20)
#define OUTPUT_HEAD ((size_t)24576)
#define OUTPUT_TAIL ((size_t)8192)
#define LOST_WAIT_MS 2000u    /* for a new broker, then engine_unavailable */
#define RESUME_WAIT_MS 15000u /* the same where a sandbox may outlive the old one */
#define SANDBOX_ID_LEN 32u

/* ---- output.c: what is kept of one stream: head and tail, or all of it up to a maximum ---- */
struct output {
	struct buf head, tail;
	size_t head_max;
	bool whole;             /* head is everything; no tail */
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
/* From now on one that was initialised keeps the first max bytes and nothing else. */
void output_init_whole(struct output *o, size_t max);
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

/* ---- plans ---- */
enum step_flag {
	STEP_RUN = 1,    /* a call_submit: the broker is told when it is given up */
	STEP_OUTPUT = 2, /* its stdout and stderr are the client's to follow */
	STEP_QUEUES = 4, /* may wait inside the sandbox for others before it starts */
};
struct step {
	unsigned flags; /* enum step_flag */
	/* Prepares the next exchange: true; false: there is none (any more). NULL: one exchange,
	 * prepared by whoever started the call. */
	bool (*begin)(struct call *c);
	int (*submit)(struct call *c); /* of upcalls.c */
	/* Rows that answer it, beside those of a run; NULL: none are expected. */
	void (*row)(struct call *c, const struct ipc_row *row);
	/* Forgets them: another broker is asked anew. Set where row is. */
	void (*again)(struct call *c);
	/* What it came to: false ends the plan. NULL: true. */
	bool (*end)(struct call *c, const struct ipc_call_ended *ended);
};
struct plan {
	const struct step *steps;
	size_t n;
	/* Sends the one answer; ended is that of the last exchange, c->step tells which. */
	void (*answer)(struct call *c, const struct ipc_call_ended *ended);
	void (*done)(void *job); /* frees c->job; NULL where it is plain memory */
};

/* ---- calls.c ---- */
enum call_state {
	CALL_WAITING, /* no broker to give it to */
	CALL_SUBMITTED,
	CALL_GRANTED,
	CALL_RESUMING,  /* granted, in a sandbox; its broker was lost and the next one goes on */
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
	EV_RESUMED,
	CALL_EVENTS,
};
struct call_limits { /* what was asked for: 0 = the profile's */
	char profile[65], image[257];
	uint32_t timeout_ms, cpus_milli;
	uint64_t memory_bytes;
	uint32_t ttl_s, idle_s;
};
struct call_grant {
	uint32_t start, queue_ms, timeout_ms, cpus_milli, pids;
	char run_id[33];
	char sandbox[SANDBOX_ID_LEN + 1]; /* "" of a single use */
	uint64_t memory_bytes, workspace_bytes, tmp_bytes, ttl_ms, idle_ms;
};
struct call_log { /* what a log_read asks for */
	char id[33];
	uint32_t stream, limit;
	bool from_end;
	uint64_t offset;
};
struct call {
	struct frontend *fe;
	uint64_t no; /* of the exchange going on */
	struct reply_to to;
	const struct plan *plan;
	size_t step;
	void *job; /* what the plan's steps work on */
	enum call_state state;
	/* of the exchange going on */
	bool resubmitted;
	enum box_class box_class;
	uint32_t flags; /* enum call_flag */
	struct call_limits ask;
	char sandbox[SANDBOX_ID_LEN + 1]; /* it is about this one; "" none */
	bool nowhere;                     /* about one whose id is none: never submitted */
	struct call_log log;
	struct call_grant grant; /* run_id "" before the grant */
	struct buf spec;         /* encoded, timeout not yet known */
	uint32_t spec_flags;     /* enum spec_flag, added to it when it is sent */
	bool spec_sent;          /* it went with the submission */
	struct buf input;        /* stdin not yet sent; all of it where call_is_kept */
	uint64_t input_sent, input_credit;
	bool input_open;                /* its end was not sent */
	bool input_given;               /* it has one */
	struct output out[STREAMS - 1]; /* by stream: stdout, stderr, value */
	/* of the whole call */
	char hold[SANDBOX_ID_LEN + 1]; /* a sandbox that ends with the call */
	size_t held_bytes;             /* counted against CALLS_BYTES_MAX */
	struct progress progress;
	struct event *timer;
	struct call *next;
};
/* Each returns NULL when CALLS_MAX is reached. */
struct call *call_new(struct frontend *fe, const struct reply_to *to, const struct plan *plan);
void call_free(struct call *c);
struct call *call_find(struct frontend *fe, uint64_t no);
struct call *call_find_id(struct frontend *fe, const struct rpc_id *id);
/* Counts bytes against CALLS_BYTES_MAX: -ENOBUFS. */
int call_hold(struct call *c, size_t bytes);
void call_start(struct call *c);
const struct step *call_step(const struct call *c);
void call_renumber(struct call *c); /* it waits for a broker, at the end of the list */
void call_arm(struct call *c, uint64_t ms);
void call_arm_granted(struct call *c);
/* arg: struct ipc_run_frame, ipc_call_granted or ipc_call_ended where the event has one. The call
 * may be gone afterwards. */
void call_event(struct call *c, enum call_event ev, const void *arg);
void call_answer(struct call *c, enum run_status status); /* ends it without the broker's word */
void calls_event_all(struct frontend *fe, enum call_event ev);
void calls_answer_all(struct frontend *fe, enum run_status status);
void calls_free_all(struct frontend *fe);

/* ---- resume.c: runs that go on without a broker for some seconds ---- */
bool call_is_kept(const struct call *c);       /* what was sent of it may be needed again */
uint64_t resume_wait_ms(const struct call *c); /* how long to wait for the next broker */
void resume_cut(struct call *c);               /* it was granted, and the broker is lost */
void resume_answered(struct call *c, const struct ipc_call_resumed *row);

/* ---- upcalls.c: everything to and from the broker and the supervisor ---- */
int upcalls_open(struct frontend *fe, uint32_t layers);
void upcalls_close(struct frontend *fe);
bool upcalls_ready(const struct frontend *fe);
void upcalls_warm(struct frontend *fe); /* at most one hint per link */
/* What a step's submit may be. */
int upcalls_submit(struct call *c);
int upcalls_health(struct call *c);
int upcalls_list(struct call *c);
int upcalls_destroy(struct call *c);
int upcalls_log_read(struct call *c);
int upcalls_cancel(const struct call *c);
/* A response for another connection of the owner, that asked with this id. */
int upcalls_answer(struct frontend *fe, const char *id, const char *text, size_t len);
/* Ends a sandbox without waiting for the answer. */
void upcalls_discard(struct frontend *fe, const char *sandbox);
int upcalls_resume(struct call *c); /* of one that is kept, to the next broker */
int upcalls_run(struct call *c);    /* after the grant: the spec unless it was sent, first stdin */
int upcalls_stdin(struct call *c);  /* as far as the credit goes */
int upcalls_credit(const struct call *c, unsigned stream, uint64_t limit);

#endif
