/*
 * tests/unit/test_guest_eval.c - interpreters that stay: turns, records, ends.
 * Runs in: ctest.
 * Input: none.
 * Owns: a socket pair and pipes in the place of each interpreter.
 */
#include "test.h"
#include "guest_fakes.h"

#include <fcntl.h>
#include <sys/socket.h>

static struct {
	int take_result, fill_result, report_result;
	unsigned takes, drops, orders, kills, dead; /* dead: orders that find nobody */
	uint64_t cpu_us;
	int control, out, err, ends[8][3]; /* interpreters' ends: of the last one taken, of all */
	struct launch launch;
} world;

int __wrap_children_take(struct guest *g, struct runner *ret);
void __wrap_children_drop(struct guest *g, struct runner *r);
__typeof__(launch_fill_run) __wrap_launch_fill_run;
int __wrap_runner_order(struct runner *r);
int __wrap_runner_report(struct runner *r, struct report *ret);
uint64_t __wrap_runner_cpu_us(const struct runner *r);
uint32_t __wrap_tree_kill(pid_t root);

int
__wrap_children_take(struct guest *g, struct runner *ret)
{
	int pair[2], in[2], out[2], err[2];

	(void)g;
	if (world.take_result < 0)
		return world.take_result;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
			 0);
	fake_pipe(in);
	fake_pipe(out);
	fake_pipe(err);
	(void)close(in[0]);
	world.control = pair[1];
	world.out = out[1];
	world.err = err[1];
	assert_true(world.takes < ARRAY_LEN(world.ends));
	memcpy(world.ends[world.takes], (const int[]){pair[1], out[1], err[1]},
	       sizeof(world.ends[0]));
	*ret = RUNNER_NONE;
	ret->pid = 1000 + (pid_t)world.takes++;
	ret->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ret->control_fd = pair[0];
	ret->stdin_fd = in[1];
	ret->out_fds[0] = out[0];
	ret->out_fds[1] = err[0];
	ret->launch = &world.launch;
	return 0;
}

void
__wrap_children_drop(struct guest *g, struct runner *r)
{
	const int fds[] = {r->fd, r->control_fd, r->stdin_fd, r->out_fds[0], r->out_fds[1]};

	(void)g;
	for (size_t i = 0; r->fd >= 0 && i < ARRAY_LEN(world.ends[0]); i++)
		(void)close(world.ends[r->pid - 1000][i]);
	if (r->fd >= 0)
		world.drops++;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
	*r = RUNNER_NONE;
}

int
__wrap_launch_fill_run(struct launch *l, const struct guest_spec *spec,
		       const struct guest_spec *kept, uint32_t cpus)
{
	(void)l;
	(void)spec;
	(void)kept;
	(void)cpus;
	return world.fill_result;
}

int
__wrap_runner_order(struct runner *r)
{
	(void)r;
	world.orders++;
	return world.dead > 0 && world.dead-- > 0 ? -EPIPE : 0;
}

int
__wrap_runner_report(struct runner *r, struct report *ret)
{
	(void)r;
	(void)ret;
	return world.report_result;
}

uint64_t
__wrap_runner_cpu_us(const struct runner *r)
{
	(void)r;
	return world.cpu_us += 100;
}

uint32_t
__wrap_tree_kill(pid_t root)
{
	(void)root;
	world.kills++;
	return 1;
}

/* ---- helpers ---- */

static struct fake *
box(void)
{
	memset(&world, 0, sizeof(world));
	return fake_new();
}

static void
let_go(struct fake *f, struct run *run)
{
	__wrap_children_drop(&f->g, &run->runner);
	feed_close(&run->feed);
}

static void
done(struct fake *f)
{
	for (size_t i = 0; i < EVAL_LANGUAGES; i++) {
		__wrap_children_drop(&f->g, &f->g.eval[i].runner);
		buf_done(&f->g.eval[i].out);
		buf_done(&f->g.eval[i].in);
	}
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		struct run *run = &f->g.runs[i];

		if (run->number == 0)
			continue;
		let_go(f, run);
		for (size_t k = 0; k < GUEST_OUTPUTS; k++)
			output_done(&run->out[k]);
		run->number = 0;
	}
	fake_free(f);
}

