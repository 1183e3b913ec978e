/*
 * tests/unit/test_cli_bench.c - when a pool counts as full and quiet; words that are refused.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "../cli/bench.c" /* its statics are what is tested */

static void
test_pool_quiet(void **state)
{
	static const struct {
		const char *pool;
		bool quiet, known;
	} cases[] = {
		{"[]", true, false},
		{"[{\"box_class\":\"python\",\"target\":2,\"ready\":2,\"starting\":0}]", true,
		 true},
		{"[{\"box_class\":\"python\",\"target\":2,\"ready\":1,\"starting\":0}]", false,
		 true},
		{"[{\"box_class\":\"python\",\"target\":2,\"ready\":2,\"starting\":1}]", false,
		 true},
		{"[{\"box_class\":\"python\",\"target\":0,\"ready\":0,\"starting\":0}]", false,
		 false},
		{"[{\"box_class\":\"python\",\"target\":1,\"ready\":1,\"starting\":0},"
		 "{\"box_class\":\"node\",\"target\":1,\"ready\":0,\"starting\":0}]",
		 false, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool known = false;
		cleanup_free char *text =
			xasprintf("{\"structuredContent\":{\"pool\":%s}}", cases[i].pool);
		cJSON *h = cJSON_Parse(text);
		assert_int_equal(pool_quiet(h, "python", &known), cases[i].quiet);
		assert_int_equal(known, cases[i].known);
		cJSON_Delete(h);
	}
}

static void
test_usage(void **state)
{
	const char *const argv[] = {"bench", "--slow", NULL};
	const char *const only[] = {"bench", "--only", "nothing", NULL};
	static const char *const names[] = {"warm",  "paced", "cold",   "sustained",
					    "stays", "files", "clients"};

	(void)state;
	assert_int_equal(cmd_bench(2, (char **)(uintptr_t)argv), CLI_USAGE);
	assert_int_equal(cmd_bench(2, (char **)(uintptr_t)only), CLI_USAGE);
	assert_int_equal(cmd_bench(3, (char **)(uintptr_t)only), CLI_USAGE);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_true(is_part(names[i]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool_quiet),
		cmocka_unit_test(test_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
