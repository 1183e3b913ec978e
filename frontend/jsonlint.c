/*
 * frontend/jsonlint.c - the gate before cJSON.
 * Runs in: bailey-frontend.
 * Input: untrusted text of one message.
 * Owns: nothing past a call.
 *
 * cJSON takes duplicate keys, broken UTF-8, raw control bytes and numbers that
 * no double holds, and ends strings at \u0000. Nothing of that gets past here.
 * Two kinds of fault: text that is not JSON ends the scan; text that is JSON but
 * refused is read on to its end, so that the request's id can still be told and
 * the client gets an answer it can match. One pass, no recursion.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

#define NUMBER_BYTES_MAX 64u
#define EXPONENT_MAX 200u /* a double holds any 64 digits times ten to this */
#define KEYS_FIRST 64u

struct scan {
	const unsigned char *s;
	size_t at, len;
	struct json_lint *lint;
	bool in_object[JSON_DEPTH_MAX];
	uint32_t serial[JSON_DEPTH_MAX]; /* of the object open at that depth */
	uint32_t objects;
	size_t depth, values, keys, refusals;
	uint64_t *tags; /* open addressing: key tag, 0 = free */
	size_t tags_cap;
	bool key_is_id, id_twice;
	bool escapes; /* the string read last has some */
};

/* JSON, but not for us: noted once, reading goes on. */
static void
refuse(struct scan *c, const char *why)
{
	c->refusals++;
	if (c->lint->why != NULL)
		return;
	c->lint->why = why;
	c->lint->at = c->at;
}

static int
broken(struct scan *c, const char *why)
{
	c->lint->why = why;
	c->lint->at = c->at;
	c->lint->grammar = true;
	return -EBADMSG;
}

/* ---- keys: one set of (object, key) tags for the whole text ---- */

static uint64_t
mix(uint64_t h)
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 33;
}

/* A seed of the process' own, so that nobody can prepare keys that fall together. */
static uint64_t
tag_seed(void)
{
	static uint64_t seed;

	if (seed == 0) {
		random_bytes(&seed, sizeof(seed));
		seed |= 1;
	}
	return seed;
}

/* true when the tag was there before */
static bool
tag_put(uint64_t *tags, size_t cap, uint64_t tag)
{
	size_t i = (size_t)tag & (cap - 1);

	while (tags[i] != 0) {
		if (tags[i] == tag)
			return true;
		i = (i + 1) & (cap - 1);
	}
	tags[i] = tag;
	return false;
}

static bool
key_seen(struct scan *c, uint64_t key_hash)
{
	uint64_t tag = mix(key_hash ^ mix(c->serial[c->depth - 1] + tag_seed())) | 1;

	if (c->keys * 2 >= c->tags_cap) {
		size_t cap = c->tags_cap == 0 ? KEYS_FIRST : c->tags_cap * 4;
		uint64_t *bigger = xcalloc(cap, sizeof(*bigger));

		for (size_t i = 0; i < c->tags_cap; i++) {
			if (c->tags[i] != 0)
				(void)tag_put(bigger, cap, c->tags[i]);
		}
		free(c->tags);
		c->tags = bigger;
		c->tags_cap = cap;
	}
	c->keys++;
	return tag_put(c->tags, c->tags_cap, tag);
}

/* ---- scalars ---- */

static int
hex4(struct scan *c, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++, c->at++) {
		unsigned char d = c->at < c->len ? c->s[c->at] : 0;

		if (d >= '0' && d <= '9')
			v = v << 4 | (uint32_t)(d - '0');
		else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f')
			v = v << 4 | (uint32_t)((d | 0x20) - 'a' + 10);
		else
			return broken(c, "\\u needs four hex digits");
	}
	*ret = v;
	return 0;
}

/* After the backslash. */
static int
scan_escape(struct scan *c, uint32_t *ret)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	unsigned char e = c->at < c->len ? c->s[c->at] : 0;
	const char *p = e == 0 ? NULL : memchr(from, e, sizeof(from) - 1);
	uint32_t high, low;
	int r;

	if (p != NULL) {
		c->at++;
		*ret = (unsigned char)to[p - from];
		return 0;
	}
	if (e != 'u')
		return broken(c, "unknown escape in a string");
	c->at++;
	r = hex4(c, &high);
	if (r < 0)
		return r;
	*ret = high;
	if (high == 0)
		refuse(c, "\\u0000 in a string");
	if (high < 0xd800 || high > 0xdfff)
		return 0;
	if (high > 0xdbff || c->len - c->at < 6 || c->s[c->at] != '\\' || c->s[c->at + 1] != 'u') {
		refuse(c, "half of a surrogate pair");
		return 0;
	}
	c->at += 2;
	r = hex4(c, &low);
	if (r < 0)
		return r;
	if (low < 0xdc00 || low > 0xdfff)
		refuse(c, "half of a surrogate pair");
	*ret = 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
	return 0;
}

