/* reaper/lifecycle.c: every cell is filled, and what the table promises as a whole. */
#include "test.h"
#include "reaper.h"

static void
test_every_cell_is_filled(void **state)
{
	(void)state;
	for (int s = 0; s < BOX_STATES; s++) {
		for (int e = 0; e < BOX_EVENTS; e++) {
			struct box_cell c = lifecycle_cell((enum box_state)s, (enum box_event)e);
			assert_in_range(c.action, BOX_ACT_IGNORE, BOX_ACT_FORGET);
			assert_in_range(c.next, BOX_FREE, BOX_GONE);
		}
		assert_string_not_equal(lifecycle_state_name((enum box_state)s), "?");
	}
	for (int e = 0; e < BOX_EVENTS; e++)
		assert_string_not_equal(lifecycle_event_name((enum box_event)e), "?");
	assert_string_equal(lifecycle_state_name(BOX_STATES), "?");
	assert_string_equal(lifecycle_event_name(BOX_EVENTS), "?");
}

/* GONE is reached by the engine's word alone, and never left. */
static void
test_gone_needs_the_engines_word(void **state)
{
	(void)state;
	for (int s = BOX_INTENDED; s < BOX_GONE; s++) {
		for (int e = 0; e < BOX_EVENTS; e++) {
			struct box_cell c = lifecycle_cell((enum box_state)s, (enum box_event)e);
			assert_int_equal(c.next == BOX_GONE, e == BOX_EV_GONE);
			assert_int_equal(c.action == BOX_ACT_FORGET, e == BOX_EV_GONE);
		}
	}
	for (int e = 0; e < BOX_EVENTS; e++)
		assert_int_equal(lifecycle_cell(BOX_GONE, (enum box_event)e).next, BOX_GONE);
}

/* Once a box is on its way out, nothing brings it back. */
static void
test_no_way_back(void **state)
{
	(void)state;
	for (int s = BOX_KILLING; s <= BOX_REMOVING; s++)
		for (int e = 0; e < BOX_EVENTS; e++)
			assert_true(lifecycle_cell((enum box_state)s, (enum box_event)e).next >=
				    BOX_KILLING);
}

/* Whatever ends a box starts its end in every state. */
static void
test_ending_events_end(void **state)
{
	static const enum box_event ends[] = {BOX_EV_KILL, BOX_EV_DEADLINE, BOX_EV_LIFETIME,
					      BOX_EV_BROKER_LOST};

	(void)state;
	for (int s = BOX_INTENDED; s <= BOX_ARMED; s++)
		for (size_t e = 0; e < ARRAY_LEN(ends); e++)
			assert_true(lifecycle_cell((enum box_state)s, ends[e]).next >= BOX_KILLING);
}

/* From every state some road leads to GONE: walked event by event. */
static void
test_every_state_can_reach_gone(void **state)
{
	bool reaches[BOX_STATES] = {[BOX_GONE] = true};

	(void)state;
	for (int round = 0; round < BOX_STATES; round++)
		for (int s = BOX_INTENDED; s < BOX_GONE; s++)
			for (int e = 0; e < BOX_EVENTS; e++)
				if (reaches[lifecycle_cell((enum box_state)s, (enum box_event)e)
						    .next])
					reaches[s] = true;
	for (int s = BOX_INTENDED; s < BOX_GONE; s++)
		assert_true(reaches[s]);
}

static void
outside(void *arg)
{
	const int *pair = arg;

	(void)lifecycle_cell((enum box_state)pair[0], (enum box_event)pair[1]);
}

static void
test_cell_outside_the_table_is_fatal(void **state)
{
	int bad_state[] = {BOX_STATES, 0}, bad_event[] = {0, BOX_EVENTS};

	(void)state;
	test_is_fatal(outside, bad_state);
	test_is_fatal(outside, bad_event);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell_is_filled),
		cmocka_unit_test(test_gone_needs_the_engines_word),
		cmocka_unit_test(test_no_way_back),
		cmocka_unit_test(test_ending_events_end),
		cmocka_unit_test(test_every_state_can_reach_gone),
		cmocka_unit_test(test_cell_outside_the_table_is_fatal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
