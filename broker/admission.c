/*
 * broker/admission.c - who may start now: queues, caps, turns.
 *
 * Runs in: bailey-broker.
 * Input: runs that policy.c has accepted.
 * Owns: the queues of owners and the sums counted against the caps.
 *
 * A box counts against its owner and against memory from its intent until the
 * engine confirmed that it is gone; one that waits in the pool counts against
 * memory only. Owners take turns; one at a cap of its own is passed over. So is a run
 * for which there is no memory now, by any that fits: but five seconds after it
 * was passed over first nothing else starts, for ten seconds at most, in which
 * all that have the usual time limit end.
 *
 * What cannot become true by waiting is told at once: a full queue, a sandbox
 * that stays beyond what an owner may have, memory that sandboxes hold which stay.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "broker.h"

#define OWNER_MEMORY_PART 2u /* of all memory: one owner leaves as much to the others */
#define CROWD_RETRY_MS 10000u
#define OVERTAKEN_MS 5000u /* so long a run that does not fit is passed over … */
#define RESERVED_MS 10000u /* … and so long, then, nothing else starts */
#define STARTS_MIN 8u      /* containers started at once; more of them end no sooner */
#define STARTS_PER_CPU 2u

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

	if (r->owner->queued >= OWNER_QUEUE_MAX || b->queued >= QUEUE_MAX) {
		tally_add(TALLY_queue_refused);
		return -EBUSY;
	}
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

void
admission_caps(struct broker *b)
{
	b->memory_max_bytes = policy_total_memory(&b->settings);
	b->owner_memory_max_bytes = b->memory_max_bytes / OWNER_MEMORY_PART;
}

bool
admission_fits(struct broker *b, uint64_t memory_bytes)
{
	return memory_bytes <= b->memory_max_bytes &&
	       b->memory_bytes <= b->memory_max_bytes - memory_bytes;
}

uint64_t
admission_owner_max(const struct broker *b, const struct owner *o)
{
	/* Where one process tree is all that is served there is nobody to leave anything to. */
	return o->kind == OWNER_TREE || b->owner_memory_max_bytes > b->memory_max_bytes
		       ? b->memory_max_bytes
		       : b->owner_memory_max_bytes;
}

/* Under a cap of its own; the one of all sandboxes together is another matter. */
static bool
owner_fits(const struct run *r)
{
	uint64_t most = admission_owner_max(r->b, r->owner);

	return most >= r->b->memory_max_bytes ||
	       r->owner->memory_bytes + r->limits.memory_bytes <= most;
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
		o->memory_bytes += x->limits.memory_bytes;
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
		x->owner->memory_bytes -= x->limits.memory_bytes;
		owner_unref(b, TAKE(x->owner));
	}
}

void
admission_resize(struct box *x, const struct limits *to)
{
	if (x->counted)
		x->b->memory_bytes += to->memory_bytes - x->limits.memory_bytes;
	if (x->counted && x->owner)
		x->owner->memory_bytes += to->memory_bytes - x->limits.memory_bytes;
	x->limits.memory_bytes = to->memory_bytes;
	x->limits.cpus_milli = to->cpus_milli;
}

/* ---- what waiting does not change ---- */

void
admission_creates(struct run *r)
{
	struct sandboxes *s = &r->b->sandboxes;

	if ((r->flags & (CALL_STAYS | CALL_HOLD)) != CALL_STAYS)
		return;
	r->creates = true;
	r->owner->creating++;
	r->owner->creating_bytes += r->limits.memory_bytes;
	s->creating_bytes += r->limits.memory_bytes;
}

void
admission_created(struct run *r)
{
	if (!r->creates)
		return;
	r->creates = false;
	r->owner->creating--;
	r->owner->creating_bytes -= r->limits.memory_bytes;
	r->b->sandboxes.creating_bytes -= r->limits.memory_bytes;
}

static const char *
say_crowd(char *out, size_t cap, const char *whose, uint64_t have, uint64_t most)
{
	(void)snprintf(out, cap,
		       "%s that stay hold %" PRIu64 " of the %" PRIu64
		       " MiB that they may have together, so there is none for another. "
		       "Destroy one, or ask for a smaller memory_mb.",
		       whose, have >> 20, most >> 20);
	return out;
}

