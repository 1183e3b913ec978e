/*
 * tests/unit/test_guest_stream.c - frames in and out: order, acknowledgement, SYNC,
 * what ends the sandbox. The handlers of the other files are counted only.
 * Runs in: ctest.
 * Input: none.
 * Owns: pipes.
 */
#include "test.h"
#include "guest_fakes.h"

#include <fcntl.h>

static unsigned handled;
static int handler_result;

#define COUNT_HANDLER(name, ...)        \
	int __wrap_##name(__VA_ARGS__); \
	int __wrap_##name(__VA_ARGS__)  \
	{                               \
		handled++;              \
		return handler_result;  \
	}
COUNT_HANDLER(guest_on_h_spec, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)), const uint8_t *p __attribute__((unused)),
	      size_t n __attribute__((unused)))
COUNT_HANDLER(guest_on_h_run, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)), const uint8_t *p __attribute__((unused)),
	      size_t n __attribute__((unused)))
COUNT_HANDLER(guest_on_h_stdin, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)), const uint8_t *p __attribute__((unused)),
	      size_t n __attribute__((unused)))
COUNT_HANDLER(guest_on_h_stdin_eof, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)))
COUNT_HANDLER(guest_on_h_end, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)))
COUNT_HANDLER(guest_on_h_credit, struct guest *g __attribute__((unused)),
	      uint32_t run __attribute__((unused)), uint8_t no __attribute__((unused)),
	      const struct guest_h_credit *c __attribute__((unused)))

static const uint8_t secret[32] = "a secret of thirty-two bytes ...";

static struct fake *
open_session(void)
{
	struct fake *f = fake_new();

	memcpy(f->g.stream.secret, secret, sizeof(secret));
	handled = 0;
	handler_result = 0;
	return f;
}

static void
put(struct fake *f, enum guest_type type, uint64_t seq, const void *payload, size_t len)
{
	static uint8_t frame[GUEST_FRAME_MAX];
	size_t n = guest_frame_write(frame, type, 0, 1, seq, payload, len);

	assert_int_equal(buf_append(&f->g.stream.in, frame, n), 0);
}

static void
put_sync(struct fake *f, const uint8_t *with, uint64_t last)
{
	struct guest_h_sync sync = {.last_guest_seq = last, .nonce = "nonce"};
	uint8_t payload[56];

	memcpy(sync.secret, with, sizeof(sync.secret));
	guest_put_h_sync(&sync, payload);
	put(f, GUEST_h_sync, 0, payload, sizeof(payload));
}

/* A frame whose checksum is wrong. */
static void
put_torn(struct fake *f)
{
	put(f, GUEST_h_ping, 0, NULL, 0);
	f->g.stream.in.data[f->g.stream.in.len - 1] ^= 1;
}

static void
test_stream_sequence(void **state)
{
	struct fake *f = open_session();

	(void)state;
	put(f, GUEST_h_spec, 1, "x", 1);
	put(f, GUEST_h_stdin, 2, "x", 1);
	put(f, GUEST_h_ping, 0, NULL, 0);
	put(f, GUEST_h_run, 3, "", 0);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(handled, 3);
	assert_int_equal(f->g.stream.last_host, 3);
	put(f, GUEST_h_spec, 3, "x", 1); /* again */
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	assert_int_equal(handled, 3);
	fake_free(f);

	f = open_session();
	put(f, GUEST_h_spec, 2, "x", 1); /* a hole */
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	assert_int_equal(handled, 0);
	fake_free(f);
}

/* Runners forked later have a copy of the buffer, and user code may get to read it. */
static void
test_stream_keeps_no_secret_in_its_input(void **state)
{
	struct fake *f = open_session();
	const struct buf *in = &f->g.stream.in;

	(void)state;
	put_sync(f, secret, 0);
	put(f, GUEST_h_ping, 0, NULL, 0);
	assert_non_null(memmem(in->data, in->len, secret, sizeof(secret)));
	assert_int_equal(stream_intake(&f->g), 0);
	assert_null(memmem(in->data, in->len, secret, sizeof(secret)));
	fake_free(f);
}

