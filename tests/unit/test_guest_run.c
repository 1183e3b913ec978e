/*
 * tests/unit/test_guest_run.c - the states of runs, driven by reports and a set clock.
 * Runs in: ctest.
 * Input: none.
 * Owns: a guest whose processes are faked.
 */
#include "test.h"
#include "guest_fakes.h"

static struct {
	uint64_t now_us;
	unsigned orders, put_away, kills, handed, takes, drops, evals, files;
	int write_result, fill_result, hand_result, take_result, eval_result;
	int order_results[3]; /* of each order */
	uint32_t tree_size, strangers;
	struct fake *fake;
} fake_world;

int __wrap_launch_write_code(const struct guest_spec *spec);
__typeof__(launch_fill_run) __wrap_launch_fill_run;
int __wrap_runner_order(struct runner *r);
int __wrap_prestart_hand_out(struct guest *g, struct run *run);
bool __wrap_runner_put_away(const struct runner *r);
uint32_t __wrap_tree_kill(pid_t root);
int __wrap_children_take(struct guest *g, struct runner *ret);
void __wrap_children_drop(struct guest *g, struct runner *r);
uint32_t __wrap_children_kill_strangers(struct guest *g);
int __wrap_eval_start(struct guest *g, struct run *run);
void __wrap_files_start(struct guest *g, struct run *run);
uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_now_ms(void);

int
__wrap_launch_write_code(const struct guest_spec *spec)
{
	(void)spec;
	return fake_world.write_result;
}

int
__wrap_launch_fill_run(struct launch *l, const struct guest_spec *spec,
		       const struct guest_spec *kept, uint32_t cpus)
{
	(void)l;
	(void)spec;
	(void)cpus;
	(void)kept;
	return fake_world.fill_result;
}

int
__wrap_runner_order(struct runner *r)
{
	(void)r;
	return fake_world.orders++ < 3 ? fake_world.order_results[fake_world.orders - 1] : 0;
}

int
__wrap_prestart_hand_out(struct guest *g, struct run *run)
{
	fake_world.handed++;
	if (fake_world.hand_result != 0)
		return fake_world.hand_result;
	run_adopt(run, &g->waiting);
	run->base_cpu_us = g->waiting_cpu_us;
	g->prestart = PRESTART_NONE;
	return 0;
}

bool
__wrap_runner_put_away(const struct runner *r)
{
	(void)r;
	return ++fake_world.put_away > 0;
}

uint32_t
__wrap_tree_kill(pid_t root)
{
	(void)root;
	fake_world.kills++;
	return fake_world.tree_size;
}

int
__wrap_children_take(struct guest *g, struct runner *ret)
{
	(void)g;
	fake_world.takes++;
	*ret = RUNNER_NONE;
	if (fake_world.take_result == 0)
		*ret = fake_runner(fake_world.fake);
	return fake_world.take_result;
}

void
__wrap_children_drop(struct guest *g, struct runner *r)
{
	(void)g;
	if (r->pid > 0)
		fake_world.drops++;
	runner_close(r);
}

uint32_t
__wrap_children_kill_strangers(struct guest *g)
{
	(void)g;
	fake_world.kills++;
	return fake_world.strangers;
}

int
__wrap_eval_start(struct guest *g, struct run *run)
{
	(void)g;
	fake_world.evals++;
	if (fake_world.eval_result == 0)
		run->state = STATE_WAITING;
	return fake_world.eval_result;
}

void
__wrap_files_start(struct guest *g, struct run *run)
{
	assert_int_equal(run->state, STATE_GOING);
	fake_world.files++;
	files_end(g, run, ENOENT);
}

uint64_t
__wrap_clock_now_us(void)
{
	return fake_world.now_us;
}

uint64_t
__wrap_clock_now_ms(void)
{
	return fake_world.now_us / 1000;
}

