/*
 * tests/unit/test_frontend_execute.c - a run with files: its steps, what each failure undoes.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

#define FILES                                                                                 \
	"\"files\":[{\"path\":\"a\",\"content\":\"YQ==\",\"encoding\":\"base64\"},{\"path\":" \
	"\"b\",\"content\":\"\"}]"
#define CODE(more) \
	"{\"language\":\"python\",\"code\":\"c\",\"stdin\":\"in\",\"timeout_seconds\":2," more "}"

static void
gone(bool destroyed)
{
	struct ipc_row row;

	assert_null(fe.call_list);
	assert_int_equal(fe.held_bytes, 0);
	assert_int_equal(next_row(&row), destroyed);
	if (!destroyed)
		return;
	assert_int_equal(row.num, IPC_NUM_sandbox_destroy);
	assert_memory_equal(row.u.sandbox_destroy.sandbox.data, BOX_ID, SANDBOX_ID_LEN);
	assert_false(next_row(&row));
}

/* From the call to a sandbox that is held; the number of the create. */
static uint64_t
create(void)
{
	struct ipc_row row;
	uint64_t call = submitted(&row);

	assert_int_equal(row.u.call_submit.flags, CALL_STAYS | CALL_HOLD);
	assert_int_equal(row.u.call_submit.box_class, BOX_PYTHON);
	assert_int_equal(row.u.call_submit.timeout_ms, 0);
	assert_int_equal(row.u.call_submit.spec.len, 0);
	assert_int_equal(row.u.call_submit.sandbox.len, 0);
	grant(call, BOX_ID);
	ended(call, RUN_ok, NULL);
	return call;
}

static void
check_write(const char *path, const char *bytes, uint32_t mode)
{
	struct guest_spec spec;

	waiting_spec(&spec);
	assert_int_equal(spec.kind, RUN_FILE_WRITE);
	assert_int_equal(spec.flags, SPEC_TRUNCATE | (*bytes == '\0' ? 0 : SPEC_STDIN));
	assert_int_equal(spec.mode, mode);
	assert_int_equal(spec.code.len, strlen(path));
	assert_memory_equal(spec.code.data, path, spec.code.len);
	assert_int_equal(buf_len(&fe.call_list->input), strlen(bytes));
	spec_done(&spec);
}

static void
test_execute_all_steps(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED, .exit_code = 3, .stdout_bytes = 1};
	struct guest_spec spec;
	const cJSON *r, *artifacts;
	struct ipc_row row;
	uint64_t call;
	cJSON *answer;

	(void)state;
	call_tool("execute_code", CODE(FILES ",\"artifacts\":[\"out.txt\"]"));
	(void)create();
	check_write("/workspace/a", "a", 0644);
	file_run("", 0, 0, 1);
	check_write("/workspace/b", "", 0644);
	file_run("", 0, 0, 0);
	call = submitted(&row);
	assert_int_equal(row.u.call_submit.flags, 0);
	assert_int_equal(row.u.call_submit.timeout_ms, 2000);
	assert_memory_equal(row.u.call_submit.sandbox.data, BOX_ID, SANDBOX_ID_LEN);
	assert_int_equal(
		spec_decode(row.u.call_submit.spec.data, row.u.call_submit.spec.len, &spec), 0);
	assert_int_equal(spec.kind, RUN_PYTHON);
	assert_int_equal(spec.timeout_ms, 2000);
	assert_int_equal(spec.flags, SPEC_STDIN); /* the waiting interpreter is used */
	spec_done(&spec);
	grant(call, "");
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_frame.type, GUEST_h_stdin);
	output(call, STREAM_STDOUT, "o", 1);
	ended(call, RUN_nonzero, &figures);
	file_run("result", 6, 0, 6);
	answer = tool_result(SHAPE_RUN, &r, false);
	assert_string_equal(text_of(r, "status"), "nonzero");
	assert_string_equal(text_of(r, "stdout"), "o");
	assert_int_equal(field(r, "exit_code")->valueint, 3);
	assert_int_equal(field(r, "queue_ms")->valueint, 6); /* both waits */
	artifacts = field(r, "artifacts");
	assert_string_equal(text_of(cJSON_GetArrayItem(artifacts, 0), "content"), "result");
	cJSON_Delete(answer);
	gone(true);
}