static void
test_stream_cut_at_every_byte(void **state)
{
	struct fake *f = open_session();
	static uint8_t frame[64];
	size_t n = guest_frame_write(frame, GUEST_h_spec, 0, 1, 1, "abc", 3);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(handled, 0);
		assert_int_equal(buf_append(&f->g.stream.in, frame + i, 1), 0);
		assert_int_equal(stream_intake(&f->g), 0);
	}
	assert_int_equal(handled, 1);
	fake_free(f);
}

static void
test_stream_handler_refuses(void **state)
{
	struct fake *f = open_session();

	(void)state;
	handler_result = -EBADMSG;
	put(f, GUEST_h_spec, 1, "x", 1);
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);
}

static void
test_stream_hello_comes_first_and_once(void **state)
{
	struct guest_h_hello hello = {.version = GUEST_VERSION, .deadman_ms = 1, .lifetime_s = 1};
	uint8_t payload[64];
	struct fake *f = open_session();

	(void)state;
	guest_put_h_hello(&hello, payload);
	f->g.stream.session = SESSION_NONE;
	put(f, GUEST_h_ping, 0, NULL, 0);
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	buf_clear(&f->g.stream.in);
	put(f, GUEST_h_hello, 0, payload, sizeof(payload));
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(f->g.stream.session, SESSION_OPEN);
	assert_false(f->g.stream.met); /* the hello may be of somebody who is no more */
	put(f, GUEST_h_ping, 0, NULL, 0);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_true(f->g.stream.met);
	put(f, GUEST_h_hello, 0, payload, sizeof(payload));
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);

	f = open_session();
	f->g.stream.session = SESSION_NONE; /* torn before there was a secret */
	put_torn(f);
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);
}

static void
test_stream_torn_then_only_sync(void **state)
{
	static const uint8_t zeros[GUEST_FRAME_MAX];
	static uint8_t wrong[32];
	struct fake *f = open_session();

	(void)state;
	put_torn(f);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(f->g.stream.session, SESSION_LOST);
	assert_int_equal(buf_append(&f->g.stream.in, zeros, sizeof(zeros)), 0);
	assert_int_equal(stream_intake(&f->g), 0);
	put_sync(f, secret, 0);
	put(f, GUEST_h_spec, 1, "x", 1);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(f->g.stream.session, SESSION_OPEN);
	assert_int_equal(handled, 1);
	fake_free(f);

	for (int i = 0; i < 4; i++) {
		f = open_session();
		put_torn(f);
		if (i == 0)
			put(f, GUEST_h_ping, 0, NULL, 0);
		else if (i == 1)
			put_torn(f);
		else if (i == 2)
			put_sync(f, wrong, 0);
		else
			put(f, GUEST_h_spec, 1, "x", 1);
		assert_int_equal(stream_intake(&f->g), END_STREAM);
		assert_int_equal(handled, 0);
		fake_free(f);
	}
}

/* A dead broker's frame cut anywhere, then the padding of the next one. */
static void
test_stream_torn_at_every_byte(void **state)
{
	static const uint8_t zeros[GUEST_FRAME_MAX];
	static uint8_t frame[128];
	uint8_t payload[64] = {0};
	size_t n;

	(void)state;
	memset(payload, 0xAA, sizeof(payload));
	n = guest_frame_write(frame, GUEST_h_spec, 0, 0x01020304, 1, payload, sizeof(payload));
	for (size_t cut = 0; cut < n; cut++) {
		struct fake *f = open_session();

		assert_int_equal(buf_append(&f->g.stream.in, frame, cut), 0);
		assert_int_equal(stream_intake(&f->g), 0);
		assert_int_equal(buf_append(&f->g.stream.in, zeros, sizeof(zeros)), 0);
		assert_int_equal(stream_intake(&f->g), 0);
		put_sync(f, secret, 0);
		assert_int_equal(stream_intake(&f->g), 0);
		assert_int_equal(f->g.stream.session, SESSION_OPEN);
		assert_int_equal(handled, 0);
		put(f, GUEST_h_spec, 1, "x", 1);
		assert_int_equal(stream_intake(&f->g), 0);
		assert_int_equal(handled, 1);
		fake_free(f);
	}
}

