/* foreign.c: what fails afterwards, what goes on, and that all of it holds through exec. */
#include "test.h"
#include "confine.h"

#include <sched.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef BAILEY_NO_FILTER
static bool
fails(long r, int err)
{
	return r == -1 && errno == err;
}

static void
refused(void *arg)
{
	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 || confine_foreign() < 0)
		_exit(1);
	if (!fails(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM) ||
	    !fails(unshare(CLONE_NEWUSER), EPERM) || !fails(chroot("/"), EPERM))
		_exit(2);
	if (!fails(shmget(IPC_PRIVATE, 4096, 0600), EPERM) ||
	    !fails(syscall(SYS_bpf, 0, NULL, 0), EPERM) ||
	    !fails(syscall(SYS_clone3, NULL, 0), ENOSYS))
		_exit(3);
	if (!fails(socket(AF_PACKET, SOCK_RAW, 0), EPERM) ||
	    !fails(syscall(SYS_socket, 0x500000000L + AF_ALG, SOCK_SEQPACKET, 0), EPERM) ||
	    !fails(syscall(SYS_clone, CLONE_NEWUSER | CLONE_VM | SIGCHLD, NULL), EPERM))
		_exit(4);
	_exit(0);
}

static void
allowed(void *arg)
{
	struct rlimit core;
	int status = 0;

	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 || confine_foreign() < 0)
		_exit(1);
	if (socket(AF_INET, SOCK_STREAM, 0) == -1 || socket(AF_INET6, SOCK_STREAM, 0) == -1 ||
	    socket(AF_UNIX, SOCK_STREAM, 0) == -1)
		_exit(2);
	if (getrlimit(RLIMIT_CORE, &core) == -1 || core.rlim_max != 0)
		_exit(3);
	pid_t pid = fork();
	if (pid == 0)
		_exit(7);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		_exit(4);
	(void)execl("/bin/sh", "sh", "-c", "grep -q '^Seccomp:.2' /proc/self/status", (char *)NULL);
	_exit(5);
}

static void
without_no_new_privs(void *arg)
{
	(void)arg;
	if (geteuid() == 0 && setresuid(64999, 64999, 64999) == -1)
		_exit(1);
	_exit(confine_foreign() < 0 ? 0 : 2);
}

static void
test_what_is_refused(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(refused, NULL), 0);
}

static void
test_what_goes_on(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(allowed, NULL), 0);
}

static void
test_needs_no_new_privs(void **state)
{
	(void)state;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		test_skip("no_new_privs is set here already");
	assert_int_equal(test_in_child(without_no_new_privs, NULL), 0);
}
#else
static void
test_limits_alone(void **state)
{
	(void)state;
	test_skip("this build has no filters");
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef BAILEY_NO_FILTER
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_what_goes_on),
		cmocka_unit_test(test_needs_no_new_privs),
#else
		cmocka_unit_test(test_limits_alone),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
