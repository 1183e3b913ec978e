/*
 * broker/pool.c - boxes that wait ready, one pool per profile and class.
 *
 * Runs in: bailey-broker.
 * Input: demand (pool_used), events of boxes, the clock tick.
 * Owns: the ready lists. A box is in at most one list, and pool_take removes it
 *       before anyone else can look: it is never handed out twice.
 *
 * A pool sleeps (target 0) until the first listing or call, and again after five
 * minutes without use. A miss raises its target by one, a minute without a miss
 * lowers it to the profile's figure. All pools together hold at most POOL_CAP
 * boxes; a pool that is used and has none gets the place of a box beyond another's
 * figure, else of the pool used longest ago. Refilling is one at a time, never while a caller waits
 * for a container of its own (one whose owner has all it may have waits for those), and beside
 * running calls only when the pool has nothing ready: a container start beside a warm call costs
 * that call more than it gains.
 */
#include <string.h>

#include "broker.h"

#define IDLE_MS 300000u
#define CALM_MS 60000u
#define FRESH_MS 1500u  /* a ping goes out each second: its pong is overdue */
#define SILENT_MS 5000u /* no pong: it is ended */
#define AGE_MAX_PERMILLE 750u
#define LIVES 2u /* times the profile's: a sandbox of that lifetime fits into one that waited */
#define BACKOFF_FIRST_MS 1000u
#define BACKOFF_MAX_MS 30000u

static size_t
index_of(const struct profile *p)
{
	for (size_t i = 0; i < profile_count() && i < PROFILES_MAX; i++)
		if (profile_at(i) == p)
			return i;
	fatal("a profile that is not in the table");
}

struct pool *
pool_of(struct broker *b, const struct profile *p, enum box_class c)
{
	return &b->pools[index_of(p)][c];
}

void
pool_init(struct broker *b)
{
	for (size_t i = 0; i < PROFILES_MAX; i++)
		for (size_t c = 0; c < BOX_CLASSES; c++)
			TAILQ_INIT(&b->pools[i][c].ready);
}

/* The figure a pool in use falls back to: node's 0 becomes 1 by being used. */
static uint32_t
base_target(const struct profile *p, enum box_class c)
{
	return p->pool[c] ? p->pool[c] : 1;
}

static bool
may_wait(const struct broker *b)
{
	return !(b->settings.flags & SETTINGS_NO_POOL) && !b->stopping;
}

void
pool_wake(struct broker *b)
{
	const struct profile *p = profile_find("", 0);
	uint64_t now = clock_now_ms();

	if (!may_wait(b))
		return;
	for (size_t c = 0; c < BOX_CLASSES; c++) {
		struct pool *pool = pool_of(b, p, (enum box_class)c);

		if (p->pool[c] && !pool->target) {
			pool->target = p->pool[c];
			pool->used_ms = now;
		}
	}
	broker_soon(b);
}

void
pool_used(struct broker *b, const struct profile *p, enum box_class c, bool missed)
{
	struct pool *pool = pool_of(b, p, c);
	uint32_t base = base_target(p, c);

	if (!may_wait(b))
		return;
	pool->used_ms = clock_now_ms();
	if (pool->target < base) {
		pool->target = base;
	} else if (missed && pool->target < POOL_CAP) {
		pool->target++;
	}
	if (missed)
		pool->missed_ms = pool->used_ms;
}

/* Of the image its name stands for now: a box may have been starting while that changed. */
static bool
current(const struct box *x)
{
	return strcmp(x->spec->image, x->b->probe.image_id) == 0;
}

static bool
healthy(const struct box *x, uint64_t now)
{
	return x->attach && now - x->session.pong_ms < SILENT_MS && current(x);
}

/* What ends a shim or an engine says nothing; only an answer says that a guest is still there. */
static bool
answers(const struct box *x, uint64_t now)
{
	return healthy(x, now) && !x->session.doubted && now - x->session.pong_ms < FRESH_MS;
}

static struct fit
fit_for(const struct box *x, const struct run *r)
{
	struct fit f = policy_fit(x->box_class, &x->limits, &r->limits, r->flags, !x->b->no_update);

	if (!x->prestart && x->box_class != BOX_SHELL)
		f.start = START_LIVE; /* its guest said that no interpreter waits */
	return f;
}

/* A sandbox that stays must not outlive its box. */
static bool
lives_long_enough(const struct box *x, const struct run *r)
{
	return !(r->flags & CALL_STAYS) ||
	       x->end_ns >= clock_boot_ns() + (uint64_t)r->ttl_s * 1000000000u;
}

