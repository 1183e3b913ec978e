/*
 * tests/unit/test_frontend_sandboxes.c - sandboxes made, run in, listed, destroyed.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static void
test_sandboxes_create(void **state)
{
	const cJSON *r;
	struct ipc_row row;
	uint64_t call;
	cJSON *answer;

	(void)state;
	call_tool(
		"container_create_sandbox",
		"{\"keep\":true,\"ttl_seconds\":100,\"idle_timeout_seconds\":20,\"memory_mb\":64}");
	call = submitted(&row);
	assert_int_equal(row.u.call_submit.flags, CALL_STAYS | CALL_KEEP);
	assert_int_equal(row.u.call_submit.ttl_s, 100);
	assert_int_equal(row.u.call_submit.idle_s, 20);
	assert_int_equal(row.u.call_submit.memory_bytes, 64 << 20);
	assert_int_equal(row.u.call_submit.spec.len, 0);
	assert_int_equal(row.u.call_submit.sandbox.len, 0);
	grant(call, BOX_ID);
	assert_false(fake_broker_row(&row)); /* nothing is run */
	ended(call, RUN_ok, NULL);
	answer = tool_result(SHAPE_CREATED, &r, false);
	assert_string_equal(text_of(r, "sandbox_id"), BOX_ID);
	assert_string_equal(text_of(r, "start"), "warm");
	assert_int_equal(field(r, "expires_in_seconds")->valueint, 60);
	assert_int_equal(field(r, "idle_timeout_seconds")->valueint, 5);
	assert_int_equal(field(field(r, "limits"), "pids")->valueint, 64);
	cJSON_Delete(answer);
	assert_false(next_row(&row)); /* it is not ended with its call */
}

/* The environment is in the sandbox before the client knows its name. */
static void
test_sandboxes_create_with_env(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED};
	const cJSON *r;
	struct guest_spec spec;
	struct ipc_row row;
	uint64_t call;
	cJSON *answer;

	(void)state;
	for (int good = 0; good < 2; good++) {
		call_tool("container_create_sandbox", "{\"env\":{\"A\":\"1\",\"LANG\":\"C\"}}");
		call = submitted(&row);
		assert_int_equal(row.u.call_submit.flags, CALL_STAYS);
		assert_int_equal(row.u.call_submit.spec.len, 0);
		grant(call, BOX_ID);
		ended(call, RUN_ok, NULL);
		call = submitted(&row);
		assert_int_equal(row.u.call_submit.flags, CALL_STEP);
		assert_memory_equal(row.u.call_submit.sandbox.data, BOX_ID, SANDBOX_ID_LEN);
		if (row.u.call_submit.spec.len == 0) {
			waiting_spec(&spec);
			assert_int_equal(spec.kind, RUN_ENV);
			assert_int_equal(spec.n_env, 2);
			assert_memory_equal(spec.env[0].data, "A=1", 3);
			spec_done(&spec);
		}
		assert_string_equal(fake_sent(), "");
		grant(call, "");
		ended(call, good ? RUN_ok : RUN_lost, good ? &figures : NULL);
		answer = tool_result(SHAPE_CREATED, &r, !good);
		if (good) {
			assert_string_equal(text_of(r, "sandbox_id"), BOX_ID);
			assert_int_equal(field(r, "expires_in_seconds")->valueint, 60);
			assert_string_equal(text_of(r, "start"), "warm");
			/* a sandbox has no time limit of a run: its schema knows none */
			assert_null(
				cJSON_GetObjectItemCaseSensitive(field(r, "limits"), "timeout_ms"));
			assert_false(next_row(&row));
		} else {
			assert_true(cJSON_IsNull(field(r, "sandbox_id")));
			assert_true(next_row(&row)); /* and nobody is left with a sandbox */
			assert_int_equal(row.num, IPC_NUM_sandbox_destroy);
		}
		cJSON_Delete(answer);
	}
}

static void
test_sandboxes_create_env_too_large(void **state)
{
	cleanup_free char *value = xcalloc(70001, 1);
	char *arguments = NULL;
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	memset(value, 'v', 70000);
	assert_true(asprintf(&arguments, "{\"env\":{\"A\":\"%s\",\"B\":\"%s\"}}", value, value) >
		    0);
	call_tool("container_create_sandbox", arguments);
	free(arguments);
	answer = fake_answer();
	assert_non_null(strstr(
		text_of(cJSON_GetArrayItem(field(field(answer, "result"), "content"), 0), "text"),
		"env is more than 128 KiB"));
	cJSON_Delete(answer);
	assert_false(next_row(&row));
	assert_null(fe.call_list);
}

