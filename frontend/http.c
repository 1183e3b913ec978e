/*
 * frontend/http.c - a transport: messages in HTTP/1.1 requests on one connected socket.
 * Runs in: bailey-frontend.
 * Input: untrusted bytes of whoever reached the port.
 * Owns: the request in work, what was read behind it, the timers; not the descriptor.
 *
 * One request at a time, in the order they come: read a head, look at it, ask
 * the broker about token and session, read the body, hand it over, answer
 * (http_send.c). A refused request's body is read and dropped, so that the next
 * request is found; a stranger's is not: until the broker knew a token of this
 * connection its first refusal ends it, so that nobody unknown holds one. While
 * a request is in work a few bytes of the next may come, no more. Whoever is
 * slow in asking or in reading costs this connection and no other. The end of
 * the input is the client's leaving, also where it merely closed its sending
 * side.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"
#include "ipc.h"

#define READ_PIECE ((size_t)65536)

const struct http_times http_times_default = {
	.idle_ms = 60000,
	.head_ms = 5000,
	.admit_ms = 10000,
	.body_ms = 30000,
	.beat_ms = 15000,
	.stall_ms = 30000,
	.linger_ms = 2000,
};

static const struct http_refusal bad_head = {
	400, "Bad request: a head has ASCII text in lines that end with CR LF", true};
static const struct http_refusal long_head = {431, "A request's head has at most 16384 bytes",
					      true};
static const struct http_refusal too_slow = {408, "The request did not come in time", true};
static const struct http_refusal words[ADMIT_WORDS] = {
	[ADMIT_BAD_TOKEN] = {401,
			     "This token is not known here, or not the one this connection began "
			     "with",
			     true},
	[ADMIT_CROWDED] = {503,
			   "This token's owner has as many connections open as one may have; close "
			   "some, or try again later",
			   true},
	[ADMIT_NO_SESSION] = {404, "No such session (any more); send initialize again", false},
	[ADMIT_NO_BROKER] = {503, "The server is starting; try again in a second", true},
};

void
http_arm(struct http *t, uint32_t ms)
{
	loop_add_ms(t->timer, ms);
}

void
http_end(struct http *t, int reason)
{
	if (t->state == HTTP_OVER)
		return;
	t->state = HTTP_OVER;
	t->end_reason = reason;
	(void)event_del(t->read_event);
	(void)event_del(t->timer);
	event_active(t->end_event, EV_TIMEOUT, 1);
}

static void
on_end(evutil_socket_t fd, short what, void *arg)
{
	struct http *t = arg;

	(void)fd;
	(void)what;
	t->events->on_end(t->ctx, t->end_reason);
}

/* ---- a request, step by step; true: it got somewhere and the next step may follow at once ---- */

/* Begins the body. A client that waits for a word before it sends one is told to, or not to. */
static void
begin_body(struct http *t)
{
	bool waits = t->head.value[HTTP_H_EXPECT] != NULL && t->body_left > 0;

	t->state = HTTP_BODY;
	http_arm(t, t->times->body_ms);
	if (t->refusal != NULL && (t->refusal->close || waits || !t->known)) {
		t->closing = true; /* the body stays unread */
		http_refuse(t, t->refusal);
	} else if (waits && buf_len(&t->in) == 0) {
		http_send_interim(t);
	}
}

static void
ask(struct http *t)
{
	struct admit_ask ask = {.token = http_rules_token(&t->head),
				.close = t->head.method == HTTP_DELETE};

	if (!http_rules_modern(&t->head))
		ask.session = t->head.value[HTTP_H_MCP_SESSION_ID];
	t->state = HTTP_ADMIT;
	http_arm(t, t->times->admit_ms);
	t->events->on_admit(t->ctx, &ask);
}

