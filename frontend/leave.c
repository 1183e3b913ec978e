/*
 * frontend/leave.c - how a frontend ends: the client went, or the tree stops.
 * Runs in: bailey-frontend.
 * Input: the transport's end, the supervisor's word.
 * Owns: the timer that bounds the last answers' sending, or the wait for a broker.
 *
 * Whatever the reason, it takes less than a second: calls are cancelled, what is
 * queued gets a moment to be read, then the loop is left. Only an input that was
 * a file is different: its end does not say that nobody waits for the answers.
 */
#include <errno.h>

#include "frontend.h"

static void
on_leave_timer(evutil_socket_t fd, short what, void *arg)
{
	struct frontend *fe = arg;

	(void)fd;
	(void)what;
	if (!fe->leaving) {
		log_error("no broker came back; leaving, so that the client sees an end");
		fe->exit_code = 1;
	}
	(void)event_base_loopbreak(fe->base);
}

void
frontend_alone(struct frontend *fe, bool alone)
{
	const struct timeval tv = {.tv_sec = ALONE_MAX_S};

	if (fe->leaving)
		return;
	if (alone)
		loop_add(fe->leave_timer, &tv);
	else
		(void)event_del(fe->leave_timer);
}

void
frontend_leave(struct frontend *fe, int exit_code, uint32_t wait_ms)
{
	if (fe->leaving)
		return;
	fe->leaving = true;
	fe->exit_code = exit_code;
	transport_stop_reading(fe->transport);
	if (wait_ms == 0 || transport_queued(fe->transport) == 0)
		(void)event_base_loopbreak(fe->base);
	else
		loop_add_ms(fe->leave_timer, wait_ms);
}

void
frontend_idle(struct frontend *fe)
{
	if (fe->finishing && fe->call_list == NULL)
		frontend_leave(fe, 0, LEAVE_WAIT_MS);
}

static void
on_drained(void *ctx)
{
	struct frontend *fe = ctx;

	if (fe->leaving)
		(void)event_base_loopbreak(fe->base);
}

/* The input is over: the client went, unless a file was merely read to its end. */
static void
on_end(void *ctx, int reason)
{
	struct frontend *fe = ctx;

	if (reason == 0 && !fe->transport->end_is_hangup) {
		fe->finishing = true;
		frontend_idle(fe);
		return;
	}
	if (reason < 0 && reason != -EPIPE)
		log_warn("the client's connection ended (%d)", reason);
	for (struct call *c = fe->call_list; c != NULL; c = c->next)
		(void)upcalls_cancel(c); /* the broker also sees our link close */
	calls_free_all(fe);
	frontend_leave(fe, 0, reason < 0 ? 0 : LEAVE_WAIT_MS);
}

const struct transport_events frontend_events = {
	.on_message = mcp_on_message,
	.on_oversize = mcp_on_oversize,
	.on_end = on_end,
	.on_drained = on_drained,
	.on_admit = client_on_admit,
};

int
leave_init(struct frontend *fe)
{
	fe->leave_timer = event_new(fe->base, -1, 0, on_leave_timer, fe);
	return fe->leave_timer == NULL ? -ENOMEM : 0;
}
