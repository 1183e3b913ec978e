/*
 * broker/sandbox.c - sandboxes that stay: their ids, their owners, their ends.
 *
 * Runs in: bailey-broker.
 * Input: ids and requests of an untrusted frontend.
 * Owns: struct sandbox, live and ended; those found by an id are never another
 *       owner's, and what does not exist, is somebody else's or is no id at all gets
 *       the same answer.
 *
 * A sandbox is a box in the state STAYS with a name. It ends with its box, and
 * its box ends when it was idle or alive for too long, when its owner says so
 * or when the connection it is bound to is closed. Its end is remembered for
 * ten minutes, so that the owner hears why instead of an unknown id.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

#define BUSY_RETRY_MS 1000u

void
sandbox_init(struct broker *b)
{
	TAILQ_INIT(&b->sandboxes.live);
	TAILQ_INIT(&b->sandboxes.ended);
	b->sandboxes.by_id = idmap_new(BOXES_MAX + SANDBOX_ENDED_MAX);
}

/* The first half of an id: random, so it may be the key. 0: it is no id. */
static uint64_t
key_of(const char *id, size_t n)
{
	uint8_t raw[16];
	uint64_t key;

	if (hex_decode(raw, sizeof(raw), id, n) < 0)
		return 0;
	memcpy(&key, raw, sizeof(key));
	return key;
}

static void
forget(struct broker *b, struct sandbox *s)
{
	TAILQ_REMOVE(&b->sandboxes.ended, s, entry);
	b->sandboxes.n_ended--;
	s->owner->ended--;
	adopt_forget(b, s);
	(void)idmap_take(b->sandboxes.by_id, key_of(s->id, 32));
	owner_unref(b, s->owner);
	free(s);
}

/* The oldest end of the owner that has most of them: one owner's many cost no other's. */
static struct sandbox *
most_remembered(const struct broker *b)
{
	struct sandbox *s, *most = TAILQ_FIRST(&b->sandboxes.ended);

	TAILQ_FOREACH(s, &b->sandboxes.ended, entry)
	if (s->owner->ended > most->owner->ended)
		most = s;
	return most;
}

void
sandbox_done(struct broker *b)
{
	struct sandbox *s;

	if (!b->sandboxes.by_id)
		return;
	while ((s = TAILQ_FIRST(&b->sandboxes.live))) { /* its box went before */
		TAILQ_REMOVE(&b->sandboxes.live, s, entry);
		TAILQ_INSERT_TAIL(&b->sandboxes.ended, s, entry);
		b->sandboxes.n_ended++;
		s->owner->ended++;
	}
	while ((s = TAILQ_FIRST(&b->sandboxes.ended)))
		forget(b, s);
	idmap_free(TAKE(b->sandboxes.by_id));
}

static struct sandbox *
sandbox_find(const struct front *f, const struct ipc_str *id)
{
	uint64_t key = key_of(id->data, id->len);
	struct sandbox *s = key ? idmap_get(f->b->sandboxes.by_id, key) : NULL;

	return s && s->owner == f->owner && memcmp(s->id, id->data, 32) == 0 ? s : NULL;
}

/* One that ends with its call is none: others may wait for its place. */
static void
stays_more(struct broker *b, const struct sandbox *s)
{
	if (s->hold)
		return;
	s->owner->sandboxes++;
	s->owner->stays_bytes += s->memory_bytes;
	b->sandboxes.memory_bytes += s->memory_bytes;
}

static void
stays_less(struct broker *b, const struct sandbox *s)
{
	if (s->hold)
		return;
	s->owner->sandboxes--;
	s->owner->stays_bytes -= s->memory_bytes;
	b->sandboxes.memory_bytes -= s->memory_bytes;
}

/* New, with an id that nobody can guess. */
static struct sandbox *
sandbox_new(struct run *r)
{
	struct broker *b = r->b;
	struct sandbox *s = xcalloc(1, sizeof(*s));
	const struct box *x = r->box;
	uint64_t now = clock_now_ms();
	uint8_t raw[16];

	*s = (struct sandbox){.box = r->box,
			      .owner = owner_ref(r->owner),
			      .profile = r->profile,
			      .keep = r->flags & CALL_KEEP,
			      .hold = r->flags & CALL_HOLD,
			      .kept = KEEP_NONE,
			      .memory_bytes = x->limits.memory_bytes,
			      .cpus_milli = x->limits.cpus_milli,
			      .born_ms = now,
			      .used_ms = now,
			      .ttl_ms = (uint64_t)r->ttl_s * 1000,
			      .idle_ms = (uint64_t)r->idle_s * 1000};
	if (s->hold || (r->owner->kind != OWNER_TOKEN && !s->keep))
		s->front = r->front;
	s->front_peer = s->front ? s->front->peer_id : 0;
	do {
		random_bytes(raw, sizeof(raw));
		hex_encode(s->id, raw, sizeof(raw));
	} while (key_of(s->id, 32) == 0 || idmap_put(b->sandboxes.by_id, key_of(s->id, 32), s) < 0);
	TAILQ_INSERT_TAIL(&b->sandboxes.live, s, entry);
	stays_more(b, s);
	return s;
}

