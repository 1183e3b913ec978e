/*
 * broker/boxes.c - boxes are made, found, armed and buried here; what happens to
 * them in between is box.c's table.
 *
 * Runs in: bailey-broker.
 * Input: none from outside.
 * Owns: struct box with its attach, timer and session; the idmap of live ones and
 *       the grave, emptied when nobody on the stack can still hold a pointer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker.h"

void
box_arm(struct box *x, uint32_t ms)
{
	loop_add_ms(x->timer, ms);
}

void
box_disarm(struct box *x)
{
	(void)evtimer_del(x->timer);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd;
	(void)what;
	box_event(ctx, ON_TIMER);
}

struct run *
box_run(struct box *x, uint32_t number)
{
	struct run *r;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->number == number && number)
		return r;
	return NULL;
}

uint32_t
box_count_runs(const struct box *x)
{
	const struct run *r;
	uint32_t n = 0;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	n++;
	return n;
}

/* Each of them may free the run it is told of, and no other. */
void
box_runs_failed(struct box *x)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&x->runs); r; r = next) {
		next = TAILQ_NEXT(r, box_entry);
		run_box_failed(r, &x->why);
	}
}

void
box_runs_ended(struct box *x)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&x->runs); r; r = next) {
		next = TAILQ_NEXT(r, box_entry);
		run_box_ended(r, x->cause);
	}
}

static void
runs_gone(struct box *x)
{
	struct run *r;

	while ((r = TAILQ_FIRST(&x->runs)))
		run_finish(r, RUN_lost, NULL, 0);
}

/* A run in a sandbox took its copy as it started, unless none was known by then. */
void
box_baseline(struct box *x)
{
	struct run *r;

	x->baseline_ms = clock_now_ms();
	counters_read(&x->counters, true, &x->baseline);
	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (!r->baseline.have)
		r->baseline = x->baseline;
}

void
box_tell_deadline(struct box *x)
{
	const struct run *r;
	uint64_t at = 0;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->phase == PHASE_ACTIVE && r->deadline_ns && (!at || r->deadline_ns < at))
		at = r->deadline_ns;
	if (at == x->told_ns)
		return;
	x->told_ns = at;
	(void)orders_send(x->b, IPC_ROW(watch_deadline, .box = x->id, .at_ns = at));
}

struct box *
box_new(struct broker *b, const struct profile *p, enum box_class c, bool prestart,
	const struct limits *limits, uint32_t lifetime_s)
{
	struct box *x;
	uint64_t life_ns = (uint64_t)lifetime_s * 1000000000u;

	if (!b->reaper || idmap_count(b->boxes) >= BOXES_MAX)
		return NULL;
	probe_refresh(b);
	x = xcalloc(1, sizeof(*x));
	*x = (struct box){.id = b->next_box,
			  .b = b,
			  .state = BOX_ASKED,
			  .kept = KEEP_NONE,
			  .box_class = c,
			  .prestart = prestart,
			  .profile = p,
			  .limits = *limits,
			  .lifetime_s = lifetime_s,
			  .born_ms = clock_now_ms(),
			  .end_ns = clock_boot_ns() + life_ns};
	random_bytes(x->secret, sizeof(x->secret));
	session_init(&x->session);
	counters_init(&x->counters);
	TAILQ_INIT(&x->runs);
	x->timer = evtimer_new(b->base, on_timer, x);
	x->affinity = pins_take(b, x->limits.cpus_milli);
	x->spec = xcalloc(1, sizeof(*x->spec));
	steps_fill_spec(x);
	if (!x->timer || idmap_put(b->boxes, x->id, x) < 0)
		fatal("no room for a box");
	b->next_box++;
	(void)orders_send(b,
			  IPC_ROW(watch_intend, .box = x->id, .name = IPC_STR(x->spec->name),
				  .end_ns = x->end_ns, .secret = {x->secret, sizeof(x->secret)}));
	return x;
}

