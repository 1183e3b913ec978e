/*
 * broker/sweep.h - what other trees left with the engine. Part of broker.h,
 * included by it alone.
 */
#ifndef BAILEY_SWEEP_H
#define BAILEY_SWEEP_H

struct sweep {
	char ids[256][65];
	uint32_t n;
	bool busy, listing;
	bool waited;       /* the third list was seen to */
	uint64_t again_ms; /* of the next list; 0: the first is not in, UINT64_MAX: none */
	struct unstarted { /* foreign containers that were created and not started */
		char id[65];
		uint64_t since_ms;
		bool listed;
	} unstarted[32];
	uint32_t n_unstarted;
};
void sweep_start(struct broker *b); /* lists; removes what is dead, ends what vanished */
void sweep_remove(struct broker *b, const char *container);
void sweep_tick(struct broker *b, uint64_t now_ms); /* the next list, when it is due */
void broker_on_sweep_verdict(void *ctx, struct link *l, const struct ipc_row *row);

#endif
