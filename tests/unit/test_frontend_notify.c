/*
 * tests/unit/test_frontend_notify.c - who gets notifications/message, and from which level on.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static void
test_notify_level_words(void **state)
{
	static const char *const words[] = {"debug", "info",     "notice", "warning",
					    "error", "critical", "alert",  "emergency"};
	uint8_t level = 0;
	cJSON *item;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		item = cJSON_CreateString(words[i]);
		assert_int_equal(notify_level(item, &level), 0);
		assert_int_equal(level, LOG_DEBUG + i);
		cJSON_Delete(item);
	}
	item = cJSON_CreateString("");
	assert_int_equal(notify_level(item, &level), -EINVAL);
	cJSON_Delete(item);
	item = cJSON_CreateNumber(1);
	assert_int_equal(notify_level(item, &level), -EINVAL);
	cJSON_Delete(item);
	assert_int_equal(notify_level(NULL, &level), -EINVAL);
}

static void
test_notify_only_who_asked(void **state)
{
	static const struct {
		enum mcp_rev rev;
		uint8_t connection, request;
		enum log_word level;
		bool sent;
	} rows[] = {
		{REV_2025_11_25, LOG_NONE, LOG_NONE, LOG_EMERGENCY, false},
		{REV_2025_11_25, LOG_INFO, LOG_NONE, LOG_INFO, true},
		{REV_2025_11_25, LOG_INFO, LOG_NONE, LOG_DEBUG, false},
		{REV_2025_11_25, LOG_INFO, LOG_NONE, LOG_ERROR, true},
		/* a modern request stands alone */
		{REV_2026_07_28, LOG_DEBUG, LOG_NONE, LOG_ERROR, false},
		{REV_2026_07_28, LOG_NONE, LOG_WARNING, LOG_WARNING, true},
		{REV_2026_07_28, LOG_NONE, LOG_WARNING, LOG_INFO, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reply_to to = {.rev = rows[i].rev, .log_level = rows[i].request};
		struct call *c = call_new(&fe, &to, &run_plan);
		const char *sent;

		fe.log_level = rows[i].connection;
		notify_call(c, rows[i].level, "n is %d", 7);
		sent = fake_sent();
		assert_int_equal(strstr(sent, "\"method\":\"notifications/message\"") != NULL &&
					 strstr(sent, "\"data\":\"n is 7\"") != NULL,
				 rows[i].sent);
		assert_int_equal(*sent != '\0', rows[i].sent);
		call_free(c);
	}
}

/* What a run goes through is told; nothing any more once it was cancelled. */
static void
test_notify_of_a_run(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = 1};
	struct ipc_row row;
	const char *sent;
	uint64_t call;

	(void)state;
	fe.log_level = LOG_INFO;
	call_tool("docker_run", "{\"command\":\"secret\"}");
	call = submitted(&row);
	grant(call, "");
	assert_non_null(strstr(fake_sent(), "\"level\":\"info\",\"logger\":\"bailey\",\"data\":"
					    "\"run " RUN_ID " starts after 3 ms\""));
	output(call, STREAM_STDOUT, "secret", 6);
	ended(call, RUN_timed_out, NULL);
	sent = fake_sent();
	assert_non_null(strstr(sent, "\"level\":\"warning\""));
	assert_non_null(strstr(sent, "ended: timed_out"));
	call_tool("docker_run", "{\"command\":\"x\"}");
	call = submitted(&row);
	call_event(call_find_id(&fe, &id), EV_CANCEL, NULL);
	grant(call, "");
	ended(call, RUN_cancelled, NULL);
	assert_string_equal(fake_sent(), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notify_level_words),
		FAKE(test_notify_only_who_asked),
		FAKE(test_notify_of_a_run),
	};

	return cmocka_run_group_tests_name("frontend_notify", tests, NULL, NULL);
}
