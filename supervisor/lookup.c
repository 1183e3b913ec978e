/*
 * supervisor/lookup.c - asks the name services in a process of its own.
 * Runs in: baileyd at start, before its filter; under it for the token file alone (tokens.c).
 * Input: whatever NSS modules and DNS answer: read as a fixed-size answer.
 * Owns: the helper process and its pipe while the question runs.
 * NSS may load modules and open sockets; done in a forked process, neither
 * their memory nor their descriptors stay in the supervisor, and a name server
 * that does not answer costs a bounded time.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void __attribute__((noreturn))
answer_and_exit(int fd, pid_t parent, int (*ask)(const void *, void *, size_t),
		const void *question, void *answer, size_t cap)
{
	/* A name server may keep it waiting for longer than its parent lives. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1 || getppid() != parent)
		_exit(EIO);
	int r = ask(question, answer, cap);

	if (r == 0)
		r = fd_write_all(fd, answer, cap);
	_exit(r == 0 ? 0 : -r & 0x7f);
}

/* All cap bytes, or an error. */
static int
read_answer(int fd, void *answer, size_t cap, uint32_t timeout_ms)
{
	uint64_t until = clock_now_ms() + timeout_ms;
	uint8_t *at = answer;

	while (cap > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_now_ms();
		if (now >= until)
			return -ETIME;
		int ready = poll(&p, 1, (int)(until - now));
		if (ready == -1 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		ssize_t n = read(fd, at, cap);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -ENOENT : -errno;
		at += n;
		cap -= (size_t)n;
	}
	return 0;
}

int
lookup_run(int (*ask)(const void *question, void *answer, size_t cap), const void *question,
	   void *answer, size_t cap, uint32_t timeout_ms)
{
	int fds[2];
	int status = 0;

	if (pipe2(fds, O_CLOEXEC) == -1)
		return -errno;
	cleanup_close int in = fds[0];
	cleanup_close int out = fds[1];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == -1)
		return -errno;
	if (pid == 0)
		answer_and_exit(out, parent, ask, question, answer, cap);
	cleanup_closep(&out);
	out = -1;
	int r = read_answer(in, answer, cap, timeout_ms);
	if (r < 0)
		(void)kill(pid, SIGKILL); /* it may be waiting for a name server */
	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			return -errno;
	if (r == -ENOENT && WIFEXITED(status) && WEXITSTATUS(status) != 0)
		return -WEXITSTATUS(status);
	if (r == -ENOENT && WIFSIGNALED(status))
		return -EIO; /* libc's own, say, where memory is out */
	return r;
}