/* The same characters give the same hash, however they were written. */
static uint64_t
hash_add(uint64_t h, uint32_t code_point)
{
	h = (h ^ code_point) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

/* Plain text, eight bytes at a time: a word with a quote, a backslash, a control character or a
 * byte that is no ASCII is left to the caller. */
static void
skip_plain(struct scan *c)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	uint64_t word;

	while (c->len - c->at >= sizeof(word)) {
		memcpy(&word, c->s + c->at, sizeof(word));
		/* a byte that is zero, or below 0x20, borrows from its top bit */
		uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
		uint64_t found = (quote - ones) | (slash - ones) | (word - ones * 0x20);

		if (((found | word) & tops) != 0)
			return;
		c->at += sizeof(word);
	}
}

/* At the opening quote. hash is NULL for values. */
static int
scan_string(struct scan *c, uint64_t *hash)
{
	c->at++;
	c->escapes = false;
	while (c->at < c->len) {
		if (hash == NULL)
			skip_plain(c);
		if (c->at == c->len)
			break;
		uint32_t cp = c->s[c->at];
		int r;

		if (cp == '"') {
			c->at++;
			return 0;
		}
		if (cp == '\\') {
			c->at++;
			c->escapes = true;
			r = scan_escape(c, &cp);
			if (r < 0)
				return r;
		} else if (cp < 0x20) {
			return broken(c, "raw control character in a string");
		} else if (cp < 0x80) {
			c->at++;
		} else {
			size_t step = utf8_step((const char *)c->s + c->at, c->len - c->at);

			if (step == 0)
				return broken(c, "not UTF-8");
			cp = text_code_point(c->s + c->at, step);
			c->at += step;
		}
		if (hash != NULL)
			*hash = hash_add(*hash, cp);
	}
	return broken(c, "string without its end");
}

static size_t
skip_digits(struct scan *c)
{
	size_t from = c->at;

	while (c->at < c->len && c->s[c->at] >= '0' && c->s[c->at] <= '9')
		c->at++;
	return c->at - from;
}

static bool
skip_one(struct scan *c, const char *any_of)
{
	if (c->at >= c->len || c->s[c->at] == 0 || strchr(any_of, c->s[c->at]) == NULL)
		return false;
	c->at++;
	return true;
}

static int
scan_number(struct scan *c)
{
	size_t from = c->at, digits;

	(void)skip_one(c, "-");
	if (!skip_one(c, "0") && skip_digits(c) == 0)
		return broken(c, "unexpected character");
	if (skip_one(c, ".") && skip_digits(c) == 0)
		return broken(c, "number without digits after its point");
	if (skip_one(c, "eE")) {
		uint32_t exponent = 0;

		(void)skip_one(c, "+-");
		digits = skip_digits(c);
		if (digits == 0)
			return broken(c, "number without digits in its exponent");
		for (size_t i = c->at - digits; i < c->at && exponent <= EXPONENT_MAX; i++)
			exponent = exponent * 10 + (uint32_t)(c->s[i] - '0');
		if (exponent > EXPONENT_MAX)
			refuse(c, "number out of range");
	}
	if (c->at - from > NUMBER_BYTES_MAX)
		refuse(c, "number with too many digits");
	return 0;
}

static int
scan_word(struct scan *c)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t n = strlen(words[i]);

		if (c->len - c->at >= n && memcmp(c->s + c->at, words[i], n) == 0) {
			c->at += n;
			return 0;
		}
	}
	return broken(c, "unexpected character");
}

/* ---- structure ---- */

enum expect {
	WANT_VALUE,
	WANT_VALUE_OR_END, /* after [ */
	WANT_KEY,
	WANT_KEY_OR_END, /* after { */
	AFTER_VALUE,
};

static int
open_level(struct scan *c, bool object)
{
	if (c->depth == JSON_DEPTH_MAX)
		return broken(c, "nested too deep");
	c->at++;
	c->in_object[c->depth] = object;
	c->serial[c->depth] = ++c->objects;
	c->depth++;
	return 0;
}

