/*
 * broker/sweep.c - the engine's list against what we know: removes what a dead
 * tree or a former broker left, and notices which of our boxes vanished.
 *
 * Runs in: bailey-broker.
 * Input: the engine's list (untrusted: labels may be forged by anyone who may
 *        use the engine, who needs no forgery to remove containers).
 * Owns: struct sweep, the ids still to be removed.
 *
 * The first list is asked for again some seconds later: what an engine was still making for a
 * tree just killed is in no list before it is made. What then is not started may be one that a
 * live tree is making; where nobody can tell, it goes once it has been so for a minute.
 *
 * A container of another tree is only removed after the reaper, which can look
 * at processes, has said that its tree is dead. One of this tree is removed when
 * its box number is unknown here: a former broker of this tree made it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define AGAIN_MS 5000u
#define UNSTARTED_MS 62000u /* the reaper wants it unstarted for 60 s, where it cannot look */

static void remove_next(struct broker *b);

static void
on_removed(void *ctx, uint64_t tag, const struct engine_result *r)
{
	struct broker *b = ctx;

	(void)tag;
	if (r->err < 0 && r->err != -EEXIST) /* that one is being removed already */
		log_warn("sweep: a container was not removed: %s", r->message ? r->message : "");
	b->sweep.busy = false;
	remove_next(b);
}

/* One at a time: a sweep is never in a hurry, calls are. */
static void
remove_next(struct broker *b)
{
	struct sweep *s = &b->sweep;
	char id[65];

	if (s->busy || s->n == 0)
		return;
	s->busy = true;
	memcpy(id, s->ids[--s->n], sizeof(id));
	LOG_EVENT(container_swept, .container = id);
	tally_add(TALLY_sweep_removed);
	engine_remove(b->engine, id, b, 0, on_removed);
}

void
sweep_remove(struct broker *b, const char *container)
{
	struct sweep *s = &b->sweep;

	if (s->n == ARRAY_LEN(s->ids) || !b->engine)
		return; /* the next sweep finds it again */
	(void)snprintf(s->ids[s->n++], sizeof(s->ids[0]), "%s", container);
	remove_next(b);
}

/* For how long we have known that container not to be started. What the engine says of its age is
 * wall clock: one set forward would make it old, one set back young for ever. */
static uint64_t
unstarted_s(struct sweep *s, const char *id)
{
	uint64_t now = clock_now_ms();
	struct unstarted *u = s->unstarted;

	while (u < s->unstarted + s->n_unstarted && strcmp(u->id, id) != 0)
		u++;
	if (u == s->unstarted + ARRAY_LEN(s->unstarted))
		return 0; /* the next one to come up has its turn once others are gone */
	if (u == s->unstarted + s->n_unstarted) {
		(void)snprintf(u->id, sizeof(u->id), "%s", id);
		u->since_ms = now;
		s->n_unstarted++;
	}
	u->listed = true;
	return (now - u->since_ms) / 1000;
}

static void
forget_unlisted(struct sweep *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_unstarted; i++) {
		if (!s->unstarted[i].listed)
			continue;
		s->unstarted[n] = s->unstarted[i];
		s->unstarted[n++].listed = false;
	}
	s->n_unstarted = n;
}

/* A second list after some seconds, and a third one where that showed something not started. */
static void
list_again(struct sweep *s)
{
	if (s->again_ms == 0) {
		s->again_ms = clock_now_ms() + AGAIN_MS;
	} else if (s->again_ms == UINT64_MAX && s->n_unstarted && !s->waited) {
		s->waited = true;
		s->again_ms = clock_now_ms() + UNSTARTED_MS;
	}
}

static void
ask_reaper(struct broker *b, const struct engine_container *c)
{
	uint64_t age = c->created_only ? unstarted_s(&b->sweep, c->id) : 0;

	(void)orders_send(b, IPC_ROW(sweep_candidate, .container = IPC_STR(c->id),
				     .boot_id = IPC_STR(c->boot_id), .tree_pid = c->tree_pid,
				     .tree_start = c->tree_start, .pid_ns = c->pid_ns,
				     .running = c->created_only ? 0 : 1, .age_s = age));
}

static void
look_at(struct broker *b, const struct engine_container *c)
{
	struct box *x;

	if (strcmp(c->instance, b->settings.instance) != 0) {
		ask_reaper(b, c);
		return;
	}
	x = box_find(b, c->box);
	if (!x) {
		/* Numbers grow: one above ours cannot be of a former broker. */
		if (c->box < b->next_box)
			sweep_remove(b, c->id);
	} else if (strcmp(x->container, c->id) == 0) {
		x->listed = true;
	}
}

static void
on_list(void *ctx, const struct engine_result *r, const struct engine_container *list, size_t n)
{
	struct broker *b = ctx;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	b->sweep.listing = false;
	if (r->err < 0) {
		list_again(&b->sweep);
		log_warn("sweep: no list: %s", r->message ? r->message : "");
		probe_lost(b, r);
		return;
	}
	for (size_t i = 0; i < n; i++)
		look_at(b, &list[i]);
	forget_unlisted(&b->sweep);
	list_again(&b->sweep);
	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		struct box *x = obj;
		bool known = x->asked_list; /* it existed before the list was asked for */

		x->asked_list = false;
		if (known && !x->listed)
			box_event(x, ON_DESTROYED);
		x->listed = false;
	}
}

void
sweep_start(struct broker *b)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	if (b->sweep.listing)
		return;
	b->sweep.listing = true;
	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		struct box *x = obj;

		x->asked_list = x->container[0] != '\0';
		x->listed = false;
	}
	engine_list(b->engine, b->settings.user_hash, b, on_list);
}

void
sweep_tick(struct broker *b, uint64_t now_ms)
{
	if (b->sweep.again_ms == 0 || now_ms < b->sweep.again_ms || b->stopping)
		return;
	b->sweep.again_ms = UINT64_MAX;
	sweep_start(b);
}

void
broker_on_sweep_verdict(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_sweep_verdict *m = &row->u.sweep_verdict;
	char id[65];

	(void)l;
	if (m->dead && str_copy(id, sizeof(id), m->container.data, m->container.len) == 0)
		sweep_remove(ctx, id);
}
