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

#define ALL (FIG_CPU | FIG_PEAK | FIG_CURRENT | FIG_OOM | FIG_PIDS)

static void
put_v1(void)
{
	put("proc/42/cgroup", "9:name=systemd:/\n8:pids:/d/c\n4:memory:/d/c\n3:cpu,cpuacct:/d/c\n"
			      "0::/\n");
	put("cg/memory/d/c/memory.usage_in_bytes", "1000\n");
	put("cg/memory/d/c/memory.max_usage_in_bytes", "2000\n");
	put("cg/memory/d/c/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	put("cg/cpuacct/d/c/cpuacct.usage", "5000999\n");
	put("cg/pids/d/c/pids.events", "max 4\n");
}

static void
test_v1(void **state)
{
	struct counters c;
	struct figures f;
	size_t fds = test_open_fds();

	(void)state;
	put_v1();
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	counters_read(&c, true, &f);
	assert_int_equal(f.have, ALL);
	assert_int_equal(f.current_bytes, 1000);
	assert_int_equal(f.peak_bytes, 2000);
	assert_int_equal(f.oom_kills, 3);
	assert_int_equal(f.cpu_us, 5000);
	assert_int_equal(f.pids_hits, 4);
	/* read anew each time, from the start */
	put("cg/memory/d/c/memory.max_usage_in_bytes", "2500\n");
	counters_read(&c, true, &f);
	assert_int_equal(f.peak_bytes, 2500);
	counters_close(&c);
	counters_close(&c);
	counters_read(&c, true, &f);
	assert_int_equal(f.have, 0);
	assert_int_equal(test_open_fds(), fds);
}

static void
test_v2(void **state)
{
	struct counters c;
	struct figures f;

	(void)state;
	put("proc/42/cgroup", "0::/system.slice/docker-x.scope\n");
	put("cg/system.slice/docker-x.scope/memory.current", "7\n");
	put("cg/system.slice/docker-x.scope/memory.peak", "8\n");
	put("cg/system.slice/docker-x.scope/memory.events",
	    "low 0\nhigh 0\nmax 0\noom 5\noom_kill 6\noom_group_kill 9\n");
	put("cg/system.slice/docker-x.scope/cpu.stat",
	    "usage_usec 9\nuser_usec 10\nsystem_usec 11\n");
	put("cg/system.slice/docker-x.scope/pids.events", "max 12\n");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	counters_read(&c, true, &f);
	assert_int_equal(f.have, ALL);
	assert_int_equal(f.current_bytes, 7);
	assert_int_equal(f.peak_bytes, 8);
	assert_int_equal(f.oom_kills, 6);
	assert_int_equal(f.cpu_us, 9);
	assert_int_equal(f.pids_hits, 12);
	counters_close(&c);
}

/* Before Linux 5.19 v2 has no peak: the figure is left out, the rest stands. */
static void
test_missing_files_leave_figures_out(void **state)
{
	struct counters c;
	struct figures f;

	(void)state;
	put("proc/42/cgroup", "0::/c\n");
	put("cg/c/memory.current", "7\n");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	counters_read(&c, true, &f);
	assert_int_equal(f.have, FIG_CURRENT);
	counters_close(&c);
}

static void
test_odd_content_is_no_figure(void **state)
{
	static const char *const odd[] = {"", "\n", "x\n", "-1\n", "99999999999999999999999\n"};
	struct counters c;
	struct figures f;

	(void)state;
	put_v1();
	put("cg/memory/d/c/memory.oom_control", "oom_kill_disable 0\n");
	put("cg/pids/d/c/pids.events", "maximal 4\nmax\n");
	counters_init(&c);
	counters_open(&c, proc_fd, cgroup_fd, 42);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		put("cg/cpuacct/d/c/cpuacct.usage", odd[i]);
		counters_read(&c, true, &f);
		assert_int_equal(f.have, FIG_CURRENT | FIG_PEAK);
	}
	counters_close(&c);
}

static void
test_paths_stay_below_the_root(void **state)
{
	struct counters c;
	struct figures f;

	(void)state;
	put("outside/memory.current", "1\n");
	put("cg/c/x", "");
	put("proc/42/cgroup", "0::/../outside\n");
	put("proc/43/cgroup", "0::/c/../../outside\n");
	put("proc/44/cgroup", "garbage\n:::\n\n5\n");
	counters_init(&c);
	for (uint32_t pid = 41; pid <= 44; pid++) {
		counters_open(&c, proc_fd, cgroup_fd, pid);
		counters_read(&c, true, &f);
		assert_int_equal(f.have, 0);
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
		T(test_missing_files_leave_figures_out),
		T(test_odd_content_is_no_figure),
		T(test_paths_stay_below_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