/* An id that is a string or a number and was read without a refusal may be echoed. */
static void
note_id(struct scan *c, size_t from, size_t refusals_before)
{
	if (c->lint->id_len != 0 || c->id_twice) {
		c->id_twice = true;
		c->lint->id_len = 0;
		return;
	}
	if (c->s[from] != '"' && c->s[from] != '-' && (c->s[from] < '0' || c->s[from] > '9'))
		return;
	if (c->refusals != refusals_before)
		return;
	c->lint->id_at = from;
	c->lint->id_len = c->at - from;
}

/* A string's content as it stands; from is at its opening quote. */
static void
note_long(struct scan *c, size_t from)
{
	size_t len = c->at - from - 2;

	if (c->escapes || len <= c->lint->long_len)
		return;
	c->lint->long_at = from + 1;
	c->lint->long_len = len;
}

static int
scan_value(struct scan *c, enum expect *expect)
{
	size_t from = c->at, before = c->refusals;
	unsigned char first = c->s[c->at];
	bool is_id = c->key_is_id;
	int r;

	c->key_is_id = false;
	if (++c->values == JSON_VALUES_MAX + 1)
		refuse(c, "too many values");
	*expect = AFTER_VALUE;
	if (first == '{' || first == '[') {
		*expect = first == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
		return open_level(c, first == '{');
	}
	if (first == '"')
		r = scan_string(c, NULL);
	else if (first == '-' || (first >= '0' && first <= '9'))
		r = scan_number(c);
	else
		r = scan_word(c);
	if (r == 0 && first == '"')
		note_long(c, from);
	if (r == 0 && is_id)
		note_id(c, from, before);
	return r;
}

static void
skip_blanks(struct scan *c)
{
	while (c->at < c->len && (c->s[c->at] == ' ' || c->s[c->at] == '\t' ||
				  c->s[c->at] == '\r' || c->s[c->at] == '\n'))
		c->at++;
}

static int
scan_key(struct scan *c)
{
	uint64_t hash = tag_seed();
	size_t from = c->at;
	int r;

	if (c->s[c->at] != '"')
		return broken(c, "expected a key");
	r = scan_string(c, &hash);
	if (r < 0)
		return r;
	if (c->at - from - 2 > JSON_KEY_BYTES_MAX)
		refuse(c, "key too long");
	if (c->keys >= JSON_KEYS_MAX)
		refuse(c, "too many keys");
	else if (key_seen(c, hash))
		refuse(c, "duplicate key");
	c->key_is_id = c->depth == 1 && c->at - from == 4 && memcmp(c->s + from, "\"id\"", 4) == 0;
	skip_blanks(c);
	if (!skip_one(c, ":"))
		return broken(c, "expected a colon");
	return 0;
}

static int
scan_after(struct scan *c, enum expect *expect)
{
	bool object = c->in_object[c->depth - 1];

	if (skip_one(c, ",")) {
		*expect = object ? WANT_KEY : WANT_VALUE;
		return 0;
	}
	if (!skip_one(c, object ? "}" : "]"))
		return broken(c, object ? "expected , or }" : "expected , or ]");
	c->depth--;
	return 0;
}

static int
scan_step(struct scan *c, enum expect *expect)
{
	unsigned char next = c->s[c->at];
	int r;

	switch (*expect) {
	case AFTER_VALUE:
		return scan_after(c, expect);
	case WANT_KEY_OR_END:
	case WANT_KEY:
		if (next == '}' && *expect == WANT_KEY_OR_END)
			break;
		r = scan_key(c);
		*expect = WANT_VALUE;
		return r;
	case WANT_VALUE_OR_END:
		if (next == ']')
			break;
		return scan_value(c, expect);
	case WANT_VALUE:
		return scan_value(c, expect);
	}
	*expect = AFTER_VALUE; /* an empty object or array */
	return scan_after(c, expect);
}

int
jsonlint(const char *text, size_t len, struct json_lint *ret)
{
	struct scan c = {.s = (const unsigned char *)text, .len = len, .lint = ret};
	enum expect expect = WANT_VALUE;
	int r = 0;

	*ret = (struct json_lint){.why = NULL};
	for (;;) {
		skip_blanks(&c);
		if (c.at >= c.len || (expect == AFTER_VALUE && c.depth == 0))
			break;
		r = scan_step(&c, &expect);
		if (r < 0)
			break;
	}
	if (r == 0 && c.at < c.len)
		r = broken(&c, "text after the end of the message");
	else if (r == 0 && (expect != AFTER_VALUE || c.depth > 0))
		r = broken(&c, "message ends early");
	free(c.tags);
	return ret->why == NULL ? r : -EBADMSG;
}
