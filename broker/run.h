/*
 * broker/run.h - one call and what it runs. Part of broker.h, included by it
 * alone.
 */
#ifndef BAILEY_RUN_H
#define BAILEY_RUN_H

/* ---- run.c, frames.c: one call ---- */
#define WITHDRAWN_MS 2000u /* for its EXIT, before its sandbox is taken for broken */
enum run_phase { PHASE_QUEUED, PHASE_STARTING, PHASE_GRANTED, PHASE_ACTIVE, PHASE_OVER };
struct run {
	uint64_t id, call;
	uint64_t peer; /* the frontend it came from; 0: a former broker had it */
	struct broker *b;
	struct front *front; /* NULL: its call was answered and it goes on, in a sandbox */
	struct owner *owner;
	enum run_phase phase;
	enum box_class box_class;
	uint32_t flags;
	const struct profile *profile;
	struct limits limits;
	uint32_t ttl_s, idle_s; /* CALL_STAYS */
	enum run_start start;
	struct box *box;
	uint32_t number; /* in its box's stream; 0: none yet */
	bool waits;      /* in its owner's queue */
	bool creates;    /* counts as a sandbox that is to stay */
	bool in_flight;  /* counts for broker.in_flight */
	bool retried, have_exit;
	bool within;    /* runs in a sandbox that stays: its end is not the box's */
	bool withdrawn; /* within: told to end, nobody waits for it */
	bool resumes;   /* a former broker's: its guest has not said yet how it stands */
	bool alone;     /* within: no other run has been going on beside it */
	bool oom;       /* the engine said so while it ran */
	bool paced;     /* it wrote much while its guest was told to pause */
	uint8_t *early; /* payload of h_run that came with the submission; NULL: none, or written */
	size_t early_len;
	bool word_queued; /* call_granted is still in our memory: no RUN may be written */
	uint32_t kept;    /* its place in the store, or STORE_NONE */
	char run_id[33];
	char tag[161];
	uint64_t queued_ms, left_queue_ms, run_us, exit_us;
	uint64_t overtaken_ms; /* in the queue: when one behind it was started first; 0: never */
	uint64_t deadline_ns;  /* the reaper's; 0: none */
	uint64_t run_seq;      /* of its h_run in the box's stream; 0: not written */
	uint64_t awaits; /* the frontend whose call it is, with a former broker; 0: none, or it came
			  */
	/* Of what comes again: bytes that are kept already, that the frontend has; what it granted.
	 */
	uint64_t stored[STREAMS], stored_tail[STREAMS], had[STREAMS], had_tail[STREAMS];
	uint64_t credit[STREAMS];
	struct figures baseline; /* within: as it started */
	struct guest_g_exit exit;
	uint8_t exit_raw[104];
	enum end_cause cause; /* why its box ended without EXIT */
	struct event *timer;  /* by phase: see on_timer */
	TAILQ_ENTRY(run) front_entry, queue_entry, box_entry;
};
struct run *run_new(struct front *f, const struct ipc_call_submit *m, const struct decision *d);
void run_start_in(struct run *r, struct box *x, const struct fit *fit); /* waiting box */
void run_start_cold(struct run *r);
void run_start_within(struct run *r, struct box *x); /* in a sandbox; it has room */
/* The same where the sandbox's session is still to go on; then run_begin_within. */
void run_wait_within(struct run *r, struct box *x);
void run_begin_within(struct run *r);
/* After a former broker: its call is f's again. */
void run_rejoin(struct run *r, struct front *f, uint64_t call);
void run_forget(struct run *r); /* nothing of it began, and its frontend knows */
/* Its call is answered now. In a sandbox what it started is told to end; else its box ends. May
 * free r. */
void run_withdraw(struct run *r, enum run_status status, enum end_cause cause);
void run_cancel(struct run *r, enum end_cause cause); /* the caller is gone or wants no more */
int run_frame_in(struct run *r, const struct ipc_call_frame *m); /* -EPROTO */
void run_words_out(struct front *f); /* everything queued for f has left this process */
void run_finish(struct run *r, enum run_status status, const char *message, uint32_t retry_ms);
/* from box.c */
void run_box_ready(struct run *r);
void run_box_failed(struct run *r, const struct engine_result *why);
void run_box_ended(struct run *r, enum end_cause cause); /* no EXIT came */
void run_guest_frame(struct run *r, const struct guest_frame *f);

/* What run.c and frames.c share. */
void run_grant(struct run *r);        /* r may be gone */
void run_words_follow(struct run *r); /* its specification, unless the word waits; r may be gone */
void run_set_phase(struct run *r, enum run_phase to);
void run_set_timer(struct run *r, uint32_t ms);
void run_account(struct run *r); /* it is over: reads its figures and finishes it; r is gone */
void run_let_go(struct run *r, enum run_status status); /* its call is answered, it goes on */
void run_feed_itself(struct run *r); /* grants what a frontend would have granted */
void run_tell_end(struct run *r, enum end_cause cause);

/* ---- pace.c: who writes much beside whom ---- */
#define PACE_FRAME_LEN (GUEST_HEADER_LEN + 4 + GUEST_CRC_LEN)
void pace_note(struct run *r); /* its EXIT came */
/* What x must be told for r, beside which it may have other runs: its length in out, or 0. */
size_t pace_frame(struct box *x, const struct run *r, uint8_t *out);
void pace_tick(struct box *x); /* each second: others may have come, or gone */
/* Output of r came: counts it, once, when it is one that is slowed down. */
void pace_seen(struct run *r);
uint32_t pace_count(const struct broker *b); /* runs that are slowed down now */

/* ---- verdict.c: facts to status, pure ---- */
struct run_facts {
	const struct guest_g_exit *exit; /* NULL: none came */
	enum end_cause cause;
	bool oom_event; /* counts where the counter cannot be read: it may be late, or a former
			   run's */
	const struct limits *limits;            /* for the words; NULL: not known */
	bool within, alone;                     /* in a sandbox; and by itself there */
	bool unheard;                           /* its guest has not said that h_run reached it */
	uint32_t away_s;                        /* for how long no broker served */
	const struct figures *baseline, *final; /* NULL: not available */
};
enum run_status verdict_status(const struct run_facts *f);
const char *verdict_message(const struct run_facts *f, enum run_status s, char *out, size_t cap);
void verdict_figures(const struct run_facts *f, struct ipc_call_ended *out);
/* cause_sentence, with the broker's silence named where there was one. */
const char *verdict_why(enum end_cause cause, uint32_t away_s, char *out, size_t cap);

#endif
