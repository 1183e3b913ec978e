/*
 * ipc/tally.c - counters of this process, by the table in tally.def.
 * Runs in: supervisor, broker, reaper.
 * Input: numbers of our own.
 * Owns: the counters.
 */
#include <stdio.h>

#include "ipc.h"

static uint64_t values[TALLY_COUNT];

static const char *const names[] = {
#define TALLY(name, what) #name,
#include "tally.def"
#undef TALLY
};

void
tally_add(uint32_t which)
{
	if (which < TALLY_COUNT)
		values[which]++;
}

uint64_t
tally_value(uint32_t which)
{
	return which < TALLY_COUNT ? values[which] : 0;
}

const char *
tally_name(uint32_t which, char room[32])
{
	if (which < TALLY_RUNS)
		(void)snprintf(room, 32, "%s", names[which]);
	else if (which < TALLY_ENDED)
		(void)snprintf(room, 32, "runs_%s",
			       run_status_name((enum run_status)(which - TALLY_RUNS)));
	else
		(void)snprintf(room, 32, "ended_%s", cause_word(which - TALLY_ENDED));
	return room;
}