static struct fake *
new_box(uint32_t box_class, enum prestart prestart)
{
	struct fake *f = fake_new();

	memset(&fake_world, 0, sizeof(fake_world));
	fake_world.fake = f;
	fake_world.now_us = 1000000;
	f->g.hello.box_class = box_class;
	f->g.prestart = prestart;
	if (prestart == PRESTART_READY)
		f->g.waiting = fake_runner(f);
	return f;
}

static void
start_number(struct fake *f, uint32_t number, uint32_t kind, uint64_t output_limit)
{
	struct guest_spec spec = {
		.kind = kind,
		.timeout_ms = 500,
		.output_limit = output_limit,
		.code = {.data = (const uint8_t *)"x", .len = 1},
	};
	struct buf b;

	buf_init(&b, 4096);
	assert_int_equal(spec_encode(&spec, &b), 0);
	assert_int_equal(guest_on_h_spec(&f->g, number, buf_data(&b), 3), 0);
	assert_int_equal(guest_on_h_run(&f->g, number, buf_data(&b) + 3, buf_len(&b) - 3), 0);
	buf_done(&b);
}

static void
start(struct fake *f, uint32_t kind, uint64_t output_limit)
{
	start_number(f, 1, kind, output_limit);
}

static void
report(struct fake *f, uint32_t what, int status, uint32_t left)
{
	const struct report r = {
		.what = what,
		.status = status,
		.left = left,
		.at_us = fake_world.now_us,
		.cpu_us = 700,
		.max_rss_bytes = 4096,
	};

	run_on_report(&f->g, &f->g.runs[0], &r);
}

static void
tick(struct fake *f, uint64_t ms)
{
	fake_world.now_us = ms * 1000;
	run_tick_all(&f->g, ms);
}

/* The next frame kept must be g_exit of this run. */
static struct guest_g_exit
next_exit(struct fake *f, uint32_t number)
{
	struct guest_g_exit x;
	struct guest_frame frame;

	assert_true(fake_next_frame(&f->g.stream.kept, &frame));
	assert_int_equal(frame.row->type, GUEST_g_exit);
	assert_int_equal(frame.run, number);
	assert_int_equal(guest_get_g_exit(frame.payload, frame.len, &x), 0);
	return x;
}

/* The only one. */
static struct guest_g_exit
exit_of(struct fake *f)
{
	struct guest_frame frame;
	struct guest_g_exit x = next_exit(f, 1);

	assert_int_equal(f->g.runs[0].state, STATE_OVER);
	assert_false(fake_next_frame(&f->g.stream.kept, &frame));
	return x;
}

static void
test_run_live(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_g_exit x;

	(void)state;
	start(f, RUN_BASH, 0);
	assert_int_equal(f->g.runs[0].state, STATE_GOING);
	assert_int_equal(fake_world.orders, 1);
	assert_int_equal(f->g.runs[0].feed.fd, -1); /* no SPEC_STDIN: at its end */
	assert_int_equal(run_next_ms(&f->g), 1500);
	fake_world.now_us += 2500;
	report(f, REPORT_ENDED, 3 << 8, 0);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_EXITED);
	assert_int_equal(x.exit_code, 3);
	assert_int_equal(x.wall_us, 2500);
	assert_int_equal(x.cpu_us, 700);
	assert_int_equal(x.max_rss_bytes, 4096);
	assert_int_equal(x.start, START_WARM);
	assert_int_equal(fake_world.kills, 0);
	assert_int_equal(fake_world.drops, 0);
	tick(f, run_next_ms(&f->g)); /* a little later all of it is gone */
	assert_int_equal(fake_world.drops, 1);
	assert_int_equal(f->g.runs[0].number, 0);
	assert_int_equal(run_next_ms(&f->g), 0);
	fake_free(f);
}

static void
test_run_handed_out(void **state)
{
	struct fake *f = new_box(BOX_PYTHON, PRESTART_READY);
	struct guest_g_exit x;

	(void)state;
	f->g.waiting_cpu_us = 600;
	start(f, RUN_PYTHON, 0);
	assert_int_equal(fake_world.handed, 1);
	assert_int_equal(fake_world.orders, 0);
	report(f, REPORT_ENDED, SIGSEGV, 0);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_SIGNALED);
	assert_int_equal(x.signal, SIGSEGV);
	assert_int_equal(x.cpu_us, 100); /* the wait is not the run's */
	fake_free(f);
}

