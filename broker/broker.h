/*
 * broker/broker.h - the broker's own types and prototypes, grouped by file.
 *
 * A run is one call_submit of a frontend; a box is one container. Both live in
 * an idmap and are found again by number; whoever holds a number from before a
 * callback must be ready to find nothing. An owner outlives its fronts, runs
 * and boxes. A box is freed one loop turn after it became GONE.
 */
#ifndef BAILEY_BROKER_H
#define BAILEY_BROKER_H

#include <sys/queue.h>

#include "engine.h"
#include "container_seccomp.h"
#include "profiles.h"

struct event;
struct broker;
struct box;
struct run;

#define OWNER_BOXES_MAX 16u
#define OWNER_QUEUE_MAX 64u
#define QUEUE_MAX 256u
#define PROFILES_MAX 8u
#define FRONTS_MAX 2048u /* above BAILEY_CONNECTIONS: one whose end was not heard of yet counts */
#define FRONTS_UNREAD_MAX ((size_t)512 << 20) /* of the 2 GiB that RLIMIT_AS leaves us */
#define PRINCIPAL_FRONTS_MAX 512u             /* of one http principal: the others find room */
#define BOXES_MAX 512u
#define POOL_CAP 4u /* warm or starting boxes of all pools together */
#define QUEUE_WAIT_MS 30000u
#define START_WAIT_MS 15000u
#define DEADLINE_SLACK_MS 500u /* the reaper's clock comes after the guest's */

/* ---- settings.c: what the supervisor told, copied and checked ---- */
struct settings {
	char instance[33], boot_id[37], user_hash[33];
	uint32_t tree_pid, box_uid, box_gid, host_cpus, max_cpus_milli, timeout_ms, flags;
	uint64_t tree_start, pid_ns, max_memory_bytes, host_memory_bytes;
	char share_dir[513], image[257], cgroup_parent[65];
};
int settings_copy(const struct ipc_settings *in, struct settings *ret);          /* -EINVAL */
int settings_engine(const struct ipc_engine *in, struct engine_config *ret);     /* -EINVAL */
int settings_pem(const struct ipc_engine_pem *in, struct engine_config *config); /* -ENOSPC too */

/* ---- policy.c: pure decisions ---- */
struct limits {
	uint64_t memory_bytes;
	uint32_t cpus_milli, pids, timeout_ms;
	uint64_t workspace_bytes, tmp_bytes, workspace_inodes, tmp_inodes;
};
struct decision {
	const struct profile *profile;
	struct limits limits;
	uint32_t ttl_s, idle_s; /* of a sandbox that stays */
	char message[512];      /* why it was denied */
};
/* 0, or -EPERM with ret->message filled. */
int
policy_decide(const struct settings *s, const struct ipc_call_submit *req, struct decision *ret);
/* The same for a run in a sandbox that has these limits already. */
int
policy_decide_within(const struct settings *s, const struct profile *p, const struct limits *have,
		     const struct ipc_call_submit *req, struct decision *ret);
uint64_t policy_total_memory(const struct settings *s); /* of all sandboxes together */
void policy_maxima(const struct settings *s, const struct profile *p, struct limits *ret);
/* The limits of a pool's boxes: the profile's defaults under the tree's maxima. */
void policy_defaults(const struct settings *s, const struct profile *p, struct limits *ret);
uint32_t policy_whole_cpus(uint32_t cpus_milli);
struct fit {
	bool cold;            /* no waiting box can serve it */
	enum run_start start; /* START_WARM or START_LIVE */
	bool update, wait;    /* its limits must change; and the run waits for that */
};
/* How a waiting box with limits have serves a run that wants want. */
struct fit policy_fit(enum box_class box_class, const struct limits *have,
		      const struct limits *want, uint32_t call_flags, bool can_update);

#include "keep.h"
#include "box.h"
#include "store.h"

/* ---- owners.c: who owns fronts, runs and boxes ---- */
TAILQ_HEAD(run_list, run);
struct owner {
	TAILQ_ENTRY(owner) link; /* in broker.owners, in turn order */
	enum owner_kind kind;
	uint64_t number;
	char principal[65];    /* of OWNER_TOKEN; else "" */
	uint32_t refs;         /* fronts, runs, boxes, sandboxes */
	uint32_t boxes;        /* live ones */
	uint32_t sandboxes;    /* those of them that stay, however long a call takes */
	uint32_t creating;     /* calls that are to make one more of these */
	uint64_t memory_bytes; /* limits of the live ones, */
	uint64_t stays_bytes, creating_bytes; /* of those that stay, and of those to be made */
	uint32_t ended;                       /* sandboxes whose ends are remembered */
	uint32_t queued;
	struct run_list queue;
};
struct front { /* one frontend's link */
	TAILQ_ENTRY(front) entry;
	struct broker *b;
	uint64_t peer_id;
	uint64_t last_call; /* highest number submitted */
	uint32_t wrong_tokens;
	uint8_t token[32]; /* of OWNER_TOKEN: the hash of what bound it */
	struct link *link;
	struct link_config config;
	struct owner *owner; /* NULL: of http, before its token */
	struct run_list runs;
};
/* Bits of link states: rows of a front without an owner come through token_check alone. */
enum { FRONT_NOBODY = 1, FRONT_BOUND = 2 };
struct owner *owner_get(struct broker *b, enum owner_kind kind, uint64_t number,
			const char *principal); /* takes a ref */
