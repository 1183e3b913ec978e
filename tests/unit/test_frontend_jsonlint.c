/*
 * tests/unit/test_frontend_jsonlint.c - the gate: what passes, what is refused, what id is told.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include <cjson/cJSON.h>

#include "message.h"

enum verdict { PASS, REFUSED, BROKEN };

static enum verdict
lint(const char *text, size_t n)
{
	struct json_lint l;
	int r = jsonlint(text, n, &l);

	assert_int_equal(r, l.why == NULL ? 0 : -EBADMSG);
	assert_true(l.at <= n);
	return r == 0 ? PASS : l.grammar ? BROKEN : REFUSED;
}

#define ROW(verdict, text)                      \
	{                                       \
		text, sizeof(text) - 1, verdict \
	}
static const struct {
	const char *text;
	size_t n;
	enum verdict verdict;
} rows[] = {
	/* structure */
	ROW(PASS, "{}"),
	ROW(PASS, "[]"),
	ROW(PASS, " [ ] "),
	ROW(PASS, "[[],[{}]]"),
	ROW(PASS, "{\"a\":{\"a\":[{\"a\":1}]}}"),
	ROW(PASS, "\t\r\n{\"a\" : 1 , \"b\" : [ 2 , 3 ] }"),
	ROW(BROKEN, ""),
	ROW(BROKEN, " "),
	ROW(BROKEN, "["),
	ROW(BROKEN, "{"),
	ROW(BROKEN, "]"),
	ROW(BROKEN, "[}"),
	ROW(BROKEN, "{]"),
	ROW(BROKEN, "[1,]"),
	ROW(BROKEN, "[,1]"),
	ROW(BROKEN, "[1 2]"),
	ROW(BROKEN, "{\"a\":1,}"),
	ROW(BROKEN, "{,}"),
	ROW(BROKEN, "{\"a\"}"),
	ROW(BROKEN, "{\"a\":}"),
	ROW(BROKEN, "{a:1}"),
	ROW(BROKEN, "{1:1}"),
	ROW(BROKEN, "{\"a\" 1}"),
	ROW(BROKEN, "{\"a\":1 \"b\":2}"),
	ROW(BROKEN, "[]]"),
	ROW(BROKEN, "{}{}"),
	ROW(BROKEN, "1 1"),
	ROW(BROKEN, "\xef\xbb\xbf{}"),
	ROW(BROKEN, "[1]\0"),
	ROW(BROKEN, "/**/{}"),
	ROW(BROKEN, "\f{}"),
	/* words */
	ROW(PASS, "true"),
	ROW(PASS, "[false,null]"),
	ROW(BROKEN, "tru"),
	ROW(BROKEN, "True"),
	ROW(BROKEN, "nulll"),
	ROW(BROKEN, "NaN"),
	ROW(BROKEN, "Infinity"),
	ROW(BROKEN, "undefined"),
	/* numbers */
	ROW(PASS, "0"),
	ROW(PASS, "-0"),
	ROW(PASS, "1"),
	ROW(PASS, "-12"),
	ROW(PASS, "1.5"),
	ROW(PASS, "1e5"),
	ROW(PASS, "1E+5"),
	ROW(PASS, "1.25e-7"),
	ROW(PASS, "0e0"),
	ROW(PASS, "1e200"),
	ROW(PASS, "1e-200"),
	ROW(PASS, "9223372036854775808"),
	ROW(REFUSED, "1e201"),
	ROW(REFUSED, "1e999"),
	ROW(REFUSED, "-1e999"),
	ROW(REFUSED, "1e-999"),
	ROW(REFUSED, "1e99999999999999999999"),
	ROW(REFUSED, "11111111111111111111111111111111111111111111111111111111111111111"),
	ROW(BROKEN, "01"),
	ROW(BROKEN, "-"),
	ROW(BROKEN, "-01"),
	ROW(BROKEN, "1."),
	ROW(BROKEN, ".5"),
	ROW(BROKEN, "+1"),
	ROW(BROKEN, "1e"),
	ROW(BROKEN, "1e+"),
	ROW(BROKEN, "0x10"),
	ROW(BROKEN, "1_0"),
	ROW(BROKEN, "--1"),
	ROW(BROKEN, "1.e5"),
	/* strings */
	ROW(PASS, "\"\""),
	ROW(PASS, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
	ROW(PASS, "\"\\u0041\""),
	ROW(PASS, "\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\""),
	ROW(PASS, "\"\\ud83d\\ude00\""),
	ROW(PASS, "\"\\uD83D\\uDE00\""),
	ROW(PASS, "\"\x7f\""),
	ROW(PASS, "\"\\u001b\""),
	ROW(REFUSED, "\"\\u0000\""),
	ROW(REFUSED, "\"a\\u0000b\""),
	ROW(REFUSED, "\"\\ud800\""),
	ROW(REFUSED, "\"\\udc00\""),
	ROW(REFUSED, "\"\\ud800\\ud800\""),
	ROW(REFUSED, "\"\\ud800x\""),
	ROW(REFUSED, "\"\\ud800\\n\""),
	ROW(REFUSED, "\"\\udc00\\ud800\""),
	ROW(BROKEN, "\""),
	ROW(BROKEN, "\"\\\""),
	ROW(BROKEN, "\"\\x41\""),
	ROW(BROKEN, "\"\\u12\""),
	ROW(BROKEN, "\"\\u12g4\""),
	ROW(BROKEN, "\"\\ud800\\u12\""),
	ROW(BROKEN, "\"\n\""),
	ROW(BROKEN, "\"\t\""),
	ROW(BROKEN, "\"\0\""),
	ROW(BROKEN, "\"\x1f\""),
	ROW(BROKEN, "'a'"),
	ROW(BROKEN, "\"\xff\""),
	ROW(BROKEN, "\"\xc3\""),
	ROW(BROKEN, "\"\xc0\x80\""),
	ROW(BROKEN, "\"\xed\xa0\x80\""),
	ROW(BROKEN, "\"\xf4\x90\x80\x80\""),
	ROW(BROKEN, "\"\xe2\x82\""),
	ROW(BROKEN, "{\"\xff\":1}"),
	/* keys */
	ROW(PASS, "{\"a\":1,\"b\":1,\"A\":1}"),
	ROW(PASS, "[{\"a\":1},{\"a\":1}]"),
	ROW(PASS, "{\"\":1}"),
	ROW(PASS, "{\"a\":{\"b\":1},\"b\":1}"),
	ROW(REFUSED, "{\"a\":1,\"a\":1}"),
	ROW(REFUSED, "{\"\":1,\"\":1}"),
	ROW(REFUSED, "{\"a\":{},\"b\":{},\"a\":1}"),
	ROW(REFUSED, "[[{\"x\":{\"k\":1,\"k\":2}}]]"),
	ROW(REFUSED, "{\"a\":1,\"\\u0061\":1}"),
	ROW(REFUSED, "{\"\xc3\xa9\":1,\"\\u00e9\":1}"),
	ROW(REFUSED, "{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":1}"),
	ROW(REFUSED, "{\"\\/\":1,\"/\":1}"),
	ROW(REFUSED, "{\"a\\u0000\":1}"),
	/* a refusal does not hide what is broken after it */
	ROW(BROKEN, "{\"a\":1,\"a\":1"),
};

