/*
 * ipc/fdpass.c - one packet, and perhaps one descriptor beside it (SCM_RIGHTS).
 * Runs in: every host process, below link.c only. The supervisor passes links, the
 * reaper counters. sendmsg and recvmsg serve all packets, so that the filters need
 * no other call.
 * Input: ancillary data of the peer.
 * Owns: a received descriptor until it is handed out; unexpected ones are
 * closed here.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc.h"

#define FDS_TAKEN 4 /* room to take and close what a peer should not have sent */

int
fdpass_send(int sock, const void *p, size_t n, int fd)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_len = n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	memcpy(&iov.iov_base, &p, sizeof(p)); /* sendmsg only reads it */
	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == -1 ? -errno : 0;
}

/* Takes every descriptor in msg; the first one stays open in *fd. Returns how many came. */
static size_t
take_fds(struct msghdr *msg, int *fd)
{
	size_t count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(got));
			if (count++ == 0)
				*fd = got;
			else
				(void)close(got);
		}
	}
	return count;
}

ssize_t
fdpass_recv(int sock, void *p, size_t cap, bool take, int *ret_fd)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(FDS_TAKEN * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = p, .iov_len = cap};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	cleanup_close int fd = -1;
	size_t count = 0;
	ssize_t n;

	if (take) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
	}
	n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n == -1)
		return -errno;
	if (take)
		count = take_fds(&msg, &fd);
	/* None at all out of a cut control message: we have no place for a descriptor. */
	bool cut = (msg.msg_flags & MSG_TRUNC) != 0 ||
		   ((msg.msg_flags & MSG_CTRUNC) != 0 && (!take || count > 0));
	if (cut || count > 1)
		return -EPROTO;
	*ret_fd = TAKE_FD(fd);
	return n;
}
