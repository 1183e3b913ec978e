/*
 * broker/keep.c - records of sandboxes in memory that the next broker inherits.
 *
 * Runs in: bailey-broker.
 * Input: memory which a broker may have been writing to when it died: no record
 *        counts whose checksum is wrong.
 * Owns: the mapping, and which places are taken.
 *
 * The form is that of the reaper's ledger: a living sandbox has two copies of its
 * record, a change goes to the copy that does not count, its checksum last. An ended
 * one is written once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_parts.h"

#define LIVE_AT 4096u /* behind the stamp */
#define PAIR (2 * sizeof(struct keep_box))
#define ENDED_AT (LIVE_AT + BOXES_MAX * PAIR)

_Static_assert(ENDED_AT + KEEP_ENDED_MAX * sizeof(struct keep_ended) <= KEEP_BYTES,
	       "all records fit");

struct keep {
	uint8_t *map;
	bool live[BOXES_MAX], ended[KEEP_ENDED_MAX];
	uint8_t current[BOXES_MAX]; /* the copy that counts */
	uint64_t seq[BOXES_MAX];
};

static uint8_t *
copy_at(const struct keep *k, uint32_t place, uint32_t copy)
{
	return k->map + LIVE_AT + place * PAIR + copy * sizeof(struct keep_box);
}

static uint8_t *
ended_at(const struct keep *k, uint32_t place)
{
	return k->map + ENDED_AT + place * sizeof(struct keep_ended);
}

static size_t
used_len(uint32_t n_runs)
{
	return offsetof(struct keep_box, run) + n_runs * sizeof(struct keep_run);
}

static uint32_t
box_crc(const struct keep_box *b)
{
	return crc32c(0, &b->n_runs, used_len(b->n_runs) - sizeof(b->crc));
}

static uint32_t
ended_crc(const struct keep_ended *e)
{
	return crc32c(0, &e->used, sizeof(*e) - sizeof(e->crc));
}

static bool
name_whole(const struct keep_name *n)
{
	return n->id[32] == '\0' && n->principal[64] == '\0' && n->profile[64] == '\0';
}

static bool
box_whole(const struct keep_box *b)
{
	if (b->seq == 0 || b->n_runs > GUEST_RUNS_MAX || b->crc != box_crc(b))
		return false;
	for (uint32_t i = 0; i < b->n_runs; i++)
		if (b->run[i].run_id[32] != '\0')
			return false;
	return name_whole(&b->name) && b->container[64] == '\0' && b->box_class < BOX_CLASSES;
}

/* Which copy of each place counts. By pread: touching an unused page would allocate it. */
static int
scan(struct keep *k, int fd, off_t at)
{
	struct keep_box b;
	struct keep_ended e;

	for (uint32_t i = 0; i < 2 * BOXES_MAX; i++) {
		uint32_t place = i / 2;

		if (pread(fd, &b, sizeof(b), at + (off_t)(LIVE_AT + i * sizeof(b))) !=
		    (ssize_t)sizeof(b))
			return -EIO;
		if (!box_whole(&b) || b.seq <= k->seq[place])
			continue;
		k->seq[place] = b.seq;
		k->current[place] = (uint8_t)(i % 2);
		k->live[place] = b.box != 0;
	}
	for (uint32_t i = 0; i < KEEP_ENDED_MAX; i++) {
		if (pread(fd, &e, sizeof(e), at + (off_t)(ENDED_AT + i * sizeof(e))) !=
		    (ssize_t)sizeof(e))
			return -EIO;
		k->ended[i] = e.used == 1 && e.crc == ended_crc(&e) && name_whole(&e.name);
	}
	return 0;
}

int
keep_open(int fd, off_t at, struct keep **ret)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) == -1)
		return -errno;
	if (st.st_size < at + (off_t)KEEP_BYTES)
		return -EINVAL;
	void *map = mmap(NULL, KEEP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
	if (map == MAP_FAILED)
		return -errno;
	struct keep *k = xcalloc(1, sizeof(*k));
	k->map = map;
	r = scan(k, fd, at);
	if (r < 0) {
		keep_close(k);
		return r;
	}
	*ret = k;
	return 0;
}

void
keep_close(struct keep *k)
{
	if (!k)
		return;
	(void)munmap(k->map, KEEP_BYTES); /* nothing left to do about it */
	free(k);
}

uint32_t
keep_new(struct keep *k)
{
	for (uint32_t i = 0; k && i < BOXES_MAX; i++) {
		if (!k->live[i]) {
			k->live[i] = true;
			return i;
		}
	}
	return KEEP_NONE;
}

void
keep_put(struct keep *k, uint32_t place, struct keep_box *b)
{
	uint32_t copy;

	if (!k || place >= BOXES_MAX)
		return;
	copy = 1u - k->current[place];
	b->seq = ++k->seq[place];
	b->crc = box_crc(b);
	memset(copy_at(k, place, copy), 0, sizeof(b->crc));
	store_settle();
	memcpy(copy_at(k, place, copy) + sizeof(b->crc), &b->n_runs,
	       used_len(b->n_runs) - sizeof(b->crc));
	store_settle();
	memcpy(copy_at(k, place, copy), &b->crc, sizeof(b->crc));
	store_settle();
	k->current[place] = (uint8_t)copy;
}

void
keep_free(struct keep *k, uint32_t place)
{
	struct keep_box empty = {.box = 0};

	if (!k || place >= BOXES_MAX)
		return;
	keep_put(k, place, &empty);
	k->live[place] = false;
}

uint32_t
keep_put_ended(struct keep *k, struct keep_ended *e)
{
	for (uint32_t i = 0; k && i < KEEP_ENDED_MAX; i++) {
		if (k->ended[i])
			continue;
		k->ended[i] = true;
		e->used = 1;
		e->crc = ended_crc(e);
		memset(ended_at(k, i), 0, sizeof(e->crc));
		store_settle();
		memcpy(ended_at(k, i) + sizeof(e->crc), &e->used, sizeof(*e) - sizeof(e->crc));
		store_settle();
		memcpy(ended_at(k, i), &e->crc, sizeof(e->crc));
		store_settle();
		return i;
	}
	return KEEP_NONE;
}

void
keep_free_ended(struct keep *k, uint32_t place)
{
	if (!k || place >= KEEP_ENDED_MAX)
		return;
	memset(ended_at(k, place), 0, sizeof(struct keep_ended));
	k->ended[place] = false;
}

bool
keep_next(struct keep *k, uint32_t *cursor, uint32_t *ret_place, struct keep_box *ret)
{
	while (k && *cursor < BOXES_MAX) {
		uint32_t place = (*cursor)++;

		if (!k->live[place])
			continue;
		memcpy(ret, copy_at(k, place, k->current[place]), sizeof(*ret));
		*ret_place = place;
		return true;
	}
	return false;
}

bool
keep_next_ended(struct keep *k, uint32_t *cursor, uint32_t *ret_place, struct keep_ended *ret)
{
	while (k && *cursor < KEEP_ENDED_MAX) {
		uint32_t place = (*cursor)++;

		if (!k->ended[place])
			continue;
		memcpy(ret, ended_at(k, place), sizeof(*ret));
		*ret_place = place;
		return true;
	}
	return false;
}

uint64_t
keep_stamp_ms(const struct keep *k)
{
	uint64_t ms = 0;

	if (k)
		memcpy(&ms, k->map, sizeof(ms));
	return ms;
}

void
keep_stamp(struct keep *k, uint64_t now_ms)
{
	if (k)
		memcpy(k->map, &now_ms, sizeof(now_ms));
}
