/*
 * tests/unit/test_guest_runner.c - the real runner: what it starts, sees and reports.
 * Runs in: ctest.
 * Input: /bin/sh.
 * Owns: a runner process per test.
 */
#include "test.h"
#include "guest_fakes.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

struct rig {
	struct runner r;
	struct stream stream; /* PID 1's, of which a runner knows nothing */
};

static void
rig_open(struct rig *rig)
{
	*rig = (struct rig){0};
	assert_int_equal(runner_start(&rig->r, &rig->stream), 0);
}

static void
rig_close(struct rig *rig)
{
	(void)kill(rig->r.pid, SIGKILL);
	assert_int_equal(waitpid(rig->r.pid, NULL, 0), rig->r.pid);
	runner_close(&rig->r);
}

static void
put(struct launch *l, const char *text, uint32_t *count)
{
	size_t n = strlen(text) + 1;

	memcpy(l->text + l->len, text, n);
	l->len += n;
	(*count)++;
}

static void
order_shell(struct rig *rig, const char *command, bool control)
{
	struct launch *l = rig->r.launch;

	l->n_argv = 0;
	l->n_env = 0;
	l->len = 0;
	l->with_control = control ? 1 : 0;
	(void)snprintf(l->path, sizeof(l->path), "/bin/sh");
	(void)snprintf(l->cwd, sizeof(l->cwd), "/");
	put(l, "sh", &l->n_argv);
	put(l, "-c", &l->n_argv);
	put(l, command, &l->n_argv);
	put(l, "PATH=/usr/bin:/bin", &l->n_env);
	put(l, "V=value", &l->n_env);
	assert_int_equal(runner_order(&rig->r), 0);
}

static struct report
wait_report(struct rig *rig)
{
	struct report report = {0};
	struct pollfd p = {.fd = rig->r.fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(runner_report(&rig->r, &report), 1);
	return report;
}

static void
test_runner_ended(void **state)
{
	struct rig rig;
	struct report report;
	char text[64];
	ssize_t n;

	(void)state;
	rig_open(&rig);
	order_shell(&rig, "pwd; echo $V; cat; exit 5", false);
	assert_int_equal(write(rig.r.stdin_fd, "in", 2), 2);
	(void)close(rig.r.stdin_fd);
	rig.r.stdin_fd = -1;
	report = wait_report(&rig);
	assert_int_equal(report.what, REPORT_ENDED);
	assert_int_equal(report.pid, rig.r.launch->pid);
	assert_true(WIFEXITED(report.status) && WEXITSTATUS(report.status) == 5);
	assert_int_equal(report.left, 0);
	assert_true(report.max_rss_bytes > 0);
	n = read(rig.r.out_fds[0], text, sizeof(text));
	assert_int_equal(n, 10);
	assert_memory_equal(text, "/\nvalue\nin", 10);
	assert_int_equal(runner_report(&rig.r, &report), 0);
	rig_close(&rig);
}

static void
test_runner_can_serve_again(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig);
	for (int i = 1; i < 4; i++) {
		char command[32];

		(void)snprintf(command, sizeof(command), "exit %d", i);
		order_shell(&rig, command, false);
		assert_int_equal(WEXITSTATUS(wait_report(&rig).status), i);
	}
	rig_close(&rig);
}

static void
test_runner_failed(void **state)
{
	struct rig rig;
	struct report report;

	(void)state;
	rig_open(&rig);
	(void)snprintf(rig.r.launch->path, sizeof(rig.r.launch->path), "/nonexistent/program");
	(void)snprintf(rig.r.launch->cwd, sizeof(rig.r.launch->cwd), "/");
	assert_int_equal(runner_order(&rig.r), 0);
	report = wait_report(&rig);
	assert_int_equal(report.what, REPORT_FAILED);
	assert_int_equal(report.status, ENOENT);
	rig_close(&rig);
}

static void
test_runner_reports_what_is_left(void **state)
{
	struct rig rig;
	struct report report;

	(void)state;
	rig_open(&rig);
	order_shell(&rig, "(sleep 100 &) ; (setsid sleep 100 &) ; exit 0", false);
	report = wait_report(&rig);
	assert_int_equal(report.what, REPORT_ENDED);
	assert_int_equal(report.left, 1);
	assert_int_equal(runner_report(&rig.r, &report), 0); /* they still live */
	assert_int_equal(tree_kill(rig.r.pid), 2);
	assert_int_equal(wait_report(&rig).what, REPORT_EMPTY);
	rig_close(&rig);
}

static void
test_runner_signal_and_control(void **state)
{
	struct rig rig;
	struct report report;
	char byte = 0;

	(void)state;
	rig_open(&rig);
	order_shell(&rig, "echo r >&3; read x <&3; kill -USR1 $$", true);
	while (read(rig.r.control_fd, &byte, 1) != 1)
		(void)usleep(1000);
	assert_int_equal(byte, 'r');
	assert_int_equal(write(rig.r.control_fd, "go\n", 3), 3);
	report = wait_report(&rig);
	assert_true(WIFSIGNALED(report.status) && WTERMSIG(report.status) == SIGUSR1);
	rig_close(&rig);
}

