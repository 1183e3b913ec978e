/*
 * supervisor/spawn.c - one child: fork, fixed descriptors, ids, exec.
 * Runs in: baileyd and, between fork and exec, the child.
 * Input: trusted.
 * Owns: nothing; the plan's descriptors stay the caller's.
 * The program was opened when the tree started: a child that is started again
 * is the same file, and its user needs no right on the path to it.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_NOT_STARTED 127
/* What a frontend is given; the others use fewer before the first sandbox. */
#define FDS_LEAST 64u

/* What may reach a child: switches of libc and sanitizers that tests use. */
static const char *const passed[] = {
	"GLIBC_TUNABLES", "MALLOC_PERTURB_",   "ASAN_OPTIONS", "UBSAN_OPTIONS",
	"LSAN_OPTIONS",   "LLVM_PROFILE_FILE", "GCOV_PREFIX",
};
static char *child_environment[ARRAY_LEN(passed) + 1];

static void
environment_once(void)
{
	static bool done;
	size_t n = 0;

	if (done)
		return;
	done = true;
	for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
		/* Single-threaded, and nothing here changes the environment. */
		const char *value = getenv(passed[i]); // NOLINT(concurrency-mt-unsafe)
		if (value != NULL)
			child_environment[n++] = xasprintf("%s=%s", passed[i], value);
	}
}

int
spawn_check_fds(char *error, size_t cap)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
		return -errno;
	if (limit.rlim_cur >= FDS_LEAST)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max >= FDS_LEAST && setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return 0;
	(void)snprintf(error, cap, "%u file descriptors are needed, and ulimit -n allows %llu",
		       FDS_LEAST, (unsigned long long)limit.rlim_max);
	return -EMFILE;
}

int
spawn_reserve_fds(void)
{
	int r = fd_close_from(FD_SUPERVISOR);
	if (r < 0)
		return r;
	/* 0..2 may have been closed by whoever started us; open(2) fills the lowest. */
	for (;;) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd == -1)
			return -errno;
		if (fd < FD_SUPERVISOR) {
			r = fd_set_cloexec(fd, false);
			if (r < 0)
				return r;
		}
		if (fd == FD_STATE)
			return 0;
	}
}

/* The log's reader is the client, and one that does not read must not hold any of us. The pipe
 * or terminal is opened anew, so that the flag is ours and not the client's; a log that cannot
 * be opened so (another user's) stays as it is. */
void
spawn_unblock_log(void)
{
	struct stat st;

	if (fstat(FD_LOG, &st) == -1 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return;
	cleanup_close int fd =
		open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd != -1)
		(void)dup3(fd, FD_LOG, 0); /* else the old one is still there */
}

/* Only system calls from here on; a failure is told on the log and by the exit code. */
static void __attribute__((noreturn)) failed(const char *what)
{
	static const char lead[] = "<3>baileyd: child not started: ";

	(void)!write(FD_LOG, lead, sizeof(lead) - 1);
	(void)!write(FD_LOG, what, strlen(what));
	(void)!write(FD_LOG, "\n", 1);
	_exit(EXIT_NOT_STARTED);
}

static void
place(int fd, int at)
{
	/* The client's are in their places already. */
	if (fd != -1 && fd != at && dup3(fd, at, 0) == -1)
		failed("descriptors");
}

static void __attribute__((noreturn)) become_and_exec(const struct spawn_plan *plan, int null)
{
	place(plan->stdio[0] != -1 ? plan->stdio[0] : null, FD_IN);
	place(plan->stdio[1] != -1 ? plan->stdio[1] : null, FD_OUT);
	place(plan->supervisor, FD_SUPERVISOR);
	place(plan->peer, FD_PEER);
	place(plan->state, FD_STATE);
	if (identity_become_child(plan->identity, plan->child) < 0)
		failed("ids");
	(void)syscall(SYS_execveat, plan->exe, "", plan->argv, child_environment, AT_EMPTY_PATH);
	failed("exec");
}

const char *
spawn_hint(int error)
{
	return error == -EAGAIN ? " (ulimit -u, or the pids limit of its cgroup)" : "";
}

int
spawn_child(const struct spawn_plan *plan, pid_t *ret_pid)
{
	environment_once();
	pid_t pid = fork();
	if (pid == -1)
		return -errno;
	if (pid == 0)
		become_and_exec(plan, FD_SUPERVISOR); /* a reserved number: /dev/null here */
	*ret_pid = pid;
	return 0;
}
