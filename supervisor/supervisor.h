/*
 * supervisor/supervisor.h - baileyd: starts the other processes, wires them
 * together, starts a broken one again, takes connections, ends all of them.
 * Prototypes by file.
 */
#ifndef BAILEY_SUPERVISOR_H
#define BAILEY_SUPERVISOR_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "base.h"
#include "confine.h"
#include "ipc.h"
#include "tokens.h"

struct event;
struct event_base;

enum child_id { CHILD_BROKER, CHILD_REAPER, CHILD_FRONTEND, CHILD_COUNT };
#define CHILD_SINGLES CHILD_FRONTEND /* one each; of frontends there is one per client */

/* ---- options.c: the environment, by options.def ---- */
struct options {
	char image[257];
	uint32_t max_cpus_milli;
	uint64_t max_memory_bytes;
	uint32_t timeout_ms;
	char docker_host[304];
	bool tls;
	char cert_path[512];                    /* "" = not given */
	char share_dir[512];                    /* "" = beside the programs */
	uint32_t connections, connections_user; /* at most; in all and of one user */
	bool no_pool;
	bool confine_log;
	bool debug; /* or -v */
};
/* -EINVAL: error holds one line that names the variable and what is allowed. */
int options_from_env(struct options *ret, char *error, size_t cap);
void options_print(void); /* the table, to stdout */

/* ---- lookup.c: name services, in a child that ends at once ---- */
/* Runs ask in a forked process (NSS modules and resolvers stay out of this one) and takes its
 * answer of at most cap bytes. -ETIME after timeout_ms. */
int lookup_run(int (*ask)(const void *question, void *answer, size_t cap), const void *question,
	       void *answer, size_t cap, uint32_t timeout_ms);

/* ---- engine_env.c: where the engine is ---- */
struct engine_target {
	enum engine_kind kind;
	char path[108];   /* unix: socket, symbolic links resolved */
	char dir[512];    /* unix: its directory */
	char host[254];   /* tcp: as given */
	char address[65]; /* tcp: "" when the name did not resolve */
	uint32_t port;
	bool have_gid; /* unix: the socket's group is known */
	gid_t gid;
	struct buf pem[3]; /* by enum engine_pem_kind - 1; empty without TLS */
};
/* Everything but name resolution. places: sockets to try when DOCKER_HOST is empty, NULL ends.
 * -EINVAL and others: error says what is wrong in one line. */
int engine_env_find(const struct options *o, const char *const *places, const char *home,
		    struct engine_target *ret, char *error, size_t cap);
/* The usual sockets, for the above; room for the one below XDG_RUNTIME_DIR is the caller's. */
#define ENGINE_PLACES 4
void engine_env_places(const char *runtime_dir, uid_t uid, char *room, size_t cap,
		       const char *places[ENGINE_PLACES]);
int engine_env_resolve(struct engine_target *t); /* tcp: fills address */
void engine_env_done(struct engine_target *t);

/* ---- identity.c: who runs what ---- */
struct role_ids {
	uid_t uid;
	gid_t gid;
};
struct identity {
	bool switch_ids; /* started as root: every process gets ids of its own */
	struct role_ids child[CHILD_COUNT];
	struct role_ids self, tls;
	gid_t engine_gid; /* the broker's only group; used when switch_ids */
	bool have_engine_gid;
};
int identity_find(struct identity *ret, char *error, size_t cap); /* -errno: error says why */
int identity_become_self(const struct identity *id); /* keeps CAP_SETUID, CAP_SETGID, CAP_KILL */
/* Between fork and exec: async-signal-safe. Leaves the reaper CAP_KILL as ambient. */
int identity_become_child(const struct identity *id, enum child_id child);
int identity_become_keeper(const struct identity *id); /* of stunnel: root with four capabilities */

/* ---- spawn.c ---- */
struct spawn_plan {
	int exe;                     /* O_PATH */
	int stdio[2];                /* become 0 and 1; -1: /dev/null */
	int supervisor, peer, state; /* become 3, 4, 5; -1: none */
	char *const *argv;
	const struct identity *identity;
	enum child_id child;
};
/* Enough descriptors may be opened, the soft limit raised where that is what it takes. */
int spawn_check_fds(char *error, size_t cap);
int spawn_reserve_fds(void);  /* keeps 3..5 out of use here; before anything is opened */
void spawn_unblock_log(void); /* a log nobody reads loses lines instead of holding writers */
int spawn_child(const struct spawn_plan *plan, pid_t *ret_pid); /* -errno: no process came of it */
const char *spawn_hint(int error); /* after "Resource temporarily unavailable": which one */

