/*
 * broker/adopt.c - sandboxes that stay, written down for the next broker, and made
 * anew from what a former one wrote.
 *
 * Runs in: bailey-broker.
 * Input: records whose checksum is right, so a broker of this very program wrote them.
 * Owns: nothing.
 *
 * A record is written before the act it speaks of: a run before its first frame,
 * the last guest frame before its acknowledgement. What a call holds for its own
 * steps (CALL_HOLD) is not kept: it is of single use.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker.h"

#define ADOPT_FRONTS_MS 3000u /* frontends that live have a link long before */

/* ---- written ---- */

static void
fill_name(struct keep_name *to, const struct sandbox *s)
{
	*to = (struct keep_name){.owner_kind = s->owner->kind,
				 .owner_number = s->owner->number,
				 .keep = s->keep,
				 .front = s->front_peer,
				 .memory_bytes = s->memory_bytes,
				 .cpus_milli = s->cpus_milli,
				 .born_ms = s->born_ms,
				 .used_ms = s->used_ms,
				 .ttl_ms = s->ttl_ms,
				 .idle_ms = s->idle_ms};
	memcpy(to->id, s->id, sizeof(to->id));
	memcpy(to->principal, s->owner->principal, sizeof(to->principal));
	(void)str_copy(to->profile, sizeof(to->profile), s->profile->name,
		       strlen(s->profile->name));
}

static void
fill_run(struct keep_run *to, const struct run *r)
{
	const struct session_run *n = session_run(&r->box->session, r->number);

	*to = (struct keep_run){.number = r->number,
				.flags = r->flags,
				.state = (r->withdrawn ? (uint32_t)KEEP_WITHDRAWN : 0) |
					 (r->alone ? (uint32_t)KEEP_ALONE : 0),
				.start = r->start,
				.front = r->front ? r->front->peer_id : r->awaits,
				.call = r->call,
				.deadline_ns = r->deadline_ns,
				.run_us = r->run_us,
				.limits = r->limits};
	memcpy(to->run_id, r->run_id, sizeof(to->run_id));
	if (!n)
		return;
	to->ordered_seq = n->ordered_seq;
	memcpy(to->sent, n->marked, sizeof(to->sent));
	memcpy(to->tail, n->marked_tail, sizeof(to->tail));
}

/* Numbers that no run has: parts of a specification, told to end. */
static void
note_parts(struct box *x, struct keep_box *b)
{
	for (uint32_t i = 0; i < GUEST_RUNS_MAX && b->n_runs < GUEST_RUNS_MAX; i++) {
		const struct session_run *n = &x->session.run[i];

		if (n->number && n->ended && !box_run(x, n->number))
			b->run[b->n_runs++] =
				(struct keep_run){.number = n->number, .state = KEEP_PARTS};
	}
}

void
adopt_note(struct box *x)
{
	static struct keep_box b; /* one thread, used within the call */
	const struct run *r;

	if (x->kept == KEEP_NONE || !x->sandbox || x->state == BOX_CLAIMED)
		return;
	b = (struct keep_box){.box = x->id,
			      .box_class = x->box_class,
			      .lifetime_s = x->lifetime_s,
			      .last_run = x->session.last_run,
			      .guest_seq = x->session.marked_seq,
			      .born_ms = x->born_ms,
			      .end_ns = x->end_ns,
			      .affinity = x->affinity,
			      .limits = x->limits};
	fill_name(&b.name, x->sandbox);
	memcpy(b.container, x->container, sizeof(b.container));
	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->within && r->number && b.n_runs < GUEST_RUNS_MAX)
		fill_run(&b.run[b.n_runs++], r);
	note_parts(x, &b);
	keep_put(x->b->keep, x->kept, &b);
}

void
adopt_mark(struct box *x)
{
	session_mark(&x->session);
	adopt_note(x);
}

void
adopt_keep(struct box *x)
{
	struct broker *b = x->b;

	if (!b->keep || x->sandbox->hold)
		return;
	x->kept = keep_new(b->keep);
	session_mark(&x->session);
	adopt_note(x);
	(void)orders_send(b, IPC_ROW(watch_stays, .box = x->id));
}

void
adopt_drop(struct box *x)
{
	keep_free(x->b->keep, x->kept);
	x->kept = KEEP_NONE;
}

void
adopt_note_ended(struct sandbox *s, struct broker *b)
{
	struct keep_ended e = {.cause = s->cause, .away_s = s->away_s, .ended_ms = s->ended_ms};

	if (!b->keep || s->hold)
		return;
	fill_name(&e.name, s);
	s->kept = keep_put_ended(b->keep, &e);
}

void
adopt_forget(struct broker *b, struct sandbox *s)
{
	keep_free_ended(b->keep, s->kept);
	s->kept = KEEP_NONE;
}

/* ---- made anew ---- */

static struct sandbox *
new_sandbox(struct broker *b, const struct keep_name *n)
{
	const struct profile *p = profile_find(n->profile, strlen(n->profile));
	struct sandbox *s;

	if (!p)
		return NULL;
	s = xcalloc(1, sizeof(*s));
	*s = (struct sandbox){.owner = owner_get(b, (enum owner_kind)n->owner_kind, n->owner_number,
						 n->principal),
			      .front_peer = n->front,
			      .profile = p,
			      .keep = n->keep,
			      .kept = KEEP_NONE,
			      .memory_bytes = n->memory_bytes,
			      .cpus_milli = n->cpus_milli,
			      .born_ms = n->born_ms,
			      .used_ms = n->used_ms,
			      .ttl_ms = n->ttl_ms,
			      .idle_ms = n->idle_ms};
	memcpy(s->id, n->id, sizeof(s->id));
	return s;
}

