/*
 * base/buf.c - growable bytes that cannot exist without a maximum.
 * Runs in: every process and the guest.
 * Input: bytes of any origin; the maximum is what bounds a peer.
 * Owns: the allocation of each buffer.
 *
 * Live bytes are data+off .. data+len. The maximum counts live bytes, and the
 * allocation never exceeds it. Consuming moves off; the hole is closed only
 * when room is needed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

#define BUF_FIRST 256u

void
buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void
buf_done(struct buf *b)
{
	if (b == NULL)
		return;
	free(b->data);
	*b = (struct buf){.max = b->max};
}

void
buf_clear(struct buf *b)
{
	b->len = 0;
	b->off = 0;
}

const uint8_t *
buf_data(const struct buf *b)
{
	/* never NULL: an empty view may go to memcpy and write */
	return b->data == NULL ? (const uint8_t *)"" : b->data + b->off;
}

size_t
buf_len(const struct buf *b)
{
	return b->len - b->off;
}

static bool must_grow;

void
buf_must_grow(void)
{
	must_grow = true;
}

/* Makes cap at least need (<= max), live bytes at the front. */
static int
buf_grow(struct buf *b, size_t need)
{
	size_t live = buf_len(b);
	size_t cap = need < BUF_FIRST ? BUF_FIRST : need;
	uint8_t *data;

	cap = cap > b->max / 2 ? b->max : cap * 2;
	data = malloc(cap);
	if (data == NULL && must_grow)
		fatal("out of memory");
	if (data == NULL)
		return -ENOMEM;
	if (b->data != NULL)
		memcpy(data, b->data + b->off, live);
	free(b->data);
	b->data = data;
	b->cap = cap;
	b->off = 0;
	b->len = live;
	return 0;
}

int
buf_reserve(struct buf *b, size_t n, uint8_t **ret_room)
{
	size_t live = buf_len(b);
	size_t need;
	int r;

	if (__builtin_add_overflow(live, n, &need) || need > b->max)
		return -ENOSPC;
	if (live == 0)
		buf_clear(b);
	if (b->data == NULL || b->cap - b->len < n) {
		if (b->data != NULL && need <= b->cap && (b->off >= live || b->cap == b->max)) {
			memmove(b->data, b->data + b->off, live);
			b->off = 0;
			b->len = live;
		} else {
			r = buf_grow(b, need);
			if (r < 0)
				return r;
		}
	}
	*ret_room = b->data + b->len;
	return 0;
}

void
buf_commit(struct buf *b, size_t n)
{
	if (n > b->cap - b->len)
		fatal("buf_commit: more than was reserved");
	b->len += n;
}

int
buf_append(struct buf *b, const void *p, size_t n)
{
	uint8_t *room;
	int r;

	if (n == 0)
		return 0;
	r = buf_reserve(b, n, &room);
	if (r < 0)
		return r;
	memcpy(room, p, n);
	buf_commit(b, n);
	return 0;
}

int
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	uint8_t *room;
	int n;
	int r;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return -EINVAL;
	r = buf_reserve(b, (size_t)n + 1, &room); /* vsnprintf ends with a NUL */
	if (r < 0)
		return r;
	va_start(args, fmt);
	n = vsnprintf((char *)room, (size_t)n + 1, fmt, args);
	va_end(args);
	if (n < 0)
		return -EINVAL;
	buf_commit(b, (size_t)n);
	return 0;
}

void
buf_consume(struct buf *b, size_t n)
{
	if (n > buf_len(b))
		fatal("buf_consume: more than there is");
	b->off += n;
	if (b->off == b->len)
		buf_clear(b);
}
