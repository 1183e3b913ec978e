/*
 * ipc/report.c - what broker and reaper tell the supervisor of themselves
 * without being asked: counters that rose, and the log's latest trouble.
 * Runs in: bailey-broker, bailey-reaper.
 * Input: this process' own counters and log.
 * Owns: what was told last.
 */
#include <string.h>

#include "ipc.h"

static uint64_t told[TALLY_COUNT], told_seq;

void
report_forget(void)
{
	memset(told, 0, sizeof(told));
	told_seq = 0;
}

void
report_changes(struct link *supervisor)
{
	const struct log_note *n = log_last();

	if (supervisor == NULL)
		return;
	for (uint32_t i = 0; i < TALLY_COUNT; i++) {
		uint64_t now = tally_value(i);

		if (now == told[i] ||
		    link_send(supervisor, IPC_ROW(tally, .which = i, .value = now)) < 0)
			continue;
		told[i] = now;
	}
	if (n->seq == told_seq ||
	    link_send(supervisor, IPC_ROW(trouble, .ago_ms = clock_now_ms() - n->at_ms,
					  .text = IPC_STR(n->text))) < 0)
		return;
	told_seq = n->seq;
}
