/*
 * guest/feed.c - a run's stdin: a pipe, filled as credit was granted.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: bytes of the caller, by way of the broker.
 * Owns: the write end of the run's stdin.
 *
 * Without SPEC_STDIN the pipe is closed at once. That is closer to what a run
 * expects than /dev/null: a pipe at its end is what `true | program` sees, and
 * it can be polled, which event loops cannot do with /dev/null.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define FEED_GRANT_STEP (GUEST_WINDOW / 2) /* a grant is worth a frame from here on */

void
feed_init(struct feed *f, uint32_t run)
{
	*f = (struct feed){.fd = -1, .run = run, .granted = GUEST_WINDOW};
	buf_init(&f->pending, GUEST_WINDOW);
}

bool
feed_wants_write(const struct feed *f)
{
	return f->fd >= 0 && buf_len(&f->pending) > 0;
}

void
feed_close(struct feed *f)
{
	if (f->fd >= 0)
		(void)close(f->fd); /* a pipe's close has nothing to report */
	f->fd = -1;
	f->consumed = f->received;
	buf_done(&f->pending);
}

void
feed_grant(struct guest *g, struct feed *f)
{
	uint8_t payload[8];
	struct guest_g_credit credit = {.limit = f->consumed + GUEST_WINDOW};

	if (credit.limit - f->granted < FEED_GRANT_STEP)
		return;
	guest_put_g_credit(&credit, payload);
	if (stream_send(&g->stream, GUEST_g_credit, STREAM_STDIN, f->run, payload,
			sizeof(payload)) == 0)
		f->granted = credit.limit;
}

void
feed_pump(struct guest *g, struct feed *f)
{
	while (feed_wants_write(f)) {
		ssize_t n = write(f->fd, buf_data(&f->pending), buf_len(&f->pending));

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			break;
		if (n == -1) {
			feed_close(f); /* nobody reads any more: what comes is thrown away */
			break;
		}
		buf_consume(&f->pending, (size_t)n);
		f->consumed += (uint64_t)n;
	}
	if (f->eof && buf_len(&f->pending) == 0)
		feed_close(f);
	feed_grant(g, f);
}

int
guest_on_h_stdin(struct guest *g, uint32_t run, const uint8_t *p, size_t n)
{
	struct run *r = run_find(g, run);
	struct feed *f;

	if (r == NULL || r->state >= STATE_DRAINING)
		return 0;
	f = &r->feed;
	if (r->state == STATE_IDLE || f->eof || n > f->granted - f->received)
		return -EBADMSG;
	f->received += n;
	if (r->what.kind == RUN_FILE_WRITE) {
		files_take(g, r, p, n);
		return 0;
	}
	if (f->fd < 0 || buf_append(&f->pending, p, n) < 0)
		feed_close(f);
	feed_pump(g, f);
	return 0;
}

int
guest_on_h_stdin_eof(struct guest *g, uint32_t run)
{
	struct run *r = run_find(g, run);

	if (r == NULL || r->state >= STATE_DRAINING)
		return 0;
	if (r->state == STATE_IDLE)
		return -EBADMSG;
	r->feed.eof = true;
	if (r->what.kind == RUN_FILE_WRITE)
		files_end(g, r, 0);
	else
		feed_pump(g, &r->feed);
	return 0;
}

/* What the host cannot know after a session was cut: which of its frames came. Of a run that is
 * over its EXIT says all. */
int
feed_tell_all(struct guest *g)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < GUEST_RUNS_MAX; i++) {
		const struct run *run = &g->runs[i];
		const struct guest_g_stands stands = {.received = run->feed.received,
						      .granted = run->feed.granted,
						      .ordered = run->state != STATE_IDLE,
						      .closed = run->feed.eof};
		uint8_t payload[24];

		if (run->number == 0 || run->state == STATE_OVER)
			continue;
		guest_put_g_stands(&stands, payload);
		r = stream_send(&g->stream, GUEST_g_stands, 0, run->number, payload,
				sizeof(payload));
	}
	return r;
}
