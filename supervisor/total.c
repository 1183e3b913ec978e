/*
 * supervisor/total.c - the cgroup above all sandboxes of this host: their common cap.
 * Runs in: baileyd, as root, before it gives up its rights.
 * Input: the host's cgroup file system, trusted.
 * Owns: the directory "bailey" in the memory hierarchy. It is shared by every tree
 *   of the host and stays, as the engine's own does: an empty cgroup costs nothing,
 *   and one tree cannot know that no other is about to use it.
 * The broker counts memory limits and admits up to the same sum; this is what holds
 * when several trees count for themselves.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INIT_CGROUP_NS 0xEFFFFFFBu /* linux/proc_ns.h: PROC_CGROUP_INIT_INO */

static int
write_word(int dir, const char *name, const char *word)
{
	cleanup_close int fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd == -1)
		return -errno;
	return fd_write_all(fd, word, strlen(word));
}

/* In a cgroup namespace of our own the engine's "/bailey" is not the one seen here. */
bool
total_sees_host(void)
{
	struct stat st;

	return stat("/proc/self/ns/cgroup", &st) == 0 && st.st_ino == INIT_CGROUP_NS;
}

int
total_open(const char *root, uint64_t bytes, char *ret, size_t cap)
{
	char limit[24], path[PATH_MAX];
	cleanup_close int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (top == -1)
		return -errno;
	bool v2 = faccessat(top, "cgroup.controllers", F_OK, 0) == 0;
	if (v2) {
		/* Already on where an engine has run; refused where another manager owns it. */
		int r = write_word(top, "cgroup.subtree_control", "+memory");
		if (r < 0)
			return r;
	}
	(void)snprintf(path, sizeof(path), "%s" TOTAL_CGROUP, v2 ? "." : "memory");
	if (mkdirat(top, path, 0755) == -1 && errno != EEXIST)
		return -errno;
	cleanup_close int dir = openat(top, path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir == -1)
		return -errno;
	(void)snprintf(limit, sizeof(limit), "%" PRIu64, bytes);
	int r = write_word(dir, v2 ? "memory.max" : "memory.limit_in_bytes", limit);
	return r < 0 ? r : str_copy(ret, cap, TOTAL_CGROUP, strlen(TOTAL_CGROUP));
}
