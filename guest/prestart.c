/*
 * guest/prestart.c - the interpreter that waits in a python or node sandbox.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: one byte from the interpreter before any user code ran.
 * Owns: the control socket until the run was handed out.
 *
 * The interpreter's own start-up blocks in a hook (guest/python, guest/node)
 * that reads one message from GUEST_CONTROL_FD: a length (u32, little-endian),
 * then items each ended by a NUL: the number of arguments, the arguments, and
 * NAME=value for each variable of the run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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

/* A shell box waits with nothing, but the first bash of a fresh container pays for finding its
 * files: one that does nothing pays it ahead. */
void
prestart_begin(struct guest *g)
{
	bool waits = g->hello.box_class == BOX_PYTHON || g->hello.box_class == BOX_NODE;

	if (g->prestart != PRESTART_DUE || g->run.number != 0)
		return;
	g->prestart = waits ? PRESTART_STARTING : PRESTART_TOUCHING;
	if (launch_fill_waiting(g->runner.launch, g->hello.box_class, g->hello.cpus) != 0 ||
	    runner_order(&g->runner) < 0)
		prestart_on_gone(g);
}

/* What the interpreter used until now is not the run's. */
static uint64_t
prestart_cpu_us(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) == -1)
		return 0;
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

void
prestart_on_control(struct guest *g)
{
	char byte;
	ssize_t n = read(g->runner.control_fd, &byte, 1);

	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1)
		return; /* the runner holds the other end: an end of file cannot come before its
			   death */
	g->prestart = PRESTART_READY;
	g->run.base_cpu_us = prestart_cpu_us(g->runner.launch->pid);
	prestart_say(g, g->hello.box_class);
}

void
prestart_on_gone(struct guest *g)
{
	if (g->prestart == PRESTART_STARTING)
		prestart_say(g,
			     BOX_SHELL); /* nothing waits here: said, instead of staying silent */
	g->prestart = PRESTART_NONE;
	output_discard(&g->out[0]);
	output_discard(&g->out[1]);
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
prestart_hand_out(struct guest *g, const struct guest_spec *spec)
{
	struct buf b;
	ssize_t n;
	int r;

	/* node has made its streams, and libuv its pipes non-blocking: the run's own writes to
	 * descriptors 1 and 2 expect what a start leaves. */
	runner_block_output(&g->runner);
	buf_init(&b, HAND_OUT_MAX);
	r = prestart_message(&b, spec);
	if (r == 0) {
		n = write(g->runner.control_fd, buf_data(&b), buf_len(&b));
		r = n == (ssize_t)buf_len(&b) ? 0 : -EPIPE;
	}
	buf_done(&b);
	if (r < 0)
		return r;
	g->run.result.start = START_WARM;
	g->prestart = PRESTART_USED;
	return 0;
}
