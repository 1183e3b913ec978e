/*
 * cli/bench_host.c - the baseline: the same snippet with the same interpreter,
 * without a sandbox: chroot into the image's root, clean environment, vfork and
 * exec, to exit.
 * Runs in: bailey bench.
 * Input: the image's root file system as the engine exports it.
 * Owns: a temporary directory below /var/tmp while the bench runs.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

const struct bench_snippet bench_snippets[BENCH_LANGS] = {
	[BENCH_PYTHON] = {"python", "/usr/bin/python3", "main.py", "print('hello')\n"},
	[BENCH_NODE] = {"node", "/usr/bin/node", "main.js", "console.log('hello')\n"},
	[BENCH_BASH] = {"bash", "/bin/bash", "main.sh", "echo hello\n"},
};

static int
wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int
run_tool(const char *const argv[], int stdin_fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (stdin_fd >= 0 && dup2(stdin_fd, STDIN_FILENO) == -1)
			_exit(127);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid == -1 ? -errno : wait_for(pid);
}

/* Unpacks the image: a container that is never started is exported through tar. */
static int
extract_image(const char *dir, const char *image)
{
	char id[65];
	char path[128];
	int fds[2];
	cleanup_free char *body = xasprintf("{\"Image\":\"%s\",\"Cmd\":[\"true\"]}", image);

	int r = raw_create("/containers/create", body, id);
	if (r < 0)
		return r;
	bench_after_container(id);
	if (pipe2(fds, O_CLOEXEC) == -1)
		return -errno;
	pid_t pid = fork();
	if (pid == 0) {
		snprintf(path, sizeof(path), "/containers/%s/export", id);
		_exit(raw_download(path, fds[1]) == 0 ? 0 : 1);
	}
	close(fds[1]);
	const char *const tar[] = {"tar", "-x", "-C", dir, NULL};
	r = run_tool(tar, fds[0]);
	close(fds[0]);
	int r2 = pid == -1 ? -ECHILD : wait_for(pid);
	snprintf(path, sizeof(path), "/containers/%s?force=1", id);
	(void)raw_request("DELETE", path, NULL, NULL); /* a leftover is visible in docker ps -a */
	return r < 0 ? r : r2;
}

static int
write_file(const char *dir, const char *name, const char *text)
{
	cleanup_free char *path = xasprintf("%s/tmp/%s", dir, name);
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd == -1 ? -errno : fd_write_all(fd, text, strlen(text));
}

int
host_root_open(struct host_root *h, const char *image)
{
	snprintf(h->dir, sizeof(h->dir), "/var/tmp/bailey-bench-XXXXXX");
	if (mkdtemp(h->dir) == NULL)
		return -errno;
	bench_after_dir(h->dir);
	int r = 0;
	if (geteuid() == 0) {
		r = extract_image(h->dir, image);
		cleanup_free char *null = xasprintf("%s/dev/null", h->dir);
		cleanup_free char *urandom = xasprintf("%s/dev/urandom", h->dir);
		(void)unlink(null); /* the export may hold one already */
		(void)unlink(urandom);
		if (r == 0 && (mknod(null, S_IFCHR | 0666, makedev(1, 3)) == -1 ||
			       mknod(urandom, S_IFCHR | 0666, makedev(1, 9)) == -1))
			r = -errno;
	}
	cleanup_free char *tmp = xasprintf("%s/tmp", h->dir);
	if (mkdir(tmp, 0755) == -1 && errno != EEXIST)
		r = -errno;
	for (size_t i = 0; r == 0 && i < BENCH_LANGS; i++)
		r = write_file(h->dir, bench_snippets[i].file, bench_snippets[i].code);
	if (r < 0)
		host_root_close(h);
	return r;
}

void
host_root_close(struct host_root *h)
{
	const char *const rm[] = {"rm", "-rf", "--", h->dir, NULL};

	if (h->dir[0] != '\0' && run_tool(rm, -1) < 0)
		cli_error("could not remove %s", h->dir);
	h->dir[0] = '\0';
}

/* In the vforked child: only system calls, then exec. */
static void
host_child(const struct host_root *h, const char *tmp, const char *const argv[], int out)
{
	static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
					  "HOME=/tmp", NULL};

	if (geteuid() == 0) {
		if (chroot(h->dir) == -1 || chdir("/tmp") == -1)
			_exit(126);
	} else if (chdir(tmp) == -1) {
		_exit(126);
	}
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null == -1 || dup2(null, 0) == -1 || dup2(out, 1) == -1 || dup2(null, 2) == -1)
		_exit(126);
	execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
	_exit(127);
}

/* vfork: a fork of this process would be charged to the baseline. */
static pid_t
host_spawn(const struct host_root *h, const char *tmp, const char *const argv[], int out)
{
	pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)

	if (pid == 0)
		host_child(h, tmp, argv, out); // NOLINT(clang-analyzer-unix.Vfork)
	return pid;
}

int
host_run(const struct host_root *h, enum bench_lang lang, double *ret_exit, double *ret_first)
{
	int out[2];
	char text[256];
	const struct bench_snippet *s = &bench_snippets[lang];
	cleanup_free char *tmp = xasprintf("%s/tmp", h->dir);
	const char *const argv[] = {s->interpreter, s->file, NULL};

	if (pipe2(out, O_CLOEXEC) == -1)
		return -errno;
	uint64_t start = clock_now_us();
	uint64_t first = 0;
	pid_t pid = host_spawn(h, tmp, argv, out[1]);
	close(out[1]);
	for (;;) {
		ssize_t n = read(out[0], text, sizeof(text));
		if (n <= 0)
			break;
		if (first == 0)
			first = clock_now_us();
	}
	int r = pid == -1 ? -EAGAIN : wait_for(pid);
	uint64_t end = clock_now_us();
	close(out[0]);
	if (r < 0 || first == 0)
		return r < 0 ? r : -ENODATA;
	*ret_exit = (double)(end - start) / 1000.0;
	*ret_first = (double)(first - start) / 1000.0;
	return 0;
}
