/*
 * guest/runner.c - the process that starts a run and is its subreaper.
 * Runs in: guest-init (PID 1 of a sandbox) and the runners forked from it.
 * Input: orders of PID 1, by a socket and shared memory; wait status.
 * Owns: in PID 1 its ends of the run's pipes and sockets, and the memory shared with
 *       the runner; in the runner the other ends.
 *
 * The runner knows nothing of frames. It starts what struct launch says, waits
 * until that process ends and then until nothing is left below it, and reports
 * both. Orphans of the run become its children, never PID 1's. User code may
 * kill it, having the same uid: then everything of the run falls to PID 1,
 * which ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

/* Ends the runner holds, handed to what it starts. */
struct runner_ends {
	int order_fd, control_fd;
	int stdin_fd, stdout_fd, stderr_fd;
};

/* ---- in the runner ---- */

/* So that the kernel's choice, when memory is out, falls on the run and not on PID 1. */
static void
runner_prefer_oom(void)
{
	int fd;

	/* Nothing of this process is secret here, and /proc gives it to its own uid only so. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd == -1)
		return; /* a runtime without it: the cgroup's limit still holds */
	(void)fd_write_all(fd, "1000", 4);
	(void)close(fd);
}

/* Pointers into the launch text: argv, NULL, env, NULL. */
static char **
runner_vectors(struct launch *l)
{
	char **v = calloc((size_t)l->n_argv + l->n_env + 2, sizeof(*v));
	char *at = l->text;
	size_t slot = 0;

	if (v == NULL)
		return NULL;
	for (uint32_t i = 0; i < l->n_argv + l->n_env; i++) {
		if (i == l->n_argv)
			slot++;
		v[slot++] = at;
		while (*at != '\0')
			at++;
		at++;
	}
	return v;
}

static int
runner_files(posix_spawn_file_actions_t *files, const struct launch *l,
	     const struct runner_ends *ends)
{
	int err = posix_spawn_file_actions_adddup2(files, ends->stdin_fd, 0);

	if (err == 0)
		err = posix_spawn_file_actions_adddup2(files, ends->stdout_fd, 1);
	if (err == 0)
		err = posix_spawn_file_actions_adddup2(files, ends->stderr_fd, 2);
	if (err == 0 && l->with_control)
		err = posix_spawn_file_actions_adddup2(files, ends->control_fd, GUEST_CONTROL_FD);
	if (err == 0)
		err = posix_spawn_file_actions_addchdir_np(files, l->cwd);
	return err;
}

static int
runner_attributes(posix_spawnattr_t *attr)
{
	sigset_t none;
	sigset_t ignored;
	int err;

	(void)sigemptyset(&none);
	(void)sigemptyset(&ignored);
	(void)sigaddset(&ignored, SIGPIPE);
	err = posix_spawnattr_setsigmask(attr, &none);
	if (err == 0)
		err = posix_spawnattr_setsigdefault(attr, &ignored);
	if (err == 0)
		/* A session of its own: kill(0, …) of the run reaches the run only. */
		err = posix_spawnattr_setflags(
			attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	return err;
}

static int
runner_spawn(struct launch *l, const struct runner_ends *ends)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char **v = runner_vectors(l);
	pid_t pid = 0;
	int err;

	if (v == NULL)
		return ENOMEM;
	err = posix_spawn_file_actions_init(&files);
	if (err != 0)
		goto out_vectors;
	err = posix_spawnattr_init(&attr);
	if (err != 0)
		goto out_files;
	err = runner_files(&files, l, ends);
	if (err == 0)
		err = runner_attributes(&attr);
	if (err == 0)
		err = posix_spawn(&pid, l->path, &files, &attr, v, v + l->n_argv + 1);
	if (err == 0)
		l->pid = pid;
	(void)posix_spawnattr_destroy(&attr);
out_files:
	(void)posix_spawn_file_actions_destroy(&files);
out_vectors:
	free(v);
	return err;
}

static void
runner_say(const struct runner_ends *ends, const struct report *report)
{
	ssize_t n;

	do {
		n = send(ends->order_fd, report, sizeof(*report), MSG_NOSIGNAL);
	} while (n == -1 && errno == EINTR);
	if (n != (ssize_t)sizeof(*report))
		_exit(1); /* PID 1 is gone or refuses: it will find us missing */
}

static void
runner_add_usage(struct report *report, const struct rusage *u)
{
	uint64_t rss = (uint64_t)u->ru_maxrss * 1024;

	report->cpu_us += (uint64_t)u->ru_utime.tv_sec * 1000000 + (uint64_t)u->ru_utime.tv_usec;
	report->cpu_us += (uint64_t)u->ru_stime.tv_sec * 1000000 + (uint64_t)u->ru_stime.tv_usec;
	if (rss > report->max_rss_bytes)
		report->max_rss_bytes = rss;
}

