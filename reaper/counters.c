/*
 * reaper/counters.c - what the host measured of a box: cgroup v1 and v2 files.
 * Runs in: bailey-reaper.
 * Input: /proc/PID/cgroup and the cgroup file system; trusted, but any file may
 *	be missing (older kernels, unusual mounts): its figure is then left out.
 * Owns: the open files of one box. They are opened when the box is held, so an
 *	answer is a handful of pread calls.
 */
#include "reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void
counters_init(struct counters *c)
{
	*c = (struct counters){.usage = -1, .peak = -1, .oom = -1, .cpu = -1, .pids = -1};
}

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

static void
open_v2(struct counters *c, int cgroup_fd, const char *path)
{
	if (c->usage == -1)
		c->usage = open_counter(cgroup_fd, "", path, "memory.current");
	if (c->peak == -1)
		c->peak = open_counter(cgroup_fd, "", path, "memory.peak");
	if (c->oom == -1)
		c->oom = open_counter(cgroup_fd, "", path, "memory.events");
	if (c->pids == -1)
		c->pids = open_counter(cgroup_fd, "", path, "pids.events");
	if (c->cpu == -1) {
		c->cpu = open_counter(cgroup_fd, "", path, "cpu.stat");
		c->v2_cpu = c->cpu != -1;
	}
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
	if (find_path(text, "memory", path, sizeof(path)) == 0) {
		c->usage = open_counter(cgroup_fd, "memory", path, "memory.usage_in_bytes");
		c->peak = open_counter(cgroup_fd, "memory", path, "memory.max_usage_in_bytes");
		c->oom = open_counter(cgroup_fd, "memory", path, "memory.oom_control");
	}
	if (find_path(text, "cpuacct", path, sizeof(path)) == 0)
		c->cpu = open_counter(cgroup_fd, "cpuacct", path, "cpuacct.usage");
	if (find_path(text, "pids", path, sizeof(path)) == 0)
		c->pids = open_counter(cgroup_fd, "pids", path, "pids.events");
	if (find_path(text, "", path, sizeof(path)) == 0)
		open_v2(c, cgroup_fd, path);
}

/* The number after key at the start of a line; key "" takes the first number of the file. */
static bool
read_number(int fd, const char *key, uint64_t *ret)
{
	char text[1024];

	if (fd == -1)
		return false;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return false;
	text[n] = '\0';
	size_t key_len = strlen(key);
	for (char *line = text; *line != '\0';) {
		size_t len = strcspn(line, "\n");
		char *next = line + len;
		if (*next != '\0')
			*next++ = '\0';
		if (key_len == 0)
			return parse_u64(line, 0, UINT64_MAX, ret) == 0;
		if (len > key_len + 1 && memcmp(line, key, key_len) == 0 && line[key_len] == ' ')
			return parse_u64(line + key_len + 1, 0, UINT64_MAX, ret) == 0;
		line = next;
	}
	return false;
}

void
counters_read(const struct counters *c, bool current, struct figures *ret)
{
	*ret = (struct figures){.have = 0};
	if (current && read_number(c->usage, "", &ret->current_bytes))
		ret->have |= FIG_CURRENT;
	if (read_number(c->peak, "", &ret->peak_bytes))
		ret->have |= FIG_PEAK;
	if (read_number(c->oom, "oom_kill", &ret->oom_kills))
		ret->have |= FIG_OOM;
	if (read_number(c->pids, "max", &ret->pids_hits))
		ret->have |= FIG_PIDS;
	if (c->v2_cpu) {
		if (read_number(c->cpu, "usage_usec", &ret->cpu_us))
			ret->have |= FIG_CPU;
	} else if (read_number(c->cpu, "", &ret->cpu_us)) {
		ret->cpu_us /= 1000; /* cpuacct counts nanoseconds */
		ret->have |= FIG_CPU;
	}
}

void
counters_close(struct counters *c)
{
	int *const all[] = {&c->usage, &c->peak, &c->oom, &c->cpu, &c->pids};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		cleanup_closep(all[i]);
	counters_init(c);
}
