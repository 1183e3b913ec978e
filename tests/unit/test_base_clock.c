/*
 * tests/unit/test_base_clock.c - the three clocks agree with the kernel's and never go back.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <time.h>

#include "base.h"

static void
test_clock_units_agree(void **state)
{
	uint64_t ms = clock_now_ms();
	uint64_t us = clock_now_us();
	uint64_t again = clock_now_ms();

	(void)state;
	assert_true(ms > 0);
	assert_true(us / 1000 >= ms);
	assert_true(us / 1000 <= again);
}

static void
test_clock_moves_forward(void **state)
{
	uint64_t us = clock_now_us();
	uint64_t ns = clock_boot_ns();

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint64_t us_now = clock_now_us();
		uint64_t ns_now = clock_boot_ns();

		assert_true(us_now >= us);
		assert_true(ns_now >= ns);
		us = us_now;
		ns = ns_now;
	}
}

static void
test_clock_boot_is_boottime(void **state)
{
	struct timespec t;
	uint64_t before = clock_boot_ns();

	(void)state;
	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &t), 0);
	assert_true((uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec >= before);
	assert_true(clock_boot_ns() >= before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock_units_agree),
		cmocka_unit_test(test_clock_moves_forward),
		cmocka_unit_test(test_clock_boot_is_boottime),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
