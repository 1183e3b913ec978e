/*
 * supervisor/fronts.c - the frontends: one process for each client.
 * Runs in: baileyd.
 * Input: an accepted connection and what the kernel says of its other end.
 * Owns: the list of frontends and each struct child in it.
 * The machine of children.c works on them as on every child; here they are
 * made, counted, and freed once their process is gone. Freed never from inside
 * a step of their own: what called the machine buries the dead afterwards.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdlib.h>

int
fronts_start(struct tree *t, const struct client *client)
{
	struct child *c = xcalloc(1, sizeof(*c));

	child_init(c, t, CHILD_FRONTEND);
	c->client = *client;
	c->client.peer_id = ++t->last_peer;
	TAILQ_INSERT_TAIL(&t->fronts, c, entry);
	t->n_fronts++;
	child_start(c);
	int r = c->state == CHILD_GAVE_UP ? -EAGAIN : 0;
	/* A tree on stdio ends with its only frontend, and looks at it then. */
	if (!t->serve.stdio)
		fronts_bury(t);
	return r;
}

static void
bury(struct tree *t, struct child *c)
{
	TAILQ_REMOVE(&t->fronts, c, entry);
	t->n_fronts--;
	child_done(c);
	free(c);
}

void
fronts_bury(struct tree *t)
{
	struct child *next;
	bool any = false;

	for (struct child *c = TAILQ_FIRST(&t->fronts); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->state != CHILD_GAVE_UP || c->pid != 0)
			continue;
		bury(t, c);
		any = true;
	}
	if (any && t->acceptor != NULL)
		accept_room(t->acceptor);
}

size_t
fronts_of_user(const struct tree *t, uint64_t uid)
{
	const struct child *c;
	size_t n = 0;

	TAILQ_FOREACH(c, &t->fronts, entry)
	if (c->client.owner_kind == OWNER_UID && c->client.owner == uid)
		n++;
	return n;
}

size_t
fronts_of_kind(const struct tree *t, enum client_kind kind)
{
	const struct child *c;
	size_t n = 0;

	TAILQ_FOREACH(c, &t->fronts, entry)
	if (c->client.kind == kind)
		n++;
	return n;
}

void
fronts_done(struct tree *t)
{
	struct child *next;

	for (struct child *c = TAILQ_FIRST(&t->fronts); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		bury(t, c);
	}
}
