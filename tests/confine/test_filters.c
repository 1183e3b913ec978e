/*
 * tests/confine/test_filters.c - test_filters TABLE: one child per call number
 * from 0 up, under the table's filter: what a row allows comes back (or ends in
 * its own way), what a row refuses comes back with that errno, everything else
 * dies by SIGSYS. Conditional rows are tried with a matching argument, with the
 * bits turned over, and with a bit above 32 set.
 * Runs in: ctest; as root a second time as BAILEY_TEST_USER where that is set.
 * Input: none.
 * Owns: nothing.
 * Arguments are all ones: no pointer, no descriptor, no flag set the kernel
 * would accept, so that an allowed call does nothing.
 */
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "confine.h"
#include "forked.h"

#define CALLS_MAX 520 /* past the newest number any kernel knows today */
#define ABOVE_32 (UINT64_C(1) << 32)

#ifdef BAILEY_NO_FILTER
#define FILTERED false
#else
#define FILTERED true
#endif

struct probe {
	enum confine_table table;
	uid_t uid;
	gid_t gid;
	long nr;
	unsigned arg;
	bool set_arg, own_pid;
	uint64_t value;
};

static const struct confine_row *rows;
static size_t row_count;
static unsigned point;

static int
lock_as(const struct probe *probe)
{
	struct confine_plan plan = {.table = probe->table};
	uint32_t layers = 0;

	if (geteuid() == 0 && probe->uid != 0 &&
	    (setresgid(probe->gid, probe->gid, probe->gid) == -1 ||
	     setresuid(probe->uid, probe->uid, probe->uid) == -1))
		return -errno;
	if (probe->table == TABLE_SUPERVISOR && forked_supervisor_caps() < 0)
		return -EPERM;
	return confine_lock(&plan, &layers);
}

static int
call_in_child(struct forked *shared, void *ctx)
{
	const struct probe *probe = ctx;
	uint64_t a[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};

	int r = lock_as(probe);
	if (r < 0) {
		shared->err = -r;
		return 1;
	}
	if (probe->set_arg)
		a[probe->arg] = probe->own_pid ? (uint64_t)getpid() : probe->value;
	shared->stage = 1;
	shared->value = syscall(probe->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	shared->err = errno;
	shared->stage = 2;
	return 0;
}

enum outcome { OUT_LIVED, OUT_SIGSYS, OUT_BROKEN };

static enum outcome
try_call(const struct probe *probe, struct forked *shared)
{
	int status = forked_run(shared, call_in_child, (void *)(uintptr_t)probe);

	if (status == -1 || shared->stage == 0)
		return OUT_BROKEN;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return OUT_SIGSYS;
	return OUT_LIVED; /* came back, or ended as exit and a broken sigreturn do */
}

static void
report(bool ok, const char *what, const char *name)
{
	(void)printf("%sok %u - %s%s\n", ok ? "" : "not ", ++point, what, name);
}

/* Does some row of this call apply to that argument? */
static const struct confine_row *
row_for(long nr, unsigned arg, uint64_t value)
{
	for (size_t i = 0; i < row_count; i++) {
		const struct confine_row *row = &rows[i];

		if (row->nr != nr)
			continue;
		if (!row->has_arg || (row->arg == arg && (value & row->mask) == row->value))
			return row;
	}
	return NULL;
}

static bool
as_row_says(const struct confine_row *row, enum outcome outcome, const struct forked *shared)
{
	if (row == NULL || row->verdict == CONFINE_KILL)
		return outcome == OUT_SIGSYS;
	if (row->verdict == CONFINE_ERRNO)
		return outcome == OUT_LIVED && shared->stage == 2 && shared->value == -1 &&
		       shared->err == row->err;
	return outcome == OUT_LIVED;
}

/* The row with a matching argument, then (with a condition) two that must not pass. */
static bool
try_row(const struct confine_row *row, const struct probe *base, struct forked *shared)
{
	struct probe probe = *base;

	probe.nr = row->nr;
	probe.set_arg = row->has_arg;
	probe.own_pid = row->own_pid;
	probe.arg = row->arg;
	probe.value = row->value;
	if (!as_row_says(row, try_call(&probe, shared), shared))
		return false;
	if (!row->has_arg)
		return true;

	const uint64_t others[] = {
		row->own_pid ? (uint64_t)getpid() : row->value ^ (row->mask & (0 - row->mask)),
		row->own_pid ? 1 : row->value | (row->mask & ABOVE_32),
	};
	probe.own_pid = false;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		probe.value = others[i];
		const struct confine_row *expected =
			row->own_pid ? NULL : row_for(row->nr, row->arg, others[i]);
		if (!as_row_says(expected, try_call(&probe, shared), shared))
			return false;
	}
	return true;
}

static bool
has_row(long nr)
{
	for (size_t i = 0; i < row_count; i++) {
		if (rows[i].nr == nr)
			return true;
	}
	return false;
}

/* Of the kernel's own trampolines, which it lets past every filter and which
 * refuse whoever calls them otherwise (uretprobe, uprobe on x86-64). */
static bool
beyond_filters(long nr)
{
#ifdef __x86_64__
	return nr == 335 || nr == 336;
#else
	return nr < 0;
#endif
}

