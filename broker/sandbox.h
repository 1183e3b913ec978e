/*
 * broker/sandbox.h - sandboxes that stay. Part of broker.h, included by it alone.
 */
#ifndef BAILEY_SANDBOX_H
#define BAILEY_SANDBOX_H

#define SANDBOX_ENDED_MS (UINT64_C(10) * 60 * 1000) /* how long an end is remembered */
#define SANDBOX_ENDED_MAX 1024u
#define SANDBOX_START_S 60u /* a box of its own lives so much longer than its sandbox */

/* ---- sandbox.c ---- */
struct sandbox {
	TAILQ_ENTRY(sandbox) entry; /* in live, or in ended: the oldest end first */
	char id[33];
	struct box *box; /* NULL: it ended */
	struct owner *owner;
	struct front *front; /* whose end is its end; NULL: nobody's */
	uint64_t front_peer; /* its number, which the next broker hears again; 0: nobody's */
	uint32_t kept;       /* ended: its place among what the next broker inherits */
	uint32_t away_s;     /* ended: the broker's silence that it did not survive */
	const struct profile *profile;
	bool keep, hold;
	uint64_t memory_bytes;
	uint32_t cpus_milli;
	uint64_t born_ms, used_ms, ttl_ms, idle_ms, ended_ms;
	enum end_cause cause;
};
TAILQ_HEAD(sandbox_list, sandbox);
struct sandboxes {
	struct sandbox_list live, ended;
	uint32_t n_ended;
	uint64_t memory_bytes;   /* of the live ones that do not end with a call */
	uint64_t creating_bytes; /* of those that calls are creating */
	struct idmap *by_id;     /* by the first half of the id */
};
void sandbox_init(struct broker *b);
void sandbox_done(struct broker *b);
void sandbox_born(struct run *r);                  /* its box becomes a sandbox of its owner */
uint64_t sandbox_left_ms(const struct sandbox *s); /* of its lifetime */
/* call_submit with a sandbox's id. */
void sandbox_submit(struct front *f, const struct ipc_call_submit *m);
void sandbox_box_ended(struct box *x);    /* from box.c: its end has begun */
void sandbox_used(struct box *x);         /* one of its runs is over */
void sandbox_front_gone(struct front *f); /* ends those that end with it */
/* Of a former broker: living in x, or (x NULL) ended. -EEXIST. */
int sandbox_restore(struct broker *b, struct sandbox *s, struct box *x);
bool sandbox_known(const struct broker *b, const char *id);
bool sandbox_is_of(const struct front *f, const struct ipc_str *id); /* of its owner */
void sandbox_front_back(struct front *f);  /* a frontend of a former broker's sandboxes came */
void sandbox_fronts_due(struct broker *b); /* those that have not come will not */
/* A run of a former broker's that f asks for is not there. */
void sandbox_refuse_lost(struct front *f, uint64_t call, const struct ipc_str *id);
void sandbox_tick(struct broker *b, uint64_t now_ms);
void broker_on_sandbox_list(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_sandbox_destroy(void *ctx, struct link *l, const struct ipc_row *row);

#endif
