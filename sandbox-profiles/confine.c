/*
 * sandbox-profiles/confine.c - a host process gives up its rights: command-line
 * words, the first call of main, the lock, the syscall filter.
 * Runs in: supervisor, frontend, broker, reaper, before they read any peer.
 * Input: argv from the supervisor; trusted.
 * Owns: nothing; the filter is the kernel's once loaded.
 * With foreign.c the only user of libseccomp.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confine_parts.h"

/* Together four times what the largest table needs; each below what malloc would map. */
#define RESERVE_BLOCKS 9
#define RESERVE_BLOCK ((size_t)64 * 1024)

static const struct {
	enum confine_layer layer;
	const char *name;
} layers[] = {
	{LAYER_UID, "uid"},
	{LAYER_NAMESPACES, "namespaces"},
	{LAYER_NO_NEW_PRIVS, "no_new_privs"},
	{LAYER_CAPS, "capabilities"},
	{LAYER_RLIMITS, "rlimits"},
	{LAYER_SECCOMP, "seccomp"},
	{LAYER_UNDUMPABLE, "undumpable"},
	{LAYER_NO_FILES, "landlock"},
};

const char *
confine_layer_name(enum confine_layer one_bit)
{
	for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
		if (layers[i].layer == one_bit)
			return layers[i].name;
	}
	return "unknown";
}

bool
confine_next_layer(uint32_t mask, uint32_t *cursor, enum confine_layer *ret)
{
	while (*cursor < ARRAY_LEN(layers)) {
		enum confine_layer layer = layers[(*cursor)++].layer;

		if ((mask & (uint32_t)layer) != 0) {
			*ret = layer;
			return true;
		}
	}
	return false;
}

/* ---- the words of the command line ---- */

static int
arg_bool(const char *value, bool *ret)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return -EINVAL;
	*ret = value[0] == '1';
	return 0;
}

/* An absolute path below / without "." or ".." parts. */
static int
arg_bind(const char *value, struct confine_plan *plan)
{
	size_t slot = plan->bind_dir[0][0] == '\0' ? 0 : 1;

	if (plan->bind_dir[slot][0] != '\0' || value[0] != '/' || value[1] == '\0')
		return -EINVAL;
	for (const char *part = value; part != NULL; part = strchr(part + 1, '/')) {
		size_t n = strcspn(part + 1, "/");

		if (n == 0 || (n <= 2 && strncmp(part + 1, "..", n) == 0))
			return -EINVAL;
	}
	return str_copy(plan->bind_dir[slot], sizeof(plan->bind_dir[slot]), value, strlen(value));
}

static int
arg_word(const char *key, size_t key_len, const char *value, struct confine_plan *plan)
{
	const struct {
		const char *key;
		bool *flag;
	} flags[] = {
		{"uid", &plan->expect_uid},       {"ns", &plan->namespaces},
		{"net", &plan->keep_net},         {"kill", &plan->keep_kill},
		{"bindro", &plan->bind_readonly}, {"debug", &plan->debug},
		{"events", &plan->events},
	};

#define KEY_IS(word) (key_len == sizeof(word) - 1 && memcmp(key, word, key_len) == 0)
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (key_len == strlen(flags[i].key) && memcmp(key, flags[i].key, key_len) == 0)
			return arg_bool(value, flags[i].flag);
	}
	if (KEY_IS("parent")) {
		uint64_t pid = 0;
		int r = parse_u64(value, 1, INT_MAX, &pid);

		if (r == 0)
			plan->parent = (int)pid;
		return r;
	}
	if (KEY_IS("bind"))
		return arg_bind(value, plan);
	if (KEY_IS("engine")) {
		if (strcmp(value, "unix") != 0 && strcmp(value, "tcp") != 0)
			return -EINVAL;
		return str_copy(plan->engine, sizeof(plan->engine), value, strlen(value));
	}
	if (KEY_IS("confine") && strcmp(value, "log") == 0) {
#ifdef BAILEY_CONFINE_LOG
		plan->log_only = true;
		return 0;
#else
		return -EPERM; /* a shipped program cannot be told to only watch */
#endif
	}
	return -EINVAL;
}

int
confine_args(int argc, char **argv, struct confine_plan *ret)
{
	struct confine_plan plan = {.table = ret->table};

	for (int i = 1; i < argc; i++) {
		const char *equals = strchr(argv[i], '=');

		if (equals == NULL)
			return -EINVAL;
		int r = arg_word(argv[i], (size_t)(equals - argv[i]), equals + 1, &plan);
		if (r < 0)
			return r;
	}
	if (plan.table == TABLE_BROKER && strcmp(plan.engine, "tcp") == 0)
		plan.table = TABLE_BROKER_TCP;
	*ret = plan;
	return 0;
}

/* ---- first call of main ---- */

/* The kernel forgets this at setresuid, so it is said again after the lock. */
static int
follow_parent(const struct confine_plan *plan)
{
	if (plan->parent == 0)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1)
		return -errno;
	/* It may have died before that line; then the signal never comes. */
	return getppid() == plan->parent ? 0 : -ESRCH;
}

/* 0, 1 and 2 exist, or the next descriptor opened would be taken for one. */
static int
fill_standard_fds(void)
{
	for (int fd = FD_IN; fd <= FD_LOG; fd++) {
		if (fcntl(fd, F_GETFD) != -1)
			continue;
		/* Numbers are given out from the lowest: this becomes fd, to stay across exec. */
		if (open("/dev/null", O_RDWR) != fd) // NOLINT(android-cloexec-open)
			return -EBADF;
	}
	return 0;
}

