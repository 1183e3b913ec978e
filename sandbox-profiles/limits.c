/*
 * sandbox-profiles/limits.c - ids, resource limits, capabilities, Landlock.
 * Runs in: every host process, from confine_lock and confine_selftest.
 * Input: the plan; trusted (the supervisor's command line).
 * Owns: nothing.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine_parts.h"

#define MIB (UINT64_C(1) << 20)
#define BIT(n) (UINT64_C(1) << (n))

int
confine_ids_check(bool expect_uid)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (getresuid(&ruid, &euid, &suid) == -1 || getresgid(&rgid, &egid, &sgid) == -1)
		return -errno;
	if (ruid != euid || ruid != suid || rgid != egid || rgid != sgid)
		return -EPERM;
	if (expect_uid && (ruid == 0 || rgid == 0))
		return -EPERM;
	return 0;
}

/* A regular file behind stdout or the log: a size limit of 0 would cut it off. */
static bool
writes_a_file(void)
{
	for (int fd = FD_OUT; fd <= FD_LOG; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return true;
	}
	return false;
}

/* Both limits become value, or stay lower where they already are. */
static int
lower_limit(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) == -1)
		return -errno;
	if (limit.rlim_max > value)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &limit) == -1 ? -errno : 0;
}

int
confine_limits(enum confine_table table)
{
	static const struct {
		uint32_t tables; /* bits by enum confine_table */
		int resource;
		uint64_t value;
	} rows[] = {
#define CHILDREN (BIT(TABLE_FRONTEND) | BROKERS | BIT(TABLE_REAPER))
#define BROKERS (BIT(TABLE_BROKER) | BIT(TABLE_BROKER_TCP))
		{CHILDREN | BIT(TABLE_SUPERVISOR), RLIMIT_CORE, 0},
		/* None of them starts a process; the count is the uid's, the refusal ours alone. */
		{CHILDREN, RLIMIT_NPROC, 0},
		{CHILDREN, RLIMIT_MEMLOCK, 0},
		{CHILDREN, RLIMIT_MSGQUEUE, 0},
		{CHILDREN, RLIMIT_FSIZE, 0},
		{BIT(TABLE_FRONTEND), RLIMIT_NOFILE, 64},
		/* A connection and five counters for each sandbox (512), and one for each frontend
		 * (2048) and each engine call under way. */
		{BROKERS, RLIMIT_NOFILE, 8192},
		/* A pidfd and five counters for each sandbox the broker can have (512), and once
		 * more the counters that a busy broker has not taken yet. */
		{BIT(TABLE_REAPER), RLIMIT_NOFILE, 8192},
		/* Children inherit it and need the broker's number. */
		{BIT(TABLE_SUPERVISOR), RLIMIT_NOFILE, 8192},
#ifndef BAILEY_NO_FILTER /* a sanitizer's shadow is terabytes of address space */
		{BIT(TABLE_FRONTEND), RLIMIT_AS, 512 * MIB},
		{BROKERS, RLIMIT_AS, 2048 * MIB},
		{BIT(TABLE_REAPER), RLIMIT_AS, 256 * MIB},
#endif
	};
	bool keep_size = writes_a_file();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if ((rows[i].tables & BIT(table)) == 0)
			continue;
		if (rows[i].resource == RLIMIT_FSIZE && keep_size)
			continue;
		int r = lower_limit(rows[i].resource, rows[i].value);
		if (r < 0)
			return r;
	}
	return 0;
}

struct cap_state {
	uint64_t effective, permitted, inheritable;
};

static int
caps_get(struct cap_state *ret)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &head, data) == -1)
		return -errno;
	ret->effective = data[0].effective | (uint64_t)data[1].effective << 32;
	ret->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	ret->inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
	return 0;
}

uint64_t
confine_caps_kept(const struct confine_plan *plan)
{
	/* What it needs to give its children ids of their own, and to end them. */
	if (plan->table == TABLE_SUPERVISOR)
		return BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL);
	return plan->keep_kill ? BIT(CAP_KILL) : 0;
}

int
confine_caps_check(uint64_t allowed)
{
	struct cap_state now = {0};
	int r = caps_get(&now);

	if (r < 0)
		return r;
	/* Ambient is a subset of permitted and inheritable, always. */
	return ((now.effective | now.permitted | now.inheritable) & ~allowed) == 0 ? 0 : -EPERM;
}

int
confine_caps_drop(bool keep_kill)
{
	uint64_t keep = keep_kill ? BIT(CAP_KILL) : 0;
	struct cap_state now = {0};
	int r = caps_get(&now);

	if (r < 0)
		return r;
	if ((now.permitted & keep) != keep)
		return -EPERM;
	if ((now.effective & BIT(CAP_SETPCAP)) != 0) {
		/* The kernel may know more capabilities than our headers: EINVAL ends the list. */
		for (int cap = 0; cap < 64; cap++) {
			if ((keep & BIT(cap)) != 0)
				continue;
			if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1) {
				if (errno == EINVAL)
					break;
				return -errno;
			}
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1)
		return -errno;

	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)keep, .permitted = (uint32_t)keep}};

	if (syscall(SYS_capset, &head, data) == -1)
		return -errno;
	return confine_caps_check(keep);
}

int
confine_no_files(void)
{
	struct landlock_ruleset_attr attr = {0};
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	/* Not built in, not switched on, or hidden by the filter of a container around us. */
	if (abi == -1)
		return errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM ? 0 : -errno;
	/* All rights the running kernel's version knows, and no rule that gives one back:
	 * 13 at first, then rename across directories, truncate, and device ioctls. */
	attr.handled_access_fs = BIT(13) - 1;
	if (abi >= 2)
		attr.handled_access_fs |= BIT(13);
	if (abi >= 3)
		attr.handled_access_fs |= BIT(14);
	if (abi >= 5)
		attr.handled_access_fs |= BIT(15);

	cleanup_close int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd == -1)
		return -errno;
	return syscall(SYS_landlock_restrict_self, fd, 0) == -1 ? -errno : 1;
}
