/*
 * tests/unit/test_frontend_logs.c - kept output by offset, its gap, its encodings, a run's ending.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static uint64_t
asked(const char *args, struct ipc_row *row)
{
	call_tool("inspect_logs", args);
	assert_true(next_row(row));
	assert_int_equal(row->num, IPC_NUM_log_read);
	return row->u.log_read.call;
}

static void
test_logs_question(void **state)
{
	static const struct {
		const char *args;
		uint32_t stream, from_end, limit;
		uint64_t offset;
	} rows[] = {
		{"{\"run_id\":\"" RUN_ID "\"}", STREAM_STDOUT, 0, 32768, 0},
		{"{\"sandbox_id\":\"" RUN_ID "\",\"stream\":\"stderr\",\"offset\":7,\"limit\":9}",
		 STREAM_STDERR, 0, 9, 7},
		{"{\"run_id\":\"" RUN_ID "\",\"offset\":-100}", STREAM_STDOUT, 1, 32768, 100},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_row row;

		(void)asked(rows[i].args, &row);
		assert_memory_equal(row.u.log_read.id.data, RUN_ID, 32);
		assert_int_equal(row.u.log_read.stream, rows[i].stream);
		assert_int_equal(row.u.log_read.from_end, rows[i].from_end);
		assert_int_equal(row.u.log_read.offset, rows[i].offset);
		assert_int_equal(row.u.log_read.limit, rows[i].limit);
	}
}

static void
test_logs_of_a_run_that_ended(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call = asked("{\"run_id\":\"" RUN_ID "\",\"offset\":5}", &row);
	tell_kept(call, 5, "hello ", 6);
	tell_kept(call, 11, "world", 5);
	fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_timed_out,
				 .run_id = IPC_STR(RUN_ID), .sandbox = IPC_STR(BOX_ID),
				 .cause = CAUSE_DEADLINE, .started_ms = 3000, .ended_ms = 1500,
				 .written = 16, .head = 16, .tail = 16,
				 .message = IPC_STR("it was late")));
	/* how the run ended is no failure of this call */
	answer = tool_result(SHAPE_LOG, &r, false);
	assert_string_equal(text_of(r, "status"), "timed_out");
	assert_string_equal(text_of(r, "message"), "it was late");
	assert_string_equal(text_of(r, "data"), "hello world");
	assert_int_equal(field(r, "offset")->valueint, 5);
	assert_int_equal(field(r, "next_offset")->valueint, 16);
	assert_int_equal(field(r, "omitted_bytes")->valueint, 0);
	assert_string_equal(text_of(r, "sandbox_id"), BOX_ID);
	assert_string_equal(text_of(r, "end"), "time limit");
	assert_true(cJSON_IsNull(field(r, "exit_code")));
	assert_true(field(r, "ended_seconds_ago")->valuedouble == 1.5);
	cJSON_Delete(answer);
}

static void
test_logs_of_a_run_that_goes_on(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call = asked("{\"run_id\":\"" RUN_ID "\"}", &row);
	tell_kept(call, 0, "ab\xe4\xb8", 4); /* half of a code point: the rest is on its way */
	fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_running,
				 .run_id = IPC_STR(RUN_ID), .written = 4, .head = 4, .tail = 4));
	answer = tool_result(SHAPE_LOG, &r, false);
	assert_string_equal(text_of(r, "data"), "ab");
	assert_int_equal(field(r, "next_offset")->valueint, 2);
	assert_true(cJSON_IsNull(field(r, "end")));
	assert_true(cJSON_IsNull(field(r, "sandbox_id")));
	assert_true(cJSON_IsNull(field(r, "ended_seconds_ago")));
	cJSON_Delete(answer);
}

