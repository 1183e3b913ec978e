/*
 * tests/unit/test_cli_mcp.c - bailey mcp finds its supervisor or says what is missing.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

static int
mcp(const char *const *words, int n)
{
	return cmd_mcp(n, (char **)(uintptr_t)words);
}

static void
test_no_supervisor_beside_this_program(void **state)
{
	const char *const argv[] = {"mcp", "--private", NULL};

	(void)state;
	assert_null(mcp_server_argv());
	assert_int_equal(mcp(argv, 2), CLI_FAILED);
}

/* Named, a daemon is used or missed; a private tree never takes its place. */
static void
test_daemon_that_is_not_there(void **state)
{
	const char *const argv[] = {"mcp", "--socket", "/bailey-none/mcp.sock", NULL};
	const char *const file[] = {"mcp", "--socket", "/proc/self/status", NULL};

	(void)state;
	assert_int_equal(mcp(argv, 3), CLI_FAILED);
	assert_int_equal(mcp(file, 3), CLI_FAILED);
}

static void
test_arguments_are_refused(void **state)
{
	const char *const word[] = {"mcp", "--stdio", NULL};
	const char *const alone[] = {"mcp", "--socket", NULL};
	const char *const many[] = {"mcp", "--socket", "/x", "/y", NULL};

	(void)state;
	assert_int_equal(mcp(word, 2), CLI_USAGE);
	assert_int_equal(mcp(alone, 2), CLI_USAGE);
	assert_int_equal(mcp(many, 4), CLI_USAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_supervisor_beside_this_program),
		cmocka_unit_test(test_daemon_that_is_not_there),
		cmocka_unit_test(test_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
