/*
 * broker/requests.c - what a frontend may ask. Everything is checked again here:
 * a frontend's own check is for nice errors, this one is for security.
 *
 * Runs in: bailey-broker.
 * Input: rows of an untrusted frontend. Who it acts for is known from the
 *        supervisor, or from its first good token; it can name only its own
 *        calls, and sandboxes of its owner.
 * Owns: nothing.
 */
#include <errno.h>
#include <string.h>

#include "broker.h"

/* Which flags go together; what does not is no request of ours. */
static bool
makes_sense(const struct ipc_call_submit *m)
{
	const uint32_t creates = CALL_STAYS | CALL_KEEP | CALL_HOLD;
	const uint32_t within = CALL_BACKGROUND | CALL_STEP | CALL_TURNS;

	if (m->box_class >= BOX_CLASSES || (m->flags & ~(CALL_LIVE | creates | within)))
		return false;
	if (m->sandbox.len)
		return !(m->flags & creates);
	if (m->flags & within)
		return false;
	if (m->flags & CALL_STAYS)
		return m->spec.len == 0 &&
		       (m->flags & (CALL_KEEP | CALL_HOLD)) != (CALL_KEEP | CALL_HOLD);
	return !(m->flags & creates);
}

static void
submit_run(struct front *f, const struct ipc_call_submit *m)
{
	struct broker *b = f->b;
	struct decision d;
	struct run *r;

	if (policy_decide(&b->settings, m, &d) < 0) {
		front_refuse(f, m->call, RUN_denied, d.message, 0);
		return;
	}
	if (d.limits.memory_bytes > admission_owner_max(b, f->owner)) {
		front_refuse(f, m->call, RUN_denied,
			     "The sandbox would take more memory than your sandboxes may have "
			     "together on this host. Ask for a smaller memory_mb.",
			     0);
		return;
	}
	if (admission_refuse(f, m->call, m->flags, d.limits.memory_bytes))
		return;
	r = run_new(f, m, &d);
	if ((m->flags & (CALL_STAYS | CALL_HOLD)) == CALL_STAYS)
		r->box_class = BOX_SHELL; /* its interpreters start when they are asked for */
	admission_creates(r);
	(void)admission_enqueue(r); /* room was checked above */
	if (b->probe.state == ENGINE_UP) {
		admission_pump(b);
	} else {
		pool_wake(b);
		probe_need(b);
	}
}

static void
broker_on_call_submit(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_call_submit *m = &row->u.call_submit;
	struct front *f = ctx;

	(void)l;
	if (m->call <= f->last_call || !makes_sense(m)) {
		front_drop(f, "call_submit out of range");
		return;
	}
	f->last_call = m->call;
	if (f->b->stopping || !f->b->engine)
		front_refuse(f, m->call, RUN_engine_unavailable, "Bailey is stopping.", 0);
	else if (m->sandbox.len)
		sandbox_submit(f, m);
	else
		submit_run(f, m);
}

static void
broker_on_call_frame(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_call_frame *m = &row->u.call_frame;
	struct front *f = ctx;
	struct run *r = front_run(f, m->call);

	(void)l;
	if (!r) {
		if (m->call == 0 || m->call > f->last_call)
			front_drop(f, "call_frame of a call it never made");
		return; /* else it ended while this was on its way */
	}
	if (run_frame_in(r, m) < 0)
		front_drop(f, "call_frame against the rules");
}

static void
broker_on_call_cancel(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct front *f = ctx;
	struct run *r = front_run(f, row->u.call_cancel.call);

	(void)l;
	if (r) /* else it ended while this was on its way */
		run_cancel(r, CAUSE_CANCEL);
}

static void
broker_on_health_query(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	health_ask(ctx, row->u.health_query.call);
}

static void
broker_on_warm_hint(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct front *f = ctx;

	(void)l;
	(void)row;
	if (f->b->stopping || !f->b->engine)
		return;
	pool_wake(f->b);
	probe_need(f->b);
}

/* An http front that has shown no token may do nothing else: link.c ends it. */
#define BOUND .states = FRONT_BOUND
const struct link_route requests_routes[] = {
	{.num = IPC_NUM_call_submit, .handler = broker_on_call_submit, BOUND},
	{.num = IPC_NUM_call_frame, .handler = broker_on_call_frame, BOUND},
	{.num = IPC_NUM_call_cancel, .handler = broker_on_call_cancel, BOUND},
	{.num = IPC_NUM_health_query, .handler = broker_on_health_query, BOUND},
	{.num = IPC_NUM_warm_hint, .handler = broker_on_warm_hint, BOUND},
	{.num = IPC_NUM_sandbox_list, .handler = broker_on_sandbox_list, BOUND},
	{.num = IPC_NUM_sandbox_destroy, .handler = broker_on_sandbox_destroy, BOUND},
	{.num = IPC_NUM_log_read, .handler = broker_on_log_read, BOUND},
	{.num = IPC_NUM_session_open, .handler = broker_on_session_open, BOUND},
	{.num = IPC_NUM_session_check, .handler = broker_on_session_check, BOUND},
	{.num = IPC_NUM_cancel_tag, .handler = broker_on_cancel_tag, BOUND},
	{.num = IPC_NUM_ask_answer, .handler = broker_on_ask_answer, BOUND},
	{.num = IPC_NUM_session_note, .handler = broker_on_session_note, BOUND},
	{.num = IPC_NUM_call_resume, .handler = broker_on_call_resume, BOUND},
	{.num = IPC_NUM_token_check, .handler = broker_on_token_check},
};
const size_t requests_n_routes = ARRAY_LEN(requests_routes);