/* One answer is one piece: what lies behind the part that was not kept comes with the next call. */
static void
test_logs_gap(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call = asked("{\"run_id\":\"" RUN_ID "\",\"offset\":90}", &row);
	tell_kept(call, 90, "0123456789", 10);
	tell_kept(call, 500, "tail", 4);
	tell_kept(call, 504, "end", 3);
	fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_ok, .run_id = IPC_STR(RUN_ID),
				 .written = 507, .head = 100, .tail = 500));
	answer = tool_result(SHAPE_LOG, &r, false);
	assert_string_equal(text_of(r, "data"), "0123456789");
	assert_int_equal(field(r, "next_offset")->valueint, 500);
	assert_int_equal(field(r, "omitted_bytes")->valueint, 400);
	assert_int_equal(field(r, "exit_code")->valueint, 0);
	cJSON_Delete(answer);
}

/* The broker died in the middle of an answer: the next one begins it anew. */
static void
test_logs_asked_again(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call = asked("{\"run_id\":\"" RUN_ID "\"}", &row);
	tell_kept(call, 0, "hello", 5);
	call_event(fe.call_list, EV_LINK_DOWN, NULL);
	call_event(fe.call_list, EV_LINK_UP, NULL);
	assert_true(next_row(&row));
	call = row.u.log_read.call;
	tell_kept(call, 0, "hello ", 6);
	tell_kept(call, 6, "world", 5);
	fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_ok, .run_id = IPC_STR(RUN_ID),
				 .written = 11, .head = 11, .tail = 11));
	answer = tool_result(SHAPE_LOG, &r, false);
	assert_string_equal(text_of(r, "data"), "hello world");
	assert_int_equal(field(r, "next_offset")->valueint, 11);
	cJSON_Delete(answer);
}

static void
test_logs_encodings(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *encoding, *data;
		int next;
	} rows[] = {
		{"a\x1b[m", 4, "escaped", "a\\u{1B}[m", 4},
		{"\xff\xfe", 2, "base64", "//4=", 2},
		{"\xe4\xb8", 2, "base64", "5Lg=", 2}, /* something always comes */
		{"", 0, "utf-8", "", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_row row;
		const cJSON *r;
		cJSON *answer;
		uint64_t call = asked("{\"run_id\":\"" RUN_ID "\"}", &row);

		if (rows[i].n > 0)
			tell_kept(call, 0, rows[i].bytes, rows[i].n);
		fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_ok,
					 .run_id = IPC_STR(RUN_ID)));
		answer = tool_result(SHAPE_LOG, &r, false);
		assert_string_equal(text_of(r, "data_encoding"), rows[i].encoding);
		assert_string_equal(text_of(r, "data"), rows[i].data);
		assert_int_equal(field(r, "next_offset")->valueint, rows[i].next);
		cJSON_Delete(answer);
	}
}

static void
test_logs_nothing_known(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	char *told, *again;
	uint64_t call;

	(void)state;
	call = asked("{\"run_id\":\"" RUN_ID "\"}", &row);
	fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_not_found));
	answer = tool_result(SHAPE_LOG, &r, true);
	assert_string_equal(text_of(r, "status"), "not_found");
	told = cJSON_PrintUnformatted(r);
	cJSON_Delete(answer);
	call_tool("inspect_logs", "{\"run_id\":\"../x\"}"); /* word for word the same */
	answer = tool_result(SHAPE_LOG, &r, true);
	again = cJSON_PrintUnformatted(r);
	assert_string_equal(again, told);
	free(again);
	free(told);
	cJSON_Delete(answer);
}

static void
test_logs_one_of_two(void **state)
{
	(void)state;
	call_tool("inspect_logs", "{}");
	assert_non_null(strstr(fake_sent(), "either run_id or sandbox_id"));
	call_tool("inspect_logs", "{\"run_id\":\"" RUN_ID "\",\"sandbox_id\":\"" BOX_ID "\"}");
	assert_non_null(strstr(fake_sent(), "either run_id or sandbox_id"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_logs_question),    FAKE(test_logs_of_a_run_that_ended),
		FAKE(test_logs_gap),         FAKE(test_logs_of_a_run_that_goes_on),
		FAKE(test_logs_asked_again), FAKE(test_logs_of_a_run_that_goes_on),
		FAKE(test_logs_encodings),   FAKE(test_logs_nothing_known),
		FAKE(test_logs_one_of_two),
	};

	return cmocka_run_group_tests_name("frontend_logs", tests, NULL, NULL);
}
