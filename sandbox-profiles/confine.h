/*
 * sandbox-profiles/confine.h - how a host process gives up its rights, and the
 * tables that say what remains. base + libseccomp (confine.c, foreign.c).
 *
 * Order: the supervisor sets groups and ids between fork and exec (its
 * identity.c); the child, first thing in main, calls confine_start, opens what it
 * needs, then confine_lock, then confine_selftest, then says ready.
 */
#ifndef BAILEY_CONFINE_H
#define BAILEY_CONFINE_H

#include "base.h"

/* What check_sandbox_health names; bits of ready.layers. */
enum confine_layer {
	LAYER_UID = 1,        /* a role uid of its own */
	LAYER_NAMESPACES = 2, /* user, mount, net and ipc; empty root */
	LAYER_NO_NEW_PRIVS = 4,
	LAYER_CAPS = 8, /* no capability, or only the named one */
	LAYER_RLIMITS = 16,
	LAYER_SECCOMP = 32,
	LAYER_UNDUMPABLE = 64,
	LAYER_NO_FILES = 128, /* Landlock without any file-system right, where the kernel has it */
};
const char *confine_layer_name(enum confine_layer one_bit);
/* Walks the bits of layers; *cursor starts at 0. */
bool confine_next_layer(uint32_t layers, uint32_t *cursor, enum confine_layer *ret);

/* Which table: one per program, plus the broker's second one for tcp engines. */
enum confine_table {
	TABLE_FRONTEND,
	TABLE_BROKER,
	TABLE_BROKER_TCP,
	TABLE_REAPER,
	TABLE_SUPERVISOR
};

/* What the supervisor tells a child on its command line: "key=value" words. */
struct confine_plan {
	enum confine_table table;
	int parent;            /* parent=PID: exits when getppid() differs (PDEATHSIG race) */
	bool expect_uid;       /* uid=1: ids were switched; running as uid 0 is refused */
	bool namespaces;       /* ns=1: try user+mount+net+ipc namespaces with an empty root */
	bool keep_net;         /* net=1: keep the host network (tcp engine) */
	bool keep_kill;        /* kill=1: keep CAP_KILL (reaper with role uids) */
	char bind_dir[2][512]; /* bind=DIR (twice at most): kept in the empty root, same path */
	bool bind_readonly;    /* bindro=1 */
	bool debug;            /* debug=1: log level debug */
	bool events;           /* events=1: log level info, what a server tells */
	bool log_only;         /* confine=log: filter only logs; refused by what is shipped */
	char engine[8];        /* engine=unix|tcp: picks the broker's table */
};
/* Parses argv[1..]; unknown words are -EINVAL. ret->table is left as it is: set it before. The
 * broker sets TABLE_BROKER; engine=tcp makes it TABLE_BROKER_TCP. */
int confine_args(int argc, char **argv, struct confine_plan *ret);

/* close_range past last_fd, signals blocked (SIGPIPE ignored), parent check, PDEATHSIG, umask
 * 077, stdin/stdout sanity. First call of main. */
int confine_start(const struct confine_plan *plan, int last_fd);
/* Namespaces (when planned; a refusal by the kernel is not an error, the layer is just absent),
 * rlimits, no_new_privs, capabilities, undumpable, Landlock where present, seccomp from the table.
 * Any failure other than a refused optional layer: -errno, and the caller must not go on. */
int confine_lock(const struct confine_plan *plan, uint32_t *ret_layers);
/* Under the filter: exercises allocation, clocks, timerfd, epoll, socket I/O and logging; checks
 * seccomp mode, no_new_privs, dumpable, uid and capabilities. */
int confine_selftest(const struct confine_plan *plan, uint32_t layers);

/* Before a program that is not ours is executed, with no_new_privs set: no core, 4096 descriptors,
 * and EPERM for the calls of foreign.def, through exec. -errno, and the caller must not go on. */
int confine_foreign(void);

/* One row of a table, for tests/confine: the expected verdict for a call by number. */
enum confine_verdict { CONFINE_ALLOW, CONFINE_ERRNO, CONFINE_KILL };
struct confine_row {
	const char *name;
	int nr;
	enum confine_verdict verdict;
	int err;      /* CONFINE_ERRNO */
	bool has_arg; /* applies only when argument arg equals value under mask */
	bool own_pid; /* value is the pid of the process the filter is for */
	unsigned arg;
	uint64_t mask, value;
};
/* Rows whose call this processor does not have are left out. */
size_t confine_rows(enum confine_table table, const struct confine_row **ret);
const char *confine_table_name(enum confine_table table);

#endif
