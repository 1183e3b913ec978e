/*
 * tests/unit/test_frontend_refusals.c - every tool with every argument in every wrong form: each is
 * refused in words that name the argument and say what it must be.
 * Runs in: ctest.
 * Input: none; the rows are tools.def's.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

/* A value that the row takes. */
static cJSON *
good_value(const struct arg_row *row)
{
	cJSON *value;

	switch (row->type) {
	case ARG_CHOICE:
		return cJSON_CreateString("bash");
	case ARG_INTEGER:
	case ARG_OFFSET:
		return cJSON_CreateNumber((double)row->min);
	case ARG_NUMBER:
		return cJSON_CreateNumber((double)row->max / 1000);
	case ARG_BOOLEAN:
		return cJSON_CreateTrue();
	case ARG_STRINGS:
		value = cJSON_CreateArray();
		(void)cJSON_AddItemToArray(value, cJSON_CreateString("x"));
		return value;
	case ARG_STRMAP:
		return cJSON_CreateObject();
	case ARG_FILES:
		return cJSON_CreateArray();
	case ARG_STRING:
	default:
		return cJSON_CreateString(strcmp(row->name, "sandbox_id") == 0 ||
							  strcmp(row->name, "container") == 0
						  ? BOX_ID
						  : "x");
	}
}

/* What each type does not take, as JSON; NULL: text one byte too long, or one entry too many. */
static const struct {
	enum arg_type type;
	const char *bad[14];
	bool too_long;
} wrong[] = {
	{ARG_STRING, {"null", "1", "true", "[]", "{}", "[\"x\"]"}, true},
	{ARG_CHOICE,
	 {"null", "1", "true", "[]", "{}", "\"\"", "\"x\"", "\"Bash\"", "\"bash|node\""},
	 false},
	{ARG_INTEGER, {"null", "\"1\"", "true", "[]", "{}", "1.5", "-1", "1e300", "-1e300"}, false},
	{ARG_OFFSET, {"null", "\"1\"", "true", "[]", "{}", "1.5", "1e300", "-1e300"}, false},
	{ARG_NUMBER, {"null", "\"1\"", "true", "[]", "{}", "0", "-1", "1e300", "0.000001"}, false},
	{ARG_BOOLEAN, {"null", "\"true\"", "1", "0", "[]", "{}"}, false},
	{ARG_STRINGS, {"null", "\"x\"", "1", "{}", "[1]", "[null]", "[[\"x\"]]"}, true},
	{ARG_STRMAP,
	 {"null", "\"A=1\"", "1", "[]", "[\"A=1\"]", "{\"A\":1}", "{\"A\":null}", "{\"\":\"x\"}",
	  "{\"A-B\":\"x\"}", "{\"1A\":\"x\"}", "{\"A=B\":\"x\"}", "{\"\xc3\xa9\":\"x\"}"},
	 true},
	{ARG_FILES,
	 {"null", "\"x\"", "1", "{}", "[1]", "[\"x\"]", "[{}]", "[{\"path\":\"x\"}]",
	  "[{\"content\":\"x\"}]", "[{\"path\":\"\",\"content\":\"x\"}]",
	  "[{\"path\":\"x\",\"content\":1}]",
	  "[{\"path\":\"x\",\"content\":\"x\",\"mode\":\"999\"}]",
	  "[{\"path\":\"x\",\"content\":\"x\",\"encoding\":\"utf16\"}]",
	  "[{\"path\":\"x\",\"content\":\"@\",\"encoding\":\"base64\"}]"},
	 true},
};

/* One more than the row's maximum; NULL where that is more than a message holds. */
static cJSON *
too_much(const struct arg_row *row)
{
	cJSON *value;
	char *text;

	if (row->type == ARG_STRING) {
		if (row->max >= MESSAGE_MAX)
			return NULL;
		text = xcalloc(row->max + 2, 1);
		memset(text, 'x', row->max + 1);
		value = cJSON_CreateString(text);
		free(text);
		return value;
	}
	value = row->type == ARG_STRMAP ? cJSON_CreateObject() : cJSON_CreateArray();
	for (uint64_t i = 0; i <= row->max; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "N%u", (unsigned)i);
		if (row->type == ARG_STRMAP)
			(void)cJSON_AddStringToObject(value, name, "");
		else
			(void)cJSON_AddItemToArray(value, row->type == ARG_FILES
								  ? cJSON_CreateObject()
								  : cJSON_CreateString(name));
	}
	return value;
}

/* Calls the tool with what it needs and this one, which is handed over (NULL: left out), and wants
 * a refusal that says so. */
static void
refused(enum tool_no tool, const char *name, cJSON *value)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	cJSON *params = cJSON_CreateObject(), *args, *answer;
	const cJSON *result;
	const struct arg_row *row;
	const char *text;
	size_t cursor = 0;

	(void)cJSON_AddStringToObject(params, "name", tool_rows[tool].name);
	args = cJSON_AddObjectToObject(params, "arguments");
	while ((row = arg_next(tool, &cursor)) != NULL) {
		if (row->required && strcmp(row->name, name) != 0)
			(void)cJSON_AddItemToObject(args, row->name, good_value(row));
	}
	if (value != NULL)
		(void)cJSON_AddItemToObject(args, name, value);
	tools_call(&fe, &to, params);
	answer = fake_answer();
	result = field(answer, "result");
	text = text_of(cJSON_GetArrayItem(field(result, "content"), 0), "text");
	if (!cJSON_IsTrue(field(result, "isError")) || strstr(text, name) == NULL ||
	    (strstr(text, "must") == NULL && strstr(text, "allowed") == NULL &&
	     strstr(text, "is missing") == NULL && strstr(text, " takes ") == NULL &&
	     strstr(text, "is not base64") == NULL)) {
		char *sent = cJSON_PrintUnformatted(value == NULL ? params : value);

		fail_msg("%s, %s = %.200s: \"%s\"", tool_rows[tool].name, name, sent, text);
	}
	assert_null(fe.call_list); /* and nothing of it goes on */
	cJSON_Delete(answer);
	cJSON_Delete(params);
}

static void
test_refusals_name_the_argument(void **state)
{
	unsigned n = 0;

	(void)state;
	for (size_t i = 0; i < arg_row_count; i++) {
		const struct arg_row *row = &arg_rows[i];

		if (row->required)
			refused(row->tool, row->name, NULL);
		for (size_t w = 0; w < ARRAY_LEN(wrong); w++) {
			cJSON *more = NULL;

			if (wrong[w].type != row->type)
				continue;
			for (size_t b = 0; b < ARRAY_LEN(wrong[w].bad) && wrong[w].bad[b]; b++, n++)
				refused(row->tool, row->name, cJSON_Parse(wrong[w].bad[b]));
			if (wrong[w].too_long)
				more = too_much(row);
			if (more != NULL)
				refused(row->tool, row->name, more);
		}
	}
	assert_true(n > 400);
	for (int tool = 0; tool < TOOL_COUNT; tool++)
		refused((enum tool_no)tool, "no_such_argument", cJSON_CreateTrue());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {FAKE(test_refusals_name_the_argument)};

	return cmocka_run_group_tests_name("frontend_refusals", tests, NULL, NULL);
}
