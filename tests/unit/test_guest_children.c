/*
 * tests/unit/test_guest_children.c - the spare runner, and who is reaped: real children,
 * which stand for runners and for strangers.
 * Runs in: ctest.
 * Input: none.
 * Owns: the processes it forks.
 */
#include "test.h"
#include "guest_fakes.h"

#include <signal.h>
#include <sys/socket.h>

static struct {
	uint64_t now_ms;
	int start_result;
	unsigned starts, walks;
	uint32_t strangers;
	struct fake *fake;
} world;

int __wrap_runner_start(struct runner *r, struct stream *s);
void __wrap_runner_affinity(const struct runner *r, uint64_t mask);
uint32_t __wrap_tree_kill_others(const pid_t *known, size_t n);
uint64_t __wrap_clock_now_ms(void);

static pid_t
sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	assert_true(pid > 0);
	return pid;
}

int
__wrap_runner_start(struct runner *r, struct stream *s)
{
	(void)s;
	world.starts++;
	*r = RUNNER_NONE;
	if (world.start_result == 0) {
		*r = fake_runner(world.fake);
		r->pid = sleeper();
	}
	return world.start_result;
}

void
__wrap_runner_affinity(const struct runner *r, uint64_t mask)
{
	(void)r;
	(void)mask;
}

uint32_t
__wrap_tree_kill_others(const pid_t *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_true(known[i] > 0);
	world.walks++;
	return world.strangers;
}

uint64_t
__wrap_clock_now_ms(void)
{
	return world.now_ms;
}

static struct fake *
new_box(void)
{
	struct fake *f = fake_new();

	memset(&world, 0, sizeof(world));
	world.now_ms = 1000;
	world.fake = f;
	f->g.hello.box_class = BOX_SHELL;
	return f;
}

/* Reaps until the child has ended as well as been told of. */
static void
reap_until(struct fake *f, const pid_t *pid)
{
	for (int i = 0; i < 30000 && *pid > 0; i++) {
		children_reap(&f->g);
		(void)usleep(1000);
	}
	assert_int_equal(*pid, 0);
}

static void
reap_leaving(struct fake *f)
{
	for (int i = 0; i < 30000 && f->g.leaving > 0; i++) {
		children_reap(&f->g);
		(void)usleep(1000);
	}
	assert_int_equal(f->g.leaving, 0);
}

static void
test_children_spare(void **state)
{
	struct fake *f = new_box();
	struct runner first;
	struct runner second;

	(void)state;
	assert_int_equal(children_take(&f->g, &first), 0); /* none is there: forked */
	assert_int_equal(world.starts, 1);
	children_tick(&f->g, world.now_ms);
	assert_int_equal(world.starts, 1); /* not at once: the run may be short */
	world.now_ms = f->g.spare_at_ms;
	children_tick(&f->g, world.now_ms);
	assert_int_equal(world.starts, 2);
	assert_true(f->g.spare.pid > 0);
	children_tick(&f->g, world.now_ms + 1000);
	assert_int_equal(world.starts, 2);
	assert_int_equal(children_take(&f->g, &second), 0);
	assert_int_equal(world.starts, 2);
	assert_int_equal(f->g.spare.pid, 0);
	children_drop(&f->g, &first);
	assert_int_equal(first.fd, -1);
	children_drop(&f->g, &second);
	assert_int_equal(f->g.leaving, 2);
	reap_leaving(f);
	assert_int_equal(world.walks, 0); /* who was told to go is no stranger */
	children_tick(&f->g, world.now_ms);
	assert_int_equal(world.starts, 3); /* due when a run's runner has gone */
	children_drop(&f->g, &f->g.spare);
	reap_leaving(f);
	fake_free(f);
}

/* Killed by another run, and not reaped yet: whoever asks, a run or an evaluation, gets a new one.
 */
