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
static unsigned orders;

int __wrap_launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus);
int __wrap_runner_order(struct runner *r);

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
waiting_box(uint32_t box_class, int *ret_other)
{
	struct fake *f = fake_new();
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	f->g.runner.control_fd = pair[0];
	*ret_other = pair[1];
	f->g.hello.box_class = box_class;
	f->g.prestart = PRESTART_DUE;
	fill_result = 0;
	order_result = 0;
	orders = 0;
	return f;
}

static void
done(struct fake *f, int other)
{
	(void)close(other);
	(void)close(f->g.runner.control_fd);
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
	prestart_begin(&f->g);
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
	struct fake *f = waiting_box(BOX_PYTHON, &other);

	(void)state;
	fill_result = ENOENT;
	prestart_begin(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(said(f), BOX_SHELL);
	done(f, other);

	f = waiting_box(BOX_PYTHON, &other);
	order_result = -EPIPE;
	prestart_begin(&f->g);
	assert_int_equal(said(f), BOX_SHELL);
	done(f, other);

	f = waiting_box(BOX_PYTHON, &other);
	prestart_begin(&f->g);
	prestart_on_gone(&f->g); /* it ended while starting */
	assert_int_equal(said(f), BOX_SHELL);
	done(f, other);
}

static void
test_prestart_shell_says_nothing(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_SHELL, &other);

	(void)state;
	prestart_begin(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_TOUCHING);
	prestart_on_gone(&f->g);
	assert_int_equal(f->g.prestart, PRESTART_NONE);
	assert_int_equal(said(f), -1);
	done(f, other);
}

static void
test_prestart_not_when_a_run_is_here(void **state)
{
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);

	(void)state;
	f->g.run.number = 1;
	prestart_begin(&f->g);
	assert_int_equal(orders, 0);
	done(f, other);
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
	assert_false(prestart_fits(&f->g, &spec));
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

static void
test_prestart_hand_out(void **state)
{
	static const char want[] = "\x14\0\0\0"
				   "2\0a\0\0N=v\0EMPTY=\0X=y";
	struct ipc_str args[] = {IPC_STR("a"), IPC_STR("")};
	struct ipc_str env[] = {IPC_STR("N=v"), IPC_STR("EMPTY="), IPC_STR("X=y")};
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct guest_spec spec = {
		.kind = RUN_PYTHON, .args = args, .n_args = 2, .env = env, .n_env = 3};
	char got[64];
	ssize_t n;

	(void)state;
	f->g.prestart = PRESTART_READY;
	assert_int_equal(prestart_hand_out(&f->g, &spec), 0);
	assert_int_equal(f->g.prestart, PRESTART_USED);
	assert_int_equal(f->g.run.result.start, START_WARM);
	n = read(other, got, sizeof(got));
	assert_int_equal(n, sizeof(want));
	assert_int_equal((unsigned char)got[0], n - 4);
	assert_memory_equal(got + 1, want + 1, sizeof(want) - 1);
	done(f, other);
}

static void
test_prestart_hand_out_too_long(void **state)
{
	static char big[70000];
	struct ipc_str args[] = {{big, sizeof(big)}};
	int other;
	struct fake *f = waiting_box(BOX_PYTHON, &other);
	struct guest_spec spec = {.kind = RUN_PYTHON, .args = args, .n_args = 1};

	(void)state;
	memset(big, 'a', sizeof(big));
	f->g.prestart = PRESTART_READY;
	assert_int_equal(prestart_hand_out(&f->g, &spec), -ENOSPC);
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
		cmocka_unit_test(test_prestart_shell_says_nothing),
		cmocka_unit_test(test_prestart_not_when_a_run_is_here),
		cmocka_unit_test(test_prestart_fits),
		cmocka_unit_test(test_prestart_hand_out),
		cmocka_unit_test(test_prestart_hand_out_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