static void
give_up(struct broker *b, struct sandbox *s)
{
	if (s)
		owner_unref(b, s->owner);
	free(s);
}

static void
adopt_ended(struct broker *b, uint32_t place, const struct keep_ended *e)
{
	struct sandbox *s = new_sandbox(b, &e->name);

	if (s) {
		s->cause = (enum end_cause)e->cause;
		s->away_s = e->away_s;
		s->ended_ms = e->ended_ms;
		s->kept = place;
	}
	if (!s || sandbox_restore(b, s, NULL) < 0) {
		give_up(b, s);
		keep_free_ended(b->keep, place);
	}
}

/* Its place in what is kept of output: a former broker wrote there up to some byte. */
static void
adopt_store(struct run *r, const struct keep_run *k)
{
	struct broker *b = r->b;

	r->kept = store_run_resume(b->store, r->run_id, r->owner);
	for (uint32_t i = STREAM_STDOUT; i <= STREAM_STDERR; i++) {
		struct store_has has;

		store_has(b->store, r->kept, i, &has);
		r->stored[i] = has.out > k->sent[i] ? has.out - k->sent[i] : 0;
		r->stored_tail[i] = has.tail > k->tail[i] ? has.tail - k->tail[i] : 0;
	}
}

static void
adopt_run(struct box *x, const struct keep_run *k)
{
	struct broker *b = x->b;
	struct run *r = xcalloc(1, sizeof(*r));
	struct session_run *n;

	*r = (struct run){.id = b->next_run++,
			  .call = k->call,
			  .b = b,
			  .owner = owner_ref(x->sandbox->owner),
			  .phase = PHASE_ACTIVE,
			  .box_class = x->box_class,
			  .flags = k->flags,
			  .profile = x->profile,
			  .limits = k->limits,
			  .start = (enum run_start)k->start,
			  .box = x,
			  .number = k->number,
			  .within = true,
			  .resumes = true,
			  .withdrawn = k->state & KEEP_WITHDRAWN,
			  .alone = k->state & KEEP_ALONE,
			  .awaits = k->front,
			  .deadline_ns = k->deadline_ns,
			  .run_us = k->run_us};
	memcpy(r->run_id, k->run_id, sizeof(r->run_id));
	adopt_store(r, k);
	if (idmap_put(b->runs, r->id, r) < 0)
		fatal("no room for a run");
	TAILQ_INSERT_TAIL(&x->runs, r, box_entry);
	n = session_run_resume(&x->session, k->number, k->sent, k->tail);
	if (n)
		n->ordered_seq = k->ordered_seq;
}

static void
adopt_parts(struct box *x, const struct keep_run *k)
{
	struct session_run *n = session_run_resume(&x->session, k->number, k->sent, k->tail);

	if (n)
		n->ended = true; /* its EXIT may come */
}

static void
adopt_box(struct broker *b, uint32_t place, const struct keep_box *k)
{
	struct sandbox *s = new_sandbox(b, &k->name);
	struct box *x;

	if (!s || box_find(b, k->box) || sandbox_known(b, s->id)) {
		give_up(b, s); /* its end was written down before its place was freed */
		keep_free(b->keep, place);
		return;
	}
	x = box_restore(b, k->box, s->profile, (enum box_class)k->box_class, &k->limits);
	x->kept = place;
	x->lifetime_s = k->lifetime_s;
	x->born_ms = k->born_ms;
	x->end_ns = k->end_ns;
	x->affinity = pins_take_again(b, k->affinity);
	x->session.last_run = k->last_run;
	x->session.guest_seq = x->session.marked_seq = k->guest_seq;
	memcpy(x->container, k->container, sizeof(x->container));
	admission_count(x, s->owner);
	(void)sandbox_restore(b, s, x);
	for (uint32_t i = 0; i < k->n_runs; i++)
		if (k->run[i].state & KEEP_PARTS)
			adopt_parts(x, &k->run[i]);
		else
			adopt_run(x, &k->run[i]);
	log_info("box=%" PRIu64 " of a former broker, %u runs", x->id, k->n_runs);
	resume_claim(x);
}

/* A broker that dies can log nothing, and the frontends count nothing. */
static void
adopt_lost(struct broker *b)
{
	struct store_facts lost;
	uint32_t run;

	while ((run = store_next_lost(b->store)) != STORE_NONE) {
		store_facts(b->store, run, &lost);
		LOG_EVENT(run_ended, .run = lost.run_id,
			  .sandbox = lost.sandbox[0] ? lost.sandbox : NULL, .box = lost.box,
			  .status = run_status_name(RUN_lost));
		tally_add(TALLY_RUNS + (uint32_t)RUN_lost);
	}
}

void
adopt_all(struct broker *b)
{
	uint64_t was = keep_stamp_ms(b->keep), now = clock_now_ms();
	static struct keep_box k;
	struct keep_ended e;
	uint32_t cursor = 0, place;

	if (was && was < now) {
		b->away_ms = now - was;
		b->away_at_ms = now;
	}
	while (keep_next_ended(b->keep, &cursor, &place, &e))
		adopt_ended(b, place, &e);
	cursor = 0;
	while (keep_next(b->keep, &cursor, &place, &k))
		adopt_box(b, place, &k);
	adopt_lost(b);
	if (!idmap_count(b->boxes))
		return;
	b->fronts_due_ms = now + ADOPT_FRONTS_MS;
	probe_need(b);
}
