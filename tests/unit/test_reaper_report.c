/* reaper/report.c: how many boxes there are, and which removal takes long. */
#include "reaper_world.h"
#include "fakes/still_clock.h"

static void
test_empty(void **state)
{
	(void)state;
	report_status(&r, 3);
	assert_int_equal(sent[n_sent - 2].row.num, IPC_NUM_status_watch);
	assert_int_equal(sent[n_sent - 2].row.u.status_watch.boxes, 0);
	assert_int_equal(sent[n_sent - 1].row.num, IPC_NUM_status_end);
	assert_int_equal(sent[n_sent - 1].row.u.status_end.query, 3);
	assert_ptr_equal(sent[n_sent - 1].link, SUPERVISOR);
}

static void
add(uint64_t box, enum box_state in, uint64_t removing_ns)
{
	const struct record rec = {.box = box, .state = in};
	uint32_t slot;

	assert_int_equal(ledger_alloc(&r.ledger, &slot), 0);
	action_box_new(&r, slot, &rec)->removing_ns = removing_ns;
}

static void
test_boxes_by_state(void **state)
{
	(void)state;
	add(1, BOX_INTENDED, 0);
	add(2, BOX_ARMED, 0);
	add(3, BOX_ARMED, 0);
	add(4, BOX_KILLING, 0);
	add(5, BOX_REMOVING, now_ns - 2 * NS_PER_S);
	add(6, BOX_REMOVING, now_ns - 9 * NS_PER_S);
	report_status(&r, 4);
	const struct ipc_status_watch *m = &sent[n_sent - 2].row.u.status_watch;
	assert_int_equal(m->query, 4);
	assert_int_equal(m->boxes, 6);
	assert_int_equal(m->armed, 2);
	assert_int_equal(m->ending, 3);
	assert_int_equal(m->oldest_ms, 9000);
}

static void
test_each_second(void **state)
{
	(void)state;
	n_sent = 0;
	report_forget();
	tally_add(TALLY_deadlines);
	assert_int_equal(report_start(&r), 0);
	clock_pass_in(r.base, 990);
	assert_int_equal(n_sent, 0);
	clock_pass_in(r.base, 20);
	assert_int_equal(only_sent(IPC_NUM_tally)->u.tally.which, TALLY_deadlines);
	event_free(r.tick_event);
	r.tick_event = NULL;
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_empty),
		T(test_boxes_by_state),
		T(test_each_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