/* A run as run.c has it when it calls eval_start. */
static struct run *
fresh(struct fake *f, uint32_t number, uint32_t kind, const char *code)
{
	size_t slot = 0;
	struct run *run;

	while (f->g.runs[slot].number != 0)
		slot++;
	assert_true(slot < GUEST_RUNS_MAX);
	run = &f->g.runs[slot];
	*run = (struct run){.number = number, .runner = RUNNER_NONE};
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		output_init(&run->out[i], number, (uint8_t)(i + STREAM_STDOUT));
	feed_init(&run->feed, number);
	run->feed.eof = true;
	run->what.kind = kind;
	run->what.code = (struct ipc_bin){(const uint8_t *)code, (uint32_t)strlen(code)};
	return run;
}

static struct run *
started(struct fake *f, uint32_t number, const char *code)
{
	struct run *run = fresh(f, number, RUN_EVAL_PYTHON, code);

	assert_int_equal(eval_start(&f->g, run), 0);
	return run;
}

static void
assert_heard(const char *text)
{
	char got[256];
	ssize_t n = read(world.control, got, sizeof(got));

	assert_int_equal(n, strlen(text));
	assert_memory_equal(got, text, (size_t)n);
}

static void
say(struct fake *f, struct run *run, const char *p, size_t n)
{
	assert_int_equal(write(world.control, p, n), n);
	eval_on_control(&f->g, run);
}
#define SAY(f, run, text) say(f, run, text, sizeof(text) - 1)

/* Everything the host was sent of this stream of the run; its exit if there was one. */
static size_t
host_has(struct fake *f, uint32_t run, uint8_t stream, char *ret, size_t max,
	 struct guest_g_exit *ret_exit)
{
	size_t off = f->g.stream.kept.off;
	struct guest_frame frame;
	size_t n = 0;

	while (fake_next_frame(&f->g.stream.kept, &frame)) {
		if (frame.run != run)
			continue;
		if (frame.row->type == GUEST_g_out && frame.stream == stream) {
			assert_true(n + frame.len <= max);
			memcpy(ret + n, frame.payload, frame.len);
			n += frame.len;
		}
		if (frame.row->type == GUEST_g_exit && ret_exit != NULL)
			assert_int_equal(guest_get_g_exit(frame.payload, frame.len, ret_exit), 0);
	}
	f->g.stream.kept.off = off;
	return n;
}

static struct guest_g_exit
exit_of(struct fake *f, uint32_t run)
{
	struct guest_g_exit x = {.how = 0};

	(void)host_has(f, run, 99, NULL, 0, &x);
	return x;
}

/* ---- tests ---- */

static void
test_eval_first_one_starts_an_interpreter(void **state)
{
	struct fake *f = box();
	struct run *run = started(f, 5, "1 + 1");

	(void)state;
	assert_int_equal(world.takes, 1);
	assert_int_equal(world.orders, 1);
	assert_int_equal(run->state, STATE_GOING);
	assert_int_equal(run->runner.pid, 1000);
	assert_int_equal(run->feed.fd, -1); /* its input has ended */
	assert_heard("00000000051 + 1");
	assert_false(eval_wants_write(&f->g, run));
	SAY(f, run, "v2\0e0\0");
	assert_int_equal(exit_of(f, 5).how, EXIT_EXITED);
	assert_int_equal(exit_of(f, 5).flags & EXIT_INTERPRETER_GONE, 0);
	assert_int_equal(exit_of(f, 5).start, START_LIVE);
	done(f);
}