static void
test_sandboxes_create_refused(void **state)
{
	const cJSON *r;
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	call_tool("container_create_sandbox", "{}");
	fake_broker_tell(IPC_ROW(call_ended, .call = submitted(&row), .status = RUN_busy,
				 .retry_ms = 700, .message = IPC_STR("16 is enough")));
	answer = tool_result(SHAPE_CREATED, &r, true);
	assert_string_equal(text_of(r, "message"), "16 is enough");
	assert_true(cJSON_IsNull(field(r, "sandbox_id")));
	assert_int_equal(field(r, "retry_after_ms")->valueint, 700);
	cJSON_Delete(answer);
}

/* Whatever keeps the client from learning its name ends the sandbox. */
static void
test_sandboxes_create_cancelled_or_failed(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = 1};

	(void)state;
	for (int when = 0; when < 3; when++) {
		struct ipc_row row;
		uint64_t call;

		fake_open(true);
		call_tool("container_create_sandbox", "{}");
		call = submitted(&row);
		if (when == 0) /* the grant crosses the cancel */
			call_event(call_find_id(&fe, &id), EV_CANCEL, NULL);
		grant(call, BOX_ID);
		if (when == 1)
			call_event(call_find_id(&fe, &id), EV_CANCEL, NULL);
		ended(call, when == 2 ? RUN_lost : RUN_ok, NULL);
		do
			assert_true(next_row(&row));
		while (row.num == IPC_NUM_call_cancel);
		assert_int_equal(row.num, IPC_NUM_sandbox_destroy);
		assert_memory_equal(row.u.sandbox_destroy.sandbox.data, BOX_ID, SANDBOX_ID_LEN);
		assert_true(row.u.sandbox_destroy.call > call);
		ended(row.u.sandbox_destroy.call, RUN_ok, NULL); /* finds nobody */
		assert_null(fe.call_list);
		fake_close();
	}
}

static void
test_sandboxes_exec(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED, .stdout_bytes = 2};
	const cJSON *r;
	struct guest_spec spec;
	struct ipc_row row;
	uint64_t call;
	cJSON *answer;

	(void)state;
	call_tool("container_exec_command",
		  "{\"sandbox_id\":\"" BOX_ID "\",\"argv\":[\"ls\",\"-l\"],\"stdin\":\"x\"}");
	call = submitted(&row);
	assert_memory_equal(row.u.call_submit.sandbox.data, BOX_ID, SANDBOX_ID_LEN);
	assert_int_equal(row.u.call_submit.flags, 0);
	waiting_spec(&spec);
	assert_int_equal(spec.kind, RUN_ARGV);
	assert_int_equal(spec.n_args, 2);
	spec_done(&spec);
	grant(call, "");
	output(call, STREAM_STDOUT, "ok", 2);
	ended(call, RUN_ok, &figures);
	answer = tool_result(SHAPE_RUN, &r, false);
	assert_string_equal(text_of(r, "stdout"), "ok");
	assert_string_equal(text_of(r, "run_id"), RUN_ID);
	cJSON_Delete(answer);
}

/* The second run in a sandbox goes out with its specification, in whatever sandbox the first told
 * its time limit. */
static void
test_sandboxes_exec_early(void **state)
{
	static const char other[] = "ffffffffffffffffffffffffffffffff";
	struct ipc_row row;
	uint64_t call;

	(void)state;
	call_tool("docker_exec", "{\"container\":\"" BOX_ID "\",\"command\":\"true\"}");
	call = submitted(&row);
	assert_int_equal(row.u.call_submit.spec.len, 0);
	grant(call, "");
	ended(call, RUN_ok, NULL);
	call_tool("docker_exec", "{\"container\":\"" BOX_ID "\",\"command\":\"true\"}");
	(void)submitted(&row);
	assert_true(row.u.call_submit.spec.len > 0);
	call_tool("container_exec_command",
		  "{\"sandbox_id\":\"ffffffffffffffffffffffffffffffff\",\"command\":\"true\"}");
	(void)submitted(&row);
	assert_memory_equal(row.u.call_submit.sandbox.data, other, SANDBOX_ID_LEN);
	assert_int_equal(row.u.call_submit.spec.len, 0);
}

