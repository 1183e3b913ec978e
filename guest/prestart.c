/*
 * guest/prestart.c - the interpreter that waits in a python or node sandbox.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: one byte from the interpreter, and its runner's reports. User code that is
 *        there already, of runs that need no interpreter, may kill both.
 * Owns: the waiting runner until its run is handed out.
 *
 * The interpreter's own start-up blocks in a hook (guest/python, guest/node)
 * that reads one message from GUEST_CONTROL_FD: a length (u32, little-endian),
 * then items each ended by a NUL: the number of arguments, the arguments, and
 * NAME=value for each variable of the run.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define HAND_OUT_MAX 65536u /* fits a socket's buffer; longer ones start their own process */

static uint32_t
prestart_kind(uint32_t box_class)
{
	return box_class == BOX_PYTHON ? RUN_PYTHON : RUN_NODE;
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

/* A shell box waits with nothing, but the first bash of a fresh container pays for finding its
 * files: one that does nothing pays it ahead. */
void
prestart_begin(struct guest *g)
{
	bool waits = g->hello.box_class == BOX_PYTHON || g->hello.box_class == BOX_NODE;

	if (g->prestart != PRESTART_DUE || prestart_any_run(g))
		return;
	g->prestart = waits ? PRESTART_STARTING : PRESTART_TOUCHING;
	if (children_take(g, &g->waiting) < 0) {
		prestart_on_gone(g);
		return;
	}
	g->spare_at_ms = 0; /* a shell's runner comes back */
	if (launch_fill_waiting(g->waiting.launch, g->hello.box_class, g->hello.cpus) != 0 ||
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

/* The runner is as good as new, and knows where the program is. */
static void
prestart_keep_runner(struct guest *g)
{
	runner_discard_output(&g->waiting);
	if (g->spare.pid > 0) {
		children_drop(g, &g->waiting);
		return;
	}
	g->spare = g->waiting;
	g->waiting = RUNNER_NONE;
}

void
prestart_on_gone(struct guest *g)
{
	if (g->prestart == PRESTART_STARTING)
		prestart_say(g,
			     BOX_SHELL); /* nothing waits here: said, instead of staying silent */
	g->prestart = PRESTART_NONE;
	children_drop(g, &g->waiting);
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
	if (g->prestart != PRESTART_TOUCHING) {
		prestart_discard(g);
	} else if (report.what != REPORT_ENDED || report.left == 0) {
		g->prestart = PRESTART_NONE;
		prestart_keep_runner(g);
	}
}

void
prestart_discard(struct guest *g)
{
	if (g->prestart == PRESTART_DUE)
		g->prestart = PRESTART_NONE;
	if (g->prestart != PRESTART_STARTING && g->prestart != PRESTART_READY)
		return; /* a shell that ends by itself may do so */
	(void)tree_kill(g->waiting.pid);
	prestart_on_gone(g);
}

bool
prestart_fits(const struct guest *g, const struct guest_spec *spec)
{
	if (g->prestart != PRESTART_READY || (spec->flags & SPEC_LIVE) != 0 || spec->cwd.len > 0 ||
	    spec->kind != prestart_kind(g->hello.box_class))
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
	buf_init(&b, HAND_OUT_MAX);
	r = prestart_message(&b, &run->what);
	if (r == 0) {
		n = write(g->waiting.control_fd, buf_data(&b), buf_len(&b));
		r = n == (ssize_t)buf_len(&b) ? 0 : -EPIPE;
	}
	buf_done(&b);
	if (r < 0)
		return r;
	run->result.start = START_WARM;
	run->base_cpu_us = g->waiting_cpu_us;
	run_adopt(run, &g->waiting);
	g->prestart = PRESTART_NONE;
	return 0;
}
