/*
 * tests/unit/test_frontend_http_send.c - answers: JSON or events, held, none; and slow readers.
 * Runs in: ctest.
 * Input: none.
 * Owns: the transport of http_fake.h, per test.
 */
#include "http_fake.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct sent last = {.rev = REV_2025_11_25};
static const struct sent more = {.more = true, .rev = REV_2025_11_25};

static void
put(const char *text, const struct sent *as)
{
	char copy[64];

	(void)snprintf(copy, sizeof(copy), "%s", text);
	assert_int_equal(transport_send(http, copy, strlen(copy), as), 0);
}

static void
begin(const char *headers)
{
	answer = NULL;
	fake_post(headers, "[1]");
	assert_int_equal(messages_seen, 1);
	assert_string_equal(fake_read(), "");
}

static void
test_http_send_json(void **state)
{
	static const struct sent refused = {.code = RPC_PARAMS, .refused = true};
	const char *got;

	(void)state;
	begin("");
	put("{\"a\":1}", &refused);
	got = fake_read();
	assert_int_equal(fake_status(got), 400);
	assert_true(has(got, "Content-Type: application/json\r\n"));
	assert_true(has(got, "\r\n\r\n{\"a\":1}"));
}

static void
test_http_send_mismatch_closes(void **state)
{
	static const struct sent mismatch = {.code = RPC_HEADER, .rev = REV_2026_07_28};
	const char *got;

	(void)state;
	begin("");
	put("{}", &mismatch);
	got = fake_read();
	assert_int_equal(fake_status(got), 400);
	assert_true(has(got, "Connection: close") && has(got, "<end>"));
}

static void
test_http_send_events(void **state)
{
	const char *got;

	(void)state;
	begin("");
	put("{\"n\":1}", &more);
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "Content-Type: text/event-stream\r\n"));
	assert_true(has(got, "event: message\ndata: {\"n\":1}\n\n"));
	assert_false(has(got, "\r\n0\r\n"));
	put("{\"n\":2}", &more);
	put("{\"r\":1}", &last);
	got = fake_read();
	assert_int_equal(strncmp(got, "1e\r\nevent: message\ndata: {\"n\":2}\n\n\r\n", 36), 0);
	assert_true(has(got, "data: {\"r\":1}\n\n\r\n0\r\n\r\n"));
	/* the connection serves on */
	answer = "{}";
	fake_post("", "[2]");
	assert_int_equal(fake_status(fake_read()), 200);
}

static void
test_http_send_alone_is_dropped(void **state)
{
	static const struct sent alone = {.more = true, .alone = true};

	(void)state;
	put("{}", &more); /* nobody asked anything */
	begin("");
	put("{}", &alone);
	assert_string_equal(fake_read(), "");
	put("{}", &last);
	assert_true(has(fake_read(), "application/json"));
	put("{}", &last);
	assert_string_equal(fake_read(), "");
}

static void
test_http_send_nothing(void **state)
{
	const char *got;

	(void)state;
	transport_send_nothing(http, true);
	begin("");
	transport_send_nothing(http, false);
	got = fake_read();
	assert_int_equal(fake_status(got), 202);
	assert_true(has(got, "Content-Length: 0\r\n"));
	/* a request that was cancelled: a stream without an answer */
	fake_post("", "[2]");
	transport_send_nothing(http, true);
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "text/event-stream") && has(got, "\r\n\r\n0\r\n\r\n"));
	/* the same in the middle of a stream */
	fake_post("", "[3]");
	put("{}", &more);
	(void)fake_read();
	transport_send_nothing(http, false);
	assert_string_equal(fake_read(), "0\r\n\r\n");
}

static void
test_http_send_beats(void **state)
{
	const char *got;

	(void)state;
	times.beat_ms = 30;
	begin("");
	fake_wait(100);
	got = fake_read();
	assert_true(has(got, "text/event-stream"));
	assert_true(has(got, "3\r\n:\n\n\r\n3\r\n:\n\n\r\n"));
	put("{\"r\":1}", &last);
	assert_true(has(fake_read(), "data: {\"r\":1}\n\n\r\n0\r\n\r\n"));
	fake_wait(60);
	assert_string_equal(fake_read(), ""); /* over */
}

static void
test_http_send_session(void **state)
{
	const char *got;

	(void)state;
	begin("");
	http_hold(http);
	put("{\"r\":1}", &last);
	assert_string_equal(fake_read(), "");
	http_session(http, ID);
	got = fake_read();
	assert_int_equal(fake_status(got), 200);
	assert_true(has(got, "\r\nMcp-Session-Id: " ID "\r\n"));
	assert_true(has(got, "\r\n\r\n{\"r\":1}"));
	http_session(http, ID);
	assert_string_equal(fake_read(), "");
	/* it is told once */
	answer = "{}";
	fake_post("", "[2]");
	assert_false(has(fake_read(), "Session"));
}

