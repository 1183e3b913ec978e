/*
 * tests/unit/test_guest_watch.c - what is polled, in which order, and that it is served.
 * Runs in: ctest.
 * Input: none.
 * Owns: pipes.
 */
#include "test.h"
#include "guest_fakes.h"

static struct watch watch;

/* The list as letters: o output, f feed, i in, w wire, c control, p prestart's runner, e and E an
 * evaluation's control, r runner, d idle interpreter, s signal. */
static const char *
listed(struct fake *f)
{
	static const char letters[] = "ofiwcpeErds";
	static char text[WATCH_MAX + 1];

	watch_fill(&watch, &f->g, 0);
	for (size_t i = 0; i < watch.n; i++) {
		assert_true(watch.p[i].fd >= 0);
		text[i] = letters[watch.of[i].what];
	}
	text[watch.n] = '\0';
	return text;
}

static void
test_watch_lists_what_is_open(void **state)
{
	struct fake *f = fake_new();
	struct run *run;

	(void)state;
	assert_string_equal(listed(f), "is");
	run = fake_run(f, 3);
	assert_string_equal(listed(f), "ooirs");
	assert_int_equal(buf_append(&run->feed.pending, "x", 1), 0);
	assert_int_equal(buf_append(&f->g.stream.wire, "x", 1), 0);
	assert_string_equal(listed(f), "oofiwrs");
	run->state = STATE_DRAINING; /* its pipes were read to their end */
	assert_string_equal(listed(f), "iwrs");
	run->state = STATE_GOING;
	run->runner.pid = 0;
	assert_string_equal(listed(f), "oofiws");
	f->g.waiting = fake_runner(f);
	f->g.waiting.control_fd = dup(0);
	f->g.prestart = PRESTART_STARTING;
	assert_string_equal(listed(f), "oofiwcps");
	fake_free(f);
}

static void
test_watch_lists_evaluations(void **state)
{
	struct fake *f = fake_new();
	struct run *run = fake_run(f, 3);

	(void)state;
	run->what.kind = RUN_EVAL_PYTHON;
	run->runner.control_fd = dup(0);
	assert_string_equal(listed(f), "ooiers");
	f->g.eval[0].going = 3;
	assert_int_equal(buf_append(&f->g.eval[0].out, "x", 1), 0);
	assert_string_equal(listed(f), "ooieErs");
	buf_done(&f->g.eval[0].out);
	run->state = STATE_KILLING;
	assert_string_equal(listed(f), "ooirs");
	f->g.eval[2].runner = fake_runner(f);
	assert_string_equal(listed(f), "ooirds");
	runner_close(&f->g.eval[2].runner);
	fake_free(f);
}

static void
test_watch_holds_all_runs(void **state)
{
	struct fake *f = fake_new();

	(void)state;
	for (uint32_t i = 1; i <= GUEST_RUNS_MAX; i++) {
		struct run *run = fake_run(f, i);

		run->what.kind = RUN_EVAL_BASH;
		run->runner.control_fd = dup(0);
		assert_int_equal(buf_append(&run->feed.pending, "x", 1), 0);
	}
	(void)listed(f);
	assert_true(watch.n < WATCH_MAX);
	assert_int_equal(watch.of[watch.n - 1].what, WATCH_SIGNAL);
	fake_free(f);
}

static void
poll_and_serve(struct fake *f)
{
	watch_fill(&watch, &f->g, f->g.stream.in_fd);
	assert_true(poll(watch.p, watch.n, 1000) > 0);
	watch_serve(&watch, &f->g);
}

static void
test_watch_serves_output(void **state)
{
	struct fake *f = fake_new();
	struct run *run = fake_run(f, 3);
	struct guest_frame frame;

	(void)state;
	run->runner.pid = 0;
	assert_int_equal(write(f->run_err, "text", 4), 4);
	poll_and_serve(f);
	assert_true(fake_next_frame(&f->g.stream.kept, &frame));
	assert_int_equal(frame.run, 3);
	assert_int_equal(frame.stream, STREAM_STDERR);
	assert_memory_equal(frame.payload, "text", 4);
	fake_free(f);
}

static void
test_watch_passes_by_what_is_over(void **state)
{
	struct fake *f = fake_new();
	struct run *run = fake_run(f, 3);

	(void)state;
	run->runner.pid = 0;
	assert_int_equal(write(f->run_out, "text", 4), 4);
	watch_fill(&watch, &f->g, f->g.stream.in_fd);
	assert_int_equal(poll(watch.p, watch.n, 1000), 1);
	run->number = 4; /* its slot has another run meanwhile */
	watch_serve(&watch, &f->g);
	assert_int_equal(run->out[0].total, 0);
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_watch_lists_what_is_open),
		cmocka_unit_test(test_watch_lists_evaluations),
		cmocka_unit_test(test_watch_holds_all_runs),
		cmocka_unit_test(test_watch_serves_output),
		cmocka_unit_test(test_watch_passes_by_what_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
