/*
 * tests/unit/test_frontend_output.c - head and tail against a plain model, in every chunking.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include "frontend.h"

static uint8_t data[400000];

static void
fill(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)('!' + i % 89);
}

static void
feed(struct output *o, const uint8_t *p, size_t n, size_t piece)
{
	for (size_t at = 0; at < n; at += piece)
		output_add(o, p + at, n - at < piece ? n - at : piece, false);
}

static void
test_output_view_any_size_and_chunking(void **state)
{
	static const size_t sizes[] = {0,     1,     8191,  8192,  8193,  24575, 24576, 24577,
				       32767, 32768, 32769, 40959, 40960, 40961, 65536, 400000};
	static const size_t pieces[] = {1, 7, 1000, 8192, 32768, 400000};

	(void)state;
	fill();
	for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(pieces); i++) {
		size_t n = sizes[i / ARRAY_LEN(pieces)];
		struct output o;
		struct output_view v;

		output_init(&o);
		feed(&o, data, n, pieces[i % ARRAY_LEN(pieces)]);
		output_view(&o, n, 0, &v);
		assert_int_equal(v.bytes, n);
		assert_true(v.utf8 && !v.hidden);
		if (n <= OUTPUT_HEAD + OUTPUT_TAIL) {
			assert_int_equal(v.head_len, n);
			assert_int_equal(v.tail_len + v.omitted, 0);
		} else {
			assert_int_equal(v.head_len, OUTPUT_HEAD);
			assert_int_equal(v.tail_len, OUTPUT_TAIL);
			assert_int_equal(v.omitted, n - OUTPUT_HEAD - OUTPUT_TAIL);
			assert_memory_equal(v.tail, data + n - OUTPUT_TAIL, OUTPUT_TAIL);
		}
		assert_memory_equal(v.head, data, v.head_len);
		output_done(&o);
	}
}

static void
test_output_view_guest_dropped(void **state)
{
	struct output o;
	struct output_view v;

	(void)state;
	fill();
	output_init(&o);
	feed(&o, data, 100000, 32768);
	output_add(&o, (const uint8_t *)"the end", 7, true);
	output_view(&o, 5000000, 5000000 - 100007, &v);
	assert_int_equal(v.tail_len, 7);
	assert_memory_equal(v.tail, "the end", 7);
	assert_int_equal(v.bytes, 5000000);
	assert_int_equal(v.omitted, 5000000 - OUTPUT_HEAD - 7);
	output_done(&o);
}

static void
test_output_view_a_lying_guest(void **state)
{
	struct output o;
	struct output_view v;

	(void)state;
	fill();
	output_init(&o);
	feed(&o, data, 100, 100);
	output_view(&o, 1, UINT64_MAX, &v); /* says it wrote less than came */
	assert_int_equal(v.bytes, 100);
	assert_int_equal(v.head_len, 100);
	assert_int_equal(v.omitted, 0);
	output_done(&o);
	output_init(&o);
	output_view(&o, UINT64_MAX, 0, &v); /* says it wrote more than can be */
	assert_int_equal(v.head_len + v.tail_len, 0);
	assert_int_equal(v.omitted, UINT64_MAX);
	output_done(&o);
}

static void
test_output_view_forms(void **state)
{
	struct output o;
	struct output_view v;

	(void)state;
	output_init(&o);
	output_add(&o, (const uint8_t *)"a\x1b", 2, false);
	output_view(&o, 2, 0, &v);
	assert_true(v.utf8 && v.hidden);
	output_done(&o);
	output_init(&o);
	output_add(&o, (const uint8_t *)"ab\xc3", 3, false);
	output_view(&o, 3, 0, &v);
	assert_false(v.utf8); /* whole, and cut in its last code point by the run itself */
	output_done(&o);
	/* not text, and too long: both parts raw, nothing trimmed */
	output_init(&o);
	memset(data, 0xbf, sizeof(data));
	feed(&o, data, 50000, 999);
	output_view(&o, 50000, 0, &v);
	assert_false(v.utf8);
	assert_int_equal(v.head_len, OUTPUT_HEAD);
	assert_int_equal(v.tail_len, OUTPUT_TAIL);
	output_done(&o);
}

static void
test_output_credit_keeps_the_window(void **state)
{
	struct output o;
	uint64_t limit = GUEST_WINDOW, sent = 0, got = 0;

	(void)state;
	fill();
	output_init(&o);
	assert_false(output_credit(&o, &got));
	for (int i = 0; i < 1000; i++) {
		size_t n = 1000;

		assert_true(sent + n <= limit);
		output_add(&o, data, n, false);
		sent += n;
		if (output_credit(&o, &got)) {
			assert_true(got > limit && got == sent + GUEST_WINDOW);
			limit = got;
		}
	}
	output_done(&o);
}

/* What is kept whole is granted in fewer and wider steps: never more than is wanted, but always a
 * window, so that a sandbox that sends too much gets to its end. */
static void
test_output_credit_is_wide_for_what_is_wanted(void **state)
{
	const uint64_t wanted = 8 * GUEST_WINDOW;
	struct output o;
	uint64_t limit = GUEST_WINDOW, sent = 0, got = 0;
	unsigned grants = 0;

	(void)state;
	fill();
	output_init(&o);
	output_init_whole(&o, wanted);
	for (; sent < wanted + 2 * GUEST_WINDOW; sent += 1024) {
		assert_true(sent + 1024 <= limit);
		output_add(&o, data, 1024, false);
		if (!output_credit(&o, &got))
			continue;
		assert_true(got > limit && got <= sent + 1024 + 4 * GUEST_WINDOW);
		assert_true(got <= wanted || got <= sent + 1024 + GUEST_WINDOW);
		limit = got;
		grants += sent < wanted;
	}
	assert_in_range(grants, 4, 7);
	assert_int_equal(buf_len(&o.head), wanted);
	output_done(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_credit_is_wide_for_what_is_wanted),
		cmocka_unit_test(test_output_view_any_size_and_chunking),
		cmocka_unit_test(test_output_view_guest_dropped),
		cmocka_unit_test(test_output_view_a_lying_guest),
		cmocka_unit_test(test_output_view_forms),
		cmocka_unit_test(test_output_credit_keeps_the_window),
	};

	return cmocka_run_group_tests_name("frontend_output", tests, NULL, NULL);
}
