/*
 * reaper/sweep.c - is the tree that made a labelled container gone?
 * Runs in: bailey-reaper.
 * Input: labels as the broker read them (any engine user could have written
 *	them: the worst a forged label gets is its own container's removal), /proc.
 * Owns: nothing.
 * When in doubt the tree is alive: another tree's box is never touched.
 */
#include "reaper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define UNREADABLE_AGE_S 60u

int
sweep_start_time(int proc_fd, uint32_t pid, uint64_t *ret)
{
	char path[32];

	int n = snprintf(path, sizeof(path), "%u/stat", pid);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -EINVAL;
	int r = fd_read_start_time(proc_fd, path, ret);
	return r == -ENOENT ? -ESRCH : r;
}

static bool
unreadable_is_dead(const struct ipc_sweep_candidate *c)
{
	return c->running == 0 && c->age_s > UNREADABLE_AGE_S;
}

bool
sweep_is_dead(int proc_fd, const struct tree_facts *own, const struct ipc_sweep_candidate *c)
{
	uint64_t start;

	if (c->boot_id.len != strlen(own->boot_id) || c->boot_id.len == 0)
		return unreadable_is_dead(c);
	if (memcmp(c->boot_id.data, own->boot_id, c->boot_id.len) != 0)
		return true;
	if (c->pid_ns == 0 || own->pid_ns == 0 || c->pid_ns != own->pid_ns)
		return unreadable_is_dead(c);
	/* A /proc that hides our own supervisor would make every tree look gone. */
	if (sweep_start_time(proc_fd, own->tree_pid, &start) < 0 || start != own->tree_start)
		return unreadable_is_dead(c);
	int r = sweep_start_time(proc_fd, c->tree_pid, &start);
	if (r == -ESRCH)
		return true;
	if (r < 0)
		return unreadable_is_dead(c);
	return start != c->tree_start;
}