void
sandbox_born(struct run *r)
{
	struct box *x = r->box;

	box_event(x, ON_STAY);
	x->sandbox = sandbox_new(r);
	tally_add(TALLY_sandboxes_made);
	adopt_keep(x);
	LOG_EVENT(sandbox_made, .sandbox = x->sandbox->id, .box = x->id, .ttl_s = r->ttl_s,
		  .idle_s = r->idle_s);
}

uint64_t
sandbox_left_ms(const struct sandbox *s)
{
	uint64_t age = clock_now_ms() - s->born_ms;

	return s->ttl_ms > age ? s->ttl_ms - age : 0;
}

/* ---- runs in it ---- */

static void
not_found(struct front *f, uint64_t call, const struct sandbox *s)
{
	uint64_t ago_s = s ? (clock_now_ms() - s->ended_ms) / 1000 : 0;
	char text[400], why[80];

	if (!s) { /* the frontend's words, the same as for what is no id */
		front_refuse(f, call, RUN_not_found, "", 0);
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "This sandbox ended %" PRIu64 " seconds ago because %s. "
		       "container_create_sandbox makes another one.",
		       ago_s, verdict_why(s->cause, s->away_s, why, sizeof(why)));
	front_refuse(f, call, RUN_not_found, text, 0);
}

void
sandbox_submit(struct front *f, const struct ipc_call_submit *m)
{
	struct sandbox *s = sandbox_find(f, &m->sandbox);
	struct decision d;
	struct run *r;

	if (!s || !s->box) {
		not_found(f, m->call, s);
		return;
	}
	if (policy_decide_within(&f->b->settings, s->profile, &s->box->limits, m, &d) < 0) {
		front_refuse(f, m->call, RUN_denied, d.message, 0);
		return;
	}
	if (box_count_runs(s->box) >= GUEST_RUNS_MAX) {
		front_refuse(f, m->call, RUN_busy,
			     "As many runs as a sandbox takes are going on in this one. Try again "
			     "when one has ended.",
			     BUSY_RETRY_MS);
		return;
	}
	s->used_ms = clock_now_ms();
	r = run_new(f, m, &d);
	r->box_class = s->box->box_class;
	if (s->box->state == BOX_CLAIMED)
		run_wait_within(r, s->box);
	else
		run_start_within(r, s->box);
}

void
sandbox_used(struct box *x)
{
	if (x->sandbox)
		x->sandbox->used_ms = clock_now_ms();
}

/* ---- ends ---- */

void
sandbox_box_ended(struct box *x)
{
	struct broker *b = x->b;
	struct sandbox *s = TAKE(x->sandbox);

	s->box = NULL;
	s->front = NULL;
	s->cause = x->cause;
	s->away_s = x->away_s;
	s->ended_ms = clock_now_ms();
	LOG_EVENT(sandbox_ended, .sandbox = s->id, .box = x->id, .cause = cause_word(s->cause),
		  .age_ms = s->ended_ms - s->born_ms);
	stays_less(b, s);
	TAILQ_REMOVE(&b->sandboxes.live, s, entry);
	TAILQ_INSERT_TAIL(&b->sandboxes.ended, s, entry);
	s->owner->ended++;
	if (++b->sandboxes.n_ended > SANDBOX_ENDED_MAX)
		forget(b, most_remembered(b));
	adopt_note_ended(s, b); /* that made it a place */
	adopt_drop(x);
}

void
sandbox_front_gone(struct front *f)
{
	struct sandbox *s, *next;

	for (s = TAILQ_FIRST(&f->b->sandboxes.live); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->front == f)
			box_end(s->box, f->b->stopping ? CAUSE_STOPPED : CAUSE_OWNER_GONE);
	}
}

/* ---- after a former broker ---- */

bool
sandbox_known(const struct broker *b, const char *id)
{
	return idmap_get(b->sandboxes.by_id, key_of(id, 32)) != NULL;
}

bool
sandbox_is_of(const struct front *f, const struct ipc_str *id)
{
	return sandbox_find(f, id) != NULL;
}

