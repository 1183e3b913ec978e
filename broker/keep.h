/*
 * broker/keep.h - what the next broker must know of sandboxes that stay. Part of broker.h,
 * included by it alone.
 */
#ifndef BAILEY_KEEP_H
#define BAILEY_KEEP_H

/* ---- keep.c: records in memory that outlives this process ----
 * All of it takes a NULL keep (nothing is kept) and KEEP_NONE. */
#define KEEP_NONE UINT32_MAX
#define KEEP_AT ((off_t)67 << 20) /* behind the kept output, in the same memfd */
#define KEEP_BYTES ((size_t)8 << 20)
#define KEEP_ENDED_MAX 1024u
/* KEEP_PARTS: no run, only a number whose parts the guest was told to throw away. */
enum keep_run_state { KEEP_WITHDRAWN = 1, KEEP_ALONE = 2, KEEP_PARTS = 4 };
struct keep_run {
	uint32_t number, flags, state, start;
	uint64_t front, call; /* whose call it is; front 0: nobody waits for it */
	uint64_t ordered_seq; /* the host frame that holds its h_run; 0: not written */
	uint64_t deadline_ns, run_us;
	uint64_t sent[STREAMS], tail[STREAMS]; /* output up to the box's guest_seq */
	struct limits limits;
	char run_id[33];
};
struct keep_name { /* a sandbox, living or ended */
	uint32_t owner_kind, keep;
	uint64_t owner_number, front;
	char id[33], principal[65], profile[65];
	uint64_t memory_bytes, born_ms, used_ms, ttl_ms, idle_ms;
	uint32_t cpus_milli;
};
struct keep_box {
	uint32_t crc, n_runs; /* crc of all behind it, to the last run */
	uint64_t seq;         /* of two whole copies the greater one counts */
	uint64_t box;         /* 0: the place is free */
	struct keep_name name;
	char container[65];
	uint32_t box_class, lifetime_s, last_run;
	uint64_t guest_seq; /* everything up to this guest frame is done with */
	uint64_t born_ms, end_ns, affinity;
	struct limits limits;
	struct keep_run run[GUEST_RUNS_MAX];
};
struct keep_ended {
	uint32_t crc, used;
	struct keep_name name;
	uint32_t cause, away_s;
	uint64_t ended_ms;
};
struct keep;
struct box;
struct sandbox;
struct broker;
struct front;
struct link;
struct ipc_row;
struct ipc_call_frame;
struct run;
int keep_open(int fd, off_t at, struct keep **ret); /* -EINVAL: too small */
void keep_close(struct keep *k);
uint32_t keep_new(struct keep *k); /* a place for a living one; KEEP_NONE when all are taken */
void keep_put(struct keep *k, uint32_t place, struct keep_box *b); /* n_runs runs of it */
void keep_free(struct keep *k, uint32_t place);
uint32_t keep_put_ended(struct keep *k, struct keep_ended *e);
void keep_free_ended(struct keep *k, uint32_t place);
/* What a former broker left, one after the other from *cursor 0; false at the end. */
bool keep_next(struct keep *k, uint32_t *cursor, uint32_t *ret_place, struct keep_box *ret);
bool keep_next_ended(struct keep *k, uint32_t *cursor, uint32_t *ret_place, struct keep_ended *ret);
/* When a broker was last there to serve: the former one's word until the first stamp. 0: never. */
uint64_t keep_stamp_ms(const struct keep *k);
void keep_stamp(struct keep *k, uint64_t now_ms);

/* ---- adopt.c: records from sandboxes, and sandboxes from records ---- */
void adopt_keep(struct box *x); /* its sandbox begins to be kept */
void adopt_note(struct box *x); /* writes the record anew; nothing where it is not kept */
/* All up to here is done with, and need not be sent again. */
void adopt_mark(struct box *x);
void adopt_drop(struct box *x); /* it is kept no more */
void adopt_note_ended(struct sandbox *s, struct broker *b);
void adopt_forget(struct broker *b, struct sandbox *s); /* its end need not be known any more */
void adopt_all(struct broker *b);                       /* at start: what a former broker left */

/* ---- resume.c: living boxes of a former broker, until their sessions go on ---- */
#define RESUME_SEEN_MAX ((size_t)4 * GUEST_FRAME_MAX)
#define RESUME_FRONTS_MS 1000u /* how long frontends may take to speak for their calls */
struct resume {
	bool open, asked; /* the stream is attached; SYNC was written */
	uint64_t since_ms, asked_ms, host_seq;
	uint8_t nonce[16];
	struct buf seen; /* what may be the beginning of the answer */
	size_t skipped;
};
void resume_claim(struct box *x); /* asks the reaper for it */
void resume_on_kept(struct broker *b, const struct ipc_watch_kept *m);
void resume_step(struct box *x);   /* does what is due in state CLAIMED */
void resume_failed(struct box *x); /* its attach was refused, or closed */
void resume_all(struct broker *b); /* the engine can be used */
void resume_synced(struct box *x); /* its session goes on */
/* Stream bytes while SYNC's answer is awaited: true when *p, *n hold what follows it. */
bool resume_data(struct box *x, const uint8_t **p, size_t *n);
void resume_on_stands(struct box *x, const struct guest_frame *f);
/* A frame for a run whose guest has not said yet how it stands. -EPROTO */
int resume_frame_in(struct run *r, const struct ipc_call_frame *m);
void broker_on_call_resume(void *ctx, struct link *l, const struct ipc_row *row);
void resume_tick(struct broker *b, uint64_t now_ms);
/* Why a box that died unordered did: the silence of the broker where there was one. */
enum end_cause resume_death(struct broker *b, uint32_t *ret_away_s);

#endif
