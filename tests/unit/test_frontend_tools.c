/*
 * tests/unit/test_frontend_tools.c - tools/call: what is refused, what is submitted.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

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
		cmocka_unit_test(test_tools_call_units),
		cmocka_unit_test(test_tools_call_carries_all_parts),
		cmocka_unit_test(test_tools_call_busy),
		cmocka_unit_test(test_tools_call_protocol_errors),
		cmocka_unit_test(test_tools_call_health),
	};

	return cmocka_run_group_tests_name("frontend_tools", tests, NULL, NULL);
}
