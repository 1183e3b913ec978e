/*
 * tests/unit/test_frontend_args.c - argument checks, sentence by sentence, and how they are read.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "frontend_fake.h"

#define CODE(more) "{\"language\":\"bash\",\"code\":\"\"," more "}"

static const struct {
	enum tool_no tool;
	const char *args;
	const char *why; /* NULL: accepted; else part of the sentence */
} rows[] = {
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\"}", NULL},
	{TOOL_execute_code,
	 "{\"code\":\"\",\"language\":\"node\",\"args\":[],\"env\":{},\"stdin\":\"\"}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"timeout_seconds\":0.1}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"timeout_seconds\":300}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"timeout_seconds\":0.0999}",
	 "between 0.1 and 300, not 0.0999"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"timeout_seconds\":300.001}",
	 "between 0.1 and 300, not 300.001"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"timeout_seconds\":-0}",
	 "between"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"memory_mb\":32}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"memory_mb\":32.0}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"memory_mb\":33.5}",
	 "whole number"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"memory_mb\":1e30}",
	 "between 32"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"cpus\":0.009}", "between 0.01"},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"env\":{\"_a9\":\"=\"}}", NULL},
	{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"\",\"env\":{\"a-b\":\"\"}}",
	 "the name \"a-b\""},
	{TOOL_execute_code, "{\"language\":\"Bash\",\"code\":\"\"}", "python, bash, node"},
	{TOOL_execute_code, "{\"language\":\"pythonbash\",\"code\":\"\"}", "python, bash, node"},
	{TOOL_execute_code, "{\"language\":\"\",\"code\":\"\"}", "python, bash, node"},
	{TOOL_execute_code, "{}", "\"language\" is missing"},
	{TOOL_execute_code, "{\"language\":\"bash\"}", "\"code\" is missing"},
	{TOOL_execute_code, "{\"Language\":\"bash\",\"code\":\"\"}",
	 "Unknown argument \"Language\". execute_code takes language, code, stdin"},
	{TOOL_container_exec_command, "{\"sandbox_id\":\"\",\"argv\":[]}", "must not be empty"},
	{TOOL_container_exec_command, "{\"sandbox_id\":\"\",\"argv\":[\"a\"]}", NULL},
	{TOOL_container_exec_command, "{\"sandbox_id\":\"\",\"background\":\"yes\"}",
	 "must be true or false, not a string"},
	{TOOL_container_exec_command, "{\"command\":\"x\"}", "\"sandbox_id\" is missing"},
	{TOOL_inspect_logs, "{\"offset\":-1099511627776}", NULL},
	{TOOL_inspect_logs, "{\"offset\":1099511627777}",
	 "between -1099511627776 and 1099511627776"},
	{TOOL_inspect_logs, "{\"offset\":-0.5}", "whole number"},
	{TOOL_inspect_logs, "{\"limit\":0}", "between 1 and 1048576"},
	{TOOL_inspect_logs, "{\"stream\":\"value\"}", "stdout, stderr"},
	{TOOL_container_read_file, "{\"sandbox_id\":\"x\",\"path\":\"\"}", "must not be empty"},
	{TOOL_container_read_file, "{\"sandbox_id\":\"x\",\"path\":\"a\",\"length\":2097153}",
	 "between 1 and 2097152"},
	{TOOL_container_read_file, "{\"sandbox_id\":\"x\",\"path\":\"a\",\"offset\":-1}",
	 "between 0"},
	{TOOL_container_list_files, "{\"sandbox_id\":\"x\",\"depth\":9}", "between 1 and 8"},
	{TOOL_execute_code, CODE("\"files\":[]"), NULL},
	{TOOL_execute_code, CODE("\"files\":{}"), "must be an array of objects, not an object"},
	{TOOL_execute_code, CODE("\"files\":[1]"), "files[0] must be an object, not a number"},
	{TOOL_execute_code, CODE("\"files\":[{\"path\":\"a\",\"content\":\"\"}]"), NULL},
	{TOOL_execute_code,
	 CODE("\"files\":[{\"path\":\"a\",\"content\":\"\",\"mode\":\"0755\",\"encoding\":"
	      "\"base64\"}]"),
	 NULL},
	{TOOL_execute_code, CODE("\"files\":[{\"content\":\"\"}]"), "files[0].path is missing"},
	{TOOL_execute_code, CODE("\"files\":[{\"path\":\"a\"}]"), "files[0].content is missing"},
	{TOOL_execute_code, CODE("\"files\":[{\"path\":\"\",\"content\":\"\"}]"),
	 "files[0].path has 0 bytes"},
	{TOOL_execute_code, CODE("\"files\":[{\"path\":\"a\",\"content\":7}]"),
	 "files[0].content must be a string, not a number"},
	{TOOL_execute_code,
	 CODE("\"files\":[{\"path\":\"a\",\"content\":\"\",\"owner\":\"root\"}]"),
	 "files[0] has an unknown field"},
	{TOOL_execute_code,
	 CODE("\"files\":[{\"path\":\"a\",\"content\":\"\",\"encoding\":\"utf16\"}]"),
	 "files[0].encoding must be one of: utf8, base64"},
	{TOOL_execute_code, CODE("\"files\":[{\"path\":\"a\",\"content\":\"\",\"mode\":\"4755\"}]"),
	 "files[0].mode must be octal"},
	{TOOL_execute_code, CODE("\"artifacts\":[\"a\",1]"), "must be a string, not a number"},
	{TOOL_check_sandbox_health, "{}", NULL},
	{TOOL_check_sandbox_health, "{\"verbose\":true}", "takes no arguments"},
	{TOOL_execute_python_code, "{\"code_string\":\"1\"}", NULL},
	{TOOL_docker_run, "{\"command\":\"id\"}", NULL},
	{TOOL_docker_run, "{\"command\":\"id\",\"image\":\"\"}", "must not be empty"},
	{TOOL_docker_run, "{\"command\":\"id\",\"volumes\":[]}", "Unknown argument \"volumes\""},
};

