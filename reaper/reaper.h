/*
 * reaper/reaper.h - the process that knows every box, keeps its deadlines and
 * sees it dead and removed. Prototypes by file.
 */
#ifndef BAILEY_REAPER_H
#define BAILEY_REAPER_H

#include "base.h"
#include "confine.h"
#include "ipc.h"

struct event;
struct event_base;

#define CONTAINER_ID_LEN 64u
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* ---- lifecycle.c: state x event -> action, a pure table ---- */
enum box_state { /* stored in the ledger; 0 is a free slot */
		 BOX_FREE = 0,
		 BOX_INTENDED, /* may come into being at any moment; only its name is known */
		 BOX_CREATED,  /* the engine knows it; not known to run */
		 BOX_ARMED,    /* runs; deadlines count */
		 BOX_KILLING,  /* a kill is under way; waiting to see it dead */
		 BOX_REMOVING, /* waiting for the engine's word that it is gone */
		 BOX_GONE,
		 BOX_STATES,
};
enum box_event {
	BOX_EV_CREATED,     /* the broker named its container */
	BOX_EV_STARTED,     /* the broker named its pid */
	BOX_EV_KILL,        /* the broker is done with it, or the tree stops */
	BOX_EV_DEADLINE,    /* the run's time is up */
	BOX_EV_LIFETIME,    /* the box's time is up */
	BOX_EV_DEAD,        /* its pidfd became readable */
	BOX_EV_RETRY,       /* the retry timer fired */
	BOX_EV_BROKER_LOST, /* no broker knows it any more */
	BOX_EV_BROKER_NEW,  /* a broker is there to take orders */
	BOX_EV_GONE,        /* the engine confirmed its removal */
	BOX_EV_GONE_ALIVE,  /* it did, but the held process still lives */
	BOX_EVENTS,
};
enum box_action {
	BOX_ACT_IGNORE = 1,   /* late or repeated, and harmless */
	BOX_ACT_BUG,          /* cannot happen: logged */
	BOX_ACT_NOTE,         /* the container id is stored, nothing to do */
	BOX_ACT_HOLD,         /* pidfd; counters to the broker; answer watch_held */
	BOX_ACT_KILL,         /* by pidfd, else order_kill */
	BOX_ACT_DROP,         /* not running yet: order_remove */
	BOX_ACT_DROP_TELL,    /* the same, and the broker hears why */
	BOX_ACT_REMOVE,       /* order_remove again, and the signal where the process lives */
	BOX_ACT_REMOVE_LATER, /* leave the broker a moment to read the last output */
	BOX_ACT_HURRY,        /* order_remove unless one is on its way */
	BOX_ACT_NOTE_REMOVE,  /* the container got known while it was being removed */
	BOX_ACT_HOLD_KILL,    /* it was started while it was being removed */
	BOX_ACT_DEAD,         /* tell the broker, then order_remove */
	BOX_ACT_DEAD_TELL,    /* tell the broker; removal was ordered before */
	BOX_ACT_RESIGNAL, /* no broker: signal what can be signalled, wait for the next broker */
	BOX_ACT_FORGET,   /* free the slot */
};
struct box_cell {
	enum box_action action;
	enum box_state next;
};
struct box_cell lifecycle_cell(enum box_state state, enum box_event event);
const char *lifecycle_state_name(enum box_state state);
const char *lifecycle_event_name(enum box_event event);

/* ---- ledger.c: the memfd that outlives this process ---- */
struct record {
	uint64_t seq; /* of this slot; the greater of two valid copies counts */
	uint64_t box;
	uint64_t end_ns;      /* CLOCK_BOOTTIME, end of the box's lifetime */
	uint64_t deadline_ns; /* CLOCK_BOOTTIME, 0 none */
	uint32_t pid;
	uint32_t state; /* enum box_state */
	uint32_t cause; /* enum end_cause */
	uint32_t told;  /* the broker heard of its end */
	char name[72];
	char container[72];
	uint8_t secret[32];
	uint32_t stays;   /* it may outlive its broker: a later one can speak to its guest */
	uint32_t born_ms; /* CLOCK_BOOTTIME, its low half */
	uint32_t spare[5];
	uint32_t crc; /* of everything before */
};
struct ledger {
	int fd;
	uint8_t *map; /* slots of two records each */
	uint32_t slots;
	uint8_t *used; /* one byte a slot, this process' own memory */
};
/* Maps fd, whose size fixes the number of slots; fd stays open and the caller's. Touches no page of
 * it. -EINVAL where the size is none of whole slots. */
int ledger_open(struct ledger *l, int fd);
void ledger_close(struct ledger *l);
int ledger_alloc(struct ledger *l, uint32_t *ret_slot); /* lowest free one; -ENOSPC */
/* Writes the copy that does not count at present; rec->seq and rec->crc are set here. */
void ledger_store(struct ledger *l, uint32_t slot, struct record *rec);
void ledger_clear(struct ledger *l, uint32_t slot); /* nothing of the box remains readable */
/* Finds the next slot in use from *cursor on and marks it used; false at the end. */
bool ledger_recover(struct ledger *l, uint32_t *cursor, uint32_t *ret_slot, struct record *ret);