static bool
try_unlisted(const struct probe *base, struct forked *shared)
{
	bool all = true;

	for (long nr = 0; nr < CALLS_MAX; nr++) {
		struct probe probe = *base;

		probe.nr = nr;
		if (has_row(nr) || beyond_filters(nr) || try_call(&probe, shared) == OUT_SIGSYS)
			continue;
		(void)printf("# call %ld was not stopped: %ld, errno %d, stage %d\n", nr,
			     shared->value, shared->err, shared->stage);
		all = false;
	}
	return all;
}

#ifdef __x86_64__
/* The 32-bit entry; a kernel without it answers with SIGSEGV. */
static int
int80_in_child(struct forked *shared, void *ctx)
{
	long r = 20; /* getpid there */

	if (lock_as(ctx) < 0)
		return 1;
	shared->stage = 1;
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	shared->stage = 2;
	return 0;
}

static bool
try_other_abis(const struct probe *base, struct forked *shared)
{
	struct probe x32 = *base;

	x32.nr = 0x40000000 | SYS_getpid;
	if (try_call(&x32, shared) != OUT_SIGSYS)
		return false;
	int status = forked_run(shared, int80_in_child, (void *)(uintptr_t)base);
	return WIFSIGNALED(status) && shared->stage == 1;
}
#endif

/* abort must be seen as SIGABRT, or every crash looks like a forbidden call. */
static int
abort_in_child(struct forked *shared, void *ctx)
{
	if (lock_as(ctx) < 0)
		return 1;
	shared->stage = 1;
	abort();
}

/* How much more memory a process may have while it builds its filter. */
struct scarce {
	const struct probe *base;
	rlim_t bytes;
};

static int
scarce_in_child(struct forked *shared, void *ctx)
{
	const struct scarce *s = ctx;
	struct rlimit limit = {0, 0};
	char line[4096];

	/* The kernel counts what is there already: the data of VmData. */
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd == -1 ? -1 : read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return 3;
	line[n] = '\0';
	const char *data = strstr(line, "VmData:");
	if (data == NULL)
		return 3;
	limit.rlim_cur = limit.rlim_max = strtoul(data + 7, NULL, 10) * 1024 + s->bytes;
	if (close(fd) == -1 || setrlimit(RLIMIT_DATA, &limit) == -1)
		return 3;
	(void)alarm(10); /* an endless loop is one of the ways to fail */
	if (lock_as(s->base) < 0)
		return 2; /* told, and told before anything was read */
	shared->stage = 1;
	return 0;
}

/* Whatever memory there is, the end is a whole filter or an error: no crash, no loop, no filter
 * with rows missing (the child's own exit would die of it). */
static bool
try_scarce(const struct probe *base, struct forked *shared)
{
	bool some_failed = false, some_worked = false;

	for (rlim_t kib = 0; kib <= 3072; kib += kib < 512 ? 4 : 64) {
		struct scarce s = {base, kib * 1024};
		int status = forked_run(shared, scarce_in_child, &s);
		if (!WIFEXITED(status) || WEXITSTATUS(status) == 3) {
			(void)printf("# with %lu KiB: wait status %#x\n", (unsigned long)kib,
				     (unsigned int)status);
			return false;
		}
		some_failed |= WEXITSTATUS(status) == 2;
		some_worked |= WEXITSTATUS(status) == 0;
	}
	return some_failed && some_worked;
}

static void
try_table(const struct probe *base, const char *who)
{
	struct forked *shared = forked_new();
	char name[128];

	if (shared == NULL)
		exit(1);
	for (size_t i = 0; i < row_count; i++) {
		(void)snprintf(name, sizeof(name), "%s%s%s", rows[i].name,
			       rows[i].has_arg ? " with its condition" : "",
			       rows[i].verdict == CONFINE_ERRNO ? " is refused softly" : "");
		report(try_row(&rows[i], base, shared), who, name);
	}
	report(try_unlisted(base, shared), who, "calls without a row die");
#ifdef __x86_64__
	report(try_other_abis(base, shared), who, "32-bit and x32 calls die");
#endif
	report(try_scarce(base, shared), who, "little memory ends in an error or a whole filter");
	int status = forked_run(shared, abort_in_child, (void *)(uintptr_t)base);
	report(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, who, "abort ends by SIGABRT");
}

int
main(int argc, char **argv)
{
	const char *user = getenv("BAILEY_TEST_USER");
	struct probe base = {.uid = geteuid(), .gid = getegid()};
	bool found = false;

	for (int table = TABLE_FRONTEND; argc == 2 && table <= TABLE_SUPERVISOR; table++) {
		if (strcmp(argv[1], confine_table_name((enum confine_table)table)) == 0) {
			base.table = (enum confine_table)table;
			found = true;
		}
	}
	if (!found) {
		(void)fprintf(stderr, "usage: test_filters TABLE\n");
		return 64;
	}
	if (!FILTERED) {
		(void)printf("1..0 # SKIP built without filters\n");
		return 0;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	row_count = confine_rows(base.table, &rows);
	try_table(&base, geteuid() == 0 ? "root: " : "");
	if (geteuid() == 0 && user != NULL && user[0] != '\0') {
		const struct passwd *entry = getpwnam(user);

		if (entry == NULL)
			return 1;
		base.uid = entry->pw_uid;
		base.gid = entry->pw_gid;
		try_table(&base, "plain user: ");
	}
	(void)printf("1..%u\n", point);
	return 0;
}