static void
test_args_check_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *args = cJSON_Parse(rows[i].args);
		struct buf why;

		buf_init(&why, 4096);
		assert_non_null(args);
		assert_int_equal(args_check(rows[i].tool, args, &why),
				 rows[i].why == NULL ? 0 : -EINVAL);
		(void)buf_append(&why, "", 1);
		if (rows[i].why != NULL &&
		    strstr((const char *)buf_data(&why), rows[i].why) == NULL)
			fail_msg("row %zu: %s", i, (const char *)buf_data(&why));
		buf_done(&why);
		cJSON_Delete(args);
	}
}

static void
test_args_check_no_arguments_at_all(void **state)
{
	struct buf why;

	(void)state;
	buf_init(&why, 4096);
	assert_int_equal(args_check(TOOL_check_sandbox_health, NULL, &why), 0);
	assert_int_equal(args_check(TOOL_docker_run, NULL, &why), -EINVAL);
	buf_done(&why);
}

/* A sentence never grows past its buffer, whatever the client named. */
static void
test_args_check_long_names(void **state)
{
	cJSON *args = cJSON_CreateObject();
	char name[3000];
	struct buf why;

	(void)state;
	memset(name, 0x1b, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)cJSON_AddStringToObject(args, name, "");
	buf_init(&why, 4096);
	assert_int_equal(args_check(TOOL_execute_code, args, &why), -EINVAL);
	assert_true(buf_len(&why) > 0);
	buf_done(&why);
	cJSON_Delete(args);
}

