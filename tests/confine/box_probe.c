/*
 * tests/confine/box_probe.c - static program that runs inside a sandbox, under
 * container.def, and tries what must not work: each call number without a row,
 * each address family with and without a bit above 32, namespaces, devices,
 * limits and priorities of PID 1, 32-bit calls. Prints TAP.
 * Runs in: a container, started by tests/confine/container.sh.
 * Input: container.def, compiled in.
 * Owns: nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <seccomp.h>

#define ABOVE_32 (UINT64_C(1) << 32)

#define CALLS_MAX 520 /* past the newest number any kernel knows today */

static struct box_call {
	const char *name;
	int err; /* 0: allowed */
	bool conditional;
	long nr; /* negative: not on this processor */
} box_calls[] = {
#define ALLOW(call) {.name = #call},
#define ALLOW_IF(call, ...) {.name = #call, .conditional = true},
#define ERRNO(call, number) {.name = #call, .err = (number)},
#include "container.def"
};
static const size_t box_call_count = sizeof(box_calls) / sizeof(box_calls[0]);

static unsigned point, failed;

static void
report(bool ok, const char *what)
{
	failed += !ok;
	(void)printf("%sok %u - %s\n", ok ? "" : "not ", ++point, what);
}

/* errno of a call in a child, 0 when it worked, -1 when it ended the child by
 * SIGSYS or SIGSEGV, -2 for another end (exit, alarm). */
static int
in_child(long nr, const uint64_t a[6])
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)alarm(2);
		long r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		_exit(r == -1 ? errno : 0);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return -2;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV ? -1 : -2;
}

static int
call(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	const uint64_t a[6] = {a0, a1, a2, 0, 0, 0};

	return in_child(nr, a);
}

/* Calls younger than libseccomp 2.5 have the same number everywhere. */
static void
number_calls(void)
{
	static const struct {
		const char *name;
		long nr;
	} young[] = {{"cachestat", 451},  {"fchmodat2", 452},  {"map_shadow_stack", 453},
		     {"futex_wake", 454}, {"futex_wait", 455}, {"futex_requeue", 456},
		     {"mseal", 462}};

	for (size_t i = 0; i < box_call_count; i++) {
		box_calls[i].nr = seccomp_syscall_resolve_name(box_calls[i].name);
		for (size_t j = 0; j < sizeof(young) / sizeof(young[0]); j++) {
			if (strcmp(young[j].name, box_calls[i].name) == 0)
				box_calls[i].nr = young[j].nr;
		}
	}
}

static bool
listed(long nr)
{
	for (size_t i = 0; i < box_call_count; i++) {
		if (box_calls[i].nr == nr)
			return true;
	}
	return false;
}

/* Engines answer EPERM, or ENOSYS for numbers newer than every row. */
static void
unlisted_calls(void)
{
	const uint64_t ones[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX};
	bool all = true;

	for (long nr = 0; nr < CALLS_MAX; nr++) {
#ifdef __x86_64__
		if (nr == 335 || nr == 336) /* the kernel's own trampolines, past every filter */
			continue;
#endif
		if (listed(nr))
			continue;
		int err = in_child(nr, ones);
		if (err == EPERM || err == ENOSYS)
			continue;
		(void)printf("# call %ld: %d\n", nr, err);
		all = false;
	}
	report(all, "every call without a row is refused");
}

static bool
may_refuse(long nr)
{
	/* Root's business, whatever the filter says. */
	return nr == SYS_mlockall || nr == SYS_setgid || nr == SYS_setuid || nr == SYS_kill;
}

/* A name the engine did not know would be left out without a word. */
static void
listed_calls(void)
{
	const uint64_t ones[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX};
	bool allowed = true, refused = true;

	for (size_t i = 0; i < box_call_count; i++) {
		const struct box_call *row = &box_calls[i];

		if (row->nr < 0 || row->conditional || may_refuse(row->nr))
			continue;
#ifdef SYS_vfork
		if (row->nr == SYS_vfork) /* would come back twice on one stack */
			continue;
#endif
		int err = in_child(row->nr, ones);
		if (row->err == 0 && err == EPERM) {
			(void)printf("# %s is refused\n", row->name);
			/* A call younger than the engine: EPERM is all it can say. */
			allowed = allowed && row->nr >= 450;
		}
		if (row->err != 0 && err != row->err) {
			(void)printf("# %s: %d instead of %d\n", row->name, err, row->err);
			refused = false;
		}
	}
	report(allowed, "every plain row is allowed");
	report(refused, "every ERRNO row answers with its errno");
}

static bool
socket_listed(int family, int type, int protocol)
{
	if (family == AF_UNIX)
		return true;
	if (family == AF_NETLINK)
		return protocol == NETLINK_ROUTE;
	if (family != AF_INET && family != AF_INET6)
		return false;
	return (type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) ||
	       (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP));
}

