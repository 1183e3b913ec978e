/*
 * guest/tree.c - ends every process below one, however fast they fork.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: /proc, filled by untrusted processes (names with any bytes).
 * Owns: nothing.
 *
 * A walk reads every process' parent and marks what hangs below root. Each
 * newly found one is stopped; when a walk finds no new one, nobody is left
 * who could fork, and all are killed. Zombies are somebody's to reap: not ours.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define TREE_MAX 8192u   /* processes seen at once; the caller walks again for more */
#define TREE_ROUNDS 256u /* bounds a walk against what keeps appearing */

struct tree_entry {
	pid_t pid, parent;
	bool dead, below;
};
struct tree_walk {
	size_t n;
	struct tree_entry entries[TREE_MAX];
	size_t n_stopped;
	pid_t stopped[TREE_MAX];
};
static struct tree_walk walk; /* static: an emergency must not need memory */

/* "pid (name) S ppid …", where the name may hold anything, parentheses too. */
static bool
tree_parse_stat(const char *text, pid_t pid, struct tree_entry *ret)
{
	const char *at = strrchr(text, ')');
	uint64_t parent = 0;

	if (at == NULL || at[1] != ' ' || at[2] == '\0' || at[3] != ' ')
		return false;
	ret->pid = pid;
	ret->dead = at[2] == 'Z' || at[2] == 'X' || at[2] == 'x';
	ret->below = false;
	for (at += 4; *at >= '0' && *at <= '9'; at++) {
		parent = parent * 10 + (uint64_t)(*at - '0');
		if (parent > INT32_MAX)
			return false;
	}
	ret->parent = (pid_t)parent;
	return true;
}

static int
tree_read(void)
{
	char path[32];
	char text[1024];
	struct dirent *d;
	uint64_t pid;
	DIR *dir;
	int fd;

	walk.n = 0;
	dir = opendir("/proc");
	if (dir == NULL)
		return -errno;
	fd = dirfd(dir);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
	while (walk.n < TREE_MAX && (d = readdir(dir)) != NULL) {
		if (parse_u64(d->d_name, 1, INT32_MAX, &pid) < 0)
			continue;
		(void)snprintf(path, sizeof(path), "%" PRIu64 "/stat", pid);
		if (fd_read_file(fd, path, text, sizeof(text), NULL) < 0)
			continue; /* it ended meanwhile */
		if (tree_parse_stat(text, (pid_t)pid, &walk.entries[walk.n]))
			walk.n++;
	}
	(void)closedir(dir);
	return walk.n == 0 ? -ENOENT : 0; /* not even ourselves: no usable /proc */
}

static bool
tree_is_below(pid_t pid)
{
	for (size_t i = 0; i < walk.n; i++) {
		if (walk.entries[i].pid == pid)
			return walk.entries[i].below;
	}
	return false;
}

/* A tree that a walk leaves alone: its root is not below, so nothing below it is. */
struct tree_keep {
	const pid_t *roots;
	size_t n;
};

static bool
tree_is_kept(const struct tree_keep *keep, pid_t pid)
{
	for (size_t i = 0; i < keep->n; i++) {
		if (keep->roots[i] == pid)
			return true;
	}
	return false;
}

/* Parents usually have smaller numbers, so one pass mostly does; repeated until nothing changes. */
static void
tree_mark(pid_t root, const struct tree_keep *keep)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < walk.n; i++) {
			struct tree_entry *e = &walk.entries[i];

			if (e->below || e->pid == root || e->pid == 1 || tree_is_kept(keep, e->pid))
				continue;
			if (e->parent == root || tree_is_below(e->parent)) {
				e->below = true;
				changed = true;
			}
		}
	}
}

static bool
tree_was_stopped(pid_t pid)
{
	for (size_t i = 0; i < walk.n_stopped; i++) {
		if (walk.stopped[i] == pid)
			return true;
	}
	return false;
}

/* One walk: stops what is new. Number of new ones, or -errno. */
static int
tree_stop_new(pid_t root, const struct tree_keep *keep)
{
	int found = 0;
	int r = tree_read();

	if (r < 0)
		return r;
	tree_mark(root, keep);
	for (size_t i = 0; i < walk.n && walk.n_stopped < TREE_MAX; i++) {
		const struct tree_entry *e = &walk.entries[i];

		if (!e->below || e->dead || tree_was_stopped(e->pid))
			continue;
		(void)kill(e->pid, SIGSTOP); /* gone meanwhile is as good */
		walk.stopped[walk.n_stopped++] = e->pid;
		found++;
	}
	return found;
}

/* Only as PID 1 does -1 mean "all others of this sandbox". */
void
tree_kill_all(void)
{
	if (getpid() == 1)
		(void)kill(-1, SIGKILL); /* nobody there is as good */
}

static uint32_t
tree_kill_but(pid_t root, const struct tree_keep *keep)
{
	int found = 1;

	/* Outside a sandbox number 1 is the whole machine. */
	if (root < 1 || (root == 1 && getpid() != 1))
		return 0;
	walk.n_stopped = 0;
	for (size_t i = 0; found > 0 && i < TREE_ROUNDS; i++)
		found = tree_stop_new(root, keep);
	if (found < 0) {
		tree_kill_all(); /* nothing can be told apart */
		return 1;
	}
	/* A fork in the middle fails once its process has this signal pending. */
	for (size_t i = 0; i < walk.n_stopped; i++)
		(void)kill(walk.stopped[i], SIGKILL);
	return (uint32_t)walk.n_stopped;
}

uint32_t
tree_kill(pid_t root)
{
	const struct tree_keep none = {0};

	return tree_kill_but(root, &none);
}

uint32_t
tree_kill_others(const pid_t *known, size_t n)
{
	const struct tree_keep keep = {known, n};

	return tree_kill_but(1, &keep);
}
