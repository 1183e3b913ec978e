/* reaper/kill.c: a pid is held only with proof, and signalled 0 or 9 only. */
#include "test.h"
#include "reaper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void
test_cgroup_names(void **state)
{
	static const struct {
		const char *text;
		bool names;
	} rows[] = {
		/* v1, cgroupfs driver */
		{"12:pids:/docker/" ID "\n4:memory:/docker/" ID "\n0::/\n", true},
		/* v2, cgroupfs and systemd drivers, podman, a parent of our own */
		{"0::/docker/" ID "\n", true},
		{"0::/system.slice/docker-" ID ".scope\n", true},
		{"0::/machine.slice/libpod-" ID ".scope/container\n", true},
		{"0::/bailey/" ID "\n", true},
		{"0::/../../docker/" ID, true},
		{"1:name=systemd:/docker/" ID "/init.scope\n", true},
		/* others */
		{"", false},
		{"\n\n", false},
		{"0::/\n", false},
		{"0::/docker/" OTHER "\n", false},
		{"0::/system.slice/containerd.service\n", false},
		{"0::/docker/x" ID "\n", false},
		{"0::/docker/" ID "x\n", false},
		{"0::/docker-" ID "\n", false},
		{"0::/docker-" ID ".service\n", false},
		{"0::/docker" ID ".scope\n", false},
		{"0::/docker-" ID ".scopex\n", false},
		{ID ":" ID "\n", false},
		{"1:" ID ":/docker\n", false},
		{ID "\n", false},
		{"0::" ID "\n", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(kill_cgroup_names(rows[i].text, ID), rows[i].names);
	assert_false(kill_cgroup_names("0::/docker/abc\n", "abc"));
	assert_false(kill_cgroup_names("0::/docker/\n", ""));
}

/* A directory that looks like /proc, with one process in it: ourselves or a child. */
static char root[] = "/tmp/bailey-kill.XXXXXX";
static int proc_fd = -1;

static void
fake_cgroup(pid_t pid, const char *text)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%d", root, (int)pid);
	(void)mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/%d/cgroup", root, (int)pid);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

static int
setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root));
	proc_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc_fd < 0;
}

static int
teardown(void **state)
{
	char command[64];

	(void)state;
	assert_int_equal(close(proc_fd), 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command); // a test's own directory
}

static pid_t
sleeping_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

/* Some emulators of the kernel (valgrind) lack these calls. */
static void
need_pidfd(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd == -1 || syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == -1)
		test_skip("pidfd_open or pidfd_send_signal is refused here");
	(void)close(fd);
}

static void
test_open_kill_and_see_dead(void **state)
{
	need_pidfd();
	pid_t pid = sleeping_child();
	int pidfd = -1, status;

	(void)state;
	fake_cgroup(pid, "0::/docker/" ID "\n");
	assert_int_equal(kill_open(proc_fd, (uint32_t)pid, ID, &pidfd), 0);
	assert_int_equal(kill_send(pidfd, 0), 0);
	assert_false(kill_is_dead(pidfd));
	assert_int_equal(kill_send(pidfd, SIGTERM), -EINVAL);
	assert_int_equal(kill_send(pidfd, SIGSTOP), -EINVAL);
	assert_false(kill_is_dead(pidfd));
	assert_int_equal(kill_send(pidfd, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(kill_is_dead(pidfd));
	assert_int_equal(kill_send(pidfd, SIGKILL), -ESRCH);
	assert_int_equal(close(pidfd), 0);
}

static void
test_open_refuses(void **state)
{
	need_pidfd();
	pid_t pid = sleeping_child();
	int pidfd = -1, status;
	size_t fds = test_open_fds();

	(void)state;
	/* another container, no cgroup file at all, one that is too long */
	fake_cgroup(pid, "0::/docker/" OTHER "\n");
	assert_int_equal(kill_open(proc_fd, (uint32_t)pid, ID, &pidfd), -ESRCH);
	assert_int_equal(kill_open(proc_fd, (uint32_t)getpid(), ID, &pidfd), -ENOENT);
	char *large = malloc(8192);
	memset(large, 'x', 8191);
	large[8191] = '\0';
	fake_cgroup(pid, large);
	free(large);
	assert_int_equal(kill_open(proc_fd, (uint32_t)pid, ID, &pidfd), -EFBIG);
	/* numbers that are no process of a box */
	static const uint32_t bad[] = {0, 1, 0x80000000u, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(kill_open(proc_fd, bad[i], ID, &pidfd), -ESRCH);
	/* a process that ended, although its cgroup can still be read: a number used again */
	fake_cgroup(pid, "0::/docker/" ID "\n");
	assert_int_equal(kill(pid, SIGKILL), 0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(kill_open(proc_fd, (uint32_t)pid, ID, &pidfd), -ESRCH);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(kill_open(proc_fd, (uint32_t)pid, ID, &pidfd), -ESRCH);
	assert_int_equal(pidfd, -1);
	assert_int_equal(test_open_fds(), fds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cgroup_names),
		cmocka_unit_test(test_open_kill_and_see_dead),
		cmocka_unit_test(test_open_refuses),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
