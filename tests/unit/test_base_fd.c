/*
 * tests/unit/test_base_fd.c - descriptor helpers: flags, moves, small files, packet pairs.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "base.h"

static void
test_fd_flags(void **state)
{
	cleanup_close int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_int_equal(fd_set_cloexec(fd, true), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_set_cloexec(fd, false), 0);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(fd_set_nonblock(fd), 0);
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	assert_int_equal(fd_set_cloexec(-1, true), -EBADF);
	assert_int_equal(fd_set_nonblock(-1), -EBADF);
}

static void
test_fd_move(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(fd_move(fd, 50), 50);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(fcntl(50, F_GETFD), 0);
	assert_int_equal(fd_set_cloexec(50, true), 0);
	assert_int_equal(fd_move(50, 50), 50); /* onto itself: inherited from now on */
	assert_int_equal(fcntl(50, F_GETFD), 0);
	assert_int_equal(fd_move(51, 50), -EBADF);
	assert_int_equal(close(50), 0);
}

static void
close_from_ten(void *arg)
{
	(void)arg;
	for (int fd = 8; fd < 14; fd++)
		(void)dup2(STDERR_FILENO, fd);
	if (fd_close_from(10) < 0)
		_exit(1);
	for (int fd = 8; fd < 14; fd++) {
		if ((fcntl(fd, F_GETFD) != -1) != (fd < 10))
			_exit(2);
	}
}

static void
test_fd_close_from(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(close_from_ten, NULL), 0);
}

static void
test_fd_write_all(void **state)
{
	char out[6];
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(fds[1], "hello", 5), 0);
	assert_int_equal(read(fds[0], out, sizeof(out)), 5);
	assert_memory_equal(out, "hello", 5);
	assert_int_equal(fd_write_all(fds[0], "x", 1), -EBADF);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

static void
test_fd_read_file(void **state)
{
	char dir[] = "/tmp/bailey-fd-XXXXXX";
	char out[6] = "?";
	size_t len = 99;
	int dirfd;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	dirfd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_true(dirfd >= 0);
	fd = openat(dirfd, "five", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, "12345", 5), 0);
	assert_int_equal(symlinkat("five", dirfd, "link"), 0);
	assert_int_equal(mkfifoat(dirfd, "fifo", 0600), 0);

	assert_int_equal(fd_read_file(dirfd, "five", out, sizeof(out), &len), 0);
	assert_int_equal(len, 5);
	assert_string_equal(out, "12345");
	assert_int_equal(fd_read_file(dirfd, "five", out, sizeof(out), NULL), 0);
	assert_int_equal(fd_read_file(dirfd, "five", out, 5, &len), -EFBIG);
	assert_int_equal(fd_read_file(dirfd, "five", out, 0, &len), -EFBIG);
	assert_int_equal(fd_read_file(dirfd, "none", out, sizeof(out), &len), -ENOENT);
	assert_int_equal(fd_read_file(dirfd, "link", out, sizeof(out), &len), -ELOOP);
	assert_int_equal(fd_read_file(dirfd, ".", out, sizeof(out), &len), -EISDIR);
	assert_int_equal(fd_read_file(dirfd, "fifo", out, sizeof(out), &len),
			 0); /* does not hang */
	assert_int_equal(len, 0);

	assert_int_equal(unlinkat(dirfd, "five", 0), 0);
	assert_int_equal(unlinkat(dirfd, "link", 0), 0);
	assert_int_equal(unlinkat(dirfd, "fifo", 0), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(close(dirfd), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void
test_fd_read_start_time(void **state)
{
	static const char tail[] = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18";
	static const struct {
		const char *name, *end;
		int r;
		uint64_t start;
	} cases[] = {
		{"7 (a)", " 4711 23\n", 0, 4711},
		{"7 (a) R 1 ) S 2 (b)", " 18446744073709551615 23\n", 0, UINT64_MAX},
		{"7 (a)", "", -EBADMSG, 0},
		{"7 (a)", " -1 23\n", -EINVAL, 0},
		{"7 a", " 4711 23\n", -EBADMSG, 0},
	};
	char path[] = "/tmp/bailey-stat-XXXXXX", text[256];
	uint64_t start = 0, again = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int n = snprintf(text, sizeof(text), "%s%s%s", cases[i].name, tail, cases[i].end);
		assert_true(n > 0 && (size_t)n < sizeof(text));
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
		start = 0;
		assert_int_equal(fd_read_start_time(AT_FDCWD, path, &start), cases[i].r);
		assert_int_equal(start, cases[i].start);
	}
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(fd_read_start_time(AT_FDCWD, path, &start), -ENOENT);
	assert_int_equal(fd_read_start_time(AT_FDCWD, "/proc/self/stat", &start), 0);
	assert_int_equal(fd_read_start_time(AT_FDCWD, "/proc/self/stat", &again), 0);
	assert_true(start > 0 && start == again);
}

static void
test_fd_seqpacket_pair(void **state)
{
	static char packet[65536];
	int fds[2];
	int sent = 0;

	(void)state;
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		assert_true((fcntl(fds[i], F_GETFL) & O_NONBLOCK) != 0);
	}
	while (send(fds[0], packet, sizeof(packet), MSG_NOSIGNAL) == (ssize_t)sizeof(packet))
		sent++;
	assert_int_equal(errno, EAGAIN);
	assert_true(sent >= 2); /* without any privilege: the default buffer's */
	assert_int_equal(send(fds[1], "", 0, MSG_NOSIGNAL), 0);
	for (int i = 0; i < sent; i++)
		assert_int_equal(recv(fds[1], packet, sizeof(packet), 0), sizeof(packet));
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

static void
test_fd_widen_pipe(void **state)
{
	int fds[2], was, no_pipe = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	was = fcntl(fds[0], F_GETPIPE_SZ);
	fd_widen_pipe(fds[0], was * 2);
	assert_int_equal(fcntl(fds[1], F_GETPIPE_SZ), was * 2);
	fd_widen_pipe(fds[1], was); /* whoever made it larger keeps that */
	assert_int_equal(fcntl(fds[0], F_GETPIPE_SZ), was * 2);
	fd_widen_pipe(no_pipe, was);
	fd_widen_pipe(-1, was);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
	assert_int_equal(close(no_pipe), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fd_flags),      cmocka_unit_test(test_fd_move),
		cmocka_unit_test(test_fd_close_from), cmocka_unit_test(test_fd_write_all),
		cmocka_unit_test(test_fd_read_file),  cmocka_unit_test(test_fd_seqpacket_pair),
		cmocka_unit_test(test_fd_widen_pipe), cmocka_unit_test(test_fd_read_start_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
