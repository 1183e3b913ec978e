/*
 * tests/fakes/broker_counts.c - what must be true of a broker at any time: every
 * count says what it counts, and none is above its cap.
 */
#include "test.h"

#include "broker_world.h"

static void
check_owner(const struct owner *o)
{
	struct owner sum = {0};
	const struct sandbox *s;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
		const struct box *x = obj;

		sum.boxes += x->owner == o;
		sum.memory_bytes += x->owner == o ? x->limits.memory_bytes : 0;
	}
	TAILQ_FOREACH(s, &w->b.sandboxes.live, entry)
	if (s->owner == o && !s->hold) {
		sum.sandboxes++;
		sum.stays_bytes += s->memory_bytes;
	}
	cursor = 0;
	while (idmap_next(w->b.runs, &cursor, &id, &obj)) {
		const struct run *r = obj;

		sum.creating += r->owner == o && r->creates;
		sum.creating_bytes += r->owner == o && r->creates ? r->limits.memory_bytes : 0;
		sum.queued += r->owner == o && r->waits;
	}
	assert_true(o->boxes == sum.boxes && o->memory_bytes == sum.memory_bytes);
	assert_true(o->sandboxes == sum.sandboxes && o->stays_bytes == sum.stays_bytes);
	assert_true(o->creating == sum.creating && o->creating_bytes == sum.creating_bytes);
	assert_int_equal(o->queued, sum.queued);
	assert_true(o->boxes <= OWNER_BOXES_MAX && o->sandboxes + o->creating <= OWNER_BOXES_MAX);
	assert_true(o->memory_bytes <= admission_owner_max(&w->b, o));
	assert_true(o->queued <= OWNER_QUEUE_MAX + 1); /* one may come back to it */
}

static void
check_runs(void)
{
	uint32_t starting = 0, in_flight = 0, queued = 0;
	uint64_t creating = 0, id;
	size_t cursor = 0;
	void *obj;

	while (idmap_next(w->b.runs, &cursor, &id, &obj)) {
		const struct run *r = obj;

		starting += r->phase == PHASE_STARTING;
		in_flight += r->in_flight;
		queued += r->waits;
		creating += r->creates ? r->limits.memory_bytes : 0;
		assert_int_equal(r->waits, r->phase == PHASE_QUEUED);
		assert_true(r->front || r->box); /* somebody waits for it, or something ends it */
		assert_true(!r->waits || !r->box);
	}
	assert_int_equal(w->b.starting, starting);
	assert_int_equal(w->b.in_flight, in_flight);
	assert_int_equal(w->b.queued, queued);
	assert_int_equal(w->b.sandboxes.creating_bytes, creating);
}

static void
check_box(const struct box *x)
{
	const struct run *r;
	uint32_t n = 0;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	{
		assert_ptr_equal(r->box, x);
		assert_ptr_equal(r->owner, x->owner);
		n++;
	}
	assert_true(n <= (x->sandbox || x->state >= BOX_ENDING ? GUEST_RUNS_MAX : 1));
	if (x->pooled != POOL_NOT) {
		assert_null(x->owner);
		assert_int_equal(n, 0);
		assert_int_equal(x->session.last_run, 0); /* never handed out before */
	}
	if (x->pooled == POOL_READY)
		assert_int_equal(x->state, BOX_WARM);
	if (!x->sandbox && x->state < BOX_ENDING && x->state != BOX_STAYS)
		assert_true(x->session.last_run <= 1);
}

static void
check_pools(void)
{
	for (size_t i = 0; i < profile_count(); i++)
		for (size_t c = 0; c < BOX_CLASSES; c++) {
			const struct pool *p = &w->b.pools[i][c];
			const struct box *x;
			uint32_t ready = 0, starting = 0;
			size_t cursor = 0;
			uint64_t id;
			void *obj;

			TAILQ_FOREACH(x, &p->ready, pool_entry)
			ready++;
			while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
				x = obj;
				starting += x->pooled == POOL_STARTING &&
					    (size_t)x->box_class == c &&
					    profile_at(i) == x->profile;
			}
			assert_int_equal(p->n_ready, ready);
			assert_int_equal(p->n_starting, starting);
		}
}

void
world_check_counts(void)
{
	const struct sandbox *s;
	const struct owner *o;
	uint64_t memory = 0, stays = 0, id;
	size_t cursor = 0;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
		const struct box *x = obj;

		memory += x->counted ? x->limits.memory_bytes : 0;
		assert_true(x->counted);
		check_box(x);
	}
	TAILQ_FOREACH(s, &w->b.sandboxes.live, entry)
	{
		stays += s->hold ? 0 : s->memory_bytes;
		assert_ptr_equal(s->box->sandbox, s);
		assert_true(s->box->state == BOX_STAYS || s->box->state == BOX_CLAIMED);
	}
	assert_int_equal(w->b.memory_bytes, memory);
	assert_true(memory <= w->b.memory_max_bytes);
	assert_int_equal(w->b.sandboxes.memory_bytes, stays);
	TAILQ_FOREACH(o, &w->b.owners, link)
	check_owner(o);
	check_runs();
	check_pools();
}