/* ---- kill.c: pidfds of boxes ---- */
/* True when text (a /proc/PID/cgroup file) names the container as a path component. */
bool kill_cgroup_names(const char *text, const char *container);
/* Opens a pidfd of pid and proves that it is inside the container. -ESRCH: no such process, or
 * another one. */
int kill_open(int proc_fd, uint32_t pid, const char *container, int *ret_pidfd);
int kill_send(int pidfd, int sig); /* 0 or SIGKILL, nothing else: -EINVAL */
bool kill_is_dead(int pidfd);

/* ---- counters.c: a box's cgroup counters ---- */
/* Opens what there is; a missing file just leaves its figure out. */
void counters_open(struct counters *c, int proc_fd, int cgroup_fd, uint32_t pid);
void
counters_pass(const struct counters *c, struct link *to, uint64_t box); /* watch_counter each */

/* ---- deadline.c: one timer for all boxes ---- */
struct deadline {
	int fd; /* timerfd on CLOCK_BOOTTIME */
	uint64_t armed_ns;
};
int deadline_init(struct deadline *d);
void deadline_done(struct deadline *d);
int deadline_arm(struct deadline *d, uint64_t at_ns); /* UINT64_MAX disarms */
void deadline_drain(struct deadline *d);              /* after it fired */
/* 1 s doubling to 5 s; 0 starts. Returns the step to use. */
uint64_t deadline_backoff(uint64_t last_step_ns);
/* 30 s doubling to ten minutes, for the reports that a removal is stuck. */
uint64_t deadline_stuck(uint64_t last_step_ns);

/* ---- sweep.c: is the tree that made a container still there? ---- */
struct tree_facts {
	char boot_id[37];
	uint32_t tree_pid;
	uint64_t tree_start, pid_ns;
};
int sweep_start_time(int proc_fd, uint32_t pid, uint64_t *ret); /* -ESRCH when there is none */
bool sweep_is_dead(int proc_fd, const struct tree_facts *own, const struct ipc_sweep_candidate *c);

/* ---- watch.c: the table of boxes and what the broker says ---- */
struct box {
	struct record rec; /* what the ledger holds */
	uint32_t slot;
	int pidfd; /* -1: not seen from here, or seen dead */
	struct event *dead_event;
	struct counters counters;
	bool own_kill;      /* the pidfd may be signalled */
	bool confirmed;     /* the engine says removed while the process lived */
	bool ordered;       /* an order_remove is with the present broker */
	bool unknown;       /* to the present broker: its end is told here */
	uint64_t unsure_ns; /* no id, said to be gone, may yet appear: until when */
	uint64_t claim_ns;  /* until when a broker must speak for it; 0: it has one */
	uint64_t heed_ns;   /* a former reaper's deadline counts from then on; 0: it is of today */
	uint64_t retry_ns, retry_step_ns;
	uint64_t stuck_ns, stuck_step_ns, removing_ns; /* 0 while not REMOVING */
};
struct reaper {
	struct event_base *base;
	struct link *supervisor, *broker; /* broker NULL between two of them */
	struct ledger ledger;
	struct deadline deadline;
	struct event *timer_event, *tick_event;
	struct idmap *boxes;
	struct tree_facts facts;
	int proc_fd, cgroup_fd;
	bool stopping;
	uint64_t stop_ns;                  /* when grace is over */
	int pending_fd;                    /* came with a peer row */
	void (*on_idle)(struct reaper *r); /* stopping and nothing more can be done */
};
#define WATCH_N_ROUTES 8
extern const struct link_route watch_routes[WATCH_N_ROUTES];
void watch_recover(struct reaper *r); /* from the ledger, at start */
void watch_broker_new(struct reaper *r);
/* Every box ends, but those that stay have a while in which the next broker may claim them. */
void watch_broker_lost(struct reaper *r);
void watch_abandoned(struct reaper *r); /* no broker will come: every box ends */
void watch_stop(struct reaper *r, uint32_t grace_ms);
void watch_timer(struct reaper *r); /* the timer fired */
void watch_free(struct reaper *r);  /* forgets everything but the ledger's content */

/* ---- report.c: to the supervisor ---- */
int report_start(struct reaper *r);                   /* what changed, each second */
void report_status(struct reaper *r, uint32_t query); /* answers status_ask */

/* ---- action.c: what a cell of the table does to a box ---- */
/* Runs the cell; box is freed when it is GONE. cause counts only where the event ends the box. */
void action_step(struct reaper *r, struct box *b, enum box_event event, enum end_cause cause);
void action_rearm(struct reaper *r);           /* puts the timer on the next due moment */
uint64_t action_deadline(const struct box *b); /* of its runs, when it is heeded; 0: none */
bool action_is_live(const struct box *b);      /* its run and its lifetime go on */
struct box *action_box_new(struct reaper *r, uint32_t slot, const struct record *rec);
void action_box_free(struct reaper *r, struct box *b);
int
action_hold(struct reaper *r, struct box *b); /* pidfd and counters; -errno: not seen from here */

#endif
