/*
 * tests/unit/test_cli_bench_report.c - percentiles and verdicts of the bench table.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <math.h>

#include "../cli/bench_report.c" /* its statics are what is tested */

static void
test_percentiles(void **state)
{
	struct series s = {0};

	(void)state;
	assert_true(isnan(series_p(&s, 50)));
	for (int i = 100; i >= 1; i--)
		series_add(&s, i);
	assert_true(series_p(&s, 50) == 51.0);
	assert_true(series_p(&s, 99) == 100.0);
	assert_true(series_p(&s, 0) == 1.0);
	series_add(&s, 1000);
	assert_true(series_p(&s, 100) == 1000.0);
	series_done(&s);
	assert_int_equal(s.n, 0);
}

static void
test_a_row_holds_or_not(void **state)
{
	struct report r = {0};

	(void)state;
	report_add(&r, "a", "", 0.4, 0.4, false, "%d", 1);
	report_add(&r, "b", "", 0.41, 0.4, false, "x");
	report_add(&r, "c", "", 0.96, 0.95, true, "x");
	report_add(&r, "d", "", 0.94, 0.95, true, "x");
	report_add(&r, "e", "", (double)NAN, 1, false, "x");
	static const bool want[] = {true, false, true, false, false};
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(row_holds(&r.rows[i]), want[i]);
	report_machine(&r);
	assert_true(strstr(r.machine, "Linux") != NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_a_row_holds_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
