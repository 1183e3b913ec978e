/*
 * guest/children.c - who PID 1 is the parent of: runners it knows, and nobody else.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: wait status; untrusted code may kill or stop any runner, having the same uid.
 * Owns: the spare runner.
 *
 * A runner forked ahead makes a run start without a fork of PID 1 on its way. The next one is
 * forked when a run's runner has gone, or while a longer run goes on; not in a sandbox of an
 * interpreter that waits, which has one run. Where there is none the run waits for the fork.
 *
 * What hung below a dead runner falls to PID 1. It cannot be told whose it was: it is killed,
 * and the runs without a runner are over when no such child is left.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "guest.h"

#define SPARE_AFTER_TAKE_MS 25u /* a run this long may have company */
#define SPARE_RETRY_MS 250u
#define KNOWN_MAX (GUEST_RUNS_MAX + EVAL_LANGUAGES + 2u)

/* ---- the spare ---- */

static void
children_want_spare(struct guest *g, uint32_t in_ms)
{
	if (prestart_is_shell(g))
		g->spare_at_ms = clock_now_ms() + in_ms;
}

static int
children_fork(struct guest *g, struct runner *ret)
{
	int r = runner_start(ret, &g->stream);

	if (r == 0)
		runner_affinity(ret, g->hello.affinity);
	return r;
}

/* Another run may have killed it, and its death was not heard of yet: its socket tells. */
static bool
children_is_gone(const struct runner *r)
{
	char byte;

	return recv(r->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

int
children_take(struct guest *g, struct runner *ret)
{
	if (g->spare.pid > 0 && children_is_gone(&g->spare))
		children_drop(g, &g->spare);
	children_want_spare(g, SPARE_AFTER_TAKE_MS);
	if (g->spare.pid == 0)
		return children_fork(g, ret);
	*ret = g->spare;
	g->spare = RUNNER_NONE;
	return 0;
}

void
children_drop(struct guest *g, struct runner *r)
{
	if (r->pid > 0) {
		(void)kill(r->pid, SIGKILL); /* at the end of its socket it would go as well,
						unless it is stopped */
		g->leaving++;
		children_want_spare(g, 0);
	}
	runner_close(r);
}

void
children_tick(struct guest *g, uint64_t now_ms)
{
	if (g->spare.pid > 0)
		g->spare_at_ms = 0;
	if (g->spare_at_ms == 0 || now_ms < g->spare_at_ms)
		return;
	/* Where no process can be made now, later perhaps; a run says why by itself. */
	g->spare_at_ms = children_fork(g, &g->spare) < 0 ? now_ms + SPARE_RETRY_MS : 0;
}

/* ---- who is known ---- */

static size_t
children_known(struct guest *g, struct runner *ret[KNOWN_MAX])
{
	size_t n = 0;

	ret[n++] = &g->spare;
	ret[n++] = &g->waiting;
	for (size_t i = 0; i < EVAL_LANGUAGES; i++)
		ret[n++] = &g->eval[i].runner;
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number != 0)
			ret[n++] = &g->runs[i].runner;
	}
	return n;
}

uint32_t
children_kill_strangers(struct guest *g)
{
	struct runner *known[KNOWN_MAX];
	pid_t pids[KNOWN_MAX];
	size_t n = children_known(g, known);
	size_t n_pids = 0;

	for (size_t i = 0; i < n; i++) {
		if (known[i]->pid > 0)
			pids[n_pids++] = known[i]->pid;
	}
	return tree_kill_others(pids, n_pids);
}

static struct runner *
children_find(struct guest *g, pid_t pid)
{
	struct runner *known[KNOWN_MAX];
	size_t n = children_known(g, known);

	for (size_t i = 0; i < n; i++) {
		if (known[i]->pid == pid)
			return known[i];
	}
	return NULL;
}

static void
children_on_lost(struct guest *g)
{
	if (g->spare.pid == 0 && g->spare.fd >= 0) {
		runner_close(&g->spare);
		children_want_spare(g, SPARE_AFTER_TAKE_MS);
	}
	if (g->waiting.pid == 0 && g->waiting.fd >= 0)
		prestart_on_gone(g);
	eval_on_runner_gone(g);
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		struct run *run = &g->runs[i];

		if (run->number != 0 && run->runner.pid == 0 && run->runner.fd >= 0)
			run_on_runner_gone(g, run);
	}
}

void
children_reap(struct guest *g)
{
	bool lost = false;
	bool strange = false;
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		struct runner *r = children_find(g, pid);

		if (WIFSTOPPED(status)) {
			if (r != NULL)
				(void)kill(pid, SIGCONT); /* a run can stop it, not keep it so */
		} else if (r != NULL) {
			r->pid = 0;
			lost = true;
		} else if (g->leaving > 0) {
			g->leaving--;
		} else {
			strange = true;
		}
	}
	if (lost)
		children_on_lost(g);
	if ((lost || strange) && children_kill_strangers(g) == 0)
		run_on_orphans_gone(g);
}
