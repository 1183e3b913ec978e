/*
 * tests/unit/test_cli_mcp.c - bailey mcp finds its supervisor or says what is missing.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

static void
test_no_supervisor_beside_this_program(void **state)
{
	(void)state;
	assert_null(mcp_server_argv());
	const char *const argv[] = {"mcp", NULL};
	assert_int_equal(cmd_mcp(1, (char **)(uintptr_t)argv), CLI_FAILED);
}

static void
test_arguments_are_refused(void **state)
{
	const char *const argv[] = {"mcp", "--stdio", NULL};

	(void)state;
	assert_int_equal(cmd_mcp(2, (char **)(uintptr_t)argv), CLI_USAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_supervisor_beside_this_program),
		cmocka_unit_test(test_arguments_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