static void
send_three(struct fake *f)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(stream_send_kept(&f->g.stream, GUEST_g_out, 1, 1, "data", 4), 0);
}

/* What the host reads now; sequence numbers of sequenced frames as digits. */
static const char *
host_reads(struct fake *f)
{
	static char text[64];
	struct guest_frame frame;
	struct buf b;
	uint8_t *room;
	size_t len = 0;
	ssize_t n;

	buf_init(&b, 65536);
	assert_int_equal(buf_reserve(&b, 65536, &room), 0);
	n = read(f->host_out, room, 65536);
	if (n > 0)
		buf_commit(&b, (size_t)n);
	while (fake_next_frame(&b, &frame) && len < sizeof(text) - 1) {
		if (frame.row->sequenced)
			text[len++] = (char)('0' + frame.seq);
		else if (frame.row->type == GUEST_g_sync_ack)
			text[len++] = 'S';
		else if (frame.row->type == GUEST_g_pong)
			text[len++] = 'p';
		else if (frame.row->type == GUEST_g_ack)
			text[len++] = 'a';
	}
	text[len] = '\0';
	buf_done(&b);
	return text;
}

static void
put_ack(struct fake *f, uint64_t seq)
{
	uint8_t payload[8];

	guest_put_h_ack(&(struct guest_h_ack){.seq = seq}, payload);
	put(f, GUEST_h_ack, 0, payload, sizeof(payload));
}

static void
test_stream_acknowledged_frames_are_forgotten(void **state)
{
	struct fake *f = open_session();

	(void)state;
	send_three(f);
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), "123");
	put_ack(f, 2);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(buf_len(&f->g.stream.kept), GUEST_HEADER_LEN + 4 + GUEST_CRC_LEN);
	put_ack(f, 1); /* an old one */
	assert_int_equal(stream_intake(&f->g), 0);
	put_ack(f, 4); /* of what was never sent */
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);

	f = open_session();
	send_three(f);
	put_ack(f, 1); /* built, but not on the wire */
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);
}

static void
test_stream_sync_sends_again(void **state)
{
	struct fake *f = open_session();

	(void)state;
	send_three(f);
	stream_flush(&f->g.stream);
	(void)host_reads(f); /* lost on the way */
	put_torn(f);
	assert_int_equal(stream_intake(&f->g), 0);
	assert_int_equal(stream_send_kept(&f->g.stream, GUEST_g_out, 1, 1, "more", 4), 0);
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), ""); /* nobody there */
	f->g.pause_us = 7;                      /* a former host's word */
	put_sync(f, secret, 1);
	assert_int_equal(stream_intake(&f->g), 0);
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), "S234");
	assert_int_equal(f->g.pause_us, 0);
	put_sync(f, secret, 0); /* frame 1 is gone for good */
	assert_int_equal(stream_intake(&f->g), END_STREAM);
	fake_free(f);
}

static void
test_stream_ack_rides_on_output(void **state)
{
	struct fake *f = open_session();

	(void)state;
	put(f, GUEST_h_spec, 1, "x", 1);
	assert_int_equal(stream_intake(&f->g), 0);
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), ""); /* not yet due */
	assert_true(f->g.stream.ack_at_ms != 0);
	send_three(f);
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), "a123");
	assert_true(f->g.stream.ack_at_ms == 0);
	put(f, GUEST_h_spec, 2, "x", 1);
	assert_int_equal(stream_intake(&f->g), 0);
	f->g.stream.ack_at_ms = 1; /* long ago */
	stream_flush(&f->g.stream);
	assert_string_equal(host_reads(f), "a");
	fake_free(f);
}