const char *
admission_crowd(const struct broker *b, const struct owner *o, uint32_t flags,
		uint64_t memory_bytes, char *out, size_t cap)
{
	bool creates = (flags & (CALL_STAYS | CALL_HOLD)) == CALL_STAYS;
	uint32_t n = o->sandboxes + (creates ? o->creating : 0);
	uint64_t own = o->stays_bytes + (creates ? o->creating_bytes : 0);
	uint64_t held = b->sandboxes.memory_bytes + (creates ? b->sandboxes.creating_bytes : 0);

	if (n >= OWNER_BOXES_MAX) {
		(void)snprintf(out, cap,
			       "You have %u sandboxes, as many as one owner may. Destroy one with "
			       "container_destroy_sandbox, or wait until one was idle for long "
			       "enough.",
			       OWNER_BOXES_MAX);
		return out;
	}
	if (own + memory_bytes > admission_owner_max(b, o))
		return say_crowd(out, cap, "Your sandboxes", own, admission_owner_max(b, o));
	if (held + memory_bytes > b->memory_max_bytes)
		return say_crowd(out, cap, "All sandboxes", held, b->memory_max_bytes);
	return NULL;
}

bool
admission_refuse(struct front *f, uint64_t call, uint32_t flags, uint64_t memory_bytes)
{
	const struct broker *b = f->b;
	const struct owner *o = f->owner;
	char text[300];

	if (admission_crowd(b, o, flags, memory_bytes, text, sizeof(text))) {
		front_refuse(f, call, RUN_busy, text, CROWD_RETRY_MS);
		return true;
	}
	if (o->queued < OWNER_QUEUE_MAX && b->queued < QUEUE_MAX)
		return false;
	(void)snprintf(text, sizeof(text),
		       "%u %s wait for a sandbox already, as many as may. Try again after the "
		       "given time.",
		       o->queued < OWNER_QUEUE_MAX ? QUEUE_MAX : OWNER_QUEUE_MAX,
		       o->queued < OWNER_QUEUE_MAX ? "calls" : "of your calls");
	front_refuse(f, call, RUN_busy, text, admission_retry_ms(b));
	return true;
}

/* Sandboxes have come that stay: what waits for their places is told now. */
static bool
ended_hopeless(struct run *r)
{
	char text[300];
	uint32_t single = r->flags & ~(uint32_t)CALL_STAYS; /* it is counted among the creating */

	if (!admission_crowd(r->b, r->owner, single, r->limits.memory_bytes, text, sizeof(text)))
		return false;
	run_finish(r, RUN_busy, text, CROWD_RETRY_MS);
	return true;
}

/* ---- turns ---- */

static bool
has_turn(const struct owner *o)
{
	const struct run *r;

	if (o->boxes >= OWNER_BOXES_MAX)
		return false;
	TAILQ_FOREACH(r, &o->queue, queue_entry)
	if (owner_fits(r))
		return true;
	return false;
}

bool
admission_waits(const struct broker *b)
{
	const struct owner *o;

	TAILQ_FOREACH(o, &b->owners, link)
	if (has_turn(o))
		return true;
	return false;
}

static uint32_t
starts_max(const struct broker *b)
{
	uint32_t n = STARTS_PER_CPU * b->probe.info.cpus;

	return n > STARTS_MIN ? n : STARTS_MIN;
}

/* True: it has left the queue, and may be gone. */
static bool
try_start(struct run *r)
{
	struct broker *b = r->b;
	struct fit fit;
	struct box *x;

	if (!owner_fits(r))
		return false;
	x = pool_take(r, &fit);
	if (!x && !pool_could_adopt(r) &&
	    (b->starting >= starts_max(b) || !admission_fits(b, r->limits.memory_bytes)))
		return false;
	pool_used(b, r->profile, r->box_class, !x);
	if (x)
		run_start_in(r, x, &fit);
	else
		run_start_cold(r);
	return true;
}

/* A box of the pool gives way where that brings r its memory; not while what is ending does. */
static void
make_room(struct broker *b, const struct run *r)
{
	uint64_t leaving = 0, waiting = 0, need = r->limits.memory_bytes, id;
	size_t cursor = 0;
	void *obj;

	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		const struct box *x = obj;

		if (x->counted && x->state >= BOX_SPENT)
			leaving += x->limits.memory_bytes;
		else if (x->pooled == POOL_READY)
			waiting += x->limits.memory_bytes;
	}
	while (b->memory_bytes - leaving + need > b->memory_max_bytes &&
	       b->memory_bytes - leaving - waiting + need <= b->memory_max_bytes) {
		uint64_t freed = pool_evict(b);

		if (!freed)
			return;
		leaving += freed;
		waiting -= freed;
	}
}

