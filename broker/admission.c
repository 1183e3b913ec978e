/*
 * broker/admission.c - who may start now: queues, caps, turns.
 *
 * Runs in: bailey-broker.
 * Input: runs that policy.c has accepted.
 * Owns: the queues of owners and the sums counted against the caps.
 *
 * A box counts against its owner and against memory from its intent until the
 * engine confirmed that it is gone; one that waits in the pool counts against
 * memory only. Owners take turns. Whoever's turn it is waits for memory and
 * those behind wait too: a large request is not starved by small ones. An owner
 * at its own cap is passed over.
 */
#include <errno.h>

#include "broker.h"

#define RETRY_MIN_MS 250u
#define RETRY_MAX_MS 10000u
#define RETRY_PER_RUN_MS 150u /* about one container start */

uint32_t
admission_retry_ms(const struct broker *b)
{
	uint32_t ms = RETRY_MIN_MS + b->queued * RETRY_PER_RUN_MS;

	return ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
}

int
admission_enqueue(struct run *r)
{
	struct broker *b = r->b;

	if (r->owner->queued >= OWNER_QUEUE_MAX || b->queued >= QUEUE_MAX)
		return -EBUSY;
	TAILQ_INSERT_TAIL(&r->owner->queue, r, queue_entry);
	r->owner->queued++;
	b->queued++;
	r->waits = true;
	return 0;
}

void
admission_dequeue(struct run *r)
{
	if (!r->waits)
		return;
	TAILQ_REMOVE(&r->owner->queue, r, queue_entry);
	r->owner->queued--;
	r->b->queued--;
	r->waits = false;
}

bool
admission_fits(struct broker *b, uint64_t memory_bytes)
{
	return memory_bytes <= b->memory_max_bytes &&
	       b->memory_bytes <= b->memory_max_bytes - memory_bytes;
}

void
admission_count(struct box *x, struct owner *o)
{
	struct broker *b = x->b;

	if (!x->counted)
		b->memory_bytes += x->limits.memory_bytes;
	x->counted = true;
	if (o && !x->owner) {
		x->owner = owner_ref(o);
		o->boxes++;
	}
}

void
admission_uncount(struct box *x)
{
	struct broker *b = x->b;

	if (!x->counted)
		return;
	x->counted = false;
	b->memory_bytes -= x->limits.memory_bytes;
	if (x->owner) {
		x->owner->boxes--;
		owner_unref(b, TAKE(x->owner));
	}
}

void
admission_resize(struct box *x, const struct limits *to)
{
	if (x->counted)
		x->b->memory_bytes += to->memory_bytes - x->limits.memory_bytes;
	x->limits.memory_bytes = to->memory_bytes;
	x->limits.cpus_milli = to->cpus_milli;
}

/* 1: started; 0: must wait for memory. */
static int
try_start(struct run *r)
{
	struct broker *b = r->b;
	struct fit fit;
	struct box *x = pool_take(r, &fit);

	pool_used(b, r->profile, r->box_class, !x);
	if (x) {
		run_start_in(r, x, &fit);
		return 1;
	}
	if (!pool_could_adopt(r) && !admission_fits(b, r->limits.memory_bytes)) {
		(void)pool_evict(b);
		return 0;
	}
	run_start_cold(r);
	return 1;
}

/* The first owner in turn order that has a run waiting and room for a box. */
static struct owner *
next_owner(struct broker *b)
{
	struct owner *o;

	TAILQ_FOREACH(o, &b->owners, link)
	if (o->queued && o->boxes < OWNER_BOXES_MAX)
		return o;
	return NULL;
}

void
admission_pump(struct broker *b)
{
	struct owner *o;

	if (b->probe.state != ENGINE_UP || !b->reaper || b->stopping)
		return;
	while ((o = next_owner(b))) {
		owner_ref(o);
		if (try_start(TAILQ_FIRST(&o->queue)) == 0) {
			owner_unref(b, o);
			return;
		}
		TAILQ_REMOVE(&b->owners, o, link);
		TAILQ_INSERT_TAIL(&b->owners, o, link);
		owner_unref(b, o);
		if (b->probe.state != ENGINE_UP)
			return;
	}
}

void
admission_tick(struct broker *b, uint64_t now_ms)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(b->runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		if (r->phase == PHASE_QUEUED && now_ms - r->queued_ms >= QUEUE_WAIT_MS) {
			run_finish(r, RUN_queue_timeout, NULL, 0);
		} else if ((r->phase == PHASE_STARTING || r->phase == PHASE_GRANTED) && r->front &&
			   now_ms - r->left_queue_ms >= START_WAIT_MS) {
			run_withdraw(r, RUN_start_timeout, CAUSE_START);
		}
	}
}

void
admission_fail_all(struct broker *b, enum run_status status, const char *message)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(b->runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		if (r->phase == PHASE_QUEUED)
			run_finish(r, status, message, 0);
	}
}
