/*
 * base/event.c - an event of the table as one line of the log.
 * Runs in: every host process.
 * Input: fields of our own; texts may be a peer's, and are escaped here.
 * Owns: how many lines of each kind were written lately.
 */
#include <stdio.h>
#include <string.h>

#include "base.h"

#define LINE_MAX 900
#define TEXT_MAX 200

enum field_type { FIELD_str, FIELD_num };

static const struct {
	enum event_no event;
	enum field_type type;
	const char *name;
	size_t offset;
} fields[] = {
#define EVENT(name, level, per_10s)
#define EVENT_FIELD(event, type, field) \
	{EVENT_##event, FIELD_##type, #field, offsetof(struct event_##event, field)},
#define EVENT_END(name)
#include "events.def"
#undef EVENT
#undef EVENT_FIELD
#undef EVENT_END
};

static const struct {
	const char *name;
	enum log_level level;
	uint32_t per_10s;
} events[EVENTS] = {
#define EVENT(name, level, per_10s) {#name, LOG_L_##level, per_10s},
#define EVENT_FIELD(name, type, field)
#define EVENT_END(name)
#include "events.def"
#undef EVENT
#undef EVENT_FIELD
#undef EVENT_END
};

static struct log_limit limits[EVENTS];

const char *
event_name(enum event_no no)
{
	return (unsigned)no < EVENTS ? events[no].name : "unknown";
}

static bool
is_bare(const char *s)
{
	for (; *s != '\0'; s++) {
		char c = *s;
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!plain && strchr("._:/@+-", c) == NULL)
			return false;
	}
	return true;
}

static void
put_text(struct buf *line, const char *s)
{
	size_t left = TEXT_MAX;

	if (*s != '\0' && strlen(s) <= TEXT_MAX && is_bare(s)) {
		(void)buf_append(line, s, strlen(s));
		return;
	}
	(void)buf_append(line, "\"", 1);
	for (; *s != '\0' && left > 0; s++, left--) {
		unsigned char c = (unsigned char)*s;
		bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
		char hex[4];

		hex_escape(hex, c);
		(void)buf_append(line, plain ? s : hex, plain ? 1 : sizeof(hex));
	}
	(void)buf_append(line, "\"", 1);
}

static void
put_field(struct buf *line, size_t i, const void *values)
{
	const void *at = (const char *)values + fields[i].offset;
	event_str text;
	event_num number;

	if (fields[i].type == FIELD_num) {
		memcpy(&number, at, sizeof(number));
		(void)buf_printf(line, " %s=%llu", fields[i].name, (unsigned long long)number);
		return;
	}
	memcpy(&text, at, sizeof(text));
	if (text == NULL)
		return;
	(void)buf_printf(line, " %s=", fields[i].name);
	put_text(line, text);
}

void
log_event(enum event_no no, const void *values)
{
	struct buf line;

	if ((unsigned)no >= EVENTS || !log_shows(events[no].level) ||
	    (events[no].per_10s > 0 && !log_allowed(&limits[no], events[no].per_10s)))
		return;
	buf_init(&line, 4096);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].event == no)
			put_field(&line, i, values);
	(void)buf_append(&line, "", 1);
	log_at(events[no].level, "event=%s%.*s", events[no].name, LINE_MAX,
	       (const char *)buf_data(&line));
	buf_done(&line);
}
