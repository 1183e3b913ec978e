/*
 * broker/session.c - the guest stream of one box: frames in, order, sequence,
 * credit; frames of a frontend checked and numbered on their way out.
 *
 * Runs in: bailey-broker.
 * Input: bytes of a hostile guest; frames of an untrusted frontend.
 * Owns: struct session (numbers, limits, the unparsed rest of a frame). No I/O.
 *
 * A session has many runs, GUEST_RUNS_MAX at once, told apart by their numbers;
 * sequence and acknowledgement are the session's. A guest may send output of a
 * run only between its h_run and its EXIT, in order and within the credit given
 * for it; the first thing wrong ends the box, nothing is ever repaired.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "broker.h"

#define ACK_EVERY GUEST_WINDOW /* of frames; the guest waits at twice that */
#define CREDIT_AHEAD_MAX ((uint64_t)4 * GUEST_WINDOW)
#define CHATTER_MAX 65536u /* between two pings; an honest guest needs a hundredth */
#define CHATTER_RUN 4096u  /* and as much more for each run begun meanwhile: it is acknowledged */

void
session_init(struct session *s)
{
	*s = (struct session){0};
	buf_init(&s->rx, (size_t)2 * GUEST_FRAME_MAX);
}

void
session_done(struct session *s)
{
	buf_done(&s->rx);
}

static struct session_run *
place_of(struct session *s, uint32_t number)
{
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++)
		if (s->run[i].number == number)
			return &s->run[i];
	return NULL;
}

struct session_run *
session_run(struct session *s, uint32_t number)
{
	return number ? place_of(s, number) : NULL;
}

uint32_t
session_run_open(struct session *s)
{
	struct session_run *n = place_of(s, 0);

	if (!n || s->last_run == UINT32_MAX)
		return 0;
	*n = (struct session_run){.number = ++s->last_run};
	s->chatter -= s->chatter < CHATTER_RUN ? s->chatter : CHATTER_RUN;
	for (size_t i = 0; i < STREAMS; i++)
		n->granted[i] = GUEST_WINDOW;
	return n->number;
}

void
session_run_close(struct session *s, uint32_t number)
{
	struct session_run *n = session_run(s, number);

	if (n)
		n->number = 0;
}

static bool
is_output(uint32_t stream)
{
	return stream == STREAM_STDOUT || stream == STREAM_STDERR || stream == STREAM_VALUE;
}

/* The run a frame speaks of, if it is going on. */
static struct session_run *
going(struct session *s, const struct guest_frame *f)
{
	struct session_run *n = session_run(s, f->run);

	return n && n->running ? n : NULL;
}

/* As the guest counts what it keeps until it is acknowledged: else a run that writes bytes one by
 * one would wait for a word that is not worth sending yet. */
static uint32_t
frame_bytes(const struct guest_frame *f)
{
	return (uint32_t)(GUEST_HEADER_LEN + f->len + GUEST_CRC_LEN);
}

static int
output_allowed(struct session *s, const struct guest_frame *f)
{
	struct session_run *n = going(s, f);
	uint64_t *used, most;

	if (!n || !is_output(f->stream))
		return -EBADMSG;
	if (f->row->type == GUEST_g_tail) {
		used = &n->tail[f->stream];
		most = GUEST_TAIL_MAX;
	} else {
		used = &n->sent[f->stream];
		most = n->granted[f->stream];
	}
	if (f->len > most - *used)
		return -EBADMSG;
	*used += f->len;
	s->unacked += frame_bytes(f);
	return 0;
}

/* A run whose specification was broken off by h_end ends too. */
static int
exit_allowed(struct session *s, const struct guest_frame *f)
{
	struct session_run *n = session_run(s, f->run);

	if (!n || (!n->running && !n->ended))
		return -EBADMSG;
	s->unacked += frame_bytes(f);
	n->number = 0; /* nothing of it may follow */
	return 0;
}

