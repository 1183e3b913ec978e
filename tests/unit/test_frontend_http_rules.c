/*
 * tests/unit/test_frontend_http_rules.c - who may ask what: each rule, and their order.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include "http.h"

#define SESSION "0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct http_client client = {
	.hosts = "127.0.0.1:8080,localhost:8080,[::1]:8080",
	.origins = "http://127.0.0.1:8080,http://localhost:8080",
};

static struct http_head
good(void)
{
	return (struct http_head){
		.method = HTTP_POST,
		.target = "/mcp",
		.accepts_json = true,
		.accepts_stream = true,
		.value = {[HTTP_H_HOST] = "localhost:8080",
			  [HTTP_H_AUTHORIZATION] = "Bearer abc",
			  [HTTP_H_CONTENT_TYPE] = "application/json"},
	};
}

static unsigned
status(const struct http_head *head)
{
	const struct http_refusal *why = http_rules_check(head, &client);

	return why == NULL ? 0 : why->status;
}

static void
test_http_rules_values(void **state)
{
	static const struct {
		enum http_header which;
		const char *value;
		unsigned want;
	} cases[] = {
		{HTTP_H_HOST, "127.0.0.1:8080", 0},
		{HTTP_H_HOST, "LOCALHOST:8080", 0},
		{HTTP_H_HOST, "[::1]:8080", 0},
		{HTTP_H_HOST, "localhost", 403},
		{HTTP_H_HOST, "localhost:80", 403},
		{HTTP_H_HOST, "localhost:8080.evil.example", 403},
		{HTTP_H_HOST, "evil.example", 403},
		{HTTP_H_HOST, "127.0.0.1:8080,localhost:8080", 403},
		{HTTP_H_HOST, "", 403},
		{HTTP_H_ORIGIN, "http://localhost:8080", 0},
		{HTTP_H_ORIGIN, "HTTP://LOCALHOST:8080", 0},
		{HTTP_H_ORIGIN, "https://localhost:8080", 403},
		{HTTP_H_ORIGIN, "http://evil.example", 403},
		{HTTP_H_ORIGIN, "null", 403},
		{HTTP_H_ORIGIN, "", 403},
		{HTTP_H_AUTHORIZATION, NULL, 401},
		{HTTP_H_AUTHORIZATION, "", 401},
		{HTTP_H_AUTHORIZATION, "Bearer", 401},
		{HTTP_H_AUTHORIZATION, "Bearer ", 401},
		{HTTP_H_AUTHORIZATION, "Bearer a b", 401},
		{HTTP_H_AUTHORIZATION, "Bearer a\"b", 401},
		{HTTP_H_AUTHORIZATION, "Basic abc", 401},
		{HTTP_H_AUTHORIZATION, "bearer   a-._~+/9Z=", 0},
		{HTTP_H_EXPECT, "100-Continue", 0},
		{HTTP_H_EXPECT, "200-ok", 417},
		{HTTP_H_CONTENT_TYPE, NULL, 415},
		{HTTP_H_CONTENT_TYPE, "text/plain", 415},
		{HTTP_H_CONTENT_TYPE, "application/jsonx", 415},
		{HTTP_H_CONTENT_TYPE, "Application/JSON; charset=utf-8", 0},
		{HTTP_H_CONTENT_ENCODING, "gzip", 415},
		{HTTP_H_CONTENT_ENCODING, "Identity", 0},
		{HTTP_H_MCP_SESSION_ID, SESSION, 0},
		{HTTP_H_MCP_SESSION_ID, "", 404},
		{HTTP_H_MCP_SESSION_ID, "x" SESSION, 404},
		{HTTP_H_MCP_SESSION_ID, "0123456789ABCDEF0123456789abcdef0123456789abcdef", 404},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_head head = good();

		head.value[cases[i].which] = cases[i].value;
		if (status(&head) != cases[i].want)
			fail_msg("case %zu: %u", i, status(&head));
	}
}

static void
test_http_rules_methods_and_targets(void **state)
{
	static const struct {
		enum http_method method;
		const char *target, *version, *session;
		unsigned want;
	} cases[] = {
		{HTTP_POST, "/mcp", NULL, NULL, 0},
		{HTTP_POST, "/mcp", "2026-07-28", "anything", 0}, /* no sessions there */
		{HTTP_DELETE, "/mcp", NULL, SESSION, 0},
		{HTTP_DELETE, "/mcp", "2025-11-25", SESSION, 0},
		{HTTP_DELETE, "/mcp", "2026-07-28", SESSION, 405},
		{HTTP_DELETE, "/mcp", NULL, NULL, 400},
		{HTTP_DELETE, "/mcp", NULL, "short", 404},
		{HTTP_GET, "/mcp", NULL, SESSION, 405},
		{HTTP_OTHER, "/mcp", NULL, NULL, 405},
		{HTTP_GET, "/", NULL, NULL, 404},
		{HTTP_POST, "/mcp/", NULL, NULL, 404},
		{HTTP_POST, "/mcp?token=abc", NULL, NULL, 404},
		{HTTP_POST, "/MCP", NULL, NULL, 404},
		{HTTP_GET, "/.well-known/oauth-protected-resource", NULL, NULL, 404},
		{HTTP_POST, "/register", NULL, NULL, 404},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_head head = good();

		head.method = cases[i].method;
		head.target = cases[i].target;
		head.value[HTTP_H_MCP_PROTOCOL_VERSION] = cases[i].version;
		head.value[HTTP_H_MCP_SESSION_ID] = cases[i].session;
		if (status(&head) != cases[i].want)
			fail_msg("case %zu: %u", i, status(&head));
	}
}

