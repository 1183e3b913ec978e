/*
 * tests/unit/test_guest_prestart.c - when an interpreter waits, and what it is told.
 * Runs in: ctest.
 * Input: none.
 * Owns: a socket pair in the place of a waiting interpreter.
 */
#include "test.h"
#include "guest_fakes.h"

#include <sys/socket.h>

static int fill_result;
static int order_result;
static int take_result;
static bool number_known;
static unsigned orders, dropped;
static struct fake *the_fake;

int __wrap_launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus);
int __wrap_runner_order(struct runner *r);
int __wrap_children_take(struct guest *g, struct runner *ret);
void __wrap_children_drop(struct guest *g, struct runner *r);
bool __wrap_runner_put_away(const struct runner *r);

bool
__wrap_runner_put_away(const struct runner *r)
{
	(void)r;
	return number_known;
}

int
__wrap_children_take(struct guest *g, struct runner *ret)
{
	(void)g;
	if (take_result == 0) {
		*ret = fake_runner(the_fake);
		ret->pid = 0; /* nothing may be killed */
	}
	return take_result;
}

void
__wrap_children_drop(struct guest *g, struct runner *r)
{
	(void)g;
	dropped++;
	runner_close(r);
}

int
__wrap_launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus)
{
	(void)l;
	(void)box_class;
	(void)cpus;
	return fill_result;
}

int
__wrap_runner_order(struct runner *r)
{
	(void)r;
	orders++;
	return order_result;
}

static struct fake *
due_box(uint32_t box_class)
{
	struct fake *f = fake_new();

	the_fake = f;
	f->g.hello.box_class = box_class;
	f->g.prestart = PRESTART_DUE;
	fill_result = 0;
	order_result = 0;
	take_result = 0;
	number_known = true;
	orders = 0;
	dropped = 0;
	return f;
}

/* One in which an interpreter starts. *ret_other is its fd 3. */
static struct fake *
waiting_box(uint32_t box_class, int *ret_other)
{
	struct fake *f = due_box(box_class);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	prestart_begin(&f->g);
	f->g.waiting.control_fd = pair[0];
	*ret_other = pair[1];
	return f;
}

static void
done(struct fake *f, int other)
{
	(void)close(other);
	fake_free(f);
}

/* Class named by the only g_ready that was sent, -1 when there is none. */
static int
said(struct fake *f)
{
	struct guest_g_ready ready;
	struct guest_frame frame;

	if (!fake_next_frame(&f->g.stream.wire, &frame))
		return -1;
	assert_int_equal(frame.row->type, GUEST_g_ready);
	assert_int_equal(guest_get_g_ready(frame.payload, frame.len, &ready), 0);
	return (int)ready.box_class;
}

static void
test_prestart_ready(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_NODE, &other);

	(void)state;
	assert_int_equal(f->g.prestart, PRESTART_STARTING);
	prestart_begin(&f->g);
	assert_int_equal(orders, 1);
	prestart_on_control(&f->g); /* nothing there yet */
	assert_int_equal(f->g.prestart, PRESTART_STARTING);
	assert_int_equal(write(other, "r", 1), 1);
	prestart_on_control(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_READY);
	assert_int_equal(said(f), BOX_NODE);
	done(f, other);
}

static void
test_prestart_not_possible(void **state)
{
	int other;
	struct fake *f;

	(void)state;
	for (int i = 0; i < 3; i++) {
		f = due_box(BOX_PYTHON);
		fill_result = i == 0 ? ENOENT : 0;
		order_result = i == 1 ? -EPIPE : 0;
		take_result = i == 2 ? -EAGAIN : 0;
		prestart_begin(&f->g);
		assert_int_equal(f->g.prestart, PRESTART_NONE);
		assert_int_equal(f->g.waiting.fd, -1);
		assert_int_equal(said(f), BOX_NOTHING);
		fake_free(f);
	}
	f = waiting_box(BOX_PYTHON, &other);
	prestart_on_gone(&f->g); /* it ended while starting */
	assert_int_equal(said(f), BOX_NOTHING);
	done(f, other);
}

/* Gives the waiting runner a socket that reports come from. */
static void
report(struct fake *f, uint32_t what, uint32_t left)
{
	const struct report r = {.what = what, .left = left};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(send(pair[1], &r, sizeof(r), 0), sizeof(r));
	assert_int_equal(dup2(pair[0], f->g.waiting.fd), f->g.waiting.fd);
	(void)close(pair[0]);
	prestart_on_report(&f->g);
	(void)close(pair[1]);
}

static void
test_prestart_of_nothing(void **state)
{
	struct fake *f = due_box(BOX_NOTHING);

	(void)state;
	prestart_begin(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(orders, 0);
	assert_int_equal(said(f), -1);
	fake_free(f);
}

static void
test_prestart_given_up(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);
	uint64_t now = clock_now_ms();

	(void)state;
	prestart_tick(&f->g, now);
	assert_int_equal(f->g.prestart, PRESTART_STARTING);
	assert_true(f->g.waiting_until_ms > now);
	prestart_tick(&f->g, f->g.waiting_until_ms);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	assert_int_equal(said(f), BOX_NOTHING);
	done(f, other);

	f = waiting_box(BOX_SHELL, &other);
	f->g.prestart = PRESTART_READY; /* it may wait for as long as the sandbox lives */
	prestart_tick(&f->g, f->g.waiting_until_ms);
	assert_int_equal(f->g.prestart, PRESTART_READY);
	done(f, other);
}

