/*
 * ipc/link.c - one end of a link: packets in by route, packets out by queue.
 * Runs in: every host process; with loop.c the only user of libevent here.
 * Input: untrusted packets of the peer.
 * Owns: the descriptor, its events and the queue of unsent packets.
 *
 * Receiving: at most RECV_BATCH packets a wake, then the loop goes on with
 * others. A packet is decoded, must have a route, come in a permitted state
 * and, where the route says so, only once; anything else ends the link with
 * -EPROTO. Sending: at once, or behind what is queued already. When the peer
 * is gone, what it sent before is still delivered; the end is only what the
 * read side finds. The end is told once, from the loop, never from inside a
 * call. A link freed inside its own handler is dead at once, but its memory
 * goes when that handler has returned.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "ipc.h"

#define RECV_BATCH 32
#define ROUTE_NONE 0xff /* a route index is smaller */
#define NUM_LIMIT 256   /* message numbers are one byte; a test of the table holds that */

struct packet {
	STAILQ_ENTRY(packet) next;
	size_t len;
	int fd; /* own duplicate, -1 none */
	uint8_t data[];
};

struct link {
	const struct link_config *config;
	int fd;
	struct event *ev_read, *ev_write, *ev_end;
	STAILQ_HEAD(, packet) queue;
	size_t queued;
	uint32_t state;
	int reason;
	bool gone;          /* the peer takes no more packets */
	bool ended;         /* nothing is read or sent any more; on_closed comes or came */
	bool freed;         /* by its own handler */
	unsigned int depth; /* handlers of this link on the stack */
	uint8_t route_of[NUM_LIMIT];
	bool seen[]; /* per route: for once */
};

/* One packet is handled at a time in a process, so one buffer each way serves
 * every link; a handler's views stand in the first while it sends from the second. */
static uint8_t recv_buffer[IPC_PACKET_MAX];
static uint8_t send_buffer[IPC_PACKET_MAX];

static void
queue_drop_first(struct link *l)
{
	struct packet *p = STAILQ_FIRST(&l->queue);

	STAILQ_REMOVE_HEAD(&l->queue, next);
	l->queued -= p->len;
	if (p->fd >= 0)
		(void)close(p->fd); /* the kernel has its own reference when it was sent */
	free(p);
}

static void
queue_drop(struct link *l)
{
	while (!STAILQ_EMPTY(&l->queue))
		queue_drop_first(l);
}

/* Stops the link and has the loop call on_closed. The first reason stays. */
static void
link_end(struct link *l, int reason)
{
	if (l->ended)
		return;
	errno = reason == 0 ? ESHUTDOWN : -reason;
	log_debug("link to %s ends: %m", ipc_role_name(l->config->peer));
	l->ended = true;
	l->reason = reason;
	(void)event_del(l->ev_read);
	(void)event_del(l->ev_write);
	queue_drop(l);
	event_active(l->ev_end, EV_TIMEOUT, 0);
}

static void
enter(struct link *l)
{
	l->depth++;
}

/* Leaves a handler. False when it freed the link, which is gone for good then. */
static bool
leave(struct link *l)
{
	if (--l->depth > 0 || !l->freed)
		return !l->freed;
	free(l);
	return false;
}

static void
on_end(int fd, short what, void *arg)
{
	struct link *l = arg;

	(void)fd;
	(void)what;
	enter(l);
	l->config->on_closed(l->config->ctx, l, l->reason);
	(void)leave(l);
}

/* The route a row may take now, or NULL. */
static const struct link_route *
route_find(struct link *l, enum ipc_num num)
{
	const struct link_route *route;
	uint8_t i = l->route_of[num];

	if (i == ROUTE_NONE)
		return NULL;
	route = &l->config->routes[i];
	if (route->states != 0 && (route->states & l->state) == 0)
		return NULL;
	if (route->once && l->seen[i])
		return NULL;
	l->seen[i] = true;
	return route;
}

/* "peer" is nothing without its descriptor; "watch_counter" says without one that there was no
 * place for it; no other row has one. */
static bool
fd_fits(enum ipc_num num, bool has)
{
	return num == IPC_NUM_peer ? has : num == IPC_NUM_watch_counter || !has;
}

/* One packet, from its decoding to its handler. False: stop reading, l may be gone. */
static bool
link_dispatch(struct link *l, size_t len, int *fd)
{
	const struct link_config *c = l->config;
	const struct link_route *route;
	struct ipc_row row;

	if (ipc_decode(recv_buffer, len, c->peer, c->self, &row) < 0) {
		link_end(l, -EPROTO);
		return false;
	}
	route = route_find(l, row.num);
	if (route == NULL || (c->on_fd != NULL && !fd_fits(row.num, *fd >= 0))) {
		log_debug("%s from %s refused", ipc_name(row.num), ipc_role_name(c->peer));
		link_end(l, -EPROTO);
		return false;
	}
	enter(l);
	if (c->on_fd != NULL && *fd >= 0)
		c->on_fd(c->ctx, l, TAKE_FD(*fd));
	if (!l->freed && !l->ended)
		route->handler(c->ctx, l, &row);
	return leave(l) && !l->ended;
}

static void
on_readable(int sock, short what, void *arg)
{
	struct link *l = arg;

	(void)what;
	for (int i = 0; i < RECV_BATCH; i++) {
		cleanup_close int fd = -1;
		ssize_t n = fdpass_recv(sock, recv_buffer, sizeof(recv_buffer),
					l->config->on_fd != NULL, &fd);

		/* A peer that closed with unread packets of ours is reported once,
		 * ahead of what it sent itself. */
		if (n == -EINTR || n == -ECONNRESET)
			continue;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			link_end(l, (int)n);
			return;
		}
		if (!link_dispatch(l, (size_t)n, &fd))
			return;
	}
}

