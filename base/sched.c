/*
 * base/sched.c - how this process wants to be scheduled.
 * Runs in: every host process at its start, and the guest.
 * Input: none.
 * Owns: nothing.
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base.h"

#define RESET_ON_FORK 0x01u       /* SCHED_FLAG_RESET_ON_FORK */
#define SHORTEST_SLICE_NS 100000u /* the least the kernel takes */

/* struct sched_attr of sched_setattr(2), first version; only some libcs declare it. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

int
sched_prompt(void)
{
	struct attr attr = {.size = sizeof(attr)};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == -1)
		return -errno;
	if (attr.policy != SCHED_OTHER)
		return -EINVAL;
	attr.flags |= RESET_ON_FORK;
	attr.runtime = SHORTEST_SLICE_NS;
	return syscall(SYS_sched_setattr, 0, &attr, 0) == -1 ? -errno : 0;
}
