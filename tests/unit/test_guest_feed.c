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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_feed_writes_and_closes),
		cmocka_unit_test(test_feed_keeps_what_the_pipe_does_not_take),
		cmocka_unit_test(test_feed_grants_as_it_writes),
		cmocka_unit_test(test_feed_refuses),
		cmocka_unit_test(test_feed_nobody_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