static void
test_http_rules_accept(void **state)
{
	struct http_head head = good();

	(void)state;
	head.accepts_json = false;
	assert_int_equal(status(&head), 406);
	head.accepts_json = true;
	head.accepts_stream = false;
	assert_int_equal(status(&head), 406);
	head.method = HTTP_DELETE; /* its answer has no body */
	head.value[HTTP_H_MCP_SESSION_ID] = SESSION;
	assert_int_equal(status(&head), 0);
}

static void
test_http_rules_names_come_first(void **state)
{
	struct http_head head = {.method = HTTP_GET, .target = "/x"};
	const struct http_refusal *why;

	(void)state;
	head.value[HTTP_H_HOST] = "evil.example";
	why = http_rules_check(&head, &client);
	assert_int_equal(why->status, 403);
	assert_true(why->close);
	head.value[HTTP_H_HOST] = "localhost:8080";
	head.value[HTTP_H_ORIGIN] = "http://evil.example";
	why = http_rules_check(&head, &client);
	assert_int_equal(why->status, 403);
	assert_true(why->close);
	head.value[HTTP_H_ORIGIN] = NULL;
	assert_int_equal(status(&head), 404);
	head.target = "/mcp";
	assert_int_equal(status(&head), 405);
	head.method = HTTP_POST;
	why = http_rules_check(&head, &client);
	assert_int_equal(why->status, 401);
	assert_true(why->close);
	/* HEAD and others: their answers may not have the body ours has */
	head = (struct http_head){.method = HTTP_OTHER, .target = "/mcp"};
	head.value[HTTP_H_HOST] = "localhost:8080";
	why = http_rules_check(&head, &client);
	assert_int_equal(why->status, 405);
	assert_true(why->close);
	/* nothing permitted: nothing passes */
	head = good();
	assert_int_equal(http_rules_check(&head, &(struct http_client){.hosts = ""})->status, 403);
}

static void
test_http_rules_token(void **state)
{
	char value[HTTP_TOKEN_MAX + 16] = "Bearer ";
	struct http_head head = good();

	(void)state;
	assert_string_equal(http_rules_token(&head), "abc");
	memset(value + 7, 'a', HTTP_TOKEN_MAX);
	head.value[HTTP_H_AUTHORIZATION] = value;
	assert_non_null(http_rules_token(&head));
	value[7 + HTTP_TOKEN_MAX] = 'a';
	assert_null(http_rules_token(&head));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_http_rules_values),
		cmocka_unit_test(test_http_rules_methods_and_targets),
		cmocka_unit_test(test_http_rules_accept),
		cmocka_unit_test(test_http_rules_names_come_first),
		cmocka_unit_test(test_http_rules_token),
	};

	return cmocka_run_group_tests_name("frontend_http_rules", tests, NULL, NULL);
}
