/*
 * tests/unit/test_guest_feed.c - stdin of a run: what is written, granted, refused.
 * Runs in: ctest.
 * Input: none.
 * Owns: pipes.
 */
#include "test.h"
#include "guest_fakes.h"

static size_t
drain(struct fake *f)
{
	static char chunk[65536];
	size_t total = 0;
	ssize_t n;

	while ((n = read(f->run_stdin, chunk, sizeof(chunk))) > 0)
		total += (size_t)n;
	return total;
}

static void
start(struct fake *f)
{
	(void)fake_run(f, 1);
}

static void
test_feed_writes_and_closes(void **state)
{
	struct fake *f = fake_new();
	char text[16];

	(void)state;
	start(f);
	assert_int_equal(guest_on_h_stdin(&f->g, 1, (const uint8_t *)"hello", 5), 0);
	assert_int_equal(read(f->run_stdin, text, sizeof(text)), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), 0);
	assert_int_equal(read(f->run_stdin, text, sizeof(text)), 0);
	assert_int_equal(f->g.runs[0].feed.fd, -1);
	fake_free(f);
}

static void
test_feed_keeps_what_the_pipe_does_not_take(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct fake *f = fake_new();
	size_t got = 0;

	(void)state;
	start(f);
	for (size_t i = 0; i < GUEST_WINDOW / sizeof(chunk); i++)
		assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), 0);
	assert_true(feed_wants_write(&f->g.runs[0].feed));
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), 0);
	assert_true(f->g.runs[0].feed.fd >= 0); /* not before it is out */
	while (f->g.runs[0].feed.fd >= 0) {
		got += drain(f);
		feed_pump(&f->g, &f->g.runs[0].feed);
	}
	got += drain(f);
	assert_int_equal(got, GUEST_WINDOW);
	fake_free(f);
}

static void
test_feed_grants_as_it_writes(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct fake *f = fake_new();
	struct guest_g_credit credit;
	struct guest_frame frame;
	size_t sent = 0;

	(void)state;
	start(f);
	while (!fake_next_frame(&f->g.stream.wire, &frame)) {
		assert_true(sent < GUEST_WINDOW);
		assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), 0);
		sent += sizeof(chunk);
		(void)drain(f);
	}
	assert_int_equal(frame.row->type, GUEST_g_credit);
	assert_int_equal(guest_get_g_credit(frame.payload, frame.len, &credit), 0);
	assert_int_equal(credit.limit, sent + GUEST_WINDOW);
	fake_free(f);
}

static void
test_feed_refuses(void **state)
{
	static uint8_t chunk[GUEST_WINDOW + 1];
	struct fake *f = fake_new();

	(void)state;
	start(f);
	assert_int_equal(guest_on_h_stdin(&f->g, 2, chunk, 1), 0); /* over: crossed with its end */
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 2), 0);
	f->g.runs[0].state = STATE_DRAINING;
	assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), 0);
	assert_int_equal(f->g.runs[0].feed.received, 0);
	f->g.runs[0].state = STATE_IDLE; /* before its specification is whole */
	assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, 1), -EBADMSG);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), -EBADMSG);
	f->g.runs[0].state = STATE_GOING;
	assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), -EBADMSG);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), 0);
	assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, 1), -EBADMSG); /* after its end */
	fake_free(f);
}

static void
test_feed_nobody_reads(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct fake *f = fake_new();

	(void)state;
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	start(f);
	(void)close(f->run_stdin);
	for (size_t i = 0; i < 64; i++) /* eight windows: the host must not be stopped */
		assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), 0);
	assert_int_equal(f->g.runs[0].feed.fd, -1);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), 0);
	f->run_stdin = -1;
	fake_free(f);
}

/* A new session hears what came of each run's frames, but of one that is over. */
static void
test_feed_tells_a_new_session(void **state)
{
	static uint8_t chunk[1000];
	struct fake *f = fake_new();
	struct guest_g_stands m;
	struct guest_frame frame;
	size_t used;

	(void)state;
	start(f);
	f->g.runs[1] = (struct run){.number = 7, .state = STATE_IDLE};
	f->g.runs[2] = (struct run){.number = 8, .state = STATE_OVER};
	assert_int_equal(guest_on_h_stdin(&f->g, 1, chunk, sizeof(chunk)), 0);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, 1), 0);
	buf_clear(&f->g.stream.wire);
	assert_int_equal(feed_tell_all(&f->g), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(guest_frame_parse(buf_data(&f->g.stream.wire),
						   buf_len(&f->g.stream.wire), G2H, &frame, &used),
				 1);
		assert_int_equal(frame.row->type, GUEST_g_stands);
		assert_int_equal(frame.run, i == 0 ? 1 : 7);
		assert_int_equal(guest_get_g_stands(frame.payload, frame.len, &m), 0);
		assert_int_equal(m.received, i == 0 ? 1000 : 0);
		assert_int_equal(m.granted, i == 0 ? GUEST_WINDOW : 0);
		assert_int_equal(m.ordered, i == 0);
		assert_int_equal(m.closed, i == 0);
		buf_consume(&f->g.stream.wire, used);
	}
	assert_int_equal(buf_len(&f->g.stream.wire), 0);
	f->g.runs[1].number = f->g.runs[2].number = 0;
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_feed_writes_and_closes),
		cmocka_unit_test(test_feed_keeps_what_the_pipe_does_not_take),
		cmocka_unit_test(test_feed_grants_as_it_writes),
		cmocka_unit_test(test_feed_refuses),
		cmocka_unit_test(test_feed_nobody_reads),
		cmocka_unit_test(test_feed_tells_a_new_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
