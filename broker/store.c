/*
 * broker/store.c - what runs wrote, in memory that outlives this process.
 *
 * Runs in: bailey-broker.
 * Input: bytes of hostile guests, never looked at.
 * Owns: the mapping, and what is derived from it: free places, the order of ended runs.
 *
 * The memory is an index (one entry a run, one successor number a block) and blocks. A stream's
 * first bytes lie in the entry, the next ones in a chain of blocks, and once the run's share is
 * used up the last ones in a ring; one block holds both rings of a run. What is counted was
 * written before it was counted, so a writer that dies half-way leaves less than it wrote (a ring
 * may then hold a torn piece), and store_open believes no number that does not fit the chain.
 */
#include <string.h>
#include <sys/mman.h>

#include "store_parts.h"

#define EXPIRED_A_TICK 256u

static uint8_t *
block_at(const struct store *s, uint16_t block)
{
	return s->map + BLOCKS_AT + (size_t)block * BLOCK;
}

static uint8_t *
ring_of(const struct store *s, const struct entry *e, const struct stream *st)
{
	return block_at(s, e->rings) + (st == &e->stream[1] ? RING : 0);
}

static struct entry *
entry_of(const struct store *s, uint32_t run)
{
	return s && run < ENTRIES && s->taken[run] ? &s->entries[run] : NULL;
}

static const struct stream *
stream_of(const struct entry *e, uint32_t stream)
{
	if (!e || (stream != STREAM_STDOUT && stream != STREAM_STDERR))
		return NULL;
	return &e->stream[stream - STREAM_STDOUT];
}

/* ---- places ---- */

static void
give_block(struct store *s, uint16_t block, bool punch)
{
	s->free[s->n_free++] = block;
	if (punch) /* a refusal costs memory, nothing else */
		(void)madvise(block_at(s, block), BLOCK, MADV_REMOVE);
}

/* punch: its pages go back to the kernel; else they wait for the run that needs them now. */
static void
release(struct store *s, uint16_t run, bool punch)
{
	struct entry *e = &s->entries[run];
	struct holder *h = &s->holders[s->holder[run]];

	e->state = ENTRY_FREE;
	store_settle();
	h->runs--;
	h->blocks -= e->blocks;
	for (size_t i = 0; i < 2; i++) {
		uint16_t block = e->stream[i].first;
		while (block != NONE) {
			uint16_t next = s->next[block];
			give_block(s, block, punch);
			block = next;
		}
	}
	if (e->rings != NONE)
		give_block(s, e->rings, punch);
	s->taken[run] = false;
	s->open[s->n_open++] = run;
}

/* ---- who holds how much ---- */

static struct holder *
holder_of(struct store *s, const struct entry *e)
{
	struct holder *vacant = NULL;

	for (uint32_t i = 0; i < s->n_holders; i++) {
		struct holder *h = &s->holders[i];
		if (h->runs == 0)
			vacant = h;
		else if (h->owner_kind == e->owner_kind && h->owner_number == e->owner_number &&
			 strcmp(h->principal, e->principal) == 0)
			return h;
	}
	if (!vacant)
		vacant = &s->holders[s->n_holders++]; /* there are as many as runs */
	*vacant = (struct holder){.owner_kind = e->owner_kind,
				  .owner_number = e->owner_number,
				  .oldest = NONE,
				  .newest = NONE};
	memcpy(vacant->principal, e->principal, sizeof(vacant->principal));
	return vacant;
}

void
store_hold(struct store *s, uint16_t run)
{
	struct holder *h = holder_of(s, &s->entries[run]);

	h->runs++;
	h->blocks += s->entries[run].blocks;
	s->holder[run] = (uint16_t)(h - s->holders);
}

void
store_list_ended(struct store *s, uint16_t run)
{
	struct holder *h = &s->holders[s->holder[run]];

	s->after[run] = NONE;
	if (h->newest == NONE)
		h->oldest = run;
	else
		s->after[h->newest] = run;
	h->newest = run;
}

