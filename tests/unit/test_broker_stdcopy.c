/* tests/unit/test_broker_stdcopy.c - frames of an attach stream. */
#include "test.h"

#include "engine_parts.h"

static const uint8_t two[] = {1, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 2, 0, 0,
			      0, 0, 0, 0, 0, 2, 0, 0, 0,   0,   0,   0, 1, 'x'};

static void
test_stdcopy_whole(void **state)
{
	struct stdcopy s = {0};
	const uint8_t *p = two, *piece;
	size_t n = sizeof(two), len;
	int stream;

	(void)state;
	assert_int_equal(stdcopy_next(&s, &p, &n, &stream, &piece, &len), 1);
	assert_int_equal(stream, 1);
	assert_int_equal(len, 3);
	assert_memory_equal(piece, "abc", 3);
	assert_int_equal(stdcopy_next(&s, &p, &n, &stream, &piece, &len),
			 1); /* the empty one is skipped */
	assert_int_equal(stream, 2);
	assert_memory_equal(piece, "x", 1);
	assert_int_equal(stdcopy_next(&s, &p, &n, &stream, &piece, &len), 0);
	assert_int_equal(n, 0);
}

static void
test_stdcopy_cut_at_every_byte(void **state)
{
	(void)state;
	for (size_t cut = 0; cut <= sizeof(two); cut++) {
		struct stdcopy s = {0};
		char got[3][8] = {{0}};
		size_t at = 0;

		for (int part = 0; part < 2; part++) {
			const uint8_t *p = two + at, *piece;
			size_t n = part == 0 ? cut : sizeof(two) - cut, len;
			int stream;

			at += n;
			while (stdcopy_next(&s, &p, &n, &stream, &piece, &len) == 1)
				strncat(got[stream], (const char *)piece, len);
		}
		assert_string_equal(got[1], "abc");
		assert_string_equal(got[2], "x");
	}
}

static void
test_stdcopy_refuses(void **state)
{
	static const uint8_t bad[][8] = {
		{4, 0, 0, 0, 0, 0, 0, 1},    {1, 1, 0, 0, 0, 0, 0, 1},
		{1, 0, 1, 0, 0, 0, 0, 1},    {1, 0, 0, 1, 0, 0, 0, 1},
		{255, 0, 0, 0, 0, 0, 0, 1},  {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		{1, 0, 0, 0, 0, 0x40, 0, 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct stdcopy s = {0};
		const uint8_t *p = bad[i], *piece;
		size_t n = 8, len;
		int stream;

		assert_int_equal(stdcopy_next(&s, &p, &n, &stream, &piece, &len), -EPROTO);
	}
}

static void
test_stdcopy_largest(void **state)
{
	static const uint8_t head[] = {3, 0, 0, 0, 0, 0x40, 0, 0};
	struct stdcopy s = {0};
	const uint8_t *p = head, *piece;
	size_t n = sizeof(head), len;
	int stream;

	(void)state;
	assert_int_equal(stdcopy_next(&s, &p, &n, &stream, &piece, &len), 0);
	assert_int_equal(s.left, STDCOPY_FRAME_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stdcopy_whole),
		cmocka_unit_test(test_stdcopy_cut_at_every_byte),
		cmocka_unit_test(test_stdcopy_refuses),
		cmocka_unit_test(test_stdcopy_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
