/*
 * broker/counters.c - what the kernel counted of a box: its cgroup's files, which the reaper
 * found and opened.
 *
 * Runs in: bailey-broker.
 * Input: files of the kernel, v1 or v2; any may be missing, and none can be read any more once the
 *        engine has removed the cgroup: its figure is then left out.
 * Owns: nothing.
 *
 * Read here and not by the reaper: asking it took a tenth of a millisecond of every call.
 */
#include <string.h>
#include <unistd.h>

#include "broker.h"

static const struct source {
	const char *key; /* of its line */
	enum host_figure figure;
	uint32_t bare_divisor; /* where the file is one number alone: by what; 0: it never is */
} sources[COUNTERS] = {
	[COUNTER_USAGE] = {"", FIG_CURRENT, 1},        [COUNTER_PEAK] = {"", FIG_PEAK, 1},
	[COUNTER_OOM] = {"oom_kill", FIG_OOM, 0},      [COUNTER_PIDS] = {"max", FIG_PIDS, 0},
	[COUNTER_CPU] = {"usage_usec", FIG_CPU, 1000}, /* v1 counts nanoseconds */
};

/* The number behind key at the start of a line, or in the first line where key is "". Cuts text. */
static bool
number_of(char *text, const char *key, uint64_t *ret)
{
	size_t n = strlen(key);

	for (char *line = text; *line != '\0';) {
		size_t len = strcspn(line, "\n");
		char *next = line[len] == '\0' ? line + len : line + len + 1;

		line[len] = '\0';
		if (n == 0)
			return parse_u64(line, 0, UINT64_MAX, ret) == 0;
		if (len > n && memcmp(line, key, n) == 0 && line[n] == ' ')
			return parse_u64(line + n + 1, 0, UINT64_MAX, ret) == 0;
		line = next;
	}
	return false;
}

static bool
read_source(const struct source *s, int fd, uint64_t *ret)
{
	char text[1024];
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return false;
	text[n] = '\0';
	if (s->bare_divisor == 0 || *text < '0' || *text > '9')
		return number_of(text, s->key, ret);
	if (!number_of(text, "", ret))
		return false;
	*ret /= s->bare_divisor;
	return true;
}

void
counters_read(const struct counters *c, bool current, struct figures *ret)
{
	uint64_t value[COUNTERS] = {0};

	*ret = (struct figures){.have = 0};
	for (size_t i = current ? COUNTER_USAGE : COUNTER_PEAK; i < COUNTERS; i++)
		if (read_source(&sources[i], c->fd[i], &value[i]))
			ret->have |= sources[i].figure;
	ret->current_bytes = value[COUNTER_USAGE];
	ret->peak_bytes = value[COUNTER_PEAK];
	ret->oom_kills = value[COUNTER_OOM];
	ret->pids_hits = value[COUNTER_PIDS];
	ret->cpu_us = value[COUNTER_CPU];
}
