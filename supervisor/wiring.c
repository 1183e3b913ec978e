/*
 * supervisor/wiring.c - which process talks to which, and how a new process
 * gets its ends of the links.
 * Runs in: baileyd.
 * Input: trusted.
 * Owns: link ends that wait for a process that is not running (tree.held).
 * There is no link between frontend and reaper: nothing a client can reach may
 * talk to the process that signals.
 *
 * A link is made when one of its two processes starts. If the other one runs it
 * gets its end by a "peer" message and puts it in the old one's place; if not,
 * the end waits for it, and what is sent meanwhile waits in the socket.
 */
#include "supervisor.h"

#include <errno.h>

const struct wiring_row wiring_links[WIRING_LINKS] = {
	/* The broker's frontends come and go, so it always gets them by message, with the owner. */
	{.end = {CHILD_FRONTEND, CHILD_BROKER}, .by_peer = {false, true}},
	{.end = {CHILD_BROKER, CHILD_REAPER}, .by_peer = {false, false}},
};

#define PRIVATE_FRONTEND 1u /* a private tree has one client */

void
wiring_init(struct tree *t)
{
	for (size_t i = 0; i < WIRING_LINKS; i++)
		t->held[i][0] = t->held[i][1] = -1;
}

static void
drop(int *fd)
{
	cleanup_closep(fd);
	*fd = -1;
}

void
wiring_done(struct tree *t)
{
	for (size_t i = 0; i < WIRING_LINKS; i++) {
		drop(&t->held[i][0]);
		drop(&t->held[i][1]);
	}
}

/* Tells a child of its new peer; the descriptor stays ours. */
static int
send_peer(struct tree *t, enum child_id to, enum child_id peer, int fd)
{
	struct link *l = t->child[to].link;
	bool frontend = peer == CHILD_FRONTEND;

	if (l == NULL)
		return -ENOTCONN;
	return link_send_fd(l,
			    IPC_ROW(peer, .role = children_role(peer),
				    .peer_id = frontend ? PRIVATE_FRONTEND : 0,
				    .owner_kind = frontend ? OWNER_TREE : 0,
				    .owner = frontend ? t->facts.tree_pid : 0),
			    fd);
}

static bool
is_running(const struct tree *t, enum child_id id)
{
	enum child_state s = t->child[id].state;

	return (s == CHILD_STARTING || s == CHILD_READY) && t->child[id].link != NULL;
}

/* A fresh pair for a link row: one end is held for side, the other finds its process. */
static int
connect_row(struct tree *t, size_t row, size_t side)
{
	enum child_id id = wiring_links[row].end[side];
	enum child_id other = wiring_links[row].end[1 - side];
	int pair[2];

	int r = fd_seqpacket_pair(pair);
	if (r < 0)
		return r;
	t->held[row][side] = pair[0];
	drop(&t->held[row][1 - side]); /* of a pair whose other process never used it */
	if (!is_running(t, other)) {
		t->held[row][1 - side] = pair[1];
		return 0;
	}
	r = send_peer(t, other, id, pair[1]);
	cleanup_closep(&pair[1]);
	/* A process whose link just broke is on its way out; its next start makes a new pair. */
	return r == -EPIPE || r == -ENOTCONN ? 0 : r;
}

int
wiring_before_start(struct tree *t, enum child_id id, int *ret_fd)
{
	int fd = -1;

	for (size_t row = 0; row < WIRING_LINKS; row++) {
		for (size_t side = 0; side < 2; side++) {
			if (wiring_links[row].end[side] != id)
				continue;
			int r = t->held[row][side] == -1 ? connect_row(t, row, side) : 0;
			if (r < 0) {
				cleanup_closep(&fd);
				return r;
			}
			if (!wiring_links[row].by_peer[side])
				fd = TAKE_FD(t->held[row][side]);
		}
	}
	*ret_fd = fd;
	return 0;
}

int
wiring_after_start(struct tree *t, enum child_id id)
{
	for (size_t row = 0; row < WIRING_LINKS; row++) {
		for (size_t side = 0; side < 2; side++) {
			if (wiring_links[row].end[side] != id || t->held[row][side] == -1)
				continue;
			int r = send_peer(t, id, wiring_links[row].end[1 - side],
					  t->held[row][side]);
			drop(&t->held[row][side]);
			if (r < 0)
				return r;
		}
	}
	return 0;
}
