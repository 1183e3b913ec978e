/*
 * broker/owners.c - owners and the frontends that act for them.
 *
 * Runs in: bailey-broker.
 * Input: peer rows of the supervisor (trusted): a frontend never says who it is.
 * Owns: struct owner (counted), struct front and its link.
 *
 * The end of a frontend's link cancels all its runs at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "broker.h"

#define FRONT_QUEUE_MAX ((size_t)16 << 20) /* above all credit 16 calls can hold */

struct owner *
owner_get(struct broker *b, enum owner_kind kind, uint64_t number)
{
	struct owner *o;

	TAILQ_FOREACH(o, &b->owners, link)
	if (o->kind == kind && o->number == number)
		return owner_ref(o);
	o = xcalloc(1, sizeof(*o));
	*o = (struct owner){.kind = kind, .number = number, .refs = 1};
	TAILQ_INIT(&o->queue);
	TAILQ_INSERT_TAIL(&b->owners, o, link);
	return o;
}

struct owner *
owner_ref(struct owner *o)
{
	o->refs++;
	return o;
}

void
owner_unref(struct broker *b, struct owner *o)
{
	if (!o || --o->refs)
		return;
	TAILQ_REMOVE(&b->owners, o, link);
	free(o);
}

static void
on_closed(void *ctx, struct link *l, int reason)
{
	struct front *f = ctx;

	(void)l;
	if (reason == 0)
		log_debug("front=%" PRIu64 " closed", f->peer_id);
	else
		log_warn("front=%" PRIu64 " closed, error %d", f->peer_id, reason);
	front_close(f);
}

static void
on_drained(void *ctx, struct link *l)
{
	(void)l;
	run_words_out(ctx);
}

int
front_open(struct broker *b, const struct ipc_peer *peer, int fd)
{
	cleanup_close int held = fd;
	struct front *f;

	if (peer->owner_kind != OWNER_TREE && peer->owner_kind != OWNER_UID)
		return -EINVAL;
	if (b->n_fronts >= FRONTS_MAX)
		return -EBUSY;
	f = xcalloc(1, sizeof(*f));
	f->b = b;
	f->peer_id = peer->peer_id;
	f->owner = owner_get(b, (enum owner_kind)peer->owner_kind, peer->owner);
	f->config = (struct link_config){.self = IPC_BROKER,
					 .peer = IPC_FRONTEND,
					 .routes = requests_routes,
					 .n_routes = requests_n_routes,
					 .ctx = f,
					 .queue_max = FRONT_QUEUE_MAX,
					 .on_closed = on_closed,
					 .on_drained = on_drained};
	TAILQ_INIT(&f->runs);
	TAILQ_INSERT_TAIL(&b->fronts, f, entry);
	b->n_fronts++;
	f->link = link_new(b->base, TAKE_FD(held), &f->config);
	if (!f->link) {
		front_close(f);
		return -ENOMEM;
	}
	return 0;
}

void
front_close(struct front *f)
{
	struct broker *b = f->b;
	struct run *r;

	link_free(TAKE(f->link));
	health_forget(f);
	while ((r = TAILQ_FIRST(&f->runs)))
		run_cancel(r, CAUSE_OWNER_GONE);
	TAILQ_REMOVE(&b->fronts, f, entry);
	b->n_fronts--;
	owner_unref(b, f->owner);
	free(f);
}

struct run *
front_run(struct front *f, uint64_t call)
{
	struct run *r;

	TAILQ_FOREACH(r, &f->runs, front_entry)
	if (r->call == call)
		return r;
	return NULL;
}
