/*
 * tests/unit/test_frontend_http_reply.c - the bytes of answers, and which status an error has.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include <cjson/cJSON.h>

#include "http.h"

static struct buf out;

static const char *
text(void)
{
	assert_int_equal(buf_append(&out, "", 1), 0);
	out.len--;
	return (const char *)buf_data(&out);
}

static int
setup(void **state)
{
	(void)state;
	buf_init(&out, 4096);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	buf_done(&out);
	return 0;
}

static void
test_http_reply_statuses(void **state)
{
	static const struct {
		struct sent as;
		unsigned want;
	} cases[] = {
		{{.rev = REV_2025_11_25}, 200},
		{{.code = RPC_METHOD, .rev = REV_2025_11_25}, 200},
		{{.code = RPC_METHOD, .rev = REV_2026_07_28}, 404},
		{{.code = RPC_PARAMS, .rev = REV_2026_07_28}, 200},
		{{.code = RPC_PARAMS, .rev = REV_2026_07_28, .refused = true}, 400},
		{{.code = RPC_PARAMS, .rev = REV_2025_06_18, .refused = true}, 400},
		{{.code = RPC_INTERNAL, .rev = REV_2025_06_18}, 200},
		{{.code = RPC_PARSE, .rev = REV_2025_06_18}, 400},
		{{.code = RPC_REQUEST, .rev = REV_2025_06_18}, 400},
		{{.code = RPC_HEADER, .rev = REV_2026_07_28}, 400},
		{{.code = RPC_VERSION, .rev = REV_2026_07_28}, 400},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(http_reply_status(&cases[i].as), cases[i].want);
}

static void
test_http_reply_json(void **state)
{
	struct http_reply r = {.status = 200, .session = "abc"};

	(void)state;
	assert_int_equal(http_reply_json(&out, &r, "{}", 2), 0);
	assert_string_equal(text(), "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n"
				    "X-Content-Type-Options: nosniff\r\nMcp-Session-Id: abc\r\n"
				    "Keep-Alive: timeout=30\r\nContent-Type: application/json\r\n"
				    "Content-Length: 2\r\n\r\n{}");
	buf_clear(&out);
	r = (struct http_reply){.status = 202, .close = true};
	assert_int_equal(http_reply_json(&out, &r, "", 0), 0);
	assert_string_equal(text(), "HTTP/1.1 202 Accepted\r\nCache-Control: no-store\r\n"
				    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n"
				    "Content-Length: 0\r\n\r\n");
}

/* Every refusal is JSON with an error, and carries what its status demands. */
static void
test_http_reply_refusals(void **state)
{
	static const struct {
		unsigned status;
		const char *line;
	} cases[] = {
		{401, "\r\nWWW-Authenticate: Bearer realm=\"bailey\"\r\n"},
		{405, "\r\nAllow: POST, DELETE\r\n"},
		{503, "\r\nRetry-After: 1\r\n"},
		{404, "HTTP/1.1 404 Not Found\r\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_refusal why = {cases[i].status, "no", true};
		cJSON *json;

		buf_clear(&out);
		assert_int_equal(http_reply_refusal(&out, &why, true), 0);
		assert_non_null(strstr(text(), cases[i].line));
		assert_non_null(strstr(text(), "\r\nConnection: close\r\n"));
		assert_null(strstr(text(), "resource_metadata"));
		json = cJSON_Parse(strstr(text(), "\r\n\r\n") + 4);
		assert_string_equal(
			cJSON_GetObjectItem(cJSON_GetObjectItem(json, "error"), "message")
				->valuestring,
			"no");
		assert_null(cJSON_GetObjectItem(json, "id"));
		cJSON_Delete(json);
	}
}

static void
test_http_reply_stream(void **state)
{
	struct http_reply r = {.status = 200};
	const char *body;

	(void)state;
	assert_int_equal(http_reply_stream(&out, &r), 0);
	assert_int_equal(http_reply_event(&out, "{\"a\":1}", 7), 0);
	assert_int_equal(http_reply_beat(&out), 0);
	assert_int_equal(http_reply_stream_end(&out), 0);
	assert_non_null(strstr(text(), "Content-Type: text/event-stream\r\n"));
	assert_non_null(strstr(text(), "X-Accel-Buffering: no\r\n"));
	assert_null(strstr(text(), "Content-Length"));
	body = strstr(text(), "\r\n\r\n") + 4;
	assert_string_equal(body, "1e\r\nevent: message\ndata: {\"a\":1}\n\n\r\n"
				  "3\r\n:\n\n\r\n0\r\n\r\n");
}

static void
test_http_reply_full(void **state)
{
	struct http_reply r = {.status = 200};
	struct buf small;

	(void)state;
	/* whatever is missing, it is told */
	for (size_t max = 0; max < 240; max++) {
		buf_init(&small, max);
		if (http_reply_json(&small, &r, "{}", 2) == 0)
			assert_true(buf_len(&small) > 100);
		buf_clear(&small);
		if (http_reply_stream(&small, &r) == 0)
			assert_true(buf_len(&small) > 100);
		buf_done(&small);
	}
	buf_init(&small, 20);
	assert_true(http_reply_event(&small, "0123456789", 10) < 0);
	assert_true(http_reply_refusal(&small, &(struct http_refusal){400, "x", true}, true) < 0);
	buf_done(&small);
}

#define WITH_OUT(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_OUT(test_http_reply_statuses), WITH_OUT(test_http_reply_json),
		WITH_OUT(test_http_reply_refusals), WITH_OUT(test_http_reply_stream),
		WITH_OUT(test_http_reply_full),
	};

	return cmocka_run_group_tests_name("frontend_http_reply", tests, NULL, NULL);
}
