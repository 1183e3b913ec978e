/*
 * frontend/text.c - which text may be shown as it is, and the visible form of the rest.
 * Runs in: bailey-frontend.
 * Input: untrusted bytes: what runs printed, what engines and clients named.
 * Owns: nothing.
 *
 * Output goes to a model and often to a terminal. Code points that steer
 * either without being seen are written as \u{HEX}.
 */
#include <errno.h>
#include <string.h>

#include "message.h"

/* First and last code point of each range that is never shown raw; sorted. */
static const struct {
	uint32_t first, last;
} hidden_ranges[] = {
	{0x0000, 0x0008},   /* C0 without tab … */
	{0x000b, 0x001f},   /* … and line feed */
	{0x007f, 0x009f},   /* DEL, C1 */
	{0x00ad, 0x00ad},   /* soft hyphen */
	{0x061c, 0x061c},   /* arabic letter mark */
	{0x115f, 0x1160},   /* hangul fillers: blank letters */
	{0x17b4, 0x17b5},   /* invisible vowels */
	{0x180b, 0x180f},   /* mongolian selectors and separator */
	{0x200b, 0x200f},   /* zero width, left/right marks */
	{0x2028, 0x202e},   /* line and paragraph separator, bidi embedding and override */
	{0x2060, 0x206f},   /* joiners, invisible operators, bidi isolates */
	{0x3164, 0x3164},   /* hangul filler */
	{0xfeff, 0xfeff},   /* byte order mark */
	{0xffa0, 0xffa0},   /* halfwidth filler */
	{0xfff0, 0xfffb},   /* interlinear annotation */
	{0x1bca0, 0x1bca3}, /* shorthand controls */
	{0x1d173, 0x1d17a}, /* musical controls */
	{0xe0000, 0xe0fff}, /* tags, variation selector supplement */
};

bool
text_is_hidden(uint32_t code_point)
{
	size_t low = 0, high = ARRAY_LEN(hidden_ranges);

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (code_point > hidden_ranges[mid].last)
			low = mid + 1;
		else if (code_point < hidden_ranges[mid].first)
			high = mid;
		else
			return true;
	}
	return false;
}

uint32_t
text_code_point(const uint8_t *s, size_t n)
{
	static const uint8_t lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t cp = s[0] & lead_mask[n];

	for (size_t i = 1; i < n; i++)
		cp = cp << 6 | (s[i] & 0x3fu);
	return cp;
}

bool
text_scan(const uint8_t *s, size_t n, bool *ret_hidden)
{
	bool hidden = false;
	size_t i = 0;

	while (i < n) {
		size_t step;

		if (s[i] >= 0x20 && s[i] < 0x7f) {
			i++;
			continue;
		}
		step = utf8_step((const char *)s + i, n - i);
		if (step == 0)
			return false;
		if (!hidden)
			hidden = text_is_hidden(text_code_point(s + i, step));
		i += step;
	}
	*ret_hidden = hidden;
	return true;
}

static int
append_form(struct buf *b, const uint8_t *s, size_t n, bool exact)
{
	size_t plain = 0, i = 0;
	int r = 0;

	while (i < n && r == 0) {
		size_t step = utf8_step((const char *)s + i, n - i);
		bool as_is;

		as_is = step > 0 && !text_is_hidden(text_code_point(s + i, step)) &&
			!(exact && s[i] == '\\');
		if (as_is) {
			i += step;
			continue;
		}
		r = buf_append(b, s + plain, i - plain);
		if (r < 0)
			return r;
		if (step == 0)
			r = buf_append(b, "\xef\xbf\xbd", 3);
		else if (s[i] == '\\')
			r = buf_append(b, "\\\\", 2);
		else
			r = buf_printf(b, "\\u{%X}", text_code_point(s + i, step));
		i += step == 0 ? 1 : step;
		plain = i;
	}
	return r < 0 ? r : buf_append(b, s + plain, n - plain);
}

int
text_append_escaped(struct buf *b, const uint8_t *s, size_t n)
{
	return append_form(b, s, n, true);
}

int
text_append_visible(struct buf *b, const uint8_t *s, size_t n)
{
	return append_form(b, s, n, false);
}

/* Bytes at the front that are ASCII and stand in a JSON string as they are: eight at a time while
 * none of them is a quote, a backslash or a control character. */
static size_t
plain_run(const uint8_t *s, size_t n)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	size_t i = 0;

	while (n - i >= sizeof(uint64_t)) {
		uint64_t word, quote, slash, low;

		memcpy(&word, s + i, sizeof(word));
		quote = word ^ ones * '"';
		slash = word ^ ones * '\\';
		/* a byte that is zero, or below 0x20, borrows from its top bit */
		low = (quote - ones) & ~quote;
		low |= (slash - ones) & ~slash;
		low |= (word - ones * 0x20) & ~word;
		if (((low | word) & tops) != 0)
			break;
		i += sizeof(word);
	}
	while (i < n && s[i] >= 0x20 && s[i] < 0x80 && s[i] != '"' && s[i] != '\\')
		i++;
	return i;
}

/* The same with what is not ASCII, up to a hidden code point. */
static size_t
shown_run(const uint8_t *s, size_t n)
{
	size_t i = plain_run(s, n);

	while (i < n && s[i] >= 0x80) {
		size_t step = utf8_step((const char *)s + i, n - i);

		if (step > 0 && text_is_hidden(text_code_point(s + i, step)))
			break;
		i += step > 0 ? step : 1;
		i += plain_run(s + i, n - i);
	}
	return i;
}

/* A hidden one that is not ASCII, in JSON's own form. */
static int
append_json_hidden(struct buf *b, uint32_t code_point)
{
	uint32_t over = code_point - 0x10000;

	if (code_point < 0x10000)
		return buf_printf(b, "\\u%04x", code_point);
	return buf_printf(b, "\\u%04x\\u%04x", 0xd800 + (over >> 10), 0xdc00 + (over & 0x3ff));
}

int
text_append_json(struct buf *b, const uint8_t *s, size_t n)
{
	size_t i = 0;
	int r = buf_append(b, "\"", 1);

	while (i < n && r == 0) {
		size_t shown = shown_run(s + i, n - i), step = 1;

		r = buf_append(b, s + i, shown);
		i += shown;
		if (r < 0 || i == n)
			break;
		if (s[i] >= 0x80) {
			step = utf8_step((const char *)s + i, n - i);
			r = append_json_hidden(b, text_code_point(s + i, step));
		} else if (s[i] == '"' || s[i] == '\\') {
			r = buf_append(b, (const uint8_t[]){'\\', s[i]}, 2);
		} else if (s[i] == '\n') {
			r = buf_append(b, "\\n", 2);
		} else {
			r = buf_printf(b, "\\u%04x", s[i]);
		}
		i += step;
	}
	return r < 0 ? r : buf_append(b, "\"", 1);
}

size_t
text_floor(const uint8_t *s, size_t n)
{
	/* a sequence that the cut splits starts at most three bytes before it */
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		uint8_t c = s[n - back];
		size_t need;

		if ((c & 0xc0) == 0x80)
			continue;
		need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return need > back ? n - back : n;
	}
	return n;
}

size_t
text_skip(const uint8_t *s, size_t n)
{
	size_t skip = 0;

	while (skip < 3 && skip < n && (s[skip] & 0xc0) == 0x80)
		skip++;
	return skip;
}