/* The run that was passed over for long enough: until it starts nothing else does. */
static struct run *
overdue(struct broker *b, uint64_t now)
{
	struct run *r, *oldest = NULL;
	struct owner *o;

	TAILQ_FOREACH(o, &b->owners, link)
	{
		if (!has_turn(o))
			continue;
		TAILQ_FOREACH(r, &o->queue, queue_entry)
		if (owner_fits(r) && r->overtaken_ms && now >= r->overtaken_ms + OVERTAKEN_MS &&
		    now < r->overtaken_ms + OVERTAKEN_MS + RESERVED_MS &&
		    (!oldest || r->overtaken_ms < oldest->overtaken_ms))
			oldest = r;
	}
	return oldest;
}

/* The first of an owner's that can start; *ret_first: the first for which there is no memory. */
static bool
start_one_of(struct owner *o, uint64_t *ret_first)
{
	struct run *r;

	TAILQ_FOREACH(r, &o->queue, queue_entry)
	{
		if (try_start(r))
			return true;
		if (!*ret_first && owner_fits(r) && !admission_fits(r->b, r->limits.memory_bytes))
			*ret_first = r->id;
	}
	return false;
}

/* Starts one run, of whoever's turn it is. */
static bool
pump_one(struct broker *b)
{
	uint64_t now = clock_now_ms(), first = 0;
	struct run *r = overdue(b, now);
	struct owner *o;

	if (r) {
		if (try_start(r))
			return true;
		make_room(b, r);
		return false;
	}
	TAILQ_FOREACH(o, &b->owners, link)
	{
		if (!has_turn(o))
			continue;
		owner_ref(o);
		if (start_one_of(o, &first)) {
			TAILQ_REMOVE(&b->owners, o, link);
			TAILQ_INSERT_TAIL(&b->owners, o, link);
			owner_unref(b, o);
			r = idmap_get(b->runs, first);
			if (r && r->waits && !r->overtaken_ms)
				r->overtaken_ms = now;
			return true;
		}
		owner_unref(b, o);
	}
	r = idmap_get(b->runs, first);
	if (r)
		make_room(b, r);
	return false;
}

void
admission_pump(struct broker *b)
{
	while (b->queued && b->probe.state == ENGINE_UP && b->reaper && !b->stopping)
		if (!pump_one(b))
			return;
}

/* ---- the clock ---- */

static void
queue_timeout(struct run *r)
{
	const struct broker *b = r->b;
	char text[300];

	if (r->owner->boxes >= OWNER_BOXES_MAX)
		(void)snprintf(
			text, sizeof(text),
			"All %u sandboxes you may have were in use for %u seconds. Try again "
			"later, or end one.",
			OWNER_BOXES_MAX, QUEUE_WAIT_MS / 1000);
	else if (b->reaper && !owner_fits(r))
		(void)snprintf(text, sizeof(text),
			       "The %" PRIu64 " MiB that your sandboxes may have together were in "
			       "use for %u seconds. Try again later, end one, or ask for a smaller "
			       "memory_mb.",
			       admission_owner_max(b, r->owner) >> 20, QUEUE_WAIT_MS / 1000);
	else if (b->reaper && !admission_fits(r->b, r->limits.memory_bytes))
		(void)snprintf(text, sizeof(text),
			       "The %" PRIu64 " MiB of all sandboxes together were in use for %u "
			       "seconds. Try again later, or ask for a smaller memory_mb.",
			       b->memory_max_bytes >> 20, QUEUE_WAIT_MS / 1000);
	else
		(void)snprintf(text, sizeof(text), "%s",
			       b->reaper ? run_status_advice(RUN_queue_timeout) : NO_REAPER);
	run_finish(r, RUN_queue_timeout, text, admission_retry_ms(b));
}

void
admission_tick(struct broker *b, uint64_t now_ms)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(b->runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		if (r->phase == PHASE_QUEUED && ended_hopeless(r)) {
			continue;
		} else if (r->phase == PHASE_QUEUED && now_ms - r->queued_ms >= QUEUE_WAIT_MS) {
			queue_timeout(r);
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
