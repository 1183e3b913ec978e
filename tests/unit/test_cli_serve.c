/*
 * tests/unit/test_cli_serve.c - bailey serve refuses what the supervisor could not serve.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

static int
serve(const char *const *words, int n)
{
	return cmd_serve(n, (char **)(uintptr_t)words);
}

static void
test_words_of_its_own(void **state)
{
	const char *const none[] = {"serve", NULL};
	const char *const stdio[] = {"serve", "--stdio", NULL};
	const char *const inner[] = {"serve", "--socket", "/x", "--private", NULL};

	(void)state;
	assert_int_equal(serve(none, 1), CLI_USAGE);
	assert_int_equal(serve(stdio, 2), CLI_USAGE);
	assert_int_equal(serve(inner, 4), CLI_USAGE);
}

static void
test_too_many_words(void **state)
{
	const char *words[80];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		words[i] = "--host";
	assert_int_equal(serve(words, (int)ARRAY_LEN(words)), CLI_USAGE);
}

/* Without a token file there is nobody who could use it. */
static void
test_http_without_tokens(void **state)
{
	const char *const words[] = {"serve", "--http", "127.0.0.1:0", NULL};

	(void)state;
	if (geteuid() == 0 && access("/etc/bailey/tokens", F_OK) == 0)
		test_skip("/etc/bailey/tokens is there");
	assert_int_equal(setenv("XDG_CONFIG_HOME", "/bailey-none", 1), 0);
	assert_int_equal(serve(words, 3), CLI_USAGE);
}

static void
test_no_supervisor_beside_this_program(void **state)
{
	const char *const words[] = {"serve", "--socket", "/x", NULL};

	(void)state;
	assert_int_equal(serve(words, 3), CLI_FAILED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_of_its_own),
		cmocka_unit_test(test_too_many_words),
		cmocka_unit_test(test_http_without_tokens),
		cmocka_unit_test(test_no_supervisor_beside_this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