/* Waits for pid, and on the way for whatever else ends. */
static void
runner_wait(struct report *report, pid_t pid)
{
	struct rusage usage;
	int status;
	pid_t got;

	do {
		got = wait4(-1, &status, 0, &usage);
		if (got == -1 && errno != EINTR)
			_exit(1);
		if (got > 0)
			runner_add_usage(report, &usage);
	} while (got != pid);
	report->what = REPORT_ENDED;
	report->pid = pid;
	report->status = status;
	report->at_us = clock_now_us();
}

/* Reaps what has ended; with block, until there is nothing. True when nothing is left. */
static bool
runner_reap(struct report *report, bool block)
{
	struct rusage usage;
	int status;
	pid_t got;

	for (;;) {
		got = wait4(-1, &status, block ? 0 : WNOHANG, &usage);
		if (got == -1 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == -1;
		runner_add_usage(report, &usage);
	}
}

static void
runner_serve_one(struct launch *l, const struct runner_ends *ends)
{
	struct report report = {.what = REPORT_FAILED};

	report.status = runner_spawn(l, ends);
	if (report.status != 0) {
		runner_say(ends, &report);
		return;
	}
	runner_wait(&report, l->pid);
	report.left = runner_reap(&report, false) ? 0 : 1;
	runner_say(ends, &report);
	if (report.left == 0)
		return;
	(void)runner_reap(&report, true);
	report.what = REPORT_EMPTY;
	runner_say(ends, &report);
}

static void runner_main(struct launch *l, const struct runner_ends *ends) __attribute__((noreturn));

static void
runner_main(struct launch *l, const struct runner_ends *ends)
{
	char order;
	ssize_t n;

	runner_prefer_oom();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) == -1 || prctl(PR_SET_DUMPABLE, 0) == -1 ||
	    setsid() == -1)
		_exit(1);
	for (;;) {
		n = recv(ends->order_fd, &order, 1, 0);
		if (n == -1 && errno == EINTR)
			continue;
		if (n != 1)
			_exit(1);
		runner_serve_one(l, ends);
	}
}

/* ---- in PID 1 ---- */

struct runner_pipes {
	int in[2], out[2], err[2], order[2], control[2];
};

/* 0, 1 and 2 are the host's stream: not for anything below us. */
static void
runner_leave_stream(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i <= 2; i++) {
		if (fd == -1 || dup3(fd, i, O_CLOEXEC) == -1)
			(void)close(i);
	}
}

static int
runner_open(struct runner_pipes *p)
{
	if (pipe2(p->in, O_CLOEXEC) == -1 || pipe2(p->out, O_CLOEXEC) == -1 ||
	    pipe2(p->err, O_CLOEXEC) == -1)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->order) == -1 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->control) == -1)
		return -errno;
	return 0;
}

/* What PID 1 holds of other runs is not for this one: an end of a pipe kept here would keep
 * another run's input open. */
static void
runner_close_others(const struct runner_ends *ends)
{
	int keep[] = {ends->order_fd, ends->control_fd, ends->stdin_fd, ends->stdout_fd,
		      ends->stderr_fd};
	unsigned first = 3;

	for (size_t i = 1; i < ARRAY_LEN(keep); i++) {
		for (size_t j = i; j > 0 && keep[j] < keep[j - 1]; j--) {
			int swap = keep[j];

			keep[j] = keep[j - 1];
			keep[j - 1] = swap;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(keep); i++) {
		if ((unsigned)keep[i] > first)
			(void)syscall(SYS_close_range, first, (unsigned)keep[i] - 1, 0);
		first = (unsigned)keep[i] + 1;
	}
	(void)fd_close_from((int)first);
}

static void
runner_child(struct launch *l, const struct runner_pipes *p, struct stream *s)
{
	const struct runner_ends ends = {
		.order_fd = p->order[1],
		.control_fd = p->control[1],
		.stdin_fd = p->in[0],
		.stdout_fd = p->out[1],
		.stderr_fd = p->err[1],
	};

	secret_wipe(s->secret, sizeof(s->secret));
	runner_leave_stream();
	runner_close_others(&ends);
	runner_main(l, &ends);
}

static void
runner_close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			(void)close(pair[i]);
	}
}

static void
runner_close_pipes(struct runner_pipes *p)
{
	runner_close_pair(p->in);
	runner_close_pair(p->out);
	runner_close_pair(p->err);
	runner_close_pair(p->order);
	runner_close_pair(p->control);
}