struct box *
pool_take(struct run *r, struct fit *ret)
{
	struct broker *b = r->b;
	struct pool *pool = pool_of(b, r->profile, r->box_class);
	uint64_t now = clock_now_ms();
	struct box *x;

	TAILQ_FOREACH(x, &pool->ready, pool_entry)
	{
		struct fit f = fit_for(x, r);
		uint64_t more = r->limits.memory_bytes > x->limits.memory_bytes
					? r->limits.memory_bytes - x->limits.memory_bytes
					: 0;

		if (f.cold || !answers(x, now) || !admission_fits(b, more) ||
		    !lives_long_enough(x, r))
			continue;
		pool_remove(x);
		tally_add(TALLY_boxes_handed_out);
		*ret = f;
		return x;
	}
	return NULL;
}

static struct box *
find_adoptable(struct run *r)
{
	struct broker *b = r->b;
	struct box *best = NULL;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	if (!pool_of(b, r->profile, r->box_class)->n_starting)
		return NULL;
	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		struct box *x = obj;
		struct fit f = fit_for(x, r);

		if (x->pooled == POOL_STARTING && x->profile == r->profile &&
		    x->box_class == r->box_class && !f.cold && !f.update && current(x) &&
		    lives_long_enough(x, r) && (!best || x->id < best->id))
			best = x;
	}
	return best;
}

bool
pool_could_adopt(struct run *r)
{
	return find_adoptable(r) != NULL;
}

struct box *
pool_adopt(struct run *r)
{
	struct box *x = find_adoptable(r);

	if (x)
		pool_remove(x);
	return x;
}

static void
back_off(struct broker *b)
{
	uint64_t ms = b->refill_backoff_ms ? b->refill_backoff_ms * 2 : BACKOFF_FIRST_MS;

	b->refill_backoff_ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	b->refill_after_ms = clock_now_ms() + b->refill_backoff_ms;
}

void
pool_add(struct box *x)
{
	struct pool *pool = pool_of(x->b, x->profile, x->box_class);

	pool->n_starting--;
	x->pooled = POOL_READY;
	TAILQ_INSERT_TAIL(&pool->ready, x, pool_entry);
	pool->n_ready++;
	x->b->refill_backoff_ms = 0;
	broker_soon(x->b);
}

void
pool_remove(struct box *x)
{
	struct pool *pool;

	if (x->pooled == POOL_NOT)
		return;
	/* Ended, and not because we no longer want it: do not try again at once. */
	if (x->state >= BOX_ENDING && x->cause != CAUSE_UNUSED && x->cause != CAUSE_STOPPED)
		back_off(x->b);
	pool = pool_of(x->b, x->profile, x->box_class);
	if (x->pooled == POOL_STARTING) {
		pool->n_starting--;
	} else {
		TAILQ_REMOVE(&pool->ready, x, pool_entry);
		pool->n_ready--;
	}
	x->pooled = POOL_NOT;
	broker_soon(x->b);
}

/* The pool that lacks most recently wanted boxes; counts all of them on the way. */
static struct pool *
neediest(struct broker *b, size_t *ret_profile, enum box_class *ret_class, uint32_t *ret_total,
	 uint32_t *ret_starting)
{
	struct pool *best = NULL;

	*ret_total = *ret_starting = 0;
	for (size_t i = 0; i < profile_count() && i < PROFILES_MAX; i++) {
		for (size_t c = 0; c < BOX_CLASSES; c++) {
			struct pool *p = &b->pools[i][c];
			uint32_t have = p->n_ready + p->n_starting;

			*ret_total += have;
			*ret_starting += p->n_starting;
			if (have >= p->target)
				continue;
			if (best && (p->n_ready != 0) == (best->n_ready != 0)
				    ? p->used_ms <= best->used_ms
				    : best && p->n_ready != 0)
				continue;
			best = p;
			*ret_profile = i;
			*ret_class = (enum box_class)c;
		}
	}
	return best;
}

/* The pool used longest ago of those with a box ready; with a surplus if only those count. */
static struct pool *
longest_unused(struct broker *b, bool surplus)
{
	struct pool *oldest = NULL;

	for (size_t i = 0; i < profile_count() && i < PROFILES_MAX; i++) {
		for (size_t c = 0; c < BOX_CLASSES; c++) {
			struct pool *p = &b->pools[i][c];
			uint32_t least =
				surplus ? base_target(profile_at(i), (enum box_class)c) : 0;

			if (p->n_ready > least && (!oldest || p->used_ms < oldest->used_ms))
				oldest = p;
		}
	}
	return oldest;
}

