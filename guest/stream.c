/*
 * guest/stream.c - the session with the broker: frames in, frames out.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: the container's stdin. The broker is trusted, its bytes may be cut:
 *        a broker that dies leaves half a frame.
 * Owns: the container's stdin and stdout, sequence numbers, the session secret.
 *
 * Out: sequenced frames go to kept and stay there until acknowledged; wire
 * holds whole frames being written. A SYNC sets kept_on_wire back.
 * In: a frame that does not hold together is dropped unread and the session is
 * lost: from there on only padding and a SYNC with the right secret count, and
 * anything else ends the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define STREAM_IN_MAX ((size_t)4 * GUEST_FRAME_MAX)
#define STREAM_WIRE_FULL 65536u /* kept frames wait from here on; control frames may pass */
#define STREAM_WIRE_MAX (STREAM_WIRE_FULL + (size_t)2 * GUEST_FRAME_MAX)
#define STREAM_KEPT_FULL ((size_t)2 * GUEST_WINDOW) /* output waits from here on */
/* Above it the tails and the end of a run still fit. */
#define STREAM_KEPT_MAX (STREAM_KEPT_FULL + (size_t)3 * GUEST_FRAME_MAX)
#define STREAM_ACK_DELAY_MS 20u /* an acknowledgement rides on output if there is some */
#define STREAM_READ_ROUNDS 16u
#define STREAM_PIPE_IN GUEST_WINDOW
#define STREAM_PIPE_OUT (4 * GUEST_WINDOW) /* above what is kept: then it is never full */

void
stream_init(struct stream *s, int in_fd, int out_fd)
{
	*s = (struct stream){.in_fd = in_fd, .out_fd = out_fd, .heard_ms = clock_now_ms()};
	buf_init(&s->in, STREAM_IN_MAX);
	buf_init(&s->wire, STREAM_WIRE_MAX);
	buf_init(&s->kept, STREAM_KEPT_MAX);
}

void
stream_widen(struct stream *s)
{
	if (s->wide)
		return;
	s->wide = true;
	/* Where it is refused, what is there serves. */
	fd_widen_pipe(s->in_fd, (int)STREAM_PIPE_IN);
	fd_widen_pipe(s->out_fd, (int)STREAM_PIPE_OUT);
}

/* ---- out ---- */

static int
stream_put(struct buf *b, enum guest_type type, uint8_t no, uint32_t run, uint64_t seq,
	   const void *payload, size_t len)
{
	uint8_t *room;
	int r = buf_reserve(b, GUEST_HEADER_LEN + len + GUEST_CRC_LEN, &room);

	if (r < 0)
		return r;
	buf_commit(b, guest_frame_write(room, type, no, run, seq, payload, len));
	return 0;
}

int
stream_send(struct stream *s, enum guest_type type, uint8_t no, uint32_t run, const void *payload,
	    size_t len)
{
	return stream_put(&s->wire, type, no, run, 0, payload, len);
}

int
stream_send_kept(struct stream *s, enum guest_type type, uint8_t no, uint32_t run,
		 const void *payload, size_t len)
{
	int r = stream_put(&s->kept, type, no, run, s->last_built + 1, payload, len);

	if (r == 0)
		s->last_built++;
	return r;
}

bool
stream_has_room(const struct stream *s)
{
	return buf_len(&s->kept) < STREAM_KEPT_FULL;
}

bool
stream_wants_write(const struct stream *s)
{
	return buf_len(&s->wire) > 0;
}

/* Length of the whole frame at p, which is one of our own. */
static size_t
stream_frame_len(const uint8_t *p)
{
	return GUEST_HEADER_LEN + (size_t)(p[2] | (p[3] << 8)) + GUEST_CRC_LEN;
}

/* Kept frames wait. With a session lost nobody would read them: SYNC says from where to send again.
 */
static bool
stream_more(const struct stream *s)
{
	return s->session != SESSION_LOST && s->kept_on_wire < buf_len(&s->kept);
}

static void
stream_fill_wire(struct stream *s)
{
	while (stream_more(s) && buf_len(&s->wire) < STREAM_WIRE_FULL) {
		const uint8_t *frame = buf_data(&s->kept) + s->kept_on_wire;
		size_t n = stream_frame_len(frame);

		if (buf_append(&s->wire, frame, n) < 0)
			return;
		s->kept_on_wire += n;
	}
}

