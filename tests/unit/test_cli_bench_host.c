/*
 * tests/unit/test_cli_bench_host.c - the host baseline reports failures and leaves nothing.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <sys/stat.h>

#include "cli.h"

int __wrap_raw_create(const char *path, const char *body, char id[65]);
int
__wrap_raw_create(const char *path, const char *body, char id[65])
{
	(void)path;
	(void)body;
	(void)id;
	return -EPROTO;
}

static void
test_an_absent_interpreter_is_an_error(void **state)
{
	struct host_root h = {.dir = "/tmp/bailey-host-XXXXXX"};
	double a, b;
	size_t before = test_open_fds();

	(void)state;
	assert_non_null(mkdtemp(h.dir));
	assert_true(host_run(&h, BENCH_NODE, &a, &b) < 0);
	assert_int_equal(test_open_fds(), before);
	char dir[256];
	memcpy(dir, h.dir, sizeof(dir));
	host_root_close(&h);
	assert_int_equal(access(dir, F_OK), -1);
	host_root_close(&h); /* twice is harmless */
}

static void
test_open_without_an_engine_fails_and_cleans_up(void **state)
{
	struct host_root h;

	(void)state;
	if (geteuid() != 0)
		test_skip("without root nothing is exported");
	assert_true(host_root_open(&h, "none") < 0);
	assert_string_equal(h.dir, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_absent_interpreter_is_an_error),
		cmocka_unit_test(test_open_without_an_engine_fails_and_cleans_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