static void
evict(struct store *s, struct holder *h, bool punch)
{
	uint16_t run = h->oldest;

	h->oldest = s->after[run];
	if (h->oldest == NONE)
		h->newest = NONE;
	release(s, run, punch);
}

/* Who has more to give: more blocks (or runs), among equals the older end. */
static bool
holds_more(const struct store *s, const struct holder *h, const struct holder *than, bool blocks)
{
	uint32_t mine = blocks ? h->blocks : h->runs, theirs = blocks ? than->blocks : than->runs;

	return mine != theirs ? mine > theirs
			      : s->entries[h->oldest].ended_ms < s->entries[than->oldest].ended_ms;
}

/* One ended run goes, the oldest of whoever holds most. A run that wants a block takes none from an
 * owner that holds no more than its own does. */
static bool
make_room(struct store *s, const struct holder *writer)
{
	struct holder *most = NULL;

	for (uint32_t i = 0; i < s->n_holders; i++) {
		struct holder *h = &s->holders[i];
		if (h->runs == 0 || h->oldest == NONE ||
		    (writer && h != writer && h->blocks <= writer->blocks))
			continue;
		if (!most || holds_more(s, h, most, writer != NULL))
			most = h;
	}
	if (!most)
		return false;
	evict(s, most, false);
	return true;
}

static uint16_t
take_block(struct store *s, struct entry *e)
{
	struct holder *h = &s->holders[s->holder[e - s->entries]];

	while (s->n_free == 0) {
		if (!make_room(s, h))
			return NONE;
	}
	e->blocks++;
	h->blocks++;
	return s->free[--s->n_free];
}

/* ---- writing ---- */

uint32_t
store_run_new(struct store *s, const char *run_id, const char *sandbox, uint64_t box,
	      const struct owner *o)
{
	if (!s || (s->n_open == 0 && !make_room(s, NULL)))
		return STORE_NONE;
	uint16_t run = s->open[--s->n_open];
	struct entry *e = &s->entries[run];

	*e = (struct entry){.state = ENTRY_FREE,
			    .owner_kind = (uint16_t)o->kind,
			    .owner_number = o->number,
			    .box = box,
			    .seq = ++s->seq,
			    .started_ms = clock_now_ms(),
			    .rings = NONE};
	for (size_t i = 0; i < 2; i++)
		e->stream[i].first = e->stream[i].last = NONE;
	(void)str_copy(e->principal, sizeof(e->principal), o->principal, strlen(o->principal));
	(void)str_copy(e->run_id, sizeof(e->run_id), run_id, strlen(run_id));
	(void)str_copy(e->sandbox, sizeof(e->sandbox), sandbox, strlen(sandbox));
	store_settle();
	e->state = ENTRY_LIVE;
	s->taken[run] = true;
	store_hold(s, run);
	s->touched = true;
	return run;
}

static bool
chain_grow(struct store *s, struct entry *e, struct stream *st)
{
	/* A place is left for the rings. */
	if (e->blocks + (e->rings == NONE ? 1u : 0u) >= RUN_BLOCKS)
		return false;
	uint16_t block = take_block(s, e);
	if (block == NONE)
		return false;
	s->next[block] = NONE;
	store_settle();
	if (st->first == NONE)
		st->first = block;
	else
		s->next[st->last] = block;
	st->last = block;
	return true;
}

/* Where the head goes on, with at least one byte of room; NULL: nowhere. */
static uint8_t *
head_room(struct store *s, struct entry *e, struct stream *st, size_t *ret_room)
{
	if (st->head < SHORT) {
		*ret_room = SHORT - st->head;
		return e->brief[st - e->stream] + st->head;
	}
	size_t at = (st->head - SHORT) % BLOCK;
	if (at == 0 && !chain_grow(s, e, st))
		return NULL;
	*ret_room = BLOCK - at;
	return block_at(s, st->last) + at;
}

