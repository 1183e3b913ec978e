/*
 * tests/unit/test_base_base64.c - base64 both ways: vectors, every length, what is refused.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

static void
test_base64_rfc_vectors(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xfe\xfb", "//77"},
		{"\xfb\xef\xbe", "++++"},
	};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		buf_init(&b, 8);
		assert_int_equal(
			base64_append(&b, (const uint8_t *)cases[i].in, strlen(cases[i].in)), 0);
		assert_int_equal(buf_len(&b), strlen(cases[i].out));
		assert_memory_equal(buf_data(&b), cases[i].out, buf_len(&b));
		buf_done(&b);
	}
	buf_init(&b, 7);
	assert_int_equal(base64_append(&b, (const uint8_t *)"fooba", 5), -ENOSPC);
	assert_int_equal(base64_append(&b, (const uint8_t *)"", SIZE_MAX), -ENOSPC);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

static void
test_base64_decode_what_encode_wrote(void **state)
{
	uint8_t bytes[300];
	struct buf text, back;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		buf_init(&text, 1024);
		buf_init(&back, 1024);
		assert_int_equal(base64_append(&text, bytes, n), 0);
		assert_int_equal(
			base64_decode(&back, (const char *)buf_data(&text), buf_len(&text)), 0);
		assert_int_equal(buf_len(&back), n);
		assert_memory_equal(buf_data(&back), bytes, n);
		buf_done(&text);
		buf_done(&back);
	}
}

static void
test_base64_decode_is_strict(void **state)
{
	static const char *const bad[] = {"A",
					  "AA",
					  "AAA",
					  "AAAAA",
					  "AA=A",
					  "=AAA",
					  "A===",
					  "====",
					  "AB==",
					  "AAB=",
					  "AA==AAAA",
					  "AA A",
					  "AAA\n",
					  "AAAA\nAAA",
					  "AA-_",
					  ("\x80"
					   "AAA")};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct buf b;

		buf_init(&b, 64);
		if (base64_decode(&b, bad[i], strlen(bad[i])) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(buf_len(&b), 0);
		buf_done(&b);
	}
}

static void
test_base64_decode_keeps_to_the_maximum(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 5);
	assert_int_equal(base64_decode(&b, "AAAAAAAA", 8), -ENOSPC);
	assert_int_equal(base64_decode(&b, "AAAA", 4), 0);
	buf_done(&b);
}

/* Every length around the wide steps, every byte, and each digit in each place of a group. */
static void
test_base64_long_texts(void **state)
{
	uint8_t bytes[4096];
	struct buf text, back, small;

	(void)state;
	for (size_t n = 1; n < sizeof(bytes); n = n < 256 ? n + 1 : n * 2 - 1) {
		random_bytes(bytes, n);
		buf_init(&text, sizeof(bytes) * 2);
		buf_init(&back, sizeof(bytes));
		assert_int_equal(base64_append(&text, bytes, n), 0);
		/* three bytes at a time only the tables are used */
		for (size_t i = 0; i < n; i += 3) {
			buf_init(&small, 4);
			assert_int_equal(base64_append(&small, bytes + i, n - i < 3 ? n - i : 3),
					 0);
			assert_memory_equal(buf_data(&small), buf_data(&text) + i / 3 * 4, 4);
			buf_done(&small);
		}
		assert_int_equal(
			base64_decode(&back, (const char *)buf_data(&text), buf_len(&text)), 0);
		assert_int_equal(buf_len(&back), n);
		assert_memory_equal(buf_data(&back), bytes, n);
		buf_done(&text);
		buf_done(&back);
	}
}

/* One wrong byte anywhere in a long text, and every byte that is no digit. */
static void
test_base64_long_texts_are_strict(void **state)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char text[200];
	struct buf b;

	(void)state;
	buf_init(&b, sizeof(text));
	for (size_t at = 0; at < sizeof(text); at++) {
		for (int c = 0; c < 256; c++) {
			bool good = c != 0 && strchr(digits, c) != NULL;

			memset(text, 'A', sizeof(text));
			text[at] = (char)c;
			if (c == '=' && at == sizeof(text) - 1)
				good = true; /* padding, where it belongs */
			buf_clear(&b);
			if ((base64_decode(&b, text, sizeof(text)) == 0) != good)
				fail_msg("byte %d at %zu", c, at);
			assert_true(good || buf_len(&b) == 0);
		}
	}
	buf_done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_base64_rfc_vectors),
		cmocka_unit_test(test_base64_decode_what_encode_wrote),
		cmocka_unit_test(test_base64_decode_is_strict),
		cmocka_unit_test(test_base64_decode_keeps_to_the_maximum),
		cmocka_unit_test(test_base64_long_texts),
		cmocka_unit_test(test_base64_long_texts_are_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
