/*
 * base/events.h - the log's events, by the table events.def. Part of base.h,
 * included by it alone.
 */
#ifndef BAILEY_EVENT_H
#define BAILEY_EVENT_H

/* ---- event.c: one line for one event ---- */
typedef const char *event_str;
typedef uint64_t event_num;
enum event_no {
#define EVENT(name, level, per_10s) EVENT_##name,
#define EVENT_FIELD(name, type, field)
#define EVENT_END(name)
#include "events.def"
#undef EVENT
#undef EVENT_FIELD
#undef EVENT_END
	EVENTS,
};
/* struct event_run_ended { const char *run; … }: fields in the table's order */
#define EVENT(name, level, per_10s) \
	struct event_##name {       \
		char unused_;
#define EVENT_FIELD(name, type, field) event_##type field;
#define EVENT_END(name) \
	}               \
	;
#include "events.def"
#undef EVENT
#undef EVENT_FIELD
#undef EVENT_END
/* LOG_EVENT(box_gone, .box = 7, .cause = "done") writes
 *   event=box_gone box=7 cause=done age_ms=0
 * A str with anything but letters, digits and . _ : / @ + - stands in quotes, with quote, backslash
 * and all that is not printable ASCII as \xHH. Past the table's rate lines are left out and
 * counted. */
#define LOG_EVENT(name, ...) \
	log_event(EVENT_##name, &(const struct event_##name){.unused_ = 0, ##__VA_ARGS__})
void log_event(enum event_no no, const void *values);
const char *event_name(enum event_no no);

#endif
