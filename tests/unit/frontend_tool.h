/*
 * tests/unit/frontend_tool.h - a tool called in a fake frontend, and the broker's side of its
 * exchanges: one call in flight at a time.
 */
#ifndef BAILEY_FRONTEND_TOOL_TEST_H
#define BAILEY_FRONTEND_TOOL_TEST_H

#include "frontend_fake.h"

#define BOX_ID "0123456789abcdef0123456789abcdef"
#define RUN_ID "fedcba9876543210fedcba9876543210"

static inline void
say_rev(enum mcp_rev rev, const char *method, const char *params)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = rev};
	cJSON *json = cJSON_Parse(params);

	assert_non_null(json);
	if (strcmp(method, "tools/call") == 0)
		tools_call(&fe, &to, json);
	else if (strcmp(method, "resources/read") == 0)
		resources_read(&fe, &to, json);
	else if (strcmp(method, "resources/list") == 0)
		resources_list(&fe, &to, json);
	else
		fail_msg("%s", method);
	cJSON_Delete(json);
}

static inline void
call_tool(const char *name, const char *arguments)
{
	char *params = NULL;

	assert_true(asprintf(&params, "{\"name\":\"%s\",\"arguments\":%s}", name, arguments) > 0);
	say_rev(REV_2025_11_25, "tools/call", params);
	free(params);
}

/* The next row that is no hint. */
static inline bool
next_row(struct ipc_row *ret)
{
	while (fake_broker_row(ret)) {
		if (ret->num != IPC_NUM_warm_hint && ret->num != IPC_NUM_call_frame)
			return true;
	}
	return false;
}

/* The next submission, which must be there; ret_spec is spec_done's where it is wanted. */
static inline uint64_t
submitted(struct ipc_row *row)
{
	assert_true(next_row(row));
	assert_int_equal(row->num, IPC_NUM_call_submit);
	return row->u.call_submit.call;
}

static inline void
grant(uint64_t call, const char *sandbox)
{
	fake_broker_tell(IPC_ROW(call_granted, .call = call, .start = START_WARM,
				 .run_id = IPC_STR(RUN_ID), .timeout_ms = 1000, .queue_ms = 3,
				 .memory_bytes = 1 << 20, .cpus_milli = 1500, .pids = 64,
				 .sandbox = IPC_STR(sandbox), .ttl_ms = 60000, .idle_ms = 5000));
}

/* What a run is to be, before it was granted. */
static inline void
waiting_spec(struct guest_spec *ret)
{
	assert_non_null(fe.call_list);
	assert_int_equal(
		spec_decode(buf_data(&fe.call_list->spec), buf_len(&fe.call_list->spec), ret), 0);
}

static inline void
output(uint64_t call, unsigned stream, const void *data, size_t n)
{
	const uint8_t *at = data;

	while (n > 0) {
		size_t part = n < GUEST_PAYLOAD_MAX ? n : GUEST_PAYLOAD_MAX;

		fake_broker_tell(IPC_ROW(run_frame, .call = call, .type = GUEST_g_out,
					 .stream = stream, .data = {at, part}));
		at += part;
		n -= part;
	}
}

static inline void
ended(uint64_t call, enum run_status status, const struct guest_g_exit *figures)
{
	uint8_t payload[104];

	if (figures != NULL)
		guest_put_g_exit(figures, payload);
	fake_broker_tell(IPC_ROW(call_ended, .call = call, .status = status,
				 .exit_code = figures == NULL ? 0 : figures->exit_code,
				 .duration_us = 1500, .message = IPC_STR(""),
				 .guest = {payload, figures == NULL ? 0 : sizeof(payload)}));
}

/* A file's run, from its submission to its end. */
static inline void
file_run(const void *data, size_t n, uint32_t error, uint64_t size)
{
	struct guest_g_exit figures = {
		.how = EXIT_EXITED, .exit_code = error, .size = size, .stdout_bytes = n};
	struct ipc_row row;
	uint64_t call = submitted(&row);

	grant(call, BOX_ID);
	output(call, STREAM_STDOUT, data, n);
	ended(call, error == 0 ? RUN_ok : RUN_nonzero, &figures);
}

static inline const cJSON *
field(const cJSON *json, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);

	if (item == NULL)
		fail_msg("no %s", name);
	return item;
}

/* The one answer's result; structured, checked against its shape, in *ret_structured. The caller
 * deletes the return value. */
static inline cJSON *
tool_result(enum tool_shape shape, const cJSON **ret_structured, bool is_error)
{
	cJSON *answer = fake_answer(), *schema = schema_shape(shape);
	const cJSON *result = field(answer, "result");

	assert_int_equal(cJSON_IsTrue(field(result, "isError")), is_error);
	*ret_structured = field(result, "structuredContent");
	fake_matches(*ret_structured, schema);
	cJSON_Delete(schema);
	return answer;
}

static inline const char *
text_of(const cJSON *json, const char *name)
{
	assert_true(cJSON_IsString(field(json, name)));
	return field(json, name)->valuestring;
}

static inline void
read_uri(const char *uri)
{
	char *params = NULL;

	assert_true(asprintf(&params, "{\"uri\":\"%s\"}", uri) > 0);
	say_rev(REV_2025_11_25, "resources/read", params);
	free(params);
}

/* A piece of the output that the broker keeps of a run. */
static inline void
tell_kept(uint64_t call, uint64_t offset, const char *bytes, size_t n)
{
	fake_broker_tell(IPC_ROW(log_data, .call = call, .offset = offset,
				 .data = {(const uint8_t *)bytes, n}));
}

#endif