static void
test_jsonlint_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (lint(rows[i].text, rows[i].n) != rows[i].verdict)
			fail_msg("row %zu: %s", i, rows[i].text);
	}
}

/* What passes, cJSON takes; so rpc_parse can only fail for lack of memory. */
static void
test_jsonlint_agrees_with_the_parser(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *json;

		if (rows[i].verdict != PASS)
			continue;
		json = rpc_parse(rows[i].text, rows[i].n);
		assert_non_null(json);
		cJSON_Delete(json);
	}
}

static void
test_jsonlint_depth(void **state)
{
	char text[200];

	(void)state;
	for (size_t depth = 1; depth < 80; depth++) {
		enum verdict want = depth <= JSON_DEPTH_MAX ? PASS : BROKEN;

		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		assert_int_equal(lint(text, 2 * depth), want);
	}
}

/* Builds "{<n keys of len bytes>}". */
static char *
many_keys(size_t n, size_t len, bool last_twice)
{
	size_t room = (n + 2) * (len + 16), used = 1;
	char *text = calloc(1, room);

	text[0] = '{';
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, room - used, "%s\"%0*zu\":0",
					 i == 0 ? "" : ",", (int)len,
					 last_twice && i == n - 1 ? i / 2 : i);
	text[used] = '}';
	return text;
}

