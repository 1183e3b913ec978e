/*
 * ipc/tally.h - counters, and what a process tells the supervisor of itself.
 * Part of ipc.h, included by it alone.
 */
#ifndef BAILEY_TALLY_H
#define BAILEY_TALLY_H

/* ---- tally.c: this process' counters; tally.def ---- */
enum tally_no {
#define TALLY(name, what) TALLY_##name,
#include "tally.def"
#undef TALLY
	TALLY_RUNS,                                  /* + enum run_status */
	TALLY_ENDED = TALLY_RUNS + RUN_STATUS_COUNT, /* + enum end_cause */
	TALLY_COUNT = TALLY_ENDED + CAUSES
};
void tally_add(uint32_t which); /* one more; a number outside the table is none */
uint64_t tally_value(uint32_t which);
/* "boxes_created", "runs_ok", "ended_idle": in room, which it returns. */
const char *tally_name(uint32_t which, char room[32]);

/* ---- report.c ---- */
struct link;
/* Sends what changed since it last did: tally and trouble rows. */
void report_changes(struct link *supervisor);
void report_forget(void); /* everything is new again; for tests */

#endif