static const struct http_refusal *
read_head(struct http *t, size_t len)
{
	buf_clear(&t->head_text);
	if (buf_append(&t->head_text, buf_data(&t->in), len) < 0 ||
	    buf_append(&t->head_text, "", 1) < 0)
		return &long_head;
	buf_consume(&t->in, len);
	return http_head_parse((char *)t->head_text.data, len, &t->head);
}

static bool
step_head(struct http *t)
{
	const struct http_refusal *why = NULL;
	ssize_t n;

	if (buf_len(&t->in) == 0)
		return false;
	if (t->state == HTTP_IDLE) {
		t->state = HTTP_HEAD;
		t->scanned = 0;
		if (t->known) /* the first one's time began with the connection */
			http_arm(t, t->times->head_ms);
	}
	n = http_head_end((const char *)buf_data(&t->in), buf_len(&t->in), &t->scanned);
	if (n == 0)
		return false;
	if (n < 0)
		why = n == -E2BIG ? &long_head : &bad_head;
	else
		why = read_head(t, (size_t)n);
	if (why != NULL) {
		http_refuse(t, why);
		return false;
	}
	t->closing = t->head.close;
	t->body_left = t->head.length;
	t->refusal = http_rules_check(&t->head, t->client);
	if (t->refusal == NULL)
		ask(t);
	else
		begin_body(t);
	return true;
}

static void
hand_over(struct http *t)
{
	size_t len = buf_len(&t->body);

	t->side = (struct message_side){.version = t->head.value[HTTP_H_MCP_PROTOCOL_VERSION],
					.method = t->head.value[HTTP_H_MCP_METHOD],
					.name = t->head.value[HTTP_H_MCP_NAME]};
	t->base.side = &t->side;
	t->state = HTTP_WORK;
	http_arm(t, t->times->beat_ms);
	if (buf_append(&t->body, "", 1) < 0)
		http_end(t, -ENOMEM);
	else
		t->events->on_message(t->ctx, (char *)t->body.data + t->body.off, len);
	buf_done(&t->body);
}

static bool
step_body(struct http *t)
{
	size_t n = buf_len(&t->in);

	if (n > t->body_left)
		n = (size_t)t->body_left;
	if (t->refusal == NULL && buf_append(&t->body, buf_data(&t->in), n) < 0) {
		http_end(t, -ENOMEM);
		return false;
	}
	buf_consume(&t->in, n);
	t->body_left -= n;
	if (t->body_left > 0)
		return false;
	if (t->refusal != NULL)
		http_refuse(t, t->refusal);
	else if (t->head.method == HTTP_POST)
		hand_over(t);
	else
		http_send_empty(t, 200); /* DELETE: the session has ended */
	return true;
}

/* The next request is not begun before the last one's answer has left. */
static bool
may_step(const struct http *t)
{
	return !t->stopped && (t->state != HTTP_IDLE || buf_len(&t->queue) == 0);
}

static void
step(struct http *t)
{
	static bool (*const steps[HTTP_STATES])(struct http * t) = {
		[HTTP_IDLE] = step_head,
		[HTTP_HEAD] = step_head,
		[HTTP_BODY] = step_body,
	};

	t->stepping = true;
	while (may_step(t) && steps[t->state] != NULL && steps[t->state](t))
		;
	t->stepping = false;
	if (t->state == HTTP_LINGER || buf_len(&t->in) == 0)
		buf_done(&t->in);
	/* while the broker is asked the body waits in the kernel */
	if (!t->stopped && t->state != HTTP_OVER && t->state != HTTP_ADMIT)
		loop_add(t->read_event, NULL);
}

void
http_admitted(struct transport *base, enum admit_word word)
{
	struct http *t = (struct http *)base;

	if (t->state != HTTP_ADMIT)
		return; /* the wait was given up */
	if (word != ADMIT_YES)
		t->refusal = &words[word];
	t->known = t->known || word == ADMIT_YES || word == ADMIT_NO_SESSION;
	begin_body(t);
	if (!t->stepping)
		step(t);
}

