/*
 * broker/box.h - boxes: their stream, their life, the steps of it. Part of
 * broker.h, included by it alone.
 */
#ifndef BAILEY_BOX_H
#define BAILEY_BOX_H

struct owner;

/* ---- session.c: the guest stream of one box ---- */
struct session_run {            /* one run's half of it: from its number to its EXIT */
	uint32_t number;        /* 0: a free place */
	uint64_t sent[STREAMS]; /* 0: stdin bytes we wrote; others: output bytes the guest sent */
	uint64_t granted[STREAMS]; /* cumulative limits of the same */
	uint64_t tail[STREAMS];
	uint64_t marked[STREAMS], marked_tail[STREAMS]; /* of sent and tail: done with */
	uint64_t ordered_seq;                           /* the frame that was its h_run */
	uint32_t spec_bytes;
	bool running, stdin_closed;
	bool told;  /* the guest knows of it: something was written */
	bool ended; /* h_end was written */
};
struct session {
	struct buf rx;
	uint64_t guest_seq, host_seq, host_acked, pong_ms;
	struct session_run run[GUEST_RUNS_MAX];
	uint32_t last_run, unacked, stderr_bytes;
	size_t chatter;      /* bytes without credit since the last ping */
	uint64_t marked_seq; /* up to this guest frame all is done with */
	bool hello, ready;
	bool stands;  /* SYNC was answered: how its runs stand may follow */
	bool doubted; /* no pong has come since another box died: pool_doubt */
};
void session_init(struct session *s);
void session_done(struct session *s);
/* A number for a run, never used before: 0 when as many as a guest takes are going on. It is good
 * until the run's EXIT was handed to the sink, or session_run_close. */
uint32_t session_run_open(struct session *s);
void session_run_close(struct session *s, uint32_t number); /* the guest never heard of it */
struct session_run *session_run(struct session *s, uint32_t number); /* NULL: it is over */
/* Parses and checks; hands each good frame to sink. -EBADMSG at the first bad one. */
int session_feed(struct session *s, const uint8_t *p, size_t n, void *ctx,
		 void (*sink)(void *ctx, const struct guest_frame *f));
/* Checks one frame of a frontend and writes it into out (GUEST_FRAME_MAX): its length,
 * or -EPROTO when the frontend broke a rule. */
int session_host_frame(struct session *s, uint32_t number, uint32_t type, uint32_t stream,
		       const struct ipc_bin *data, uint8_t *out);
/* Takes over a stream that a former broker had: host frames go on behind host_seq. guest_seq and
 * last_run were set before. */
void session_resume(struct session *s, uint64_t host_seq);
/* A run of it, as it was when guest_seq was done with; NULL: no place. */
struct session_run *
session_run_resume(struct session *s, uint32_t number, const uint64_t *sent, const uint64_t *tail);
bool session_owes(const struct session *s, bool now); /* an acknowledgement is due */
bool session_heard(struct session *s);                /* a pong came; true: it ends a doubt */
void session_mark(struct session *s);                 /* what has come so far is done with */
/* All return 0 when there is nothing to write. */
size_t session_ack(struct session *s, uint8_t *out); /* up to the mark */
size_t session_credit(struct session *s, uint32_t number, uint32_t stream, uint64_t limit,
		      uint8_t *out); /* whatever the limit was */
size_t session_end_frame(struct session *s, uint32_t number, enum end_cause cause, uint8_t *out);
/* A grant of our own, for output that is kept and read by nobody. */
size_t session_own_credit(struct session *s, uint32_t number, uint32_t stream, uint8_t *out);

/* ---- box.c: the life of one container ---- */
enum box_state {
#define BOX_STATE(name, text) BOX_##name,
#define BOX_ACTION(name, next)
#define BOX_EVENT(name, ...)
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
	BOX_STATES,
};
enum box_event {
#define BOX_STATE(name, text)
#define BOX_ACTION(name, next)
#define BOX_EVENT(name, ...) ON_##name,
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
	BOX_EVENTS,
};

/* ---- counters.c: what the kernel counted of a box ---- */
struct figures {
	uint32_t have; /* enum host_figure */
	uint64_t cpu_us, current_bytes, peak_bytes, oom_kills, pids_hits;
};
/* A file that is missing or odd just leaves its figure out. current: memory in use now as well,
 * which only a baseline needs; a read costs microseconds of a call. */
void counters_read(const struct counters *c, bool current, struct figures *ret);