static void
test_eval_records_and_rest(void **state)
{
	static const char want[] = "va\0i/workspace/.figures/1.png";
	struct fake *f = box();
	struct run *run = started(f, 1, "x");
	char got[256];
	struct guest_g_exit x;

	(void)state;
	assert_int_equal(write(world.out, "out", 3), 3);
	assert_int_equal(write(world.err, "err", 3), 3);
	SAY(f, run, "va\0i/workspace/.figures/1.png\0e7\0");
	assert_int_equal(host_has(f, 1, STREAM_VALUE, got, sizeof(got), &x), sizeof(want));
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(host_has(f, 1, STREAM_STDOUT, got, sizeof(got), NULL), 3);
	assert_int_equal(host_has(f, 1, STREAM_STDERR, got, sizeof(got), NULL), 3);
	assert_memory_equal(got, "err", 3);
	assert_int_equal(x.exit_code, 7);
	assert_int_equal(x.cpu_us, 100);
	assert_int_equal(x.stdout_bytes, 3);
	assert_int_equal(f->g.eval[0].runner.pid, 1000);
	assert_int_equal(run->runner.pid, 0);
	/* The next one has the same. */
	run = started(f, 2, "y");
	assert_int_equal(world.takes, 1);
	assert_int_equal(world.orders, 1);
	SAY(f, run, "e0\0");
	assert_int_equal(exit_of(f, 2).start, START_WARM);
	assert_int_equal(exit_of(f, 2).cpu_us, 100); /* what the first used is not the second's */
	assert_int_equal(host_has(f, 2, STREAM_VALUE, got, sizeof(got), NULL), 0);
	assert_int_equal(world.drops, 0);
	done(f);
}

static void
test_eval_records_in_pieces(void **state)
{
	static const char all[] = "vvalue\0i/p\0e1";
	struct fake *f = box();
	struct run *run = started(f, 1, "x");
	char got[64];

	(void)state;
	for (size_t i = 0; i < sizeof(all); i++) {
		assert_int_equal(run->state, STATE_GOING);
		say(f, run, all + i, 1);
	}
	assert_int_equal(exit_of(f, 1).exit_code, 1);
	assert_int_equal(host_has(f, 1, STREAM_VALUE, got, sizeof(got), NULL), 11);
	done(f);
}

static void
test_eval_languages_have_their_own(void **state)
{
	struct fake *f = box();
	struct run *node = fresh(f, 2, RUN_EVAL_NODE, "x");
	struct run *bash = fresh(f, 3, RUN_EVAL_BASH, "x");

	(void)state;
	(void)started(f, 1, "x");
	assert_int_equal(eval_start(&f->g, node), 0);
	assert_int_equal(eval_start(&f->g, bash), 0);
	assert_int_equal(world.takes, 3);
	assert_int_equal(node->state, STATE_GOING);
	assert_int_equal(bash->state, STATE_GOING);
	SAY(f, bash, "e3\0");
	assert_int_equal(exit_of(f, 3).exit_code, 3);
	assert_int_equal(f->g.eval[2].runner.pid, 1002);
	assert_int_equal(node->state, STATE_GOING);
	done(f);
}

static void
test_eval_turns(void **state)
{
	struct fake *f = box();
	struct run *runs[EVAL_WAITING_MAX + 2];

	(void)state;
	for (uint32_t i = 0; i < EVAL_WAITING_MAX + 1; i++) {
		runs[i] = started(f, i + 1, "x");
		assert_int_equal(runs[i]->state, i == 0 ? STATE_GOING : STATE_WAITING);
		assert_int_equal(runs[i]->deadline_ms, 0);
	}
	runs[9] = fresh(f, 10, RUN_EVAL_PYTHON, "x");
	assert_int_equal(eval_start(&f->g, runs[9]), EBUSY);
	eval_forget(&f->g, runs[1]);
	runs[1]->state = STATE_OVER;
	assert_heard("0000000001x");
	SAY(f, runs[0], "e0\0");
	assert_heard("0000000001x");
	assert_int_equal(runs[2]->state, STATE_GOING);
	assert_int_equal(runs[3]->state, STATE_WAITING);
	SAY(f, runs[2], "e0\0");
	assert_int_equal(runs[3]->state, STATE_GOING);
	assert_int_equal(f->g.eval[0].n_waiting, 5);
	assert_int_equal(world.takes, 1);
	done(f);
}