struct owner *owner_ref(struct owner *o);
void owner_unref(struct broker *b, struct owner *o);
int front_open(struct broker *b, const struct ipc_peer *peer, int fd); /* takes fd */
/* The first good token says for whom an http front acts. -EPERM: it acts for another one; -EBUSY:
 * as many act for that one as may. */
int owner_bind(struct front *f, const char *principal);
bool front_bound(const struct front *f);
/* What all frontends together have not read yet. One that works reads at once. */
size_t fronts_unread(const struct broker *b);
void fronts_tick(struct broker *b); /* past FRONTS_UNREAD_MAX those with the most are dropped */
void front_close(struct front *f);  /* cancels its runs */
void front_drop(struct front *f, const char *why); /* it broke the rules */
/* Answers a call that becomes no run. */
void front_refuse(struct front *f, uint64_t call, enum run_status status, const char *message,
		  uint32_t retry_ms);
struct run *front_run(struct front *f, uint64_t call);

/* Most calls are over by then. Until then the reaper is not told of a run, nor a pool refilled
 * beside a lone one: the run's timer then does the first and brings the second about. */
#define TELL_DEADLINE_MS 50u

/* ---- pool.c ---- */
struct pool {
	struct box_list ready;
	uint32_t n_ready, n_starting;
	uint32_t target; /* what demand asks for now; 0 = asleep */
	uint64_t used_ms, missed_ms;
};
void pool_wake(struct broker *b);                      /* warm_hint, first call */
struct box *pool_take(struct run *r, struct fit *ret); /* NULL: none fits; hands out once */
struct box *pool_adopt(struct run *r);                 /* a box being started for the pool */
bool pool_could_adopt(struct run *r);
void pool_init(struct broker *b);
void pool_used(struct broker *b, const struct profile *p, enum box_class c, bool missed);
void pool_add(struct box *x);    /* it is WARM */
void pool_remove(struct box *x); /* leaves ready list or starting count */
void pool_refill(struct broker *b);
/* A lone call starts: a refill beside it would only slow it down. */
void pool_quiet_for_call(struct broker *b);
void pool_tick(struct broker *b, uint64_t now_ms);
uint64_t pool_evict(struct broker *b); /* ends one waiting box: its memory; 0: there is none */
/* A box died and nobody ordered it; what ended it may have ended them all. Each waiting one is
 * asked, and not handed out before it has answered. */
void pool_doubt(struct broker *b);
void pool_drain(struct broker *b, enum end_cause cause);
struct pool *pool_of(struct broker *b, const struct profile *p, enum box_class c);

/* ---- admission.c: queue and caps ---- */
/* Why nothing starts while it is missing: no box is made that nobody could end. */
#define NO_REAPER                                                                       \
	"Bailey's reaper, the process that ends sandboxes, is not running, so none is " \
	"started. It is started again by itself; if this persists, Bailey's log says why."
/* Why no box will become free for a call of o however long it waits: those there are stay. NULL:
 * one may. */
const char *admission_crowd(const struct broker *b, const struct owner *o, uint32_t flags,
			    uint64_t memory_bytes, char *out, size_t cap);
/* Answers the call busy where waiting brings it nothing, or nobody may wait any more. */
bool admission_refuse(struct front *f, uint64_t call, uint32_t flags, uint64_t memory_bytes);
void admission_creates(struct run *r); /* until then a sandbox it is to make counts already: */
void admission_created(struct run *r); /* it was made, or never will be */
bool admission_waits(const struct broker *b); /* for more than its owner's other boxes to end */
int admission_enqueue(struct run *r);         /* -EBUSY: a queue is full */
void admission_dequeue(struct run *r);
void admission_pump(struct broker *b);
void admission_tick(struct broker *b, uint64_t now_ms);
void admission_count(struct box *x, struct owner *o); /* x now counts for o (NULL: the pool) */
void admission_uncount(struct box *x);
void admission_resize(struct box *x, const struct limits *to);
void admission_caps(struct broker *b); /* from what the settings say of the host */
bool admission_fits(struct broker *b, uint64_t memory_bytes);
/* The most memory the sandboxes of o may have together. */
uint64_t admission_owner_max(const struct broker *b, const struct owner *o);
uint32_t admission_retry_ms(const struct broker *b);
void admission_fail_all(struct broker *b, enum run_status status, const char *message);

