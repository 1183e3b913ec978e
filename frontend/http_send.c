/*
 * frontend/http_send.c - the answering half of the HTTP transport: one answer for a request, as
 * JSON or as events, and the queue behind a slow reader.
 * Runs in: bailey-frontend.
 * Input: our own messages; the client's willingness to read.
 * Owns: the queue of unsent bytes in struct http.
 *
 * The answer is one JSON body where nothing was said before it, else an event
 * stream that began with the first notification, or with a sign of life. A
 * request without an answer (cancelled) is a stream that ends empty.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "ipc.h"

#define INTERIM "HTTP/1.1 100 Continue\r\n\r\n"

static const struct http_refusal no_room = {
	503, "No further session can be opened now; end one or try again later", false};

/* ---- the queue ---- */

/* Nothing more will be sent: the client is told, then given a moment to hang up. */
static void
linger(struct http *t)
{
	(void)shutdown(t->fd, SHUT_WR); /* it may be gone already */
	http_arm(t, t->times->linger_ms);
}

static void
flush(struct http *t)
{
	while (buf_len(&t->queue) > 0) {
		ssize_t n = write(t->fd, buf_data(&t->queue), buf_len(&t->queue));

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN) {
			loop_add_ms(t->write_event, t->times->stall_ms); /* counted anew */
			return;
		}
		if (n == -1) {
			int r = -errno;

			buf_done(&t->queue);
			http_end(t, r == -ECONNRESET ? -EPIPE : r);
			return;
		}
		buf_consume(&t->queue, (size_t)n);
	}
	buf_done(&t->queue);
	if (t->state == HTTP_LINGER)
		linger(t);
}

void
http_on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct http *t = arg;

	(void)fd;
	if ((what & EV_TIMEOUT) != 0) {
		buf_done(&t->queue);
		http_end(t, -ETIMEDOUT);
		return;
	}
	flush(t);
	if (buf_len(&t->queue) > 0)
		return;
	if (t->state == HTTP_IDLE && !t->stopped)
		event_active(t->read_event, EV_TIMEOUT, 1); /* the next request may be there */
	t->events->on_drained(t->ctx);
}

/* What http_reply.c appended goes out, or was more than a client may leave unread. */
static int
queued(struct http *t, int r)
{
	if (r < 0) {
		http_end(t, -ENOBUFS);
		return -ENOBUFS;
	}
	/* what waits already waits for the event */
	if (event_pending(t->write_event, EV_WRITE, NULL) == 0)
		flush(t);
	return 0;
}

/* ---- one answer ---- */

static struct http_reply
reply(const struct http *t, unsigned status)
{
	return (struct http_reply){.status = status, .close = t->closing};
}

/* The request is answered: the next one, or none. */
static void
answered(struct http *t, int r)
{
	if (t->state == HTTP_OVER)
		return;
	t->base.side = NULL;
	t->streaming = t->holding = false;
	t->session[0] = '\0';
	t->refusal = NULL;
	t->state = t->closing ? HTTP_LINGER : HTTP_IDLE;
	http_arm(t, t->closing ? t->times->stall_ms : t->times->idle_ms);
	(void)queued(t, r);
	if (!t->stepping && !t->stopped && t->state != HTTP_OVER)
		event_active(t->read_event, EV_TIMEOUT, 1); /* something may be there already */
}

void
http_refuse(struct http *t, const struct http_refusal *why)
{
	t->closing = t->closing || why->close;
	if (t->streaming) /* too late for a status */
		http_end(t, -EIO);
	else
		answered(t, http_reply_refusal(&t->queue, why, t->closing));
}

void
http_send_interim(struct http *t)
{
	(void)queued(t, buf_append(&t->queue, INTERIM, strlen(INTERIM)));
}

void
http_send_empty(struct http *t, unsigned status)
{
	struct http_reply r = reply(t, status);

	answered(t, http_reply_json(&t->queue, &r, "", 0));
}

static int
begin_stream(struct http *t)
{
	struct http_reply r = reply(t, 200);

	if (t->streaming)
		return 0;
	t->streaming = true;
	return http_reply_stream(&t->queue, &r);
}

void
http_send_beat(struct http *t)
{
	int r = begin_stream(t);

	(void)queued(t, r < 0 ? r : http_reply_beat(&t->queue));
}

static int
send_event(struct http *t, const char *text, size_t len)
{
	int r = begin_stream(t);

	return r < 0 ? r : http_reply_event(&t->queue, text, len);
}

static void
send_last(struct http *t, const char *text, size_t len, const struct sent *as)
{
	struct http_reply whole;
	int r;

	/* headers and message disagree: so may whoever stands in between, about what follows */
	t->closing = t->closing || as->code == RPC_HEADER;
	whole = reply(t, http_reply_status(as));
	if (t->streaming) {
		r = send_event(t, text, len);
		if (r == 0)
			r = http_reply_stream_end(&t->queue);
	} else {
		whole.session = t->session[0] == '\0' ? NULL : t->session;
		r = http_reply_json(&t->queue, &whole, text, len);
	}
	answered(t, r);
}

int
http_send(struct transport *base, char *text, size_t len, const struct sent *as)
{
	struct http *t = (struct http *)base;

	if (t->state != HTTP_WORK || as->alone)
		return 0; /* nobody waits for it */
	if (as->more)
		return queued(t, send_event(t, text, len));
	if (t->holding) {
		t->held_as = *as;
		return buf_append(&t->held, text, len);
	}
	send_last(t, text, len, as);
	return 0;
}

void
http_send_nothing(struct transport *base, bool request)
{
	struct http *t = (struct http *)base;
	int r;

	if (t->state != HTTP_WORK)
		return;
	if (!request && !t->streaming) {
		http_send_empty(t, 202);
		return;
	}
	r = begin_stream(t);
	answered(t, r < 0 ? r : http_reply_stream_end(&t->queue));
}

/* ---- a new session ---- */

void
http_hold(struct transport *base)
{
	struct http *t = (struct http *)base;

	t->holding = true;
	http_arm(t, t->times->admit_ms);
}

void
http_session(struct transport *base, const char *id)
{
	struct http *t = (struct http *)base;

	if (t->state != HTTP_WORK || !t->holding)
		return;
	t->holding = false;
	if (id == NULL || str_copy(t->session, sizeof(t->session), id, strlen(id)) < 0)
		http_refuse(t, &no_room);
	else
		send_last(t, (const char *)buf_data(&t->held), buf_len(&t->held), &t->held_as);
	buf_done(&t->held);
}
