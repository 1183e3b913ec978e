/*
 * tests/unit/test_cli_help.c - every page says how its command is called.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

static void
test_pages(void **state)
{
	static const char *const commands[] = {"mcp", "serve", "status", "config",
					       "run", "image", "token",  "bench"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		char first[64];
		const char *page = cli_help(commands[i]);
		assert_non_null(page);
		assert_true(snprintf(first, sizeof(first), "Usage: bailey %s ", commands[i]) > 0);
		assert_memory_equal(page, first, strlen(first));
		assert_int_equal(page[strlen(page) - 1], '\n');
		/* a line fits a terminal of 100 columns */
		for (const char *line = page; *line != '\0'; line += strcspn(line, "\n") + 1)
			assert_true(strcspn(line, "\n") <= 100);
	}
	assert_null(cli_help("help"));
	assert_null(cli_help(""));
}

static void
test_asked(void **state)
{
	static const struct {
		const char *words[5];
		const char *page; /* NULL: not asked for */
	} cases[] = {
		{{"bailey", "mcp", "--help"}, "mcp"},
		{{"bailey", "run", "-h"}, "run"},
		{{"bailey", "image", "--help"}, "image"},
		{{"bailey", "image", "build", "--help"}, "image"},
		{{"bailey", "token", "add", "-h"}, "token"},
		{{"bailey", "token", "add", "--help"}, "token"},
		{{"bailey", "run", "x.py", "--help"}, NULL}, /* the code's own word */
		{{"bailey", "token", "add", "help"}, NULL},
		{{"bailey", "nothing", "--help"}, NULL},
		{{"bailey", "mcp"}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int argc = 0;
		while (cases[i].words[argc] != NULL)
			argc++;
		const char *got = cli_help_asked(argc, (char **)(uintptr_t)cases[i].words);
		assert_ptr_equal(got, cases[i].page == NULL ? NULL : cli_help(cases[i].page));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages),
					   cmocka_unit_test(test_asked)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
