/*
 * tests/unit/test_cli_bridge.c - bytes both ways, each end by itself, and a side that does not
 * read. Runs in: ctest. Input: none. Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#define BIG ((size_t)3 << 20)

static int to_in, from_out; /* the client's ends */
static int daemon_end;
static pid_t bridge;

static int
setup(void **state)
{
	int in[2], out[2], sock[2];

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	to_in = in[1];
	from_out = out[0];
	daemon_end = sock[1];
	bridge = fork();
	if (bridge == 0) {
		(void)close(to_in);
		(void)close(from_out);
		(void)close(daemon_end);
		_exit(-bridge_run(in[0], out[1], sock[0]));
	}
	assert_true(bridge > 0);
	(void)close(in[0]);
	(void)close(out[1]);
	(void)close(sock[0]);
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	return 0;
}

static void
shut(int *fd)
{
	cleanup_closep(fd);
	*fd = -1;
}

/* What bridge_run returned. */
static int
result(void)
{
	int status;

	assert_int_equal(waitpid(bridge, &status, 0), bridge);
	bridge = 0;
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static int
teardown(void **state)
{
	(void)state;
	shut(&to_in);
	shut(&from_out);
	shut(&daemon_end);
	if (bridge > 0) {
		(void)kill(bridge, SIGKILL);
		(void)waitpid(bridge, NULL, 0);
	}
	return 0;
}

static void
expect(int fd, const char *text)
{
	char got[64];
	size_t n = strlen(text);

	for (size_t at = 0; at < n;) {
		ssize_t r = read(fd, got + at, n - at);
		assert_true(r > 0);
		at += (size_t)r;
	}
	assert_memory_equal(got, text, n);
}

static void
expect_end(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 0);
}

static void
test_both_ways(void **state)
{
	(void)state;
	assert_int_equal(write(to_in, "ask\n", 4), 4);
	expect(daemon_end, "ask\n");
	assert_int_equal(write(daemon_end, "answer\n", 7), 7);
	expect(from_out, "answer\n");
}

/* The end of the client's input is told; answers still come. */
static void
test_end_of_input(void **state)
{
	(void)state;
	assert_int_equal(write(to_in, "last\n", 5), 5);
	shut(&to_in);
	expect(daemon_end, "last\n");
	expect_end(daemon_end);
	assert_int_equal(write(daemon_end, "late\n", 5), 5);
	expect(from_out, "late\n");
	shut(&daemon_end);
	expect_end(from_out);
	assert_int_equal(result(), 0);
}

static void
test_daemon_ends_first(void **state)
{
	(void)state;
	assert_int_equal(write(daemon_end, "bye\n", 4), 4);
	shut(&daemon_end);
	expect(from_out, "bye\n");
	expect_end(from_out);
	assert_int_equal(result(), -ECONNRESET);
}

/* It may be gone while the client still has much to say. */
static void
test_daemon_ends_under_a_flood(void **state)
{
	char piece[4096] = {0};

	(void)state;
	assert_int_equal(write(to_in, piece, sizeof(piece)), sizeof(piece));
	shut(&daemon_end);
	while (write(to_in, piece, sizeof(piece)) > 0)
		;
	assert_int_equal(result(), -ECONNRESET);
}

static void
test_client_that_does_not_read_any_more(void **state)
{
	char piece[4096] = {0};

	(void)state;
	shut(&from_out);
	while (send(daemon_end, piece, sizeof(piece), MSG_NOSIGNAL) > 0)
		;
	assert_int_equal(result(), -EPIPE);
}

/* A client that first writes everything and then reads: the way back must not hold the way there.
 */
static void
test_much_in_both_directions(void **state)
{
	static char bytes[BIG];
	size_t echoed = 0;

	(void)state;
	pid_t echo = fork();
	if (echo == 0) {
		char piece[8192];
		ssize_t n;
		shut(&to_in);
		while ((n = read(daemon_end, piece, sizeof(piece))) > 0)
			if (fd_write_all(daemon_end, piece, (size_t)n) < 0)
				_exit(1);
		_exit(0);
	}
	shut(&daemon_end);
	for (size_t i = 0; i < BIG; i++)
		bytes[i] = (char)(i * 31 >> 3);
	pid_t writer = fork();
	if (writer == 0)
		_exit(fd_write_all(to_in, bytes, BIG) < 0);
	shut(&to_in);
	while (echoed < BIG) {
		char piece[5000];
		ssize_t n = read(from_out, piece, sizeof(piece));
		assert_true(n > 0);
		assert_memory_equal(piece, bytes + echoed, (size_t)n);
		echoed += (size_t)n;
	}
	expect_end(from_out);
	assert_int_equal(result(), 0);
	assert_int_equal(waitpid(echo, NULL, 0), echo);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
}

static void
test_descriptors_keep_their_flags(void **state)
{
	(void)state;
	assert_int_equal(write(to_in, "x", 1), 1);
	expect(daemon_end, "x");
	assert_int_equal(fcntl(to_in, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fcntl(from_out, F_GETFL) & O_NONBLOCK, 0);
}

static void
test_connect(void **state)
{
	char longest[200];

	(void)state;
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(bridge_connect(longest), -ENAMETOOLONG);
	assert_int_equal(bridge_connect("/bailey-none/mcp.sock"), -ENOENT);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_both_ways),
		T(test_end_of_input),
		T(test_daemon_ends_first),
		T(test_daemon_ends_under_a_flood),
		T(test_client_that_does_not_read_any_more),
		T(test_much_in_both_directions),
		T(test_descriptors_keep_their_flags),
		cmocka_unit_test(test_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
