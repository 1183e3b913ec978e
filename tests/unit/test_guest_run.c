/*
 * tests/unit/test_guest_run.c - a run's states, driven by reports and a set clock.
 * Runs in: ctest.
 * Input: none.
 * Owns: a guest whose processes are faked.
 */
#include "test.h"
#include "guest_fakes.h"

#include <signal.h>

static struct {
	uint64_t now_us;
	unsigned orders, kills, handed;
	int write_result, fill_result, hand_result;
	uint32_t tree_size;
} fake_world;

int __wrap_launch_write_code(const struct guest_spec *spec);
int __wrap_launch_fill_run(struct launch *l, const struct guest_spec *spec, uint32_t cpus);
int __wrap_runner_order(struct runner *r);
int __wrap_prestart_hand_out(struct guest *g, const struct guest_spec *spec);
uint32_t __wrap_tree_kill(pid_t root);
uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_now_ms(void);

int
__wrap_launch_write_code(const struct guest_spec *spec)
{
	(void)spec;
	return fake_world.write_result;
}

int
__wrap_launch_fill_run(struct launch *l, const struct guest_spec *spec, uint32_t cpus)
{
	(void)l;
	(void)spec;
	(void)cpus;
	return fake_world.fill_result;
}

int
__wrap_runner_order(struct runner *r)
{
	(void)r;
	fake_world.orders++;
	return 0;
}

int
__wrap_prestart_hand_out(struct guest *g, const struct guest_spec *spec)
{
	(void)spec;
	fake_world.handed++;
	if (fake_world.hand_result == 0)
		g->prestart = PRESTART_USED;
	return fake_world.hand_result;
}

uint32_t
__wrap_tree_kill(pid_t root)
{
	(void)root;
	fake_world.kills++;
	return fake_world.tree_size;
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
	fake_world.now_us = 1000000;
	f->g.hello.box_class = box_class;
	f->g.prestart = prestart;
	/* No process of that number: the signals a kill sends must reach nobody. */
	f->g.runner.pid = INT32_MAX;
	return f;
}

static void
start(struct fake *f, uint32_t kind, uint64_t output_limit)
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
	assert_int_equal(guest_on_h_spec(&f->g, 1, buf_data(&b), 3), 0);
	assert_int_equal(guest_on_h_run(&f->g, 1, buf_data(&b) + 3, buf_len(&b) - 3), 0);
	buf_done(&b);
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

	run_on_report(&f->g, &r);
}

/* The only frame kept must be g_exit. */
static struct guest_g_exit
exit_of(struct fake *f)
{
	struct guest_g_exit x;
	struct guest_frame frame;

	assert_int_equal(f->g.run.state, STATE_OVER);
	assert_true(fake_next_frame(&f->g.stream.kept, &frame));
	assert_int_equal(frame.row->type, GUEST_g_exit);
	assert_int_equal(frame.run, 1);
	assert_int_equal(guest_get_g_exit(frame.payload, frame.len, &x), 0);
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
	assert_int_equal(f->g.run.state, STATE_GOING);
	assert_int_equal(fake_world.orders, 1);
	assert_int_equal(f->g.feed.fd, -1); /* no SPEC_STDIN: at its end */
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
	assert_int_equal(run_next_ms(&f->g), 0);
	fake_free(f);
}

