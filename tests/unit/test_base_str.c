/*
 * tests/unit/test_base_str.c - numbers, UTF-8, hex, constant-time comparison, copies.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

static void
test_parse_u64_cases(void **state)
{
	static const struct {
		const char *in;
		uint64_t min, max;
		int r;
		uint64_t value;
	} cases[] = {
		{"0", 0, 0, 0, 0},
		{"42", 0, 100, 0, 42},
		{"042", 0, 100, 0, 42},
		{"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
		{"18446744073709551616", 0, UINT64_MAX, -ERANGE, 0},
		{"99999999999999999999999", 0, UINT64_MAX, -ERANGE, 0},
		{"99999999999999999999999x", 0, UINT64_MAX, -EINVAL, 0},
		{"5", 6, 10, -ERANGE, 0},
		{"11", 6, 10, -ERANGE, 0},
		{"", 0, 10, -EINVAL, 0},
		{"-1", 0, 10, -EINVAL, 0},
		{"+1", 0, 10, -EINVAL, 0},
		{" 1", 0, 10, -EINVAL, 0},
		{"1 ", 0, 10, -EINVAL, 0},
		{"1\n", 0, 10, -EINVAL, 0},
		{"0x1", 0, 10, -EINVAL, 0},
		{"1.0", 0, 10, -EINVAL, 0},
		{"1e3", 0, 5000, -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t value = 77;

		assert_int_equal(parse_u64(cases[i].in, cases[i].min, cases[i].max, &value),
				 cases[i].r);
		assert_int_equal(value, cases[i].r == 0 ? cases[i].value : 77);
	}
}

static void
test_utf8_cases(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		size_t step; /* 0: the first sequence is invalid */
		bool valid;
	} cases[] = {
		{"a", 1, 1, true},
		{"\0", 1, 1, true},
		{"\x7f", 1, 1, true},
		{"\xc2\x80", 2, 2, true},
		{"\xdf\xbf", 2, 2, true},
		{"\xe0\xa0\x80", 3, 3, true},
		{"\xed\x9f\xbf", 3, 3, true},
		{"\xee\x80\x80", 3, 3, true},
		{"\xef\xbf\xbf", 3, 3, true},
		{"\xf0\x90\x80\x80", 4, 4, true},
		{"\xf4\x8f\xbf\xbf", 4, 4, true},
		{"\x80", 1, 0, false},     /* a continuation alone */
		{"\xc0\x80", 2, 0, false}, /* overlong NUL */
		{"\xc1\xbf", 2, 0, false},
		{"\xe0\x9f\xbf", 3, 0, false},     /* overlong */
		{"\xf0\x8f\xbf\xbf", 4, 0, false}, /* overlong */
		{"\xed\xa0\x80", 3, 0, false},     /* surrogate */
		{"\xed\xbf\xbf", 3, 0, false},
		{"\xf4\x90\x80\x80", 4, 0, false}, /* above U+10FFFF */
		{"\xf5\x80\x80\x80", 4, 0, false},
		{"\xff", 1, 0, false},
		{"\xc2", 1, 0, false}, /* cut */
		{"\xe2\x82", 2, 0, false},
		{"\xf0\x9f\x98", 3, 0, false},
		{"\xc2\x41", 2, 0, false},
		{"\xe2\x82\x41", 3, 0, false},
		{"\xf0\x9f\x98\x41", 4, 0, false},
		{"abcdefgh\xc3\xa9tail5678", 18, 1, true},
		{"abcdefgh\xc3tail56789", 18, 1, false},
		{"12345678\x80", 9, 1, false},
		{"", 0, 0, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(utf8_step(cases[i].in, cases[i].len), cases[i].step);
		assert_int_equal(utf8_valid(cases[i].in, cases[i].len), cases[i].valid);
	}
}

/* Every code point encodes to something valid; one byte less is not. */
static void
test_utf8_every_code_point(void **state)
{
	(void)state;
	for (uint32_t c = 0x80; c <= 0x10ffff; c++) {
		char s[4];
		size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		uint32_t rest = c;

		for (size_t i = n; i-- > 1; rest >>= 6)
			s[i] = (char)(0x80 | (rest & 0x3f));
		s[0] = (char)((0xf00U >> n & 0xff) | rest);
		assert_int_equal(utf8_step(s, n), c >= 0xd800 && c <= 0xdfff ? 0 : n);
		assert_int_equal(utf8_step(s, n - 1), 0);
	}
}

static void
test_hex(void **state)
{
	uint8_t bytes[3] = {0x00, 0xab, 0xff};
	uint8_t back[3] = {9, 9, 9};
	char text[7];

	(void)state;
	hex_encode(text, bytes, 3);
	assert_string_equal(text, "00abff");
	hex_escape(text, 0x1b);
	assert_memory_equal(text, "\\x1bff", 7);
	assert_int_equal(hex_decode(back, 3, "00aBFf", 6), 0);
	assert_memory_equal(back, bytes, 3);
	assert_int_equal(hex_decode(back, 3, "00abf", 5), -EINVAL);
	assert_int_equal(hex_decode(back, 3, "00abff0", 7), -EINVAL);
	assert_int_equal(hex_decode(back, 3, "00abff00", 8), -EINVAL);
	assert_int_equal(hex_decode(back, 3, "00abfg", 6), -EINVAL);
	assert_int_equal(hex_decode(back, 3, "00ab f", 6), -EINVAL);
	assert_int_equal(hex_decode(back, 0, "", 0), 0);
	hex_encode(text, bytes, 0);
	assert_string_equal(text, "");
}

static void
test_mem_equal_ct(void **state)
{
	(void)state;
	assert_true(mem_equal_ct("abc", "abc", 3));
	assert_false(mem_equal_ct("abc", "abd", 3));
	assert_false(mem_equal_ct("abc",
				  "\xe1"
				  "bc",
				  3));
	assert_true(mem_equal_ct("a", "b", 0));
}

static void
test_str_copy(void **state)
{
	char out[4] = "zzz";

	(void)state;
	assert_int_equal(str_copy(out, sizeof(out), "abcd", 4), -ENAMETOOLONG);
	assert_string_equal(out, "zzz");
	assert_int_equal(str_copy(out, sizeof(out), "a\0b", 3), -EINVAL);
	assert_string_equal(out, "zzz");
	assert_int_equal(str_copy(out, sizeof(out), NULL, 0), 0); /* an empty view */
	assert_string_equal(out, "");
	assert_int_equal(str_copy(out, sizeof(out), "abcd", 3), 0);
	assert_string_equal(out, "abc");
	assert_int_equal(str_copy(out, sizeof(out), "", 0), 0);
	assert_string_equal(out, "");
	assert_int_equal(str_copy(out, 0, "", 0), -ENAMETOOLONG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_u64_cases),       cmocka_unit_test(test_utf8_cases),
		cmocka_unit_test(test_utf8_every_code_point), cmocka_unit_test(test_hex),
		cmocka_unit_test(test_mem_equal_ct),          cmocka_unit_test(test_str_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
