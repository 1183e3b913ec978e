/*
 * guest/run.c - runs from their specification to their end.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: specification parts from the callers' frontends; reports of the runners.
 * Owns: the table of runs: specification, runner and result of each.
 *
 *   IDLE --h_run--> GOING (handed to the waiting interpreter, or a runner told to start)
 *   GOING --ended, nothing left--> DRAINING      GOING --ended, others left--> KILLING
 *   GOING --timeout, h_end, limit--> KILLING     KILLING --all gone--> DRAINING
 *   DRAINING --output framed--> OVER (g_exit sent), a little later the slot is free
 * A file's run has no process: GOING ends in DRAINING by files.c; RUN_ENV is DRAINING at once. An
 * evaluation may be WAITING before GOING (eval.c).
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define KILL_AGAIN_MS 50u
#define KILL_GIVE_UP_MS 2000u /* then the runner goes too, and PID 1 ends what is left */
/* A sandbox whose only run this was ends sooner: it does not spend time on clearing up while the
 * host reads its figures. */
#define CLEAR_AFTER_MS 2u

/* ---- the table ---- */

struct run *
run_find(struct guest *g, uint32_t number)
{
	for (size_t i = 0; number != 0 && i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number == number)
			return &g->runs[i];
	}
	return NULL;
}

static void
run_clear(struct guest *g, struct run *run)
{
	children_drop(g, &run->runner);
	feed_close(&run->feed);
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		output_done(&run->out[i]);
	spec_done(&run->what);
	buf_done(&run->spec);
	run->number = 0;
}

static struct run *
run_free_slot(struct guest *g)
{
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number == 0)
			return &g->runs[i];
	}
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].state == STATE_OVER) {
			run_clear(g, &g->runs[i]);
			return &g->runs[i];
		}
	}
	return NULL;
}

static struct run *
run_open(struct guest *g, uint32_t number)
{
	struct run *run = run_free_slot(g);

	if (run == NULL)
		return NULL;
	*run = (struct run){.number = number, .runner = RUNNER_NONE};
	buf_init(&run->spec, GUEST_SPEC_MAX);
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		output_init(&run->out[i], number, (uint8_t)(STREAM_STDOUT + i));
	feed_init(&run->feed, number);
	return run;
}

static bool
run_is_file(const struct run *run)
{
	return run->what.kind >= RUN_FILE_READ && run->what.kind <= RUN_FILE_LIST;
}

static bool
run_is_eval(const struct run *run)
{
	return run->what.kind >= RUN_EVAL_PYTHON && run->what.kind <= RUN_EVAL_BASH;
}

void
run_adopt(struct run *run, struct runner *r)
{
	run->runner = *r;
	*r = RUNNER_NONE;
	run->out[0].fd = run->runner.out_fds[0];
	run->out[1].fd = run->runner.out_fds[1];
	run->feed.fd = TAKE_FD(run->runner.stdin_fd);
	if (run->feed.eof)
		feed_close(&run->feed); /* before it is told to begin: it may look at once */
}

void
run_lend_back(struct run *run, struct runner *r)
{
	*r = run->runner;
	run->runner = RUNNER_NONE;
	run->out[0].fd = -1;
	run->out[1].fd = -1;
}

/* ---- end ---- */

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
run_send_exit(struct guest *g, struct run *run)
{
	struct guest_g_exit *x = &run->result;
	uint8_t payload[104];

	if (run_is_full(GUEST_WORKSPACE, &x->workspace_free))
		x->flags |= EXIT_WORKSPACE_FULL;
	if (run_is_full(GUEST_TMP, &x->tmp_free))
		x->flags |= EXIT_TMP_FULL;
	if (run->what.kind != RUN_FILE_WRITE)
		x->stdout_bytes = run->out[0].total;
	x->stderr_bytes = run->out[1].total;
	x->stdout_dropped = output_dropped(&run->out[0]);
	x->stderr_dropped = output_dropped(&run->out[1]);
	guest_put_g_exit(x, payload);
	if (stream_send_kept(&g->stream, GUEST_g_exit, 0, run->number, payload, sizeof(payload)) <
	    0)
		return;
	run->state = STATE_OVER;
	run->again_ms = clock_now_ms() + CLEAR_AFTER_MS;
}

/* What is left of the output, then its end. */
static void
run_deliver(struct guest *g, struct run *run)
{
	bool all = true;

	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		all = output_finish(g, &run->out[i]) && all;
	if (all)
		run_send_exit(g, run);
}

void
run_drain(struct guest *g, struct run *run)
{
	run->state = STATE_DRAINING;
	if (!run->ended)
		run->result.how = EXIT_NOT_STARTED;
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		(void)output_read(&run->out[i], true);
	feed_close(&run->feed);
	run_deliver(g, run);
	if (run_is_eval(run))
		eval_over(g, run);
}

