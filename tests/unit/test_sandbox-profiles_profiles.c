/*
 * tests/unit/test_sandbox-profiles_profiles.c - the built-in profiles keep their promises.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "profiles.h"

static void
test_profile_find(void **state)
{
	(void)state;
	assert_string_equal(profile_find("", 0)->name, "default");
	assert_string_equal(profile_find("default", 7)->name, "default");
	assert_string_equal(profile_find("build", 5)->name, "build");
	assert_null(profile_find("buil", 4));
	assert_null(profile_find("builder", 7));
	assert_null(profile_find("Build", 5));
	assert_null(profile_find("build\0x", 7));
}

static void
test_profile_figures(void **state)
{
	const struct profile *p = profile_find("default", 7);

	(void)state;
	assert_int_equal(p->cpus_milli, 1000);
	assert_true(p->memory_bytes == UINT64_C(512) << 20);
	assert_int_equal(p->timeout_ms, 10000);
	assert_int_equal(p->timeout_max_ms, 300000);
	assert_int_equal(p->pool[1], 2);
	p = profile_find("build", 5);
	assert_int_equal(p->cpus_milli, 2000);
	assert_true(p->memory_bytes == UINT64_C(2048) << 20);
	assert_int_equal(p->pids, 128);
	assert_int_equal(p->pool[0] + p->pool[1] + p->pool[2], 2);
}

/* What the rest of the program takes for granted of any row. */
static void
test_profile_rows_are_sound(void **state)
{
	(void)state;
	assert_true(profile_count() >= 2);
	for (size_t i = 0; i < profile_count(); i++) {
		const struct profile *p = profile_at(i);

		assert_non_null(p->image);
		assert_ptr_equal(profile_find(p->name, strlen(p->name)), p);
		assert_true(p->cpus_milli > 0 && p->cpus_milli <= p->cpus_max_milli);
		assert_true(p->memory_bytes >= PROFILE_NODE_MEMORY_MIN_BYTES);
		assert_true(p->memory_bytes <= p->memory_max_bytes);
		assert_true(p->workspace_bytes + p->tmp_bytes <= p->memory_bytes / 2);
		/* Full of empty files it must still not be an OOM. */
		assert_true((p->workspace_inodes + p->tmp_inodes) * 1024 <= p->memory_bytes / 4);
		assert_true(p->timeout_ms > 0 && p->timeout_ms <= p->timeout_max_ms);
		assert_true(p->idle_s <= p->lifetime_s && p->lifetime_s <= p->lifetime_max_s);
		assert_true(p->pids > 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profile_find),
		cmocka_unit_test(test_profile_figures),
		cmocka_unit_test(test_profile_rows_are_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
