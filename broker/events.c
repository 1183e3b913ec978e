/*
 * broker/events.c - the engine's one event stream, and what it says of our boxes.
 *
 * Runs in: bailey-broker.
 * Input: engine events (untrusted): a box is touched only when instance, box
 *        number and container id all agree.
 * Owns: nothing.
 */
#include <string.h>

#include "broker.h"

static void
on_event(void *ctx, const struct engine_event *ev)
{
	struct broker *b = ctx;
	struct box *x = box_find(b, ev->box);
	struct run *r;

	if (!x || strcmp(ev->instance, b->settings.instance) != 0 ||
	    strcmp(ev->id, x->container) != 0)
		return;
	switch (ev->kind) {
	case ENGINE_EV_OOM:
		TAILQ_FOREACH(r, &x->runs, box_entry)
		r->oom = true;
		break;
	case ENGINE_EV_DESTROY:
		box_event(x, ON_DESTROYED);
		break;
	case ENGINE_EV_START: /* the start call answers */
	case ENGINE_EV_DIE:   /* the stream closes by itself, after its last bytes */
		break;
	}
}

static void
on_gap(void *ctx)
{
	sweep_start(ctx); /* what was missed shows in the list */
}

void
events_watch(struct broker *b)
{
	if (b->probe.watching)
		return;
	b->probe.watching = true;
	engine_events(b->engine, b, on_event, on_gap);
}