/* The runner tells when it is done, or its death. */
void
run_kill(struct guest *g, struct run *run)
{
	uint64_t now = clock_now_ms();
	uint32_t n;

	if (run->state != STATE_KILLING) {
		run->state = STATE_KILLING;
		run->kill_since_ms = now;
	}
	run->again_ms = now + KILL_AGAIN_MS;
	if (run->runner.pid > 0) {
		if (now - run->kill_since_ms >= KILL_GIVE_UP_MS)
			(void)kill(run->runner.pid, SIGKILL);
		n = tree_kill(run->runner.pid);
		(void)kill(run->runner.pid, SIGCONT); /* the run may have stopped it */
	} else {
		n = children_kill_strangers(g);
	}
	if (run->ended && n > run->result.leftovers)
		run->result.leftovers = n;
	if (run->runner.pid == 0 && n == 0)
		run_on_orphans_gone(g);
}

void
run_fail(struct guest *g, struct run *run, int err)
{
	struct guest_g_exit *x = &run->result;

	x->how = EXIT_NOT_STARTED;
	x->exit_code = (uint32_t)err;
	x->flags |= EXIT_FORK_FAILED;
	run->ended = true;
	run_drain(g, run);
}

/* ---- start ---- */

void
run_begin(struct guest *g, struct run *run)
{
	run->state = STATE_GOING;
	if (run->what.timeout_ms > 0)
		run->deadline_ms = run->started_us / 1000 + run->what.timeout_ms;
	feed_pump(g, &run->feed);
}

static int
run_order(struct guest *g, struct run *run)
{
	struct runner runner;
	int err = children_take(g, &runner);

	if (err < 0)
		return -err;
	run_adopt(run, &runner);
	err = launch_fill_run(run->runner.launch, &run->what, &g->kept.what, g->hello.cpus);
	if (err != 0)
		return err;
	run->started_us = clock_now_us();
	err = runner_order(&run->runner);
	return err < 0 ? -err : 0;
}

int
run_launch(struct guest *g, struct run *run)
{
	int err = run_order(g, run);

	if (err != EPIPE && err != ECONNRESET)
		return err;
	/* Another run has killed it since children_take looked. */
	children_drop(g, &run->runner);
	feed_close(&run->feed);
	return run_order(g, run);
}

static void
run_spawn(struct guest *g, struct run *run)
{
	int err;

	/* a bash that cannot have waited: a fork in a waiting sandbox is its warm start */
	run->result.start = START_LIVE;
	if (prestart_is_shell(g) && (run->what.kind == RUN_BASH || run->what.kind == RUN_COMMAND))
		run->result.start = START_WARM;
	err = run_launch(g, run);
	if (err != 0)
		run_fail(g, run, err);
	else
		run_begin(g, run);
}

static void
run_start_program(struct guest *g, struct run *run)
{
	int err = launch_write_code(&run->what);

	if (err != 0) {
		run_fail(g, run, err);
		return;
	}
	run->started_us = clock_now_us();
	if (prestart_fits(g, &run->what) && prestart_hand_out(g, run) == 0) {
		run_begin(g, run);
		return;
	}
	prestart_discard(g);
	run_spawn(g, run);
}

static void
run_start(struct guest *g, struct run *run)
{
	run->feed.eof = (run->what.flags & SPEC_STDIN) == 0;
	if (run_is_file(run)) {
		run->started_us = clock_now_us();
		run_begin(g, run);
		files_start(g, run);
	} else if (run_is_eval(run)) {
		int err;

		prestart_discard(g);
		err = eval_start(g, run);
		if (err != 0)
			run_fail(g, run, err);
	} else if (run->what.kind == RUN_ENV) {
		kept_start(g, run);
	} else {
		run_start_program(g, run);
	}
}

/* ---- what the host says ---- */

/* One more at once than there may be: the host counts as well, so this is its mistake, and the
 * sandbox goes on. */
static void
run_refuse(struct guest *g, uint32_t number)
{
	const struct guest_g_exit x = {
		.how = EXIT_NOT_STARTED, .exit_code = EBUSY, .flags = EXIT_FORK_FAILED};
	uint8_t payload[104];

	guest_put_g_exit(&x, payload);
	(void)stream_send_kept(&g->stream, GUEST_g_exit, 0, number, payload, sizeof(payload));
}

int
guest_on_h_spec(struct guest *g, uint32_t run, const uint8_t *p, size_t n)
{
	struct run *r = run_find(g, run);

	if (run == 0 || (r != NULL && r->state != STATE_IDLE))
		return -EBADMSG;
	if (r == NULL)
		r = run_open(g, run);
	if (r == NULL)
		return 0; /* refused with its last part */
	return buf_append(&r->spec, p, n) < 0 ? -EBADMSG : 0;
}

