/*
 * tests/unit/test_frontend_stdio.c - the transport: lines, limits, queues, ends.
 * Runs in: ctest.
 * Input: none.
 * Owns: the loop, the pipes and the transport, per test.
 */
#include "test.h"

#include <signal.h>

#include "message.h"

static struct event_base *base;
static struct transport *transport;
static int to, from; /* the client's ends */
static int ours_in, ours_out;
static char seen[1 << 16]; /* what the handlers saw, one word each */
static int ended_with;
static unsigned messages, drained;
static bool answer_big; /* each message is answered with 1 MiB */

static const struct sent whole;

static void
note(const char *word, size_t n)
{
	size_t have = strlen(seen);

	assert_true(have + n + 2 < sizeof(seen));
	if (have > 0)
		seen[have++] = '|';
	memcpy(seen + have, word, n);
	seen[have + n] = '\0';
}

static void
on_message(void *ctx, char *text, size_t len)
{
	assert_ptr_equal(ctx, &base);
	assert_int_equal(text[len], '\0');
	messages++;
	if (len < 100)
		note(text, len);
	else
		note("long", 4);
	if (answer_big) {
		size_t n = 1 << 20;
		char *big = malloc(n + 1);

		memset(big, 'x', n);
		(void)transport_send(transport, big, n, &whole);
		free(big);
	}
}

static void
on_oversize(void *ctx)
{
	(void)ctx;
	note("OVERSIZE", 8);
}

static void
on_end(void *ctx, int reason)
{
	(void)ctx;
	assert_int_equal(ended_with, 1); /* once */
	ended_with = reason;
}

static void
on_drained(void *ctx)
{
	(void)ctx;
	drained++;
}

static const struct transport_events events = {.on_message = on_message,
					       .on_oversize = on_oversize,
					       .on_end = on_end,
					       .on_drained = on_drained};

static void
start_on(int in, int out)
{
	seen[0] = '\0';
	ended_with = 1;
	messages = drained = 0;
	answer_big = false;
	base = event_base_new();
	ours_in = in;
	ours_out = out;
	assert_int_equal(stdio_new(base, in, out, &events, &base, &transport), 0);
	assert_int_equal(transport_start(transport), 0);
}

static int
setup(void **state)
{
	int in[2], out[2];

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	to = in[1];
	from = out[0];
	(void)fd_set_nonblock(from);
	start_on(in[0], out[1]);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	transport_free(transport);
	event_base_free(base);
	(void)close(to);
	(void)close(from);
	(void)close(ours_in);
	(void)close(ours_out);
	return 0;
}

static void
spin(void)
{
	for (int i = 0; i < 50; i++)
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
}

static void
say(const char *text, size_t n)
{
	while (n > 0) {
		size_t piece = n < 65536 ? n : 65536;

		assert_int_equal(write(to, text, piece), (ssize_t)piece);
		spin();
		text += piece;
		n -= piece;
	}
}

static void
test_stdio_lines(void **state)
{
	static const struct {
		const char *in, *seen;
	} rows[] = {
		{"a\n", "a"},       {"a\r\nb\n", "a|b"}, {"\n\r\n\n", ""}, {"a\n\nb\n", "a|b"},
		{"a\rb\n", "a\rb"}, {"ab", ""},          {"c\nd", "abc"},  {"\n", "d"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		seen[0] = '\0';
		say(rows[i].in, strlen(rows[i].in));
		assert_string_equal(seen, rows[i].seen);
	}
}

static void
test_stdio_oversize_is_skipped(void **state)
{
	size_t n = MESSAGE_MAX + 1;
	char *big = malloc(n + 8);

	(void)state;
	memset(big, 'x', n);
	memcpy(big + n, "\r\n", 2);
	say(big + 1, n + 1); /* the \r does not count */
	assert_string_equal(seen, "long");
	seen[0] = '\0';
	memcpy(big + n, "\nafter\n", 7);
	say(big + 1, n + 6); /* just the maximum */
	assert_string_equal(seen, "long|after");
	seen[0] = '\0';
	say(big, n + 7);
	assert_string_equal(seen, "OVERSIZE|after");
	seen[0] = '\0';
	for (int i = 0; i < 3; i++)
		say(big, n); /* one message of three times that, told once */
	say("\nafter\n", 7);
	assert_string_equal(seen, "OVERSIZE|after");
	free(big);
}

static void
test_stdio_send_queues_and_drains(void **state)
{
	size_t n = 1 << 20, got = 0;
	char *big = malloc(n + 1), *back = malloc(n + 1);

	(void)state;
	memset(big, 'y', n);
	assert_int_equal(transport_send(transport, big, n, &whole), 0);
	assert_true(transport_queued(transport) > 0);
	while (got < n + 1) {
		ssize_t r = read(from, back, n);

		if (r > 0)
			got += (size_t)r;
		spin();
	}
	assert_int_equal(got, n + 1);
	assert_int_equal(transport_queued(transport), 0);
	assert_int_equal(drained, 1);
	free(big);
	free(back);
}

/* A buffer is taken where much of it must wait, and left where it need not. */
static void
test_stdio_send_takes_the_buffer(void **state)
{
	static const size_t sizes[] = {10, 1 << 20, 1 << 20};
	char *back = malloc(1 << 20);
	struct sent as = whole;
	size_t due = 0, got = 0;
	struct buf own;

	(void)state;
	as.own = &own;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		uint8_t *room;

		buf_init(&own, sizes[i] + 1);
		assert_int_equal(buf_reserve(&own, sizes[i] + 1, &room), 0);
		memset(room, 'y', sizes[i] + 1);
		buf_commit(&own, sizes[i] + 1);
		assert_int_equal(transport_send(transport, (char *)own.data, sizes[i], &as), 0);
		due += sizes[i] + 1;
		assert_int_equal(own.data == NULL, i == 1); /* the third goes behind it */
		buf_done(&own);
	}
	while (got < due) {
		ssize_t r = read(from, back, 1 << 20);

		if (r > 0)
			got += (size_t)r;
		spin();
	}
	assert_int_equal(got, due);
	assert_int_equal(back[0], 'y');
	assert_int_equal(transport_queued(transport), 0);
	free(back);
}

