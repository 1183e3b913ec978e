/*
 * tests/unit/test_frontend_http_head.c - heads that are whole, cut, odd, and hostile.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include "http.h"

#define HOST "Host: h\r\n"
#define POST_HEAD "POST /mcp HTTP/1.1\r\n" HOST

static char text[HTTP_HEAD_MAX + 64];
static struct http_head head;

/* The status of the refusal, 0 where there is none; 1: bytes no head may hold, 2: too long, 3: not
 * whole. */
static unsigned
parse(const char *from, size_t len)
{
	const struct http_refusal *why;
	size_t scanned = 0;
	ssize_t n;

	assert_true(len < sizeof(text));
	memcpy(text, from, len);
	text[len] = '\0';
	n = http_head_end(text, len, &scanned);
	if (n <= 0)
		return n == -EBADMSG ? 1 : n == -E2BIG ? 2 : 3;
	text[n] = '\0';
	why = http_head_parse(text, (size_t)n, &head);
	if (why != NULL)
		assert_true(why->close && why->text[0] != '\0');
	return why == NULL ? 0 : why->status;
}

static void
test_http_head_end_is_found_once(void **state)
{
	static const char whole[] = POST_HEAD "Content-Length: 2\r\n\r\n{}";
	size_t head_len = sizeof(whole) - 3;

	(void)state;
	for (size_t step = 1; step < sizeof(whole); step++) {
		size_t scanned = 0, n = 0;
		ssize_t end = 0;

		while (end == 0 && n < sizeof(whole) - 1) {
			n = n + step > sizeof(whole) - 1 ? sizeof(whole) - 1 : n + step;
			end = http_head_end(whole, n, &scanned);
			assert_true(end >= 0);
			if (n < head_len)
				assert_int_equal(end, 0);
		}
		assert_int_equal(end, (ssize_t)head_len);
	}
}

static unsigned
parse_text(const char *from)
{
	return parse(from, strlen(from));
}

static void
test_http_head_values(void **state)
{
	(void)state;
	assert_int_equal(parse_text(POST_HEAD
				    "CONTENT-length:12\r\nEmpty:\r\n"
				    "accept: application/json;q=0.9 ,\tTEXT/event-stream\r\n"
				    "Mcp-Name: \t a b \t\r\nX-Other: 1\r\nx-other: 2\r\n"
				    "Connection: keep-alive, Close\r\nMcp-Param-A: 1\r\n"
				    "Mcp-Param-B: 1\r\n\r\n"),
			 0);
	assert_int_equal(head.method, HTTP_POST);
	assert_string_equal(head.target, "/mcp");
	assert_int_equal(head.length, 12);
	assert_string_equal(head.value[HTTP_H_MCP_NAME], "a b");
	assert_string_equal(head.value[HTTP_H_HOST], "h");
	assert_null(head.value[HTTP_H_ORIGIN]);
	assert_true(head.accepts_json && head.accepts_stream && head.close);
}

static void
test_http_head_accept(void **state)
{
	static const struct {
		const char *accept;
		bool json, stream;
	} cases[] = {
		{"*/*", true, true},
		{"application/json", true, false},
		{"text/event-stream", false, true},
		{"text/*, application/*", true, true},
		{"application/jsonx,text/event", false, false},
		{"", false, false},
		{",,;,", false, false},
		{"x;a=\"application/json\"", false, false},
	};
	char line[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		(void)snprintf(line, sizeof(line),
			       "GET / HTTP/1.1\r\nHost: h\r\nAccept: %s\r\n\r\n", cases[i].accept);
		assert_int_equal(parse_text(line), 0);
		assert_int_equal(head.accepts_json, cases[i].json);
		assert_int_equal(head.accepts_stream, cases[i].stream);
		assert_false(head.close);
	}
	/* two lines are one list */
	assert_int_equal(parse_text("GET / HTTP/1.1\r\nHost: h\r\nAccept: text/*\r\n"
				    "Accept: application/*\r\n\r\n"),
			 0);
	assert_true(head.accepts_json && head.accepts_stream);
}

#define CASE(text, want)                     \
	{                                    \
		text, sizeof(text) - 1, want \
	}