/* Every type where another is wanted: the sentence names both. */
static void
test_args_check_types(void **state)
{
	static const char *const values[] = {"\"s\"", "1", "true", "null", "[]", "{}"};
	static const char *const names[] = {"a string", "a number", "a boolean",
					    "null",     "an array", "an object"};
	static const struct {
		const char *argument;
		size_t right; /* index of the one value that has the type */
	} arguments[] = {{"code", 0}, {"stdin", 0},   {"args", 4},
			 {"env", 5},  {"profile", 0}, {"timeout_seconds", 1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(arguments) * ARRAY_LEN(values); i++) {
		const char *argument = arguments[i / ARRAY_LEN(values)].argument;
		size_t v = i % ARRAY_LEN(values);
		char text[200], want[40];
		struct buf why;
		cJSON *args;
		int r;

		(void)snprintf(text, sizeof(text), "{\"%s\":%s,\"language\":\"bash\"%s}", argument,
			       values[v], strcmp(argument, "code") == 0 ? "" : ",\"code\":\"\"");
		args = cJSON_Parse(text);
		buf_init(&why, 4096);
		r = args_check(TOOL_execute_code, args, &why);
		(void)buf_append(&why, "", 1);
		(void)snprintf(want, sizeof(want), ", not %s.", names[v]);
		if (v == arguments[i / ARRAY_LEN(values)].right)
			assert_int_equal(r, 0);
		else
			assert_non_null(strstr((const char *)buf_data(&why), want));
		buf_done(&why);
		cJSON_Delete(args);
	}
}

/* Lists are cut where the table says, and not one entry before. */
static void
test_args_check_counts(void **state)
{
	static const struct {
		const char *name;
		size_t max;
		bool files;
	} lists[] = {{"files", FILES_MAX, true},
		     {"artifacts", ARTIFACTS_MAX, false},
		     {"args", SPEC_ARGS_MAX, false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		for (size_t n = lists[i].max; n <= lists[i].max + 1; n++) {
			cJSON *args = cJSON_Parse("{\"language\":\"bash\",\"code\":\"\"}");
			cJSON *list = cJSON_AddArrayToObject(args, lists[i].name);
			struct buf why;

			for (size_t j = 0; j < n; j++)
				(void)cJSON_AddItemToArray(
					list,
					lists[i].files
						? cJSON_Parse("{\"path\":\"a\",\"content\":\"\"}")
						: cJSON_CreateString("a"));
			buf_init(&why, 4096);
			assert_int_equal(args_check(TOOL_execute_code, args, &why),
					 n > lists[i].max ? -EINVAL : 0);
			buf_done(&why);
			cJSON_Delete(args);
		}
	}
}

static void
test_args_mode_digits(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint32_t mode;
	} modes[] = {{"644", 0, 0644},    {"0755", 0, 0755},    {"777", 0, 0777},
		     {"7", 0, 7},         {"", -EINVAL, 0},     {"0", -EINVAL, 0},
		     {"8", -EINVAL, 0},   {"1000", -EINVAL, 0}, {"00644", -EINVAL, 0},
		     {"rwx", -EINVAL, 0}, {"-1", -EINVAL, 0}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		uint32_t mode = 0;

		assert_int_equal(args_mode(modes[i].text, &mode), modes[i].r);
		assert_int_equal(mode, modes[i].mode);
	}
}

static void
test_args_readers(void **state)
{
	cJSON *args = cJSON_Parse("{\"t\":\"x\",\"n\":7,\"s\":0.25,\"yes\":true,\"no\":false}");

	(void)state;
	assert_string_equal(args_text(args, "t", "y"), "x");
	assert_string_equal(args_text(args, "u", "y"), "y");
	assert_int_equal(args_number(args, "n", 3), 7);
	assert_int_equal(args_number(args, "m", 3), 3);
	assert_int_equal(args_milli(args, "s"), 250);
	assert_int_equal(args_milli(args, "z"), 0);
	assert_true(args_true(args, "yes"));
	assert_false(args_true(args, "no") || args_true(args, "maybe"));
	cJSON_Delete(args);
}

static void
test_args_content_forms(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8);
	assert_int_equal(args_content("YQ==", "base64", &b), 0);
	assert_int_equal(args_content("YQ==", "utf8", &b), 0);
	assert_int_equal(buf_len(&b), 5);
	assert_memory_equal(buf_data(&b), "aYQ==", 5);
	assert_int_equal(args_content("YQ", "base64", &b), -EINVAL);
	assert_int_equal(args_content("12345", "utf8", &b), -ENOSPC);
	buf_done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_args_check_rows),
		cmocka_unit_test(test_args_check_no_arguments_at_all),
		cmocka_unit_test(test_args_check_long_names),
		cmocka_unit_test(test_args_check_types),
		cmocka_unit_test(test_args_check_counts),
		cmocka_unit_test(test_args_mode_digits),
		cmocka_unit_test(test_args_readers),
		cmocka_unit_test(test_args_content_forms),
	};

	return cmocka_run_group_tests_name("frontend_args", tests, NULL, NULL);
}
