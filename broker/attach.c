/*
 * broker/attach.c - the one data path of a box: an attach request whose
 * connection the engine hands over to the container's stdin, stdout, stderr.
 *
 * Runs in: bailey-broker.
 * Input: untrusted; the engine's answer, then stdcopy frames with whatever the
 *   container writes.
 * Owns: its raw connection, the events on it, what is still to be sent.
 *
 * Connect (http.c), send the upgrade request, read the answer's header strictly,
 * from then on demultiplex. Reading never waits for anybody: a reader that
 * stalls makes dockerd 20.10 hang in every kill and inspect of that container,
 * so flow control is the guest stream's business. Any callback may free the attach.
 */
#include "engine_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OPEN_MS 10000u
#define HEAD_MAX 8192u
#define QUEUE_MAX 4194304u
#define READ_SIZE 65536u
#define READS_PER_TURN 16u
#define STAGE_SIZE 16384u

enum attach_state { CONNECTING, ASKED, OPEN, DEAD };

struct attach {
	struct engine *engine; /* NULL after engine_free */
	struct attach *next, **link;
	struct http_raw *raw;
	struct event *readable, *writable,
		*timer; /* timer: opening deadline, then the last words */
	enum attach_state state;
	bool calling, dead; /* freed inside a callback: its caller lets go of it last */
	const struct attach_handler *handler;
	void *ctx;
	uint64_t tag;
	struct buf queue; /* to be sent once open */
	struct buf head;  /* the request while CONNECTING, then the answer */
	uint8_t *stage;   /* TLS: bytes that must be offered again unchanged */
	size_t stage_off, stage_len;
	struct stdcopy demux;
	bool refused; /* the id cannot be one */
	bool mute;    /* sending failed; what the box said before is still read to its end */
};

static uint8_t read_buffer[READ_SIZE]; /* one loop, one reader at a time */

/* ---- the answer's header ---- */

static bool
names(const char *line, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len >= n && strncasecmp(line, prefix, n) == 0;
}

static bool
in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* A field name, a colon, visible text; nothing that would mean a body where a stream must follow.
 */
