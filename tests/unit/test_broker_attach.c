/* tests/unit/test_broker_attach.c - the upgrade, the queue, the frames, the ends. */
#include "test.h"

#include "../fakes/fake_server.h"
#include "engine_parts.h"

#define HEX "664fb81dfacdfe4d6f8b931d85fe608e7f791f093fe2af59ac45951b553c8747"
#define UPGRADED                                                                       \
	"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n" \
	"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
#define OLD "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"

enum { KEEP, FREE_IN_OPENED, FREE_IN_DATA, FREE_IN_CLOSED, ENGINE_IN_DATA, SEND_IN_OPENED };

static struct {
	struct event_base *base;
	struct fake_server server;
	struct engine *engine;
	struct attach *attach;
	int opened, closed, err, status, close_err;
	bool happened;
	char message[256], out[256], errs[256];
	size_t n_out;
	unsigned act;
} t;

static int
setup(void **state)
{
	struct engine_config config;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_server_start(&t.server, t.base);
	fake_server_config(&t.server, &config);
	t.engine = engine_new(t.base, &config);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	attach_free(t.attach);
	engine_free(t.engine);
	fake_server_stop(&t.server);
	event_base_free(t.base);
	return 0;
}

static void
on_opened(void *ctx, uint64_t tag, const struct engine_result *r)
{
	assert_ptr_equal(ctx, &t);
	assert_int_equal(tag, 11);
	t.opened++;
	t.happened = true;
	t.err = r->err;
	t.status = r->http_status;
	(void)snprintf(t.message, sizeof(t.message), "%s", r->message);
	if (t.act == FREE_IN_OPENED)
		attach_free(TAKE(t.attach));
	if (t.act == SEND_IN_OPENED)
		assert_int_equal(attach_send(t.attach, "now", 3), 0);
}

static void
on_data(void *ctx, uint64_t tag, int stream, const uint8_t *p, size_t n)
{
	(void)ctx;
	assert_int_equal(tag, 11);
	t.happened = true;
	t.n_out += n;
	if (n < 64)
		strncat(stream == 1 ? t.out : t.errs, (const char *)p, n);
	if (t.act == FREE_IN_DATA)
		attach_free(TAKE(t.attach));
	if (t.act == ENGINE_IN_DATA)
		engine_free(TAKE(t.engine));
}

static void
on_closed(void *ctx, uint64_t tag, int err)
{
	(void)ctx;
	assert_int_equal(tag, 11);
	t.closed++;
	t.happened = true;
	t.close_err = err;
	if (t.act == FREE_IN_CLOSED)
		attach_free(TAKE(t.attach));
}

static const struct attach_handler handler = {on_opened, on_data, on_closed};

static void
wait_one(void)
{
	fake_loop_until(t.base, &t.happened);
	t.happened = false;
}

static void
open_with(const char *reply, size_t len, bool close)
{
	t.server.replies[0].bytes = reply;
	t.server.replies[0].len = len;
	t.server.replies[0].close = close;
	t.attach = engine_attach(t.engine, HEX, &handler, &t, 11);
	assert_int_equal(t.opened, 0);
	wait_one();
}

