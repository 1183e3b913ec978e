/*
 * tests/unit/test_confine_selftest.c - the self-test passes when confined and notices when not.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <signal.h>

#include "confine.h"
#include "confine/forked.h"

static void
tables_in_child(void *arg)
{
	const enum confine_table *table = arg;
	struct confine_plan plan = {.table = *table};
	uint32_t layers = 0;

	if (*table == TABLE_SUPERVISOR && forked_supervisor_caps() != 0)
		_exit(1);
	if (confine_lock(&plan, &layers) != 0)
		_exit(2);
	/* As "ready" would: after this nothing of the start is left to fail. */
	_exit(confine_selftest(&plan, layers) == 0 ? 0 : 3);
}

static void
test_selftest_every_table(void **state)
{
	(void)state;
	for (int table = TABLE_FRONTEND; table <= TABLE_SUPERVISOR; table++)
		assert_int_equal(test_in_child(tables_in_child, &table), 0);
}

static void
test_selftest_unconfined(void **state)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND};
	const uint32_t claimed =
		LAYER_NO_NEW_PRIVS | LAYER_CAPS | LAYER_RLIMITS | LAYER_UNDUMPABLE | LAYER_SECCOMP;

	(void)state;
	assert_int_equal(confine_selftest(&plan, claimed), -EPERM);
	assert_int_equal(confine_selftest(&plan, claimed & ~(uint32_t)LAYER_SECCOMP), -EPERM);
	assert_int_equal(confine_selftest(&plan, 0), -EPERM);
}

/* The frontend's filter on top of the supervisor's, as every child has it. */
static void
stacked_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_SUPERVISOR};
	uint32_t layers = 0;

	if (forked_supervisor_caps() != 0 || confine_lock(&plan, &layers) != 0)
		_exit(1);
	const enum confine_table *table = arg;
	plan.table = *table;
	if (confine_lock(&plan, &layers) != 0)
		_exit(2);
	_exit(confine_selftest(&plan, layers) == 0 ? 0 : 3);
}

static void
test_selftest_stacked(void **state)
{
	(void)state;
#ifdef BAILEY_NO_FILTER
	test_skip("this build has no filters");
#endif
	for (int table = TABLE_FRONTEND; table <= TABLE_REAPER; table++)
		assert_int_equal(test_in_child(stacked_in_child, &table), 0);
}

/* A frontend that asks for a socket ends at once. */
static void
socket_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND};
	uint32_t layers = 0;

	(void)arg;
	if (confine_lock(&plan, &layers) == 0)
		(void)syscall(SYS_socket, 1, 1, 0);
	_exit(0);
}

static void
test_selftest_forbidden_call(void **state)
{
	(void)state;
#ifdef BAILEY_NO_FILTER
	test_skip("this build has no filters");
#endif
	int status = test_in_child(socket_in_child, NULL);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_selftest_every_table),
		cmocka_unit_test(test_selftest_unconfined),
		cmocka_unit_test(test_selftest_stacked),
		cmocka_unit_test(test_selftest_forbidden_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
