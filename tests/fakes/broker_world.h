/*
 * tests/fakes/broker_world.h - a whole broker core in one process: real links, a
 * fake engine behind it, a scripted reaper, and frontends that the test drives.
 */
#ifndef BAILEY_BROKER_WORLD_H
#define BAILEY_BROKER_WORLD_H

#include "broker.h"
#include "fake_engine.h"
#include "still_clock.h"

struct seen { /* what a frontend got */
	uint64_t call;
	bool granted, ended;
	bool quiet; /* nothing follows its grant: no run, or what it is went ahead */
	bool resumed;
	struct ipc_call_resumed resume;
	char out[64];                 /* the first bytes of its output */
	uint32_t grants, ends, order; /* order: of the grant, over all clients */
	struct ipc_call_granted grant;
	struct ipc_call_ended end;
	char message[513];
	struct guest_g_exit exit;
	size_t out_bytes;
	char sandbox[33]; /* of its grant */
};

struct client {
	struct link *link;
	struct link_config config;
	struct seen seen[4200];
	bool auto_run; /* answers call_granted by one h_run */
	bool closed;
	uint64_t next_call, grant_order[4200];
	size_t n_granted;
	uint32_t rows[256];
	struct ipc_health_engine engine;
	struct ipc_health_usage usage;
	struct ipc_health_pool pool[BOX_CLASSES];
	char text[513];
	struct listed { /* what sandbox_list showed last */
		char id[33];
		struct ipc_sandbox_row row;
	} list[64];
	size_t n_listed;
	bool list_over;
};

struct scripted_reaper {
	struct link *link;
	struct link_config config;
	bool intend, held, figures, kill, remove, autoremove, keeps; /* answers these by itself */
	struct figures baseline, final; /* what the counters say, with figures */
	uint32_t reads;
	uint32_t rows[256];
	uint64_t last_box;
	uint32_t last_cause;
	uint64_t deadline_ns;
	uint32_t deadlines; /* rows that said one */
	uint32_t candidates;
	uint64_t age_s; /* of the last one */
	uint64_t gone[4200];
	size_t n_gone;
};

struct world {
	struct event_base *base;
	struct broker b;
	int memory; /* of what outlives the broker; 0: none */
	struct scripted_reaper reaper;
	struct client client[3];
	struct link *supervisor;
	struct link_config supervisor_config;
	uint32_t supervisor_rows[256], orders;
	uint64_t lost; /* runs that the latest broker counted as lost when it began */
};
extern struct world *w;
extern uint64_t world_skew_ms; /* added to every clock, but no timer goes by it */

int world_setup(void **state);
/* kill -9 of the broker, and the next one: what it finds in its memory is taken over. Frontends are
 * to be made anew, engine and guests stay. */
void world_remember(void); /* gives the broker memory that outlives it */
void world_broker_dies(void);
int world_teardown(void **state); /* fails when anything is left */
void world_turn(void);            /* handles all that is ready */
/* Runs until done() or ten seconds have passed on the still clock: whether it is. */
bool world_until(bool (*done)(void *arg), void *arg);
void world_settle(void);       /* until nothing happens; time passes for clean-ups alone */
void world_later(uint64_t ms); /* the clocks jump, a tick happens */
void world_check_counts(void); /* every count of the broker says what it counts */

struct client *world_client(size_t i, enum owner_kind kind, uint64_t owner);
void world_hang_up(struct client *c);
uint64_t submit(struct client *c, enum box_class box_class);
/* with the specification inside it */
uint64_t submit_spec(struct client *c, enum box_class box_class, const char *spec);
uint64_t submit_with(struct client *c, struct ipc_call_submit m); /* call is filled in */
void send_frame(struct client *c, uint64_t call, enum guest_type type, uint32_t stream,
		const void *p, size_t n);
struct seen *seen_of(struct client *c, uint64_t call);
bool ended(struct client *c, uint64_t call);   /* waits for it */
bool granted(struct client *c, uint64_t call); /* waits for it */
/* A sandbox that stays, made by c with these flags beside CALL_STAYS: its id. */
const char *stay(struct client *c, uint32_t flags);
/* A run in it: its call. */
uint64_t submit_within(struct client *c, const char *sandbox, uint32_t flags, const char *spec);
size_t listed(struct client *c); /* its sandboxes, asked for: how many, in c->list */
struct run *run_of(struct client *c, uint64_t call);
/* The only box in this state, or NULL. */
struct box *box_in(enum box_state s);
size_t boxes_in(enum box_state s);
void reaper_says(const struct ipc_row *row);
void reaper_connect(void); /* a new link, as after a restart */
void wait_warm(enum box_class c, uint32_t n);
/* The pool starts at this client's word, and holds what it holds at first. */
static inline void
world_warm(struct client *c)
{
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_PYTHON, 2);
	wait_warm(BOX_SHELL, 1);
}

#endif
