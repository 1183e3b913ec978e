/*
 * broker/store_parts.h - the form of the kept-output memory, between store.c and
 * store_open.c alone.
 */
#ifndef BAILEY_STORE_PARTS_H
#define BAILEY_STORE_PARTS_H

#include <stdatomic.h>

#include "broker.h"

#define BLOCK 16384u
#define BLOCKS_MAX 4096u /* 64 MiB */
#define RUN_BLOCKS 64u   /* 1 MiB; one of them for the rings */
#define RING GUEST_TAIL_MAX
#define SHORT 128u /* of each stream in the entry itself: most runs need no block */
#define ENTRIES 4096u
#define NONE UINT16_MAX

enum entry_state { ENTRY_FREE, ENTRY_LIVE, ENTRY_ENDED };
struct stream {
	uint64_t written, head; /* all bytes; those kept from the first on */
	uint32_t ring, ring_at; /* bytes in the ring; where the next one goes */
	uint16_t first, last;   /* chain; NONE while there is none */
	uint16_t full;          /* the head is closed: what comes goes to the ring */
	uint16_t gap;           /* the guest left bytes out before those in the ring */
};
struct entry {
	uint16_t state, owner_kind, status, cause;
	uint64_t owner_number, box, seq, started_ms, ended_ms;
	uint32_t exit_code, signal;
	struct stream stream[2];
	uint16_t rings, blocks; /* the block of the rings; how many in all */
	char principal[65], run_id[33], sandbox[33];
	uint8_t brief[2][SHORT];
};
_Static_assert(sizeof(struct entry) == 512, "eight entries a page");
#define NEXT_AT (ENTRIES * sizeof(struct entry))
#define BLOCKS_AT ((NEXT_AT + BLOCKS_MAX * sizeof(uint16_t) + BLOCK - 1) / BLOCK * BLOCK)

/* What one owner holds, so that room is taken from whoever holds most. */
struct holder {
	uint32_t owner_kind, runs, blocks; /* runs 0: the place is free */
	uint64_t owner_number;
	char principal[65];
	uint16_t oldest, newest; /* its ended runs, by their end */
};

struct store {
	uint8_t *map;
	size_t len;
	struct entry *entries;
	uint16_t *next; /* of each block: its successor in a chain */
	uint64_t seq;
	uint32_t n_blocks, n_free, n_open;
	bool touched;              /* since all of it was given back */
	uint16_t free[BLOCKS_MAX]; /* stack of blocks, of entries */
	uint16_t open[ENTRIES];
	bool taken[ENTRIES];     /* a look at an unused page would allocate it */
	bool lost[ENTRIES];      /* went on when the former broker died; nobody has resumed it */
	uint16_t after[ENTRIES]; /* of an ended run: its holder's next one */
	uint16_t holder[ENTRIES];
	struct holder holders[ENTRIES];
	uint32_t n_holders; /* no place from here on was ever used */
};

/* The compiler may not move writes past this: a kill can come between any two. */
static inline void
store_settle(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}
/* store.c: the taken run counts for its owner, blocks and all. */
void store_hold(struct store *s, uint16_t run);
/* It ended later than all before it. */
void store_list_ended(struct store *s, uint16_t run);

#endif