static void
stream_put_ack(struct stream *s)
{
	const struct guest_g_ack ack = {.seq = s->last_host};
	uint8_t payload[8];

	guest_put_g_ack(&ack, payload);
	if (stream_send(s, GUEST_g_ack, 0, 0, payload, sizeof(payload)) == 0)
		s->ack_at_ms = 0;
}

void
stream_flush(struct stream *s)
{
	do {
		ssize_t n;

		/* Before what is sent anyway: EXIT at the end of a packet can be seen early. */
		if (s->ack_at_ms != 0 &&
		    (stream_more(s) || buf_len(&s->wire) > 0 || clock_now_ms() >= s->ack_at_ms))
			stream_put_ack(s);
		stream_fill_wire(s);
		if (buf_len(&s->wire) == 0)
			return;
		n = write(s->out_fd, buf_data(&s->wire), buf_len(&s->wire));
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1)
			guest_end(END_OUTPUT);
		buf_consume(&s->wire, (size_t)n);
		if (buf_len(&s->wire) > 0)
			return; /* full; poll will say */
	} while (s->kept_on_wire < buf_len(&s->kept) || buf_len(&s->wire) > 0);
}

/* ---- in ---- */

/* Drops kept frames up to seq. */
static int
stream_forget(struct stream *s, uint64_t seq)
{
	if (seq > s->last_built)
		return -EBADMSG;
	while (s->acked < seq) {
		size_t n = stream_frame_len(buf_data(&s->kept));

		if (s->kept_on_wire < n)
			return -EBADMSG; /* acknowledged before it was sent */
		buf_consume(&s->kept, n);
		s->kept_on_wire -= n;
		s->acked++;
	}
	return 0;
}

static int
stream_on_h_sync(struct guest *g, const struct guest_h_sync *sync)
{
	struct stream *s = &g->stream;
	struct guest_g_sync_ack ack = {.last_host_seq = s->last_host};
	uint8_t payload[24];
	int r;

	if (!mem_equal_ct(sync->secret, s->secret, sizeof(s->secret)))
		return -EBADMSG;
	if (sync->last_guest_seq < s->acked || stream_forget(s, sync->last_guest_seq) < 0)
		return -EBADMSG; /* it asks for what is gone, or has what never was */
	memcpy(ack.nonce, sync->nonce, sizeof(ack.nonce));
	guest_put_g_sync_ack(&ack, payload);
	s->kept_on_wire = 0;
	s->session = SESSION_OPEN;
	g->pause_us = 0; /* this host has not said a word of it */
	r = stream_send(s, GUEST_g_sync_ack, 0, 0, payload, sizeof(payload));
	return r < 0 ? r : feed_tell_all(g);
}

/* One case per host-to-guest row; fixed payloads are decoded here. */
static int
stream_dispatch(struct guest *g, const struct guest_frame *f)
{
	struct guest_h_hello hello;
	struct guest_h_credit credit;
	struct guest_h_sync sync;
	struct guest_h_pace pace;
	struct guest_h_ack ack;
	int r;

	switch ((unsigned)f->row->type) {
	case GUEST_h_hello:
		r = guest_get_h_hello(f->payload, f->len, &hello);
		r = r < 0 ? r : guest_on_h_hello(g, &hello);
		secret_wipe(&hello, sizeof(hello));
		return r;
	case GUEST_h_ping:
		(void)stream_send(&g->stream, GUEST_g_pong, 0, 0, NULL, 0);
		return 0;
	case GUEST_h_ack:
		r = guest_get_h_ack(f->payload, f->len, &ack);
		return r < 0 ? r : stream_forget(&g->stream, ack.seq);
	case GUEST_h_sync:
		r = guest_get_h_sync(f->payload, f->len, &sync);
		r = r < 0 ? r : stream_on_h_sync(g, &sync);
		secret_wipe(&sync, sizeof(sync));
		return r;
	case GUEST_h_credit:
		r = guest_get_h_credit(f->payload, f->len, &credit);
		return r < 0 ? r : guest_on_h_credit(g, f->run, f->stream, &credit);
	case GUEST_h_pace:
		r = guest_get_h_pace(f->payload, f->len, &pace);
		g->pause_us = r < 0 ? g->pause_us : pace.pause_us;
		return r;
	case GUEST_h_spec:
		return guest_on_h_spec(g, f->run, f->payload, f->len);
	case GUEST_h_run:
		return guest_on_h_run(g, f->run, f->payload, f->len);
	case GUEST_h_stdin:
		return guest_on_h_stdin(g, f->run, f->payload, f->len);
	case GUEST_h_stdin_eof:
		return guest_on_h_stdin_eof(g, f->run);
	case GUEST_h_end:
		return guest_on_h_end(g, f->run);
	default:
		return -EBADMSG;
	}
}

