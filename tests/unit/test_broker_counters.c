/* broker/counters.c: files of v1 and v2, missing and odd ones. */
#include "test.h"
#include "broker.h"

#include <sys/mman.h>

#define ALL (FIG_CPU | FIG_PEAK | FIG_CURRENT | FIG_OOM | FIG_PIDS)

static struct counters c;
static struct figures f;
static size_t fds;

static int
setup(void **state)
{
	(void)state;
	fds = test_open_fds();
	counters_init(&c);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	counters_close(&c);
	counters_close(&c);
	assert_int_equal(test_open_fds(), fds);
	return 0;
}

static int
file(const char *text)
{
	int fd = memfd_create("counter", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	return fd;
}

static void
take_v1(void)
{
	counters_take(&c, COUNTER_USAGE, file("1000\n"));
	counters_take(&c, COUNTER_PEAK, file("2000\n"));
	counters_take(&c, COUNTER_OOM, file("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"));
	counters_take(&c, COUNTER_PIDS, file("max 4\n"));
	counters_take(&c, COUNTER_CPU, file("5000999\n"));
}

static void
test_v1(void **state)
{
	(void)state;
	take_v1();
	counters_read(&c, true, &f);
	assert_int_equal(f.have, ALL);
	assert_int_equal(f.current_bytes, 1000);
	assert_int_equal(f.peak_bytes, 2000);
	assert_int_equal(f.oom_kills, 3);
	assert_int_equal(f.pids_hits, 4);
	assert_int_equal(f.cpu_us, 5000);
	assert_int_equal(pwrite(c.fd[COUNTER_PEAK], "2500\n", 5, 0), 5); /* read anew each time */
	counters_read(&c, false, &f);
	assert_int_equal(f.have, ALL & ~FIG_CURRENT);
	assert_int_equal(f.peak_bytes, 2500);
}

static void
test_v2(void **state)
{
	(void)state;
	counters_take(&c, COUNTER_USAGE, file("7\n"));
	counters_take(&c, COUNTER_PEAK, file("8\n"));
	counters_take(&c, COUNTER_OOM,
		      file("low 0\nhigh 0\nmax 0\noom 5\noom_kill 6\noom_group_kill 9\n"));
	counters_take(&c, COUNTER_PIDS, file("max 12"));
	counters_take(&c, COUNTER_CPU, file("usage_usec 9\nuser_usec 10\nsystem_usec 11\n"));
	counters_read(&c, true, &f);
	assert_int_equal(f.have, ALL);
	assert_int_equal(f.current_bytes, 7);
	assert_int_equal(f.peak_bytes, 8);
	assert_int_equal(f.oom_kills, 6);
	assert_int_equal(f.pids_hits, 12);
	assert_int_equal(f.cpu_us, 9);
}

static void
test_what_cannot_be_read_is_left_out(void **state)
{
	int ends[2];

	(void)state;
	counters_read(&c, true, &f);
	assert_int_equal(f.have, 0);
	take_v1();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* as one whose cgroup is gone: no pread */
	assert_int_equal(close(ends[1]), 0);
	counters_take(&c, COUNTER_OOM, ends[0]);
	counters_take(&c, COUNTER_CPU, -1);
	counters_read(&c, true, &f);
	assert_int_equal(f.have, FIG_CURRENT | FIG_PEAK | FIG_PIDS);
}

static void
test_odd_content_is_no_figure(void **state)
{
	static const char *const numbers[] = {"",     "\n",    "x\n",
					      "-1\n", "1 2\n", "99999999999999999999999\n"};
	static const char *const keyed[] = {"", "5\n", "maximal 4\nmax\n", "max x\n", "a max 4\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		counters_take(&c, COUNTER_CPU, file(numbers[i]));
		counters_take(&c, COUNTER_PEAK, file(numbers[i]));
		counters_read(&c, true, &f);
		assert_int_equal(f.have, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(keyed); i++) {
		counters_take(&c, COUNTER_PIDS, file(keyed[i]));
		counters_read(&c, true, &f);
		assert_int_equal(f.have, 0);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_v1),
		T(test_v2),
		T(test_what_cannot_be_read_is_left_out),
		T(test_odd_content_is_no_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