static void
check_cleared(uint32_t kind, int hand_result)
{
	struct fake *f = new_box(BOX_PYTHON, PRESTART_READY);

	fake_world.hand_result = hand_result;
	f->g.waiting_cpu_us = 600;
	start(f, kind, 0);
	assert_int_equal(f->g.prestart, PRESTART_LEAVING);
	assert_int_equal(fake_world.put_away, 1);
	assert_int_equal(fake_world.drops, 0);
	assert_int_equal(f->g.runs[0].state, STATE_GOING); /* in another runner, at once */
	assert_int_equal(fake_world.orders, 1);
	report(f, REPORT_ENDED, 0, 0);
	assert_int_equal(exit_of(f).start, START_LIVE);
	assert_int_equal(f->g.runs[0].result.cpu_us, 700);
	fake_free(f);
}

static void
test_run_clears_the_unwanted(void **state)
{
	(void)state;
	check_cleared(RUN_BASH, 0);
	check_cleared(RUN_PYTHON, -ENOSPC);
	check_cleared(RUN_NODE, 0);
}

static void
test_run_timeout(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_g_exit x;

	(void)state;
	fake_world.tree_size = 3;
	start(f, RUN_BASH, 0);
	tick(f, 1499);
	assert_int_equal(fake_world.kills, 0);
	tick(f, 1500);
	assert_int_equal(f->g.runs[0].state, STATE_KILLING);
	assert_int_equal(fake_world.kills, 1);
	tick(f, 1550);
	assert_int_equal(fake_world.kills, 2); /* until it is seen gone */
	report(f, REPORT_ENDED, SIGKILL, 1);
	assert_int_equal(f->g.runs[0].state, STATE_KILLING);
	report(f, REPORT_EMPTY, SIGKILL, 1);
	x = exit_of(f);
	assert_int_equal(x.flags & EXIT_TIMED_OUT, EXIT_TIMED_OUT);
	assert_int_equal(x.signal, SIGKILL);
	assert_int_equal(x.leftovers, 3);
	fake_free(f);
}

static void
test_run_asked_to_end(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	start(f, RUN_BASH, 0);
	assert_int_equal(guest_on_h_end(&f->g, 2), 0); /* over long ago */
	assert_int_equal(f->g.runs[0].state, STATE_GOING);
	assert_int_equal(guest_on_h_end(&f->g, 1), 0);
	report(f, REPORT_ENDED, SIGKILL, 0);
	assert_int_equal(exit_of(f).flags & EXIT_ENDED, EXIT_ENDED);
	assert_int_equal(guest_on_h_end(&f->g, 1), 0); /* late: nothing */
	fake_free(f);
}

static void
test_run_ended_before_it_began(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_g_exit x;

	(void)state;
	assert_int_equal(guest_on_h_spec(&f->g, 1, (const uint8_t *)"x", 1), 0);
	assert_int_equal(guest_on_h_end(&f->g, 1), 0);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_NOT_STARTED);
	assert_int_equal(x.flags, EXIT_ENDED);
	assert_int_equal(fake_world.takes, 0);
	fake_free(f);

	f = new_box(BOX_SHELL, PRESTART_NONE);
	start(f, RUN_EVAL_PYTHON, 0); /* waits for its turn */
	f->g.eval[0].waiting[0] = 1;
	f->g.eval[0].n_waiting = 1;
	assert_int_equal(guest_on_h_end(&f->g, 1), 0);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_NOT_STARTED);
	assert_int_equal(x.flags, EXIT_ENDED);
	assert_int_equal(f->g.eval[0].n_waiting, 0);
	fake_free(f);
}

