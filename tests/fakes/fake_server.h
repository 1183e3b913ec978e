/*
 * tests/fakes/fake_server.h - a unix socket in the test's own loop that answers
 * each request with bytes the test gave, in order. For unit tests of the engine
 * layer; faults of a whole engine are tests/fakes/fake_dockerd.py's.
 */
#ifndef BAILEY_FAKE_SERVER_H
#define BAILEY_FAKE_SERVER_H

#include "engine.h"
#include "still_clock.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/un.h>

#define FAKE_REPLIES 16
#define FAKE_CONNS 16

struct fake_reply {
	const char *bytes; /* NULL: no answer */
	size_t len;        /* 0: strlen */
	bool close;        /* after it */
};
struct fake_conn {
	struct fake_server *server;
	int fd;
	struct event *ev;
	bool raw; /* a 101 went out: everything after it is data */
};
struct fake_server {
	char dir[32], path[48];
	int fd;
	struct event_base *base;
	struct event *ev;
	struct fake_reply replies[FAKE_REPLIES];
	size_t next, n_requests, n_accepted;
	char request[FAKE_REPLIES][4096]; /* as they came */
	struct fake_conn conns[FAKE_CONNS];
	struct buf data; /* after a 101 */
};

static inline void
fake_conn_close(struct fake_conn *c)
{
	if (c->ev == NULL)
		return;
	event_free(c->ev);
	(void)close(c->fd);
	c->ev = NULL;
}

static inline void
fake_on_request(evutil_socket_t fd, short what, void *arg)
{
	struct fake_conn *c = arg;
	struct fake_server *s = c->server;
	static char in[65536];
	ssize_t n = read(fd, in, sizeof(in) - 1);
	struct fake_reply *r;
	size_t len;

	(void)what;
	if (n <= 0) {
		fake_conn_close(c);
		return;
	}
	if (c->raw) {
		assert_int_equal(buf_append(&s->data, in, (size_t)n), 0);
		return;
	}
	assert_true(s->n_requests < FAKE_REPLIES);
	in[n] = '\0';
	(void)snprintf(s->request[s->n_requests++], sizeof(s->request[0]), "%.4000s", in);
	r = &s->replies[s->next];
	if (s->next + 1 < FAKE_REPLIES)
		s->next++;
	if (r->bytes == NULL && !r->close)
		return;
	len = r->bytes == NULL ? 0 : r->len != 0 ? r->len : strlen(r->bytes);
	if (len > 0)
		assert_int_equal(send(fd, r->bytes, len, MSG_NOSIGNAL), len);
	if (r->bytes != NULL && strncmp(r->bytes, "HTTP/1.1 101", 12) == 0)
		c->raw = true;
	if (r->close)
		fake_conn_close(c);
}

static inline void
fake_on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct fake_server *s = arg;
	struct fake_conn *c = s->conns;

	(void)what;
	while (c->ev != NULL)
		c++;
	assert_true(c < s->conns + FAKE_CONNS);
	c->server = s;
	c->raw = false;
	c->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(c->fd != -1);
	s->n_accepted++;
	c->ev = event_new(s->base, c->fd, EV_READ | EV_PERSIST, fake_on_request, c);
	assert_int_equal(event_add(c->ev, NULL), 0);
}

static inline void
fake_server_start(struct fake_server *s, struct event_base *base)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memset(s, 0, sizeof(*s));
	s->base = base;
	buf_init(&s->data, 1 << 20);
	(void)snprintf(s->dir, sizeof(s->dir), "/tmp/bailey-unit.XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	(void)snprintf(s->path, sizeof(s->path), "%s/s", s->dir);
	memcpy(address.sun_path, s->path, sizeof(s->path));
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(s->fd, 16), 0);
	s->ev = event_new(base, s->fd, EV_READ | EV_PERSIST, fake_on_accept, s);
	assert_int_equal(event_add(s->ev, NULL), 0);
}

static inline void
fake_server_reply(struct fake_server *s, size_t i, const char *bytes)
{
	s->replies[i].bytes = bytes;
}

static inline void
fake_server_stop(struct fake_server *s)
{
	for (size_t i = 0; i < FAKE_CONNS; i++)
		fake_conn_close(&s->conns[i]);
	event_free(s->ev);
	(void)close(s->fd);
	(void)unlink(s->path);
	(void)rmdir(s->dir);
	buf_done(&s->data);
}

static inline void
fake_server_config(const struct fake_server *s, struct engine_config *config)
{
	memset(config, 0, sizeof(*config));
	config->kind = ENGINE_UNIX;
	(void)snprintf(config->path, sizeof(config->path), "%s", s->path);
}

/* Turns the loop until *flag, for at most 5 s of the still clock. */
static inline void
fake_loop_until(struct event_base *base, const bool *flag)
{
	clock_turn(base);
	for (int ms = 0; !*flag; ms++) {
		assert_true(ms < 5000);
		clock_pass_in(base, 1);
	}
}

static inline void
fake_loop_for(struct event_base *base, unsigned ms)
{
	clock_pass_in(base, ms);
}

#endif
