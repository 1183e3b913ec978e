/*
 * tests/unit/test_ipc_status.c - the status table, role and class names.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "ipc.h"

static void
test_run_status_rows(void **state)
{
	(void)state;
	for (unsigned int s = 0; s < RUN_STATUS_COUNT; s++) {
		const char *name = run_status_name((enum run_status)s);

		assert_true(strlen(name) > 0);
		for (unsigned int other = 0; other < s; other++)
			assert_string_not_equal(name, run_status_name((enum run_status)other));
		/* whoever gets an error is told what to do next */
		if (run_status_is_error((enum run_status)s))
			assert_true(strlen(run_status_advice((enum run_status)s)) > 0);
	}
	assert_string_equal(run_status_name(RUN_ok), "ok");
	assert_false(run_status_is_error(RUN_nonzero));
	assert_true(run_status_is_error(RUN_timed_out));
	assert_string_equal(run_status_advice(RUN_ok), "");
}

static void
test_run_status_unknown_is_internal(void **state)
{
	enum run_status unknown = (enum run_status)(RUN_STATUS_COUNT + 5);

	(void)state;
	assert_string_equal(run_status_name(unknown), "internal");
	assert_true(run_status_is_error(unknown));
	assert_string_equal(run_status_name(RUN_STATUS_COUNT), "internal");
}

static void
test_ipc_role_names(void **state)
{
	(void)state;
	assert_string_equal(ipc_role_name(IPC_SUPERVISOR), "supervisor");
	assert_string_equal(ipc_role_name(IPC_FRONTEND), "frontend");
	assert_string_equal(ipc_role_name(IPC_BROKER), "broker");
	assert_string_equal(ipc_role_name(IPC_REAPER), "reaper");
	assert_string_equal(ipc_role_name(IPC_CHILDREN), "unknown");
	assert_string_equal(ipc_role_name((enum ipc_role)64), "unknown");
}

static void
test_box_class_names(void **state)
{
	(void)state;
	assert_string_equal(box_class_name(BOX_SHELL), "shell");
	assert_string_equal(box_class_name(BOX_PYTHON), "python");
	assert_string_equal(box_class_name(BOX_NODE), "node");
	assert_string_equal(box_class_name(BOX_NOTHING), "unknown");
	assert_string_equal(box_class_name(UINT32_MAX), "unknown");
}

/* Each has a word of its own: counters are named by them. */
static void
test_causes(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < CAUSES; c++) {
		assert_string_not_equal(cause_word(c), "unknown");
		assert_true(strlen(cause_sentence(c)) > 10);
		assert_int_equal(strcmp(cause_label(c), "unknown") == 0, c == CAUSE_NONE);
		for (uint32_t k = 0; k < c; k++) {
			assert_string_not_equal(cause_word(c), cause_word(k));
			assert_string_not_equal(cause_label(c), cause_label(k));
		}
	}
	assert_string_equal(cause_word(CAUSES), "unknown");
	assert_string_equal(cause_label(UINT32_MAX), "unknown");
	assert_string_equal(cause_sentence(UINT32_MAX), cause_sentence(CAUSE_DIED));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_status_rows),
		cmocka_unit_test(test_run_status_unknown_is_internal),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_ipc_role_names),
		cmocka_unit_test(test_box_class_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
