/* tests/unit/test_broker_http.c - requests, streams, raw connections; who may free what when. */
#include "test.h"

#include "../fakes/fake_server.h"
#include "engine_parts.h"

static struct {
	struct event_base *base;
	struct fake_server server;
	struct engine_config config;
	struct http *http;
	struct http_op *op;
	int answers, opened;
	bool done, free_all;
	int err, status;
	char body[4096], message[256], api[32], fed[4096];
} t;

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_server_start(&t.server, t.base);
	fake_server_config(&t.server, &t.config);
	t.http = http_new(t.base, &t.config);
	assert_non_null(t.http);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	http_free(t.http);
	fake_server_stop(&t.server);
	event_base_free(t.base);
	return 0;
}

static void
on_done(void *ctx, const struct http_reply *r)
{
	assert_ptr_equal(ctx, &t);
	t.answers++;
	t.done = true;
	t.err = r->err;
	t.status = r->status;
	(void)str_copy(t.body, sizeof(t.body), (const char *)r->body, r->len);
	(void)snprintf(t.message, sizeof(t.message), "%s", r->message);
	(void)snprintf(t.api, sizeof(t.api), "%s", r->api);
	if (t.free_all)
		http_free(TAKE(t.http));
	/* what the reply borrowed is still there */
	assert_int_equal(strlen(r->message), strlen(t.message));
}

static struct http_request
request(const char *method, const char *body)
{
	return (struct http_request){
		.method = method,
		.path = "/v1.41/x?a=b",
		.body = body,
		.body_len = body != NULL ? strlen(body) : 0,
		.deadline_ms = 400,
		.reply_max = 1000,
		.ctx = &t,
		.done = on_done,
	};
}

static void
ask(const char *method, const char *body)
{
	struct http_request req = request(method, body);

	t.done = false;
	t.op = http_start(t.http, &req);
	assert_false(t.done); /* never from inside the start */
	fake_loop_until(t.base, &t.done);
}

static void
test_get(void **state)
{
	(void)state;
	fake_server_reply(
		&t.server, 0,
		"HTTP/1.1 200 OK\r\napi-VERSION:  1.41 \r\nContent-Length: 5\r\n\r\nhello");
	ask("GET", NULL);
	assert_int_equal(t.err, 0);
	assert_int_equal(t.status, 200);
	assert_string_equal(t.body, "hello");
	assert_string_equal(t.api, "1.41");
	assert_string_equal(t.message, "");
	assert_int_equal(strncmp(t.server.request[0], "GET /v1.41/x?a=b HTTP/1.1\r\n", 27), 0);
	assert_non_null(strstr(t.server.request[0], "Host: localhost\r\n"));
	assert_null(strstr(t.server.request[0], "Expect"));
}

static void
test_methods_and_bodies(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		fake_server_reply(&t.server, i, "HTTP/1.1 204 No Content\r\n\r\n");
	ask("POST", "{\"a\":1}");
	assert_int_equal(t.status, 204);
	assert_non_null(strstr(t.server.request[0], "POST /v1.41/x"));
	assert_non_null(strstr(t.server.request[0], "Content-Type: application/json\r\n"));
	assert_non_null(strstr(t.server.request[0], "Content-Length: 7\r\n"));
	assert_non_null(strstr(t.server.request[0], "\r\n\r\n{\"a\":1}"));
	ask("POST", NULL);
	assert_non_null(strstr(t.server.request[1], "Content-Length: 0\r\n"));
	ask("DELETE", NULL);
	assert_non_null(strstr(t.server.request[2], "DELETE /v1.41/x"));
	ask("GET", NULL);
	/* each change on a connection of its own; the GET takes a kept one */
	assert_int_equal(t.server.n_accepted, 3);
}

static void
test_a_status_is_no_error(void **state)
{
	(void)state;
	fake_server_reply(&t.server, 0,
			  "HTTP/1.1 301 Moved\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n");
	ask("GET", NULL);
	assert_int_equal(t.err, 0);
	assert_int_equal(t.status, 301);
	assert_int_equal(t.server.n_requests, 1);
}

