/*
 * guest/output.c - what a run writes: head, tail, counts and credit.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: pipes written by untrusted code.
 * Owns: bytes not framed yet; the pipes are the runner's.
 *
 * Of each stream the first GUEST_HEAD_MAX bytes are sent as they come and the
 * last GUEST_TAIL_MAX at the end; what lies between is counted and dropped. So
 * memory is bounded and a pipe is never left full because a reader is slow.
 *
 * Beside the calls of others (h_pace) what is much comes in pieces with pauses between them, and
 * what is only counted is read with rests: a run that floods then waits for its pipe.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define OUTPUT_READ_MAX 65536u /* a pipe's usual size */
#define OUTPUT_REST_US 500u
#define OUTPUT_LAST_MS 500u /* of a run's time: its end must come in time */
#define OUTPUT_ROUNDS 8u    /* reads before the loop looks at the host again */

void
output_init(struct output *o, uint32_t run, uint8_t no)
{
	*o = (struct output){.fd = -1,
			     .stream = no,
			     .run = run,
			     .head_max = GUEST_HEAD_MAX,
			     .credit = GUEST_WINDOW};
	buf_init(&o->pending, GUEST_HEAD_MAX);
}

void
output_done(struct output *o)
{
	buf_done(&o->pending);
	free(TAKE(o->tail));
}

/* With no session a full window stays in the pipe, so the run waits for its reader. */
bool
output_may_read(const struct guest *g, const struct output *o)
{
	if (o->rest_us > 0 && clock_now_us() < o->rest_us)
		return false;
	return g->stream.session == SESSION_OPEN || buf_len(&o->pending) < GUEST_WINDOW;
}

static void
output_keep_tail(struct output *o, const uint8_t *p, size_t n)
{
	if (n > GUEST_TAIL_MAX) {
		p += n - GUEST_TAIL_MAX;
		n = GUEST_TAIL_MAX;
	}
	if (n > 0 && o->tail == NULL)
		o->tail = malloc(GUEST_TAIL_MAX);
	if (o->tail == NULL)
		return; /* no memory: these bytes can only be counted */
	while (n > 0) {
		size_t part = GUEST_TAIL_MAX - o->tail_at;

		part = part > n ? n : part;
		memcpy(o->tail + o->tail_at, p, part);
		o->tail_at = (o->tail_at + part) % GUEST_TAIL_MAX;
		o->tail_len += part;
		p += part;
		n -= part;
	}
	if (o->tail_len > GUEST_TAIL_MAX)
		o->tail_len = GUEST_TAIL_MAX;
}

void
output_put(struct output *o, const uint8_t *p, size_t n)
{
	size_t head = 0;

	if (o->total < o->head_max) {
		head = o->head_max - o->total > n ? n : (size_t)(o->head_max - o->total);
		if (buf_append(&o->pending, p, head) < 0)
			head = 0; /* no memory: of these bytes the last are kept */
	}
	o->total += n;
	output_keep_tail(o, p + head, n - head);
}

bool
output_read(struct output *o, bool all)
{
	static uint8_t chunk[OUTPUT_READ_MAX];

	for (size_t i = 0; o->fd >= 0 && (all || i < OUTPUT_ROUNDS); i++) {
		ssize_t n = read(o->fd, chunk, sizeof(chunk));

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		output_put(o, chunk, (size_t)n);
		if ((size_t)n < sizeof(chunk))
			return false; /* probably empty; poll will say */
	}
	return o->fd < 0;
}

/* It costs a run at most half of its time, and never the answer to how it ended. */
static bool
output_has_time(const struct run *run, uint64_t now_ms)
{
	uint64_t left = run->deadline_ms > now_ms ? run->deadline_ms - now_ms : 0;

	return run->deadline_ms == 0 || (left > OUTPUT_LAST_MS && left > run->what.timeout_ms / 2);
}

/* Whether others go first. Not where all is wanted (a file), nor of a run whose end is wanted. */
static bool
output_paced(struct guest *g, const struct output *o, uint64_t now_us)
{
	const uint32_t ending = EXIT_ENDED | EXIT_TIMED_OUT | EXIT_OUTPUT_LIMIT;
	const struct run *run = g->pause_us > 0 ? run_find(g, o->run) : NULL;

	return run != NULL && o->framed >= GUEST_AT_ONCE && o->head_max == GUEST_HEAD_MAX &&
	       (run->result.flags & ending) == 0 && output_has_time(run, now_us / 1000);
}

void
output_rest(struct guest *g, struct output *o)
{
	uint64_t now = clock_now_us();

	if (o->total >= o->head_max && output_paced(g, o, now))
		o->rest_us = now + OUTPUT_REST_US;
}

static bool
output_could_frame(const struct guest *g, const struct output *o)
{
	return buf_len(&o->pending) > 0 && o->framed < o->credit && stream_has_room(&g->stream);
}

uint64_t
output_next_us(struct guest *g, const struct output *o, uint64_t now_us)
{
	uint64_t next = o->fd >= 0 && o->rest_us > now_us ? o->rest_us : 0;

	if (output_could_frame(g, o) && output_paced(g, o, now_us) &&
	    (next == 0 || o->next_us < next))
		next = o->next_us;
	return next;
}

void
output_pump(struct guest *g, struct output *o)
{
	uint64_t now = g->pause_us > 0 ? clock_now_us() : 0;

	while (output_could_frame(g, o) && !(now < o->next_us && output_paced(g, o, now))) {
		size_t n = buf_len(&o->pending);
		uint64_t room = o->credit - o->framed;

		n = n > GUEST_PIECE ? GUEST_PIECE : n;
		n = n > room ? (size_t)room : n;
		if (stream_send_kept(&g->stream, GUEST_g_out, o->stream, o->run,
				     buf_data(&o->pending), n) < 0)
			return;
		buf_consume(&o->pending, n);
		o->framed += n;
		o->next_us = now + g->pause_us;
	}
}

bool
output_finish(struct guest *g, struct output *o)
{
	uint8_t last[GUEST_TAIL_MAX];
	size_t first;

	output_pump(g, o);
	if (buf_len(&o->pending) > 0)
		return false;
	if (o->tail_len == 0 || o->tail_sent)
		return true;
	/* The ring's oldest byte is where the next one would go, once it is full. */
	first = o->tail_len < GUEST_TAIL_MAX ? 0 : GUEST_TAIL_MAX - o->tail_at;
	memcpy(last, o->tail + (first == 0 ? 0 : o->tail_at), first == 0 ? o->tail_len : first);
	if (first > 0)
		memcpy(last + first, o->tail, o->tail_at);
	if (stream_send_kept(&g->stream, GUEST_g_tail, o->stream, o->run, last, o->tail_len) < 0)
		return false;
	o->tail_sent = true;
	return true;
}

uint64_t
output_dropped(const struct output *o)
{
	return o->total - o->framed - o->tail_len;
}

int
guest_on_h_credit(struct guest *g, uint32_t run, uint8_t no, const struct guest_h_credit *c)
{
	struct run *r = run_find(g, run);
	struct output *o;

	if (no < STREAM_STDOUT || no > STREAM_VALUE)
		return -EBADMSG;
	if (r == NULL)
		return 0;
	o = &r->out[no - STREAM_STDOUT];
	if (c->limit > o->credit) /* a smaller one is an old one */
		o->credit = c->limit;
	output_pump(g, o);
	return 0;
}
