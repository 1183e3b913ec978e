/*
 * tests/unit/test_cli_bench_after.c - what a bench made is removed however it ends.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cli.h"

static char dir[] = "/tmp/bailey-after-XXXXXX";

/* A directory with something in it, and an engine at a socket in it that nobody answers on. */
static int
engine(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_free char *url = xasprintf("unix://%s/s", dir);

	assert_true(snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", dir) > 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(setenv("DOCKER_HOST", url, 1), 0);
	return fd;
}

static void
gone(const char *path)
{
	uint64_t until = clock_now_ms() + 30000;

	while (access(path, F_OK) == 0) {
		assert_true(clock_now_ms() < until);
		(void)poll(NULL, 0, 10);
	}
}

static void
bench(const char *made, int signal)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (bench_after_start() < 0)
			_exit(1);
		bench_after_container("0123abcd");
		bench_after_dir(made);
		(void)kill(getpid(), signal);
		_exit(2);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), signal);
}

static void
test_killed(void **state)
{
	static const int signals[] = {SIGKILL, SIGINT, SIGTERM};

	(void)state;
	assert_non_null(mkdtemp(dir));
	int fd = engine();
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		static const char wanted[] = "/containers/0123abcd?force=1 ";
		cleanup_free char *made = xasprintf("%s/made", dir);
		cleanup_free char *in = xasprintf("%s/in", made);
		char request[256] = "";
		assert_int_equal(mkdir(made, 0700), 0);
		assert_int_equal(mkdir(in, 0700), 0);
		bench(made, signals[i]);
		int c = accept(fd, NULL, NULL);
		assert_true(read(c, request, sizeof(request) - 1) > 0);
		assert_memory_equal(request, "DELETE ", 7);
		assert_non_null(strstr(request, wanted));
		assert_int_equal(write(c, "HTTP/1.1 404 Not Found\r\n\r\n", 26), 26);
		(void)close(c);
		gone(made);
	}
	(void)close(fd);
	cleanup_free char *socket_path = xasprintf("%s/s", dir);
	assert_int_equal(unlink(socket_path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* Waited for, so that nothing of a bench goes on after it; and without a start nothing happens. */
static void
test_ended(void **state)
{
	char made[] = "/tmp/bailey-after-XXXXXX";
	size_t before = test_open_fds();

	(void)state;
	assert_non_null(mkdtemp(made));
	bench_after_dir(made);
	bench_after_end();
	assert_int_equal(access(made, F_OK), 0);
	assert_int_equal(bench_after_start(), 0);
	bench_after_dir(made);
	bench_after_end();
	assert_int_equal(access(made, F_OK), -1);
	assert_int_equal(test_open_fds(), before);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed),
					   cmocka_unit_test(test_ended)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
