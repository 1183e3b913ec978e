/*
 * broker/loop.c - the broker as a whole: its tables, the one-second tick, and
 * the work that waits until an event has been handled.
 *
 * Runs in: bailey-broker.
 * Input: none of its own.
 * Owns: struct broker.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker.h"

#define BASELINE_FRESH_MS 10000u
/* Those that wait, and in each box as many as a guest takes. */
#define RUNS_MAX (QUEUE_MAX + BOXES_MAX * GUEST_RUNS_MAX)
/* A link can break while both its processes live, and only a start wires it anew. Longer than the
 * supervisor's longest pause. */
#define NO_REAPER_MS 70000u

static void
on_soon(evutil_socket_t fd, short what, void *ctx)
{
	struct broker *b = ctx;

	(void)fd;
	(void)what;
	box_grave_empty(b);
	admission_pump(b);
	pool_refill(b);
}

void
broker_soon(struct broker *b)
{
	event_active(b->soon, EV_TIMEOUT, 0);
}

/* A waiting box spends a little on every ping: its baseline must not grow stale. */
static void
refresh_baseline(struct box *x, uint64_t now_ms)
{
	bool waits = x->state == BOX_WARM || (x->state == BOX_STAYS && TAILQ_EMPTY(&x->runs));

	if (waits && now_ms - x->baseline_ms >= BASELINE_FRESH_MS)
		box_baseline(x);
}

/* Only boxes we still want are pinged: one whose kill is stuck dies of silence. Nor one that has
 * not spoken: a ping that waits in the engine for a start would tell it, after our end, that we
 * live. */
static void
ping_one(struct box *x)
{
	if (!x->attach || !x->session.hello || x->state >= BOX_ENDING)
		return;
	x->session.chatter = 0;
	pace_tick(x);
	box_ping(x);
	box_ack(x, true);
}

/* The reaper's clock and the guest's come first; this one is for when both are away. */
static void
check_deadline(struct box *x, uint64_t boot_ns)
{
	const struct run *r;

	if (x->state >= BOX_ENDING)
		return;
	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->phase == PHASE_ACTIVE && r->deadline_ns &&
	    boot_ns > r->deadline_ns + UINT64_C(2000000000)) {
		log_warn("box=%" PRIu64 " is past its deadline and nobody ended it", x->id);
		box_end(x, CAUSE_DEADLINE);
		return;
	}
}

void
broker_tick(struct broker *b)
{
	uint64_t now = clock_now_ms(), boot = clock_boot_ns(), id;
	size_t cursor = 0;
	void *obj;

	resume_tick(b, now);
	if (b->stopping && now >= b->stop_at_ms)
		(void)event_base_loopbreak(b->base);
	if (!b->stopping && !b->reaper && now - b->no_reaper_ms >= NO_REAPER_MS) {
		log_error("no reaper for %u s: ending", NO_REAPER_MS / 1000);
		(void)event_base_loopbreak(b->base);
	}
	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		ping_one(obj);
		check_deadline(obj, boot);
		refresh_baseline(obj, now);
	}
	probe_tick(b, now);
	sweep_tick(b, now);
	admission_tick(b, now);
	sandbox_tick(b, now);
	store_tick(b->store, now);
	auth_tick(b, now);
	fronts_tick(b);
	pool_tick(b, now);
	report_changes(b->supervisor);
	on_soon(-1, 0, b);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	broker_tick(ctx);
}

int
broker_init(struct broker *b, struct event_base *base)
{
	struct timeval second = {.tv_sec = 1};

	memset(b, 0, sizeof(*b)); /* a whole value would pass over the stack */
	b->base = base;
	b->passed_fd = -1;
	b->next_run = 1;
	/* Numbers must not repeat while the tree lives, a restarted broker's included. */
	b->next_box = clock_boot_ns() / 1000;
	TAILQ_INIT(&b->owners);
	TAILQ_INIT(&b->fronts);
	TAILQ_INIT(&b->grave);
	pool_init(b);
	sandbox_init(b);
	auth_init(b);
	b->boxes = idmap_new(BOXES_MAX);
	b->runs = idmap_new(RUNS_MAX);
	b->soon = event_new(base, -1, 0, on_soon, b);
	b->tick = event_new(base, -1, EV_PERSIST, on_tick, b);
	if (!b->soon || !b->tick || event_add(b->tick, &second) < 0)
		return -ENOMEM;
	return 0;
}

void
broker_done(struct broker *b)
{
	size_t cursor = 0;
	uint64_t id;
	struct front *f;
	void *obj;

	b->stopping = true;
	keep_close(TAKE(b->keep)); /* what is to outlive us stands there */
	while ((f = TAILQ_FIRST(&b->fronts)))
		front_close(f);
	while (b->boxes && idmap_next(b->boxes, &cursor, &id, &obj))
		box_discard(obj);
	box_grave_empty(b);
	sandbox_done(b);
	auth_done(b);
	store_close(TAKE(b->store));
	link_free(TAKE(b->reaper));
	link_free(TAKE(b->supervisor));
	engine_free(TAKE(b->engine));
	if (b->soon)
		event_free(b->soon);
	if (b->tick)
		event_free(b->tick);
	idmap_free(TAKE(b->boxes));
	idmap_free(TAKE(b->runs));
}

/* The reaper, told at the same moment, kills every box; we carry out its orders. */
void
broker_stop(struct broker *b, uint32_t grace_ms)
{
	struct front *f;
	struct run *r;

	if (b->stopping)
		return;
	log_info("stopping, %zu boxes", idmap_count(b->boxes));
	b->stopping = true;
	b->stop_at_ms = clock_now_ms() + grace_ms;
	admission_fail_all(b, RUN_engine_unavailable, "Bailey is stopping.");
	while ((f = TAILQ_FIRST(&b->fronts))) {
		/* While the link is there: a frontend that only saw it close would say "lost". */
		while ((r = TAILQ_FIRST(&f->runs)))
			run_cancel(r, CAUSE_STOPPED);
		front_close(f);
	}
	pool_drain(b, CAUSE_STOPPED);
	if (!b->reaper || idmap_count(b->boxes) == 0)
		(void)event_base_loopbreak(b->base);
}
