/*
 * frontend/stdio.c - a transport: one message per line on two descriptors.
 * Runs in: bailey-frontend.
 * Input: untrusted bytes from the client.
 * Owns: the line being read and the queue of unsent lines; not the descriptors.
 *
 * The descriptors may be pipes, sockets, terminals or regular files. epoll
 * refuses regular files (and /dev/null): such an input is read a piece per
 * turn of the loop, such an output is written at once. Pipes and sockets are
 * written without blocking; their flags are put back at the end, because the
 * client may share them. While a client leaves much unread, nothing more is
 * read from it; past SEND_QUEUE_MAX it is cut.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc.h"
#include "message.h"

#define READ_PIECE ((size_t)65536)
#define PIPE_BYTES 262144
#define TTY_PIECE 1024u                   /* a terminal is written blocking: little at a time */
#define PAUSE_ABOVE ((size_t)4 << 20)     /* queued bytes that stop the reading … */
#define RESUME_BELOW ((size_t)1 << 20)    /* … until they are less than this */
#define KEEP_LINE_CAP ((size_t)256 << 10) /* a bigger line buffer is given back */

struct stdio {
	struct transport base; /* first */
	int in, out;
	bool in_polls, out_polls, out_nonblock;
	int out_flags; /* to put back */
	const struct transport_events *events;
	void *ctx;
	struct event *read_event, *write_event, *end_event;
	struct buf line, queue;
	size_t scanned; /* bytes of line known to hold no line end */
	bool skipping;  /* inside a message past MESSAGE_MAX */
	bool more;      /* whole lines wait, the reading was paused among them */
	bool reading, paused, ended;
	int end_reason;
};

static bool
can_poll(int fd)
{
	cleanup_close int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN};

	if (ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) == 0)
		return true;
	/* Taken for one, a pipe would not be read while nothing comes, nor its end be seen. */
	if (errno != EPERM)
		fatal("cannot tell whether the client's descriptors are files: %m");
	return false;
}

static void
stop_reading(struct stdio *t)
{
	t->reading = false;
	(void)event_del(t->read_event);
}

/* Reported from the loop, never from inside a caller's send. */
static void
end_later(struct stdio *t, int reason)
{
	if (t->ended)
		return;
	t->ended = true;
	t->end_reason = reason;
	stop_reading(t);
	event_active(t->end_event, EV_TIMEOUT, 1);
}

static void
on_end(evutil_socket_t fd, short what, void *arg)
{
	struct stdio *t = arg;

	(void)fd;
	(void)what;
	t->events->on_end(t->ctx, t->end_reason);
}

static void
want_read(struct stdio *t)
{
	if (!t->reading || t->paused || t->ended)
		return;
	if (t->in_polls && !t->more)
		loop_add(t->read_event, NULL);
	else
		event_active(t->read_event, EV_TIMEOUT, 1);
}

/* ---- in ---- */

static void
one_line(struct stdio *t, char *text, size_t len)
{
	if (len > 0 && text[len - 1] == '\r')
		len--;
	text[len] = '\0';
	if (len == 0)
		return;
	if (len > MESSAGE_MAX)
		t->events->on_oversize(t->ctx);
	else
		t->events->on_message(t->ctx, text, len);
}

/* Hands over the whole lines that were read, until one of them pauses the reading. */
static void
take_lines(struct stdio *t)
{
	t->more = false;
	while (t->reading && buf_len(&t->line) > t->scanned) {
		char *start = (char *)(t->line.data + t->line.off);
		size_t len = buf_len(&t->line);
		char *nl = memchr(start + t->scanned, '\n', len - t->scanned);
		size_t line_len;

		if (nl == NULL) {
			t->scanned = len;
			break;
		}
		if (t->paused) {
			t->more = true;
			return;
		}
		line_len = (size_t)(nl - start);
		if (t->skipping)
			t->skipping = false;
		else
			one_line(t, start, line_len);
		buf_consume(&t->line, line_len + 1);
		t->scanned = 0;
	}
	/* one byte more may be the \r of its end */
	if (buf_len(&t->line) > MESSAGE_MAX + 1 || (t->skipping && t->scanned > 0)) {
		if (!t->skipping)
			t->events->on_oversize(t->ctx);
		t->skipping = true;
		buf_clear(&t->line);
		t->scanned = 0;
	}
	if (buf_len(&t->line) == 0 && t->line.cap > KEEP_LINE_CAP)
		buf_done(&t->line);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct stdio *t = arg;
	uint8_t *room;
	ssize_t n;

	(void)fd;
	(void)what;
	if (!t->reading || t->paused || t->ended)
		return;
	if (t->more) {
		take_lines(t);
		want_read(t);
		return;
	}
	if (buf_reserve(&t->line, READ_PIECE, &room) < 0) {
		end_later(t, -ENOMEM);
		return;
	}
	n = read(t->in, room, READ_PIECE);
	if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
		want_read(t);
		return;
	}
	if (n <= 0) {
		/* a last line without its end is not a message: the client may have died in it */
		end_later(t, n == 0 || errno == ECONNRESET || errno == EIO ? 0 : -errno);
		return;
	}
	buf_commit(&t->line, (size_t)n);
	take_lines(t);
	if (!t->in_polls)
		want_read(t);
}

/* ---- out ---- */

static void
set_paused(struct stdio *t)
{
	size_t queued = buf_len(&t->queue);

	if (!t->paused && queued > PAUSE_ABOVE) {
		t->paused = true;
		(void)event_del(t->read_event);
	} else if (t->paused && queued < RESUME_BELOW) {
		t->paused = false;
		want_read(t);
	}
}

