/*
 * broker/requests.c - what a frontend may ask. Everything is checked again here:
 * a frontend's own check is for nice errors, this one is for security.
 *
 * Runs in: bailey-broker.
 * Input: rows of an untrusted frontend. Who it acts for is known from the
 *        supervisor; it can name only its own calls.
 * Owns: nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "broker.h"

/* Breaking the protocol costs the link; the callback path frees the front. */
static void
drop(struct front *f, const char *why)
{
	log_warn("front=%" PRIu64 " dropped: %s", f->peer_id, why);
	front_close(f);
}

static void
refuse(struct front *f, uint64_t call, enum run_status status, const char *message,
       uint32_t retry_ms)
{
	(void)link_send(f->link, IPC_ROW(call_ended, .call = call, .status = status,
					 .retry_ms = retry_ms, .message = IPC_STR(message)));
}

static void
broker_on_call_submit(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_call_submit *m = &row->u.call_submit;
	struct front *f = ctx;
	struct broker *b = f->b;
	struct decision d;
	struct run *r;

	(void)l;
	if (m->call <= f->last_call || m->box_class >= BOX_CLASSES ||
	    (m->flags & ~(uint32_t)CALL_LIVE)) {
		drop(f, "call_submit out of range");
		return;
	}
	f->last_call = m->call;
	if (b->stopping || !b->engine) {
		refuse(f, m->call, RUN_engine_unavailable, "Bailey is stopping.", 0);
		return;
	}
	if (policy_decide(&b->settings, m, &d) < 0) {
		refuse(f, m->call, RUN_denied, d.message, 0);
		return;
	}
	if (d.limits.memory_bytes > b->memory_max_bytes) {
		refuse(f, m->call, RUN_denied,
		       "The sandbox would take more memory than this host gives all sandboxes "
		       "together. Ask for a smaller memory_mb.",
		       0);
		return;
	}
	if (f->owner->queued >= OWNER_QUEUE_MAX || b->queued >= QUEUE_MAX) {
		refuse(f, m->call, RUN_busy, run_status_advice(RUN_busy), admission_retry_ms(b));
		return;
	}
	r = run_new(f, m, &d);
	(void)admission_enqueue(r); /* room was checked above */
	if (b->probe.state == ENGINE_UP) {
		admission_pump(b);
	} else {
		pool_wake(b);
		probe_need(b);
	}
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
			drop(f, "call_frame of a call it never made");
		return; /* else it ended while this was on its way */
	}
	if (run_frame_in(r, m) < 0)
		drop(f, "call_frame against the rules");
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

const struct link_route requests_routes[] = {
	{.num = IPC_NUM_call_submit, .handler = broker_on_call_submit},
	{.num = IPC_NUM_call_frame, .handler = broker_on_call_frame},
	{.num = IPC_NUM_call_cancel, .handler = broker_on_call_cancel},
	{.num = IPC_NUM_health_query, .handler = broker_on_health_query},
	{.num = IPC_NUM_warm_hint, .handler = broker_on_warm_hint},
};
const size_t requests_n_routes = ARRAY_LEN(requests_routes);
