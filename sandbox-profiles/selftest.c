/*
 * sandbox-profiles/selftest.c - under the filter, before "ready": the calls the
 * process will live on work, and the locks are what confine_lock reported.
 * Runs in: supervisor, frontend, broker, reaper.
 * Input: none.
 * Owns: nothing.
 * A forbidden call ends the process here, at start, where the supervisor sees
 * it at once, and not in the middle of somebody's run.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "confine_parts.h"

#define LARGE_BYTES ((size_t)160 * 1024) /* past malloc's mmap threshold */

static int
try_memory(void)
{
	uint8_t *block = malloc(64);
	uint8_t last = 0;

	if (block == NULL)
		return -ENOMEM;
	random_bytes(block, 64);
	/* Small, then past the threshold, then moved: brk, mmap, mremap. */
	for (size_t size = LARGE_BYTES; size <= 2 * LARGE_BYTES; size += LARGE_BYTES) {
		uint8_t *grown = realloc(block, size);

		if (grown == NULL) {
			free(block);
			return -ENOMEM;
		}
		block = grown;
		memset(block, 1, size);
		last = block[size - 1];
	}
	free(block);
	return last == 1 ? 0 : -EIO;
}

/* One tick of a timer seen through epoll: the loop's whole life. */
static int
try_loop(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
	uint64_t ticks = 0;

	uint64_t before = clock_now_us();
	cleanup_close int loop = epoll_create1(EPOLL_CLOEXEC);
	cleanup_close int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop == -1 || timer == -1)
		return -errno;
	if (epoll_ctl(loop, EPOLL_CTL_ADD, timer, &event) == -1 ||
	    timerfd_settime(timer, 0, &soon, NULL) == -1)
		return -errno;
	int n = epoll_wait(loop, &event, 1, 1000);
	if (n == -1)
		return -errno;
	if (n != 1 || read(timer, &ticks, sizeof(ticks)) != (ssize_t)sizeof(ticks) || ticks == 0)
		return -ETIME;
	return clock_now_us() >= before && clock_boot_ns() > 0 ? 0 : -EIO;
}

/* On no descriptor at all: EBADF says the filter lets the call through, and no
 * peer sees a byte. */
static int
try_sockets(void)
{
	char byte = 0;
	struct iovec io = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};

	if (recvmsg(-1, &message, MSG_DONTWAIT) != -1 || errno != EBADF)
		return -EIO;
	if (sendmsg(-1, &message, MSG_NOSIGNAL) != -1 || errno != EBADF)
		return -EIO;
	return 0;
}

static int
check_locks(const struct confine_plan *plan, uint32_t layers)
{
	static const uint32_t always =
		LAYER_NO_NEW_PRIVS | LAYER_CAPS | LAYER_RLIMITS | LAYER_UNDUMPABLE;
	uid_t ruid, euid, suid;

	if ((layers & always) != always)
		return -EPERM;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return -EPERM;
	if ((layers & LAYER_SECCOMP) != 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return -EPERM;
	if (getresuid(&ruid, &euid, &suid) == -1)
		return -errno;
	if (ruid != euid || ruid != suid || (plan->expect_uid && ruid == 0))
		return -EPERM;
	return confine_caps_check(confine_caps_kept(plan));
}

int
confine_selftest(const struct confine_plan *plan, uint32_t layers)
{
	int r = try_memory();

	if (r == 0)
		r = try_loop();
	if (r == 0)
		r = try_sockets();
	if (r == 0)
		r = check_locks(plan, layers);
	if (r == 0)
		log_debug("confined as %s", confine_table_name(plan->table));
	return r;
}
