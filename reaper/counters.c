/*
 * reaper/counters.c - the counters of a box's cgroup, v1 and v2, opened for the broker.
 * Runs in: bailey-reaper.
 * Input: /proc/PID/cgroup and the cgroup file system; trusted, but any file may
 *	be missing (older kernels, unusual mounts): its figure is then left out.
 * Owns: nothing; what it opens is kept with the box, for the broker that comes next.
 */
#include "reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the kernel keeps them; the v2 file serves where its controller has no v1 hierarchy. */
static const struct place {
	const char *controller, *v1, *v2;
} places[COUNTERS] = {
	[COUNTER_USAGE] = {"memory", "memory.usage_in_bytes", "memory.current"},
	[COUNTER_PEAK] = {"memory", "memory.max_usage_in_bytes", "memory.peak"},
	[COUNTER_OOM] = {"memory", "memory.oom_control", "memory.events"},
	[COUNTER_PIDS] = {"pids", "pids.events", "pids.events"},
	[COUNTER_CPU] = {"cpuacct", "cpuacct.usage", "cpu.stat"},
};

/* True when the comma separated list holds name. */
static bool
list_has(const char *list, size_t n, const char *name)
{
	size_t name_len = strlen(name);

	for (size_t at = 0; at < n;) {
		const char *comma = memchr(list + at, ',', n - at);
		size_t len = comma != NULL ? (size_t)(comma - list) - at : n - at;
		if (len == name_len && memcmp(list + at, name, len) == 0)
			return true;
		at += len + 1;
	}
	return false;
}

/* The cgroup path of a controller in /proc/PID/cgroup; controller "" is the v2 hierarchy. */
static int
find_path(const char *text, const char *controller, char *ret, size_t cap)
{
	while (*text != '\0') {
		size_t line = strcspn(text, "\n");
		const char *end = text + line;
		const char *list = memchr(text, ':', line);
		const char *path =
			list != NULL ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		if (path != NULL) {
			size_t n = (size_t)(path - list) - 1;
			bool hit = *controller == '\0' ? n == 0 : list_has(list + 1, n, controller);
			if (hit)
				return str_copy(ret, cap, path + 1, (size_t)(end - path) - 1);
		}
		text = *end == '\0' ? end : end + 1;
	}
	return -ENOENT;
}

static int
open_counter(int cgroup_fd, const char *mount, const char *path, const char *file)
{
	char full[PATH_MAX];

	int n = snprintf(full, sizeof(full), "%s%s/%s", mount, path, file);
	if (n < 0 || (size_t)n >= sizeof(full) || strstr(full, "/../") != NULL)
		return -1;
	const char *relative = full;
	while (*relative == '/')
		relative++;
	return openat(cgroup_fd, relative, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

void
counters_open(struct counters *c, int proc_fd, int cgroup_fd, uint32_t pid)
{
	char name[32], text[4096], path[PATH_MAX];
	size_t len;

	counters_close(c);
	int n = snprintf(name, sizeof(name), "%u/cgroup", pid);
	if (n < 0 || (size_t)n >= sizeof(name) ||
	    fd_read_file(proc_fd, name, text, sizeof(text), &len) < 0)
		return;
	for (size_t i = 0; i < COUNTERS; i++) {
		const struct place *p = &places[i];

		if (find_path(text, p->controller, path, sizeof(path)) == 0)
			c->fd[i] = open_counter(cgroup_fd, p->controller, path, p->v1);
		if (c->fd[i] == -1 && find_path(text, "", path, sizeof(path)) == 0)
			c->fd[i] = open_counter(cgroup_fd, "", path, p->v2);
	}
}

void
counters_pass(const struct counters *c, struct link *to, uint64_t box)
{
	for (uint32_t i = 0; i < COUNTERS; i++)
		if (c->fd[i] != -1)
			(void)link_send_fd(to, IPC_ROW(watch_counter, .box = box, .which = i),
					   c->fd[i]);
}