#include "run.h"
#include "sandbox.h"
#include "sweep.h"

/* ---- probe.c: whether the engine can be used, asked at the first need ---- */
enum engine_state { ENGINE_ASLEEP, ENGINE_ASKED, ENGINE_UP, ENGINE_DOWN };
struct question { /* one time the engine was asked; ctx of its answers */
	struct broker *b;
	uint32_t number;
	bool open;
};
struct probe {
	enum engine_state state;
	uint64_t asked_ms, known_ms;
	uint32_t asked; /* number of the latest question: only its answers count */
	struct question questions[8];
	int err;
	enum run_status status; /* when DOWN */
	char message[256];
	char last_error[256]; /* stays when the engine is back */
	uint64_t error_ms;
	struct engine_info info;
	char image_id[81];
	bool have_info, watching, swept, refreshing;
	uint64_t image_ms; /* when image_id was last asked for */
};
void probe_need(struct broker *b);  /* asks unless up or being asked */
void probe_again(struct broker *b); /* asks even when up */
void probe_lost(struct broker *b, const struct engine_result *r);
void probe_refresh(struct broker *b); /* the image's id again, when it is old */
void probe_tick(struct broker *b, uint64_t now_ms);
/* What an engine error means to a caller. */
enum run_status probe_status(const struct engine_result *r);
bool probe_local(const struct broker *b);

/* ---- events.c, orders.c, requests.c, health.c, supervised.c ---- */
void events_watch(struct broker *b);
int orders_open(struct broker *b, int fd);                    /* a new reaper link; takes fd */
int orders_send(struct broker *b, const struct ipc_row *row); /* -ENOTCONN without a reaper */
extern const struct link_route requests_routes[];
extern const size_t requests_n_routes;
void health_ask(struct front *f, uint64_t call);
void health_layers(struct broker *b, const struct ipc_layers *m);
void health_answer(struct broker *b); /* probe.c: the state is known */
void health_forget(struct front *f);
int supervised_open(struct broker *b, int fd);
void broker_on_fd(void *ctx, struct link *l, int fd); /* kept for the row it came with */
void report_status(struct broker *b, uint32_t query); /* report.c: answers status_ask */

/* ---- loop.c: the broker as a whole ---- */
struct layers_row {
	uint32_t role, layers, restarts;
	char last_end[97];
};
struct health_query {
	struct front *front;
	uint64_t call;
};
struct broker {
	struct event_base *base;
	struct engine *engine;
	struct link *supervisor, *reaper;
	struct link_config supervisor_config, reaper_config;
	struct settings settings;
	struct engine_config engine_config;
	bool have_settings, have_engine, stopping, no_update, own_kill;
	uint32_t pem_due; /* engine_pem rows still to come */
	int passed_fd;
	uint64_t stop_at_ms;
	struct idmap *boxes, *runs;
	uint64_t next_box, next_run;
	TAILQ_HEAD(owner_list, owner) owners;
	TAILQ_HEAD(, front) fronts;
	uint64_t no_reaper_ms; /* since when; counts while reaper is NULL */
	uint32_t n_fronts, queued;
	uint32_t in_flight,
		starting; /* runs that left the queue; those of them without a box yet */
	uint64_t memory_bytes, memory_max_bytes, owner_memory_max_bytes;
	struct pool pools[PROFILES_MAX][BOX_CLASSES];
	uint64_t refill_after_ms, refill_backoff_ms;
	uint64_t quiet_until_ms; /* no refill: a lone call is at its start or was just answered */
	uint32_t cpu_boxes[64];  /* boxes pinned to each processor */
	struct sandboxes sandboxes;
	struct pace { /* of short calls: whose the last one was, when; when others' last one was */
		uint64_t peer, at_ms, others_ms;
	} pace;
	struct probe probe;
	struct sweep sweep;
	struct store *store;    /* NULL: nothing is kept */
	struct keep *keep;      /* NULL: no sandbox outlives us */
	uint64_t tick_ms;       /* of the last tick */
	uint64_t fronts_due_ms; /* when frontends of a former broker's sandboxes must have come */
	uint64_t away_ms,
		away_at_ms; /* the last time no broker served for long: how long, until when */
	struct auth auth;
	struct layers_row layers[8];
	size_t n_layers;
	struct health_query queries[32];
	size_t n_queries;
	struct box_list grave;
	struct event *tick, *soon;
};
int broker_init(struct broker *b, struct event_base *base);
void broker_done(struct broker *b);
void broker_soon(struct broker *b); /* pump, refill and clean up once this event is handled */
void broker_tick(struct broker *b); /* each second */
void broker_stop(struct broker *b, uint32_t grace_ms);

#endif