static void
test_deadline(void **state)
{
	uint64_t from = clock_now_ms();

	(void)state;
	ask("GET", NULL);
	assert_int_equal(t.err, -ETIMEDOUT);
	assert_in_range(clock_now_ms() - from, 400, 410);
	assert_non_null(strstr(t.message, "unix:/tmp/bailey-unit."));
}

static void
test_too_large(void **state)
{
	static char big[4000];

	(void)state;
	(void)snprintf(big, sizeof(big), "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n%01001d",
		       0);
	fake_server_reply(&t.server, 0, big);
	ask("GET", NULL);
	assert_int_equal(t.err, -EPROTO);
	assert_non_null(strstr(t.message, "more than it may"));
	fake_server_reply(&t.server, 1, big);
	(void)snprintf(big, sizeof(big), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n%01000d",
		       0);
	ask("GET", NULL);
	assert_int_equal(t.err, 0);
}

static void
test_headers_too_large(void **state)
{
	static char big[40000];
	int at = snprintf(big, sizeof(big), "HTTP/1.1 200 OK\r\n");

	(void)state;
	while (at < 17000)
		at += snprintf(big + at, sizeof(big) - (size_t)at, "X: %0200d\r\n", 0);
	(void)snprintf(big + at, sizeof(big) - (size_t)at, "Content-Length: 0\r\n\r\n");
	fake_server_reply(&t.server, 0, big);
	ask("GET", NULL);
	assert_int_equal(t.err, -EPROTO);
}

static void
test_endings(void **state)
{
	static const struct {
		const char *bytes;
		int err;
	} rows[] = {
		{NULL, -ECONNRESET},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", -ECONNRESET},
		{"\001\002garbage\r\n\r\n", -EPROTO},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		 -ECONNRESET}, /* in libcurl's eyes */
		{"HTTP/1.1 200 OK\r\n\r\nuntil the end", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		t.server.replies[i].bytes = rows[i].bytes;
		t.server.replies[i].close = true;
		ask("DELETE", NULL); /* without a body: an unread one would reset */
		assert_int_equal(t.err, rows[i].err);
	}
	assert_string_equal(t.body, "until the end");
}

static void
on_raw(void *ctx, int err, const char *message)
{
	(void)ctx;
	t.done = true;
	t.err = err;
	(void)snprintf(t.message, sizeof(t.message), "%s", message);
}

static void
test_cancel_and_free(void **state)
{
	struct http_request req = request("GET", NULL);

	(void)state;
	http_cancel(http_start(t.http, &req));
	t.op = http_start(t.http, &req);
	fake_loop_for(t.base, 20);
	http_cancel(t.op);
	http_cancel(NULL);
	(void)http_start(t.http, &req);
	(void)http_raw_open(t.http, 1000, &t, on_raw);
	fake_loop_for(t.base, 20);
	(void)http_start(t.http, &req);
	http_free(TAKE(t.http));
	fake_loop_for(t.base, 100);
	assert_int_equal(t.answers, 0);
}

static void
test_free_inside_a_callback(void **state)
{
	struct http_request req = request("GET", NULL);

	(void)state;
	fake_server_reply(&t.server, 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	t.free_all = true;
	(void)http_start(t.http, &req);
	(void)http_start(t.http, &req);
	fake_loop_until(t.base, &t.done);
	fake_loop_for(t.base, 50);
	assert_int_equal(t.answers, 1);
	assert_string_equal(t.body, "hi");
}

static void
test_a_request_that_cannot_start(void **state)
{
	static char path[2000];
	struct http_request req = request("GET", NULL);

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	req.path = path;
	(void)http_start(t.http, &req);
	assert_false(t.done);
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.err, -EPROTO);
	http_cancel(http_start(t.http, &req)); /* before it was told */
	fake_loop_for(t.base, 20);
	assert_int_equal(t.answers, 1);
}