static void
test_eval_what_breaks_the_rules_is_ended(void **state)
{
	static char longest[EVAL_WAITING_MAX * 16384];
	static const struct {
		const char *text;
		size_t n;
	} bad[] = {
		{"x1\0", 3},    {"\0", 1},        {"e\0", 2},      {"e256\0", 5},
		{"e-1\0", 4},   {"e1 \0", 4},     {"e0\0e0\0", 6}, {"e0\0v", 4},
		{"va\0q\0", 5}, {longest, 66560}, {NULL, 0},
	};

	(void)state;
	memset(longest, 'v', sizeof(longest));
	for (size_t i = 0; bad[i].text != NULL; i++) {
		struct fake *f = box();
		struct run *run = started(f, 1, "x");

		say(f, run, bad[i].text, bad[i].n);
		if (run->state == STATE_GOING)
			eval_on_control(&f->g, run);
		assert_int_equal(run->state, STATE_KILLING);
		assert_int_equal(world.kills, 1);
		eval_on_control(&f->g, run); /* not heard any more */
		assert_int_equal(world.kills, 1);
		done(f);
	}
}

static void
test_eval_value_of_the_greatest_length(void **state)
{
	static char text[66000];
	static char got[66000];
	struct fake *f = box();
	struct run *run = started(f, 1, "x");
	size_t n = 0;

	(void)state;
	memset(text, 'v', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	while (n < sizeof(text)) {
		ssize_t w = write(world.control, text + n, sizeof(text) - n);

		if (w > 0)
			n += (size_t)w;
		eval_on_control(&f->g, run);
	}
	eval_on_control(&f->g, run);
	SAY(f, run, "e0\0");
	assert_int_equal(exit_of(f, 1).how, EXIT_EXITED);
	assert_int_equal(host_has(f, 1, STREAM_VALUE, got, sizeof(got), NULL), sizeof(text));
	done(f);
}

static void
test_eval_long_code_is_written_as_it_is_read(void **state)
{
	static char code[SPEC_CODE_MAX + 1];
	static char got[65536];
	struct fake *f = box();
	struct run *run;
	size_t total = 0;

	(void)state;
	memset(code, 'c', SPEC_CODE_MAX);
	run = started(f, 1, code);
	assert_true(eval_wants_write(&f->g, run));
	while (total < SPEC_CODE_MAX + 10) {
		ssize_t n = read(world.control, got, sizeof(got));

		if (n > 0)
			total += (size_t)n;
		eval_on_control_out(&f->g, run);
	}
	assert_int_equal(total, SPEC_CODE_MAX + 10);
	assert_false(eval_wants_write(&f->g, run));
	SAY(f, run, "e0\0");
	assert_int_equal(exit_of(f, 1).how, EXIT_EXITED);
	done(f);
}

static void
test_eval_an_end_before_all_was_read(void **state)
{
	static char code[SPEC_CODE_MAX + 1];
	struct fake *f = box();
	struct run *run;

	(void)state;
	memset(code, 'c', SPEC_CODE_MAX);
	run = started(f, 1, code);
	SAY(f, run, "e0\0");
	assert_int_equal(run->state, STATE_KILLING);
	done(f);
}

static void
test_eval_one_that_spoke_at_rest_is_replaced(void **state)
{
	struct fake *f = box();
	struct run *run = started(f, 1, "x");

	(void)state;
	SAY(f, run, "e0\0");
	assert_int_equal(write(world.control, "v9\0e0\0", 6), 6); /* meant for the next one */
	run = started(f, 2, "y");
	assert_int_equal(world.drops, 1);
	assert_int_equal(world.takes, 2);
	assert_int_equal(run->state, STATE_GOING);
	assert_heard("0000000001y");
	SAY(f, run, "e0\0");
	assert_int_equal(exit_of(f, 2).start, START_LIVE);
	/* One whose end was not noticed yet. */
	world.report_result = 1;
	(void)started(f, 3, "z");
	assert_int_equal(world.drops, 2);
	assert_int_equal(world.takes, 3);
	done(f);
}

static void
test_eval_death_at_rest(void **state)
{
	struct fake *f = box();
	struct run *run = started(f, 1, "x");

	(void)state;
	SAY(f, run, "e0\0");
	eval_on_idle(&f->g, 0); /* nothing said */
	assert_int_equal(f->g.eval[0].runner.pid, 1000);
	world.report_result = 1;
	eval_on_idle(&f->g, 0);
	assert_int_equal(world.drops, 1);
	assert_int_equal(f->g.eval[0].runner.fd, -1);
	eval_on_idle(&f->g, 0);
	assert_int_equal(world.drops, 1);
	done(f);
}

static void
test_eval_death_while_it_works(void **state)
{
	struct fake *f = box();
	struct run *run = started(f, 1, "x");
	struct run *next = started(f, 2, "y");
	const struct report report = {.what = REPORT_ENDED, .pid = 77, .status = 9};

	(void)state;
	assert_int_equal(next->state, STATE_WAITING);
	assert_int_equal(write(world.control, "va\0v", 4), 4); /* its last words, cut */
	eval_on_control(&f->g, run);
	run_on_report(&f->g, run, &report);
	assert_int_equal(exit_of(f, 1).how, EXIT_SIGNALED);
	assert_int_equal(exit_of(f, 1).signal, 9);
	assert_int_equal(exit_of(f, 1).flags & EXIT_INTERPRETER_GONE, EXIT_INTERPRETER_GONE);
	assert_int_equal(world.takes, 2); /* the next one's own */
	assert_int_equal(next->state, STATE_GOING);
	assert_heard("0000000001y");
	SAY(f, next, "vb\0e0\0");
	assert_int_equal(exit_of(f, 2).how, EXIT_EXITED);
	done(f);
}

static void
test_eval_what_cannot_start(void **state)
{
	struct fake *f = box();
	struct run *run = fresh(f, 1, RUN_EVAL_PYTHON, "x"), *next;

	(void)state;
	world.take_result = -EAGAIN;
	assert_int_equal(eval_start(&f->g, run), EAGAIN);
	world.take_result = 0;
	world.fill_result = ENOENT;
	assert_int_equal(eval_start(&f->g, run), ENOENT);
	let_go(f, run);
	world.fill_result = 0;
	world.dead = 2;
	assert_int_equal(eval_start(&f->g, run), EPIPE);
	let_go(f, run);
	assert_int_equal(world.drops, 3);
	world.dead = 1; /* one that another run has killed is replaced */
	/* None of them is in the way of the next, and who waits is told. */
	assert_int_equal(eval_start(&f->g, run), 0);
	assert_heard("0000000001x");
	next = started(f, 2, "y");
	world.report_result = 1; /* it dies */
	world.fill_result = ENOENT;
	SAY(f, run, "e0\0");
	assert_int_equal(exit_of(f, 2).how, EXIT_NOT_STARTED);
	assert_int_equal(exit_of(f, 2).flags & EXIT_INTERPRETER_GONE, 0);
	assert_int_equal(exit_of(f, 2).exit_code, ENOENT);
	assert_int_not_equal(next->state, STATE_GOING);
	assert_int_equal(f->g.eval[0].going, 0);
	done(f);
}

static void
test_eval_what_is_refused(void **state)
{
	struct fake *f = box();
	struct run *run = fresh(f, 1, RUN_EVAL_BASH, "echo a");

	(void)state;
	run->what.code = (struct ipc_bin){(const uint8_t *)"a\0b", 3};
	assert_int_equal(eval_start(&f->g, run), EINVAL);
	run->what.kind = RUN_EVAL_PYTHON;
	run->what.flags = SPEC_STDIN;
	assert_int_equal(eval_start(&f->g, run), EINVAL);
	assert_int_equal(world.takes, 0);
	run->what.flags = 0;
	assert_int_equal(eval_start(&f->g, run), 0);
	done(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eval_first_one_starts_an_interpreter),
		cmocka_unit_test(test_eval_records_and_rest),
		cmocka_unit_test(test_eval_records_in_pieces),
		cmocka_unit_test(test_eval_languages_have_their_own),
		cmocka_unit_test(test_eval_turns),
		cmocka_unit_test(test_eval_what_breaks_the_rules_is_ended),
		cmocka_unit_test(test_eval_value_of_the_greatest_length),
		cmocka_unit_test(test_eval_long_code_is_written_as_it_is_read),
		cmocka_unit_test(test_eval_an_end_before_all_was_read),
		cmocka_unit_test(test_eval_one_that_spoke_at_rest_is_replaced),
		cmocka_unit_test(test_eval_death_at_rest),
		cmocka_unit_test(test_eval_death_while_it_works),
		cmocka_unit_test(test_eval_what_cannot_start),
		cmocka_unit_test(test_eval_what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
