/*
 * frontend/transport.c - the one way from messages to whatever carries them.
 * Runs in: bailey-frontend.
 * Input: none of its own.
 * Owns: nothing; each kind of transport keeps its own state.
 */
#include "message.h"

int
transport_start(struct transport *t)
{
	return t->ops->start(t);
}

int
transport_send(struct transport *t, char *text, size_t len, const struct sent *as)
{
	return t->ops->send(t, text, len, as);
}

void
transport_send_nothing(struct transport *t, bool request)
{
	t->ops->send_nothing(t, request);
}

size_t
transport_queued(const struct transport *t)
{
	return t->ops->queued(t);
}

void
transport_stop_reading(struct transport *t)
{
	t->ops->stop_reading(t);
}

void
transport_free(struct transport *t)
{
	if (t != NULL)
		t->ops->free(t);
}