static void
test_run_not_started(void **state)
{
	static const int errors[] = {ENOSPC, ENOENT, EACCES, EBADMSG, EAGAIN, EPIPE, EBUSY};
	struct fake *f;
	struct guest_g_exit x;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		f = new_box(BOX_SHELL, PRESTART_NONE);
		fake_world.write_result = i == 0 ? ENOSPC : 0;
		fake_world.fill_result = i == 1 ? ENOENT : 0;
		fake_world.take_result = i == 4 ? -EAGAIN : 0;
		if (i == 5)
			fake_world.order_results[0] = fake_world.order_results[1] = -EPIPE;
		fake_world.eval_result = EBUSY;
		if (i == 3)
			assert_int_equal(guest_on_h_run(&f->g, 1, (const uint8_t *)"\xff", 1), 0);
		else
			start(f, i == 6 ? RUN_EVAL_NODE : RUN_BASH, 0);
		if (i == 2)
			report(f, REPORT_FAILED, EACCES, 0);
		x = exit_of(f);
		assert_int_equal(x.how, EXIT_NOT_STARTED);
		assert_int_equal(x.flags & EXIT_FORK_FAILED, EXIT_FORK_FAILED);
		assert_int_equal(x.exit_code, errors[i]);
		fake_free(f);
	}
}

/* Another run has killed the spare, and PID 1 has not heard of it yet. */
static void
test_run_takes_another_runner(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	fake_world.order_results[0] = -EPIPE;
	start(f, RUN_BASH, 0);
	assert_int_equal(f->g.runs[0].state, STATE_GOING);
	assert_int_equal(fake_world.takes, 2);
	assert_int_equal(fake_world.drops, 1);
	fake_free(f);
}

static void
test_run_of_a_file(void **state)
{
	struct fake *f = new_box(BOX_PYTHON, PRESTART_READY);
	struct guest_g_exit x;

	(void)state;
	start(f, RUN_FILE_READ, 0);
	assert_int_equal(fake_world.files, 1);
	assert_int_equal(fake_world.takes, 0);
	assert_int_equal(f->g.prestart, PRESTART_READY); /* its interpreter still waits */
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_EXITED);
	assert_int_equal(x.exit_code, ENOENT);
	fake_free(f);
}

/* All slots: each run has its own state, end and number; one more is refused, and a slot whose
 * run is over is taken. */
static void
test_run_many(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	const struct report ended = {.what = REPORT_ENDED, .status = 9 << 8};
	struct guest_g_exit x;

	(void)state;
	for (uint32_t i = 1; i <= GUEST_RUNS_MAX; i++)
		start_number(f, 100 + i, RUN_BASH, 0);
	assert_int_equal(fake_world.takes, GUEST_RUNS_MAX);
	start_number(f, 99, RUN_BASH, 0);
	x = next_exit(f, 99);
	assert_int_equal(x.how, EXIT_NOT_STARTED);
	assert_int_equal(x.exit_code, EBUSY);
	assert_int_equal(guest_on_h_end(&f->g, 105), 0);
	for (uint32_t i = 1; i <= GUEST_RUNS_MAX; i++)
		assert_int_equal(run_find(&f->g, 100 + i)->state,
				 i == 5 ? STATE_KILLING : STATE_GOING);
	run_on_report(&f->g, run_find(&f->g, 103), &ended);
	x = next_exit(f, 103);
	assert_int_equal(x.exit_code, 9);
	start_number(f, 98, RUN_BASH, 0);
	assert_null(run_find(&f->g, 103));
	assert_int_equal(run_find(&f->g, 98)->state, STATE_GOING);
	assert_int_equal(fake_world.drops, 1);
	tick(f, 2000); /* all the others are too late */
	for (uint32_t i = 1; i <= GUEST_RUNS_MAX; i++) {
		if (i != 3)
			assert_int_equal(run_find(&f->g, 100 + i)->state, STATE_KILLING);
	}
	fake_free(f);
}

