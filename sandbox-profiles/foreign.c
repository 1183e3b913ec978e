/*
 * sandbox-profiles/foreign.c - what another's program, started by us, cannot do.
 * Runs in: the child of the stunnel keeper, between fork and exec.
 * Input: none.
 * Owns: nothing.
 * We do not know each call such a program makes, so this is a list of what it has no business with
 * and that faults of kernels were found in; each fails with EPERM instead of ending it. It holds
 * through exec, for good, and for whatever the program starts.
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "confine.h"

#ifndef BAILEY_NO_FILTER
/* Names, for not every processor has all of them. */
static const char *const denied[] = {
#define DENY(call) #call,
#include "foreign.def"
#undef DENY
};

/* The kernel looks at 32 bits of these arguments and no more. */
#define LOW32 UINT64_C(0xffffffff)
static const struct {
	const char *call;
	struct scmp_arg_cmp when;
} denied_if[] = {
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_PACKET}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_ALG}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_VSOCK}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_KEY}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_BLUETOOTH}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_CAN}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_TIPC}},
	{"socket", {0, SCMP_CMP_MASKED_EQ, LOW32, AF_XDP}},
	{"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER}},
	{"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_NEWNS, CLONE_NEWNS}},
	{"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_NEWNET, CLONE_NEWNET}},
	{"clone", {0, SCMP_CMP_MASKED_EQ, CLONE_NEWPID, CLONE_NEWPID}},
};

static int
deny(scmp_filter_ctx filter, const char *call, int err, const struct scmp_arg_cmp *when)
{
	int nr = seccomp_syscall_resolve_name(call);

	if (nr < 0)
		return 0; /* neither this processor nor this library has it */
	return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint16_t)err), nr, when ? 1 : 0,
				      when);
}

static int
load(scmp_filter_ctx filter)
{
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0); /* set before, or refused */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(denied); i++)
		r = deny(filter, denied[i], EPERM, NULL);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(denied_if); i++)
		r = deny(filter, denied_if[i].call, EPERM, &denied_if[i].when);
	/* Its flags lie in memory, where no filter looks; without it the C library takes clone. */
	if (r == 0)
		r = deny(filter, "clone3", ENOSYS, NULL);
	return r < 0 ? r : seccomp_load(filter);
}
#endif

static int
limits(void)
{
	static const struct {
		__rlimit_resource_t resource;
		rlim_t value;
	} rows[] = {{RLIMIT_CORE, 0}, {RLIMIT_MSGQUEUE, 0}, {RLIMIT_NOFILE, 4096}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rlimit limit;
		if (getrlimit(rows[i].resource, &limit) == -1)
			return -errno;
		if (limit.rlim_max > rows[i].value)
			limit.rlim_max = rows[i].value;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(rows[i].resource, &limit) == -1)
			return -errno;
	}
	return 0;
}

int
confine_foreign(void)
{
	int r = limits();

#ifndef BAILEY_NO_FILTER
	if (r < 0)
		return r;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (filter == NULL)
		return -ENOMEM;
	r = load(filter);
	seccomp_release(filter);
#endif
	return r;
}
