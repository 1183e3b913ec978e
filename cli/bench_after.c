/*
 * cli/bench_after.c - removes what a bench leaves when it is interrupted or
 * killed: a process of its own that hears of the bench's end by a pipe.
 * Runs in: bailey bench, and that process.
 * Input: what the bench itself says it made.
 * Owns: the pipe; in the process, the list.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIST_MAX ((size_t)16384)
#define TRIES 5 /* an archive may still be unpacked there */

static int told = -1;
static pid_t watcher;

static void
remove_dir(const char *dir)
{
	for (int i = 0; i < TRIES && access(dir, F_OK) == 0; i++) {
		if (i > 0)
			(void)poll(NULL, 0, 1000);
		pid_t pid = fork();
		if (pid == 0) {
			execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
			_exit(127);
		}
		while (pid > 0 && waitpid(pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
}

static void
remove_container(const char *id)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/containers/%s?force=1", id);
	(void)raw_request("DELETE", path, NULL, NULL); /* most are gone already */
}

/* Each is a kind, a name and a NUL; at the pipe's end nobody is left to use them. */
static void __attribute__((noreturn)) watch(int fd)
{
	static char list[LIST_MAX];
	size_t len = 0;

	for (;;) {
		ssize_t n = read(fd, list + len, sizeof(list) - 1 - len);
		if (n > 0)
			len += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	for (size_t at = 0; at < len; at += strlen(list + at) + 1) {
		if (list[at] == 'D')
			remove_dir(list + at + 1);
		else
			remove_container(list + at + 1);
	}
	_exit(0);
}

int
bench_after_start(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) == -1)
		return -errno;
	watcher = fork();
	if (watcher == 0) {
		(void)close(fds[1]);
		(void)setsid(); /* what a terminal sends to the bench is not for it */
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (dup2(null, STDIN_FILENO) == -1 || dup2(null, STDOUT_FILENO) == -1)
			_exit(127);
		watch(fds[0]);
	}
	(void)close(fds[0]);
	if (watcher == -1) {
		(void)close(fds[1]);
		return -EAGAIN;
	}
	told = fds[1];
	return 0;
}

static void
tell(char kind, const char *name)
{
	char text[300];
	int n = snprintf(text, sizeof(text), "%c%s", kind, name);

	if (told >= 0 && n > 0 && (size_t)n < sizeof(text))
		(void)fd_write_all(told, text, (size_t)n + 1);
}

void
bench_after_dir(const char *dir)
{
	tell('D', dir);
}

void
bench_after_container(const char *id)
{
	tell('C', id);
}

void
bench_after_end(void)
{
	if (told < 0)
		return;
	cleanup_closep(&told);
	while (waitpid(watcher, NULL, 0) == -1 && errno == EINTR)
		;
}
