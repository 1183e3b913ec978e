/*
 * tests/unit/test_frontend_http.c - requests on a connection: cut anywhere, one behind the other,
 * refused, slow, and given up.
 * Runs in: ctest.
 * Input: none.
 * Owns: the transport of http_fake.h, per test.
 */
#include "http_fake.h"

#define SESSION "0123456789abcdef0123456789abcdef0123456789abcdef"
#define WHOLE FAKE_POST "Content-Length: 3\r\n\r\n[1]"

static void
test_http_message(void **state)
{
	const char *got;

	(void)state;
	fake_post("Mcp-Method: ping\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Name: n\r\n", "[1]");
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "\r\n\r\n{}"));
	assert_string_equal(message, "[1]");
	assert_string_equal(asked, "good -");
	assert_null(http->side);
	assert_int_equal(end_reason, 1);
}

static void
test_http_side(void **state)
{
	(void)state;
	answer = NULL;
	fake_post("Mcp-Method: ping\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Name: n\r\n", "[1]");
	assert_string_equal(side.method, "ping");
	assert_string_equal(side.version, "2026-07-28");
	assert_string_equal(side.name, "n");
	assert_string_equal(fake_read(), "");
}

static void
test_http_cut_anywhere(void **state)
{
	(void)state;
	for (size_t cut = 1; cut < strlen(WHOLE); cut++) {
		messages_seen = 0;
		fake_write(WHOLE, cut);
		assert_string_equal(fake_read(), "");
		assert_int_equal(messages_seen, 0);
		fake_write(&WHOLE[cut], strlen(WHOLE) - cut);
		assert_int_equal(fake_status(fake_read()), 200);
		assert_int_equal(messages_seen, 1);
	}
}

/* Requests that come early wait their turn. */
static void
test_http_one_at_a_time(void **state)
{
	static const struct sent as;
	char text[] = "{}";

	(void)state;
	answer = NULL;
	fake_say(WHOLE WHOLE WHOLE);
	assert_int_equal(messages_seen, 1);
	assert_int_equal(transport_send(http, text, 2, &as), 0);
	assert_int_equal(fake_status(fake_read()), 200);
	assert_int_equal(messages_seen, 2);
	assert_int_equal(transport_send(http, text, 2, &as), 0);
	assert_int_equal(transport_send(http, text, 2, &as), 0); /* none is due */
	assert_int_equal(fake_status(fake_read()), 200);
	assert_int_equal(messages_seen, 3);
}

/* Far more of the next than a head while one is in work: the client is cut. */
static void
test_http_pipelining_is_bounded(void **state)
{
	static char much[1 << 18];

	(void)state;
	answer = NULL;
	fake_say(WHOLE);
	memset(much, 'x', sizeof(much));
	(void)send(peer, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL);
	fake_turn();
	assert_int_equal(end_reason, -ENOBUFS);
}

