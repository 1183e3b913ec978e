/*
 * tests/unit/test_frontend_schema.c - tools.def and results.def as clients get them.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "frontend_fake.h"

static const char *const known_keywords[] = {
	"type",      "properties", "required", "additionalProperties",
	"items",     "enum",       "minimum",  "maximum",
	"minLength", "maxLength",  "maxItems", "description",
};

static bool
type_has(const cJSON *schema, const char *name)
{
	const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type"), *item;

	if (cJSON_IsString(type))
		return strcmp(type->valuestring, name) == 0;
	cJSON_ArrayForEach(item, type)
	{
		if (strcmp(item->valuestring, name) == 0)
			return true;
	}
	return false;
}

/* One schema object, without what is inside it. */
static void
check_plain(const cJSON *schema)
{
	const cJSON *item;

	assert_non_null(cJSON_GetObjectItemCaseSensitive(schema, "type"));
	cJSON_ArrayForEach(item, schema)
	{
		bool known = false;

		for (size_t i = 0; i < ARRAY_LEN(known_keywords); i++)
			known = known || strcmp(known_keywords[i], item->string) == 0;
		if (!known)
			fail_msg("keyword %s", item->string);
	}
	if (type_has(schema, "array"))
		assert_true(cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(schema, "items")));
}

/* Root, properties, and the properties of nested objects and array elements. */
static void
check_schema(const cJSON *root, int levels)
{
	const cJSON *properties = cJSON_GetObjectItemCaseSensitive(root, "properties"), *item;

	check_plain(root);
	assert_true(type_has(root, "object"));
	assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(root, "additionalProperties")));
	cJSON_ArrayForEach(item, properties)
	{
		const cJSON *inner = cJSON_GetObjectItemCaseSensitive(item, "items");

		check_plain(item);
		assert_true(
			strlen(cJSON_GetObjectItemCaseSensitive(item, "description")->valuestring) >
			5);
		if (inner == NULL)
			inner = item;
		if (levels > 0 && cJSON_GetObjectItemCaseSensitive(inner, "properties") != NULL)
			check_schema(inner, levels - 1);
	}
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "required"))
		assert_non_null(cJSON_GetObjectItemCaseSensitive(properties, item->valuestring));
}

static void
test_schema_every_tool(void **state)
{
	(void)state;
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		cJSON *tool = schema_tool((enum tool_no)i, REV_2026_07_28);

		check_schema(cJSON_GetObjectItemCaseSensitive(tool, "inputSchema"), 1);
		check_schema(cJSON_GetObjectItemCaseSensitive(tool, "outputSchema"), 2);
		cJSON_Delete(tool);
	}
}

static void
test_schema_tables_are_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		assert_true(strlen(tool_rows[i].name) <= 40);
		assert_true(strspn(tool_rows[i].name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
			    strlen(tool_rows[i].name));
		assert_true(strlen(tool_rows[i].description) < 2048);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(tool_rows[i].name, tool_rows[j].name);
	}
	for (size_t i = 0; i < arg_row_count; i++) {
		assert_true(arg_rows[i].max > 0 || arg_rows[i].type == ARG_CHOICE);
		assert_true(arg_rows[i].min <= arg_rows[i].max);
		assert_int_equal(*arg_rows[i].choices != '\0', arg_rows[i].type == ARG_CHOICE);
		assert_true(utf8_valid(arg_rows[i].help, strlen(arg_rows[i].help)));
		/* required ones stand first within their tool */
		if (i > 0 && arg_rows[i].required && arg_rows[i - 1].tool == arg_rows[i].tool)
			assert_true(arg_rows[i - 1].required);
		for (size_t j = 0; j < i; j++)
			assert_true(arg_rows[i].tool != arg_rows[j].tool ||
				    strcmp(arg_rows[i].name, arg_rows[j].name) != 0);
	}
}

static void
test_schema_arg_next_walks_its_tool(void **state)
{
	size_t cursor = 0, n = 0, all = 0;
	const struct arg_row *row;

	(void)state;
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		cursor = 0;
		while ((row = arg_next((enum tool_no)i, &cursor)) != NULL) {
			assert_int_equal(row->tool, i);
			n++;
		}
	}
	all = arg_row_count;
	assert_int_equal(n, all);
}

static void
test_schema_fields_by_revision(void **state)
{
	static const struct {
		const char *field;
		enum mcp_rev since;
	} fields[] = {{"name", REV_2024_11_05},        {"description", REV_2024_11_05},
		      {"inputSchema", REV_2024_11_05}, {"annotations", REV_2025_03_26},
		      {"title", REV_2025_06_18},       {"outputSchema", REV_2025_06_18}};

	(void)state;
	for (int rev = REV_2024_11_05; rev < REV_COUNT; rev++) {
		cJSON *tool = schema_tool(TOOL_execute_code, (enum mcp_rev)rev);

		for (size_t i = 0; i < ARRAY_LEN(fields); i++)
			assert_int_equal(cJSON_GetObjectItemCaseSensitive(tool, fields[i].field) !=
						 NULL,
					 rev >= (int)fields[i].since);
		cJSON_Delete(tool);
	}
}

static void
test_schema_limits_are_exact(void **state)
{
	cJSON *tool = schema_tool(TOOL_execute_code, REV_2025_11_25);
	char *text = cJSON_PrintUnformatted(tool);

	(void)state;
	assert_non_null(strstr(text, "\"timeout_seconds\":{\"type\":\"number\",\"minimum\":0.1,"
				     "\"maximum\":300,"));
	assert_non_null(strstr(text, "\"enum\":[\"python\",\"bash\",\"node\"]"));
	assert_non_null(strstr(text, "\"required\":[\"language\",\"code\"]"));
	assert_non_null(strstr(text, "\"env\":{\"type\":\"object\",\"additionalProperties\":"
				     "{\"type\":\"string\"}"));
	free(text);
	cJSON_Delete(tool);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schema_every_tool),
		cmocka_unit_test(test_schema_tables_are_sound),
		cmocka_unit_test(test_schema_arg_next_walks_its_tool),
		cmocka_unit_test(test_schema_fields_by_revision),
		cmocka_unit_test(test_schema_limits_are_exact),
	};

	return cmocka_run_group_tests_name("frontend_schema", tests, NULL, NULL);
}
