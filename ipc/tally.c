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

static const char *const cause_words[] = {
	[CAUSE_NONE] = "none",
	[CAUSE_DONE] = "done",
	[CAUSE_CANCEL] = "cancelled",
	[CAUSE_OWNER_GONE] = "owner_gone",
	[CAUSE_DEADLINE] = "deadline",
	[CAUSE_LIFETIME] = "lifetime",
	[CAUSE_BAD_FRAME] = "bad_frame",
	[CAUSE_SILENT] = "silent",
	[CAUSE_BROKER_GONE] = "broker_gone",
	[CAUSE_UNUSED] = "unused",
	[CAUSE_START] = "start_failed",
	[CAUSE_DIED] = "died",
	[CAUSE_IDLE] = "idle",
	[CAUSE_DESTROYED] = "destroyed",
	[CAUSE_STOPPED] = "stopped",
};
_Static_assert(ARRAY_LEN(cause_words) == TALLY_COUNT - TALLY_ENDED, "a cause without a word");

const char *
cause_word(enum end_cause cause)
{
	return (unsigned)cause < ARRAY_LEN(cause_words) ? cause_words[cause] : "unknown";
}

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
		(void)snprintf(room, 32, "ended_%s",
			       cause_word((enum end_cause)(which - TALLY_ENDED)));
	return room;
}