/* ---- settings.c: what children are told at start ---- */
struct facts {
	char instance[33], boot_id[37], user_hash[33], share_dir[512];
	uint32_t tree_pid;
	uint64_t tree_start, pid_ns;
	uint32_t host_cpus;
	uint64_t host_memory_bytes;
	uint32_t flags;         /* enum settings_flag */
	char cgroup_parent[65]; /* "": none */
};
int settings_gather(struct facts *ret, const struct options *o, char *error, size_t cap);
/* How a client is connected, as its frontend hears it. */
struct client_facts {
	enum client_kind kind;
	const char *hosts, *origins; /* "" unless http */
};
struct settings_source {
	const struct options *options;
	const struct facts *facts;
	const struct engine_target *engine; /* for the broker, as the tokens */
	const struct tokens *tokens;
	struct client_facts client; /* for a frontend */
};
/* settings; for the broker engine, engine_pem, token and tokens_end, for a frontend client; then
 * configured. */
int settings_send(struct link *l, enum child_id child, const struct settings_source *s);

/* ---- total.c: the common cap of all sandboxes ---- */
#define TOTAL_CGROUP "/bailey" /* what the engine is told as parent (cgroupfs driver) */
/* True when this process is in the host's own cgroup namespace. */
bool total_sees_host(void);
/* Makes the cgroup below root (/sys/fs/cgroup; v1 or v2) with a memory limit of bytes. ret: the
 * parent's name. -errno where there is none: no rights, not mounted, another manager's. */
int total_open(const char *root, uint64_t bytes, char *ret, size_t cap);

#include "serve.h"

/* ---- children.c: state x event ---- */
enum child_state {
	CHILD_STARTING, /* spawned, has not said ready */
	CHILD_READY,
	CHILD_STOPPING, /* told to end or killed; its end has not been seen */
	CHILD_BACKOFF,  /* ended; will be started again */
	CHILD_GAVE_UP,  /* ended for good, or never to be started */
	CHILD_STATES,
};
enum child_event {
	CHILD_EV_READY,
	CHILD_EV_FAULT,  /* rules broken, stuck: it has to end */
	CHILD_EV_CLOSED, /* it closed its link: most likely it is just ending */
	CHILD_EV_EXIT,   /* ended, and it is to be started again */
	CHILD_EV_END,    /* ended for good: a frontend, or the tree stops */
	CHILD_EV_TIMER,
	CHILD_EV_STOP, /* the tree stops */
	CHILD_EVENTS,
};
enum child_action {
	CHILD_ACT_NONE = 1,
	CHILD_ACT_NOTE_READY, /* layers to the broker; later the failures are forgiven */
	CHILD_ACT_KILL,
	CHILD_ACT_AWAIT_END, /* a moment to end by itself, with its own exit code */
	CHILD_ACT_TELL_STOP,
	CHILD_ACT_AGAIN, /* arm the timer for the next start */
	CHILD_ACT_START,
	CHILD_ACT_FORGIVE,
	CHILD_ACT_OVER, /* links closed; the tree ends with the last one */
	CHILD_ACTIONS,
};
struct child_cell {
	enum child_action action;
	enum child_state next;
};
struct child_cell children_cell(enum child_state state, enum child_event event);
void children_print(void);                     /* the table, to stdout */
uint64_t children_delay_ms(uint32_t failures); /* 0, 0.1 s doubling to 5 s, 60 s after ten */
const char *children_name(enum child_id id);   /* program name */
enum ipc_role children_role(enum child_id id);

struct tree;
struct child;
/* ---- wiring.c: which process talks to which ---- */
#define WIRING_LINKS 2
struct wiring_row {
	enum child_id end[2];
	bool by_peer[2]; /* this end comes with a peer row even at the start */
};
extern const struct wiring_row wiring_links[WIRING_LINKS];
/* Makes the links of a child that is about to start. The end it inherits, if any, goes to
 * *ret_fd (the caller's); other ends go to running processes by "peer", or wait for theirs. */
