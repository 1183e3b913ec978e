/* supervisor/spawn.c: what a child finds at its first instruction. */
#include "test.h"
#include "supervisor.h"

#include <sys/resource.h>
#include <sys/stat.h>

/* The child is a shell: it tells what it finds on the descriptor it got as fd 4. */
static int
spawn_shell(const char *script, const int stdio[2], int state_fd, char *answer, size_t cap)
{
	struct identity id = {.switch_ids = false};
	char name[] = "bailey-test", dash_c[] = "-c";
	char *text = xstrdup(script);
	char *argv[] = {name, dash_c, text, NULL};
	int fds[2], status = -1;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	int exe = open("/bin/sh", O_PATH | O_CLOEXEC);
	assert_true(exe > FD_STATE);
	const struct spawn_plan plan = {
		.exe = exe,
		.stdio = {stdio[0], stdio[1]},
		.supervisor = -1,
		.peer = fds[1],
		.state = state_fd,
		.argv = argv,
		.identity = &id,
		.child = CHILD_BROKER,
	};
	assert_int_equal(spawn_child(&plan, &pid), 0);
	assert_int_equal(close(fds[1]), 0);
	size_t len = 0;
	ssize_t n;
	while ((n = read(fds[0], answer + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(exe), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	free(text);
	return status;
}

static const int no_stdio[2] = {-1, -1};

/* In a child of the test: the reservation closes cmocka's descriptors too. */
static void
reserve(void *arg)
{
	char answer[1024];
	struct stat null, st;

	(void)arg;
	if (close(0) == -1 || spawn_reserve_fds() < 0 || stat("/dev/null", &null) == -1)
		_exit(1);
	for (int fd = 3; fd <= 5; fd++)
		if (fstat(fd, &st) == -1 || st.st_rdev != null.st_rdev ||
		    (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
			_exit(2);
	if (fstat(0, &st) == -1 || (fcntl(0, F_GETFD) & FD_CLOEXEC) != 0)
		_exit(3);
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (next != 6)
		_exit(4);
	/* only 0, 1, 2 and 4 reach the child: nothing reserved, nothing else that is open */
	(void)spawn_shell("for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "
			  "[ -e /proc/$$/fd/$i ] && echo $i >&4; done",
			  no_stdio, -1, answer, sizeof(answer));
	_exit(strcmp(answer, "0\n1\n2\n4\n") == 0 ? 0 : 5);
}

static void
test_reserved_descriptors(void **state)
{
	(void)state;
	int status = test_in_child(reserve, NULL);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int
hold_low_fds(void **state)
{
	(void)state;
	/* 3..5 must be taken for spawn_child's /dev/null and so that fresh ones are higher */
	for (;;) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd > FD_STATE)
			return close(fd);
	}
}

static void
test_name_and_environment(void **state)
{
	char answer[1024];

	(void)state;
	assert_int_equal(setenv("SECRET", "x", 1), 0);
	assert_int_equal(spawn_shell("echo $0 $SECRET >&4; command -p env >&4", no_stdio, -1,
				     answer, sizeof(answer)),
			 0);
	assert_ptr_equal(strstr(answer, "bailey-test\n"), answer);
	assert_null(strstr(answer, "SECRET"));
}

static void
test_stdio(void **state)
{
	char answer[1024], text[16];
	int in[2], out[2];

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(write(in[1], "hello\n", 6), 6);
	const int stdio[2] = {in[0], out[1]};
	assert_int_equal(spawn_shell("read x; echo got $x", stdio, -1, answer, sizeof(answer)), 0);
	assert_int_equal(read(out[0], text, sizeof(text)), 10);
	assert_memory_equal(text, "got hello\n", 10);
	/* without: both ends are /dev/null */
	assert_int_equal(spawn_shell("read x && echo more >&4; echo $?; echo end >&4", no_stdio, -1,
				     answer, sizeof(answer)),
			 0);
	assert_string_equal(answer, "end\n");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(close(in[i]), 0);
		assert_int_equal(close(out[i]), 0);
	}
}

static void
test_state_descriptor(void **state)
{
	char answer[64];
	int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(
		spawn_shell("read x <&5 && echo there >&4", no_stdio, file, answer, sizeof(answer)),
		0);
	assert_string_equal(answer, "there\n");
	assert_int_equal(close(file), 0);
}

static void
test_program_that_cannot_run(void **state)
{
	struct identity id = {.switch_ids = false};
	char name[] = "x";
	char *argv[] = {name, NULL};
	pid_t pid;
	int status;

	(void)state;
	int exe = open("/etc/passwd", O_PATH | O_CLOEXEC);
	const struct spawn_plan plan = {.exe = exe,
					.stdio = {-1, -1},
					.supervisor = -1,
					.peer = -1,
					.state = -1,
					.argv = argv,
					.identity = &id};
	assert_int_equal(spawn_child(&plan, &pid), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 127);
	assert_int_equal(close(exe), 0);
}

static void
test_unblock_log_leaves_the_clients_flags(void **state)
{
	int saved = fcntl(FD_LOG, F_DUPFD_CLOEXEC, 10);
	int fds[2], ours, theirs;

	(void)state;
	assert_true(saved >= 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(dup2(fds[1], FD_LOG), FD_LOG);
	spawn_unblock_log();
	ours = fcntl(FD_LOG, F_GETFL);
	theirs = fcntl(fds[1], F_GETFL);
	for (int i = 0; i < 2000; i++) /* far more than a pipe holds */
		log_error("nobody reads this line, and nobody waits for that either %d", i);
	assert_int_equal(dup2(saved, FD_LOG), FD_LOG);
	assert_int_equal(close(saved), 0);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
	assert_true((ours & O_NONBLOCK) != 0);
	assert_true((theirs & O_NONBLOCK) == 0);
}

/* {soft, hard} in; the soft limit after, or 0 for an error that names it. */
static void
check_fds_in_child(void *arg)
{
	const rlim_t *want = arg;
	struct rlimit limit = {want[0], want[1]};
	char error[256] = "";

	if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
		_exit(1);
	int r = spawn_check_fds(error, sizeof(error));
	if (want[2] == 0)
		_exit(r == -EMFILE && strstr(error, "ulimit -n allows 63") != NULL ? 0 : 2);
	if (r != 0 || getrlimit(RLIMIT_NOFILE, &limit) == -1)
		_exit(3);
	_exit(limit.rlim_cur == want[2] && limit.rlim_max == want[1] ? 0 : 4);
}

static void
test_enough_descriptors(void **state)
{
	static rlim_t cases[][3] = {{64, 64, 64},  {100, 200, 100}, {63, 64, 64},
				    {8, 200, 200}, {63, 63, 0},     {8, 63, 0}};

	(void)state;
	test_needs_own_fds();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(test_in_child(check_fds_in_child, cases[i]), 0);
}

static void
test_hint(void **state)
{
	(void)state;
	assert_non_null(strstr(spawn_hint(-EAGAIN), "pids limit"));
	assert_string_equal(spawn_hint(-ENOMEM), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unblock_log_leaves_the_clients_flags),
		cmocka_unit_test(test_reserved_descriptors),
		cmocka_unit_test(test_enough_descriptors),
		cmocka_unit_test_setup(test_name_and_environment, hold_low_fds),
		cmocka_unit_test(test_stdio),
		cmocka_unit_test(test_state_descriptor),
		cmocka_unit_test(test_program_that_cannot_run),
		cmocka_unit_test(test_hint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