/* Thousands one after the other in the same few slots. */
static void
test_run_thousands(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	size_t before = test_open_fds();

	(void)state;
	for (uint32_t i = 1; i <= 3000; i++) {
		start_number(f, i, RUN_BASH, 0);
		report(f, REPORT_ENDED, 0, 0);
		(void)next_exit(f, i);
		tick(f, 1000 + i * 3);
		assert_int_equal(f->g.runs[0].number, 0);
	}
	assert_int_equal(fake_world.drops, 3000);
	(void)close(TAKE_FD(f->run_stdin));
	(void)close(TAKE_FD(f->run_out));
	(void)close(TAKE_FD(f->run_err));
	assert_int_equal(test_open_fds(), before);
	fake_free(f);
}

static void
test_run_output_limit(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	start(f, RUN_BASH, 10);
	f->g.runs[0].out[0].total = 6;
	f->g.runs[0].out[1].total = 4;
	tick(f, 1001);
	assert_int_equal(fake_world.kills, 0);
	f->g.runs[0].out[1].total = 5;
	tick(f, 1001);
	assert_int_equal(f->g.runs[0].state, STATE_KILLING);
	assert_int_equal(f->g.runs[0].result.flags, EXIT_OUTPUT_LIMIT);
	fake_free(f);
}

static void
test_run_exit_waits_for_output(void **state)
{
	const struct guest_h_credit credit = {.limit = 100};
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_frame frame;

	(void)state;
	start(f, RUN_BASH, 0);
	f->g.runs[0].out[0].credit = 2;
	assert_int_equal(write(f->run_out, "last", 4), 4);
	report(f, REPORT_ENDED, 0, 0);
	assert_int_equal(f->g.runs[0].state, STATE_DRAINING);
	assert_int_equal(guest_on_h_credit(&f->g, 1, STREAM_STDOUT, &credit), 0);
	tick(f, 1001);
	assert_int_equal(f->g.runs[0].state, STATE_OVER);
	assert_true(fake_next_frame(&f->g.stream.kept, &frame));
	assert_memory_equal(frame.payload, "la", 2);
	assert_true(fake_next_frame(&f->g.stream.kept, &frame));
	assert_memory_equal(frame.payload, "st", 2);
	assert_int_equal(exit_of(f).stdout_bytes, 4);
	fake_free(f);
}

static void
test_run_runner_killed(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_g_exit x;

	(void)state;
	start(f, RUN_BASH, 0);
	start_number(f, 2, RUN_BASH, 0);
	f->g.runs[0].runner.pid = 0;
	fake_world.strangers = 2;
	run_on_runner_gone(&f->g, &f->g.runs[0]);
	assert_int_equal(f->g.runs[0].state, STATE_KILLING);
	assert_int_equal(fake_world.kills, 1);
	tick(f, 1050);
	assert_int_equal(f->g.runs[0].state, STATE_KILLING);
	fake_world.strangers = 0;
	tick(f, 1100);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_SIGNALED);
	assert_int_equal(x.signal, SIGKILL);
	assert_int_equal(f->g.runs[1].state, STATE_GOING);
	fake_free(f);
}

static void
test_run_refuses_parts(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	assert_int_equal(guest_on_h_spec(&f->g, 0, (const uint8_t *)"x", 1), -EBADMSG);
	start(f, RUN_BASH, 0);
	assert_int_equal(guest_on_h_spec(&f->g, 1, (const uint8_t *)"x", 1), -EBADMSG);
	assert_int_equal(guest_on_h_run(&f->g, 1, (const uint8_t *)"x", 1), -EBADMSG);
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_live),
		cmocka_unit_test(test_run_handed_out),
		cmocka_unit_test(test_run_clears_the_unwanted),
		cmocka_unit_test(test_run_timeout),
		cmocka_unit_test(test_run_asked_to_end),
		cmocka_unit_test(test_run_ended_before_it_began),
		cmocka_unit_test(test_run_not_started),
		cmocka_unit_test(test_run_takes_another_runner),
		cmocka_unit_test(test_run_of_a_file),
		cmocka_unit_test(test_run_many),
		cmocka_unit_test(test_run_thousands),
		cmocka_unit_test(test_run_output_limit),
		cmocka_unit_test(test_run_exit_waits_for_output),
		cmocka_unit_test(test_run_runner_killed),
		cmocka_unit_test(test_run_refuses_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