static void
test_stream_host_does_not_read(void **state)
{
	static uint8_t big[GUEST_PAYLOAD_MAX];
	struct fake *f = open_session();
	struct stream *s = &f->g.stream;

	(void)state;
	while (stream_has_room(s))
		assert_int_equal(stream_send_kept(s, GUEST_g_out, 1, 1, big, sizeof(big)), 0);
	stream_flush(s);
	assert_true(stream_wants_write(s));
	for (int i = 0; i < 100000; i++) {
		put(f, GUEST_h_ping, 0, NULL, 0);
		assert_int_equal(stream_intake(&f->g), 0);
	}
	assert_true(buf_len(&s->wire) < 4 * 65536U); /* pongs nobody takes are not kept */
	/* the end of a run still finds room */
	assert_int_equal(stream_send_kept(s, GUEST_g_tail, 1, 1, big, GUEST_TAIL_MAX), 0);
	assert_int_equal(stream_send_kept(s, GUEST_g_tail, 2, 1, big, GUEST_TAIL_MAX), 0);
	assert_int_equal(stream_send_kept(s, GUEST_g_exit, 0, 1, big, 104), 0);
	fake_free(f);
}

static void
read_stream(void *arg)
{
	stream_read(&((struct fake *)arg)->g);
}

static void
test_stream_read_ends_the_guest(void **state)
{
	static uint8_t frame[64];
	struct fake *f = open_session();
	size_t n = guest_frame_write(frame, GUEST_h_spec, 0, 1, 9, "x", 1);
	int status;

	(void)state;
	stream_read(&f->g); /* nothing there: nothing happens */
	assert_int_equal(write(f->host_in, frame, n), n);
	status = test_in_child(read_stream, f);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == END_STREAM);
	(void)close(f->host_in);
	f->host_in = -1;
	status = test_in_child(read_stream, f);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == END_INPUT);
	fake_free(f);
}

/* What is kept fits into the pipe out: the guest need not be woken for each page that is read. */
static void
test_stream_widen(void **state)
{
	struct fake *f = fake_new();

	(void)state;
	assert_true(fcntl(f->g.stream.out_fd, F_GETPIPE_SZ) < (int)(4 * GUEST_WINDOW));
	for (int i = 0; i < 2; i++) {
		stream_widen(&f->g.stream);
		assert_true(fcntl(f->g.stream.in_fd, F_GETPIPE_SZ) >= (int)GUEST_WINDOW);
		assert_true(fcntl(f->g.stream.out_fd, F_GETPIPE_SZ) >= (int)(4 * GUEST_WINDOW));
	}
	fake_free(f);
	f = fake_new();
	(void)close(f->g.stream.out_fd); /* it may be no pipe */
	f->g.stream.out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	stream_widen(&f->g.stream);
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream_sequence),
		cmocka_unit_test(test_stream_keeps_no_secret_in_its_input),
		cmocka_unit_test(test_stream_cut_at_every_byte),
		cmocka_unit_test(test_stream_handler_refuses),
		cmocka_unit_test(test_stream_hello_comes_first_and_once),
		cmocka_unit_test(test_stream_torn_then_only_sync),
		cmocka_unit_test(test_stream_torn_at_every_byte),
		cmocka_unit_test(test_stream_acknowledged_frames_are_forgotten),
		cmocka_unit_test(test_stream_sync_sends_again),
		cmocka_unit_test(test_stream_ack_rides_on_output),
		cmocka_unit_test(test_stream_host_does_not_read),
		cmocka_unit_test(test_stream_read_ends_the_guest),
		cmocka_unit_test(test_stream_widen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
