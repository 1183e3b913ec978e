/*
 * tests/unit/test_cli_image.c - bailey image takes one recipe it knows.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

static void
test_usage(void **state)
{
	const char *const none[] = {"image", NULL};
	const char *const other[] = {"image", "pull", NULL};
	const char *const many[] = {"image", "build", "slim", "x", NULL};
	const char *const unknown[] = {"image", "build", "huge", NULL};

	(void)state;
	assert_int_equal(cmd_image(1, (char **)(uintptr_t)none), CLI_USAGE);
	assert_int_equal(cmd_image(2, (char **)(uintptr_t)other), CLI_USAGE);
	assert_int_equal(cmd_image(4, (char **)(uintptr_t)many), CLI_USAGE);
	assert_int_equal(cmd_image(3, (char **)(uintptr_t)unknown), CLI_USAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_usage)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
