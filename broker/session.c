/*
 * broker/session.c - the guest stream of one box: frames in, order, sequence,
 * credit; frames of a frontend checked and numbered on their way out.
 *
 * Runs in: bailey-broker.
 * Input: bytes of a hostile guest; frames of an untrusted frontend.
 * Owns: struct session (numbers, limits, the unparsed rest of a frame). No I/O.
 *
 * One run a session (single use): it is run 1. A guest may send output only
 * while its run is on, in order and within the credit its frontend gave; the
 * first thing wrong ends the box, nothing is ever repaired.
 */
#include <errno.h>
#include <string.h>

#include "broker.h"

#define RUN_NUMBER 1u
#define ACK_EVERY 65536u
#define CREDIT_AHEAD_MAX ((uint64_t)4 * GUEST_WINDOW)
#define CHATTER_MAX 65536u /* between two pings; an honest guest needs a hundredth */

void
session_init(struct session *s)
{
	*s = (struct session){0};
	buf_init(&s->rx, (size_t)2 * GUEST_FRAME_MAX);
	for (int i = 0; i < 3; i++)
		s->granted[i] = GUEST_WINDOW;
}

void
session_done(struct session *s)
{
	buf_done(&s->rx);
}

static int
output_allowed(struct session *s, const struct guest_frame *f)
{
	uint64_t *used, most;

	if (!s->running || s->exited || f->run != RUN_NUMBER ||
	    (f->stream != STREAM_STDOUT && f->stream != STREAM_STDERR))
		return -EBADMSG;
	if (f->row->type == GUEST_g_tail) {
		used = &s->tail[f->stream];
		most = GUEST_TAIL_MAX;
	} else {
		used = &s->sent[f->stream];
		most = s->granted[f->stream];
	}
	if (f->len > most - *used)
		return -EBADMSG;
	*used += f->len;
	s->unacked += (uint32_t)f->len;
	return 0;
}

static int
exit_allowed(struct session *s, const struct guest_frame *f)
{
	if (!s->running || s->exited || f->run != RUN_NUMBER)
		return -EBADMSG;
	s->exited = true;
	return 0;
}

static int
credit_allowed(struct session *s, const struct guest_frame *f)
{
	struct guest_g_credit m;

	if (!s->running || s->exited || f->run != RUN_NUMBER || f->stream != STREAM_STDIN ||
	    guest_get_g_credit(f->payload, f->len, &m) < 0 || m.limit < s->granted[STREAM_STDIN])
		return -EBADMSG;
	s->granted[STREAM_STDIN] = m.limit;
	return 0;
}

static int
ack_allowed(struct session *s, const struct guest_frame *f)
{
	struct guest_g_ack m;

	if (guest_get_g_ack(f->payload, f->len, &m) < 0 || m.seq > s->host_seq ||
	    m.seq < s->host_acked)
		return -EBADMSG;
	s->host_acked = m.seq;
	return 0;
}

/* hello comes first and once; nothing but pongs, ready and hello without a run. */
static int
frame_allowed(struct session *s, const struct guest_frame *f)
{
	if (f->row->sequenced && f->seq != s->guest_seq + 1)
		return -EBADMSG;
	if (!s->hello && f->row->type != GUEST_g_hello)
		return -EBADMSG;
	if (f->row->sequenced)
		s->guest_seq++;
	if (f->row->type == GUEST_g_hello) {
		if (s->hello)
			return -EBADMSG;
		s->hello = true;
		return 0;
	}
	if (f->row->type == GUEST_g_ready) {
		if (s->ready)
			return -EBADMSG;
		s->ready = true;
		return 0;
	}
	if (f->row->type == GUEST_g_pong)
		return 0;
	if (f->row->type == GUEST_g_ack)
		return ack_allowed(s, f);
	if (f->row->type == GUEST_g_credit)
		return credit_allowed(s, f);
	if (f->row->type == GUEST_g_out || f->row->type == GUEST_g_tail)
		return output_allowed(s, f);
	if (f->row->type == GUEST_g_exit)
		return exit_allowed(s, f);
	return -EBADMSG; /* g_sync_ack: this broker sent no SYNC */
}

/* Counts what no credit bounds: padding, and frames that answer or grant. A guest could keep
 * broker and frontend busy with them for ever. f is NULL for padding alone. */
static int
chatter_allowed(struct session *s, const struct guest_frame *f, size_t used)
{
	if (f && f->row->sequenced)
		used -= GUEST_HEADER_LEN + f->len + GUEST_CRC_LEN; /* the padding before it */
	s->chatter += used;
	return s->chatter > CHATTER_MAX ? -EBADMSG : 0;
}