/* Writes what the descriptor takes now. Bytes written, or -errno. */
static ssize_t
write_now(struct stdio *t, const void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t piece = n - done;
		ssize_t w;

		if (t->out_polls && !t->out_nonblock && piece > TTY_PIECE)
			piece = TTY_PIECE;
		w = write(t->out, (const char *)p + done, piece);
		if (w == -1 && errno == EINTR)
			continue;
		if (w == -1 && errno == EAGAIN)
			break;
		if (w == -1)
			return -errno;
		done += (size_t)w;
		if (t->out_polls && !t->out_nonblock)
			break; /* the next piece when the terminal asks for it */
	}
	return (ssize_t)done;
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct stdio *t = arg;
	ssize_t n = write_now(t, buf_data(&t->queue), buf_len(&t->queue));

	(void)fd;
	(void)what;
	if (n < 0) {
		buf_done(&t->queue);
		end_later(t, (int)n);
		return;
	}
	buf_consume(&t->queue, (size_t)n);
	set_paused(t);
	if (buf_len(&t->queue) > 0) {
		loop_add(t->write_event, NULL);
		return;
	}
	buf_done(&t->queue);
	t->events->on_drained(t->ctx);
}

static int
stdio_send(struct transport *base, char *text, size_t len, const struct sent *as)
{
	struct stdio *t = (struct stdio *)base;
	ssize_t n = 0;

	if (t->ended && t->end_reason < 0)
		return t->end_reason;
	text[len++] = '\n';
	if (buf_len(&t->queue) == 0 && (t->out_nonblock || !t->out_polls)) {
		n = write_now(t, text, len);
		if (n < 0) {
			end_later(t, (int)n);
			return (int)n;
		}
	}
	if ((size_t)n == len)
		return 0;
	if (as->own != NULL && buf_len(&t->queue) == 0 && len <= t->queue.max) {
		/* the rest of it waits where it is */
		buf_done(&t->queue);
		t->queue = *as->own;
		t->queue.max = SEND_QUEUE_MAX;
		*as->own = (struct buf){0};
		buf_consume(&t->queue, (size_t)n);
		set_paused(t);
		loop_add(t->write_event, NULL);
		return 0;
	}
	if (buf_append(&t->queue, text + n, len - (size_t)n) < 0) {
		end_later(t, -ENOBUFS);
		return -ENOBUFS;
	}
	set_paused(t);
	loop_add(t->write_event, NULL);
	return 0;
}

/* Every message stands alone here. */
static void
stdio_send_nothing(struct transport *base, bool request)
{
	(void)base;
	(void)request;
}

static size_t
stdio_queued(const struct transport *base)
{
	return buf_len(&((const struct stdio *)base)->queue);
}

/* ---- life ---- */

static void
stdio_stop_reading(struct transport *base)
{
	stop_reading((struct stdio *)base);
}

static int
stdio_start(struct transport *base)
{
	struct stdio *t = (struct stdio *)base;

	t->reading = true;
	want_read(t);
	return 0;
}

static void
stdio_free(struct transport *base)
{
	struct stdio *t = (struct stdio *)base;

	if (t->read_event != NULL)
		event_free(t->read_event);
	if (t->write_event != NULL)
		event_free(t->write_event);
	if (t->end_event != NULL)
		event_free(t->end_event);
	if (t->out_nonblock && (t->out_flags & O_NONBLOCK) == 0)
		(void)fcntl(t->out, F_SETFL, t->out_flags);
	buf_done(&t->line);
	buf_done(&t->queue);
	free(t);
}

static const struct transport_ops stdio_ops = {
	.start = stdio_start,
	.send = stdio_send,
	.send_nothing = stdio_send_nothing,
	.queued = stdio_queued,
	.stop_reading = stdio_stop_reading,
	.free = stdio_free,
};

int
stdio_new(struct event_base *base, int in, int out, const struct transport_events *events,
	  void *ctx, struct transport **ret)
{
	struct stdio *t = xcalloc(1, sizeof(*t));
	struct stat st;

	t->base.ops = &stdio_ops;
	t->in = in;
	t->out = out;
	t->events = events;
	t->ctx = ctx;
	buf_init(&t->line, MESSAGE_MAX + 2 * READ_PIECE);
	buf_init(&t->queue, SEND_QUEUE_MAX);
	t->out_flags = fcntl(out, F_GETFL);
	if (fstat(out, &st) == -1 || t->out_flags == -1 || fcntl(in, F_GETFL) == -1) {
		int r = -errno;

		stdio_free(&t->base);
		return r;
	}
	t->in_polls = t->base.end_is_hangup = can_poll(in);
	t->out_polls = can_poll(out);
	/* a pipe that holds more wakes its two ends less; others have no size, or no right to it */
	fd_widen_pipe(in, PIPE_BYTES);
	fd_widen_pipe(out, PIPE_BYTES);
	if (t->out_polls && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		t->out_nonblock = fcntl(out, F_SETFL, t->out_flags | O_NONBLOCK) == 0;
	t->read_event = event_new(base, t->in_polls ? in : -1,
				  t->in_polls ? EV_READ | EV_PERSIST : 0, on_readable, t);
	t->write_event = event_new(base, t->out_polls ? out : -1, t->out_polls ? EV_WRITE : 0,
				   on_writable, t);
	t->end_event = event_new(base, -1, 0, on_end, t);
	if (t->read_event == NULL || t->write_event == NULL || t->end_event == NULL) {
		stdio_free(&t->base);
		return -ENOMEM;
	}
	*ret = &t->base;
	return 0;
}