static int
judge_line(const char *line, size_t len, struct attach_head *head)
{
	size_t name = 0;

	while (name < len && in_name(line[name]))
		name++;
	if (name == 0 || name >= len || line[name] != ':')
		return -EPROTO;
	for (size_t i = name; i < len; i++) {
		uint8_t c = (uint8_t)line[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return -EPROTO;
	}
	if (names(line, len, "content-length:") || names(line, len, "transfer-encoding:"))
		head->has_body = true;
	if (names(line, len, "upgrade: tcp") && len == strlen("upgrade: tcp"))
		head->upgraded = true;
	if (names(line, len, "content-type: application/vnd.docker."))
		head->stream = true;
	return 0;
}

static int
status_line(const char *line, size_t len)
{
	static const char version[] = "HTTP/1.1 ";
	const size_t n = sizeof(version) - 1;
	uint64_t status;
	char digits[4];

	if (len < n + 3 || strncmp(line, version, n) != 0 || (len > n + 3 && line[n + 3] != ' '))
		return -EPROTO;
	memcpy(digits, line + n, 3);
	digits[3] = '\0';
	return parse_u64(digits, 100, 599, &status) == 0 ? (int)status : -EPROTO;
}

/* Whether what follows is the container's stream: 101 of our upgrade, or the older 200. */
static bool
is_stream(const struct attach_head *head)
{
	if (head->has_body)
		return false;
	return head->status == 101 ? head->upgraded : head->status == 200 && head->stream;
}

ssize_t
attach_head_parse(const uint8_t *in, size_t len, struct attach_head *ret)
{
	const char *p = (const char *)in;
	struct attach_head head = {0};
	size_t at = 0;

	for (;;) {
		const char *stop = memmem(p + at, len - at, "\r\n", 2);
		size_t n;

		if (stop == NULL)
			return len >= HEAD_MAX ? -EPROTO : 0;
		n = (size_t)(stop - (p + at));
		if (at + n + 2 > HEAD_MAX)
			return -EPROTO;
		if (head.status == 0) {
			head.status = status_line(p + at, n);
			if (head.status < 0)
				return -EPROTO;
		} else if (n == 0) {
			if (head.status < 300 && !is_stream(&head))
				return -EPROTO;
			*ret = head;
			return (ssize_t)(at + 2);
		} else if (judge_line(p + at, n, &head) < 0) {
			return -EPROTO;
		}
		at += n + 2;
	}
}

/* ---- ends ---- */

static void
drop_connection(struct attach *a)
{
	if (a->readable != NULL)
		event_free(a->readable);
	if (a->writable != NULL)
		event_free(a->writable);
	a->readable = a->writable = NULL;
	http_raw_close(TAKE(a->raw));
	a->state = DEAD;
	buf_done(&a->queue);
	buf_done(&a->head);
	free(TAKE(a->stage));
	a->stage_len = 0;
}

static void
unlink_attach(struct attach *a)
{
	if (a->engine == NULL)
		return;
	*a->link = a->next;
	if (a->next != NULL)
		a->next->link = a->link;
	a->engine = NULL;
}

static void
release(struct attach *a)
{
	event_free(a->timer);
	free(a);
}

/* After a callback that may have freed us: whether the attach is still there, and open. */
static bool
still_open(struct attach *a)
{
	a->calling = false;
	if (!a->dead)
		return a->state == OPEN;
	release(a);
	return false;
}

/* From the loop: the attach was open and is no more. */
static void
end(struct attach *a, int err)
{
	drop_connection(a);
	(void)evtimer_del(a->timer);
	a->handler->closed(a->ctx, a->tag, err);
}

static void
fail_open(struct attach *a, int err, int status, const char *message)
{
	const struct engine_result r = {.err = err, .http_status = status, .message = message};

	drop_connection(a);
	(void)evtimer_del(a->timer);
	a->handler->opened(a->ctx, a->tag, &r);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct attach *a = arg;

	(void)fd;
	(void)what;
	if (a->refused) {
		fail_open(a, -EINVAL, 0, "not a container id");
	} else if (a->state == CONNECTING || a->state == ASKED) {
		fail_open(a, -ETIMEDOUT, 0, "the engine did not open the attach in time");
	}
}

/* ---- sending ---- */

/* What to offer next: TLS wants refused bytes offered again from the same place. */
static const uint8_t *
next_piece(struct attach *a, size_t *ret_len)
{
	if (!http_raw_same_retry(a->raw)) {
		*ret_len = buf_len(&a->queue);
		return buf_data(&a->queue);
	}
	if (a->stage == NULL)
		a->stage = xcalloc(1, STAGE_SIZE);
	if (a->stage_len == 0) {
		size_t n = buf_len(&a->queue) < STAGE_SIZE ? buf_len(&a->queue) : STAGE_SIZE;

		memcpy(a->stage, buf_data(&a->queue), n);
		buf_consume(&a->queue, n);
		a->stage_off = 0;
		a->stage_len = n;
	}
	*ret_len = a->stage_len;
	return a->stage + a->stage_off;
}

static void
piece_sent(struct attach *a, size_t n)
{
	if (a->stage_len == 0) {
		buf_consume(&a->queue, n);
		return;
	}
	a->stage_off += n;
	a->stage_len -= n;
}

static void
go_mute(struct attach *a)
{
	a->mute = true;
	buf_done(&a->queue);
	a->stage_len = 0;
	if (a->state == OPEN) /* before that the request is still to be written */
		(void)event_del(a->writable);
}

static void
send_queued(struct attach *a)
{
	for (;;) {
		size_t n;
		const uint8_t *p = next_piece(a, &n);
		ssize_t r;

		if (n == 0) {
			(void)event_del(a->writable);
			return;
		}
		r = http_raw_send(a->raw, p, n);
		if (r == -EAGAIN && event_add(a->writable, NULL) == 0)
			return;
		if (r < 0) {
			go_mute(a);
			return;
		}
		piece_sent(a, (size_t)r);
	}
}

int
attach_send(struct attach *a, const void *p, size_t n)
{
	const uint8_t *from = p;
	bool idle = buf_len(&a->queue) == 0 && a->stage_len == 0;
	int r;

	if (a->state == DEAD || a->mute)
		return -EPIPE;
	if (n > QUEUE_MAX - buf_len(&a->queue))
		return -ENOBUFS; /* before a part of it is sent */
	if (a->state == OPEN && idle && !http_raw_same_retry(a->raw)) {
		ssize_t sent = http_raw_send(a->raw, from, n);

		if (sent == (ssize_t)n)
			return 0;
		if (sent < 0 && sent != -EAGAIN) {
			go_mute(a);
			return -EPIPE;
		}
		if (sent > 0) {
			from += sent;
			n -= (size_t)sent;
		}
	}
	r = buf_append(&a->queue, from, n);
	if (r < 0) {
		/* A part of it may be on its way, and no other frame may follow a torn one. */
		go_mute(a);
		return -EPIPE;
	}
	if (a->state == OPEN)
		send_queued(a);
	return a->mute ? -EPIPE : 0;
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct attach *a = arg;
	ssize_t sent;

	(void)fd;
	(void)what;
	if (a->state == OPEN) {
		send_queued(a);
		return;
	}
	/* CONNECTING: the request itself; small, so it goes in one piece or next time */
	sent = http_raw_send(a->raw, buf_data(&a->head), buf_len(&a->head));
	if (sent < 0 && sent != -EAGAIN) {
		fail_open(a, -ECONNRESET, 0, "the engine broke the connection before the attach");
		return;
	}
	if (sent > 0)
		buf_consume(&a->head, (size_t)sent);
	if (buf_len(&a->head) == 0) {
		(void)event_del(a->writable);
		buf_clear(&a->head);
		a->state = ASKED;
	}
}

/* ---- receiving ---- */

/* Hands the frames in p on. False when the attach ended or was freed meanwhile. */
static bool
take_frames(struct attach *a, const uint8_t *p, size_t n)
{
	for (;;) {
		const uint8_t *piece;
		size_t len;
		int stream;
		int r = stdcopy_next(&a->demux, &p, &n, &stream, &piece, &len);

		if (r == 0)
			return true;
		if (r < 0 || stream == 0 || stream == 3) {
			/* 3 is the engine's own error text; nothing follows it */
			end(a, r < 0 || stream == 0 ? -EPROTO : -EIO);
			return false;
		}
		a->calling = true;
		a->handler->data(a->ctx, a->tag, stream, piece, len);
		if (!still_open(a))
			return false;
	}
}

static bool
take_head(struct attach *a, const uint8_t *p, size_t n)
{
	struct engine_result ok = {.message = ""};
	struct attach_head head;
	ssize_t used;
	size_t rest;

	if (a->state != ASKED || buf_append(&a->head, p, n) < 0) {
		fail_open(a, -EPROTO, 0, "the engine's answer to the attach is not one");
		return false;
	}
	used = attach_head_parse(buf_data(&a->head), buf_len(&a->head), &head);
	if (used == 0)
		return true;
	if (used < 0) {
		fail_open(a, -EPROTO, 0, "the engine's answer to the attach is not one");
		return false;
	}
	buf_consume(&a->head, (size_t)used);
	if (head.status >= 300) {
		char message[ENGINE_MESSAGE_MAX];

		docker_reply_message(buf_data(&a->head), buf_len(&a->head), message);
		if (message[0] == '\0')
			(void)snprintf(message, sizeof(message),
				       "the engine answered %d to the attach", head.status);
		fail_open(a, docker_status_err(head.status), head.status, message);
		return false;
	}
	a->state = OPEN;
	(void)evtimer_del(a->timer);
	ok.http_status = head.status;
	a->calling = true;
	a->handler->opened(a->ctx, a->tag, &ok);
	if (!still_open(a))
		return false;
	if (!a->mute)
		send_queued(a);

	/* What followed the header belongs to the container; the head buffer is done with. */
	struct buf early = a->head;
	bool alive;

	memset(&a->head, 0, sizeof(a->head));
	rest = buf_len(&early);
	alive = rest == 0 || take_frames(a, buf_data(&early), rest);
	buf_done(&early);
	return alive;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct attach *a = arg;

	(void)fd;
	(void)what;
	for (unsigned turn = 0; turn < READS_PER_TURN; turn++) {
		/* While the header is awaited it is read in pieces its buffer can hold. */
		size_t room = a->state == OPEN ? sizeof(read_buffer) : HEAD_MAX / 2;
		ssize_t n = http_raw_recv(a->raw, read_buffer, room);

		if (n == -EAGAIN)
			return;
		if (n <= 0 && a->state == OPEN) {
			end(a, n == 0 ? 0 : -EPIPE);
			return;
		}
		if (n <= 0) {
			fail_open(a, -ECONNRESET, 0,
				  "the engine closed the connection instead of attaching");
			return;
		}
		bool drained = (size_t)n < room && !http_raw_same_retry(a->raw);
		if (a->state == OPEN ? !take_frames(a, read_buffer, (size_t)n)
				     : !take_head(a, read_buffer, (size_t)n))
			return;
		if (drained)
			return; /* what has come since, the loop tells */
	}
	/* TLS may hold bytes the descriptor no longer shows. */
	event_active(a->readable, EV_READ, 0);
}

/* ---- opening ---- */

static void
on_connected(void *ctx, int err, const char *message)
{
	struct attach *a = ctx;
	int fd;

	if (err < 0) {
		fail_open(a, err, 0, message);
		return;
	}
	fd = http_raw_fd(a->raw);
	a->readable = event_new(a->engine->base, fd, EV_READ | EV_PERSIST, on_readable, a);
	a->writable = event_new(a->engine->base, fd, EV_WRITE | EV_PERSIST, on_writable, a);
	if (a->readable == NULL || a->writable == NULL || event_add(a->readable, NULL) == -1 ||
	    event_add(a->writable, NULL) == -1)
		fail_open(a, -ENOMEM, 0, "out of memory");
}

struct attach *
engine_attach(struct engine *e, const char *id, const struct attach_handler *h, void *ctx,
	      uint64_t tag)
{
	struct attach *a = xcalloc(1, sizeof(*a));
	struct timeval tv = {docker_id_ok(id) ? OPEN_MS / 1000 : 0, 0};

	a->refused = !docker_id_ok(id);
	a->engine = e;
	a->next = e->attaches;
	a->link = &e->attaches;
	if (a->next != NULL)
		a->next->link = &a->next;
	e->attaches = a;
	a->handler = h;
	a->ctx = ctx;
	a->tag = tag;
	buf_init(&a->queue, QUEUE_MAX);
	buf_init(&a->head, HEAD_MAX);
	a->timer = evtimer_new(e->base, on_timer, a);
	if (a->timer == NULL || evtimer_add(a->timer, &tv) == -1 ||
	    buf_printf(
		    &a->head,
		    "POST /v%s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
		    "Host: %s\r\nUser-Agent: bailey/" BAILEY_VERSION "\r\n"
		    "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n",
		    e->info.api, a->refused ? "" : id, http_host(e->http)) < 0)
		fatal("out of memory");
	if (!a->refused)
		a->raw = http_raw_open(e->http, OPEN_MS, a, on_connected);
	return a;
}

void
attach_free(struct attach *a)
{
	if (a == NULL)
		return;
	drop_connection(a);
	unlink_attach(a);
	if (a->calling)
		a->dead = true;
	else
		release(a);
}

void
attach_engine_gone(struct attach *a)
{
	drop_connection(a);
	unlink_attach(a);
	(void)evtimer_del(a->timer);
}
