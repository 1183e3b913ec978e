/*
 * frontend/contents.c - what resources/read answers: bytes as text or as base64, and where bytes
 * of a run's output are missing.
 * Runs in: bailey-frontend.
 * Input: bytes from sandboxes and runs, untrusted.
 * Owns: nothing.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

/* Text with nothing hidden in it: what is read here is shown as it is, and has no form of its own
 * for the rest. */
static bool
shown_as_text(const uint8_t *data, size_t len)
{
	bool hidden = false;
	size_t shown;

	return files_is_text(data, len, false, &shown) && text_scan(data, len, &hidden) && !hidden;
}

/* One more content, as text where the bytes are text. */
static void
add_content(cJSON *list, const char *uri, const uint8_t *data, size_t len)
{
	cJSON *item = cJSON_CreateObject();
	const char *type = collect_image_type(data, len);
	bool text = type == NULL && shown_as_text(data, len);

	(void)cJSON_AddItemToArray(list, item);
	(void)cJSON_AddStringToObject(item, "uri", uri);
	(void)cJSON_AddStringToObject(item, "mimeType",
				      type != NULL ? type
				      : text       ? "text/plain"
						   : "application/octet-stream");
	files_add_bytes(item, text ? "text" : "blob", data, len, text);
}

/* Takes list. */
static void
send_contents(const struct call *c, cJSON *list)
{
	cJSON *result = cJSON_CreateObject();

	(void)cJSON_AddItemToObject(result, "contents", list);
	result_send_cacheable(c->fe, &c->to, result, 0, true);
}

void
contents_send(const struct call *c, const char *uri, const uint8_t *data, size_t len)
{
	cJSON *list = cJSON_CreateArray();

	add_content(list, uri, data, len);
	send_contents(c, list);
}

/* ---- a run's output ---- */

/* A part of the output that is kept, and how much is not before it. */
struct kept_part {
	const uint8_t *data;
	size_t len;
	uint64_t missing;
};
#define KEPT_PARTS 3u /* first part, last part, and none: what is missing at the end */

static void
parts_fill(const struct log_state *s, struct kept_part ret[KEPT_PARTS])
{
	const uint8_t *data = buf_data(&s->data);
	size_t len = buf_len(&s->data), first = s->gap ? s->gap_at : len;

	ret[0] = (struct kept_part){data, first, s->any ? s->first : 0};
	ret[1] = (struct kept_part){data + first, len - first, s->gap_bytes};
	ret[2] = (struct kept_part){data + len, 0, s->written > s->next ? s->written - s->next : 0};
}

/* A character that was cut is missing as a whole: true if what is left is text. */
static bool
parts_trim(struct kept_part p[KEPT_PARTS])
{
	for (size_t i = 0; i + 1 < KEPT_PARTS; i++) {
		size_t skip = p[i].missing > 0 ? text_skip(p[i].data, p[i].len) : 0, keep;

		p[i].data += skip;
		p[i].len -= skip;
		p[i].missing += skip;
		keep = p[i + 1].missing > 0 ? text_floor(p[i].data, p[i].len) : p[i].len;
		p[i + 1].missing += p[i].len - keep;
		p[i].len = keep;
		if (!shown_as_text(p[i].data, p[i].len))
			return false;
	}
	return true;
}

static void
append_missing(struct buf *b, const struct kept_part *part)
{
	if (part->missing > 0)
		(void)buf_printf(b, "\n[%llu bytes are missing here: they were not kept]\n",
				 (unsigned long long)part->missing);
}

/* As one text with a word where bytes are missing; what is no text has its parts and these words as
 * contents of their own. */
void
contents_send_output(const struct call *c, const char *uri, const struct log_state *s)
{
	struct kept_part parts[KEPT_PARTS];
	cJSON *list = cJSON_CreateArray();
	struct buf text;
	bool is_text;

	buf_init(&text, LOG_MAX + 1024);
	parts_fill(s, parts);
	is_text = parts_trim(parts);
	if (!is_text)
		parts_fill(s, parts);
	for (size_t i = 0; i < KEPT_PARTS; i++) {
		append_missing(&text, &parts[i]);
		if (is_text) {
			(void)buf_append(&text, parts[i].data, parts[i].len);
			continue;
		}
		if (buf_len(&text) > 0)
			add_content(list, uri, buf_data(&text), buf_len(&text));
		buf_clear(&text);
		if (parts[i].len > 0)
			add_content(list, uri, parts[i].data, parts[i].len);
	}
	if (is_text)
		add_content(list, uri, buf_data(&text), buf_len(&text));
	buf_done(&text);
	send_contents(c, list);
}