static void
test_too_many(void **state)
{
	struct http_request req = request("GET", NULL);

	(void)state;
	for (int i = 0; i < 1024; i++)
		(void)http_start(t.http, &req);
	(void)http_start(t.http, &req);
	t.free_all = true;
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.err, -EBUSY);
	assert_int_equal(t.answers, 1);
}

/* ---- streams ---- */

static void
on_opened(void *ctx)
{
	(void)ctx;
	t.opened++;
}

static void
on_fed(void *ctx, struct buf *in)
{
	const uint8_t *end;

	(void)ctx;
	assert_int_equal(t.opened, 1);
	while ((end = memchr(buf_data(in), '\n', buf_len(in))) != NULL) {
		size_t n = (size_t)(end - buf_data(in)) + 1;

		strncat(t.fed, (const char *)buf_data(in), n);
		buf_consume(in, n);
	}
	t.done = true;
	if (strstr(t.fed, "stop") != NULL)
		http_cancel(TAKE(t.op));
}

static void
stream(const char *reply, bool close)
{
	struct http_request req = request("GET", NULL);

	req.opened = on_opened;
	req.fed = on_fed;
	req.deadline_ms = 150;
	t.server.replies[t.server.next].bytes = reply;
	t.server.replies[t.server.next].close = close;
	t.done = false;
	t.op = http_start(t.http, &req);
}

static void
test_stream(void **state)
{
	(void)state;
	stream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n5\r\ntwo\nt\r\n",
	       false);
	fake_loop_until(t.base, &t.done);
	assert_string_equal(t.fed, "one\ntwo\n");
	fake_loop_for(t.base, 300); /* the deadline was for the headers only */
	assert_int_equal(t.answers, 0);
	assert_int_equal(send(t.server.conns[0].fd, "6\r\nhree\nx\r\n0\r\n\r\n", 17, MSG_NOSIGNAL),
			 17);
	t.done = false;
	fake_loop_until(t.base, &t.done);
	fake_loop_for(t.base, 20);
	assert_string_equal(t.fed, "one\ntwo\nthree\n");
	assert_int_equal(t.answers, 1);
	assert_string_equal(t.body, "x"); /* what nobody took */
}

static void
test_stream_without_headers(void **state)
{
	(void)state;
	stream(NULL, false);
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.err, -ETIMEDOUT);
	assert_int_equal(t.opened, 0);
	assert_int_equal(t.answers, 1);
}

static void
test_stream_refused(void **state)
{
	(void)state;
	stream("HTTP/1.1 500 X\r\nContent-Length: 3\r\n\r\nbad", false);
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.opened, 0);
	assert_int_equal(t.status, 500);
	assert_string_equal(t.body, "bad");
}

static void
test_stream_cancelled_by_its_reader(void **state)
{
	(void)state;
	stream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstop\n\r\n", true);
	fake_loop_until(t.base, &t.done);
	fake_loop_for(t.base, 50);
	assert_int_equal(t.answers, 0);
}

static void
test_nobody_there(void **state)
{
	(void)state;
	http_free(t.http);
	(void)snprintf(t.config.path, sizeof(t.config.path), "/nonesuch/socket");
	t.http = http_new(t.base, &t.config);
	ask("GET", NULL);
	assert_int_equal(t.err, -ENOTCONN);
	assert_string_equal(t.message, "cannot connect to the engine at unix:/nonesuch/socket: "
				       "No such file or directory");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_get),
		T(test_methods_and_bodies),
		T(test_a_status_is_no_error),
		T(test_deadline),
		T(test_too_large),
		T(test_headers_too_large),
		T(test_endings),
		T(test_cancel_and_free),
		T(test_free_inside_a_callback),
		T(test_a_request_that_cannot_start),
		T(test_too_many),
		T(test_stream),
		T(test_stream_without_headers),
		T(test_stream_refused),
		T(test_stream_cancelled_by_its_reader),
		T(test_nobody_there),
	};

	assert_int_equal(http_global_init(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
