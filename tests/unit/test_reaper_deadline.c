/* reaper/deadline.c: the one timer, and the steps of repetition. */
#include "test.h"
#include "reaper.h"

#include <poll.h>

static bool
fires_within(const struct deadline *d, int ms)
{
	struct pollfd p = {.fd = d->fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

static void
test_fires_at_its_moment(void **state)
{
	struct deadline d;

	(void)state;
	assert_int_equal(deadline_init(&d), 0);
	assert_false(fires_within(&d, 0));
	uint64_t at = clock_boot_ns() + 30 * NS_PER_MS;
	assert_int_equal(deadline_arm(&d, at), 0);
	assert_true(fires_within(&d, 30000));
	assert_true(clock_boot_ns() >= at);
	deadline_drain(&d);
	assert_false(fires_within(&d, 0));
	deadline_drain(&d); /* nothing there: harmless */
	deadline_done(&d);
	deadline_done(&d);
}

static void
test_the_past_fires_at_once(void **state)
{
	static const uint64_t moments[] = {0, 1, NS_PER_S};
	struct deadline d;

	(void)state;
	assert_int_equal(deadline_init(&d), 0);
	for (size_t i = 0; i < ARRAY_LEN(moments); i++) {
		assert_int_equal(deadline_arm(&d, moments[i]), 0);
		assert_true(fires_within(&d, 30000));
		deadline_drain(&d);
	}
	deadline_done(&d);
}

static void
test_never_disarms(void **state)
{
	struct deadline d;

	(void)state;
	assert_int_equal(deadline_init(&d), 0);
	assert_int_equal(deadline_arm(&d, clock_boot_ns() + 20 * NS_PER_MS), 0);
	assert_int_equal(deadline_arm(&d, UINT64_MAX), 0);
	assert_false(fires_within(&d, 60));
	deadline_done(&d);
}

static void
test_steps(void **state)
{
	uint64_t step = 0;
	static const uint64_t seconds[] = {1, 2, 4, 5, 5};
	static const uint64_t stuck[] = {30, 60, 120, 240, 480, 600, 600};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		step = deadline_backoff(step);
		assert_int_equal(step, seconds[i] * NS_PER_S);
	}
	step = 0;
	for (size_t i = 0; i < ARRAY_LEN(stuck); i++) {
		step = deadline_stuck(step);
		assert_int_equal(step, stuck[i] * NS_PER_S);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fires_at_its_moment),
		cmocka_unit_test(test_the_past_fires_at_once),
		cmocka_unit_test(test_never_disarms),
		cmocka_unit_test(test_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
