/*
 * reaper/kill.c - the pidfd of a box: opened only with proof, signalled 0 or 9.
 * Runs in: bailey-reaper.
 * Input: a pid and a container id from the broker, and /proc; the pid is not
 *	believed before /proc/PID/cgroup names the container.
 * Owns: nothing.
 */
#include "reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One path component names the container: "<id>" (cgroupfs driver, whatever the parent), or
 * "<engine>-<id>.scope" (systemd driver). */
static bool
component_names(const char *s, size_t n, const char *container)
{
	static const char tail[] = ".scope";
	size_t id_len = CONTAINER_ID_LEN;

	if (n == id_len)
		return memcmp(s, container, id_len) == 0;
	size_t tail_len = sizeof(tail) - 1;
	if (n < id_len + 1 + tail_len || memcmp(s + n - tail_len, tail, tail_len) != 0)
		return false;
	const char *id = s + n - tail_len - id_len;
	return id[-1] == '-' && memcmp(id, container, id_len) == 0;
}

bool
kill_cgroup_names(const char *text, const char *container)
{
	if (strlen(container) != CONTAINER_ID_LEN)
		return false;
	while (*text != '\0') {
		size_t line = strcspn(text, "\n");
		const char *end = text + line;

		/* "hierarchy:controllers:/path"; only the path may name it */
		const char *path = memchr(text, ':', line);
		if (path != NULL)
			path = memchr(path + 1, ':', (size_t)(end - path - 1));
		while (path != NULL && path < end) {
			path++;
			const char *slash = memchr(path, '/', (size_t)(end - path));
			size_t n = (size_t)((slash != NULL ? slash : end) - path);
			if (component_names(path, n, container))
				return true;
			path = slash;
		}
		text = *end == '\0' ? end : end + 1;
	}
	return false;
}

int
kill_open(int proc_fd, uint32_t pid, const char *container, int *ret_pidfd)
{
	char path[32];
	char text[4096];
	size_t len;

	if (pid <= 1 || pid > INT32_MAX)
		return -ESRCH;
	cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (pidfd == -1)
		return -errno;
	int n = snprintf(path, sizeof(path), "%u/cgroup", pid);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -EINVAL;
	int r = fd_read_file(proc_fd, path, text, sizeof(text), &len);
	if (r < 0)
		return r;
	/* Still alive after the look means: the look was at the process the pidfd holds. */
	if (kill_is_dead(pidfd) || !kill_cgroup_names(text, container))
		return -ESRCH;
	*ret_pidfd = TAKE_FD(pidfd);
	return 0;
}

int
kill_send(int pidfd, int sig)
{
	if (sig != 0 && sig != SIGKILL)
		return -EINVAL;
	if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == -1)
		return -errno;
	return 0;
}

bool
kill_is_dead(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLIN | POLLHUP)) != 0;
}