struct box *
box_restore(struct broker *b, uint64_t id, const struct profile *p, enum box_class c,
	    const struct limits *limits)
{
	struct box *x = xcalloc(1, sizeof(*x));

	*x = (struct box){.id = id,
			  .b = b,
			  .state = BOX_CLAIMED,
			  .kept = KEEP_NONE,
			  .box_class = c,
			  .profile = p,
			  .limits = *limits};
	session_init(&x->session);
	counters_init(&x->counters);
	buf_init(&x->resume.seen, RESUME_SEEN_MAX);
	TAILQ_INIT(&x->runs);
	x->timer = evtimer_new(b->base, on_timer, x);
	x->spec = xcalloc(1, sizeof(*x->spec)); /* for its name; it is made already */
	if (!x->timer || idmap_put(b->boxes, id, x) < 0)
		fatal("no room for a box");
	return x;
}

struct box *
box_find(struct broker *b, uint64_t id)
{
	return id ? idmap_get(b->boxes, id) : NULL;
}

void
box_end(struct box *x, enum end_cause cause)
{
	if (x->state < BOX_ENDING)
		x->cause = cause;
	box_event(x, ON_END);
}

int
box_send(struct box *x, enum guest_type type, const void *payload, size_t len)
{
	uint8_t out[GUEST_HEADER_LEN + 64 + GUEST_CRC_LEN];
	size_t n;

	if (!x->attach || len > 64)
		return -EPIPE;
	n = guest_frame_write(out, type, 0, 0, 0, payload, len);
	return attach_send(x->attach, out, n);
}

/* What a frontend's socket has not taken could not be handed on by the next broker. */
static bool
all_handed_on(const struct box *x)
{
	const struct run *r;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->front && r->front->link && link_queued(r->front->link) > 0)
		return false;
	return true;
}

void
box_ping(struct box *x)
{
	(void)box_send(x, GUEST_h_ping, NULL, 0);
}

void
box_ack(struct box *x, bool now)
{
	uint8_t out[GUEST_HEADER_LEN + 8 + GUEST_CRC_LEN];
	size_t n;

	if (!x->attach || !session_owes(&x->session, now) || (!now && !all_handed_on(x)))
		return;
	adopt_mark(x);
	n = session_ack(&x->session, out);
	if (n)
		(void)attach_send(x->attach, out, n); /* a dead stream says so itself */
}

void
box_close_stream(struct box *x)
{
	attach_free(TAKE(x->attach));
}

void
box_discard(struct box *x)
{
	struct broker *b = x->b;

	pool_remove(x);
	box_close_stream(x);
	runs_gone(x); /* those without a front are still there */
	admission_uncount(x);
	(void)idmap_take(b->boxes, x->id);
	TAILQ_INSERT_TAIL(&b->grave, x, grave_entry);
}

void
box_tell_kill(struct box *x)
{
	pool_remove(x);
	box_disarm(x);
	(void)orders_send(x->b, IPC_ROW(watch_kill, .box = x->id, .cause = x->cause));
}

void
box_bury(struct box *x, bool tell)
{
	struct broker *b = x->b;
	uint64_t now = clock_now_ms();

	pool_remove(x);
	box_disarm(x);
	box_close_stream(x);
	if (tell)
		(void)orders_send(b, IPC_ROW(watch_gone, .box = x->id));
	runs_gone(x);
	admission_uncount(x);
	pins_give(b, x->affinity);
	(void)idmap_take(b->boxes, x->id);
	TAILQ_INSERT_TAIL(&b->grave, x, grave_entry);
	LOG_EVENT(box_gone, .box = x->id, .cause = cause_word(x->cause),
		  .age_ms = now - x->born_ms);
	tally_add(TALLY_ENDED + (uint32_t)x->cause);
	broker_soon(b);
}

void
box_grave_empty(struct broker *b)
{
	struct box *x;

	while ((x = TAILQ_FIRST(&b->grave))) {
		TAILQ_REMOVE(&b->grave, x, grave_entry);
		event_free(x->timer);
		session_done(&x->session);
		counters_close(&x->counters);
		buf_done(&x->resume.seen);
		secret_wipe(x->secret, sizeof(x->secret));
		free(x->spec);
		free(x);
	}
}