int
confine_start(const struct confine_plan *plan, int last_fd)
{
	sigset_t all;

	(void)sigfillset(&all); /* cannot fail on a valid pointer */
	// NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
	if (sigprocmask(SIG_SETMASK, &all, NULL) == -1)
		return -errno;
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	int r = fd_close_from(last_fd + 1);
	if (r < 0)
		return r;
	r = fill_standard_fds();
	if (r < 0)
		return r;
	(void)umask(077);     /* cannot fail */
	(void)sched_prompt(); /* only faster: nothing hangs on it */
	return follow_parent(plan);
}

/* ---- the filter ---- */

#ifndef BAILEY_NO_FILTER
static int
add_row(scmp_filter_ctx filter, const struct confine_row *row)
{
	uint32_t action = SCMP_ACT_ALLOW;
	struct scmp_arg_cmp condition = {
		.arg = row->arg,
		.op = row->mask == UINT64_MAX ? SCMP_CMP_EQ : SCMP_CMP_MASKED_EQ,
		.datum_a = row->mask == UINT64_MAX ? row->value : row->mask,
		.datum_b = row->mask == UINT64_MAX ? 0 : row->value,
	};

	if (row->verdict == CONFINE_ERRNO)
		action = SCMP_ACT_ERRNO((uint16_t)row->err);
	if (row->own_pid)
		condition.datum_a = (scmp_datum_t)getpid();
	return seccomp_rule_add_array(filter, action, row->nr, row->has_arg ? 1 : 0, &condition);
}

static int
build_filter(scmp_filter_ctx filter, enum confine_table table)
{
	static const struct {
		enum scmp_filter_attr attr;
		uint32_t value;
	} attrs[] = {
		{SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS},
		{SCMP_FLTATR_CTL_NNP, 0}, /* set and checked by confine_lock */
		{SCMP_FLTATR_CTL_LOG, 1},
		{SCMP_FLTATR_CTL_OPTIMIZE, 2}, /* a binary tree by call number */
	};
	const struct confine_row *rows = NULL;
	size_t n = confine_rows(table, &rows);

	for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
		int r = seccomp_attr_set(filter, attrs[i].attr, attrs[i].value);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		int r = add_row(filter, &rows[i]);
		if (r < 0)
			return r;
	}
	return seccomp_load(filter);
}

/* libseccomp 2.5 does not survive an allocation that fails: it crashes, loops for ever, or loads a
 * filter with rows missing. So what it needs is asked for before it starts: blocks that malloc
 * takes from the heap, given back for it to find there, below a last one that keeps the heap from
 * shrinking. NULL when there is not that much. */
static void *
reserve_memory(void)
{
	void *block[RESERVE_BLOCKS];
	size_t n = 0;

	while (n < RESERVE_BLOCKS) {
		block[n] = malloc(RESERVE_BLOCK);
		if (block[n] == NULL)
			break;
		n++;
	}
	void *last = n == RESERVE_BLOCKS ? block[--n] : NULL;
	while (n > 0)
		free(block[--n]);
	return last;
}

static int
load_filter(const struct confine_plan *plan)
{
	cleanup_free void *last = reserve_memory();

	if (last == NULL)
		return -ENOMEM;
	scmp_filter_ctx filter =
		seccomp_init(plan->log_only ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
	if (filter == NULL)
		return -ENOMEM;
	int r = build_filter(filter, plan->table);
	seccomp_release(filter);
	free(TAKE(last));
	(void)malloc_trim(0); /* building took more heap than the process will need for long */
	return r;
}
#endif

/* ---- the lock ---- */

static int
drop_caps(const struct confine_plan *plan)
{
	/* The supervisor came here with exactly what it needs (identity.c there). */
	if (plan->table != TABLE_SUPERVISOR)
		return confine_caps_drop(plan->keep_kill);
	return confine_caps_check(confine_caps_kept(plan));
}

static int
lock_rights(const struct confine_plan *plan, uint32_t *mask)
{
	int r = confine_limits(plan->table);

	if (r < 0)
		return r;
	*mask |= LAYER_RLIMITS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return -errno;
	*mask |= LAYER_NO_NEW_PRIVS;
	r = drop_caps(plan);
	if (r < 0)
		return r;
	*mask |= LAYER_CAPS;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1)
		return -errno;
	*mask |= LAYER_UNDUMPABLE;
	if (confine_opens_nothing(plan->table)) {
		r = confine_no_files();
		if (r < 0)
			return r;
		*mask |= r == 1 ? LAYER_NO_FILES : 0;
	}
	return follow_parent(plan);
}

int
confine_lock(const struct confine_plan *plan, uint32_t *ret_layers)
{
	uint32_t mask = 0;

	int r = confine_ids_check(plan->expect_uid);
	if (r < 0)
		return r;
	mask |= plan->expect_uid ? LAYER_UID : 0;
	if (plan->namespaces) {
		r = confine_namespaces(plan);
		if (r < 0)
			return r;
		mask |= r == 1 ? LAYER_NAMESPACES : 0;
	}
	r = lock_rights(plan, &mask);
	if (r < 0)
		return r;
#ifndef BAILEY_NO_FILTER
	r = load_filter(plan);
	if (r < 0)
		return r;
	mask |= plan->log_only ? 0 : LAYER_SECCOMP;
#endif
	*ret_layers = mask;
	return 0;
}
