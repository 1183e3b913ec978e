/*
 * guest/run.c - one run from its specification to its end.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: specification parts from the caller's frontend; reports of the runner.
 * Owns: the specification and the result.
 *
 *   IDLE --h_run--> GOING (handed to the waiting interpreter, or the runner told to start)
 *   IDLE --h_run--> CLEARING (an unwanted interpreter is killed) --gone--> GOING
 *   GOING --ended, nothing left--> DRAINING      GOING --ended, others left--> KILLING
 *   GOING --timeout, h_end, limit--> KILLING     KILLING --all gone--> DRAINING
 *   DRAINING --output framed--> OVER (g_exit sent)
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define KILL_AGAIN_MS 50u
#define KILL_GIVE_UP_MS 2000u /* then the runner goes too, and PID 1 reaps what is left */

static void
run_drain(struct guest *g)
{
	g->run.state = STATE_DRAINING;
	if (!g->run.ended)
		g->run.result.how = EXIT_NOT_STARTED;
	(void)output_read(&g->out[0], true);
	(void)output_read(&g->out[1], true);
	feed_close(&g->feed);
	run_tick(g, clock_now_ms());
}

/* Ends whatever lives of the run; the runner tells when it is done. */
static void
run_kill(struct guest *g)
{
	struct run *run = &g->run;
	uint64_t now = clock_now_ms();
	uint32_t n;

	if (run->state != STATE_KILLING) {
		run->state = STATE_KILLING;
		run->kill_since_ms = now;
	}
	if (g->runner.pid > 0 && now - run->kill_since_ms >= KILL_GIVE_UP_MS)
		(void)kill(g->runner.pid, SIGKILL);
	n = tree_kill(g->runner.pid > 0 ? g->runner.pid : 1);
	if (run->ended && n > run->result.leftovers)
		run->result.leftovers = n;
	if (g->runner.pid > 0)
		(void)kill(g->runner.pid, SIGCONT); /* the run may have stopped it */
	run->kill_again_ms = now + KILL_AGAIN_MS;
}

/* The first process could not be started. */
static void
run_fail(struct guest *g, int err)
{
	struct guest_g_exit *x = &g->run.result;

	x->how = EXIT_NOT_STARTED;
	x->exit_code = (uint32_t)err;
	x->flags |= EXIT_FORK_FAILED;
	g->run.ended = true;
	run_drain(g);
}

/* ---- start ---- */

static void
run_begin(struct guest *g)
{
	struct run *run = &g->run;

	run->state = STATE_GOING;
	if (run->what.timeout_ms > 0)
		run->deadline_ms = run->started_us / 1000 + run->what.timeout_ms;
	feed_pump(g);
}

static void
run_spawn(struct guest *g)
{
	int err = launch_fill_run(g->runner.launch, &g->run.what, g->hello.cpus);

	g->run.base_cpu_us = 0;
	g->run.result.start = START_LIVE;
	if (err != 0) {
		run_fail(g, err);
		return;
	}
	/* bash has nothing to wait with: a fork in a waiting sandbox is its warm start */
	if (g->hello.box_class == BOX_SHELL &&
	    (g->run.what.kind == RUN_BASH || g->run.what.kind == RUN_COMMAND))
		g->run.result.start = START_WARM;
	g->run.started_us = clock_now_us();
	err = runner_order(&g->runner);
	if (err < 0) {
		run_fail(g, -err);
		return;
	}
	run_begin(g);
}

static void
run_start(struct guest *g)
{
	struct run *run = &g->run;
	int err = launch_write_code(&run->what);

	if (err != 0) {
		run_fail(g, err);
		return;
	}
	g->feed.eof = (run->what.flags & SPEC_STDIN) == 0;
	run->started_us = clock_now_us();
	if (prestart_fits(g, &run->what) && prestart_hand_out(g, &run->what) == 0) {
		run_begin(g);
		return;
	}
	if (g->prestart == PRESTART_NONE || g->prestart == PRESTART_DUE) {
		g->prestart = PRESTART_NONE;
		run_spawn(g);
		return;
	}
	g->prestart = PRESTART_DISCARDED;
	run->state = STATE_CLEARING;
	run->kill_again_ms = clock_now_ms() + KILL_AGAIN_MS;
	(void)tree_kill(g->runner.pid);
}

int
guest_on_h_spec(struct guest *g, uint32_t run, const uint8_t *p, size_t n)
{
	if (g->run.state != STATE_IDLE || run == 0)
		return -EBADMSG;
	if (g->run.number != 0 && g->run.number != run)
		return -EBADMSG;
	g->run.number = run;
	return buf_append(&g->run.spec, p, n) < 0 ? -EBADMSG : 0;
}

int
guest_on_h_run(struct guest *g, uint32_t run, const uint8_t *p, size_t n)
{
	int r = guest_on_h_spec(g, run, p, n);

	if (r < 0)
		return r;
	r = spec_decode(buf_data(&g->run.spec), buf_len(&g->run.spec), &g->run.what);
	if (r < 0)
		run_fail(g, EBADMSG); /* opaque to the broker, so the fault is the caller's own */
	else
		run_start(g);
	return 0;
}

int
guest_on_h_end(struct guest *g, uint32_t run)
{
	if (run != g->run.number)
		return -EBADMSG;
	if (g->run.state == STATE_CLEARING || g->run.state == STATE_GOING) {
		g->run.result.flags |= EXIT_ENDED;
		run_kill(g);
	}
	return 0;
}