static void
test_sandboxes_exec_background(void **state)
{
	struct guest_spec spec;
	const cJSON *r;
	struct ipc_row row;
	uint64_t call;
	cJSON *answer;

	(void)state;
	call_tool("container_exec_command",
		  "{\"sandbox_id\":\"" BOX_ID "\",\"command\":\"x\",\"background\":true}");
	call = submitted(&row);
	assert_int_equal(row.u.call_submit.flags, CALL_BACKGROUND);
	assert_int_equal(row.u.call_submit.timeout_ms, 0);
	assert_int_equal(row.u.call_submit.spec.len, 0); /* it may have no time limit at all */
	fake_broker_tell(IPC_ROW(call_granted, .call = call, .start = START_LIVE,
				 .run_id = IPC_STR(RUN_ID)));
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_frame.type, GUEST_h_run);
	assert_int_equal(spec_decode(row.u.call_frame.data.data, row.u.call_frame.data.len, &spec),
			 0);
	assert_int_equal(spec.timeout_ms, 0);
	spec_done(&spec);
	ended(call, RUN_running, NULL);
	answer = tool_result(SHAPE_RUN, &r, false);
	assert_string_equal(text_of(r, "status"), "running");
	assert_non_null(strstr(text_of(r, "message"), "inspect_logs with run_id " RUN_ID));
	cJSON_Delete(answer);
}

static void
test_sandboxes_exec_bad_combinations(void **state)
{
	static const struct {
		const char *args, *why;
	} rows[] = {
		{"{\"sandbox_id\":\"" BOX_ID "\"}", "Give command"},
		{"{\"sandbox_id\":\"" BOX_ID "\",\"command\":\"a\",\"argv\":[\"a\"]}", "not both"},
		{"{\"sandbox_id\":\"" BOX_ID
		 "\",\"command\":\"a\",\"background\":true,\"stdin\":\"x\"}",
		 "has no stdin"},
	};
	struct ipc_row row;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		call_tool("container_exec_command", rows[i].args);
		assert_non_null(strstr(fake_sent(), rows[i].why));
		assert_false(next_row(&row));
	}
}