static void
put_ring(struct store *s, struct entry *e, struct stream *st, const uint8_t *p, size_t n)
{
	st->written += n;
	if (e->rings == NONE)
		e->rings = take_block(s, e);
	if (e->rings == NONE)
		return; /* only counted */
	if (n > RING) {
		p += n - RING;
		n = RING;
	}
	uint8_t *ring = ring_of(s, e, st);
	size_t part = RING - st->ring_at < n ? RING - st->ring_at : n;
	memcpy(ring + st->ring_at, p, part);
	memcpy(ring, p + part, n - part);
	store_settle();
	st->ring_at = (uint32_t)((st->ring_at + n) % RING);
	st->ring = st->ring + n < RING ? (uint32_t)(st->ring + n) : RING;
}

void
store_put(struct store *s, uint32_t run, uint32_t stream, const void *p, size_t n, bool tail)
{
	struct entry *e = entry_of(s, run);
	const uint8_t *from = p;

	if (!stream_of(e, stream) || e->state != ENTRY_LIVE)
		return;
	struct stream *st = &e->stream[stream - STREAM_STDOUT];
	if (tail && !st->gap) {
		st->ring = st->ring_at = 0; /* what it held lies before the gap */
		st->full = st->gap = 1;
	}
	while (n > 0 && !st->full) {
		size_t room = 0;
		uint8_t *to = head_room(s, e, st, &room);
		if (!to) {
			st->full = 1;
			break;
		}
		room = room < n ? room : n;
		memcpy(to, from, room);
		store_settle();
		st->written += room;
		st->head += room;
		from += room;
		n -= room;
	}
	if (n > 0)
		put_ring(s, e, st, from, n);
}

void
store_run_end(struct store *s, uint32_t run, const struct store_end *end)
{
	struct entry *e = entry_of(s, run);

	if (!e || e->state != ENTRY_LIVE)
		return;
	e->status = (uint16_t)end->status;
	e->cause = (uint16_t)end->cause;
	e->exit_code = end->exit_code;
	e->signal = end->signal;
	for (size_t i = 0; i < 2; i++) {
		/* How much was left out only the guest knows; without a gap our count is right. */
		if (e->stream[i].gap && end->written[i] > e->stream[i].written)
			e->stream[i].written = end->written[i];
	}
	e->ended_ms = clock_now_ms();
	store_settle();
	e->state = ENTRY_ENDED;
	store_list_ended(s, (uint16_t)run);
}

static void
unlist_ended(struct store *s, uint16_t run)
{
	struct holder *h = &s->holders[s->holder[run]];
	uint16_t *at = &h->oldest, last = NONE;

	while (*at != NONE && *at != run) {
		last = *at;
		at = &s->after[*at];
	}
	if (*at == NONE)
		return;
	*at = s->after[run];
	if (h->newest == run)
		h->newest = last;
}

uint32_t
store_run_resume(struct store *s, const char *run_id, const struct owner *o)
{
	uint32_t run = store_find(s, run_id, o);
	struct entry *e = entry_of(s, run);

	/* store_open has ended what went on. */
	if (!e || e->state != ENTRY_ENDED || strcmp(e->run_id, run_id) != 0 ||
	    e->status != RUN_lost || e->cause != CAUSE_BROKER_GONE)
		return STORE_NONE;
	unlist_ended(s, (uint16_t)run);
	s->lost[run] = false;
	e->state = ENTRY_LIVE;
	return run;
}

uint32_t
store_next_lost(struct store *s)
{
	for (uint32_t run = 0; s && run < ENTRIES; run++) {
		if (!s->lost[run])
			continue;
		s->lost[run] = false;
		return run;
	}
	return STORE_NONE;
}

void
store_has(const struct store *s, uint32_t run, uint32_t stream, struct store_has *ret)
{
	const struct stream *st = stream_of(entry_of(s, run), stream);

	*ret = (struct store_has){.out = 0};
	if (!st)
		return;
	ret->tail = st->gap ? st->ring : 0; /* the guest's last bytes fit in the ring */
	ret->out = st->written - ret->tail;
}

