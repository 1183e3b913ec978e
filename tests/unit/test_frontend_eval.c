/*
 * tests/unit/test_frontend_eval.c - value records, figures, and what an end says of the state.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

#define EVAL(code) "{\"sandbox_id\":\"" BOX_ID "\",\"language\":\"python\",\"code\":\"" code "\"}"
#define PNG "\x89PNG\r\n\x1a\n...."

static uint64_t
evaluating(void)
{
	struct ipc_row row;
	uint64_t call;

	call_tool("sandbox_eval", EVAL("1+1"));
	call = submitted(&row);
	grant(call, "");
	return call;
}

static void
test_eval_value_and_output(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED, .stdout_bytes = 4};
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call = evaluating();
	output(call, STREAM_STDOUT, "out\n", 4);
	output(call, STREAM_VALUE, "v2\0", 3);
	ended(call, RUN_ok, &figures);
	answer = tool_result(SHAPE_EVAL, &r, false);
	assert_string_equal(text_of(r, "value"), "2");
	assert_string_equal(text_of(r, "stdout"), "out\n");
	assert_string_equal(text_of(r, "message"), "");
	assert_int_equal(field(r, "exit_code")->valueint, 0);
	assert_int_equal(cJSON_GetArraySize(field(r, "images")), 0);
	cJSON_Delete(answer);
}

/* Records are what the sandbox wrote: any bytes, in any number. */
static void
test_eval_records(void **state)
{
	static const struct {
		const char *data;
		size_t n;
		const char *value; /* NULL: null */
		const char *encoding;
		bool truncated;
	} rows[] = {
		{"", 0, NULL, "utf-8", false},
		{"v\0", 2, "", "utf-8", false},
		{"v1\0v2\0", 6, "2", "utf-8", false},
		{"vabc", 4, "abc", "utf-8", true}, /* no end: cut */
		{"v\x1b\0", 3, "\\u{1B}", "escaped", false},
		{"v\xff\0", 3, "/w==", "base64", false},
		{"\0\0x\0i\0", 6, NULL, "utf-8", false}, /* nothing of ours */
		{"i", 1, NULL, "utf-8", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct guest_g_exit figures = {.how = EXIT_EXITED};
		uint64_t call = evaluating();
		const cJSON *r;
		cJSON *answer;

		output(call, STREAM_VALUE, rows[i].data, rows[i].n);
		ended(call, RUN_ok, &figures);
		answer = tool_result(SHAPE_EVAL, &r, false);
		if (rows[i].value == NULL)
			assert_true(cJSON_IsNull(field(r, "value")));
		else
			assert_string_equal(text_of(r, "value"), rows[i].value);
		assert_string_equal(text_of(r, "value_encoding"), rows[i].encoding);
		assert_int_equal(cJSON_IsTrue(field(r, "value_truncated")), rows[i].truncated);
		cJSON_Delete(answer);
	}
}

static void
test_eval_long_value(void **state)
{
	struct guest_g_exit figures = {.how = EXIT_EXITED};
	uint64_t call = evaluating();
	size_t n = 1500000;
	char *value = malloc(n);
	const cJSON *r;
	cJSON *answer;

	(void)state;
	memset(value, 'x', n);
	value[0] = 'v';
	output(call, STREAM_VALUE, value, n);
	ended(call, RUN_ok, &figures);
	answer = tool_result(SHAPE_EVAL, &r, false);
	assert_int_equal(strlen(text_of(r, "value")), 24576);
	assert_true(cJSON_IsTrue(field(r, "value_truncated")));
	cJSON_Delete(answer);
	free(value);
}

static void
test_eval_figures_are_read(void **state)
{
	static const char records[] = "vNone\0i/workspace/.figures/1.png\0i/gone.png";
	struct guest_g_exit figures = {.how = EXIT_EXITED};
	uint64_t call = evaluating();
	struct guest_spec spec;
	const cJSON *r, *block, *images;
	cJSON *answer;

	(void)state;
	output(call, STREAM_VALUE, records, sizeof(records));
	ended(call, RUN_ok, &figures);
	waiting_spec(&spec);
	assert_int_equal(spec.kind, RUN_FILE_READ);
	assert_memory_equal(spec.code.data, "/workspace/.figures/1.png", spec.code.len);
	spec_done(&spec);
	file_run(PNG, sizeof(PNG) - 1, 0, sizeof(PNG) - 1);
	file_run("", 0, ENOENT, 0);
	answer = tool_result(SHAPE_EVAL, &r, false);
	images = field(r, "images");
	assert_int_equal(cJSON_GetArraySize(images), 2);
	assert_string_equal(text_of(cJSON_GetArrayItem(images, 0), "encoding"), "image");
	assert_string_equal(text_of(cJSON_GetArrayItem(images, 1), "encoding"), "none");
	block = cJSON_GetArrayItem(field(field(answer, "result"), "content"), 1);
	assert_string_equal(text_of(block, "type"), "image");
	assert_string_equal(text_of(block, "mimeType"), "image/png");
	assert_string_equal(text_of(block, "data"), "iVBORw0KGgouLi4u");
	cJSON_Delete(answer);
}

static void
test_eval_ends(void **state)
{
	static const struct {
		enum run_status status;
		struct guest_g_exit figures;
		const char *told, *message;
		bool error, code;
	} rows[] = {
		{RUN_nonzero,
		 {.how = EXIT_EXITED, .exit_code = 1},
		 "nonzero",
		 "keeps its state",
		 false,
		 true},
		{RUN_nonzero,
		 {.how = EXIT_EXITED, .exit_code = 3, .flags = EXIT_INTERPRETER_GONE},
		 "nonzero",
		 "state are gone",
		 false,
		 true},
		{RUN_signaled,
		 {.how = EXIT_SIGNALED, .signal = 11, .flags = EXIT_INTERPRETER_GONE},
		 "signaled",
		 "state are gone",
		 false,
		 false},
		{RUN_timed_out,
		 {.how = EXIT_SIGNALED, .flags = EXIT_TIMED_OUT | EXIT_INTERPRETER_GONE},
		 "timed_out",
		 "time limit. Ask for a larger timeout_seconds or do less in one run. The "
		 "interpreter",
		 true,
		 false},
		{RUN_busy, {.how = EXIT_NOT_STARTED, .exit_code = EBUSY}, "busy", "", true, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t call = evaluating();
		const cJSON *r;
		cJSON *answer;

		ended(call, rows[i].status, &rows[i].figures);
		answer = tool_result(SHAPE_EVAL, &r, rows[i].error);
		assert_string_equal(text_of(r, "status"), rows[i].told);
		if (strstr(text_of(r, "message"), rows[i].message) == NULL)
			fail_msg("row %zu: %s", i, text_of(r, "message"));
		assert_int_equal(cJSON_IsNumber(field(r, "exit_code")), rows[i].code);
		cJSON_Delete(answer);
	}
}

static void
test_eval_without_an_end(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = 1};
	const cJSON *r;
	cJSON *answer;

	(void)state;
	(void)evaluating();
	call_answer(call_find_id(&fe, &id), RUN_lost);
	answer = tool_result(SHAPE_EVAL, &r, true);
	assert_string_equal(text_of(r, "status"), "lost");
	cJSON_Delete(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_eval_value_and_output),
		FAKE(test_eval_records),
		FAKE(test_eval_long_value),
		FAKE(test_eval_figures_are_read),
		FAKE(test_eval_ends),
		FAKE(test_eval_without_an_end),
	};

	return cmocka_run_group_tests_name("frontend_eval", tests, NULL, NULL);
}