static int
credit_allowed(struct session *s, const struct guest_frame *f)
{
	struct session_run *n = going(s, f);
	struct guest_g_credit m;

	if (!n || f->stream != STREAM_STDIN || guest_get_g_credit(f->payload, f->len, &m) < 0 ||
	    m.limit < n->granted[STREAM_STDIN])
		return -EBADMSG;
	n->granted[STREAM_STDIN] = m.limit;
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

/* hello comes first and once; nothing but pongs, acks, ready and hello without a run. */
static int
frame_allowed(struct session *s, const struct guest_frame *f)
{
	if (f->row->sequenced && f->seq != s->guest_seq + 1)
		return -EBADMSG;
	if (!s->hello && f->row->type != GUEST_g_hello)
		return -EBADMSG;
	if (f->row->sequenced) {
		s->guest_seq++;
		s->stands = false;
	}
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
	if (f->row->type == GUEST_g_stands)
		return s->stands && f->run ? 0 : -EBADMSG;
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

static int
credit_of_frontend(struct session_run *n, uint32_t stream, const struct ipc_bin *data)
{
	struct guest_h_credit m;

	if (!n->running || !is_output(stream) || guest_get_h_credit(data->data, data->len, &m) < 0)
		return -EPROTO;
	if (m.limit < n->granted[stream] || m.limit > n->sent[stream] + CREDIT_AHEAD_MAX)
		return -EPROTO;
	n->granted[stream] = m.limit;
	return 0;
}

static int
spec_of_frontend(struct session_run *n, uint32_t stream, const struct ipc_bin *data, bool last)
{
	if (n->running || stream != 0 || data->len > GUEST_SPEC_MAX - n->spec_bytes)
		return -EPROTO;
	n->spec_bytes += (uint32_t)data->len;
	n->running = last;
	return 0;
}

static int
stdin_of_frontend(struct session_run *n, uint32_t stream, const struct ipc_bin *data, bool eof)
{
	if (!n->running || n->stdin_closed || stream != STREAM_STDIN ||
	    data->len > n->granted[STREAM_STDIN] - n->sent[STREAM_STDIN])
		return -EPROTO;
	n->sent[STREAM_STDIN] += data->len;
	n->stdin_closed = eof;
	return 0;
}

int
session_host_frame(struct session *s, uint32_t number, uint32_t type, uint32_t stream,
		   const struct ipc_bin *data, uint8_t *out)
{
	const struct guest_row *row = guest_row(type);
	struct session_run *n = session_run(s, number);
	int r;

	if (!n || n->ended || !row || row->dir != H2G || row->reader != GUEST_READ_FRONTEND ||
	    data->len < row->min || data->len > row->max)
		return -EPROTO;
	if (row->type == GUEST_h_credit)
		r = credit_of_frontend(n, stream, data);
	else if (row->type == GUEST_h_spec || row->type == GUEST_h_run)
		r = spec_of_frontend(n, stream, data, row->type == GUEST_h_run);
	else
		r = stdin_of_frontend(n, stream, data, row->type == GUEST_h_stdin_eof);
	if (r < 0)
		return r;
	n->told = true;
	if (row->sequenced)
		s->host_seq++;
	if (row->type == GUEST_h_run)
		n->ordered_seq = s->host_seq;
	return (int)guest_frame_write(out, row->type, (uint8_t)stream, number,
				      row->sequenced ? s->host_seq : 0, data->data, data->len);
}

size_t
session_end_frame(struct session *s, uint32_t number, enum end_cause cause, uint8_t *out)
{
	struct session_run *n = session_run(s, number);
	struct guest_h_end m = {.cause = cause};
	uint8_t payload[4];

	if (!n || !n->told || n->ended)
		return 0;
	n->ended = true;
	guest_put_h_end(&m, payload);
	return guest_frame_write(out, GUEST_h_end, 0, number, ++s->host_seq, payload,
				 sizeof(payload));
}

size_t
session_own_credit(struct session *s, uint32_t number, uint32_t stream, uint8_t *out)
{
	struct session_run *n = session_run(s, number);
	struct guest_h_credit m;
	uint8_t payload[8];

	if (!n || !n->running || n->granted[stream] - n->sent[stream] > GUEST_WINDOW / 2)
		return 0;
	m.limit = n->granted[stream] = n->sent[stream] + GUEST_WINDOW;
	guest_put_h_credit(&m, payload);
	return guest_frame_write(out, GUEST_h_credit, (uint8_t)stream, number, 0, payload,
				 sizeof(payload));
}

size_t
session_credit(struct session *s, uint32_t number, uint32_t stream, uint64_t limit, uint8_t *out)
{
	struct session_run *n = session_run(s, number);
	struct guest_h_credit m = {.limit = limit};
	uint8_t payload[8];

	if (!n)
		return 0;
	n->granted[stream] = limit;
	guest_put_h_credit(&m, payload);
	return guest_frame_write(out, GUEST_h_credit, (uint8_t)stream, number, 0, payload,
				 sizeof(payload));
}

bool
session_owes(const struct session *s, bool now)
{
	return now ? s->unacked > 0 : s->unacked >= ACK_EVERY;
}

void
session_mark(struct session *s)
{
	s->marked_seq = s->guest_seq;
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		memcpy(s->run[i].marked, s->run[i].sent, sizeof(s->run[i].marked));
		memcpy(s->run[i].marked_tail, s->run[i].tail, sizeof(s->run[i].marked_tail));
	}
}

size_t
session_ack(struct session *s, uint8_t *out)
{
	struct guest_h_ack m = {.seq = s->marked_seq};
	uint8_t payload[8];

	if (!s->unacked)
		return 0;
	s->unacked = 0;
	guest_put_h_ack(&m, payload);
	return guest_frame_write(out, GUEST_h_ack, 0, 0, 0, payload, sizeof(payload));
}

bool
session_heard(struct session *s)
{
	bool was = s->doubted;

	s->pong_ms = clock_now_ms();
	s->doubted = false;
	return was;
}

void
session_resume(struct session *s, uint64_t host_seq)
{
	s->host_seq = s->host_acked = host_seq;
	s->hello = s->ready = s->stands = true;
	(void)session_heard(s);
	s->chatter = 0;
}

struct session_run *
session_run_resume(struct session *s, uint32_t number, const uint64_t *sent, const uint64_t *tail)
{
	struct session_run *n = number ? place_of(s, 0) : NULL;

	if (!n)
		return NULL;
	*n = (struct session_run){.number = number, .running = true, .told = true};
	for (size_t i = 0; i < STREAMS; i++) {
		n->sent[i] = n->marked[i] = sent[i];
		n->tail[i] = n->marked_tail[i] = tail[i];
		/* What was granted meanwhile is unknown; it cannot be more. */
		n->granted[i] = sent[i] + CREDIT_AHEAD_MAX;
	}
	return n;
}
