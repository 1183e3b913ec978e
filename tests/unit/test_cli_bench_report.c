/*
 * tests/unit/test_cli_bench_report.c - percentiles and verdicts of the bench table.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <math.h>
#include <sys/mman.h>

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

/* What report_print writes. */
static void
printed(const struct report *r, bool json, char *ret, size_t size)
{
	int kept = dup(STDOUT_FILENO);
	int fd = memfd_create("printed", MFD_CLOEXEC);

	(void)fflush(stdout);
	assert_true(kept >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	report_print(r, json);
	(void)fflush(stdout);
	assert_true(dup2(kept, STDOUT_FILENO) >= 0);
	ssize_t n = pread(fd, ret, size - 1, 0);
	assert_true(n > 0);
	ret[n] = '\0';
	(void)close(kept);
	(void)close(fd);
}

static void
test_what_was_not_measured_neither_holds_nor_fails(void **state)
{
	struct report r = {0};
	char text[4096];

	(void)state;
	report_add(&r, "measured", "ms", 1, 2, false, "n=%d", 3);
	report_add(&r, "not measured", "ms", (double)NAN, 2, false, "n=%d", 0);
	printed(&r, false, text, sizeof(text));
	assert_non_null(strstr(text, "| measured | 1 ms | ≤ 2 ms | yes | n=3 |"));
	assert_null(strstr(text, "not measured"));
	printed(&r, true, text, sizeof(text));
	cJSON *o = cJSON_Parse(text);
	const cJSON *rows = cJSON_GetObjectItemCaseSensitive(o, "figures");
	assert_int_equal(cJSON_GetArraySize(rows), 2);
	const cJSON *row = cJSON_GetArrayItem(rows, 0);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "reached")));
	row = cJSON_GetArrayItem(rows, 1);
	assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(row, "value")));
	assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(row, "reached")));
	cJSON_Delete(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_not_measured_neither_holds_nor_fails),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_a_row_holds_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
