/*
 * tests/unit/test_frontend_mcp.c - methods by era and revision, the envelope, cancellation.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

#define ENVELOPE                                                                 \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define REQUEST(method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"

#define LOG_ENVELOPE(level)                                                      \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{},"                     \
	"\"io.modelcontextprotocol/logLevel\":" level "}"

static void
test_mcp_codes(void **state)
{
	static const struct {
		const char *text;
		int code; /* 0: a result */
	} rows[] = {
		{REQUEST("ping", ""), 0},
		{REQUEST("ping", ENVELOPE), RPC_METHOD},
		{REQUEST("initialize", "\"protocolVersion\":\"2025-06-18\""), 0},
		{REQUEST("initialize", ""), RPC_PARAMS},
		{REQUEST("initialize", "\"protocolVersion\":\"2026-07-28\"," ENVELOPE), RPC_METHOD},
		{REQUEST("logging/setLevel", "\"level\":\"emergency\""), 0},
		{REQUEST("logging/setLevel", "\"level\":\"all\""), RPC_PARAMS},
		{REQUEST("server/discover", ENVELOPE), 0},
		{REQUEST("server/discover", ""), RPC_METHOD},
		{REQUEST("tools/list", ""), 0},
		{REQUEST("tools/list", ENVELOPE), 0},
		{REQUEST("tools/list", "\"cursor\":\"\""), RPC_PARAMS},
		{REQUEST("tools/list", "\"cursor\":null"), 0},
		{REQUEST("resources/templates/list", ""), 0},
		{REQUEST("prompts/list", ""), 0},
		{REQUEST("completion/complete", ""), RPC_PARAMS},
		{REQUEST("prompts/get", "\"name\":\"use_sandbox\""), 0},
		{REQUEST("resources/list", "\"cursor\":\"x\""), RPC_PARAMS},
		{REQUEST("resources/read", ""), RPC_PARAMS},
		{REQUEST("resources/read", "\"uri\":\"bailey://x\""), RPC_RESOURCE},
		{REQUEST("resources/read", "\"uri\":\"bailey://x\"," ENVELOPE), RPC_PARAMS},
		{REQUEST("resources/subscribe", ""), RPC_PARAMS},
		{REQUEST("resources/subscribe", "\"uri\":\"bailey://x\""), 0},
		{REQUEST("resources/unsubscribe", "\"uri\":\"bailey://x\""), 0},
		{REQUEST("resources/subscribe", "\"uri\":\"bailey://x\"," ENVELOPE), RPC_METHOD},
		{REQUEST("logging/setLevel", "\"level\":\"info\"," ENVELOPE), RPC_METHOD},
		{REQUEST("tools/list", LOG_ENVELOPE("\"info\"")), 0},
		{REQUEST("tools/list", LOG_ENVELOPE("\"loud\"")), RPC_PARAMS},
		{REQUEST("tools/list", LOG_ENVELOPE("7")), RPC_PARAMS},
		{REQUEST("Ping", ""), RPC_METHOD},
		{REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":1}"),
		 RPC_PARAMS},
		{REQUEST("tools/list",
			 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"x\"}"),
		 RPC_VERSION},
		{REQUEST("tools/list",
			 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"),
		 RPC_PARAMS},
		{REQUEST("tools/list", "\"_meta\":[]"), 0},
		{REQUEST("no/such",
			 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"x\"}"),
		 RPC_METHOD},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int code = fake_code(rows[i].text);

		if (code != rows[i].code)
			fail_msg("row %zu: %d", i, code);
	}
}

static void
test_mcp_negotiation(void **state)
{
	static const struct {
		const char *asked;
		enum mcp_rev given;
	} rows[] = {
		{"2024-11-05", REV_2024_11_05}, {"2025-03-26", REV_2025_03_26},
		{"2025-06-18", REV_2025_06_18}, {"2025-11-25", REV_2025_11_25},
		{"2026-07-28", REV_2025_11_25}, {"2024-10-07", REV_2025_11_25},
		{"", REV_2025_11_25},           {"1.0", REV_2025_11_25},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[300];
		cJSON *answer;

		(void)snprintf(text, sizeof(text),
			       REQUEST("initialize", "\"protocolVersion\":\"%s\""), rows[i].asked);
		fake_say(text);
		assert_int_equal(fe.negotiated, rows[i].given);
		answer = fake_answer();
		assert_string_equal(cJSON_GetObjectItemCaseSensitive(
					    cJSON_GetObjectItemCaseSensitive(answer, "result"),
					    "protocolVersion")
					    ->valuestring,
				    mcp_rev_name(rows[i].given));
		cJSON_Delete(answer);
	}
}

static void
test_mcp_silence(void **state)
{
	static const char *const texts[] = {
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
		"cancelled\",\"params\":{\"requestId\":1}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
		"cancelled\",\"params\":{\"requestId\":[]}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		fake_say(texts[i]);
		assert_string_equal(fake_sent(), "");
	}
}