/* Ends the waiting box whose pool was used longest ago. */
uint64_t
pool_evict(struct broker *b)
{
	struct pool *oldest = longest_unused(b, false);
	struct box *x = oldest ? TAILQ_FIRST(&oldest->ready) : NULL;

	if (!x)
		return 0;
	box_end(x, CAUSE_UNUSED);
	return x->limits.memory_bytes;
}

/* All places are taken and this pool, in use, has none of them: demand for one class must not
 * keep another always cold. */
static bool
make_room(struct broker *b, const struct pool *needy)
{
	struct pool *p;

	if (needy->n_ready || needy->n_starting)
		return false;
	p = longest_unused(b, true);
	if (p && p->used_ms > needy->used_ms)
		return false;
	if (!p) {
		/* Truly longer ago: two that were used at once would take it from each other for
		 * ever. */
		p = longest_unused(b, false);
		if (!p || p->used_ms >= needy->used_ms)
			return false;
	}
	box_end(TAILQ_FIRST(&p->ready), CAUSE_UNUSED);
	return true;
}

void
pool_quiet_for_call(struct broker *b)
{
	if (b->in_flight == 1)
		b->quiet_until_ms = clock_now_ms() + TELL_DEADLINE_MS;
}

void
pool_refill(struct broker *b)
{
	struct limits limits;
	const struct profile *profile;
	uint32_t total, starting;
	enum box_class c = BOX_SHELL;
	size_t i = 0;
	struct pool *pool;
	struct box *x;

	if (!may_wait(b) || b->probe.state != ENGINE_UP || !b->reaper ||
	    clock_now_ms() < b->refill_after_ms || clock_now_ms() < b->quiet_until_ms)
		return;
	pool = neediest(b, &i, &c, &total, &starting);
	if (!pool || starting || (b->in_flight && pool->n_ready) || b->starting ||
	    admission_waits(b) || (total >= POOL_CAP && !make_room(b, pool)))
		return;
	profile = profile_at(i);
	policy_defaults(&b->settings, profile, &limits);
	if (!admission_fits(b, limits.memory_bytes))
		return;
	x = box_new(b, profile, c, true, &limits, profile->lifetime_s * LIVES);
	if (!x)
		return;
	x->pooled = POOL_STARTING;
	pool->n_starting++;
	tally_add(TALLY_pool_refills);
	admission_count(x, NULL);
}

static bool
worn_out(const struct box *x, uint64_t now)
{
	return now - x->born_ms >
	       (uint64_t)x->profile->lifetime_s * AGE_MAX_PERMILLE; /* thousandths of a second */
}

static void
tick_one(struct pool *p, uint32_t base, uint64_t now)
{
	struct box *x, *next;

	if (p->target && now - p->used_ms >= IDLE_MS)
		p->target = 0;
	if (p->target > base && now - p->missed_ms >= CALM_MS) {
		p->target--;
		p->missed_ms = now;
	}
	for (x = TAILQ_FIRST(&p->ready); x; x = next) {
		next = TAILQ_NEXT(x, pool_entry);
		if (!healthy(x, now))
			box_end(x, CAUSE_SILENT);
		else if (p->n_ready > p->target || worn_out(x, now))
			box_end(x, CAUSE_UNUSED);
	}
}

void
pool_tick(struct broker *b, uint64_t now_ms)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	for (size_t i = 0; i < profile_count() && i < PROFILES_MAX; i++)
		for (size_t c = 0; c < BOX_CLASSES; c++)
			tick_one(&b->pools[i][c], base_target(profile_at(i), (enum box_class)c),
				 now_ms);
	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		struct box *x = obj;

		if (x->pooled == POOL_STARTING && now_ms - x->born_ms >= START_WAIT_MS)
			box_end(x, CAUSE_START);
	}
}

static void
doubt_one(const struct pool *p)
{
	struct box *x;

	TAILQ_FOREACH(x, &p->ready, pool_entry)
	{
		x->session.doubted = true;
		box_ping(x);
	}
}

void
pool_doubt(struct broker *b)
{
	for (size_t i = 0; i < PROFILES_MAX; i++)
		for (size_t c = 0; c < BOX_CLASSES; c++)
			doubt_one(&b->pools[i][c]);
}

void
pool_drain(struct broker *b, enum end_cause cause)
{
	for (size_t i = 0; i < PROFILES_MAX; i++)
		for (size_t c = 0; c < BOX_CLASSES; c++)
			while (b->pools[i][c].n_ready)
				box_end(TAILQ_FIRST(&b->pools[i][c].ready), cause);
}
