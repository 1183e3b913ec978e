/*
 * tests/fakes/fake_parts.h - what the two halves of the fake engine share.
 */
#ifndef BAILEY_FAKE_PARTS_H
#define BAILEY_FAKE_PARTS_H

#include <sys/queue.h>

#include "fake_engine.h"

struct attach {
	struct attach_handler handler;
	void *ctx;
	uint64_t tag;
	size_t index; /* of its container */
	struct buf in;
	uint64_t seq; /* the guest's last */
	bool open, said_hello;
	uint32_t box_class;
	uint32_t run;
};

struct answer {
	TAILQ_ENTRY(answer) next;
	enum fake_op op;
	uint64_t tag;
	void *ctx;
	size_t index;
	struct engine_result result;
	char id[65];
	uint32_t pid;
	void (*fn)(struct answer *a);
	union {
		void (*probe)(void *, const struct engine_result *, const struct engine_info *);
		void (*image)(void *, const struct engine_result *, const char *);
		void (*list)(void *, const struct engine_result *, const struct engine_container *,
			     size_t);
		void (*create)(void *, uint64_t, const struct engine_result *, const char *);
		void (*check)(void *, uint64_t, const struct engine_result *, uint32_t);
		engine_done done;
	} cb;
};

/* An answer that comes from the loop, in order. */
struct answer *fake_ask(enum fake_op op, void *ctx, uint64_t tag, void (*fn)(struct answer *a));
struct fake_container *fake_by_id(const char *id); /* or name */
void fake_guest_greets(struct attach *at);

#endif