/* ---- end ---- */

static void
run_note_end(struct run *run, const struct report *report)
{
	struct guest_g_exit *x = &run->result;

	if (WIFSIGNALED(report->status)) {
		x->how = EXIT_SIGNALED;
		x->signal = (uint32_t)WTERMSIG(report->status);
	} else {
		x->how = EXIT_EXITED;
		x->exit_code = (uint32_t)WEXITSTATUS(report->status);
	}
	x->wall_us = report->at_us > run->started_us ? report->at_us - run->started_us : 0;
	run->ended = true;
}

static void
run_note_usage(struct run *run, const struct report *report)
{
	run->result.cpu_us =
		report->cpu_us > run->base_cpu_us ? report->cpu_us - run->base_cpu_us : 0;
	run->result.max_rss_bytes = report->max_rss_bytes;
}

/* A report about an interpreter no run was given to. */
static void
run_on_waiting_ended(struct guest *g, const struct report *report)
{
	bool gone = report->what != REPORT_ENDED || report->left == 0;

	if (!gone)
		return;
	prestart_on_gone(g);
	if (g->run.state == STATE_CLEARING)
		run_spawn(g);
	else if (g->run.state == STATE_KILLING)
		run_drain(g);
}

void
run_on_report(struct guest *g, const struct report *report)
{
	struct run *run = &g->run;

	if (g->prestart != PRESTART_NONE && g->prestart != PRESTART_USED) {
		run_on_waiting_ended(g, report);
		return;
	}
	if (run->state != STATE_GOING && run->state != STATE_KILLING)
		return;
	if (report->what == REPORT_FAILED) {
		run_fail(g, report->status);
		return;
	}
	run_note_usage(run, report);
	if (report->what == REPORT_ENDED)
		run_note_end(run, report);
	if (report->what == REPORT_EMPTY || report->left == 0)
		run_drain(g);
	else
		run_kill(g);
}

void
run_on_runner_gone(struct guest *g)
{
	if (g->run.state == STATE_IDLE)
		guest_end(END_RUNNER);
	if (g->run.state == STATE_DRAINING || g->run.state == STATE_OVER)
		return;
	run_kill(g); /* all of the run fell to PID 1 */
}

void
run_on_orphans_gone(struct guest *g)
{
	struct run *run = &g->run;

	if (run->state != STATE_KILLING)
		return;
	if (!run->ended) {
		run->result.how = EXIT_SIGNALED;
		run->result.signal = SIGKILL;
		run->result.wall_us = clock_now_us() - run->started_us;
		run->ended = true;
	}
	run_drain(g);
}

static bool
run_is_full(const char *path, uint64_t *ret_free)
{
	struct statvfs v;

	if (statvfs(path, &v) == -1)
		return false;
	*ret_free = (uint64_t)v.f_bavail * v.f_frsize;
	/* 0 in all means there is no such limit */
	return (v.f_blocks > 0 && v.f_bavail == 0) || (v.f_files > 0 && v.f_ffree == 0);
}

static void
run_send_exit(struct guest *g)
{
	struct guest_g_exit *x = &g->run.result;
	uint8_t payload[104];

	if (run_is_full(GUEST_WORKSPACE, &x->workspace_free))
		x->flags |= EXIT_WORKSPACE_FULL;
	if (run_is_full(GUEST_TMP, &x->tmp_free))
		x->flags |= EXIT_TMP_FULL;
	x->stdout_bytes = g->out[0].total;
	x->stderr_bytes = g->out[1].total;
	x->stdout_dropped = output_dropped(&g->out[0]);
	x->stderr_dropped = output_dropped(&g->out[1]);
	guest_put_g_exit(x, payload);
	if (stream_send_kept(&g->stream, GUEST_g_exit, 0, g->run.number, payload,
			     sizeof(payload)) == 0)
		g->run.state = STATE_OVER;
}

/* ---- time ---- */

static bool
run_wrote_too_much(const struct guest *g)
{
	return g->run.what.output_limit > 0 &&
	       g->out[0].total + g->out[1].total > g->run.what.output_limit;
}

void
run_tick(struct guest *g, uint64_t now_ms)
{
	struct run *run = &g->run;

	if (run->state == STATE_GOING && run->deadline_ms > 0 && now_ms >= run->deadline_ms) {
		run->result.flags |= EXIT_TIMED_OUT;
		run_kill(g);
	} else if (run->state == STATE_GOING && run_wrote_too_much(g)) {
		run->result.flags |= EXIT_OUTPUT_LIMIT;
		run_kill(g);
	} else if (run->state == STATE_KILLING && now_ms >= run->kill_again_ms) {
		run_kill(g);
	} else if (run->state == STATE_CLEARING && now_ms >= run->kill_again_ms) {
		(void)tree_kill(g->runner.pid);
		run->kill_again_ms = now_ms + KILL_AGAIN_MS;
	}
	if (run->state == STATE_DRAINING) {
		bool first = output_finish(g, &g->out[0]);
		bool second = output_finish(g, &g->out[1]);

		if (first && second)
			run_send_exit(g);
	}
}

uint64_t
run_next_ms(const struct guest *g)
{
	const struct run *run = &g->run;

	if (run->state == STATE_GOING)
		return run->deadline_ms;
	if (run->state == STATE_KILLING || run->state == STATE_CLEARING)
		return run->kill_again_ms;
	return 0;
}
