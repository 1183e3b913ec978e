/*
 * broker/store_open.c - the kept-output memory as a former broker left it.
 *
 * Runs in: bailey-broker, before its filter.
 * Input: memory which a broker may have been writing to when it died: an entry
 *        that does not hang together is dropped, no number in it is used unchecked.
 * Owns: the mapping, for store.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_parts.h"

struct marks {
	bool used[BLOCKS_MAX];
	uint16_t mine[RUN_BLOCKS]; /* of the entry looked at */
	uint32_t n;
};

static bool
mark(const struct store *s, struct marks *m, uint16_t block)
{
	if (block >= s->n_blocks || m->used[block] || m->n == RUN_BLOCKS)
		return false;
	m->used[block] = true;
	m->mine[m->n++] = block;
	return true;
}

static bool
stream_whole(struct store *s, struct marks *m, struct stream *st, bool rings)
{
	uint64_t chained = st->head > SHORT ? st->head - SHORT : 0;

	if (st->head > st->written || chained > (uint64_t)RUN_BLOCKS * BLOCK || st->ring > RING ||
	    st->ring_at >= RING || st->ring > st->written - st->head || (st->ring > 0 && !rings))
		return false;
	uint16_t block = st->first, last = NONE;
	for (uint64_t n = (chained + BLOCK - 1) / BLOCK; n > 0; n--) {
		if (!mark(s, m, block))
			return false;
		last = block;
		block = s->next[block];
	}
	/* A block that was linked and holds nothing yet is none of its. */
	if (last == NONE)
		st->first = NONE;
	else
		s->next[last] = NONE;
	st->last = last;
	return true;
}

static bool
entry_whole(struct store *s, struct marks *m, struct entry *e, uint64_t now)
{
	m->n = 0;
	if (e->state > ENTRY_ENDED || e->status >= RUN_STATUS_COUNT || e->cause >= CAUSES ||
	    e->started_ms > now || e->principal[64] != '\0' || e->run_id[32] != '\0' ||
	    e->sandbox[32] != '\0')
		return false;
	if (e->state == ENTRY_ENDED && e->ended_ms > now)
		return false;
	if (e->rings != NONE && !mark(s, m, e->rings))
		return false;
	for (size_t i = 0; i < 2; i++)
		if (!stream_whole(s, m, &e->stream[i], e->rings != NONE))
			return false;
	e->blocks = (uint16_t)m->n;
	return true;
}

/* Takes the entry over, or forgets it. */
static void
take(struct store *s, struct marks *m, uint16_t run, uint64_t now)
{
	struct entry *e = &s->entries[run];

	if (!entry_whole(s, m, e, now)) {
		for (uint32_t i = 0; i < m->n; i++)
			m->used[m->mine[i]] = false;
		log_warn("kept output: a broken entry was dropped");
		e->state = ENTRY_FREE;
		return;
	}
	if (e->state == ENTRY_LIVE) {
		e->status = RUN_lost;
		e->cause = CAUSE_BROKER_GONE;
		e->ended_ms = now;
		store_settle();
		e->state = ENTRY_ENDED;
		s->lost[run] = true;
	}
	s->taken[run] = true;
	s->seq = e->seq > s->seq ? e->seq : s->seq;
}

/* Reads the index by pread: it touches no page that was never used. */
static int
adopt_entries(struct store *s, struct marks *m, int fd)
{
	struct entry page[8];
	uint64_t now = clock_now_ms();

	for (uint32_t first = 0; first < ENTRIES; first += ARRAY_LEN(page)) {
		if (pread(fd, page, sizeof(page), (off_t)(first * sizeof(page[0]))) !=
		    (ssize_t)sizeof(page))
			return -EIO;
		for (uint32_t i = 0; i < ARRAY_LEN(page); i++)
			if (page[i].state != ENTRY_FREE)
				take(s, m, (uint16_t)(first + i), now);
	}
	return 0;
}

struct ended {
	uint64_t ended_ms, seq;
	uint16_t run;
};

static int
by_end(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;

	if (x->ended_ms != y->ended_ms)
		return x->ended_ms < y->ended_ms ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void
order(struct store *s, const struct marks *m)
{
	struct ended *list = xcalloc(ENTRIES, sizeof(*list));
	size_t n = 0;

	/* Stacks: the lowest number on top. */
	for (uint32_t i = s->n_blocks; i > 0; i--)
		if (!m->used[i - 1])
			s->free[s->n_free++] = (uint16_t)(i - 1);
	for (uint32_t i = ENTRIES; i > 0; i--) {
		const struct entry *e = &s->entries[i - 1];
		if (s->taken[i - 1])
			list[n++] = (struct ended){e->ended_ms, e->seq, (uint16_t)(i - 1)};
		else
			s->open[s->n_open++] = (uint16_t)(i - 1);
	}
	if (n > 0)
		qsort(list, n, sizeof(*list), by_end);
	for (size_t i = 0; i < n; i++) {
		store_hold(s, list[i].run);
		store_list_ended(s, list[i].run);
	}
	s->touched = n > 0;
	free(list);
}

int
store_open(int fd, struct store **ret)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -errno;
	if (st.st_size < (off_t)(BLOCKS_AT + BLOCK))
		return -EINVAL;
	struct store *s = xcalloc(1, sizeof(*s));
	size_t blocks = ((size_t)st.st_size - BLOCKS_AT) / BLOCK;
	s->n_blocks = (uint32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
	s->len = BLOCKS_AT + (size_t)s->n_blocks * BLOCK;
	void *map = mmap(NULL, s->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int r = -errno;
		free(s);
		return r;
	}
	s->map = map;
	s->entries = map;
	s->next = (uint16_t *)(void *)(s->map + NEXT_AT);
	struct marks *m = xcalloc(1, sizeof(*m));
	int r = adopt_entries(s, m, fd);
	if (r == 0)
		order(s, m);
	free(m);
	if (r < 0) {
		store_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

void
store_close(struct store *s)
{
	if (!s)
		return;
	(void)munmap(s->map, s->len); /* nothing left to do about it */
	free(s);
}