static void
test_mcp_refused_text_gets_its_id(void **state)
{
	static const struct {
		const char *text, *answer;
	} rows[] = {
		{"{\"id\":\"a\",\"x\":\"\\u0000\"}", "\"id\":\"a\",\"error\":{\"code\":-32602"},
		{"{\"id\":12,\"x\":1,\"x\":1}", "\"id\":12,\"error\":{\"code\":-32602"},
		{"{\"id\":1.5,\"x\":1,\"x\":1}", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700"},
		{"{\"x\":1,\"x\":1}", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700"},
		{"{\"id\":3,\"x\":", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700"},
		{"{\"id\":\""
		 "\\u0061"
		 "\",\"x\":1,\"x\":1}",
		 "\"id\":\"a\""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fake_say(rows[i].text);
		assert_non_null(strstr(fake_sent(), rows[i].answer));
	}
	mcp_on_oversize(&fe);
	assert_non_null(strstr(fake_sent(), "-32700"));
}

static void
test_mcp_batch_rules(void **state)
{
	static const struct {
		enum mcp_rev negotiated;
		const char *text;
		bool collected;
	} rows[] = {
		{REV_NONE, "[" REQUEST("ping", "") "]", false},
		{REV_2024_11_05, "[" REQUEST("ping", "") "]", true},
		{REV_2025_03_26, "[" REQUEST("ping", "") "]", true},
		{REV_2025_03_26, "[1]", true},
		{REV_2025_03_26, "[]", false},
		{REV_2025_06_18, "[" REQUEST("ping", "") "]", false},
		{REV_2025_11_25, "[]", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *sent;

		fe.negotiated = rows[i].negotiated;
		fake_say(rows[i].text);
		sent = fake_sent();
		assert_int_equal(sent[0], rows[i].collected ? '[' : '{');
		if (!rows[i].collected)
			assert_non_null(strstr(sent, "-32600"));
	}
	fe.negotiated = REV_2025_03_26;
	fake_say("[" REQUEST("tools/list", ENVELOPE) "]");
	assert_non_null(strstr(fake_sent(), "-32600"));
}

static void
test_mcp_cancel_is_silent(void **state)
{
	struct ipc_row row;

	(void)state;
	fake_say(
		REQUEST("tools/call", "\"name\":\"docker_run\",\"arguments\":{\"command\":\":\"}"));
	assert_int_equal(fake_code(REQUEST("tools/call", "\"name\":\"check_sandbox_health\"")),
			 RPC_REQUEST); /* its id is in flight */
	fake_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		 "\"params\":{\"requestId\":\"1\"}}");
	assert_int_equal(fe.call_list->state, CALL_SUBMITTED); /* another id */
	fake_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		 "\"params\":{\"requestId\":1}}");
	assert_int_equal(fe.call_list->state, CALL_CANCELLED);
	assert_true(fake_broker_row(&row)); /* hint */
	assert_true(fake_broker_row(&row));
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_call_cancel);
	fake_broker_tell(
		IPC_ROW(call_ended, .call = row.u.call_cancel.call, .status = RUN_cancelled));
	assert_null(fe.call_list);
	assert_string_equal(fake_sent(), "");
}

static void
test_mcp_initialize_touches_nothing(void **state)
{
	struct ipc_row row;

	(void)state;
	assert_int_equal(fake_code(REQUEST("initialize", "\"protocolVersion\":\"2025-11-25\"")), 0);
	assert_int_equal(fake_code(REQUEST("server/discover", ENVELOPE)), 0);
	assert_int_equal(fake_code(REQUEST("prompts/list", "")), 0);
	assert_false(fake_broker_row(&row));
	assert_int_equal(fake_code(REQUEST("tools/list", "")), 0);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_warm_hint);
}

static void
test_mcp_progress_form(void **state)
{
	struct rpc_id token = {.kind = RPC_ID_STRING, .text = "t"};
	struct reply_to to = {.rev = REV_2024_11_05};

	(void)state;
	mcp_send_progress(&fe, &to, &token, 3, "m");
	assert_string_equal(fake_sent(),
			    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
			    "\"params\":{\"progressToken\":\"t\",\"progress\":3}}\n");
	to.rev = REV_2025_03_26;
	mcp_send_progress(&fe, &to, &token, 4, "m");
	assert_non_null(strstr(fake_sent(), "\"progress\":4,\"message\":\"m\""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_mcp_codes),
		FAKE(test_mcp_negotiation),
		FAKE(test_mcp_silence),
		FAKE(test_mcp_refused_text_gets_its_id),
		FAKE(test_mcp_batch_rules),
		FAKE(test_mcp_cancel_is_silent),
		FAKE(test_mcp_initialize_touches_nothing),
		FAKE(test_mcp_progress_form),
	};

	return cmocka_run_group_tests_name("frontend_mcp", tests, NULL, NULL);
}
