/* Processors are spread, counted and given back. */
#include "test.h"

#include "broker_world.h"

static void
test_spread_and_give_back(void **state)
{
	uint64_t a, b, c;

	(void)state;
	w->b.settings.host_cpus = 4;
	a = pins_take(&w->b, 1000);
	b = pins_take(&w->b, 2000);
	c = pins_take(&w->b, 1000);
	assert_int_equal(a | b | c, 15);
	assert_int_equal(__builtin_popcountll(b), 2);
	assert_int_equal(a & b, 0);
	assert_int_equal((a | b) & c, 0);
	pins_give(&w->b, b);
	assert_int_equal(pins_take(&w->b, 2000), b);
	pins_give(&w->b, a);
	pins_give(&w->b, b);
	pins_give(&w->b, c);
	for (int i = 0; i < 4; i++)
		assert_int_equal(w->b.cpu_boxes[i], 0);
}

static void
test_where_nothing_is_pinned(void **state)
{
	(void)state;
	w->b.settings.host_cpus = 4;
	assert_int_equal(pins_take(&w->b, 500), 0);
	assert_int_equal(pins_take(&w->b, 1500), 0);
	assert_int_equal(pins_take(&w->b, 4000), 0); /* all of them: nothing to leave out */
	assert_int_equal(pins_take(&w->b, 9000), 0);
	w->b.settings.host_cpus = 65;
	assert_int_equal(pins_take(&w->b, 1000), 0);
	w->b.settings.host_cpus = 4;
	w->b.settings.flags = 0; /* a remote engine's processors are not ours to name */
	assert_int_equal(pins_take(&w->b, 1000), 0);
	pins_give(&w->b, 0);
	assert_int_equal(pins_take_again(&w->b, 5), 5); /* a former broker's */
	assert_int_equal(w->b.cpu_boxes[2], 1);
	pins_give(&w->b, 5);
	assert_int_equal(w->b.cpu_boxes[2], 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_spread_and_give_back, world_setup,
						world_teardown),
		cmocka_unit_test_setup_teardown(test_where_nothing_is_pinned, world_setup,
						world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