/* A cold box is a cold start, and has no interpreter that waits as the limits want it. */
static void
test_execute_cold(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED, .start = START_LIVE};
	struct guest_spec spec;
	struct ipc_row row;
	const cJSON *r;
	uint64_t call;
	cJSON *answer;

	(void)state;
	call_tool("execute_code", CODE("\"artifacts\":[\"x\"]"));
	call = submitted(&row);
	fake_broker_tell(IPC_ROW(call_granted, .call = call, .start = START_COLD,
				 .sandbox = IPC_STR(BOX_ID), .run_id = IPC_STR("")));
	ended(call, RUN_ok, NULL);
	call = submitted(&row);
	assert_int_equal(
		spec_decode(row.u.call_submit.spec.data, row.u.call_submit.spec.len, &spec), 0);
	assert_int_equal(spec.flags, SPEC_STDIN | SPEC_LIVE);
	spec_done(&spec);
	grant(call, "");
	ended(call, RUN_ok, &figures);
	file_run("", 0, ENOENT, 0);
	answer = tool_result(SHAPE_RUN, &r, false);
	assert_string_equal(text_of(r, "start"), "cold");
	cJSON_Delete(answer);
	gone(true);
}

static void
test_execute_no_sandbox(void **state)
{
	const cJSON *r;
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	call_tool("execute_code", CODE(FILES));
	fake_broker_tell(IPC_ROW(call_ended, .call = submitted(&row), .status = RUN_denied,
				 .message = IPC_STR("too much memory")));
	answer = tool_result(SHAPE_RUN, &r, true);
	assert_string_equal(text_of(r, "status"), "denied");
	assert_string_equal(text_of(r, "message"), "too much memory");
	cJSON_Delete(answer);
	gone(false);
}

static void
test_execute_a_file_that_cannot_be_written(void **state)
{
	const cJSON *r;
	cJSON *answer;

	(void)state;
	call_tool("execute_code", CODE(FILES));
	(void)create();
	file_run("", 0, 0, 1);
	file_run("", 0, EXDEV, 0);
	answer = tool_result(SHAPE_RUN, &r, true);
	assert_string_equal(text_of(r, "status"), "denied");
	assert_non_null(strstr(text_of(r, "message"), "files[1] (b) could not be written"));
	assert_true(cJSON_IsNull(field(r, "run_id")));
	cJSON_Delete(answer);
	gone(true);
}

/* In whatever step it is, the end of the call is the end of the sandbox. */
static void
test_execute_given_up(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = 1};

	(void)state;
	for (int step = 0; step < 4; step++) {
		for (int how = 0; how < 3; how++) {
			struct guest_g_exit figures = {.how = EXIT_EXITED};
			struct ipc_row row;
			struct call *c;
			uint64_t call = 0;

			fake_open(true);
			call_tool("execute_code", CODE(FILES ",\"artifacts\":[\"x\"]"));
			(void)create();
			for (int i = 0; i < step && i < 2; i++)
				file_run("", 0, 0, 1);
			if (step == 3) {
				call = submitted(&row);
				grant(call, "");
				ended(call, RUN_ok, &figures);
			}
			call = submitted(&row);
			grant(call, "");
			c = call_find_id(&fe, &id);
			assert_non_null(c);
			if (how == 0) {
				call_event(c, EV_CANCEL, NULL);
				assert_true(next_row(&row));
				assert_int_equal(row.num, IPC_NUM_call_cancel);
				ended(call, RUN_cancelled, NULL);
				assert_string_equal(fake_sent(), "");
			} else if (how == 1) {
				call_free(c); /* the client is gone */
			} else {
				call_answer(c, RUN_lost);
				const char *said = fake_sent();

				assert_non_null(
					strstr(said, step == 3 ? "\"status\":\"ok\"" : "lost"));
				/* what was asked for is not left out without a word */
				assert_int_equal(strstr(said, "before this was read") != NULL,
						 step == 3);
			}
			gone(true);
			fake_close();
		}
	}
}

static void
test_execute_bad_files(void **state)
{
	struct ipc_row row;

	(void)state;
	call_tool("execute_code",
		  CODE("\"files\":[{\"path\":\"a\",\"content\":\"@\",\"encoding\":\"base64\"}]"));
	assert_non_null(strstr(fake_sent(), "files[0].content is not base64"));
	assert_false(next_row(&row));
	gone(false);
	/* empty lists ask for nothing */
	call_tool("execute_code", CODE("\"files\":[],\"artifacts\":[]"));
	(void)submitted(&row);
	assert_int_equal(row.u.call_submit.flags, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_execute_all_steps),
		FAKE(test_execute_cold),
		FAKE(test_execute_no_sandbox),
		FAKE(test_execute_a_file_that_cannot_be_written),
		cmocka_unit_test(test_execute_given_up),
		FAKE(test_execute_bad_files),
	};

	return cmocka_run_group_tests_name("frontend_execute", tests, NULL, NULL);
}