void
link_read_out(struct link *l)
{
	bool more = !l->ended;

	while (more) {
		cleanup_close int fd = -1;
		ssize_t n = fdpass_recv(l->fd, recv_buffer, sizeof(recv_buffer),
					l->config->on_fd != NULL, &fd);

		if (n == -EINTR || n == -ECONNRESET)
			continue;
		more = n > 0 && link_dispatch(l, (size_t)n, &fd);
	}
}

static bool
peer_gone(int error)
{
	return error == -EPIPE || error == -ECONNRESET || error == -ECONNREFUSED ||
	       error == -ENOTCONN;
}

/* One packet to the socket: 0, -EAGAIN, or what is wrong with the link. */
static int
link_transmit(const struct link *l, const void *p, size_t len, int fd)
{
	int r;

	do
		r = fdpass_send(l->fd, p, len, fd);
	while (r == -EINTR);
	return r;
}

/* A failed transmission: the read side finds the end of a peer that left; any
 * other failure is the end here. */
static int
link_broken(struct link *l, int error)
{
	if (peer_gone(error)) {
		l->gone = true;
		queue_drop(l);
		(void)event_del(l->ev_write);
		return -EPIPE;
	}
	link_end(l, error);
	return error;
}

int
link_flush(struct link *l)
{
	if (l->ended)
		return -ENOTCONN;
	while (!STAILQ_EMPTY(&l->queue)) {
		const struct packet *p = STAILQ_FIRST(&l->queue);
		int r = link_transmit(l, p->data, p->len, p->fd);

		if (r == -EAGAIN)
			return r;
		if (r < 0)
			return link_broken(l, r);
		queue_drop_first(l);
	}
	(void)event_del(l->ev_write);
	return l->gone ? -EPIPE : 0;
}

static void
on_writable(int sock, short what, void *arg)
{
	struct link *l = arg;

	(void)sock;
	(void)what;
	if (link_flush(l) < 0 || l->config->on_drained == NULL)
		return;
	enter(l);
	l->config->on_drained(l->config->ctx, l);
	(void)leave(l);
}

static int
link_enqueue(struct link *l, const void *data, size_t len, int fd)
{
	struct packet *p;
	int own = -1;

	if (l->queued + len > l->config->queue_max) {
		link_end(l, -ENOBUFS);
		return -ENOBUFS;
	}
	if (fd >= 0) {
		own = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST_FREE);
		if (own == -1) {
			int error = -errno;

			link_end(l, error);
			return error;
		}
	}
	p = malloc(sizeof(*p) + len);
	if (p == NULL || event_add(l->ev_write, NULL) == -1) {
		free(p);
		if (own >= 0)
			(void)close(own);
		link_end(l, -ENOMEM);
		return -ENOMEM;
	}
	p->len = len;
	p->fd = own;
	memcpy(p->data, data, len);
	STAILQ_INSERT_TAIL(&l->queue, p, next);
	l->queued += len;
	return 0;
}

int
link_send_fd(struct link *l, const struct ipc_row *row, int fd)
{
	const struct link_config *c = l->config;
	size_t len;
	int r;

	if (l->ended || l->gone)
		return l->ended ? -ENOTCONN : -EPIPE;
	r = ipc_encode(row, c->self, c->peer, send_buffer, sizeof(send_buffer), &len);
	if (r < 0)
		return r;
	if (STAILQ_EMPTY(&l->queue)) {
		r = link_transmit(l, send_buffer, len, fd);
		if (r == 0)
			return 0;
		if (r != -EAGAIN)
			return link_broken(l, r);
	}
	return link_enqueue(l, send_buffer, len, fd);
}

int
link_send(struct link *l, const struct ipc_row *row)
{
	return link_send_fd(l, row, -1);
}

struct link *
link_new(struct event_base *base, int fd, const struct link_config *config)
{
	struct link *l;

	if (config->n_routes >= ROUTE_NONE)
		fatal("too many routes");
	l = xcalloc(1, sizeof(*l) + config->n_routes * sizeof(l->seen[0]));
	l->config = config;
	l->fd = fd;
	l->state = 1;
	STAILQ_INIT(&l->queue);
	memset(l->route_of, ROUTE_NONE, sizeof(l->route_of));
	for (size_t i = 0; i < config->n_routes; i++)
		l->route_of[config->routes[i].num] = (uint8_t)i;
	l->ev_read = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, l);
	l->ev_write = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, l);
	l->ev_end = event_new(base, -1, 0, on_end, l);
	if (l->ev_read == NULL || l->ev_write == NULL || l->ev_end == NULL ||
	    event_add(l->ev_read, NULL) == -1)
		fatal("no event for a link");
	return l;
}

void
link_free(struct link *l)
{
	if (l == NULL || l->freed)
		return;
	event_free(l->ev_read);
	event_free(l->ev_write);
	event_free(l->ev_end);
	queue_drop(l);
	(void)close(l->fd);
	l->fd = -1;
	l->ended = true;
	l->freed = true;
	if (l->depth == 0)
		free(l);
}

void
link_set_state(struct link *l, uint32_t state_bit)
{
	l->state = state_bit;
}

size_t
link_queued(const struct link *l)
{
	return l->queued;
}

int
link_fd(const struct link *l)
{
	return l->fd;
}