int
sandbox_restore(struct broker *b, struct sandbox *s, struct box *x)
{
	int r = idmap_put(b->sandboxes.by_id, key_of(s->id, 32), s);

	if (r < 0)
		return r;
	s->box = x;
	if (!x) {
		TAILQ_INSERT_TAIL(&b->sandboxes.ended, s, entry);
		b->sandboxes.n_ended++;
		s->owner->ended++;
		return 0;
	}
	x->sandbox = s;
	TAILQ_INSERT_TAIL(&b->sandboxes.live, s, entry);
	stays_more(b, s);
	return 0;
}

void
sandbox_front_back(struct front *f)
{
	struct sandbox *s;

	TAILQ_FOREACH(s, &f->b->sandboxes.live, entry)
	if (!s->front && s->front_peer && s->front_peer == f->peer_id)
		s->front = f;
}

void
sandbox_fronts_due(struct broker *b)
{
	struct sandbox *s, *next;

	for (s = TAILQ_FIRST(&b->sandboxes.live); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (!s->front && s->front_peer)
			box_end(s->box, CAUSE_OWNER_GONE);
	}
}

void
sandbox_refuse_lost(struct front *f, uint64_t call, const struct ipc_str *id)
{
	const struct sandbox *s = sandbox_find(f, id);
	struct run_facts facts = {.within = true, .cause = CAUSE_BROKER_GONE};
	char text[400];

	if (s && s->box) {
		front_refuse(f, call, RUN_lost,
			     "The run was lost while a process of Bailey was started again; its "
			     "sandbox goes on.",
			     0);
		return;
	}
	facts.cause = s ? s->cause : CAUSE_BROKER_GONE;
	facts.away_s = s ? s->away_s : 0;
	front_refuse(f, call, RUN_lost, verdict_message(&facts, RUN_lost, text, sizeof(text)), 0);
}

/* A run going on is use. */
static enum end_cause
over(const struct sandbox *s, uint64_t now_ms)
{
	if (now_ms >= s->born_ms + s->ttl_ms)
		return CAUSE_LIFETIME;
	if (TAILQ_EMPTY(&s->box->runs) && now_ms >= s->used_ms + s->idle_ms)
		return CAUSE_IDLE;
	return CAUSE_NONE;
}

void
sandbox_tick(struct broker *b, uint64_t now_ms)
{
	struct sandbox *s, *next;

	for (s = TAILQ_FIRST(&b->sandboxes.live); s; s = next) {
		enum end_cause cause = over(s, now_ms);

		next = TAILQ_NEXT(s, entry);
		if (cause != CAUSE_NONE)
			box_end(s->box, cause);
	}
	/* Not by a difference: one that ended just now did so after now_ms. */
	while ((s = TAILQ_FIRST(&b->sandboxes.ended)) && now_ms >= s->ended_ms + SANDBOX_ENDED_MS)
		forget(b, s);
}

/* ---- what its owner asks ---- */

static void
send_row(struct front *f, uint64_t call, const struct sandbox *s)
{
	uint64_t now = clock_now_ms();
	bool alive = s->box != NULL;

	(void)link_send(
		f->link,
		IPC_ROW(sandbox_row, .call = call, .sandbox = {s->id, 32},
			.profile = IPC_STR(s->profile->name), .alive = alive, .cause = s->cause,
			.keep = s->keep, .runs = alive ? box_count_runs(s->box) : 0,
			.age_ms = now - s->born_ms,
			.idle_ms = alive && !TAILQ_EMPTY(&s->box->runs) ? 0 : now - s->used_ms,
			.idle_limit_ms = s->idle_ms, .ttl_ms = alive ? sandbox_left_ms(s) : 0,
			.ended_ms = alive ? 0 : now - s->ended_ms, .memory_bytes = s->memory_bytes,
			.cpus_milli = s->cpus_milli));
}

static void
send_rows(struct front *f, uint64_t call, const struct sandbox_list *list)
{
	const struct sandbox *s;

	TAILQ_FOREACH(s, list, entry)
	if (s->owner == f->owner && !s->hold)
		send_row(f, call, s);
}

void
broker_on_sandbox_list(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct front *f = ctx;
	uint64_t call = row->u.sandbox_list.call;

	send_rows(f, call, &f->b->sandboxes.live);
	send_rows(f, call, &f->b->sandboxes.ended);
	(void)link_send(l, IPC_ROW(list_end, .call = call));
}

void
broker_on_sandbox_destroy(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_sandbox_destroy *m = &row->u.sandbox_destroy;
	struct front *f = ctx;
	struct sandbox *s = sandbox_find(f, &m->sandbox);

	(void)l;
	if (!s || !s->box) {
		not_found(f, m->call, s);
		return;
	}
	box_end(s->box, CAUSE_DESTROYED);
	front_refuse(f, m->call, RUN_ok, "", 0);
}