static const struct {
	const char *text;
	size_t len;
	unsigned want;
} cases[] = {
	CASE("GET / HTTP/1.1\r\n" HOST "\r\n", 0),
	CASE("DELETE /mcp HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 0),
	CASE("OPTIONS /mcp HTTP/1.1\r\n" HOST "\r\n", 0),
	CASE(POST_HEAD "Content-Length: 8388608\r\n\r\n", 0),
	CASE(POST_HEAD "Content-Length: 8388609\r\n\r\n", 413),
	CASE(POST_HEAD "Content-Length: 99999999999999999999999\r\n\r\n", 413),
	/* line ends */
	CASE("GET / HTTP/1.1\n" HOST "\r\n", 1),
	CASE("GET / HTTP/1.1\r\nHost: h\n\r\n", 1),
	CASE("GET / HTTP/1.1\r" HOST "\r\n", 1),
	CASE("GET / HTTP/1.1\r\r\n" HOST "\r\n", 1),
	CASE("GET / HTTP/1.1\r\nHost: h\r\n\n", 1),
	CASE("\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "\r", 3),
	CASE("GET / HTTP/1.1\r\n" HOST, 3),
	CASE("", 3),
	/* bytes */
	CASE("GET / HTTP/1.1\r\nHost: h\0\r\n\r\n", 1),
	CASE("GET / HTTP/1.1\r\nHost: \x01\r\n\r\n", 1),
	CASE("GET / HTTP/1.1\r\nHost: h\xc3\xa9\r\n\r\n", 1),
	CASE("GET / HTTP/1.1\r\nHost: \x7f\r\n\r\n", 1),
	CASE("\x16\x03\x01", 1), /* TLS */
	/* the request line */
	CASE("GET  / HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("GET /  HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE(" GET / HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("GET / HTTP/1.1 \r\n" HOST "\r\n", 400),
	CASE("GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("GET /\tx HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("GET /a b HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("get / HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("GET /\r\n" HOST "\r\n", 400),
	CASE("GET\r\n" HOST "\r\n", 400),
	CASE("GET http://h/mcp HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 400),
	CASE("PRI * HTTP/2.0\r\n\r\n", 400),
	CASE("GET / HTTP/1.0\r\n" HOST "\r\n", 505),
	CASE("GET / HTTP/2.0\r\n" HOST "\r\n", 505),
	CASE("GET / HTTP/1.10\r\n" HOST "\r\n", 400),
	CASE("GET / HTTP/1.\r\n" HOST "\r\n", 400),
	CASE("GET / http/1.1\r\n" HOST "\r\n", 400),
	/* header lines */
	CASE("GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST ": v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "A : v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST " folded: v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "\tfolded: v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "A: v\r\n folded\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "A(b): v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "A@b: v\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n\r\n", 400),
	/* twice */
	CASE("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "hOST: evil\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Origin: a\r\nOrigin: a\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Authorization: a\r\nauthorization: b\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Content-Type: a\r\nContent-Type: a\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Mcp-Method: a\r\nMcp-Method: a\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Mcp-Session-Id: a\r\nmcp-session-id: a\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Mcp-Param-X: a\r\nMCP-PARAM-X: a\r\n\r\n", 400),
	/* lengths */
	CASE(POST_HEAD "\r\n", 411),
	CASE(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n", 411),
	CASE(POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: 2\r\ntransfer-encoding: identity\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: 2, 2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: +2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: -1\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: 0x2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length: 2 2\r\n\r\n", 400),
	CASE(POST_HEAD "Content-Length:\r\n\r\n", 400),
	CASE("GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n", 400),
	CASE("DELETE / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 411),
};

static void
test_http_head_strict(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned got = parse(cases[i].text, cases[i].len);

		if (got != cases[i].want)
			fail_msg("case %zu: %u, not %u: %s", i, got, cases[i].want, cases[i].text);
	}
}

static size_t
with_fields(char *out, size_t cap, unsigned fields, size_t value_len)
{
	size_t n = (size_t)snprintf(out, cap, "GET / HTTP/1.1\r\n" HOST);

	for (unsigned i = 1; i < fields; i++) {
		n += (size_t)snprintf(out + n, cap - n, "x: ");
		memset(out + n, 'v', value_len);
		n += value_len;
		n += (size_t)snprintf(out + n, cap - n, "\r\n");
	}
	return n + (size_t)snprintf(out + n, cap - n, "\r\n");
}

static void
test_http_head_limits(void **state)
{
	static char big[HTTP_HEAD_MAX * 2];
	size_t n, bare;

	(void)state;
	n = with_fields(big, sizeof(big), HTTP_FIELDS_MAX, 0);
	assert_int_equal(parse(big, n), 0);
	n = with_fields(big, sizeof(big), HTTP_FIELDS_MAX + 1, 0);
	assert_int_equal(parse(big, n), 431);
	/* exactly the maximum, and one byte more */
	bare = with_fields(big, sizeof(big), 2, 0);
	n = with_fields(big, sizeof(big), 2, HTTP_HEAD_MAX - bare);
	assert_int_equal(n, HTTP_HEAD_MAX);
	assert_int_equal(parse(big, n), 0);
	n = with_fields(big, sizeof(big), 2, HTTP_HEAD_MAX - bare + 1);
	assert_int_equal(parse(big, n), 2);
	/* no end in sight */
	memset(big, 'a', sizeof(big));
	assert_int_equal(parse(big, HTTP_HEAD_MAX - 1), 3);
	assert_int_equal(parse(big, HTTP_HEAD_MAX), 2);
	/* a target of the maximum, and one byte more */
	n = (size_t)snprintf(big, sizeof(big), "GET /%0*d HTTP/1.1\r\n" HOST "\r\n",
			     (int)HTTP_TARGET_MAX - 1, 0);
	assert_int_equal(parse(big, n), 0);
	n = (size_t)snprintf(big, sizeof(big), "GET /%0*d HTTP/1.1\r\n" HOST "\r\n",
			     (int)HTTP_TARGET_MAX, 0);
	assert_int_equal(parse(big, n), 414);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_http_head_end_is_found_once),
		cmocka_unit_test(test_http_head_values),
		cmocka_unit_test(test_http_head_accept),
		cmocka_unit_test(test_http_head_strict),
		cmocka_unit_test(test_http_head_limits),
	};

	return cmocka_run_group_tests_name("frontend_http_head", tests, NULL, NULL);
}