static void
test_children_spare_found_dead(void **state)
{
	struct fake *f = new_box();
	struct runner r;
	int pair[2];

	(void)state;
	world.now_ms = f->g.spare_at_ms = 1;
	children_tick(&f->g, world.now_ms);
	assert_int_equal(world.starts, 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(dup2(pair[0], f->g.spare.fd), f->g.spare.fd);
	(void)close(pair[0]);
	(void)close(pair[1]);
	assert_int_equal(children_take(&f->g, &r), 0);
	assert_int_equal(world.starts, 2);
	assert_int_equal(f->g.leaving, 1);
	children_drop(&f->g, &r);
	reap_leaving(f);
	assert_int_equal(world.walks, 0);
	fake_free(f);
}

static void
test_children_no_spare_beside_an_interpreter(void **state)
{
	struct fake *f = new_box();
	struct runner r;

	(void)state;
	f->g.hello.box_class = BOX_PYTHON;
	assert_int_equal(children_take(&f->g, &r), 0);
	children_drop(&f->g, &r);
	children_tick(&f->g, world.now_ms + 100000);
	assert_int_equal(world.starts, 1);
	reap_leaving(f);
	fake_free(f);
}

static void
test_children_cannot_fork(void **state)
{
	struct fake *f = new_box();
	struct runner r;

	(void)state;
	world.start_result = -EAGAIN;
	assert_int_equal(children_take(&f->g, &r), -EAGAIN);
	world.now_ms = f->g.spare_at_ms;
	children_tick(&f->g, world.now_ms);
	assert_int_equal(world.starts, 2);
	children_tick(&f->g, world.now_ms + 1);
	assert_int_equal(world.starts, 2); /* not in every turn */
	world.start_result = 0;
	children_tick(&f->g, f->g.spare_at_ms);
	assert_true(f->g.spare.pid > 0);
	children_drop(&f->g, &f->g.spare);
	reap_leaving(f);
	fake_free(f);
}

static void
test_children_spare_killed(void **state)
{
	struct fake *f = new_box();

	(void)state;
	f->g.spare = fake_runner(f);
	f->g.spare.pid = sleeper();
	assert_int_equal(kill(f->g.spare.pid, SIGKILL), 0);
	reap_until(f, &f->g.spare.pid);
	assert_int_equal(f->g.spare.fd, -1);
	assert_int_equal(world.walks, 1); /* what hung below it is nobody's */
	assert_true(f->g.spare_at_ms > world.now_ms);
	fake_free(f);
}

static void
test_children_stopped_runner_goes_on(void **state)
{
	struct fake *f = new_box();
	int status = 0;
	pid_t pid = sleeper();

	(void)state;
	f->g.spare = fake_runner(f);
	f->g.spare.pid = pid;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < 30000; i++) {
		children_reap(&f->g);
		if (waitpid(pid, &status, WNOHANG | WCONTINUED) == pid)
			break;
		(void)usleep(1000);
	}
	assert_true(WIFCONTINUED(status));
	children_drop(&f->g, &f->g.spare);
	reap_leaving(f);
	fake_free(f);
}

/* Two runs: one loses its runner. The other goes on; the first ends when no stranger is left. */
static void
test_children_run_loses_its_runner(void **state)
{
	struct fake *f = new_box();
	struct run *lost = fake_run(f, 1);
	struct run *other = fake_run(f, 2);
	pid_t stranger = sleeper();

	(void)state;
	lost->runner.pid = sleeper();
	other->runner.pid = sleeper();
	world.strangers = 1;
	assert_int_equal(kill(lost->runner.pid, SIGKILL), 0);
	reap_until(f, &lost->runner.pid);
	assert_int_equal(lost->state, STATE_KILLING);
	world.strangers = 0;
	assert_int_equal(kill(stranger, SIGKILL), 0);
	for (int i = 0; i < 30000 && lost->state == STATE_KILLING; i++) {
		children_reap(&f->g);
		(void)usleep(1000);
	}
	assert_int_equal(lost->state, STATE_OVER);
	assert_int_equal(lost->result.how, EXIT_SIGNALED);
	assert_int_equal(lost->result.signal, SIGKILL);
	assert_int_equal(other->state, STATE_GOING);
	children_drop(&f->g, &other->runner);
	reap_leaving(f);
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children_spare),
		cmocka_unit_test(test_children_spare_found_dead),
		cmocka_unit_test(test_children_no_spare_beside_an_interpreter),
		cmocka_unit_test(test_children_cannot_fork),
		cmocka_unit_test(test_children_spare_killed),
		cmocka_unit_test(test_children_stopped_runner_goes_on),
		cmocka_unit_test(test_children_run_loses_its_runner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
