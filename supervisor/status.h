/*
 * supervisor/status.h - what the tree knows of itself, and the socket it is
 * asked by. Part of supervisor.h, included by it alone.
 */
#ifndef BAILEY_STATUS_H
#define BAILEY_STATUS_H

struct tree;
struct child;

/* Of broker or reaper, kept over their lives. */
struct known {
	uint64_t seen[TALLY_COUNT]; /* of the present process … */
	uint64_t sum[TALLY_COUNT];  /* … and of all before */
	char trouble[257];          /* the latest line of its log; "": none */
	uint64_t trouble_ms;
};
/* Answers to one question; rows that did not come stay empty. */
#define STATUS_POOLS_MAX 32u
struct pool_fact {
	char profile[65];
	uint32_t box_class, target, ready, starting;
};
struct lease_fact {
	char sandbox[33], principal[65], profile[65];
	uint32_t owner_kind, keep, runs;
	uint64_t owner, age_ms, idle_ms, idle_limit_ms, ttl_ms, memory_bytes;
};
struct findings {
	bool answered[CHILD_SINGLES];
	bool have_engine, have_load, have_watch;
	uint32_t engine_state, n_pools, n_leases, left_out;
	char engine_name[65], engine_version[65], engine_error[257];
	uint64_t engine_error_ago_ms;
	struct ipc_status_load load;
	struct ipc_status_watch watch;
	struct pool_fact pools[STATUS_POOLS_MAX];
	struct lease_fact leases[STATUS_LEASES_MAX];
};

/* ---- document.c: one JSON document of bounded size ---- */
#define DOCUMENT_MAX ((size_t)256 * 1024)
/* Appends it to out, whose maximum is at least DOCUMENT_MAX. */
void document_write(struct buf *out, const struct tree *t, const struct findings *f);
/* A counter over all processes and all their lives. */
uint64_t document_count(const struct tree *t, uint32_t which);

/* ---- status.c: who may ask, and what the children say ---- */
struct status;
/* Takes the listening descriptor. uid: who may ask besides root. */
struct status *status_new(struct tree *t, int fd, uid_t uid);
void status_free(struct status *s); /* NULL ok */
/* A broker or reaper is gone: its counters join the sums, and nobody waits for its answer. */
void status_child_ended(struct child *c);
void supervisor_on_tally(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_trouble(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_engine(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_pool(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_load(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_lease(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_watch(void *ctx, struct link *l, const struct ipc_row *row);
void supervisor_on_status_end(void *ctx, struct link *l, const struct ipc_row *row);

#endif
