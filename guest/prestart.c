/*
 * guest/prestart.c - the interpreter that waits in a sandbox for its first run.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: one byte from the interpreter, and its runner's reports. User code that is
 *        there already, of runs that need no interpreter, may kill both.
 * Owns: the waiting runner until its run is handed out.
 *
 * The interpreter's own start-up blocks in a hook (guest/python, guest/node, guest/bash) that reads
 * one message from GUEST_CONTROL_FD. Python's and node's is a length (u32, little-endian), then
 * items each ended by a NUL: the number of arguments, the arguments, and NAME=value for each
 * variable of the run. Bash's is an empty line: a run with any of those starts its own.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define GIVE_UP_MS 5000u    /* an image's own bash may read its input first, or fill the pipe */
#define HAND_OUT_MAX 65536u /* fits a socket's buffer; longer ones start their own process */

bool
prestart_is_shell(const struct guest *g)
{
	return g->hello.box_class == BOX_SHELL || g->hello.box_class == BOX_NOTHING;
}

static void
prestart_say(struct guest *g, uint32_t box_class)
{
	const struct guest_g_ready ready = {.box_class = box_class};
	uint8_t payload[4];

	guest_put_g_ready(&ready, payload);
	(void)stream_send(&g->stream, GUEST_g_ready, 0, 0, payload, sizeof(payload));
}

static bool
prestart_any_run(const struct guest *g)
{
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number != 0)
			return true;
	}
	return false;
}

void
prestart_begin(struct guest *g)
{
	if (g->prestart != PRESTART_DUE || prestart_any_run(g))
		return;
	if (g->hello.box_class == BOX_NOTHING) {
		g->prestart = PRESTART_NONE;
		return;
	}
	g->prestart = PRESTART_STARTING;
	g->waiting_until_ms = clock_now_ms() + GIVE_UP_MS;
	if (children_take(g, &g->waiting) < 0 ||
	    launch_fill_waiting(g->waiting.launch, g->hello.box_class, g->hello.cpus) != 0 ||
	    runner_order(&g->waiting) < 0)
		prestart_on_gone(g);
}

void
prestart_on_control(struct guest *g)
{
	char byte;
	ssize_t n = read(g->waiting.control_fd, &byte, 1);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1)
		return; /* the runner holds the other end: an end of file cannot come before its
			   death */
	g->prestart = PRESTART_READY;
	g->waiting_cpu_us = runner_cpu_us(&g->waiting); /* not the run's */
	prestart_say(g, g->hello.box_class);
}

void
prestart_on_gone(struct guest *g)
{
	if (g->prestart == PRESTART_STARTING)
		prestart_say(g, BOX_NOTHING); /* said, instead of staying silent */
	g->prestart = PRESTART_NONE;
	children_drop(g, &g->waiting);
}

/* What it started is gone: it is as good as new, and knows where the program is. */
static void
prestart_keep_runner(struct guest *g)
{
	g->prestart = PRESTART_NONE;
	if (g->spare.pid > 0) {
		children_drop(g, &g->waiting);
		return;
	}
	runner_discard_output(&g->waiting);
	runner_block_output(&g->waiting);
	g->spare = g->waiting;
	g->waiting = RUNNER_NONE;
}

static void
prestart_kill(struct guest *g)
{
	(void)tree_kill(g->waiting.pid);
	prestart_on_gone(g);
}

/* A sandbox without one is better than none at all. */
void
prestart_tick(struct guest *g, uint64_t now_ms)
{
	if (g->prestart == PRESTART_STARTING && now_ms >= g->waiting_until_ms)
		prestart_kill(g);
}

void
prestart_on_report(struct guest *g)
{
	struct report report;
	int r = runner_report(&g->waiting, &report);

	if (r < 0)
		children_reap(g); /* its socket closed: its death is about to be told */
	if (r != 1)
		return;
	if (g->prestart == PRESTART_LEAVING && report.left == 0)
		prestart_keep_runner(g);
	else
		prestart_kill(g);
}

/* One that waits has nothing below it and ends at once, off the processor of the run that comes in
 * its place: that one does not wait for it. */
void
prestart_discard(struct guest *g)
{
	if (g->prestart == PRESTART_DUE) {
		g->prestart = PRESTART_NONE;
	} else if (g->prestart == PRESTART_STARTING) {
		prestart_kill(g);
	} else if (g->prestart == PRESTART_READY) {
		g->prestart = PRESTART_LEAVING;
		if (!runner_put_away(&g->waiting))
			prestart_kill(g);
	}
}

bool
prestart_fits(const struct guest *g, const struct guest_spec *spec)
{
	if (g->prestart != PRESTART_READY || (spec->flags & SPEC_LIVE) != 0 || spec->cwd.len > 0 ||
	    spec->kind != launch_waiting_kind(g->hello.box_class) ||
	    (spec->kind == RUN_BASH && (spec->n_args > 0 || spec->n_env > 0)))
		return false;
	for (uint32_t i = 0; i < spec->n_env; i++) {
		if (launch_is_startup_env(spec->env[i].data, spec->env[i].len))
			return false;
	}
	return true;
}

static int
prestart_item(struct buf *b, const struct ipc_str *s)
{
	int r = buf_append(b, s->data, s->len);

	return r < 0 ? r : buf_append(b, "", 1);
}

static int
prestart_message(struct buf *b, const struct guest_spec *spec)
{
	uint8_t *room;
	size_t len;
	int r = buf_append(b, "\0\0\0", 4);

	if (r == 0)
		r = buf_printf(b, "%u", spec->n_args);
	if (r == 0)
		r = buf_append(b, "", 1);
	for (uint32_t i = 0; r == 0 && i < spec->n_args; i++)
		r = prestart_item(b, &spec->args[i]);
	for (uint32_t i = 0; r == 0 && i < spec->n_env; i++)
		r = prestart_item(b, &spec->env[i]);
	if (r < 0)
		return r;
	len = buf_len(b) - 4;
	room = b->data + b->off;
	for (size_t i = 0; i < 4; i++)
		room[i] = (uint8_t)(len >> (8 * i));
	return 0;
}

int
prestart_hand_out(struct guest *g, struct run *run)
{
	struct buf b;
	ssize_t n;
	int r;

	/* node has made its streams, and libuv its pipes non-blocking: the run's own writes to
	 * descriptors 1 and 2 expect what a start leaves. */
	runner_block_output(&g->waiting);
	if (g->waiting_cpu_us == 0) /* it spoke before its runner had said its number */
		g->waiting_cpu_us = runner_cpu_us(&g->waiting);
	buf_init(&b, HAND_OUT_MAX);
	r = run->what.kind == RUN_BASH ? buf_append(&b, "\n", 1) : prestart_message(&b, &run->what);
	if (r < 0) {
		buf_done(&b);
		return r;
	}
	run_adopt(run, &g->waiting); /* whose input ends, where none comes, before it looks */
	g->prestart = PRESTART_NONE;
	n = write(run->runner.control_fd, buf_data(&b), buf_len(&b));
	r = n == (ssize_t)buf_len(&b) ? 0 : -EPIPE;
	buf_done(&b);
	if (r < 0) {
		children_drop(g, &run->runner);
		feed_close(&run->feed);
		return r;
	}
	run->result.start = START_WARM;
	run->base_cpu_us = g->waiting_cpu_us;
	return 0;
}