static void
test_runner_gone(void **state)
{
	struct rig rig;
	struct report report;
	struct pollfd p;

	(void)state;
	rig_open(&rig);
	assert_int_equal(kill(rig.r.pid, SIGKILL), 0);
	p = (struct pollfd){.fd = rig.r.fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(runner_report(&rig.r, &report), -EPIPE);
	assert_true(runner_order(&rig.r) < 0);
	rig_close(&rig);
}

/* What waits is killed, the runner stays and serves the next. */
static void
test_runner_put_away(void **state)
{
	struct rig rig;
	struct report report;
	char byte = 0;

	(void)state;
	rig_open(&rig);
	assert_false(runner_put_away(&rig.r)); /* nothing was started */
	order_shell(&rig, "echo r >&3; read x <&3", true);
	while (read(rig.r.control_fd, &byte, 1) != 1)
		(void)usleep(1000);
	while (!runner_put_away(&rig.r)) /* it has spoken before the runner says its number */
		(void)usleep(1000);
	report = wait_report(&rig);
	assert_int_equal(report.what, REPORT_ENDED);
	assert_true(WIFSIGNALED(report.status) && WTERMSIG(report.status) == SIGKILL);
	order_shell(&rig, "exit 5", false);
	report = wait_report(&rig);
	assert_true(WIFEXITED(report.status) && WEXITSTATUS(report.status) == 5);
	rig_close(&rig);
}

/* Another run has stopped what a runner started. */
static void
test_runner_continue(void **state)
{
	struct rig rig;
	struct report report;
	char byte = 0;

	(void)state;
	rig_open(&rig);
	runner_continue(&rig.r); /* nothing was started */
	order_shell(&rig, "echo r >&3; read x <&3; exit 4", true);
	while (read(rig.r.control_fd, &byte, 1) != 1)
		(void)usleep(1000);
	while (rig.r.launch->pid == 0) /* it has spoken before the runner says its number */
		(void)usleep(1000);
	assert_int_equal(kill(rig.r.launch->pid, SIGSTOP), 0);
	runner_continue(&rig.r);
	assert_int_equal(write(rig.r.control_fd, "\n", 1), 1);
	report = wait_report(&rig);
	assert_true(WIFEXITED(report.status) && WEXITSTATUS(report.status) == 4);
	rig_close(&rig);
}

static void
test_runner_output_flags(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig);
	assert_int_equal(fd_set_nonblock(rig.r.out_ends[0]), 0);
	runner_block_output(&rig.r);
	assert_int_equal(fcntl(rig.r.out_ends[0], F_GETFL) & O_NONBLOCK, 0);
	rig_close(&rig);
}

/* What PID 1 holds of other runs stays with it: an inherited end would keep their input open. */
static void
test_runner_inherits_nothing(void **state)
{
	struct rig rig;
	int pipe_fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	rig_open(&rig);
	(void)close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 0);
	(void)close(pipe_fds[0]);
	rig_close(&rig);
}

static void
test_runner_leaves_no_descriptor(void **state)
{
	struct rig rig;
	size_t before;

	(void)state;
	rig_open(&rig);
	rig_close(&rig);
	before = test_open_fds();
	for (int i = 0; i < 20; i++) {
		rig_open(&rig);
		order_shell(&rig, "exit 0", false);
		assert_int_equal(wait_report(&rig).what, REPORT_ENDED);
		rig_close(&rig);
	}
	assert_int_equal(test_open_fds(), before);
}

static void
start_without_processes(void *arg)
{
	const struct rlimit none = {0, 0};
	struct rig rig = {0};
	size_t before = test_open_fds();

	(void)arg;
	if (setgid(65534) == -1 || setuid(65534) == -1 || setrlimit(RLIMIT_NPROC, &none) == -1)
		_exit(2);
	if (runner_start(&rig.r, &rig.stream) != -EAGAIN || rig.r.pid != 0 || rig.r.fd != -1)
		_exit(3);
	_exit(test_open_fds() == before ? 0 : 4);
}

static void
test_runner_cannot_be_forked(void **state)
{
	int status;

	(void)state;
	if (getuid() != 0) {
		test_skip("a process limit that holds needs an uid of its own");
		return;
	}
	status = test_in_child(start_without_processes, NULL);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runner_ended),
		cmocka_unit_test(test_runner_can_serve_again),
		cmocka_unit_test(test_runner_failed),
		cmocka_unit_test(test_runner_reports_what_is_left),
		cmocka_unit_test(test_runner_signal_and_control),
		cmocka_unit_test(test_runner_gone),
		cmocka_unit_test(test_runner_put_away),
		cmocka_unit_test(test_runner_continue),
		cmocka_unit_test(test_runner_output_flags),
		cmocka_unit_test(test_runner_inherits_nothing),
		cmocka_unit_test(test_runner_leaves_no_descriptor),
		cmocka_unit_test(test_runner_cannot_be_forked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
