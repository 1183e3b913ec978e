/*
 * frontend/output.c - what is kept of one output stream: its head and its tail.
 * Runs in: bailey-frontend.
 * Input: bytes a run printed; untrusted in every way.
 * Owns: at most OUTPUT_HEAD and twice OUTPUT_TAIL bytes a stream; what is kept whole (a file, an
 *       evaluation's value) up to the maximum its step gave.
 *
 * g_out bytes come in order from the start; g_tail bytes are the stream's last
 * where the guest dropped some in between. Everything received counts as
 * consumed at once, so a run is never slowed by a client that reads slowly.
 */
#include <string.h>

#include "frontend.h"

#define TAIL_ROOM (2 * OUTPUT_TAIL)
#define WIDE_WINDOW ((uint64_t)4 * GUEST_WINDOW) /* the most the broker lets us grant ahead */

void
output_init(struct output *o)
{
	*o = (struct output){.credit = GUEST_WINDOW, .head_max = OUTPUT_HEAD};
	buf_init(&o->head, OUTPUT_HEAD + OUTPUT_TAIL); /* the tail joins it where all fits */
	buf_init(&o->tail, TAIL_ROOM);
}

void
output_init_whole(struct output *o, size_t max)
{
	output_done(o);
	output_init(o);
	o->whole = true;
	o->head_max = max;
	buf_init(&o->head, max);
}

void
output_done(struct output *o)
{
	buf_done(&o->head);
	buf_done(&o->tail);
}

/* Keeps the last bytes: room for twice as many, so that each byte is moved at most once or so. */
static void
add_tail(struct buf *tail, const uint8_t *data, size_t len)
{
	size_t have = buf_len(tail), keep;

	if (len >= OUTPUT_TAIL) {
		buf_clear(tail);
		data += len - OUTPUT_TAIL;
		len = OUTPUT_TAIL;
	} else if (have + len > TAIL_ROOM) {
		keep = OUTPUT_TAIL - len;
		buf_consume(tail, have - keep);
	}
	(void)buf_append(tail, data, len); /* fits by the above */
}

void
output_add(struct output *o, const uint8_t *data, size_t len, bool tail)
{
	o->received += len;
	if (tail) {
		o->tail_received += len;
	} else {
		size_t room = o->head_max - buf_len(&o->head);
		size_t n = len < room ? len : room;

		(void)buf_append(&o->head, data, n);
		data += n;
		len -= n;
	}
	if (len > 0 && !o->whole)
		add_tail(&o->tail, data, len);
}

bool
output_credit(struct output *o, uint64_t *ret_limit)
{
	uint64_t limit = o->received + GUEST_WINDOW;

	/* Every grant wakes all on its way: fewer of them where much is wanted, and no more than
	 * that, because all of it may come to wait in the link. */
	if (o->whole && limit < o->head_max)
		limit = o->received + WIDE_WINDOW < o->head_max ? o->received + WIDE_WINDOW
								: o->head_max;
	if (o->credit > o->received && o->credit - o->received > (limit - o->received) / 2)
		return false;
	o->credit = limit;
	*ret_limit = o->credit;
	return true;
}

/* Head and tail as two parts: each cut back to whole code points if it is text otherwise. */
static void
view_parts(struct output_view *v)
{
	size_t head_len = text_floor(v->head, v->head_len);
	size_t skip = text_skip(v->tail, v->tail_len);
	bool head_hidden = false, tail_hidden = false;

	v->utf8 = text_scan(v->head, head_len, &head_hidden) &&
		  text_scan(v->tail + skip, v->tail_len - skip, &tail_hidden);
	if (!v->utf8)
		return;
	v->hidden = head_hidden || tail_hidden;
	v->head_len = head_len;
	v->tail += skip;
	v->tail_len -= skip;
}

void
output_view(struct output *o, uint64_t written, uint64_t dropped, struct output_view *ret)
{
	struct output_view v = {.bytes = written > o->received ? written : o->received};
	size_t keep = OUTPUT_TAIL;

	/* what the guest dropped lies between its g_out and its g_tail bytes */
	if (dropped > 0 && o->tail_received < keep)
		keep = (size_t)o->tail_received;
	if (buf_len(&o->tail) > keep)
		buf_consume(&o->tail, buf_len(&o->tail) - keep);
	if (v.bytes == buf_len(&o->head) + buf_len(&o->tail) &&
	    buf_append(&o->head, buf_data(&o->tail), buf_len(&o->tail)) == 0)
		buf_clear(&o->tail); /* all of it is here: one part */
	v.head = buf_data(&o->head);
	v.head_len = buf_len(&o->head);
	v.tail = buf_data(&o->tail);
	v.tail_len = buf_len(&o->tail);
	if (v.tail_len == 0 && v.head_len == v.bytes)
		v.utf8 = text_scan(v.head, v.head_len, &v.hidden);
	else
		view_parts(&v);
	v.omitted = v.bytes - v.head_len - v.tail_len;
	*ret = v;
}
