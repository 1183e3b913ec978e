/*
 * reaper/report.c - what the reaper tells the supervisor for bailey status.
 * Runs in: bailey-reaper.
 * Input: the supervisor's question.
 * Owns: the event of a second.
 */
#include "reaper.h"

#include <errno.h>

#include <event2/event.h>

static void
on_second(int fd, short what, void *arg)
{
	const struct reaper *r = arg;

	(void)fd;
	(void)what;
	report_changes(r->supervisor);
}

int
report_start(struct reaper *r)
{
	const struct timeval second = {.tv_sec = 1};

	r->tick_event = event_new(r->base, -1, EV_PERSIST, on_second, r);
	return r->tick_event == NULL || event_add(r->tick_event, &second) == -1 ? -ENOMEM : 0;
}

void
report_status(struct reaper *r, uint32_t query)
{
	uint32_t boxes = 0, armed = 0, ending = 0;
	uint64_t oldest = 0;
	uint64_t now = clock_boot_ns(), id;
	size_t cursor = 0;
	void *obj;

	while (idmap_next(r->boxes, &cursor, &id, &obj)) {
		const struct box *b = obj;
		uint64_t ms = b->removing_ns != 0 ? (now - b->removing_ns) / NS_PER_MS : 0;

		boxes++;
		armed += b->rec.state == BOX_ARMED;
		ending += b->rec.state >= BOX_KILLING;
		oldest = ms > oldest ? ms : oldest;
	}
	report_changes(r->supervisor);
	(void)link_send(r->supervisor,
			IPC_ROW(status_watch, .query = query, .boxes = boxes, .armed = armed,
				.ending = ending, .oldest_ms = oldest));
	(void)link_send(r->supervisor, IPC_ROW(status_end, .query = query));
}