static void
test_http_send_no_session(void **state)
{
	const char *got;

	(void)state;
	begin("");
	http_hold(http);
	put("{\"r\":1}", &last);
	http_session(http, NULL);
	got = fake_read();
	assert_int_equal(fake_status(got), 503);
	assert_false(has(got, "\"r\""));
	/* nor in time */
	times.admit_ms = 30;
	fake_post("", "[2]");
	http_hold(http);
	put("{\"r\":2}", &last);
	fake_wait(60);
	assert_int_equal(fake_status(fake_read()), 503);
	fake_post("", "[3]");
	put("{\"r\":3}", &last);
	assert_true(has(fake_read(), "{\"r\":3}"));
}

/* A client that reads nothing: bytes are queued, then it is cut; what it reads prolongs that. */
static void
test_http_send_stalled(void **state)
{
	size_t n = 1 << 20;
	char *big = malloc(n + 1);
	static char sink[1 << 18];

	(void)state;
	memset(big, 'x', n);
	times.stall_ms = 80;
	begin("");
	assert_int_equal(transport_send(http, big, n, &more), 0);
	assert_true(transport_queued(http) > 0);
	for (int i = 0; i < 3; i++) {
		fake_wait(50);
		assert_int_equal(end_reason, 1);
		assert_true(recv(peer, sink, sizeof(sink), MSG_DONTWAIT) > 0);
	}
	fake_wait(150);
	assert_int_equal(end_reason, -ETIMEDOUT);
	free(big);
}

static void
test_http_send_queue_full(void **state)
{
	size_t n = 1 << 20, sent = 0, fits = SEND_QUEUE_MAX / n;
	char *big = malloc(n + 1);
	int r = 0;

	(void)state;
	memset(big, 'x', n);
	begin("");
	while (r == 0 && sent < 2 * fits) {
		r = transport_send(http, big, n, &more);
		sent++;
	}
	assert_int_equal(r, -ENOBUFS);
	assert_true(sent >= fits && sent < fits + 4); /* some are in the socket */
	fake_turn();
	assert_int_equal(end_reason, -ENOBUFS);
	free(big);
}

static void
test_http_send_drains(void **state)
{
	size_t n = 1 << 20;
	char *big = malloc(n + 1);
	size_t got = 0;

	(void)state;
	memset(big, 'x', n);
	begin("Connection: close\r\n");
	assert_int_equal(transport_send(http, big, n, &last), 0);
	while (transport_queued(http) > 0)
		got += strlen(fake_read());
	assert_int_equal(drained, 1);
	got += strlen(fake_read()); /* with its end */
	assert_true(got > n);
	free(big);
}

/* Requests of a client that does not read: the next one waits for the last one's answer. */
static void
test_http_send_before_the_next(void **state)
{
	size_t n = 1 << 20;
	char *big = malloc(n + 1);
	size_t got = 0;

	(void)state;
	memset(big, 'x', n);
	begin("");
	fake_post("", "[2]");
	fake_post("", "[3]");
	assert_int_equal(messages_seen, 1);
	assert_int_equal(transport_send(http, big, n, &last), 0);
	fake_turn();
	assert_true(transport_queued(http) > 0);
	assert_int_equal(messages_seen, 1);
	answer = "{}";
	while (transport_queued(http) > 0 && got < 2 * n)
		got += strlen(fake_read());
	(void)fake_read();
	assert_int_equal(messages_seen, 3);
	free(big);
}

/* A client that closed before the answer. */
static void
test_http_send_gone(void **state)
{
	(void)state;
	begin("");
	(void)close(peer);
	peer = -1;
	(void)transport_send(http, (char[]){"{}"}, 2, &last);
	fake_turn();
	assert_true(end_reason == -EPIPE || end_reason == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_http_send_json),    FAKE(test_http_send_mismatch_closes),
		FAKE(test_http_send_events),  FAKE(test_http_send_alone_is_dropped),
		FAKE(test_http_send_nothing), FAKE(test_http_send_beats),
		FAKE(test_http_send_session), FAKE(test_http_send_no_session),
		FAKE(test_http_send_stalled), FAKE(test_http_send_queue_full),
		FAKE(test_http_send_drains),  FAKE(test_http_send_before_the_next),
		FAKE(test_http_send_gone),
	};

	return cmocka_run_group_tests_name("frontend_http_send", tests, NULL, NULL);
}