static void
test_prestart_discarded(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);

	(void)state;
	prestart_discard(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	assert_int_equal(said(f), BOX_NOTHING);
	prestart_begin(&f->g); /* once only */
	assert_int_equal(orders, 1);
	done(f, other);

	f = waiting_box(BOX_PYTHON, &other);
	f->g.prestart = PRESTART_READY;
	report(f, REPORT_ENDED, 0); /* it ended without a run */
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	assert_int_equal(said(f), -1);
	done(f, other);
}

static void
test_prestart_put_away(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);
	const struct launch *memory = f->g.waiting.launch;

	(void)state;
	f->g.prestart = PRESTART_READY;
	prestart_discard(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_LEAVING);
	prestart_discard(&f->g); /* the next run */
	assert_int_equal(f->g.prestart, PRESTART_LEAVING);
	assert_int_equal(dropped, 0);
	assert_int_equal(write(f->run_out, "noise", 5), 5);
	assert_int_equal(write(other, "noise", 5),
			 5); /* for the next one's control, an evaluation's */
	report(f, REPORT_ENDED, 0);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(f->g.waiting.fd, -1);
	assert_ptr_equal(f->g.spare.launch, memory);
	assert_int_equal(read(f->g.spare.out_fds[0], &(char[8]){0}, 8), -1);
	assert_int_equal(read(f->g.spare.control_fd, &(char[8]){0}, 8), -1);
	assert_int_equal(dropped, 0);
	assert_int_equal(said(f), -1);
	done(f, other);

	f = waiting_box(BOX_SHELL, &other);
	f->g.prestart = PRESTART_READY;
	prestart_discard(&f->g);
	f->g.spare = fake_runner(f);
	report(f, REPORT_ENDED, 0); /* there is one already */
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	done(f, other);

	f = waiting_box(BOX_SHELL, &other);
	f->g.prestart = PRESTART_READY;
	number_known = false; /* its runner has not come so far: it goes too */
	prestart_discard(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	done(f, other);

	f = waiting_box(BOX_SHELL, &other);
	f->g.prestart = PRESTART_READY;
	prestart_discard(&f->g);
	report(f, REPORT_ENDED, 1); /* the image's own start made more */
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	assert_int_equal(f->g.spare.fd, -1);
	done(f, other);
}

static void
test_prestart_not_when_a_run_is_here(void **state)
{
	struct fake *f = due_box(BOX_PYTHON);

	(void)state;
	(void)fake_run(f, 1);
	prestart_begin(&f->g);
	assert_int_equal(orders, 0);
	prestart_discard(&f->g); /* which needs another start */
	f->g.runs[0].state = STATE_OVER;
	f->g.runs[0].number = 0;
	prestart_begin(&f->g);
	assert_int_equal(orders, 0);
	f->g.runs[0].number = 1;
	fake_free(f);
}

static void
test_prestart_fits(void **state)
{
	struct ipc_str plain[] = {IPC_STR("A=1")};
	struct ipc_str startup[] = {IPC_STR("A=1"), IPC_STR("TZ=UTC")};
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct guest_spec spec = {.kind = RUN_PYTHON, .env = plain, .n_env = 1};

	(void)state;
	assert_false(prestart_fits(&f->g, &spec)); /* it starts still */
	f->g.prestart = PRESTART_READY;
	assert_true(prestart_fits(&f->g, &spec));
	spec.flags = SPEC_STDIN;
	assert_true(prestart_fits(&f->g, &spec));
	spec.flags = SPEC_LIVE;
	assert_false(prestart_fits(&f->g, &spec));
	spec.flags = 0;
	spec.kind = RUN_NODE;
	assert_false(prestart_fits(&f->g, &spec));
	spec.kind = RUN_PYTHON;
	spec.env = startup;
	spec.n_env = 2;
	assert_false(prestart_fits(&f->g, &spec));
	spec.n_env = 0;
	spec.cwd = IPC_STR("/tmp");
	assert_false(prestart_fits(&f->g, &spec));
	done(f, other);
}

/* A bash waits for a run that brings nothing but its code. */
static void
test_prestart_fits_bash(void **state)
{
	struct ipc_str words[] = {IPC_STR("A=1")};
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);
	struct guest_spec spec = {.kind = RUN_BASH};

	(void)state;
	f->g.prestart = PRESTART_READY;
	assert_true(prestart_fits(&f->g, &spec));
	spec.flags = SPEC_STDIN;
	assert_true(prestart_fits(&f->g, &spec));
	spec.env = words;
	spec.n_env = 1;
	assert_false(prestart_fits(&f->g, &spec));
	spec.n_env = 0;
	spec.args = words;
	spec.n_args = 1;
	assert_false(prestart_fits(&f->g, &spec));
	spec.n_args = 0;
	spec.kind = RUN_COMMAND;
	assert_false(prestart_fits(&f->g, &spec));
	done(f, other);
}

