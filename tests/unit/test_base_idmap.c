/*
 * tests/unit/test_base_idmap.c - ids to objects: cap, marks, walks, a model under random use.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

static void
test_idmap_put_get_take(void **state)
{
	struct idmap *m = idmap_new(3);
	int a;
	int b;

	(void)state;
	assert_null(idmap_get(m, 1));
	assert_null(idmap_take(m, 1));
	assert_int_equal(idmap_put(m, 1, &a), 0);
	assert_int_equal(idmap_put(m, UINT64_MAX, &b), 0);
	assert_int_equal(idmap_put(m, 1, &b), -EEXIST);
	assert_int_equal(idmap_put(m, 0, &a), -EINVAL);
	assert_int_equal(idmap_put(m, 2, NULL), -EINVAL);
	assert_int_equal(idmap_put(m, 2, &a), 0);
	assert_int_equal(idmap_put(m, 3, &a), -ENOSPC);
	assert_int_equal(idmap_put(m, 2, &a), -EEXIST);
	assert_int_equal(idmap_count(m), 3);
	assert_ptr_equal(idmap_get(m, 1), &a);
	assert_ptr_equal(idmap_get(m, UINT64_MAX), &b);
	assert_null(idmap_get(m, 0));
	assert_null(idmap_take(m, 0));
	assert_ptr_equal(idmap_take(m, 1), &a);
	assert_null(idmap_take(m, 1));
	assert_null(idmap_get(m, 1));
	assert_int_equal(idmap_put(m, 3, &b), 0);
	assert_ptr_equal(idmap_get(m, 3), &b);
	idmap_free(m);
	idmap_free(NULL);
}

static void
test_idmap_walk_may_take_current(void **state)
{
	static char objects[200];
	struct idmap *m = idmap_new(200);
	size_t cursor = 0;
	size_t walked = 0;
	uint64_t id;
	void *obj;

	(void)state;
	for (uint64_t i = 1; i <= 200; i++)
		assert_int_equal(idmap_put(m, i << 33, &objects[i - 1]), 0);
	while (idmap_next(m, &cursor, &id, &obj)) {
		assert_ptr_equal(obj, &objects[(id >> 33) - 1]);
		assert_ptr_equal(idmap_take(m, id), obj);
		walked++;
	}
	assert_int_equal(walked, 200);
	assert_int_equal(idmap_count(m), 0);
	cursor = 0;
	assert_false(idmap_next(m, &cursor, NULL, NULL));
	idmap_free(m);
}

/* Ids come and go for long: marks must neither fill the array nor break a chain. */
static void
test_idmap_random_against_model(void **state)
{
	static char objects[64];
	bool present[64] = {0};
	struct idmap *m = idmap_new(40);
	uint32_t seed = 3;
	size_t count = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint32_t k = test_random(&seed) % 64;
		uint64_t id = (uint64_t)k * 4096 + 1;

		if (seed % 3 != 0) {
			int r = idmap_put(m, id, &objects[k]);

			assert_int_equal(r, present[k] ? -EEXIST : count == 40 ? -ENOSPC : 0);
			if (r == 0) {
				present[k] = true;
				count++;
			}
		} else {
			assert_ptr_equal(idmap_take(m, id), present[k] ? &objects[k] : NULL);
			count -= present[k];
			present[k] = false;
		}
		k = test_random(&seed) % 64;
		id = (uint64_t)k * 4096 + 1;
		assert_ptr_equal(idmap_get(m, id), present[k] ? &objects[k] : NULL);
		assert_int_equal(idmap_count(m), count);
	}
	idmap_free(m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idmap_put_get_take),
		cmocka_unit_test(test_idmap_walk_may_take_current),
		cmocka_unit_test(test_idmap_random_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