int wiring_before_start(struct child *c, int *ret_fd);
int wiring_after_start(struct child *c); /* ends it gets by "peer"; after its settings */
void wiring_unstarted(struct child *c);  /* it was not: frontends see their links end */
void wiring_drop(struct child *c);       /* ends that still wait */

/* Whom a frontend serves. */
struct client {
	enum client_kind kind;
	enum owner_kind owner_kind;
	uint64_t owner;   /* uid, or tree number */
	uint64_t peer_id; /* rising, never used twice; given by fronts_start */
	int fd; /* accepted and not yet handed over; -1: none, or the tree's own 0 and 1 */
};
struct child {
	struct tree *tree;
	enum child_id id;
	enum child_state state;
	pid_t pid;
	struct link *link;
	struct link_config link_config;
	struct event *timer;
	uint32_t layers, restarts, failures;
	char why[96], last_end[96];    /* why it is ending; why it ended the last time */
	uint64_t started_ms, ended_ms; /* 0: never */
	int held[2]; /* wiring.c: ends of the link it is the first end of that wait for a process */
	struct client client;     /* frontends */
	TAILQ_ENTRY(child) entry; /* frontends */
};
TAILQ_HEAD(child_list, child);

/* ---- fronts.c: the frontends, one for each client ---- */
/* Takes client->fd, also when it fails. */
int fronts_start(struct tree *t, const struct client *client);
/* Frees those whose process is gone; not from inside the machine of one of them. */
void fronts_bury(struct tree *t);
size_t fronts_of_user(const struct tree *t, uint64_t uid); /* by unix socket */
size_t fronts_of_kind(const struct tree *t, enum client_kind kind);
void fronts_done(struct tree *t);

/* ---- accept.c: connections in, within limits ---- */
struct accept_limits {
	uint32_t all, of_user;      /* at once */
	uint32_t burst, per_second; /* of one source: a user, or all of http */
};
struct acceptor;
/* Takes the listening descriptors (-1: none). */
struct acceptor *accept_new(struct tree *t, int unix_fd, int http_fd, const struct accept_limits *);
void accept_room(struct acceptor *a); /* a frontend is gone */
void accept_free(struct acceptor *a); /* NULL ok */
bool accept_is_shortage(int err);     /* it passes; any other is the connection's own fault */

#include "status.h"

struct tree {
	struct event_base *base;
	struct options options;
	struct serve serve;
	struct facts facts;
	struct engine_target engine;
	struct identity identity;
	struct child child[CHILD_SINGLES];
	struct child_list fronts;
	size_t n_fronts;
	uint64_t last_peer;
	uint32_t front_layers; /* of the last frontend that got ready */
	int exe[CHILD_COUNT];
	int ledger, output; /* memfds of the reaper and the broker, which outlive them */
	struct tokens tokens;
	struct listen_address http_at;
	int unix_fd, http_fd; /* listening, until accept.c takes them */
	int status_fd;        /* the same, for status.c */
	struct host_lists lists;
	struct acceptor *acceptor;
	pid_t tls_keeper;                  /* 0: none */
	struct known known[CHILD_SINGLES]; /* what broker and reaper told of themselves */
	struct status *status;             /* NULL: no status socket */
	uint64_t started_ms;
	uid_t uid;                  /* whose tree it is: before ids were switched */
	bool on_terminal;           /* its log is one: SIGHUP says that it was closed */
	struct log_limit front_log; /* lines about frontends, which clients may provoke */
	uint32_t own_layers;
	struct event *stop_timer;
	bool stopping;
	bool over; /* no child runs or will run */
	int exit_code;
};
/* launch.c: c->pid stays 0 when no process came of it. */
int launch(struct child *c);

void child_init(struct child *c, struct tree *t, enum child_id id);
void child_start(struct child *c);
void child_done(struct child *c);
const char *children_state(const struct child *c); /* "ready" */
/* Every child there is, from tree.child[0] on: broker, reaper, then the frontends. */
struct child *children_next(const struct child *last);
void children_init(struct tree *t);
void children_reap(struct tree *t);                /* after SIGCHLD */
void children_stop(struct tree *t, int exit_code); /* orderly; the loop ends when all have */
void children_done(struct tree *t);

/* ---- tree.c: the whole life of a tree ---- */
/* Takes the engine target. Returns the exit code. */
int
tree_run(const struct options *o, const struct engine_target *engine, const struct serve *serve);

#endif