/* A malformed id gets, word for word, what an unknown one gets, and costs the broker nothing. */
static void
test_sandboxes_unknown_alike(void **state)
{
	static const struct {
		const char *tool, *more;
		enum tool_shape shape;
	} tools[] = {
		{"container_exec_command", ",\"command\":\"x\"", SHAPE_RUN},
		{"container_destroy_sandbox", "", SHAPE_DONE},
		{"container_read_file", ",\"path\":\"x\"", SHAPE_FILE},
		{"container_write_file", ",\"path\":\"x\",\"content\":\"\"", SHAPE_FILE},
		{"container_list_files", "", SHAPE_FILES},
		{"sandbox_eval", ",\"language\":\"bash\",\"code\":\"\"", SHAPE_EVAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		static const char *const ids[] = {"x", BOX_ID};
		cJSON *schema = schema_shape(tools[i].shape);
		char *told[2];

		for (size_t j = 0; j < ARRAY_LEN(ids); j++) {
			char args[300];
			struct ipc_row row;
			cJSON *answer;
			const cJSON *r;

			(void)snprintf(args, sizeof(args), "{\"sandbox_id\":\"%s\"%s}", ids[j],
				       tools[i].more);
			call_tool(tools[i].tool, args);
			assert_int_equal(next_row(&row), j == 1);
			if (j == 1)
				fake_broker_tell(IPC_ROW(call_ended, .call = row.u.call_submit.call,
							 .status = RUN_not_found,
							 .message = IPC_STR("")));
			answer = fake_answer();
			r = field(field(answer, "result"), "structuredContent");
			assert_string_equal(text_of(r, "status"), "not_found");
			fake_matches(r, schema);
			told[j] = cJSON_PrintUnformatted(r);
			cJSON_Delete(answer);
		}
		assert_string_equal(told[0], told[1]);
		free(told[0]);
		free(told[1]);
		cJSON_Delete(schema);
	}
}

static void
test_sandboxes_list(void **state)
{
	const cJSON *r, *rows, *item;
	cJSON *answer, *schema = schema_shape(SHAPE_SANDBOX);
	struct ipc_row row;
	uint64_t call;

	(void)state;
	call_tool("container_list_sandboxes", "{}");
	assert_true(next_row(&row));
	assert_int_equal(row.num, IPC_NUM_sandbox_list);
	fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
				 .sandbox = IPC_STR(RUN_ID), .profile = IPC_STR("default")));
	/* the broker dies, and the next one begins anew */
	call_event(fe.call_list, EV_LINK_DOWN, NULL);
	call_event(fe.call_list, EV_LINK_UP, NULL);
	assert_true(next_row(&row));
	call = row.u.sandbox_list.call;
	fake_broker_tell(IPC_ROW(sandbox_row, .call = call, .sandbox = IPC_STR(BOX_ID),
				 .profile = IPC_STR("default"), .alive = 1, .age_ms = 1500,
				 .ttl_ms = 60000, .keep = 1, .runs = 2));
	fake_broker_tell(IPC_ROW(sandbox_row, .call = call, .sandbox = IPC_STR(RUN_ID),
				 .profile = IPC_STR("default"), .cause = CAUSE_IDLE,
				 .ended_ms = 2500));
	fake_broker_tell(IPC_ROW(list_end, .call = call));
	answer = tool_result(SHAPE_SANDBOXES, &r, false);
	rows = field(r, "sandboxes");
	assert_int_equal(cJSON_GetArraySize(rows), 2);
	cJSON_ArrayForEach(item, rows) fake_matches(item, schema);
	item = cJSON_GetArrayItem(rows, 0);
	assert_string_equal(text_of(item, "status"), "running");
	assert_true(cJSON_IsNull(field(item, "end")));
	item = cJSON_GetArrayItem(rows, 1);
	assert_string_equal(text_of(item, "end"), "idle");
	assert_true(field(item, "ended_seconds_ago")->valuedouble == 2.5);
	cJSON_Delete(answer);
	cJSON_Delete(schema);
}

static void
test_sandboxes_list_is_cut(void **state)
{
	const cJSON *r;
	cJSON *answer;
	struct ipc_row row;

	(void)state;
	call_tool("container_list_sandboxes", "{}");
	assert_true(next_row(&row));
	for (unsigned i = 0; i < 300; i++)
		fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
					 .sandbox = IPC_STR(RUN_ID),
					 .profile = IPC_STR("default")));
	fake_broker_tell(IPC_ROW(list_end, .call = row.u.sandbox_list.call));
	answer = tool_result(SHAPE_SANDBOXES, &r, false);
	assert_int_equal(cJSON_GetArraySize(field(r, "sandboxes")), 256);
	assert_non_null(strstr(text_of(r, "message"), "may not be listed"));
	cJSON_Delete(answer);
}

static void
test_sandboxes_destroy(void **state)
{
	const cJSON *r;
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	call_tool("container_destroy_sandbox", "{\"sandbox_id\":\"" BOX_ID "\"}");
	assert_true(next_row(&row));
	assert_int_equal(row.num, IPC_NUM_sandbox_destroy);
	ended(row.u.sandbox_destroy.call, RUN_ok, NULL);
	answer = tool_result(SHAPE_DONE, &r, false);
	assert_string_equal(text_of(r, "status"), "ok");
	cJSON_Delete(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_sandboxes_create),
		FAKE(test_sandboxes_create_with_env),
		FAKE(test_sandboxes_create_env_too_large),
		FAKE(test_sandboxes_create_refused),
		cmocka_unit_test(test_sandboxes_create_cancelled_or_failed),
		FAKE(test_sandboxes_exec),
		FAKE(test_sandboxes_exec_early),
		FAKE(test_sandboxes_exec_background),
		FAKE(test_sandboxes_exec_bad_combinations),
		FAKE(test_sandboxes_unknown_alike),
		FAKE(test_sandboxes_list),
		FAKE(test_sandboxes_list_is_cut),
		FAKE(test_sandboxes_destroy),
	};

	return cmocka_run_group_tests_name("frontend_sandboxes", tests, NULL, NULL);
}