int
guest_on_h_run(struct guest *g, uint32_t run, const uint8_t *p, size_t n)
{
	int err = guest_on_h_spec(g, run, p, n);
	struct run *r;

	if (err < 0)
		return err;
	r = run_find(g, run);
	if (r == NULL) {
		run_refuse(g, run);
		return 0;
	}
	if (spec_decode(buf_data(&r->spec), buf_len(&r->spec), &r->what) < 0)
		run_fail(g, r, EBADMSG); /* opaque to the broker, so the fault is the caller's */
	else
		run_start(g, r);
	return 0;
}

int
guest_on_h_end(struct guest *g, uint32_t run)
{
	struct run *r = run_find(g, run);

	if (r == NULL || r->state > STATE_GOING)
		return 0;
	r->result.flags |= EXIT_ENDED;
	if (r->state == STATE_WAITING)
		eval_forget(g, r);
	if (r->state == STATE_GOING && r->files == NULL)
		run_kill(g, r);
	else if (r->files != NULL)
		files_end(g, r, 0);
	else
		run_drain(g, r); /* it had not begun */
	return 0;
}

/* ---- what the runner says ---- */

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

void
run_on_report(struct guest *g, struct run *run, const struct report *report)
{
	if (run->state != STATE_GOING && run->state != STATE_KILLING)
		return;
	if (report->what == REPORT_FAILED) {
		run_fail(g, run, report->status);
		return;
	}
	run_note_usage(run, report);
	if (report->what == REPORT_ENDED)
		run_note_end(run, report);
	if (report->what == REPORT_EMPTY || report->left == 0)
		run_drain(g, run);
	else
		run_kill(g, run);
}

void
run_on_runner_gone(struct guest *g, struct run *run)
{
	if (run->state == STATE_GOING || run->state == STATE_KILLING)
		run_kill(g, run); /* all of it fell to PID 1 */
}

void
run_on_orphans_gone(struct guest *g)
{
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		struct run *run = &g->runs[i];

		if (run->number == 0 || run->state != STATE_KILLING || run->runner.pid > 0)
			continue;
		if (!run->ended) {
			run->result.how = EXIT_SIGNALED;
			run->result.signal = SIGKILL;
			run->result.wall_us = clock_now_us() - run->started_us;
			run->ended = true;
		}
		run_drain(g, run);
	}
}

/* ---- time ---- */

static bool
run_wrote_too_much(const struct run *run)
{
	return run->what.output_limit > 0 &&
	       run->out[0].total + run->out[1].total > run->what.output_limit;
}

static void
run_stop(struct guest *g, struct run *run, uint32_t flag)
{
	run->result.flags |= flag;
	if (run->files != NULL)
		files_end(g, run, 0);
	else
		run_kill(g, run);
}

static void
run_tick_going(struct guest *g, struct run *run, uint64_t now_ms)
{
	if (run->deadline_ms > 0 && now_ms >= run->deadline_ms)
		run_stop(g, run, EXIT_TIMED_OUT);
	else if (run->files == NULL && run_wrote_too_much(run))
		run_stop(g, run, EXIT_OUTPUT_LIMIT);
	else if (run->files != NULL)
		files_step(g, run);
	/* What found no room among unacknowledged frames when it was read. */
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		output_pump(g, &run->out[i]);
}

static void
run_tick(struct guest *g, struct run *run, uint64_t now_ms)
{
	if (run->state == STATE_GOING)
		run_tick_going(g, run, now_ms);
	else if (run->state == STATE_KILLING && now_ms >= run->again_ms)
		run_kill(g, run);
	else if (run->state == STATE_OVER && now_ms >= run->again_ms)
		run_clear(g, run);
	if (run->state == STATE_DRAINING)
		run_deliver(g, run);
}

void
run_tick_all(struct guest *g, uint64_t now_ms)
{
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number != 0)
			run_tick(g, &g->runs[i], now_ms);
	}
}

uint64_t
run_next_us(struct guest *g, uint64_t now_us)
{
	uint64_t next = 0;

	for (size_t i = 0; i < (size_t)GUEST_RUNS_MAX * GUEST_OUTPUTS; i++) {
		const struct run *run = &g->runs[i / GUEST_OUTPUTS];
		uint64_t at = run->number == 0
				      ? 0
				      : output_next_us(g, &run->out[i % GUEST_OUTPUTS], now_us);

		if (at != 0 && (next == 0 || at < next))
			next = at;
	}
	return next;
}

uint64_t
run_next_ms(const struct guest *g)
{
	uint64_t next = 0;

	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		const struct run *run = &g->runs[i];
		uint64_t at = 0;

		if (run->number == 0)
			continue;
		if (run->state == STATE_GOING)
			at = files_may_step(g, run) ? 1 : run->deadline_ms;
		else if (run->state == STATE_KILLING || run->state == STATE_OVER)
			at = run->again_ms;
		if (at != 0 && (next == 0 || at < next))
			next = at;
	}
	return next;
}
