/*
 * tests/unit/test_frontend_prompts.c - prompts listed, got, completed; bad params.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static cJSON *
ask(method_handler handler, enum mcp_rev rev, const char *params)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = rev};
	cJSON *json = cJSON_Parse(params);

	assert_non_null(json);
	handler(&fe, &to, json);
	cJSON_Delete(json);
	return fake_answer();
}

static void
test_prompts_list_by_revision(void **state)
{
	(void)state;
	for (int rev = REV_2024_11_05; rev < REV_COUNT; rev++) {
		cJSON *answer = ask(prompts_list, (enum mcp_rev)rev, "{}");
		const cJSON *result = field(answer, "result");
		const cJSON *item = cJSON_GetArrayItem(field(result, "prompts"), 0);

		assert_string_equal(text_of(item, "name"), "use_sandbox");
		assert_int_equal(cJSON_HasObjectItem(item, "title"), rev >= REV_2025_06_18);
		assert_int_equal(cJSON_HasObjectItem(result, "ttlMs"), rev == REV_2026_07_28);
		item = cJSON_GetArrayItem(field(item, "arguments"), 0);
		assert_string_equal(text_of(item, "name"), "task");
		assert_true(cJSON_IsFalse(field(item, "required")));
		cJSON_Delete(answer);
	}
}

/* Every tool the text names is one that is listed. */
static void
test_prompts_get_names_real_tools(void **state)
{
	cJSON *answer = ask(prompts_get, REV_2025_11_25,
			    "{\"name\":\"use_sandbox\",\"arguments\":{\"task\":\"count to 3\"}}");
	const cJSON *message = cJSON_GetArrayItem(field(field(answer, "result"), "messages"), 0);
	const char *text = text_of(field(message, "content"), "text");
	size_t named = 0;

	(void)state;
	assert_string_equal(text_of(message, "role"), "user");
	assert_non_null(strstr(text, "The task: count to 3"));
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (strstr(text, tool_rows[i].name) == NULL)
			continue;
		assert_true(tool_rows[i].listed);
		named++;
	}
	assert_true(named >= 9);
	for (const char *at = strstr(text, "container_"); at != NULL;
	     at = strstr(at + 1, "container_")) {
		size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
		bool known = false;

		for (size_t i = 0; i < TOOL_COUNT; i++)
			known = known || (strlen(tool_rows[i].name) == n &&
					  strncmp(tool_rows[i].name, at, n) == 0);
		assert_true(known);
	}
	cJSON_Delete(answer);
}

static void
test_prompts_bad_params(void **state)
{
	static const struct {
		method_handler handler;
		const char *params;
	} rows[] = {
		{prompts_list, "{\"cursor\":\"x\"}"},
		{prompts_get, "{}"},
		{prompts_get, "{\"name\":7}"},
		{prompts_get, "{\"name\":\"no_such\"}"},
		{prompts_get, "{\"name\":\"use_sandbox\",\"arguments\":[]}"},
		{prompts_get, "{\"name\":\"use_sandbox\",\"arguments\":{\"task\":1}}"},
		{prompts_complete, "{}"},
		{prompts_complete, "{\"ref\":{\"type\":\"ref/tool\"},"
				   "\"argument\":{\"name\":\"a\",\"value\":\"\"}}"},
		{prompts_complete, "{\"ref\":{\"type\":\"ref/prompt\"}}"},
		{prompts_complete,
		 "{\"ref\":{\"type\":\"ref/prompt\"},\"argument\":{\"name\":\"a\"}}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *answer = ask(rows[i].handler, REV_2025_11_25, rows[i].params);

		assert_int_equal(field(field(answer, "error"), "code")->valueint, RPC_PARAMS);
		cJSON_Delete(answer);
	}
}

static void
test_prompts_complete_is_empty(void **state)
{
	cJSON *answer = ask(prompts_complete, REV_2025_11_25,
			    "{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"use_sandbox\"},"
			    "\"argument\":{\"name\":\"task\",\"value\":\"\"}}");

	(void)state;
	assert_int_equal(
		cJSON_GetArraySize(field(field(field(answer, "result"), "completion"), "values")),
		0);
	cJSON_Delete(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_prompts_list_by_revision),
		FAKE(test_prompts_get_names_real_tools),
		FAKE(test_prompts_bad_params),
		FAKE(test_prompts_complete_is_empty),
	};

	return cmocka_run_group_tests_name("frontend_prompts", tests, NULL, NULL);
}
