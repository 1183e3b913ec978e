/*
 * reaper/ledger.c - the record of every box, in memory the supervisor owns.
 * Runs in: bailey-reaper.
 * Input: a memfd that a former reaper may have been writing to when it died.
 * Owns: the mapping.
 * A slot holds two copies of a record. A change goes to the copy that does not
 * count, CRC last, so a writer that dies half-way leaves the former state
 * readable: of two valid copies the one with the greater sequence counts.
 * Recovery reads with pread because touching an unused page of the mapping
 * would allocate it.
 */
#include "reaper.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct record) == 256, "a slot is two records of 256 bytes");

#define SLOT_BYTES (2 * sizeof(struct record))

static uint32_t
record_crc(const struct record *rec)
{
	return crc32c(0, rec, offsetof(struct record, crc));
}

static bool
record_valid(const struct record *rec)
{
	return rec->seq != 0 && rec->state < BOX_GONE && rec->crc == record_crc(rec) &&
	       rec->name[sizeof(rec->name) - 1] == '\0' &&
	       rec->container[sizeof(rec->container) - 1] == '\0';
}

/* Which of two copies counts: 0, 1, or -1 when neither is whole. */
static int
current_copy(const struct record pair[2])
{
	bool valid[2] = {record_valid(&pair[0]), record_valid(&pair[1])};

	if (valid[0] && valid[1])
		return pair[1].seq > pair[0].seq ? 1 : 0;
	if (valid[0])
		return 0;
	return valid[1] ? 1 : -1;
}

int
ledger_open(struct ledger *l, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -errno;
	if (st.st_size < (off_t)SLOT_BYTES || st.st_size > (off_t)(65536 * SLOT_BYTES) ||
	    st.st_size % (off_t)SLOT_BYTES != 0)
		return -EINVAL;
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	l->fd = fd;
	l->map = map;
	l->slots = (uint32_t)((size_t)st.st_size / SLOT_BYTES);
	l->used = xcalloc(l->slots, 1);
	return 0;
}

void
ledger_close(struct ledger *l)
{
	if (l->map != NULL)
		(void)munmap(l->map, l->slots * SLOT_BYTES); /* nothing left to do about it */
	free(l->used);
	l->map = NULL;
	l->used = NULL;
	l->slots = 0;
}

int
ledger_alloc(struct ledger *l, uint32_t *ret_slot)
{
	const uint8_t *free_byte = memchr(l->used, 0, l->slots);

	if (free_byte == NULL)
		return -ENOSPC;
	uint32_t slot = (uint32_t)(free_byte - l->used);
	l->used[slot] = 1;
	*ret_slot = slot;
	return 0;
}

void
ledger_store(struct ledger *l, uint32_t slot, struct record *rec)
{
	struct record pair[2];
	uint8_t *at = l->map + (size_t)slot * SLOT_BYTES;

	memcpy(pair, at, sizeof(pair));
	int current = current_copy(pair);
	rec->seq = current < 0 ? 1 : pair[current].seq + 1;
	rec->crc = record_crc(rec);
	uint8_t *copy = at + (current == 0 ? sizeof(*rec) : 0);
	/* The compiler may not move these past each other: a kill can come between any two. */
	memset(copy, 0, sizeof(*rec));
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(copy, rec, offsetof(struct record, crc));
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(copy + offsetof(struct record, crc), &rec->crc, sizeof(rec->crc));
	atomic_signal_fence(memory_order_seq_cst);
}

void
ledger_clear(struct ledger *l, uint32_t slot)
{
	struct record empty = {.state = BOX_FREE};
	uint8_t *at = l->map + (size_t)slot * SLOT_BYTES;

	/* First an empty record that counts, then the old copy with its secret goes. */
	ledger_store(l, slot, &empty);
	struct record pair[2];
	memcpy(pair, at, sizeof(pair));
	int current = current_copy(pair);
	secret_wipe(at + (current == 0 ? sizeof(empty) : 0), sizeof(empty));
	secret_wipe(pair, sizeof(pair));
	l->used[slot] = 0;
}

bool
ledger_recover(struct ledger *l, uint32_t *cursor, uint32_t *ret_slot, struct record *ret)
{
	while (*cursor < l->slots) {
		struct record pair[2];
		uint32_t slot = (*cursor)++;

		ssize_t n = pread(l->fd, pair, sizeof(pair), (off_t)(slot * SLOT_BYTES));
		if (n != (ssize_t)sizeof(pair))
			continue;
		int current = current_copy(pair);
		if (current < 0 || pair[current].state == BOX_FREE)
			continue;
		l->used[slot] = 1;
		*ret_slot = slot;
		*ret = pair[current];
		return true;
	}
	return false;
}
