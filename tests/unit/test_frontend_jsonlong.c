/*
 * tests/unit/test_frontend_jsonlong.c - messages parsed around their longest string: the tree is
 * the same as without, and no string of a client's stands in for another.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <stdlib.h>

#include <cjson/cJSON.h>

#include "message.h"

/* The tree around the longest string of that many bytes; it borrows from *ret_text. */
static cJSON *
around(const char *json, size_t least, char **ret_text)
{
	struct json_lint lint;

	*ret_text = xstrdup(json);
	assert_int_equal(jsonlint(*ret_text, strlen(json), &lint), 0);
	return rpc_parse_long(*ret_text, strlen(json), &lint, least);
}

static void
test_jsonlong_is_the_same_tree(void **state)
{
	static const char *const texts[] = {
		"\"alone\"",
		"{\"a\":\"first\"}",
		"{\"a\":[1,2,{\"b\":{}}],\"c\":[[],[[\"deep\"]]],\"d\":\"no\"}",
		"[\"\",\"x\",\"yy\",\"zz\"]",
		"{\"escaped\\u0041\":\"\\n\\n\\n\\n\\n\",\"b\":\"plain\"}",
		"{\"\xc3\xa9\":\"\xc3\xa9\xe2\x82\xac\",\"n\":1.5e3}",
		"{\"a\":\"\",\"b\":[true,false,null]}",
		("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"as deep as may "
		 "be\"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
		"{\"a long key is no value\":\"v\"}",
		"{\"a\":\"\\u00ff\",\"b\":\"\xc3\xbf\"}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char *text;
		cJSON *json = around(texts[i], 1, &text), *plain = cJSON_Parse(texts[i]);

		assert_non_null(json);
		assert_true(cJSON_Compare(json, plain, true));
		cJSON_Delete(json);
		cJSON_Delete(plain);
		free(text);
	}
}

/* The string stays where it is: nothing of it is copied. */
static void
test_jsonlong_stays_in_the_text(void **state)
{
	char *text;
	cJSON *json = around("{\"a\":\"b\",\"content\":\"0123456789\",\"z\":1}", 10, &text);
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "content");

	(void)state;
	assert_true(item->valuestring > text && item->valuestring < text + 40);
	assert_string_equal(item->valuestring, "0123456789");
	cJSON_Delete(json); /* frees what is its own */
	free(text);
}

/* One byte too short, and it goes the usual way: the text is not changed. */
static void
test_jsonlong_only_where_it_is_worth_it(void **state)
{
	static const char message[] = "{\"content\":\"0123456789\"}";
	char *text;
	cJSON *json = around(message, 11, &text);

	(void)state;
	assert_string_equal(text, message);
	assert_string_equal(cJSON_GetObjectItemCaseSensitive(json, "content")->valuestring,
			    "0123456789");
	cJSON_Delete(json);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jsonlong_is_the_same_tree),
		cmocka_unit_test(test_jsonlong_stays_in_the_text),
		cmocka_unit_test(test_jsonlong_only_where_it_is_worth_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