/* A client that reads nothing is not read from either; when it reads, all its lines come. */
static void
test_stdio_pauses_among_lines(void **state)
{
	char *sink = malloc(1 << 20);
	unsigned at_pause;

	(void)state;
	answer_big = true;
	say("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n", 45);
	at_pause = messages;
	assert_true(at_pause >= 4 && at_pause < 8);
	say("19\n", 3);
	assert_int_equal(messages, at_pause);
	answer_big = false;
	while (transport_queued(transport) > 0) {
		(void)read(from, sink, 1 << 20);
		spin();
	}
	spin();
	assert_int_equal(messages, 19);
	free(sink);
}

static void
test_stdio_queue_full_cuts_the_client(void **state)
{
	size_t n = 1 << 20;
	char *big = calloc(1, n + 1);
	int r = 0;

	(void)state;
	for (int i = 0; i < 64 && r == 0; i++)
		r = transport_send(transport, big, n, &whole);
	assert_int_equal(r, -ENOBUFS);
	assert_true(transport_queued(transport) <= SEND_QUEUE_MAX);
	assert_int_equal(ended_with, 1); /* told from the loop only */
	spin();
	assert_int_equal(ended_with, -ENOBUFS);
	assert_int_equal(transport_send(transport, big, 1, &whole), -ENOBUFS);
	free(big);
}

static void
test_stdio_end_of_input(void **state)
{
	(void)state;
	say("cut", 3);
	(void)close(to);
	to = -1;
	spin();
	assert_int_equal(ended_with, 0);
	assert_string_equal(seen, "");
	assert_true(transport->end_is_hangup);
}

static void
test_stdio_reader_gone(void **state)
{
	char text[8] = "x";

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)close(from);
	from = -1;
	assert_int_equal(transport_send(transport, text, 1, &whole), -EPIPE);
	spin();
	assert_int_equal(ended_with, -EPIPE);
}

static void
test_stdio_flags_are_put_back(void **state)
{
	(void)state;
	assert_true((fcntl(ours_out, F_GETFL) & O_NONBLOCK) != 0);
	assert_true((fcntl(ours_in, F_GETFL) & O_NONBLOCK) == 0);
	transport_free(transport);
	transport = NULL;
	assert_true((fcntl(ours_out, F_GETFL) & O_NONBLOCK) == 0);
}

static void
test_stdio_regular_files(void **state)
{
	char in_name[] = "/tmp/bailey-stdio-XXXXXX", out_name[] = "/tmp/bailey-stdio-XXXXXX";
	int in = mkostemp(in_name, O_CLOEXEC), out = mkostemp(out_name, O_CLOEXEC);
	char text[16] = "answer", back[16] = "";

	(void)state;
	(void)unlink(in_name);
	(void)unlink(out_name);
	assert_int_equal(write(in, "a\nb\nc", 5), 5);
	assert_int_equal(lseek(in, 0, SEEK_SET), 0);
	to = from = -1;
	start_on(in, out);
	spin();
	assert_string_equal(seen, "a|b");
	assert_int_equal(ended_with, 0);
	assert_false(transport->end_is_hangup);
	assert_int_equal(transport_send(transport, text, 6, &whole), 0);
	assert_int_equal(pread(out, back, 15, 0), 7);
	assert_string_equal(back, "answer\n");
}

static void
test_stdio_bad_descriptors(void **state)
{
	struct transport *t = NULL;

	(void)state;
	to = from = ours_in = ours_out = -1;
	transport = NULL;
	base = event_base_new();
	assert_int_equal(stdio_new(base, 900, 901, &events, NULL, &t), -EBADF);
	assert_null(t);
	transport_free(NULL);
}

#define WITH_PIPES(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PIPES(test_stdio_lines),
		WITH_PIPES(test_stdio_oversize_is_skipped),
		WITH_PIPES(test_stdio_send_queues_and_drains),
		WITH_PIPES(test_stdio_send_takes_the_buffer),
		WITH_PIPES(test_stdio_pauses_among_lines),
		WITH_PIPES(test_stdio_queue_full_cuts_the_client),
		WITH_PIPES(test_stdio_end_of_input),
		WITH_PIPES(test_stdio_reader_gone),
		WITH_PIPES(test_stdio_flags_are_put_back),
		cmocka_unit_test_teardown(test_stdio_regular_files, teardown),
		cmocka_unit_test_teardown(test_stdio_bad_descriptors, teardown),
	};

	return cmocka_run_group_tests_name("frontend_stdio", tests, NULL, NULL);
}
