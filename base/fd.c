/*
 * base/fd.c - descriptors: flags, fixed numbers, small files, socket pairs.
 * Runs in: every process and the guest.
 * Input: paths of our own, never peer text.
 * Owns: nothing; each function says who holds the descriptor afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base.h"

/* Several full packets (ipc: 64 KiB) fit before a sender has to queue. */
#define PAIR_BUFFER_BYTES (1024 * 1024)
#define STAT_FIELD_START 22

int
fd_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags == -1)
		return -errno;
	return fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1 ? -errno : 0;
}

void
fd_widen_pipe(int fd, int bytes)
{
	struct stat st;
	int now;

	/* Asked of pipes only: behind a filter that knows no pipes the question itself is fatal. */
	if (fstat(fd, &st) == -1 || !S_ISFIFO(st.st_mode))
		return;
	now = fcntl(fd, F_GETPIPE_SZ);
	if (now > 0 && now < bytes)
		(void)fcntl(fd, F_SETPIPE_SZ, bytes);
}

int
fd_set_cloexec(int fd, bool on)
{
	return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) == -1 ? -errno : 0;
}

int
fd_move(int fd, int to)
{
	if (fd == to) {
		int r = fd_set_cloexec(fd, false);

		return r < 0 ? r : to;
	}
	while (dup3(fd, to, 0) == -1) {
		if (errno != EINTR && errno != EBUSY)
			return -errno;
	}
	(void)close(fd); /* the duplicate holds what matters */
	return to;
}

int
fd_close_from(int first)
{
	/* By number: libc wrappers for it are younger than the call. */
	return syscall(SYS_close_range, (unsigned int)first, ~0U, 0U) == -1 ? -errno : 0;
}

int
fd_write_all(int fd, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n > 0) {
		ssize_t done = write(fd, at, n);

		if (done == -1) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int
fd_read_file(int dirfd, const char *path, char *out, size_t cap, size_t *ret_len)
{
	cleanup_close int fd = -1;
	size_t len = 0;

	if (cap == 0)
		return -EFBIG;
	/* NONBLOCK: a fifo in the place of a file must not hold us. */
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	if (fd == -1)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, out + len, cap - len);

		if (n == -1) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == cap)
			return -EFBIG;
	}
	out[len] = '\0';
	if (ret_len != NULL)
		*ret_len = len;
	return 0;
}

/* The forced form needs CAP_NET_ADMIN; the plain one is cut to wmem_max. Either
 * way the default stays usable, so neither failure is one of ours. */
static void
fd_raise_buffer(int fd, int forced, int plain)
{
	int bytes = PAIR_BUFFER_BYTES;

	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) == -1)
		(void)setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
}

int
fd_read_start_time(int dirfd, const char *path, uint64_t *ret)
{
	char text[1024];
	size_t len;

	int r = fd_read_file(dirfd, path, text, sizeof(text), &len);
	if (r < 0)
		return r;
	/* The name in brackets may hold anything; the last bracket ends field 2. */
	char *at = strrchr(text, ')');
	for (int field = 2; at != NULL && field < STAT_FIELD_START; field++) {
		at = strchr(at, ' ');
		if (at != NULL)
			at++;
	}
	if (at == NULL)
		return -EBADMSG;
	at[strcspn(at, " \n")] = '\0';
	return parse_u64(at, 0, UINT64_MAX, ret);
}

int
fd_seqpacket_pair(int fds[2])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == -1)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(pair); i++) {
		fd_raise_buffer(pair[i], SO_SNDBUFFORCE, SO_SNDBUF);
		fd_raise_buffer(pair[i], SO_RCVBUFFORCE, SO_RCVBUF);
		fds[i] = pair[i];
	}
	return 0;
}