static void
test_run_handed_out(void **state)
{
	struct fake *f = new_box(BOX_PYTHON, PRESTART_READY);
	struct guest_g_exit x;

	(void)state;
	f->g.run.base_cpu_us = 600;
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
check_cleared(uint32_t kind, int hand_result, uint32_t what)
{
	struct fake *f = new_box(BOX_PYTHON, PRESTART_READY);

	fake_world.hand_result = hand_result;
	f->g.run.base_cpu_us = 600;
	start(f, kind, 0);
	assert_int_equal(f->g.run.state, STATE_CLEARING);
	assert_int_equal(fake_world.kills, 1);
	assert_int_equal(fake_world.orders, 0);
	fake_world.now_us += 60000;
	run_tick(&f->g, fake_world.now_us / 1000);
	assert_int_equal(fake_world.kills, 2);
	report(f, what, SIGKILL, 0);
	assert_int_equal(f->g.run.state, STATE_GOING);
	assert_int_equal(fake_world.orders, 1);
	report(f, REPORT_ENDED, 0, 0);
	assert_int_equal(exit_of(f).start, START_LIVE);
	assert_int_equal(f->g.run.result.cpu_us, 700);
	fake_free(f);
}

static void
test_run_clears_the_unwanted(void **state)
{
	(void)state;
	check_cleared(RUN_BASH, 0, REPORT_ENDED);
	check_cleared(RUN_PYTHON, -ENOSPC, REPORT_ENDED);
	check_cleared(RUN_NODE, 0, REPORT_FAILED);
}

static void
test_run_timeout(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	struct guest_g_exit x;

	(void)state;
	fake_world.tree_size = 3;
	start(f, RUN_BASH, 0);
	run_tick(&f->g, 1499);
	assert_int_equal(fake_world.kills, 0);
	fake_world.now_us = 1500000;
	run_tick(&f->g, 1500);
	assert_int_equal(f->g.run.state, STATE_KILLING);
	assert_int_equal(fake_world.kills, 1);
	fake_world.now_us = 1550000;
	run_tick(&f->g, 1550);
	assert_int_equal(fake_world.kills, 2); /* until it is seen gone */
	report(f, REPORT_ENDED, SIGKILL, 1);
	assert_int_equal(f->g.run.state, STATE_KILLING);
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
	assert_int_equal(guest_on_h_end(&f->g, 1), -EBADMSG); /* no such run */
	start(f, RUN_BASH, 0);
	assert_int_equal(guest_on_h_end(&f->g, 2), -EBADMSG);
	assert_int_equal(guest_on_h_end(&f->g, 1), 0);
	report(f, REPORT_ENDED, SIGKILL, 0);
	assert_int_equal(exit_of(f).flags & EXIT_ENDED, EXIT_ENDED);
	assert_int_equal(guest_on_h_end(&f->g, 1), 0); /* late: nothing */
	fake_free(f);

	f = new_box(BOX_PYTHON, PRESTART_READY);
	start(f, RUN_BASH, 0); /* asked while the unwanted interpreter goes */
	assert_int_equal(guest_on_h_end(&f->g, 1), 0);
	report(f, REPORT_ENDED, SIGKILL, 0);
	assert_int_equal(exit_of(f).how, EXIT_NOT_STARTED);
	assert_int_equal(fake_world.orders, 0);
	fake_free(f);
}

static void
test_run_not_started(void **state)
{
	struct fake *f;
	struct guest_g_exit x;

	(void)state;
	for (int i = 0; i < 4; i++) {
		f = new_box(BOX_SHELL, PRESTART_NONE);
		fake_world.write_result = i == 0 ? ENOSPC : 0;
		fake_world.fill_result = i == 1 ? ENOENT : 0;
		if (i < 3)
			start(f, RUN_BASH, 0);
		else
			assert_int_equal(guest_on_h_run(&f->g, 1, (const uint8_t *)"\xff", 1), 0);
		if (i == 2)
			report(f, REPORT_FAILED, EACCES, 0);
		x = exit_of(f);
		assert_int_equal(x.how, EXIT_NOT_STARTED);
		assert_int_equal(x.flags & EXIT_FORK_FAILED, EXIT_FORK_FAILED);
		assert_int_equal(x.exit_code, ((const int[]){ENOSPC, ENOENT, EACCES, EBADMSG})[i]);
		fake_free(f);
	}
}

static void
test_run_output_limit(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	start(f, RUN_BASH, 10);
	f->g.out[0].total = 6;
	f->g.out[1].total = 4;
	run_tick(&f->g, 1001);
	assert_int_equal(fake_world.kills, 0);
	f->g.out[1].total = 5;
	run_tick(&f->g, 1001);
	assert_int_equal(f->g.run.state, STATE_KILLING);
	assert_int_equal(f->g.run.result.flags, EXIT_OUTPUT_LIMIT);
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
	f->g.out[0].credit = 2;
	assert_int_equal(write(f->run_out, "last", 4), 4);
	report(f, REPORT_ENDED, 0, 0);
	assert_int_equal(f->g.run.state, STATE_DRAINING);
	assert_int_equal(guest_on_h_credit(&f->g, STREAM_STDOUT, &credit), 0);
	run_tick(&f->g, 1001);
	assert_int_equal(f->g.run.state, STATE_OVER);
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
	f->g.runner.pid = 0;
	run_on_runner_gone(&f->g);
	assert_int_equal(f->g.run.state, STATE_KILLING);
	assert_int_equal(fake_world.kills, 1);
	run_on_orphans_gone(&f->g);
	x = exit_of(f);
	assert_int_equal(x.how, EXIT_SIGNALED);
	assert_int_equal(x.signal, SIGKILL);
	fake_free(f);
}

static void
runner_gone_while_idle(void *arg)
{
	run_on_runner_gone(&((struct fake *)arg)->g);
}

static void
test_run_runner_gone_without_a_run(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);
	int status = test_in_child(runner_gone_while_idle, f);

	(void)state;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == END_RUNNER);
	fake_free(f);
}

static void
test_run_refuses_parts(void **state)
{
	struct fake *f = new_box(BOX_SHELL, PRESTART_NONE);

	(void)state;
	assert_int_equal(guest_on_h_spec(&f->g, 0, (const uint8_t *)"x", 1), -EBADMSG);
	assert_int_equal(guest_on_h_spec(&f->g, 5, (const uint8_t *)"x", 1), 0);
	assert_int_equal(guest_on_h_spec(&f->g, 6, (const uint8_t *)"x", 1), -EBADMSG);
	f->g.run.state = STATE_OVER;
	assert_int_equal(guest_on_h_spec(&f->g, 5, (const uint8_t *)"x", 1), -EBADMSG);
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
		cmocka_unit_test(test_run_not_started),
		cmocka_unit_test(test_run_output_limit),
		cmocka_unit_test(test_run_exit_waits_for_output),
		cmocka_unit_test(test_run_runner_killed),
		cmocka_unit_test(test_run_runner_gone_without_a_run),
		cmocka_unit_test(test_run_refuses_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
