/*
 * broker/owners.c - owners and the frontends that act for them.
 *
 * Runs in: bailey-broker.
 * Input: peer rows of the supervisor (trusted): a frontend never says who it is.
 * Owns: struct owner (counted), struct front and its link.
 *
 * The end of a frontend's link cancels all its runs at once, and ends the sandboxes
 * bound to it. An http front belongs to nobody until its token came, and to the
 * token's principal for good: all of a principal's fronts are one owner.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

#define FRONT_QUEUE_MAX ((size_t)16 << 20) /* above all credit 16 calls can hold */

struct owner *
owner_get(struct broker *b, enum owner_kind kind, uint64_t number, const char *principal)
{
	struct owner *o;

	TAILQ_FOREACH(o, &b->owners, link)
	if (o->kind == kind && o->number == number && strcmp(o->principal, principal) == 0)
		return owner_ref(o);
	o = xcalloc(1, sizeof(*o));
	*o = (struct owner){.kind = kind, .number = number, .refs = 1};
	if (str_copy(o->principal, sizeof(o->principal), principal, strlen(principal)) < 0)
		fatal("a principal's name that is too long"); /* auth.c takes none */
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

	if (peer->owner_kind != OWNER_TREE && peer->owner_kind != OWNER_UID &&
	    peer->owner_kind != OWNER_TOKEN)
		return -EINVAL;
	if (b->n_fronts >= FRONTS_MAX)
		return -EBUSY;
	f = xcalloc(1, sizeof(*f));
	f->b = b;
	f->peer_id = peer->peer_id;
	if (peer->owner_kind != OWNER_TOKEN)
		f->owner = owner_get(b, (enum owner_kind)peer->owner_kind, peer->owner, "");
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
	link_set_state(f->link, f->owner ? FRONT_BOUND : FRONT_NOBODY);
	sandbox_front_back(f);
	return 0;
}

static uint32_t
fronts_of(const struct broker *b, const struct owner *o)
{
	const struct front *f;
	uint32_t n = 0;

	TAILQ_FOREACH(f, &b->fronts, entry)
	if (f->owner == o)
		n++;
	return n;
}

int
owner_bind(struct front *f, const char *principal)
{
	struct owner *o;

	if (f->owner)
		return f->owner->kind == OWNER_TOKEN && strcmp(f->owner->principal, principal) == 0
			       ? 0
			       : -EPERM;
	o = owner_get(f->b, OWNER_TOKEN, 0, principal);
	if (fronts_of(f->b, o) >= PRINCIPAL_FRONTS_MAX) {
		owner_unref(f->b, o);
		return -EBUSY;
	}
	f->owner = o;
	link_set_state(f->link, FRONT_BOUND);
	return 0;
}

bool
front_bound(const struct front *f)
{
	return f->owner != NULL;
}

void
front_drop(struct front *f, const char *why)
{
	LOG_EVENT(front_dropped, .front = f->peer_id, .why = why);
	tally_add(TALLY_fronts_dropped);
	front_close(f);
}

static size_t
unread(const struct front *f)
{
	return f->link ? link_queued(f->link) : 0;
}

size_t
fronts_unread(const struct broker *b)
{
	const struct front *f;
	size_t sum = 0;

	TAILQ_FOREACH(f, &b->fronts, entry)
	sum += unread(f);
	return sum;
}

void
fronts_tick(struct broker *b)
{
	size_t sum = fronts_unread(b), mean = b->n_fronts ? sum / b->n_fronts : 0;
	struct front *f, *next;

	for (f = TAILQ_FIRST(&b->fronts); f && sum > FRONTS_UNREAD_MAX; f = next) {
		next = TAILQ_NEXT(f, entry);
		if (unread(f) < mean)
			continue;
		sum -= unread(f);
		front_drop(f, "it does not read, and others neither");
	}
}

void
front_refuse(struct front *f, uint64_t call, enum run_status status, const char *message,
	     uint32_t retry_ms)
{
	(void)link_send(f->link, IPC_ROW(call_ended, .call = call, .status = status,
					 .retry_ms = retry_ms, .message = IPC_STR(message)));
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
	sandbox_front_gone(f);
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
