/*
 * supervisor/wiring.c - which process talks to which, and how a new process
 * gets its ends of the links.
 * Runs in: baileyd.
 * Input: trusted.
 * Owns: link ends that wait for a process that is not running (child.held, at
 * the child that is the first end of the link).
 * There is no link between frontend and reaper: nothing a client can reach may
 * talk to the process that signals. A broker has a link to each frontend.
 *
 * A link is made when one of its two processes starts. If the other one runs it
 * gets its end by a "peer" message and puts it in the old one's place; if not,
 * the end waits for it, and what is sent meanwhile waits in the socket: for a
 * moment, not for a process that cannot be started or is only tried once a minute.
 */
#include "supervisor.h"

#include <errno.h>

#define HOLD_MS 10000u /* for a process that is not there; calls wait about as long */

const struct wiring_row wiring_links[WIRING_LINKS] = {
	/* The broker's frontends come and go, so it always gets them by message, with the owner. */
	{.end = {CHILD_FRONTEND, CHILD_BROKER}, .by_peer = {false, true}},
	{.end = {CHILD_BROKER, CHILD_REAPER}, .by_peer = {false, false}},
};

static void
drop(int *fd)
{
	cleanup_closep(fd);
	*fd = -1;
}

void
wiring_drop(struct child *c)
{
	drop(&c->held[0]);
	drop(&c->held[1]);
}

/* Tells a child of its new peer; the descriptor stays ours. */
static int
send_peer(const struct child *to, const struct child *peer, int fd)
{
	bool frontend = peer->id == CHILD_FRONTEND;

	if (to->link == NULL)
		return -ENOTCONN;
	return link_send_fd(to->link,
			    IPC_ROW(peer, .role = children_role(peer->id),
				    .peer_id = frontend ? peer->client.peer_id : 0,
				    .owner_kind = frontend ? peer->client.owner_kind : 0,
				    .owner = frontend ? peer->client.owner : 0),
			    fd);
}

static bool
is_running(const struct child *c)
{
	return (c->state == CHILD_STARTING || c->state == CHILD_READY) && c->link != NULL;
}

/* The links of a row in which c has that side, one after the other: the child that is the first
 * end of each, and so holds what waits. last NULL: the first one. */
static struct child *
next_holder(struct child *c, size_t row, size_t side, struct child *last)
{
	struct tree *t = c->tree;

	if (wiring_links[row].end[side] != c->id)
		return NULL;
	if (side == 0)
		return last == NULL ? c : NULL;
	if (wiring_links[row].end[0] != CHILD_FRONTEND)
		return last == NULL ? &t->child[wiring_links[row].end[0]] : NULL;
	do
		last = last == NULL ? TAILQ_FIRST(&t->fronts) : TAILQ_NEXT(last, entry);
	while (last != NULL && !is_running(last)); /* one that ends needs no link any more */
	return last;
}

static struct child *
other_end(const struct child *c, size_t row, size_t side, struct child *holder)
{
	return side == 0 ? &c->tree->child[wiring_links[row].end[1]] : holder;
}

/* It failed so often that the next try is far away: who would talk to it had better know. */
static bool
is_far_off(const struct child *c)
{
	return c->state == CHILD_BACKOFF && children_delay_ms(c->failures) > HOLD_MS;
}

/* A fresh pair: one end is held for c, the other finds its process. */
static int
connect_pair(struct child *c, struct child *holder, size_t side, struct child *other)
{
	int pair[2];

	int r = fd_seqpacket_pair(pair);
	if (r < 0)
		return r;
	holder->held[side] = pair[0];
	drop(&holder->held[1 - side]); /* of a pair whose other process never used it */
	if (!is_running(other)) {
		holder->held[1 - side] = pair[1];
		if (is_far_off(other))
			drop(&holder->held[1 - side]);
		return 0;
	}
	r = send_peer(other, c, pair[1]);
	if (c->restarts > 0)
		tally_add(TALLY_rewirings);
	cleanup_closep(&pair[1]);
	/* A process whose link just broke is on its way out; its next start makes a new pair. */
	return r == -EPIPE || r == -ENOTCONN ? 0 : r;
}

/* Ends for one side of a row; the one c inherits is taken into *fd. */
static int
connect_side(struct child *c, size_t row, size_t side, int *fd)
{
	struct child *holder = next_holder(c, row, side, NULL);

	for (; holder != NULL; holder = next_holder(c, row, side, holder)) {
		int r = 0;
		if (holder->held[side] == -1)
			r = connect_pair(c, holder, side, other_end(c, row, side, holder));
		if (r < 0)
			return r;
		if (!wiring_links[row].by_peer[side])
			*fd = TAKE_FD(holder->held[side]);
	}
	return 0;
}

int
wiring_before_start(struct child *c, int *ret_fd)
{
	int fd = -1;

	for (size_t i = 0; i < 2 * ARRAY_LEN(wiring_links); i++) {
		int r = connect_side(c, i / 2, i % 2, &fd);
		if (r < 0) {
			cleanup_closep(&fd);
			return r;
		}
	}
	*ret_fd = fd;
	return 0;
}

void
wiring_unstarted(struct child *c)
{
	for (size_t i = 0; i < 2 * ARRAY_LEN(wiring_links); i++) {
		struct child *holder = next_holder(c, i / 2, i % 2, NULL);

		for (; holder != NULL; holder = next_holder(c, i / 2, i % 2, holder))
			if (wiring_links[i / 2].by_peer[i % 2])
				drop(&holder->held[i % 2]);
	}
}

int
wiring_after_start(struct child *c)
{
	for (size_t i = 0; i < 2 * ARRAY_LEN(wiring_links); i++) {
		struct child *holder = next_holder(c, i / 2, i % 2, NULL);

		for (; holder != NULL; holder = next_holder(c, i / 2, i % 2, holder)) {
			if (holder->held[i % 2] == -1)
				continue;
			int r = send_peer(c, other_end(c, i / 2, i % 2, holder),
					  holder->held[i % 2]);
			drop(&holder->held[i % 2]);
			if (r < 0)
				return r;
		}
	}
	return 0;
}
