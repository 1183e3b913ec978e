/*
 * tests/unit/test_frontend_text.c - hidden code points and visible forms.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include <cjson/cJSON.h>

#include "message.h"

static void
test_text_is_hidden_known(void **state)
{
	static const uint32_t hidden[] = {
		0,      7,      8,      0xb,    0xd,    0x1b,    0x1f,    0x7f,    0x80,   0x9b,
		0x9f,   0xad,   0x61c,  0x180e, 0x200b, 0x200d,  0x200f,  0x2028,  0x202a, 0x202e,
		0x2060, 0x2066, 0x2069, 0xfeff, 0xfff9, 0xe0000, 0xe0041, 0xe007f, 0xe0100};
	static const uint32_t shown[] = {'\t',   '\n',   ' ',     'a',     '~',    0xa0,
					 0xe9,   0x200a, 0x2010,  0x202f,  0x2070, 0x4e2d,
					 0xfe0f, 0xfffd, 0x1f600, 0x10ffff};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
		assert_true(text_is_hidden(hidden[i]));
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		assert_false(text_is_hidden(shown[i]));
}

static void
test_text_scan_cases(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		bool utf8, hidden;
	} rows[] = {
		{"", 0, true, false},
		{"plain\n\t", 7, true, false},
		{"a\0b", 3, true, true},
		{"\r", 1, true, true},
		{"\xc3\xa9", 2, true, false},
		{"\xc2\x85", 2, true, true},
		{"\xe2\x80\xae", 3, true, true},
		{"\xf3\xa0\x81\x81", 4, true, true},
		{"\xc3", 1, false, false},
		{"\xff", 1, false, false},
		{"\xed\xa0\x80", 3, false, false},
		{"\xc0\x80", 2, false, false},
		{"\xf4\x90\x80\x80", 4, false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool hidden = false;

		assert_int_equal(text_scan((const uint8_t *)rows[i].text, rows[i].n, &hidden),
				 rows[i].utf8);
		if (rows[i].utf8)
			assert_int_equal(hidden, rows[i].hidden);
	}
}

static void
check_form(int (*append)(struct buf *, const uint8_t *, size_t), const char *in, size_t n,
	   const char *want)
{
	struct buf b;

	buf_init(&b, 4096);
	assert_int_equal(append(&b, (const uint8_t *)in, n), 0);
	assert_int_equal(buf_append(&b, "", 1), 0);
	assert_string_equal((const char *)buf_data(&b), want);
	buf_done(&b);
}

static void
test_text_append_forms(void **state)
{
	(void)state;
	check_form(text_append_escaped, "", 0, "");
	check_form(text_append_escaped, "a\\b\x1b[0m\n", 8, "a\\\\b\\u{1B}[0m\n");
	check_form(text_append_escaped, "\0\xe2\x80\xae", 4, "\\u{0}\\u{202E}");
	check_form(text_append_escaped, "\xf3\xa0\x81\x81", 4, "\\u{E0041}");
	check_form(text_append_visible, "a\\b\x1b", 4, "a\\b\\u{1B}");
	check_form(text_append_visible, "\xff\xc3(", 3, "\xef\xbf\xbd\xef\xbf\xbd(");
}

static void
test_text_append_stops_at_the_maximum(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4);
	assert_int_equal(text_append_escaped(&b, (const uint8_t *)"abcdefgh", 8), -ENOSPC);
	assert_int_equal(text_append_escaped(&b, (const uint8_t *)"\x1b\x1b", 2), -ENOSPC);
	buf_done(&b);
}

/* Every cut of a text leaves a floor and a skip that are whole code points. */
static void
test_text_floor_and_skip_at_every_offset(void **state)
{
	static const char text[] = "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80z";
	size_t n = sizeof(text) - 1;

	(void)state;
	for (size_t cut = 0; cut <= n; cut++) {
		size_t floor = text_floor((const uint8_t *)text, cut);
		size_t skip = text_skip((const uint8_t *)text + cut, n - cut);

		assert_true(floor <= cut && cut - floor < 4 && skip < 4);
		assert_true(utf8_valid(text, floor));
		assert_true(utf8_valid(text + cut + skip, n - cut - skip));
	}
	/* what is no text is left alone */
	assert_int_equal(text_floor((const uint8_t *)"\x80\x80\x80\x80", 4), 4);
}

/* Whatever the bytes, at whatever place in a word: cJSON reads back what was written. */
static void
test_text_append_json_reads_back(void **state)
{
	(void)state;
	for (unsigned byte = 1; byte < 0x80; byte++) {
		for (size_t at = 0; at < 20; at++) {
			char text[24];
			struct buf b;
			cJSON *json;

			memset(text, 'x', sizeof(text));
			text[at] = (char)byte;
			text[sizeof(text) - 1] = '\0';
			buf_init(&b, 1024);
			assert_int_equal(text_append_json(&b, (const uint8_t *)text, strlen(text)),
					 0);
			assert_int_equal(buf_append(&b, "", 1), 0);
			json = cJSON_Parse((const char *)buf_data(&b));
			assert_true(cJSON_IsString(json));
			assert_string_equal(json->valuestring, text);
			cJSON_Delete(json);
			buf_done(&b);
		}
	}
}

static void
test_text_append_json_forms(void **state)
{
	static const struct {
		const char *text, *json;
	} rows[] = {{"", "\"\""},
		    {"a\"b\\c", "\"a\\\"b\\\\c\""},
		    {"\n\t\x1b", "\"\\n\\u0009\\u001b\""},
		    {"\xc3\xa4\xf0\x9f\xa6\x89\x7f", "\"\xc3\xa4\xf0\x9f\xa6\x89\x7f\""},
		    /* C1, a bidi override, a tag */
		    {"12345678\xc2\x9b\xe2\x80\xae\xc3\xa4\xf3\xa0\x81\x81z",
		     "\"12345678\\u009b\\u202e\xc3\xa4\\udb40\\udc41z\""}};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		buf_init(&b, 256);
		assert_int_equal(
			text_append_json(&b, (const uint8_t *)rows[i].text, strlen(rows[i].text)),
			0);
		assert_int_equal(buf_len(&b), strlen(rows[i].json));
		assert_memory_equal(buf_data(&b), rows[i].json, buf_len(&b));
		buf_done(&b);
	}
	buf_init(&b, 4);
	assert_int_equal(text_append_json(&b, (const uint8_t *)"abc", 3), -ENOSPC);
	buf_done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_hidden_known),
		cmocka_unit_test(test_text_scan_cases),
		cmocka_unit_test(test_text_append_forms),
		cmocka_unit_test(test_text_append_stops_at_the_maximum),
		cmocka_unit_test(test_text_floor_and_skip_at_every_offset),
		cmocka_unit_test(test_text_append_json_reads_back),
		cmocka_unit_test(test_text_append_json_forms),
	};

	return cmocka_run_group_tests_name("frontend_text", tests, NULL, NULL);
}