static void
test_prestart_hand_out_bash(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);
	struct run run = {.runner = RUNNER_NONE, .feed = {.fd = -1}, .what = {.kind = RUN_BASH}};
	char got[8];

	(void)state;
	f->g.prestart = PRESTART_READY;
	f->g.waiting.launch->pid = getpid(); /* known since it spoke */
	assert_int_equal(prestart_hand_out(&f->g, &run), 0);
	assert_true(run.base_cpu_us > 0);
	assert_int_equal(run.result.start, START_WARM);
	assert_int_equal(read(other, got, sizeof(got)), 1);
	assert_int_equal(got[0], '\n');
	(void)close(run.feed.fd);
	runner_close(&run.runner);
	done(f, other);
}

static void
test_prestart_hand_out(void **state)
{
	static const char want[] = "\x14\0\0\0"
				   "2\0a\0\0N=v\0EMPTY=\0X=y";
	struct ipc_str args[] = {IPC_STR("a"), IPC_STR("")};
	struct ipc_str env[] = {IPC_STR("N=v"), IPC_STR("EMPTY="), IPC_STR("X=y")};
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct run run = {.runner = RUNNER_NONE, .feed = {.fd = -1}};
	char got[64];
	ssize_t n;

	(void)state;
	run.what = (struct guest_spec){
		.kind = RUN_PYTHON, .args = args, .n_args = 2, .env = env, .n_env = 3};
	f->g.prestart = PRESTART_READY;
	f->g.waiting_cpu_us = 600;
	assert_int_equal(prestart_hand_out(&f->g, &run), 0);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(f->g.waiting.fd, -1);
	assert_int_equal(run.result.start, START_WARM);
	assert_int_equal(run.base_cpu_us, 600);
	assert_true(run.runner.fd >= 0 && run.feed.fd >= 0 && run.out[0].fd >= 0);
	n = read(other, got, sizeof(got));
	assert_int_equal(n, sizeof(want));
	assert_int_equal((unsigned char)got[0], n - 4);
	assert_memory_equal(got + 1, want + 1, sizeof(want) - 1);
	(void)close(run.feed.fd);
	runner_close(&run.runner);
	done(f, other);
}

/* A run may look at its input as its first act. */
static void
test_prestart_hand_out_without_input(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);
	struct run run = {
		.runner = RUNNER_NONE, .feed = {.fd = -1, .eof = true}, .what = {.kind = RUN_BASH}};

	(void)state;
	f->g.prestart = PRESTART_READY;
	assert_int_equal(prestart_hand_out(&f->g, &run), 0);
	assert_int_equal(run.feed.fd, -1);
	assert_int_equal(read(f->run_stdin, &(char[8]){0}, 8), 0);
	runner_close(&run.runner);
	done(f, other);
}

static void
test_prestart_hand_out_to_nobody(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct run run = {.runner = RUNNER_NONE, .feed = {.fd = -1}};

	(void)state;
	assert_ptr_not_equal(signal(SIGPIPE, SIG_IGN), SIG_ERR);
	(void)close(other);
	f->g.prestart = PRESTART_READY;
	f->g.waiting_cpu_us = 600;
	assert_int_equal(prestart_hand_out(&f->g, &run), -EPIPE);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(dropped, 1);
	assert_int_equal(run.runner.fd, -1);
	assert_int_equal(run.feed.fd, -1);
	assert_int_equal(run.base_cpu_us, 0);
	fake_free(f);
}

static void
test_prestart_hand_out_too_long(void **state)
{
	static char big[70000];
	struct ipc_str args[] = {{big, sizeof(big)}};
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct run run = {.runner = RUNNER_NONE, .feed = {.fd = -1}};

	(void)state;
	run.what = (struct guest_spec){.kind = RUN_PYTHON, .args = args, .n_args = 1};
	memset(big, 'a', sizeof(big));
	f->g.prestart = PRESTART_READY;
	assert_int_equal(prestart_hand_out(&f->g, &run), -ENOSPC);
	assert_int_equal(f->g.prestart, PRESTART_READY);
	assert_int_equal(read(other, big, sizeof(big)), -1); /* not a part of it */
	done(f, other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prestart_ready),
		cmocka_unit_test(test_prestart_not_possible),
		cmocka_unit_test(test_prestart_of_nothing),
		cmocka_unit_test(test_prestart_given_up),
		cmocka_unit_test(test_prestart_discarded),
		cmocka_unit_test(test_prestart_put_away),
		cmocka_unit_test(test_prestart_not_when_a_run_is_here),
		cmocka_unit_test(test_prestart_fits),
		cmocka_unit_test(test_prestart_fits_bash),
		cmocka_unit_test(test_prestart_hand_out),
		cmocka_unit_test(test_prestart_hand_out_bash),
		cmocka_unit_test(test_prestart_hand_out_without_input),
		cmocka_unit_test(test_prestart_hand_out_to_nobody),
		cmocka_unit_test(test_prestart_hand_out_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
