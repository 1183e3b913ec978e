/*
 * tests/unit/test_base_rand.c - random bytes fill exactly what was asked.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

static void
test_random_bytes_fill_and_differ(void **state)
{
	uint8_t a[64] = {0};
	uint8_t b[64] = {0};
	bool set[32] = {0};

	(void)state;
	random_bytes(a, 32);
	random_bytes(b, 32);
	assert_memory_not_equal(a, b, 32);
	for (size_t i = 32; i < 64; i++)
		assert_int_equal(a[i], 0);
	random_bytes(a, 0);
	for (int i = 0; i < 64; i++) { /* every byte is written sooner or later */
		random_bytes(a, 32);
		for (size_t k = 0; k < 32; k++)
			set[k] = set[k] || a[k] != 0;
	}
	for (size_t k = 0; k < 32; k++)
		assert_true(set[k]);
}

static void
test_random_bytes_large(void **state)
{
	size_t n = 1024 * 1024; /* more than one getrandom call may return */
	cleanup_free uint8_t *bytes = xcalloc(n, 1);
	size_t zeros = 0;

	(void)state;
	random_bytes(bytes, n);
	for (size_t i = n - 4096; i < n; i++)
		zeros += bytes[i] == 0;
	assert_true(zeros < 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_bytes_fill_and_differ),
		cmocka_unit_test(test_random_bytes_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