static void
test_head_parse(void **state)
{
	static const struct {
		const char *text;
		int status; /* 0: more, -1: refused */
	} rows[] = {
		{UPGRADED, 101},
		{OLD, 200},
		{"HTTP/1.1 101 Switching Protocols\r\nupgrade: TCP\r\n\r\n", 101},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello", 404},
		{"HTTP/1.1 301\r\n\r\n", 301},
		{"", 0},
		{"HTTP/1.1 101", 0},
		{"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n", 0},
		{"HTTP/1.1 101 UPGRADED\r\n\r\n", -1},
		{"HTTP/1.1 101 UPGRADED\r\nUpgrade: h2c\r\n\r\n", -1},
		{"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp, h2c\r\n\r\n", -1},
		{"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nContent-Length: 1\r\n\r\n", -1},
		{"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nTransfer-Encoding: chunked\r\n\r\n", -1},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", -1},
		{"HTTP/1.1 204 X\r\n\r\n", -1},
		{"HTTP/1.0 101 X\r\nUpgrade: tcp\r\n\r\n", -1},
		{"HTTP/1.1 1010 X\r\nUpgrade: tcp\r\n\r\n", -1},
		{"HTTP/1.1 1x1 X\r\nUpgrade: tcp\r\n\r\n", -1},
		{"HTTP/1.1 999 X\r\n\r\n", -1},
		{"http/1.1 101 X\r\n\r\n", -1},
		{"\r\n\r\n", -1},
		{"HTTP/1.1 101 X\r\nno colon\r\n\r\n", -1},
		{"HTTP/1.1 101 X\r\n: no name\r\n\r\n", -1},
		{"HTTP/1.1 101 X\r\n folded: x\r\n\r\n", -1},
		{"HTTP/1.1 101 X\r\nA: \001\r\n\r\n", -1},
		{"HTTP/1.1 101 X\r\nA: b\nUpgrade: tcp\r\n\r\n", -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct attach_head head = {0};
		ssize_t r = attach_head_parse((const uint8_t *)rows[i].text, strlen(rows[i].text),
					      &head);

		if (rows[i].status <= 0 && r != (rows[i].status == 0 ? 0 : -EPROTO))
			fail_msg("%s gave %zd", rows[i].text, r);
		if (rows[i].status > 0 && (r <= 0 || head.status != rows[i].status))
			fail_msg("%s gave %zd, status %d", rows[i].text, r, head.status);
	}
}

static void
test_head_parse_bounds(void **state)
{
	static char big[9000];
	struct attach_head head;
	int at = snprintf(big, sizeof(big), "HTTP/1.1 101 X\r\n");

	(void)state;
	while (at < 8192)
		at += snprintf(big + at, sizeof(big) - (size_t)at, "X: %0100d\r\n", 0);
	(void)snprintf(big + at, sizeof(big) - (size_t)at, "Upgrade: tcp\r\n\r\n");
	assert_int_equal(attach_head_parse((const uint8_t *)big, strlen(big), &head), -EPROTO);
	memset(big, 'x', 8192);
	assert_int_equal(attach_head_parse((const uint8_t *)big, 8192, &head), -EPROTO);
	assert_int_equal(attach_head_parse((const uint8_t *)big, 100, &head), 0);
}

static void
test_open_and_talk(void **state)
{
	static const char reply[] = UPGRADED "\1\0\0\0\0\0\0\5early";

	(void)state;
	open_with(reply, sizeof(reply) - 1, false);
	assert_int_equal(t.err, 0);
	assert_int_equal(t.status, 101);
	fake_loop_for(t.base, 20);
	assert_string_equal(t.out, "early"); /* what came with the header */
	assert_int_equal(strncmp(t.server.request[0],
				 "POST /v1.40/containers/" HEX
				 "/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n",
				 40),
			 0);
	assert_non_null(strstr(t.server.request[0], "Host: localhost\r\n"));
	assert_int_equal(send(t.server.conns[0].fd, "\2\0\0\0\0\0\0\3err", 11, MSG_NOSIGNAL), 11);
	fake_loop_for(t.base, 20);
	assert_string_equal(t.errs, "err");
	assert_int_equal(attach_send(t.attach, "to stdin", 8), 0);
	fake_loop_for(t.base, 20);
	assert_int_equal(buf_len(&t.server.data), 8);
	fake_conn_close(&t.server.conns[0]);
	t.happened = false;
	wait_one();
	assert_int_equal(t.closed, 1);
	assert_int_equal(t.close_err, 0);
	assert_int_equal(attach_send(t.attach, "x", 1), -EPIPE);
}

static void
test_send_before_open_and_in_order(void **state)
{
	(void)state;
	t.act = SEND_IN_OPENED;
	fake_server_reply(&t.server, 0, UPGRADED);
	t.attach = engine_attach(t.engine, HEX, &handler, &t, 11);
	assert_int_equal(attach_send(t.attach, "first ", 6), 0);
	assert_int_equal(attach_send(t.attach, "second ", 7), 0);
	wait_one();
	fake_loop_for(t.base, 20);
	assert_int_equal(attach_send(t.attach, " last", 5), 0);
	fake_loop_for(t.base, 20);
	assert_int_equal(buf_len(&t.server.data), 21);
	assert_memory_equal(buf_data(&t.server.data), "first second now last", 21);
}

static void
test_queue_is_bounded(void **state)
{
	static uint8_t block[1 << 20];
	int r = 0;
	size_t n = 0;

	(void)state;
	open_with(UPGRADED, 0, false);
	(void)event_del(t.server.conns[0].ev); /* nobody reads */
	while (r == 0 && n++ < 20)
		r = attach_send(t.attach, block, sizeof(block));
	assert_int_equal(r, -ENOBUFS);
	assert_in_range(n, 4, 7);
	assert_int_equal(attach_send(t.attach, block, 5u << 20), -ENOBUFS);
	assert_int_equal(t.closed, 0);
}

static bool no_memory;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *
__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

static void
test_nothing_follows_a_torn_frame(void **state)
{
	static const uint8_t block[1 << 20];

	(void)state;
	open_with(UPGRADED, 0, false);
	(void)event_del(t.server.conns[0].ev); /* nobody reads: a part of the frame goes out */
	no_memory = true;
	int r = attach_send(t.attach, block, sizeof(block));
	no_memory = false;
	assert_int_equal(r, -EPIPE);
	assert_int_equal(attach_send(t.attach, "next", 4), -EPIPE);
	assert_int_equal(t.closed, 0);
	attach_free(TAKE(t.attach));
	/* Nor one that could not be queued before the stream was open. */
	fake_server_reply(&t.server, 1, UPGRADED);
	t.attach = engine_attach(t.engine, HEX, &handler, &t, 11);
	no_memory = true;
	r = attach_send(t.attach, "first", 5);
	no_memory = false;
	assert_int_equal(r, -EPIPE);
	wait_one();
	assert_int_equal(t.err, 0); /* what the box says is read all the same */
	assert_int_equal(attach_send(t.attach, "next", 4), -EPIPE);
}

static void
test_bad_frames(void **state)
{
	static const struct {
		const char *frame;
		size_t len;
		int err;
	} rows[] = {
		{"\4\0\0\0\0\0\0\1x", 9, -EPROTO},
		{"\0\0\0\0\0\0\0\1x", 9, -EPROTO},
		{"\1\0\0\0\377\377\377\377", 8, -EPROTO},
		{"\3\0\0\0\0\0\0\5sorry", 13, -EIO},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char reply[256];
		size_t n = strlen(UPGRADED);

		memcpy(reply, UPGRADED, n);
		memcpy(reply + n, rows[i].frame, rows[i].len);
		t.server.next = 0;
		t.server.n_requests = 0;
		t.closed = 0;
		open_with(reply, n + rows[i].len, false);
		if (t.closed == 0)
			wait_one();
		assert_int_equal(t.closed, 1);
		assert_int_equal(t.close_err, rows[i].err);
		attach_free(TAKE(t.attach));
		t.opened = 0;
	}
}

static void
test_refused(void **state)
{
	(void)state;
	open_with("HTTP/1.1 409 Conflict\r\nContent-Length: 30\r\n\r\n{\"message\":\"is being "
		  "removed\"}",
		  0, false);
	assert_int_equal(t.err, -EEXIST);
	assert_int_equal(t.status, 409);
	assert_string_equal(t.message, "is being removed");
	assert_int_equal(attach_send(t.attach, "x", 1), -EPIPE);
	attach_free(TAKE(t.attach));

	t.attach = engine_attach(t.engine, "../x", &handler, &t, 11);
	wait_one();
	assert_int_equal(t.err, -EINVAL);
	assert_int_equal(t.server.n_requests, 1);
	assert_int_equal(t.closed, 0);
}

static void
test_nothing_but_the_end(void **state)
{
	(void)state;
	open_with(NULL, 0, true);
	assert_int_equal(t.err, -ECONNRESET);
	attach_free(TAKE(t.attach));
	fake_server_reply(&t.server, 1, "what is this\r\n\r\n");
	t.attach = engine_attach(t.engine, HEX, &handler, &t, 11);
	wait_one();
	assert_int_equal(t.err, -EPROTO);
}

static void
test_free_in_each_callback(void **state)
{
	static const char reply[] = UPGRADED "\1\0\0\0\0\0\0\1a\1\0\0\0\0\0\0\1b";

	(void)state;
	for (unsigned act = FREE_IN_OPENED; act <= FREE_IN_CLOSED; act++) {
		t.act = act;
		t.server.next = 0;
		t.server.n_requests = 0;
		t.opened = 0;
		t.out[0] = '\0';
		open_with(reply, sizeof(reply) - 1, true);
		fake_loop_for(t.base, 30);
		assert_null(t.attach);
		assert_string_equal(t.out, act == FREE_IN_OPENED ? ""
					   : act == FREE_IN_DATA ? "a"
								 : "ab");
		assert_int_equal(t.closed, act == FREE_IN_CLOSED);
	}
}

static void
test_engine_freed_first(void **state)
{
	static const char reply[] = UPGRADED "\1\0\0\0\0\0\0\1a\1\0\0\0\0\0\0\1b";

	(void)state;
	t.act = ENGINE_IN_DATA;
	open_with(reply, sizeof(reply) - 1, false);
	fake_loop_for(t.base, 30);
	assert_null(t.engine);
	assert_string_equal(t.out, "a");
	assert_int_equal(attach_send(t.attach, "x", 1), -EPIPE);
	fake_loop_for(t.base, 30);
	assert_int_equal(t.closed, 0);
}

static void
test_last_words_survive_a_failed_send(void **state)
{
	(void)state;
	open_with(UPGRADED, 0, false);
	t.happened = false;
	assert_int_equal(send(t.server.conns[0].fd, "\1\0\0\0\0\0\0\4exit", 12, MSG_NOSIGNAL), 12);
	fake_conn_close(&t.server.conns[0]);
	assert_int_equal(attach_send(t.attach, "ping", 4), -EPIPE);
	assert_int_equal(attach_send(t.attach, "ping", 4), -EPIPE);
	assert_int_equal(t.closed, 0);
	while (t.closed == 0) {
		t.happened = false;
		fake_loop_until(t.base, &t.happened);
	}
	assert_string_equal(t.out, "exit");
}

static void
test_a_flood_is_read_to_its_end(void **state)
{
	static uint8_t frame[8 + 65536] = {1, 0, 0, 0, 0, 1, 0, 0};

	(void)state;
	open_with(UPGRADED, 0, false);
	for (int i = 0; i < 40; i++) {
		size_t at = 0;

		while (at < sizeof(frame)) {
			ssize_t r = send(t.server.conns[0].fd, frame + at, sizeof(frame) - at,
					 MSG_NOSIGNAL);

			if (r > 0)
				at += (size_t)r;
			else
				fake_loop_for(t.base, 1);
		}
	}
	fake_loop_for(t.base, 50);
	assert_int_equal(t.n_out, 40 * 65536);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head_parse),
		cmocka_unit_test(test_head_parse_bounds),
		T(test_open_and_talk),
		T(test_send_before_open_and_in_order),
		T(test_queue_is_bounded),
		T(test_nothing_follows_a_torn_frame),
		T(test_bad_frames),
		T(test_refused),
		T(test_nothing_but_the_end),
		T(test_free_in_each_callback),
		T(test_engine_freed_first),
		T(test_last_words_survive_a_failed_send),
		T(test_a_flood_is_read_to_its_end),
	};

	assert_int_equal(engine_global_init(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
