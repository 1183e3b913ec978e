/* cli/bench_stays.c: what is called, what is counted, and that a failure is one. */
#include "test.h"

#include "cli.h"

#include <math.h>

static size_t calls, sandboxes, fail_at;

cJSON *__wrap_mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
		       struct mcp_timing *timing);
cJSON *
__wrap_mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
		struct mcp_timing *timing)
{
	static uint64_t now_us = 1000;
	bool eval = strcmp(tool, "sandbox_eval") == 0;
	bool create = strcmp(tool, "container_create_sandbox") == 0;
	const cJSON *id = cJSON_GetObjectItemCaseSensitive(arguments, "sandbox_id");

	(void)c;
	assert_false(progress);
	if (create)
		sandboxes++;
	else
		assert_string_equal(cJSON_GetStringValue(id), "0123456789abcdef0123456789abcdef");
	if (strcmp(tool, "container_destroy_sandbox") == 0)
		sandboxes--;
	cJSON_Delete(arguments);
	if (timing != NULL) {
		timing->written_us = now_us;
		now_us += create ? 4000 : eval ? 1000 : 11000;
		timing->answered_us = now_us;
	}
	return cJSON_Parse(++calls == fail_at
				   ? "{\"structuredContent\":{\"status\":\"lost\"}}"
				   : "{\"structuredContent\":{\"status\":\"ok\",\"sandbox_id\":"
				     "\"0123456789abcdef0123456789abcdef\"}}");
}

int __wrap_host_run(const struct host_root *h, enum bench_lang lang, double *ret_exit,
		    double *ret_first);
int
__wrap_host_run(const struct host_root *h, enum bench_lang lang, double *ret_exit,
		double *ret_first)
{
	(void)h;
	assert_int_equal(lang, BENCH_PYTHON);
	*ret_exit = 10;
	*ret_first = 5;
	return 0;
}

int __wrap_bench_wait_quiet(struct mcp_client *tree, const char *class);
int
__wrap_bench_wait_quiet(struct mcp_client *tree, const char *class)
{
	(void)tree;
	assert_string_equal(class, "shell");
	return 0;
}

static struct report report;
static const struct bench_side side = {.report = &report, .quick = true};

static int
setup(void **state)
{
	(void)state;
	report = (struct report){.n = 0};
	calls = sandboxes = fail_at = 0;
	return 0;
}

static void
test_rows(void **state)
{
	(void)state;
	assert_int_equal(bench_creations(&side), 0);
	assert_int_equal(report.n, 1);
	assert_int_equal(bench_stays(&side), 0);
	assert_int_equal(report.n, 3);
	assert_true(fabs(report.rows[0].value - 4.0) < 1e-9);
	assert_true(fabs(report.rows[1].value - 1.1) < 1e-9);
	assert_true(fabs(report.rows[2].value - 1.0) < 1e-9);
	assert_int_equal(sandboxes, 0);
}

static void
test_failures(void **state)
{
	(void)state;
	fail_at = 1;
	assert_true(bench_stays(&side) < 0);
	assert_true(isnan(report.rows[0].value) || report.rows[0].value >= 0);
	(void)setup(state);
	fail_at = 20; /* the tenth one's end */
	assert_true(bench_creations(&side) < 0);
	assert_true(sandboxes <= 1);
	(void)setup(state);
	fail_at = 60; /* inside the sandbox */
	assert_true(bench_stays(&side) < 0);
	assert_int_equal(sandboxes, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_rows, setup),
		cmocka_unit_test_setup(test_failures, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