/* Refused by the filter is EPERM; other errors are the kernel's own. */
static bool
socket_as_listed(uint64_t family, uint64_t type, uint64_t protocol)
{
	long fd = syscall(SYS_socket, family, type, protocol);
	int err = fd == -1 ? errno : 0;
	bool want = family < ABOVE_32 && protocol < ABOVE_32 &&
		    socket_listed((int)family, (int)type, (int)protocol);

	if (fd >= 0)
		(void)close((int)fd);
	if ((err != EPERM) == want)
		return true;
	(void)printf("# socket(%#llx, %#llx, %#llx): errno %d\n", (unsigned long long)family,
		     (unsigned long long)type, (unsigned long long)protocol, err);
	return false;
}

static void
sockets(void)
{
	static const int protocols[] = {0,      IPPROTO_ICMP,   IPPROTO_TCP,       IPPROTO_UDP,
					6 << 8, 132 /* SCTP */, 136 /* UDPLITE */, 262 /* MPTCP */};
	bool plain = true, wide = true;

	for (uint64_t family = 0; family < 64; family++) {
		for (uint64_t type = 1; type <= 10; type++) {
			for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
				uint64_t protocol = (uint64_t)protocols[i];

				plain = socket_as_listed(family, type, protocol) && plain;
				wide = socket_as_listed(family | ABOVE_32, type, protocol) && wide;
			}
		}
	}
	report(plain, "address families, types and protocols as listed");
	report(wide, "no family passes with a bit above 32 set");
	report(call(SYS_socket, AF_INET, SOCK_STREAM, ABOVE_32) == EPERM,
	       "no protocol passes with a bit above 32 set");
	report(call(SYS_socketpair, AF_INET, SOCK_STREAM, 0) == EPERM &&
		       call(SYS_socketpair, AF_UNIX | ABOVE_32, SOCK_STREAM, 0) == EPERM,
	       "socket pairs are local ones");
}

static void
namespaces(void)
{
	static const uint64_t kinds[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
	bool cloned = false, unshared = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cloned = cloned || call(SYS_clone, kinds[i] | SIGCHLD, 0, 0) != EPERM ||
			 call(SYS_clone, kinds[i] | CLONE_NEWUSER | SIGCHLD, 0, 0) != EPERM;
		unshared = unshared || call(SYS_unshare, kinds[i], 0, 0) != EPERM;
	}
	report(!cloned, "clone makes no namespace");
	report(!unshared, "unshare makes no namespace");
	report(call(SYS_clone3, 0, 0, 0) == ENOSYS, "clone3 does not exist");
}

static void
arguments(void)
{
	uint64_t path = (uint64_t)(uintptr_t) "/tmp/probe-node";
	uint64_t here = (uint64_t)AT_FDCWD;

	report(call(SYS_personality, 0xffffffff, 0, 0) == 0 &&
		       call(SYS_personality, 0x0040000, 0, 0) == EPERM &&
		       call(SYS_personality, ABOVE_32, 0, 0) == EPERM,
	       "personality can only be asked and be plain");
#ifdef SYS_mknod
	report(call(SYS_mknod, path, S_IFCHR | 0600, 0x103) == EPERM &&
		       call(SYS_mknod, path, S_IFBLK | 0600, 0x700) == EPERM,
	       "mknod makes no device");
#endif
	report(call(SYS_mknodat, here, path, S_IFCHR | 0600) == EPERM &&
		       call(SYS_mknodat, here, path, S_IFBLK | 0600) == EPERM,
	       "mknodat makes no device");
	report(call(SYS_mknodat, here, path, S_IFIFO | 0600) == 0, "mknodat makes a fifo");
	report(call(SYS_prlimit64, 1, RLIMIT_NOFILE, 0) == EPERM &&
		       call(SYS_prlimit64, (uint64_t)getpid(), RLIMIT_NOFILE, 0) == EPERM &&
		       call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0) == 0,
	       "limits of oneself alone");
	report(call(SYS_setpriority, PRIO_PROCESS, 1, 19) == EPERM &&
		       call(SYS_setpriority, PRIO_USER, 0, 19) == EPERM &&
		       call(SYS_setpriority, PRIO_PROCESS, 0, 19) == 0,
	       "priority of oneself alone");
	report(call(SYS_sched_setscheduler, 1, SCHED_BATCH, 0) == EPERM &&
		       call(SYS_sched_setparam, 1, 0, 0) == EPERM &&
		       call(SYS_sched_setattr, 1, 0, 0) == EPERM &&
		       call(SYS_ioprio_set, 1, 1, 0) == EPERM &&
		       call(SYS_ioprio_set, 3, 0, 0) == EPERM && /* all of this user */
		       call(SYS_ioprio_set, 1, 0, 0) == 0,
	       "scheduling of oneself alone");
}

#ifdef __x86_64__
static void
other_abis(void)
{
	const uint64_t none[6] = {0};
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		long r = 20; /* getpid there */

		__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
		_exit(0);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		status = 0;
	report(WIFSIGNALED(status), "a 32-bit call ends the process");
	int err = in_child(0x40000000 | SYS_getpid, none);
	report(err == -1 || err == ENOSYS || err == EPERM, "an x32 call is refused");
}
#endif

int
main(void)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	number_calls();
	unlisted_calls();
	listed_calls();
	sockets();
	namespaces();
	arguments();
#ifdef __x86_64__
	other_abis();
#endif
	(void)printf("1..%u\n", point);
	return failed == 0 ? 0 : 1;
}
