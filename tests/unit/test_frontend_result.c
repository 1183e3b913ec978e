/*
 * tests/unit/test_frontend_result.c - results against results.def, figure by figure.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static struct ipc_bin
exit_payload(const struct guest_g_exit *exit_figures)
{
	static uint8_t payload[104];

	guest_put_g_exit(exit_figures, payload);
	return (struct ipc_bin){payload, sizeof(payload)};
}

static const cJSON *
field(const cJSON *json, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);

	assert_non_null(item);
	return item;
}

static void
test_result_add_milli_forms(void **state)
{
	static const struct {
		uint64_t thousandths;
		const char *text;
	} rows[] = {{0, "0"},          {1, "0.001"},
		    {10, "0.01"},      {100, "0.1"},
		    {1000, "1"},       {10000, "10"},
		    {1500, "1.5"},     {3072, "3.072"},
		    {100100, "100.1"}, {UINT64_MAX, "18446744073709551.615"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *object = cJSON_CreateObject();
		char want[64], *text;

		result_add_milli(object, "x", rows[i].thousandths);
		text = cJSON_PrintUnformatted(object);
		(void)snprintf(want, sizeof(want), "{\"x\":%s}", rows[i].text);
		assert_string_equal(text, want);
		free(text);
		cJSON_Delete(object);
	}
}

static void
test_result_run_matches_its_table(void **state)
{
	cJSON *schema = schema_shape(SHAPE_RUN);

	(void)state;
	for (uint32_t status = 0; status <= RUN_STATUS_COUNT; status++) {
		struct ipc_call_ended ended = {.status = status};
		cJSON *result = result_run(NULL, &ended);

		fake_matches(result, schema);
		assert_string_equal(field(result, "status")->valuestring,
				    status < RUN_STATUS_COUNT
					    ? run_status_name((enum run_status)status)
					    : "internal");
		cJSON_Delete(result);
	}
	cJSON_Delete(schema);
}

static void
test_result_run_of_a_whole_call(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER}, .rev = REV_2025_11_25};
	struct call *c = call_new(&fe, &to, &run_plan);
	struct guest_g_exit figures = {.how = EXIT_EXITED,
				       .start = START_LIVE,
				       .cpu_us = 1234,
				       .max_rss_bytes = 4096,
				       .stdout_bytes = 40000};
	struct ipc_call_ended ended = {.status = RUN_nonzero,
				       .exit_code = 7,
				       .have = FIG_CPU,
				       .cpu_us = 5,
				       .peak_bytes = 9,
				       .duration_us = 3000,
				       .guest = exit_payload(&figures)};
	cJSON *schema = schema_shape(SHAPE_RUN), *result;
	static uint8_t out[40000];

	(void)state;
	memset(out, 'o', sizeof(out));
	output_add(&c->out[0], out, sizeof(out), false);
	output_add(&c->out[1], (const uint8_t *)"e\x1b", 2, false);
	c->grant = (struct call_grant){.start = START_WARM, .run_id = "r", .cpus_milli = 250};
	result = result_run(c, &ended);
	fake_matches(result, schema);
	fake_matches(field(result, "limits"), field(field(schema, "properties"), "limits"));
	fake_matches(field(result, "guest"), field(field(schema, "properties"), "guest"));
	assert_string_equal(field(result, "exit_code")->valuestring, "7");
	assert_string_equal(field(result, "start")->valuestring, "live"); /* the guest knows */
	assert_true(cJSON_IsNull(field(result, "peak_memory_bytes")));    /* not measured */
	assert_string_equal(field(result, "cpu_ms")->valuestring, "0.005");
	assert_string_equal(field(result, "duration_ms")->valuestring, "3");
	assert_int_equal(strlen(field(result, "stdout_tail")->valuestring), OUTPUT_TAIL);
	assert_string_equal(field(result, "stderr")->valuestring, "e\\u{1B}");
	cJSON_Delete(result);
	cJSON_Delete(schema);
}

