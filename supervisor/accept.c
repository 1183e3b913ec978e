/*
 * supervisor/accept.c - connections in: who is it, is there room, then a
 * frontend of its own.
 * Runs in: baileyd, under its filter.
 * Input: connections; nothing is ever read from one.
 * Owns: the listening descriptors and their events.
 *
 * Limits, and what happens at each:
 *   all connections together   no more is accepted until a frontend is gone
 *   http, beside a unix socket: the same at three quarters of all, since nobody knows yet who such
 *	a connection is: those who may use the socket still find room
 *   connections of one user    the new one is closed
 *   new connections per second of one user: the new one is closed; of http,
 *	whose clients are all alike before their token is seen: accepting waits
 *   descriptors, processes     accepting waits a moment
 * Whoever provokes a line in the log does so a few times in ten seconds.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#define BATCH 16      /* accepted in one go; then the loop looks after others */
#define PAUSE_MS 100u /* when the system has no descriptor or process for us */
#define SOURCES 64    /* users remembered for their rate; the longest unseen makes room */
#define MILLI 1000u

struct source {
	uint64_t uid, seen_ms;
	uint64_t milli; /* thousandths of a connection */
	bool known;
};
struct door {
	struct acceptor *owner;
	enum client_kind kind;
	int fd;
	struct event *readable; /* NULL: no such listener */
};
struct acceptor {
	struct tree *tree;
	struct accept_limits limits;
	struct door unix_door, http_door;
	struct source http_source, sources[SOURCES];
	struct event *resume;
};

/* One connection out of the source's bucket. */
static bool
take_one(const struct accept_limits *limits, struct source *s)
{
	uint64_t now = clock_now_ms();
	uint64_t full = (uint64_t)limits->burst * MILLI;

	if (!s->known)
		*s = (struct source){.uid = s->uid, .known = true, .milli = full};
	else
		s->milli += (now - s->seen_ms) * limits->per_second; /* ms x 1/s = thousandths */
	s->seen_ms = now;
	if (s->milli > full)
		s->milli = full;
	if (s->milli < MILLI)
		return false;
	s->milli -= MILLI;
	return true;
}

static struct source *
source_of(struct acceptor *a, uint64_t uid)
{
	struct source *oldest = &a->sources[0];

	for (size_t i = 0; i < SOURCES; i++) {
		struct source *s = &a->sources[i];
		if (s->known && s->uid == uid)
			return s;
		if (!s->known || s->seen_ms < oldest->seen_ms)
			oldest = s;
	}
	*oldest = (struct source){.uid = uid};
	return oldest;
}

static void
pause_all(struct acceptor *a, uint32_t ms)
{
	if (a->unix_door.readable != NULL)
		(void)event_del(a->unix_door.readable);
	if (a->http_door.readable != NULL)
		(void)event_del(a->http_door.readable);
	if (ms > 0)
		loop_add_ms(a->resume, ms);
}

static void
pause_http(struct acceptor *a)
{
	(void)event_del(a->http_door.readable);
	loop_add_ms(a->resume, PAUSE_MS);
}

static void
refuse(uint64_t uid, const char *why)
{
	tally_add(TALLY_connections_refused);
	LOG_EVENT(connection_refused, .uid = uid, .why = why);
}

/* Who is at the other end of a unix socket, by the kernel's word. */
static bool
admit_user(struct acceptor *a, int fd, struct client *client)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == -1 || len != sizeof(who)) {
		refuse(UINT32_MAX, "the kernel does not tell who it is");
		return false;
	}
	client->owner_kind = OWNER_UID;
	client->owner = who.uid;
	if (fronts_of_user(a->tree, who.uid) >= a->limits.of_user) {
		refuse(who.uid, "too many of that user (BAILEY_CONNECTIONS_USER)");
		return false;
	}
	if (!take_one(&a->limits, source_of(a, who.uid))) {
		refuse(who.uid, "too many new ones in a short time");
		return false;
	}
	return true;
}

static bool
has_room(const struct acceptor *a, enum client_kind kind)
{
	size_t kept = a->unix_door.readable != NULL ? a->limits.all / 4 : 0;

	return kind != CLIENT_HTTP || fronts_of_kind(a->tree, kind) < a->limits.all - kept;
}

bool
accept_is_shortage(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* False: no more now. */
static bool
accept_one(struct acceptor *a, const struct door *door)
{
	struct client client = {.kind = door->kind, .owner_kind = OWNER_TOKEN, .fd = -1};

	if (a->tree->n_fronts >= a->limits.all) {
		pause_all(a, 0); /* until accept_room */
		return false;
	}
	if (!has_room(a, door->kind)) {
		(void)event_del(door->readable); /* until accept_room */
		return false;
	}
	if (door->kind == CLIENT_HTTP && !take_one(&a->limits, &a->http_source)) {
		pause_http(a);
		return false;
	}
	cleanup_close int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd == -1) {
		a->http_source.milli += door->kind == CLIENT_HTTP ? MILLI : 0; /* none came */
		if (accept_is_shortage(errno))
			pause_all(a, PAUSE_MS);
		/* A client that left before we came is none; the next may be there. */
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (door->kind == CLIENT_UNIX && !admit_user(a, fd, &client))
		return true;
	client.fd = TAKE_FD(fd);
	tally_add(TALLY_connections);
	if (fronts_start(a->tree, &client) < 0) {
		pause_all(a, PAUSE_MS);
		return false;
	}
	return true;
}

static void
on_acceptable(int fd, short what, void *arg)
{
	const struct door *door = arg;
	struct acceptor *a = door->owner;

	(void)fd;
	(void)what;
	for (int i = 0; i < BATCH && accept_one(a, door); i++)
		;
}

static void
resume(struct acceptor *a)
{
	if (a->unix_door.readable != NULL)
		loop_add(a->unix_door.readable, NULL);
	if (a->http_door.readable != NULL)
		loop_add(a->http_door.readable, NULL);
}

static void
on_resume(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	resume(arg);
}

void
accept_room(struct acceptor *a)
{
	/* A pause with a time is left to its timer. */
	if (!event_pending(a->resume, EV_TIMEOUT, NULL))
		resume(a);
}

static void
open_door(struct acceptor *a, struct door *door, enum client_kind kind, int fd)
{
	*door = (struct door){.owner = a, .kind = kind, .fd = fd};
	if (fd == -1)
		return;
	door->readable = event_new(a->tree->base, fd, EV_READ | EV_PERSIST, on_acceptable, door);
	if (door->readable == NULL)
		fatal("no event for a listener");
}

struct acceptor *
accept_new(struct tree *t, int unix_fd, int http_fd, const struct accept_limits *limits)
{
	struct acceptor *a = xcalloc(1, sizeof(*a));

	a->tree = t;
	a->limits = *limits;
	a->resume = event_new(t->base, -1, 0, on_resume, a);
	if (a->resume == NULL)
		fatal("no timer");
	open_door(a, &a->unix_door, CLIENT_UNIX, unix_fd);
	open_door(a, &a->http_door, CLIENT_HTTP, http_fd);
	resume(a);
	return a;
}

static void
close_door(struct door *door)
{
	if (door->readable != NULL)
		event_free(door->readable);
	cleanup_closep(&door->fd);
}

void
accept_free(struct acceptor *a)
{
	if (a == NULL)
		return;
	close_door(&a->unix_door);
	close_door(&a->http_door);
	event_free(a->resume);
	free(a);
}