static void
test_http_refused_and_on(void **state)
{
	const char *got;

	(void)state;
	fake_post("", "[1]");
	assert_int_equal(fake_status(fake_read()), 200);
	/* a body is dropped, the next request is found */
	fake_say("POST /x HTTP/1.1\r\n" FAKE_HEADERS "Content-Length: 20\r\n\r\nGET / HTTP/1.1");
	assert_string_equal(fake_read(), "");
	fake_say("\r\n\r\nab" WHOLE);
	got = fake_read();
	assert_int_equal(fake_status(got), 404);
	assert_true(has(got, "application/json"));
	assert_true(has(got, "HTTP/1.1 200 OK"));
	assert_int_equal(messages_seen, 2);
	fake_say("GET /mcp HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
	got = fake_read();
	assert_int_equal(fake_status(got), 405);
	assert_true(has(got, "Allow: POST, DELETE"));
	assert_false(has(got, "<end>"));
}

static void
test_http_refused_and_closed(void **state)
{
	static const struct {
		const char *text;
		unsigned status;
	} cases[] = {
		{"GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 403},
		{"POST /mcp HTTP/1.1\r\nHost: evil\r\nContent-Length: 5\r\n\r\n", 403},
		{"POST /mcp HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 5\r\n\r\n", 401},
		{"GET / HTTP/1.1\nHost: localhost:1\n\n", 400},
		/* nobody has shown a token yet */
		{"POST /x HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 5\r\n\r\n", 404},
		{"GET /mcp HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 405},
		{FAKE_POST "Content-Length: 9000000\r\n\r\n", 413},
		{FAKE_POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 411},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got;

		if (i > 0)
			(void)fake_setup(state);
		fake_say(cases[i].text);
		got = fake_read();
		assert_int_equal(fake_status(got), cases[i].status);
		assert_true(has(got, "Connection: close"));
		assert_true(has(got, "<end>"));
		fake_say(WHOLE); /* is not looked at */
		assert_int_equal(messages_seen, 0);
		assert_int_equal(end_reason, 1);
		assert_int_equal(shutdown(peer, SHUT_WR), 0);
		fake_turn();
		assert_int_equal(end_reason, 0);
		if (i + 1 < ARRAY_LEN(cases))
			(void)fake_teardown(state);
	}
}

static void
test_http_close_is_granted(void **state)
{
	const char *got;

	(void)state;
	times.linger_ms = 30;
	fake_post("Connection: close\r\n", "[1]");
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "Connection: close") && has(got, "<end>"));
	assert_int_equal(end_reason, 1);
	fake_wait(60);
	assert_int_equal(end_reason, 0); /* though the client did not hang up */
}

static void
test_http_expect(void **state)
{
	(void)state;
	fake_say(FAKE_POST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	assert_string_equal(fake_read(), "HTTP/1.1 100 Continue\r\n\r\n");
	fake_say("[1]");
	assert_int_equal(fake_status(fake_read()), 200);
	/* the body came along: no word is needed */
	fake_say(FAKE_POST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n[1]");
	assert_int_equal(fake_status(fake_read()), 200);
	/* refused before the body */
	fake_say("POST /x HTTP/1.1\r\n" FAKE_HEADERS
		 "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	assert_int_equal(fake_status(fake_read()), 404);
	assert_int_equal(messages_seen, 2);
}

static void
test_http_admission(void **state)
{
	static const struct {
		enum admit_word word;
		unsigned status;
		bool close;
	} cases[] = {
		{ADMIT_YES, 200, false},      {ADMIT_NO_SESSION, 404, false},
		{ADMIT_BAD_TOKEN, 401, true}, {ADMIT_CROWDED, 503, true},
		{ADMIT_NO_BROKER, 503, true},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases) * 2; i++) {
		bool later = i % 2 != 0;
		const char *got;

		if (i > 0)
			(void)fake_setup(state);
		word = later ? -1 : (int)cases[i / 2].word;
		fake_post("Mcp-Session-Id: " SESSION "\r\n", "[1]");
		assert_string_equal(asked, "good " SESSION);
		if (later) {
			assert_string_equal(fake_read(), "");
			http_admitted(http, cases[i / 2].word);
		}
		got = fake_read();
		assert_int_equal(fake_status(got), cases[i / 2].status);
		assert_int_equal(has(got, "<end>"), cases[i / 2].close);
		assert_int_equal(messages_seen, cases[i / 2].word == ADMIT_YES);
		http_admitted(http, ADMIT_YES); /* a second word means nothing */
		assert_string_equal(fake_read(), cases[i / 2].close ? "<end>" : "");
		if (i + 1 < ARRAY_LEN(cases) * 2)
			(void)fake_teardown(state);
	}
}

/* A body that is there before the broker's word: it waits. */
static void
test_http_body_before_the_word(void **state)
{
	size_t n = 300000;
	char *big = malloc(n + 1);
	size_t at = 0;

	(void)state;
	memset(big, ' ', n);
	word = -1;
	fake_say(FAKE_POST "Content-Length: 300000\r\n\r\n");
	for (int i = 0; i < 5; i++) {
		ssize_t w = send(peer, big + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		at += w > 0 ? (size_t)w : 0;
		fake_turn();
	}
	assert_true(at > 100000 && messages_seen == 0 && end_reason == 1);
	http_admitted(http, ADMIT_YES);
	while (at < n) {
		ssize_t w = send(peer, big + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		at += w > 0 ? (size_t)w : 0;
		fake_turn();
	}
	assert_int_equal(fake_status(fake_read()), 200);
	assert_int_equal(message_len, n);
	free(big);
}

static void
test_http_delete(void **state)
{
	const char *got;

	(void)state;
	fake_say("DELETE /mcp HTTP/1.1\r\n" FAKE_HEADERS "Mcp-Session-Id: " SESSION "\r\n\r\n");
	assert_string_equal(asked, "good " SESSION " close");
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "Content-Length: 0"));
	assert_int_equal(messages_seen, 0);
}

static void
test_http_modern_has_no_session(void **state)
{
	(void)state;
	fake_post("MCP-Protocol-Version: 2026-07-28\r\nMcp-Session-Id: x\r\n", "[1]");
	assert_string_equal(asked, "good -");
	assert_int_equal(fake_status(fake_read()), 200);
}

/* Each wait has its limit; what the client is told, and that it ends. */
static void
test_http_times(void **state)
{
	static const struct {
		size_t which; /* of struct http_times */
		const char *text;
		unsigned status;
	} cases[] = {
		{offsetof(struct http_times, head_ms), "", 0},
		{offsetof(struct http_times, head_ms), "POST /mcp HT", 408},
		{offsetof(struct http_times, idle_ms), WHOLE, 200},
		{offsetof(struct http_times, body_ms), FAKE_POST "Content-Length: 3\r\n\r\n[", 408},
		{offsetof(struct http_times, admit_ms), WHOLE, 503},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got;

		if (i > 0)
			(void)fake_setup(state);
		transport_free(http);
		*(uint32_t *)(void *)((char *)&times + cases[i].which) = 30;
		times.linger_ms = 30;
		assert_int_equal(
			http_new(base, ours, &fake_events, NULL, &fake_client, &times, &http), 0);
		assert_int_equal(transport_start(http), 0);
		word = cases[i].which == offsetof(struct http_times, admit_ms) ? -1 : ADMIT_YES;
		fake_say(cases[i].text);
		fake_wait(100);
		got = fake_read();
		if (fake_status(has(got, "<end>") && got[0] == '<' ? "" : got) != cases[i].status)
			fail_msg("case %zu: %s", i, got);
		assert_int_equal(end_reason, 0);
		if (i + 1 < ARRAY_LEN(cases))
			(void)fake_teardown(state);
	}
}

/* One byte now and then does not prolong a head's or a body's time. */
static void
test_http_slow_bytes(void **state)
{
	(void)state;
	fake_post("", "[1]");
	assert_int_equal(fake_status(fake_read()), 200);
	times.head_ms = 50;
	times.linger_ms = 10;
	for (int i = 0; i < 12; i++) {
		(void)send(peer, "P", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		fake_wait(10);
	}
	assert_int_equal(fake_status(fake_read()), 408);
	assert_int_equal(end_reason, 0);
}

/* What comes late does not begin the first head's time anew. */
static void
test_http_first_head(void **state)
{
	(void)state;
	transport_free(http);
	times.head_ms = 60;
	times.linger_ms = 10;
	assert_int_equal(http_new(base, ours, &fake_events, NULL, &fake_client, &times, &http), 0);
	assert_int_equal(transport_start(http), 0);
	fake_wait(40);
	fake_say("POST /mcp HT");
	fake_wait(35);
	assert_int_equal(fake_status(fake_read()), 408);
	assert_int_equal(end_reason, 0);
}

static void
test_http_client_leaves(void **state)
{
	static const char *const at[] = {"", "POST /m", FAKE_POST "Content-Length: 3\r\n\r\n[",
					 WHOLE};

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		if (i > 0)
			(void)fake_setup(state);
		answer = NULL;
		fake_say(at[i]);
		assert_int_equal(end_reason, 1);
		if (i % 2 == 0) {
			(void)close(peer);
			peer = -1;
		} else {
			(void)shutdown(peer, SHUT_WR);
		}
		fake_turn();
		assert_int_equal(end_reason, 0);
		if (i + 1 < ARRAY_LEN(at))
			(void)fake_teardown(state);
	}
}

static void
test_http_stop_reading(void **state)
{
	static const struct sent as;
	char text[] = "{}";

	(void)state;
	answer = NULL;
	fake_say(WHOLE);
	transport_stop_reading(http);
	fake_say(WHOLE);
	assert_int_equal(transport_send(http, text, 2, &as), 0);
	assert_int_equal(fake_status(fake_read()), 200); /* what was asked is answered */
	assert_int_equal(messages_seen, 1);
	assert_int_equal(transport_queued(http), 0);
}

static void
test_http_big_body(void **state)
{
	static char big[MESSAGE_MAX];
	size_t at = 0;

	(void)state;
	memset(big, ' ', sizeof(big));
	fake_say(FAKE_POST "Content-Length: 8388608\r\n\r\n");
	while (at < sizeof(big)) {
		ssize_t n = send(peer, big + at, sizeof(big) - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			at += (size_t)n;
		fake_turn();
	}
	assert_int_equal(fake_status(fake_read()), 200);
	assert_int_equal(message_len, MESSAGE_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_http_message),
		FAKE(test_http_side),
		FAKE(test_http_cut_anywhere),
		FAKE(test_http_one_at_a_time),
		FAKE(test_http_pipelining_is_bounded),
		FAKE(test_http_refused_and_on),
		FAKE(test_http_refused_and_closed),
		FAKE(test_http_close_is_granted),
		FAKE(test_http_expect),
		FAKE(test_http_admission),
		FAKE(test_http_body_before_the_word),
		FAKE(test_http_delete),
		FAKE(test_http_modern_has_no_session),
		FAKE(test_http_times),
		FAKE(test_http_slow_bytes),
		FAKE(test_http_first_head),
		FAKE(test_http_client_leaves),
		FAKE(test_http_stop_reading),
		FAKE(test_http_big_body),
	};

	return cmocka_run_group_tests_name("frontend_http", tests, NULL, NULL);
}