void
store_tick(struct store *s, uint64_t now_ms)
{
	if (!s)
		return;
	uint32_t expired = 0;
	for (uint32_t i = 0; i < s->n_holders; i++) {
		struct holder *h = &s->holders[i];
		while (h->runs > 0 && h->oldest != NONE && expired < EXPIRED_A_TICK &&
		       s->entries[h->oldest].ended_ms + STORE_KEEP_MS <= now_ms) {
			evict(s, h, true);
			expired++;
		}
	}
	/* Nothing is kept: the index goes back as well. All zeros is a valid one. */
	if (s->n_open == ENTRIES && s->touched)
		s->touched = madvise(s->map, s->len, MADV_REMOVE) == -1;
}

/* ---- reading ---- */

static bool
owns(const struct entry *e, const struct owner *o)
{
	return e->owner_kind == (uint32_t)o->kind && e->owner_number == o->number &&
	       strcmp(e->principal, o->principal) == 0;
}

uint32_t
store_find(const struct store *s, const char *id, const struct owner *o)
{
	uint32_t found = STORE_NONE;

	for (uint32_t i = 0; s && i < ENTRIES; i++) {
		const struct entry *e = &s->entries[i];

		if (!s->taken[i] || !owns(e, o))
			continue;
		if (strcmp(e->run_id, id) == 0)
			return i;
		if (e->sandbox[0] != '\0' && strcmp(e->sandbox, id) == 0 &&
		    (found == STORE_NONE || e->seq > s->entries[found].seq))
			found = i;
	}
	return found;
}

void
store_facts(const struct store *s, uint32_t run, struct store_facts *ret)
{
	const struct entry *e = &s->entries[run];

	*ret = (struct store_facts){
		.run_id = e->run_id,
		.sandbox = e->sandbox,
		.box = e->box,
		.ended = e->state == ENTRY_ENDED,
		.started_ms = e->started_ms,
		.ended_ms = e->ended_ms,
		.end = {.status = (enum run_status)e->status,
			.cause = (enum end_cause)e->cause,
			.exit_code = e->exit_code,
			.signal = e->signal,
			.written = {e->stream[0].written, e->stream[1].written}}};
}

void
store_extent(const struct store *s, uint32_t run, uint32_t stream, struct store_extent *ret)
{
	const struct stream *st = stream_of(entry_of(s, run), stream);

	*ret = (struct store_extent){.written = 0};
	if (st)
		*ret = (struct store_extent){
			.written = st->written, .head = st->head, .tail = st->written - st->ring};
}

static size_t
read_head(const struct store *s, const struct entry *e, const struct stream *st, uint64_t offset,
	  const uint8_t **ret_p)
{
	if (offset < SHORT) {
		*ret_p = e->brief[st - e->stream] + offset;
		return (size_t)((st->head < SHORT ? st->head : SHORT) - offset);
	}
	uint64_t left = st->head - offset;
	uint16_t block = st->first;
	for (uint64_t i = (offset - SHORT) / BLOCK; i > 0; i--)
		block = s->next[block];
	size_t at = (offset - SHORT) % BLOCK;
	*ret_p = block_at(s, block) + at;
	return left < BLOCK - at ? (size_t)left : BLOCK - at;
}

size_t
store_read(const struct store *s, uint32_t run, uint32_t stream, uint64_t offset, uint64_t *ret_at,
	   const uint8_t **ret_p)
{
	const struct entry *e = entry_of(s, run);
	const struct stream *st = stream_of(e, stream);

	if (!st || offset >= st->written)
		return 0;
	*ret_at = offset;
	if (offset < st->head)
		return read_head(s, e, st, offset, ret_p);
	if (st->ring == 0)
		return 0;
	uint64_t tail = st->written - st->ring;
	if (offset < tail)
		*ret_at = tail;
	size_t skip = (size_t)(*ret_at - tail);
	size_t at = (st->ring_at + RING - st->ring + skip) % RING, left = st->ring - skip;
	*ret_p = ring_of(s, e, st) + at;
	return left < RING - at ? left : RING - at;
}