/* The first frame is h_hello and comes once; a lost session knows SYNC alone; a sequenced
 * frame is the next one. */
static bool
stream_permits(const struct stream *s, const struct guest_frame *f)
{
	bool hello = f->row->type == GUEST_h_hello;

	if (s->session == SESSION_NONE || hello)
		return s->session == SESSION_NONE && hello;
	if (s->session == SESSION_LOST)
		return f->row->type == GUEST_h_sync;
	return !f->row->sequenced || f->seq == s->last_host + 1;
}

static int
stream_handle(struct guest *g, const struct guest_frame *f)
{
	struct stream *s = &g->stream;

	if (!stream_permits(s, f))
		return END_STREAM;
	s->heard_ms = clock_now_ms();
	s->met |= f->row->type != GUEST_h_hello;
	if (f->row->sequenced) {
		s->last_host = f->seq;
		if (s->ack_at_ms == 0)
			s->ack_at_ms = s->heard_ms + STREAM_ACK_DELAY_MS;
	}
	return stream_dispatch(g, f) < 0 ? END_STREAM : 0;
}

/* A frame that does not hold together. What a dead broker left is cut at any byte and then
 * filled with the next one's padding: past this header, or past the frame where the header is
 * whole, only padding can follow. */
static int
stream_tear(struct stream *s, size_t used, int r)
{
	size_t n = r == -EILSEQ ? used : used + GUEST_HEADER_LEN;

	if (s->session != SESSION_OPEN)
		return END_STREAM;
	buf_consume(&s->in, n < buf_len(&s->in) ? n : buf_len(&s->in));
	s->session = SESSION_LOST;
	return 0;
}

/* A runner that is forked later has a copy of all memory, and can be read for a moment. */
static void
stream_wipe_secret(struct stream *s, const struct guest_frame *f, size_t used)
{
	if (f->row->type == GUEST_h_hello || f->row->type == GUEST_h_sync)
		secret_wipe(s->in.data + s->in.off, used);
}

int
stream_intake(struct guest *g)
{
	struct stream *s = &g->stream;
	struct guest_frame frame;
	int end = 0;

	while (end == 0 && buf_len(&s->in) > 0) {
		size_t used = 0;
		int r = guest_frame_parse(buf_data(&s->in), buf_len(&s->in), H2G, &frame, &used);

		if (r < 0) {
			end = stream_tear(s, used, r);
			continue;
		}
		if (r == 1) {
			end = stream_handle(g, &frame);
			stream_wipe_secret(s, &frame, used);
		}
		buf_consume(&s->in, used);
		if (r == 0)
			break;
	}
	return end;
}

void
stream_read(struct guest *g)
{
	struct stream *s = &g->stream;

	for (size_t i = 0; i < STREAM_READ_ROUNDS; i++) {
		size_t room = STREAM_IN_MAX - buf_len(&s->in);
		uint8_t *at;
		ssize_t n;
		int end;

		room = room > STREAM_WIRE_FULL ? STREAM_WIRE_FULL : room;
		if (buf_reserve(&s->in, room, &at) < 0)
			return; /* no memory: the bytes stay in the pipe */
		n = read(s->in_fd, at, room);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n <= 0)
			guest_end(END_INPUT);
		buf_commit(&s->in, (size_t)n);
		end = stream_intake(g);
		if (end != 0)
			guest_end((enum guest_end_code)end);
		if ((size_t)n < room)
			return;
	}
}
