/*
 * tests/unit/test_frontend_tools.c - argument checks, sentence by sentence, and what is submitted.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

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
	{TOOL_check_sandbox_health, "{}", NULL},
	{TOOL_check_sandbox_health, "{\"verbose\":true}", "takes no arguments"},
	{TOOL_execute_python_code, "{\"code_string\":\"1\"}", NULL},
	{TOOL_docker_run, "{\"command\":\"id\"}", NULL},
	{TOOL_docker_run, "{\"command\":\"id\",\"image\":\"\"}", "must not be empty"},
	{TOOL_docker_run, "{\"command\":\"id\",\"volumes\":[]}", "Unknown argument \"volumes\""},
};

static void
test_tools_check_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *args = cJSON_Parse(rows[i].args);
		struct buf why;

		buf_init(&why, 4096);
		assert_non_null(args);
		assert_int_equal(tools_check(rows[i].tool, args, &why),
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
test_tools_check_no_arguments_at_all(void **state)
{
	struct buf why;

	(void)state;
	buf_init(&why, 4096);
	assert_int_equal(tools_check(TOOL_check_sandbox_health, NULL, &why), 0);
	assert_int_equal(tools_check(TOOL_docker_run, NULL, &why), -EINVAL);
	buf_done(&why);
}

/* A sentence never grows past its buffer, whatever the client named. */
static void
test_tools_check_long_names(void **state)
{
	cJSON *args = cJSON_CreateObject();
	char name[3000];
	struct buf why;

	(void)state;
	memset(name, 0x1b, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)cJSON_AddStringToObject(args, name, "");
	buf_init(&why, 4096);
	assert_int_equal(tools_check(TOOL_execute_code, args, &why), -EINVAL);
	assert_true(buf_len(&why) > 0);
	buf_done(&why);
	cJSON_Delete(args);
}

static bool
submit(const char *params, struct ipc_row *ret)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	cJSON *json = cJSON_Parse(params);

	assert_non_null(json);
	tools_call(&fe, &to, json);
	cJSON_Delete(json);
	while (fake_broker_row(ret)) {
		if (ret->num != IPC_NUM_warm_hint)
			return true;
	}
	return false;
}

static void
test_tools_call_units(void **state)
{
	static const struct {
		const char *value;
		uint32_t ms;
	} seconds[] = {{"0.1", 100},     {"1", 1000},          {"0.3", 300},  {"1.0005", 1001},
		       {"2.9999", 3000}, {"299.9999", 300000}, {"0.123", 123}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		struct ipc_row row;
		char params[300];

		fake_open(true);
		(void)snprintf(
			params, sizeof(params),
			"{\"name\":\"execute_code\",\"arguments\":{\"language\":\"python\","
			"\"code\":\"\",\"timeout_seconds\":%s,\"memory_mb\":100,\"cpus\":0.25}}",
			seconds[i].value);
		assert_true(submit(params, &row));
		assert_int_equal(row.u.call_submit.timeout_ms, seconds[i].ms);
		assert_int_equal(row.u.call_submit.memory_bytes, 100u << 20);
		assert_int_equal(row.u.call_submit.cpus_milli, 250);
		assert_int_equal(row.u.call_submit.box_class, BOX_PYTHON);
		fake_close();
	}
}

/* Every type where another is wanted: the sentence names both. */
static void
test_tools_check_types(void **state)
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
		r = tools_check(TOOL_execute_code, args, &why);
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

static void
test_tools_call_carries_all_parts(void **state)
{
	struct guest_spec spec;
	struct ipc_row row;

	(void)state;
	fake_open(true);
	assert_true(submit("{\"name\":\"execute_code\",\"arguments\":{\"language\":\"node\","
			   "\"code\":\"c\",\"stdin\":\"in\",\"args\":[\"a\",\"\"],"
			   "\"env\":{\"NODE_X\":\"1\",\"B\":\"\"},\"profile\":\"p\"}}",
			   &row));
	assert_int_equal(row.u.call_submit.flags, CALL_LIVE);
	assert_int_equal(
		spec_decode(buf_data(&fe.call_list->spec), buf_len(&fe.call_list->spec), &spec), 0);
	assert_int_equal(spec.flags, SPEC_STDIN | SPEC_LIVE);
	assert_int_equal(spec.n_args, 2);
	assert_int_equal(spec.n_env, 2);
	assert_memory_equal(spec.env[0].data, "NODE_X=1", 8);
	assert_memory_equal(buf_data(&fe.call_list->input), "in", 2);
	assert_int_equal(fe.held_bytes, buf_len(&fe.call_list->spec) + 2);
	spec_done(&spec);
	fake_close();
}

static void
test_tools_call_busy(void **state)
{
	static const char *const params[] = {
		"{\"name\":\"docker_run\",\"arguments\":{\"command\":\"id\"}}",
		"{\"name\":\"check_sandbox_health\"}",
	};
	static const char *const words[] = {"\"status\":\"busy\"", "Too many calls"};
	struct ipc_row row;

	(void)state;
	fake_open(true);
	fe.held_bytes = CALLS_BYTES_MAX;
	assert_false(submit(params[0], &row));
	assert_non_null(strstr(fake_sent(), words[0]));
	fe.held_bytes = 0;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		assert_true(submit(params[0], &row));
	for (size_t i = 0; i < ARRAY_LEN(params); i++) {
		assert_false(submit(params[i], &row));
		assert_non_null(strstr(fake_sent(), words[i]));
	}
	fake_close();
}

static void
test_tools_call_protocol_errors(void **state)
{
	static const char *const params[] = {
		"{}",
		"{\"name\":null}",
		"{\"name\":\"execute_cod\"}",
		"{\"name\":\"EXECUTE_CODE\"}",
		"{\"name\":\"execute_code\",\"arguments\":[]}",
		"{\"name\":\"execute_code\",\"arguments\":\"\"}",
		"{\"name\":\"check_sandbox_health\",\"_meta\":{\"progressToken\":true}}",
		"{\"name\":\"check_sandbox_health\",\"_meta\":{\"progressToken\":1.5}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(params); i++) {
		struct ipc_row row;

		fake_open(true);
		assert_false(submit(params[i], &row));
		assert_non_null(strstr(fake_sent(), "\"code\":-32602"));
		fake_close();
	}
}

static void
test_tools_call_health(void **state)
{
	struct ipc_row row;

	(void)state;
	fake_open(true);
	assert_true(submit("{\"name\":\"check_sandbox_health\"}", &row));
	assert_int_equal(row.num, IPC_NUM_health_query);
	fake_close();
	fake_open(true);
	assert_true(submit("{\"name\":\"check_sandbox_health\",\"arguments\":null}", &row));
	fake_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tools_check_rows),
		cmocka_unit_test(test_tools_check_no_arguments_at_all),
		cmocka_unit_test(test_tools_check_long_names),
		cmocka_unit_test(test_tools_check_types),
		cmocka_unit_test(test_tools_call_units),
		cmocka_unit_test(test_tools_call_carries_all_parts),
		cmocka_unit_test(test_tools_call_busy),
		cmocka_unit_test(test_tools_call_protocol_errors),
		cmocka_unit_test(test_tools_call_health),
	};

	return cmocka_run_group_tests_name("frontend_tools", tests, NULL, NULL);
}
