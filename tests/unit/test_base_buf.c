/*
 * tests/unit/test_base_buf.c - byte buffers: maxima, holes, a model under random use.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

static bool memory_out;

void *
__wrap_malloc(size_t n)
{
	return memory_out ? NULL : __real_malloc(n);
}

static void
test_buf_append_up_to_max(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8);
	assert_int_equal(buf_len(&b), 0);
	assert_non_null(buf_data(&b));
	assert_int_equal(buf_append(&b, "abcd", 4), 0);
	assert_int_equal(buf_append(&b, "efghi", 5), -ENOSPC);
	assert_int_equal(buf_len(&b), 4);
	assert_int_equal(buf_append(&b, "efgh", 4), 0);
	assert_int_equal(buf_append(&b, "", 0), 0);
	assert_int_equal(buf_append(&b, "i", 1), -ENOSPC);
	assert_memory_equal(buf_data(&b), "abcdefgh", 8);
	buf_consume(&b, 3);
	assert_int_equal(buf_append(&b, "ijk", 3), 0); /* the hole counts as room */
	assert_memory_equal(buf_data(&b), "defghijk", 8);
	assert_true(b.cap <= b.max);
	buf_done(&b);
	assert_int_equal(buf_append(&b, "again", 5), 0);
	buf_done(&b);
	buf_done(&b);
	buf_done(NULL);
}

static void
test_buf_reserve_failures(void **state)
{
	struct buf b;
	uint8_t *room = NULL;

	(void)state;
	buf_init(&b, SIZE_MAX);
	assert_int_equal(buf_append(&b, "x", 1), 0);
	assert_int_equal(buf_reserve(&b, SIZE_MAX, &room), -ENOSPC);
	memory_out = true;
	assert_int_equal(buf_reserve(&b, 100000, &room), -ENOMEM);
	memory_out = false;
	assert_null(room);
	assert_int_equal(buf_len(&b), 1);
	assert_memory_equal(buf_data(&b), "x", 1);
	buf_done(&b);
}

static void
test_buf_zero_max(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	assert_int_equal(buf_append(&b, "x", 1), -ENOSPC);
	assert_int_equal(buf_append(&b, "", 0), 0);
	buf_done(&b);
}

static void
test_buf_printf(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 16);
	assert_int_equal(buf_printf(&b, "%d-%s", 42, "ab"), 0);
	assert_int_equal(buf_printf(&b, "%s", ""), 0);
	assert_int_equal(buf_len(&b), 5);
	assert_int_equal(buf_printf(&b, "%s", "far too long for it"), -ENOSPC);
	assert_int_equal(buf_len(&b), 5);
	assert_int_equal(buf_printf(&b, "%s", "0123456789"), 0);
	assert_memory_equal(buf_data(&b), "42-ab0123456789", 15);
	buf_done(&b);
}

static void
test_buf_random_against_model(void **state)
{
	uint8_t model[1000];
	size_t model_len = 0;
	uint32_t seed = 7;
	struct buf b;

	(void)state;
	buf_init(&b, sizeof(model));
	for (int i = 0; i < 50000; i++) {
		uint8_t bytes[200];
		size_t n = test_random(&seed) % sizeof(bytes);

		if (test_random(&seed) % 2 == 0) {
			int r;

			memset(bytes, (int)(seed & 0xff), n);
			r = buf_append(&b, bytes, n);
			assert_int_equal(r, model_len + n > sizeof(model) ? -ENOSPC : 0);
			if (r == 0) {
				memcpy(model + model_len, bytes, n);
				model_len += n;
			}
		} else {
			n = n > model_len ? model_len : n;
			buf_consume(&b, n);
			memmove(model, model + n, model_len - n);
			model_len -= n;
		}
		assert_int_equal(buf_len(&b), model_len);
		assert_memory_equal(buf_data(&b), model, model_len);
		assert_true(b.cap <= b.max);
	}
	buf_clear(&b);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

static void
consume_too_much(void *arg)
{
	buf_consume(arg, 5);
}

static void
commit_too_much(void *arg)
{
	buf_commit(arg, 5);
}

static void
test_buf_misuse_is_fatal(void **state)
{
	static struct buf b; /* still reachable in the children that end */

	(void)state;
	buf_init(&b, 4);
	assert_int_equal(buf_append(&b, "abcd", 4), 0);
	test_is_fatal(consume_too_much, &b);
	test_is_fatal(commit_too_much, &b);
	buf_done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf_append_up_to_max),
		cmocka_unit_test(test_buf_reserve_failures),
		cmocka_unit_test(test_buf_zero_max),
		cmocka_unit_test(test_buf_printf),
		cmocka_unit_test(test_buf_random_against_model),
		cmocka_unit_test(test_buf_misuse_is_fatal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
