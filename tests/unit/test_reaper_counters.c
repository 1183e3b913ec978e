/* reaper/counters.c: v1, v2 and hybrid hierarchies, missing and odd files. */
#include "test.h"
#include "reaper.h"

#include <sys/stat.h>

static char root[64];
static int proc_fd, cgroup_fd;

/* path below root; directories are made on the way */
static void
put(const char *path, const char *text)
{
	char full[512];

	(void)snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		(void)mkdir(full, 0700);
		*at = '/';
	}
	int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

static int
setup(void **state)
{
	char path[128];

	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/bailey-counters.XXXXXX");
	assert_non_null(mkdtemp(root));
	put("proc/x", "");
	put("cg/x", "");
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/cg", root);
	cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc_fd < 0 || cgroup_fd < 0;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	assert_int_equal(close(proc_fd), 0);
	assert_int_equal(close(cgroup_fd), 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command); // a test's own directory
}

static void
put_v1(void)
{
	put("proc/42/cgroup", "9:name=systemd:/\n8:pids:/d/c\n4:memory:/d/c\n3:cpu,cpuacct:/d/c\n"
			      "0::/\n");
	put("cg/memory/d/c/memory.usage_in_bytes", "usage");
	put("cg/memory/d/c/memory.max_usage_in_bytes", "peak");
	put("cg/memory/d/c/memory.oom_control", "oom");
	put("cg/cpuacct/d/c/cpuacct.usage", "cpu");
	put("cg/pids/d/c/pids.events", "pids");
}

/* want: by enum counter_no; NULL: none. */
static void
holds(const struct counters *c, const char *const *want)
{
	char text[16];

	for (size_t i = 0; i < COUNTERS; i++) {
		if (want[i] == NULL) {
			assert_int_equal(c->fd[i], -1);
			continue;
		}
		ssize_t n = pread(c->fd[i], text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
		assert_string_equal(text, want[i]);
		assert_int_equal(write(c->fd[i], "x", 1), -1); /* for reading alone */
	}
}

static const char *const all[COUNTERS] = {
	[COUNTER_USAGE] = "usage", [COUNTER_PEAK] = "peak", [COUNTER_OOM] = "oom",
	[COUNTER_PIDS] = "pids",   [COUNTER_CPU] = "cpu",
};

static void
test_v1(void **state)
{
	struct counters c;
	size_t fds = test_open_fds();

	(void)state;
	put_v1();
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	holds(&c, all);
	counters_open(&c, proc_fd, cgroup_fd, 42); /* anew: the former ones are closed */
	assert_int_equal(test_open_fds(), fds + COUNTERS);
	counters_close(&c);
	counters_close(&c);
	assert_int_equal(test_open_fds(), fds);
}

static void
test_v2(void **state)
{
	struct counters c;

	(void)state;
	put("proc/42/cgroup", "0::/system.slice/docker-x.scope\n");
	put("cg/system.slice/docker-x.scope/memory.current", "usage");
	put("cg/system.slice/docker-x.scope/memory.peak", "peak");
	put("cg/system.slice/docker-x.scope/memory.events", "oom");
	put("cg/system.slice/docker-x.scope/cpu.stat", "cpu");
	put("cg/system.slice/docker-x.scope/pids.events", "pids");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	holds(&c, all);
	counters_close(&c);
}

/* Where one controller has a v1 hierarchy and the others are v2. */
static void
test_hybrid(void **state)
{
	struct counters c;

	(void)state;
	put("proc/42/cgroup", "8:pids:/d/c\n0::/c\n");
	put("cg/pids/d/c/pids.events", "pids");
	put("cg/c/memory.current", "usage");
	put("cg/c/memory.peak", "peak");
	put("cg/c/memory.events", "oom");
	put("cg/c/cpu.stat", "cpu");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	holds(&c, all);
	counters_close(&c);
}

/* Before Linux 5.19 v2 has no peak: the figure is left out, the rest stands. */
static void
test_missing_files_are_left_out(void **state)
{
	static const char *const want[COUNTERS] = {[COUNTER_USAGE] = "usage"};
	struct counters c;

	(void)state;
	put("proc/42/cgroup", "0::/c\n");
	put("cg/c/memory.current", "usage");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	holds(&c, want);
	counters_close(&c);
}

static void
test_paths_stay_below_the_root(void **state)
{
	static const char *const none[COUNTERS];
	struct counters c;

	(void)state;
	put("outside/memory.current", "1\n");
	put("cg/c/x", "");
	put("proc/42/cgroup", "0::/../outside\n");
	put("proc/43/cgroup", "0::/c/../../outside\n");
	put("proc/44/cgroup", "garbage\n:::\n\n5\n");
	counters_init(&c);
	for (uint32_t pid = 41; pid <= 44; pid++) {
		counters_open(&c, proc_fd, cgroup_fd, pid);
		holds(&c, none);
	}
	counters_close(&c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_v1),
		T(test_v2),
		T(test_hybrid),
		T(test_missing_files_are_left_out),
		T(test_paths_stay_below_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