/* PID 1's half of what runner_open made. */
static int
runner_keep(struct runner *r, const struct runner_pipes *p)
{
	(void)close(p->in[0]);
	(void)close(p->order[1]);
	(void)close(p->control[1]);
	r->fd = p->order[0];
	r->control_fd = p->control[0];
	r->stdin_fd = p->in[1];
	r->out_fds[0] = p->out[0];
	r->out_fds[1] = p->err[0];
	r->out_ends[0] = p->out[1];
	r->out_ends[1] = p->err[1];
	for (const int *fd = (const int[]){r->fd, r->control_fd, r->stdin_fd, r->out_fds[0],
					   r->out_fds[1], -1};
	     *fd != -1; fd++) {
		int err = fd_set_nonblock(*fd);

		if (err < 0)
			return err;
	}
	return 0;
}

void
runner_close(struct runner *r)
{
	const int fds[] = {r->fd,         r->control_fd,  r->stdin_fd,   r->out_fds[0],
			   r->out_fds[1], r->out_ends[0], r->out_ends[1]};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]); /* pipes and sockets: nothing to report */
	}
	if (r->launch != NULL)
		(void)munmap(r->launch, sizeof(*r->launch));
	*r = RUNNER_NONE;
}

int
runner_start(struct runner *r, struct stream *s)
{
	struct runner_pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	struct launch *l;
	pid_t pid;
	int err = runner_open(&p);

	*r = RUNNER_NONE;
	if (err < 0)
		goto fail;
	l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l == MAP_FAILED) {
		err = -errno;
		goto fail;
	}
	pid = fork();
	if (pid == 0)
		runner_child(l, &p, s);
	if (pid == -1) {
		err = -errno;
		(void)munmap(l, sizeof(*l));
		goto fail;
	}
	/* Not for those forked after it: it would stay with them. */
	(void)madvise(l, sizeof(*l), MADV_DONTFORK);
	r->pid = pid;
	r->launch = l;
	err = runner_keep(r, &p);
	if (err < 0) {
		(void)kill(pid, SIGKILL);
		runner_close(r);
	}
	return err;
fail:
	runner_close_pipes(&p);
	return err;
}

void
runner_affinity(const struct runner *r, uint64_t mask)
{
	cpu_set_t theirs, ours;

	if (mask == 0 || sched_getaffinity(0, sizeof(ours), &ours) == -1)
		return;
	CPU_ZERO(&theirs);
	for (unsigned i = 0; i < 64; i++) {
		if ((mask >> i & 1) != 0) {
			CPU_SET(i, &theirs);
			CPU_CLR(i, &ours);
		}
	}
	/* Hints; the quota is the limit. */
	(void)sched_setaffinity(r->pid, sizeof(theirs), &theirs);
	if (CPU_COUNT(&ours) > 0)
		(void)sched_setaffinity(0, sizeof(ours), &ours);
}

int
runner_order(struct runner *r)
{
	r->launch->pid = 0;
	return send(r->fd, "x", 1, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

void
runner_block_output(struct runner *r)
{
	for (size_t i = 0; i < ARRAY_LEN(r->out_ends); i++) {
		int flags = fcntl(r->out_ends[i], F_GETFL);

		if (flags != -1)
			(void)fcntl(r->out_ends[i], F_SETFL, flags & ~O_NONBLOCK);
	}
}

bool
runner_put_away(const struct runner *r)
{
	pid_t pid = r->launch == NULL ? 0 : r->launch->pid;
	cpu_set_t ours;

	if (pid <= 0)
		return false;
	if (sched_getaffinity(0, sizeof(ours), &ours) == 0)
		(void)sched_setaffinity(pid, sizeof(ours), &ours); /* a hint */
	(void)kill(pid, SIGKILL);
	return true;
}

void
runner_continue(const struct runner *r)
{
	pid_t pid = r->launch == NULL ? 0 : r->launch->pid;

	if (pid > 0)
		(void)kill(pid, SIGCONT); /* it has ended: its report comes */
}

void
runner_discard_output(struct runner *r)
{
	const int fds[] = {r->out_fds[0], r->out_fds[1], r->control_fd};
	uint8_t chunk[4096];
	ssize_t n;

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		do {
			n = read(fds[i], chunk, sizeof(chunk));
		} while (n > 0 || (n == -1 && errno == EINTR));
	}
}

uint64_t
runner_cpu_us(const struct runner *r)
{
	pid_t pid = r->launch == NULL ? 0 : r->launch->pid;
	struct timespec used;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) == -1)
		return 0;
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

int
runner_report(struct runner *r, struct report *ret)
{
	ssize_t n;

	do {
		n = recv(r->fd, ret, sizeof(*ret), 0);
	} while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN)
		return 0;
	return n == (ssize_t)sizeof(*ret) ? 1 : -EPIPE;
}