/* Room for a piece is there while at most a head's length waits. */
static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct http *t = arg;
	uint8_t *room;
	ssize_t n;

	(void)fd;
	if (t->stopped || t->state == HTTP_OVER)
		return;
	if ((what & EV_READ) != 0) {
		if (buf_reserve(&t->in, READ_PIECE, &room) < 0) {
			http_end(t, -ENOBUFS);
			return;
		}
		n = read(t->fd, room, READ_PIECE);
		if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR)) {
			http_end(t, n == 0 || errno == ECONNRESET ? 0 : -errno);
			return;
		}
		if (n > 0)
			buf_commit(&t->in, (size_t)n);
	}
	step(t);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http *t = arg;

	(void)fd;
	(void)what;
	switch (t->state) {
	case HTTP_HEAD:
	case HTTP_BODY:
		http_refuse(t, &too_slow);
		break;
	case HTTP_ADMIT:
		http_refuse(t, &words[ADMIT_NO_BROKER]);
		break;
	case HTTP_WORK:
		if (t->holding) {
			http_session(&t->base, NULL);
			break;
		}
		http_arm(t, t->times->beat_ms);
		http_send_beat(t);
		break;
	case HTTP_IDLE:
	case HTTP_LINGER:
	case HTTP_OVER:
	case HTTP_STATES:
		http_end(t, 0);
		break;
	}
}

/* ---- life ---- */

static size_t
http_queued(const struct transport *base)
{
	return buf_len(&((const struct http *)base)->queue);
}

static void
http_stop_reading(struct transport *base)
{
	struct http *t = (struct http *)base;

	t->stopped = true;
	(void)event_del(t->read_event);
}

static int
http_start(struct transport *base)
{
	struct http *t = (struct http *)base;

	http_arm(t, t->times->head_ms);
	return event_add(t->read_event, NULL) < 0 ? -ENOMEM : 0;
}

static void
http_free(struct transport *base)
{
	struct http *t = (struct http *)base;
	struct event *all[] = {t->read_event, t->write_event, t->timer, t->end_event};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (all[i] != NULL)
			event_free(all[i]);
	}
	buf_done(&t->in);
	buf_done(&t->head_text);
	buf_done(&t->body);
	buf_done(&t->queue);
	buf_done(&t->held);
	free(t);
}

static const struct transport_ops http_ops = {
	.start = http_start,
	.send = http_send,
	.send_nothing = http_send_nothing,
	.queued = http_queued,
	.stop_reading = http_stop_reading,
	.free = http_free,
};

int
http_new(struct event_base *base, int fd, const struct transport_events *events, void *ctx,
	 const struct http_client *client, const struct http_times *times, struct transport **ret)
{
	struct http *t = xcalloc(1, sizeof(*t));
	int r = fd_set_nonblock(fd);

	t->base = (struct transport){.ops = &http_ops, .end_is_hangup = true};
	t->fd = fd;
	t->events = events;
	t->ctx = ctx;
	t->client = client;
	t->times = times;
	buf_init(&t->in, HTTP_HEAD_MAX + READ_PIECE);
	buf_init(&t->head_text, HTTP_HEAD_MAX + 1);
	buf_init(&t->body, MESSAGE_MAX + 1);
	buf_init(&t->queue, SEND_QUEUE_MAX);
	buf_init(&t->held, MESSAGE_MAX);
	t->read_event = event_new(base, fd, EV_READ, on_readable, t);
	t->write_event = event_new(base, fd, EV_WRITE, http_on_writable, t);
	t->timer = event_new(base, -1, 0, on_timer, t);
	t->end_event = event_new(base, -1, 0, on_end, t);
	if (r == 0 && (t->read_event == NULL || t->write_event == NULL || t->timer == NULL ||
		       t->end_event == NULL))
		r = -ENOMEM;
	if (r < 0)
		http_free(&t->base);
	else
		*ret = &t->base;
	return r;
}