static void
test_result_exit_code_only_when_exited(void **state)
{
	static const struct {
		enum exit_how how;
		uint32_t signal;
		enum run_status status;
		bool code;
		const char *name;
	} rows[] = {
		{EXIT_EXITED, 0, RUN_ok, true, NULL},
		{EXIT_SIGNALED, 9, RUN_signaled, false, "SIGKILL"},
		{EXIT_SIGNALED, 64, RUN_signaled, false, NULL},
		{EXIT_SIGNALED, 4000, RUN_signaled, false, NULL},
		{EXIT_NOT_STARTED, 0, RUN_internal, false, NULL},
		{EXIT_EXITED, 0, RUN_timed_out, false, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct guest_g_exit figures = {.how = rows[i].how};
		struct ipc_call_ended ended = {.status = rows[i].status,
					       .signal = rows[i].signal,
					       .guest = exit_payload(&figures)};
		cJSON *result = result_run(NULL, &ended);
		const cJSON *name = field(result, "signal_name");

		assert_int_equal(!cJSON_IsNull(field(result, "exit_code")), rows[i].code);
		assert_int_equal(!cJSON_IsNull(field(result, "signal")), rows[i].signal != 0);
		if (rows[i].name == NULL)
			assert_true(cJSON_IsNull(name));
		else
			assert_string_equal(name->valuestring, rows[i].name);
		cJSON_Delete(result);
	}
}

static void
test_result_send_by_revision(void **state)
{
	(void)state;
	for (int rev = REV_2024_11_05; rev < REV_COUNT; rev++) {
		struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1},
				      .rev = (enum mcp_rev)rev};
		struct ipc_call_ended ended = {.status = RUN_ok};
		cJSON *answer;
		const cJSON *result, *structured;

		result_send_run(&fe, &to, NULL, &ended);
		answer = fake_answer();
		result = field(answer, "result");
		structured = cJSON_GetObjectItemCaseSensitive(result, "structuredContent");
		assert_int_equal(structured != NULL, rev >= REV_2025_06_18);
		assert_int_equal(cJSON_GetObjectItemCaseSensitive(result, "resultType") != NULL,
				 rev == REV_2026_07_28);
		assert_true(cJSON_IsFalse(field(result, "isError")));
		cJSON_Delete(answer);
	}
}

static void
test_result_text_repeats_the_structure(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct ipc_call_ended ended = {.status = RUN_lost};
	cJSON *answer, *again;
	const cJSON *result;

	(void)state;
	result_send_run(&fe, &to, NULL, &ended);
	answer = fake_answer();
	result = field(answer, "result");
	again = cJSON_Parse(
		field(cJSON_GetArrayItem(field(result, "content"), 0), "text")->valuestring);
	assert_true(cJSON_Compare(again, field(result, "structuredContent"), true));
	assert_true(cJSON_IsTrue(field(result, "isError")));
	assert_string_not_equal(field(again, "message")->valuestring, "");
	cJSON_Delete(again);
	cJSON_Delete(answer);
}

static void
test_result_message_is_made_visible(void **state)
{
	struct ipc_call_ended ended = {.status = RUN_denied, .message = {"a\x1b\xff", 3}};
	cJSON *result = result_run(NULL, &ended);

	(void)state;
	assert_string_equal(field(result, "message")->valuestring, "a\\u{1B}\xef\xbf\xbd");
	cJSON_Delete(result);
}

/* Two mebibytes are within every limit, and six times as many bytes where all are quotes. */
static void
test_result_longer_than_clients_take(void **state)
{
	struct reply_to to = {.rev = REV_2025_11_25};
	size_t n = (size_t)2 << 20;
	char *quotes = malloc(n + 1);
	cJSON *object = cJSON_CreateObject(), *answer;

	(void)state;
	assert_non_null(quotes);
	memset(quotes, '"', n);
	quotes[n] = '\0';
	(void)cJSON_AddStringToObject(object, "data", quotes);
	result_send(&fe, &to, object, cJSON_CreateArray(), false);
	answer = fake_answer();
	assert_true(cJSON_IsTrue(field(field(answer, "result"), "isError")));
	assert_null(cJSON_GetObjectItem(field(answer, "result"), "structuredContent"));
	cJSON_Delete(answer);
	free(quotes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_add_milli_forms),
		cmocka_unit_test(test_result_run_matches_its_table),
		FAKE(test_result_run_of_a_whole_call),
		cmocka_unit_test(test_result_exit_code_only_when_exited),
		FAKE(test_result_send_by_revision),
		FAKE(test_result_text_repeats_the_structure),
		cmocka_unit_test(test_result_message_is_made_visible),
		FAKE(test_result_longer_than_clients_take),
	};

	return cmocka_run_group_tests_name("frontend_result", tests, NULL, NULL);
}