enum pooled { POOL_NOT, POOL_STARTING, POOL_READY };
#define TOLD_UNKNOWN UINT64_MAX /* no run's deadline: what it has is said again */
struct box {
	uint64_t id;
	struct broker *b;
	enum box_state state;
	enum box_class box_class;
	bool prestart; /* its guest was told to start the class's interpreter */
	enum pooled pooled;
	bool create_pending; /* the engine still owes the answer to create */
	bool remove_wanted;  /* removal was ordered meanwhile */
	bool pid_known, killed, counted;
	bool asked_list, listed; /* sweep.c: existed when the list was asked for; was in it */
	const struct profile *profile;
	struct limits limits;
	struct owner *owner;            /* NULL while it belongs to the pool */
	TAILQ_HEAD(box_runs, run) runs; /* one at most, unless a sandbox has the box */
	struct sandbox *sandbox;        /* NULL: none, or it has ended */
	enum end_cause cause;
	struct engine_result why; /* of ON_FAILED; borrowed for the event */
	char container[65];
	uint32_t pid, removals, lifetime_s;
	uint32_t away_s; /* with CAUSE_BROKER_GONE: the silence it did not survive; 0 unknown */
	uint8_t secret[32];
	uint64_t end_ns, born_ms, warm_ms, baseline_ms, affinity;
	uint64_t told_ns;         /* the deadline the reaper has; 0: none; or TOLD_UNKNOWN */
	uint32_t pause_us;        /* what its guest was told last: pace.c */
	struct counters counters; /* none before the reaper holds it */
	struct figures baseline;
	struct attach *attach;
	struct session session;
	struct event *timer;
	struct box_spec *spec;
	uint32_t kept; /* its place among what the next broker inherits, or KEEP_NONE */
	struct resume resume;
	TAILQ_ENTRY(box) pool_entry; /* in its pool's ready list while WARM */
	TAILQ_ENTRY(box) grave_entry;
};
TAILQ_HEAD(box_list, box);
void box_event(struct box *x, enum box_event ev);
const char *box_state_name(enum box_state s);
const char *box_event_name(enum box_event ev);
/* The table, for its test: action's name; the state it leads to (BOX_STATES: stays). */
const char *box_cell(enum box_state s, enum box_event ev, enum box_state *ret_next);

/* ---- boxes.c ---- */
/* A new box, its intent sent. NULL when the reaper's link is missing or a table is full. */
struct box *box_new(struct broker *b, const struct profile *p, enum box_class c, bool prestart,
		    const struct limits *limits, uint32_t lifetime_s);
/* A former broker's, CLAIMED; nothing is sent. */
struct box *box_restore(struct broker *b, uint64_t id, const struct profile *p, enum box_class c,
			const struct limits *limits);
struct box *box_find(struct broker *b, uint64_t id);
void box_end(struct box *x, enum end_cause cause); /* ON_END with a cause */
void box_arm(struct box *x, uint32_t ms);          /* ON_TIMER */
void box_disarm(struct box *x);
struct run *box_run(struct box *x, uint32_t number); /* NULL: none of that number */
uint32_t box_count_runs(const struct box *x);
void box_runs_failed(struct box *x);   /* its start failed: see why */
void box_runs_ended(struct box *x);    /* by its cause */
void box_tell_deadline(struct box *x); /* the earliest of its runs, where that changed */
/* Reads the counters anew, as where the next run starts; none is known while they are not there. */
void box_baseline(struct box *x);
int box_send(struct box *x, enum guest_type type, const void *payload, size_t len); /* control */
void box_ping(struct box *x); /* a dead stream says so itself */
/* Acknowledges what came where it is due; now: all of it. */
void box_ack(struct box *x, bool now);
void box_grave_empty(struct broker *b);
void box_discard(struct box *x); /* the process ends: forgets it, tells nobody */
void box_close_stream(struct box *x);
void box_tell_kill(struct box *x);       /* out of the pool; the reaper is to kill it */
void box_bury(struct box *x, bool tell); /* GONE; tell: the reaper must hear of it */

/* ---- pins.c ---- */
uint64_t pins_take_again(struct broker *b, uint64_t mask); /* a former broker took it */
uint64_t pins_take(struct broker *b, uint32_t cpus_milli); /* mask; 0: runs anywhere */
void pins_give(struct broker *b, uint64_t mask);

/* ---- steps.c: what box.c's actions ask of the engine, and its answers ---- */
void steps_fill_spec(struct box *x);
void steps_create(struct box *x);
void steps_check(struct box *x);
void steps_attach(struct box *x);
void steps_start(struct box *x);
void steps_remove(struct box *x);

#endif
