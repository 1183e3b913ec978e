/*
 * tests/unit/test_ipc_fdpass.c - packets with and without descriptors over a real pair.
 * Runs in: ctest.
 * Input: none.
 * Owns: the pair, per test.
 */
#include "test.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "ipc.h"

static int pair[2];
static size_t fds_before;

static int
open_pair(void **state)
{
	(void)state;
	fds_before = test_open_fds();
	return fd_seqpacket_pair(pair);
}

/* Closes the pair; whatever else is open by now was leaked. */
static int
close_pair(void **state)
{
	(void)state;
	(void)close(pair[0]);
	(void)close(pair[1]);
	return test_open_fds() == fds_before ? 0 : -1;
}

/* n descriptors in one packet, which fdpass_send never does. */
static void
send_fds(size_t n)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (char[]){"x"}, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	assert_int_equal(sendmsg(pair[0], &msg, 0), 1);
}

static void
test_fdpass_plain_packet(void **state)
{
	char out[8];
	int fd = -7;

	(void)state;
	assert_int_equal(fdpass_send(pair[0], "hello", 5, -1), 0);
	assert_int_equal(fdpass_send(pair[0], "two", 3, -1), 0);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), true, &fd), 5);
	assert_memory_equal(out, "hello", 5);
	assert_int_equal(fd, -1);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), false, &fd), 3);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), true, &fd), -EAGAIN);
}

static void
test_fdpass_one_descriptor(void **state)
{
	int passed = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct stat a;
	struct stat b;
	char out[8];
	int fd = -1;

	(void)state;
	assert_int_equal(fdpass_send(pair[0], "x", 1, passed), 0);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), true, &fd), 1);
	assert_true(fd >= 0 && fd != passed);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(fstat(passed, &b), 0);
	assert_true(a.st_rdev == b.st_rdev);
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(passed), 0);
}

static void
test_fdpass_unwanted_descriptors(void **state)
{
	char out[8];
	int fd = -7;

	(void)state;
	for (size_t n = 1; n <= 8; n++) { /* nobody takes any */
		send_fds(n);
		assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), false, &fd), -EPROTO);
	}
	for (size_t n = 2; n <= 8; n++) { /* one at most; 5 and more do not fit our room */
		send_fds(n);
		assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), true, &fd), -EPROTO);
	}
	assert_int_equal(fd, -7);
}

/* The packet counts, and its receiver sees that nothing came with it. */
static void
test_fdpass_no_place_left(void **state)
{
	struct rlimit limit, none;
	char out[8];
	int fd = -7;

	(void)state;
	test_needs_own_fds();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3; /* what is open stays open */
	send_fds(1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ssize_t n = fdpass_recv(pair[1], out, sizeof(out), true, &fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(n, 1);
	assert_int_equal(fd, -1);
}

static void
test_fdpass_cut_packet(void **state)
{
	char out[4];
	int fd = -1;

	(void)state;
	assert_int_equal(fdpass_send(pair[0], "12345", 5, -1), 0);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), false, &fd), -EPROTO);
	assert_int_equal(fdpass_send(pair[0], "12345", 5, pair[0]), 0);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), true, &fd), -EPROTO);
	assert_int_equal(fd, -1);
}

static void
test_fdpass_peer_gone(void **state)
{
	char out[4];
	int fd = -1;

	(void)state;
	assert_int_equal(fdpass_send(pair[0], "last", 4, -1), 0);
	assert_int_equal(close(pair[0]), 0);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), false, &fd), 4);
	assert_int_equal(fdpass_recv(pair[1], out, sizeof(out), false, &fd), 0);
	assert_int_equal(fdpass_send(pair[1], "x", 1, -1), -EPIPE); /* and no signal */
	pair[0] = -1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fdpass_plain_packet, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_fdpass_one_descriptor, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_fdpass_unwanted_descriptors, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(test_fdpass_no_place_left, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_fdpass_cut_packet, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_fdpass_peer_gone, open_pair, close_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
