/* ipc/tally.c: every counter has a name of its own, and only those in the table count. */
#include "test.h"

#include "ipc.h"

static void
test_names(void **state)
{
	static char names[TALLY_COUNT][32];

	(void)state;
	for (uint32_t i = 0; i < TALLY_COUNT; i++) {
		assert_ptr_equal(tally_name(i, names[i]), names[i]);
		assert_true(strlen(names[i]) > 0 && strlen(names[i]) < 31); /* nothing was cut */
		for (uint32_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
	}
	assert_string_equal(names[TALLY_boxes_created], "boxes_created");
	assert_string_equal(names[TALLY_RUNS + RUN_ok], "runs_ok");
	assert_string_equal(names[TALLY_ENDED + CAUSE_STOPPED], "ended_stopped");
	assert_int_equal(TALLY_COUNT, TALLY_ENDED + CAUSES);
}

static void
test_count(void **state)
{
	(void)state;
	assert_int_equal(tally_value(TALLY_pool_refills), 0);
	tally_add(TALLY_pool_refills);
	tally_add(TALLY_pool_refills);
	assert_int_equal(tally_value(TALLY_pool_refills), 2);
	assert_int_equal(tally_value(TALLY_pool_refills + 1), 0);
	tally_add(TALLY_COUNT); /* none */
	tally_add(UINT32_MAX);
	assert_int_equal(tally_value(TALLY_COUNT), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