/* Whole frames at p; returns how many bytes were used. */
static int
feed_frames(struct session *s, const uint8_t *p, size_t n, size_t *ret_used, void *ctx,
	    void (*sink)(void *ctx, const struct guest_frame *f))
{
	size_t at = 0;

	while (at < n) {
		struct guest_frame f;
		size_t used = 0;
		int r = guest_frame_parse(p + at, n - at, G2H, &f, &used);

		if (r < 0 || chatter_allowed(s, r == 1 ? &f : NULL, used) < 0)
			return -EBADMSG;
		at += used;
		if (r == 0)
			break;
		if (frame_allowed(s, &f) < 0)
			return -EBADMSG;
		sink(ctx, &f);
	}
	*ret_used = at;
	return 0;
}

int
session_feed(struct session *s, const uint8_t *p, size_t n, void *ctx,
	     void (*sink)(void *ctx, const struct guest_frame *f))
{
	size_t used = 0;
	int r;

	while (buf_len(&s->rx) && n) { /* an unfinished frame waits: complete it */
		size_t room = (size_t)2 * GUEST_FRAME_MAX - buf_len(&s->rx);
		size_t take = n < room ? n : room;

		if (buf_append(&s->rx, p, take) < 0)
			return -EBADMSG;
		p += take;
		n -= take;
		r = feed_frames(s, buf_data(&s->rx), buf_len(&s->rx), &used, ctx, sink);
		if (r < 0)
			return r;
		buf_consume(&s->rx, used);
	}
	r = feed_frames(s, p, n, &used, ctx, sink);
	if (r < 0)
		return r;
	if (used < n && buf_append(&s->rx, p + used, n - used) < 0)
		return -EBADMSG;
	return 0;
}

bool
session_hints_exit(const struct session *s, const uint8_t *p, size_t n)
{
	const size_t whole = GUEST_HEADER_LEN + 104 + GUEST_CRC_LEN;

	return s->running && !s->exited && buf_len(&s->rx) == 0 && n >= whole &&
	       p[n - whole] == GUEST_g_exit;
}

static int
credit_of_frontend(struct session *s, uint32_t stream, const struct ipc_bin *data)
{
	struct guest_h_credit m;

	if (!s->running || (stream != STREAM_STDOUT && stream != STREAM_STDERR) ||
	    guest_get_h_credit(data->data, data->len, &m) < 0)
		return -EPROTO;
	if (m.limit < s->granted[stream] || m.limit > s->sent[stream] + CREDIT_AHEAD_MAX)
		return -EPROTO;
	s->granted[stream] = m.limit;
	return 0;
}

static int
spec_of_frontend(struct session *s, uint32_t stream, const struct ipc_bin *data, bool last)
{
	if (s->running || stream != 0 || data->len > GUEST_SPEC_MAX - s->spec_bytes)
		return -EPROTO;
	s->spec_bytes += (uint32_t)data->len;
	s->running = last;
	return 0;
}

static int
stdin_of_frontend(struct session *s, uint32_t stream, const struct ipc_bin *data, bool eof)
{
	if (!s->running || s->stdin_closed || stream != STREAM_STDIN ||
	    data->len > s->granted[STREAM_STDIN] - s->sent[STREAM_STDIN])
		return -EPROTO;
	s->sent[STREAM_STDIN] += data->len;
	s->stdin_closed = eof;
	return 0;
}

int
session_host_frame(struct session *s, uint32_t type, uint32_t stream, const struct ipc_bin *data,
		   uint8_t *out)
{
	const struct guest_row *row = guest_row(type);
	int r;

	if (!row || row->dir != H2G || row->reader != GUEST_READ_FRONTEND || data->len < row->min ||
	    data->len > row->max)
		return -EPROTO;
	if (row->type == GUEST_h_credit)
		r = credit_of_frontend(s, stream, data);
	else if (row->type == GUEST_h_spec || row->type == GUEST_h_run)
		r = spec_of_frontend(s, stream, data, row->type == GUEST_h_run);
	else
		r = stdin_of_frontend(s, stream, data, row->type == GUEST_h_stdin_eof);
	if (r < 0)
		return r;
	return (int)guest_frame_write(out, row->type, (uint8_t)stream, RUN_NUMBER,
				      row->sequenced ? ++s->host_seq : 0, data->data, data->len);
}

size_t
session_end_frame(struct session *s, enum end_cause cause, uint8_t *out)
{
	struct guest_h_end m = {.cause = cause};
	uint8_t payload[4];

	if (!s->running)
		return 0;
	guest_put_h_end(&m, payload);
	return guest_frame_write(out, GUEST_h_end, 0, RUN_NUMBER, ++s->host_seq, payload,
				 sizeof(payload));
}

size_t
session_ack(struct session *s, bool now, uint8_t *out)
{
	struct guest_h_ack m = {.seq = s->guest_seq};
	uint8_t payload[8];

	if (!s->unacked || s->exited || (!now && s->unacked < ACK_EVERY))
		return 0;
	s->unacked = 0;
	guest_put_h_ack(&m, payload);
	return guest_frame_write(out, GUEST_h_ack, 0, 0, 0, payload, sizeof(payload));
}