static void
test_jsonlint_key_caps(void **state)
{
	static const struct {
		size_t n, len;
		bool twice;
		enum verdict verdict;
	} cases[] = {
		{JSON_KEYS_MAX, 5, false, PASS},      {JSON_KEYS_MAX + 1, 5, false, REFUSED},
		{JSON_KEYS_MAX, 5, true, REFUSED},    {33, 5, true, REFUSED},
		{2, JSON_KEY_BYTES_MAX, false, PASS}, {2, JSON_KEY_BYTES_MAX + 1, false, REFUSED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *text = many_keys(cases[i].n, cases[i].len, cases[i].twice);

		assert_int_equal(lint(text, strlen(text)), cases[i].verdict);
		free(text);
	}
}

static void
test_jsonlint_value_cap(void **state)
{
	size_t n = JSON_VALUES_MAX - 1; /* the array is one as well */
	char *text = calloc(1, 2 * n + 8);

	(void)state;
	text[0] = '[';
	for (size_t i = 0; i < n; i++)
		memcpy(text + 1 + 2 * i, "0,", 2);
	text[2 * n] = ']';
	assert_int_equal(lint(text, 2 * n + 1), PASS);
	memcpy(text + 2 * n, ",0]", 3);
	assert_int_equal(lint(text, 2 * n + 3), REFUSED);
	free(text);
}

static void
test_jsonlint_tells_the_id(void **state)
{
	static const struct {
		const char *text, *id;
	} cases[] = {
		{"{\"id\":5,\"x\":\"\\u0000\"}", "5"},
		{"{\"x\":\"\\u0000\",\"id\":\"a b\"}", "\"a b\""},
		{"{\"x\":{\"id\":7},\"y\":1,\"y\":1}", ""},
		{"{\"x\":[{\"id\":7}],\"y\":1,\"y\":1,\"id\":-8}", "-8"},
		{"{\"id\":1,\"id\":2}", ""},
		{"{\"id\":1,\"id\":2,\"id\":3}", ""},
		{"{\"id\":\"\\ud800\"}", ""},
		{"{\"id\":null,\"a\":1,\"a\":1}", ""},
		{"{\"id\":[1],\"a\":1,\"a\":1}", ""},
		{"{\"id\":1e999}", ""},
		{"[{\"id\":3,\"a\":1,\"a\":1}]", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_lint l;

		assert_int_equal(jsonlint(cases[i].text, strlen(cases[i].text), &l), -EBADMSG);
		assert_false(l.grammar);
		assert_int_equal(l.id_len, strlen(cases[i].id));
		assert_memory_equal(cases[i].text + l.id_at, cases[i].id, l.id_len);
	}
}

/* The longest value without an escape; keys and what has one do not count. */
static void
test_jsonlint_tells_the_longest_string(void **state)
{
	static const struct {
		const char *text, *found;
	} cases[] = {
		{"{\"a long key\":\"v\"}", "v"},
		{"[\"one\",[\"three\"],\"two\"]", "three"},
		{"[\"first\",\"other\"]", "first"},
		{"[\"\\u0041bcdef\",\"abc\\\"\",\"a\"]", "a"},
		{"[\"\",1,true]", ""},
		{"[\"\xc3\xa9\xc3\xa9\",\"abc\"]", "\xc3\xa9\xc3\xa9"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_lint l;

		assert_int_equal(jsonlint(cases[i].text, strlen(cases[i].text), &l), 0);
		assert_int_equal(l.long_len, strlen(cases[i].found));
		assert_memory_equal(cases[i].text + l.long_at, cases[i].found, l.long_len);
	}
}

/* No prefix of a message passes, and none is read past its end. */
static void
test_jsonlint_every_prefix(void **state)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u00e9\","
				   "\"params\":{\"x\":[1.5e3,true,null,\"\\ud83d\\ude00\"]}}";

	(void)state;
	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		char *copy = malloc(n + 1);

		memcpy(copy, text, n);
		assert_int_equal(lint(copy, n), BROKEN);
		free(copy);
	}
	assert_int_equal(lint(text, sizeof(text) - 1), PASS);
}

/* A string is gone through in words: every byte at every place of two of them, for itself. */
static void
test_jsonlint_every_byte_at_every_place(void **state)
{
	char text[] = "[\"abcdefghijklmnopqrstuvwx\"]";

	(void)state;
	for (size_t at = 2; at < sizeof(text) - 3; at++) {
		char was = text[at];

		for (int byte = 0; byte < 256; byte++) {
			bool bad = byte < 0x20 || byte == '"' || byte == '\\' || byte >= 0x80;

			text[at] = (char)byte;
			if (byte == '\\' && strchr("bfnrt/", text[at + 1]) != NULL)
				bad = false;
			if (lint(text, sizeof(text) - 1) != (bad ? BROKEN : PASS))
				fail_msg("byte %#x at %zu", (unsigned)byte, at);
		}
		text[at] = was;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jsonlint_rows),
		cmocka_unit_test(test_jsonlint_agrees_with_the_parser),
		cmocka_unit_test(test_jsonlint_depth),
		cmocka_unit_test(test_jsonlint_key_caps),
		cmocka_unit_test(test_jsonlint_value_cap),
		cmocka_unit_test(test_jsonlint_tells_the_id),
		cmocka_unit_test(test_jsonlint_tells_the_longest_string),
		cmocka_unit_test(test_jsonlint_every_prefix),
		cmocka_unit_test(test_jsonlint_every_byte_at_every_place),
	};

	return cmocka_run_group_tests_name("frontend_jsonlint", tests, NULL, NULL);
}
