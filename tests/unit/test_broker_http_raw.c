/* tests/unit/test_broker_http_raw.c - connections without HTTP. */
#include "test.h"

#include "../fakes/fake_server.h"
#include "engine_parts.h"

static struct {
	struct event_base *base;
	struct fake_server server;
	struct engine_config config;
	struct http *http;
	struct http_raw *raw;
	bool done;
	int err;
	char message[256];
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
	(void)ctx;
	t.done = true;
	t.err = r->err;
}

static void
on_raw(void *ctx, int err, const char *message)
{
	assert_ptr_equal(ctx, &t);
	t.done = true;
	t.err = err;
	(void)snprintf(t.message, sizeof(t.message), "%s", message);
}

static ssize_t
recv_some(char *in, size_t cap)
{
	ssize_t n = -EAGAIN;

	for (int i = 0; i < 100 && n == -EAGAIN; i++) {
		fake_loop_for(t.base, 20);
		n = http_raw_recv(t.raw, in, cap);
	}
	return n;
}

static void
test_raw(void **state)
{
	char in[64];

	(void)state;
	t.raw = http_raw_open(t.http, 1000, &t, on_raw);
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.err, 0);
	assert_true(http_raw_fd(t.raw) >= 0);
	assert_false(http_raw_same_retry(t.raw));
	assert_int_equal(http_raw_recv(t.raw, in, sizeof(in)), -EAGAIN);
	fake_server_reply(&t.server, 0, "HTTP/1.1 101 x\r\n\r\n");
	assert_int_equal(http_raw_send(t.raw, "first", 5), 5);
	assert_int_equal(recv_some(in, sizeof(in)), 18);
	assert_int_equal(http_raw_send(t.raw, "second", 6), 6);
	for (int i = 0; i < 100 && buf_len(&t.server.data) < 6; i++)
		fake_loop_for(t.base, 20);
	assert_int_equal(buf_len(&t.server.data), 6);
	fake_conn_close(&t.server.conns[0]);
	assert_int_equal(http_raw_recv(t.raw, in, sizeof(in)), 0);
	assert_int_equal(http_raw_send(t.raw, "x", 1), -EPIPE);
	http_raw_close(t.raw);
	http_raw_close(NULL);
}

static void
test_raw_outlives_idle_connections(void **state)
{
	struct http_raw *raw[10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
		t.done = false;
		raw[i] = http_raw_open(t.http, 1000, &t, on_raw);
		fake_loop_until(t.base, &t.done);
		assert_int_equal(t.err, 0);
	}
	for (size_t i = 0; i < 6; i++) {
		fake_server_reply(&t.server, i, "HTTP/1.1 204 X\r\n\r\n");
		t.done = false;
		(void)http_start(t.http, &(struct http_request){.method = "POST",
								.path = "/x",
								.deadline_ms = 1000,
								.ctx = &t,
								.done = on_done});
		fake_loop_until(t.base, &t.done);
		assert_int_equal(t.err, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
		assert_int_equal(http_raw_send(raw[i], "x", 1), 1);
		http_raw_close(raw[i]);
	}
	fake_loop_for(t.base, 20);
}

static void
test_nobody_there(void **state)
{
	(void)state;
	http_free(t.http);
	(void)snprintf(t.config.path, sizeof(t.config.path), "/nonesuch/socket");
	t.http = http_new(t.base, &t.config);
	t.raw = http_raw_open(t.http, 1000, &t, on_raw);
	assert_false(t.done);
	fake_loop_until(t.base, &t.done);
	assert_int_equal(t.err, -ENOTCONN);
	assert_string_equal(t.message, "cannot connect to the engine at unix:/nonesuch/socket: "
				       "No such file or directory");
	http_raw_close(t.raw);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_raw),
		T(test_raw_outlives_idle_connections),
		T(test_nobody_there),
	};

	assert_int_equal(http_global_init(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
