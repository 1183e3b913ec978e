/*
 * frontend/http_head.c - the head of an HTTP/1.1 request: strict, in place, no allocation.
 * Runs in: bailey-frontend.
 * Input: untrusted bytes of a client that may not even have a token.
 * Owns: nothing.
 *
 * What two readers could understand in two ways is refused, not repaired: line
 * ends other than CR LF, folded lines, blanks before a colon, a second header of
 * a kind that decides anything, two lengths. A body has a length; a chunked one
 * is refused (411), since every client that sends a whole JSON text knows how
 * long it is.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "http.h"

#define VERSION_LEN 8u /* of HTTP/1.1 */

static const struct {
	const char *name;
	enum http_repeat repeat;
} headers[HTTP_HEADERS] = {
#define HTTP_METHOD(name)
#define HTTP_HEADER(id, name, rule) [HTTP_H_##id] = {name, rule},
#define HTTP_STATUS(code, reason, line)
#define HTTP_ERROR(code, legacy, modern)
#include "http.def"
#undef HTTP_METHOD
#undef HTTP_HEADER
};
static const struct {
	const char *name;
	enum http_method method;
} methods[] = {
#define HTTP_METHOD(name) {#name, HTTP_##name},
#define HTTP_HEADER(id, name, rule)
#include "http.def"
#undef HTTP_METHOD
#undef HTTP_HEADER
#undef HTTP_STATUS
#undef HTTP_ERROR
};

#define REFUSAL(name, status, text) static const struct http_refusal name = {status, text, true}
REFUSAL(bad_line, 400, "Bad request: the request line is not METHOD SP TARGET SP HTTP/1.1");
REFUSAL(bad_version, 505, "Only HTTP/1.1 is spoken here");
REFUSAL(long_target, 414, "The address is too long; this server has /mcp");
REFUSAL(bad_field, 400, "Bad request: a header line is not NAME: VALUE");
REFUSAL(repeated, 400, "Bad request: a header came twice");
REFUSAL(many_fields, 431, "More than 64 header lines");
REFUSAL(no_host, 400, "Bad request: the Host header is missing");
REFUSAL(two_lengths, 400, "Bad request: both Content-Length and Transfer-Encoding");
REFUSAL(no_length, 411, "A body needs a Content-Length header; chunked bodies are not taken");
REFUSAL(bad_length, 400, "Bad request: Content-Length is not a whole number");
REFUSAL(big_body, 413, "A body has at most 8388608 bytes");
REFUSAL(odd_body, 400, "Bad request: only POST has a body");

/* ---- where the head ends ---- */

/* ASCII that may be shown, and the tab. */
static bool
is_text(char c)
{
	return (c >= 0x20 && c < 0x7f) || c == '\t';
}

ssize_t
http_head_end(const char *text, size_t len, size_t *scanned)
{
	size_t i = *scanned;

	while (i < len && i < HTTP_HEAD_MAX) {
		if (is_text(text[i])) {
			i++;
			continue;
		}
		if (text[i] != '\r')
			return -EBADMSG;
		if (i + 1 == len)
			break; /* its other half is to come */
		if (text[i + 1] != '\n')
			return -EBADMSG;
		i += 2;
		if (i >= 4 && text[i - 3] == '\n')
			return i > HTTP_HEAD_MAX ? -E2BIG : (ssize_t)i;
	}
	*scanned = i;
	return i >= HTTP_HEAD_MAX ? -E2BIG : 0;
}

/* ---- the request line ---- */

/* Cuts the line at the next single blank; NULL when there is none or nothing before it. */
static char *
cut_blank(char *line)
{
	char *blank = strchr(line, ' ');

	if (blank == NULL || blank == line || blank[1] == ' ')
		return NULL;
	*blank = '\0';
	return blank + 1;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const struct http_refusal *
request_line(char *line, struct http_head *ret)
{
	char *target = cut_blank(line);
	char *version = target == NULL ? NULL : cut_blank(target);

	if (version == NULL || target[0] != '/' || strchr(target, '\t') != NULL ||
	    strlen(version) != VERSION_LEN || strncmp(version, "HTTP/", 5) != 0 ||
	    !is_digit(version[5]) || version[6] != '.' || !is_digit(version[7]))
		return &bad_line;
	for (const char *p = line; *p != '\0'; p++) {
		if (*p < 'A' || *p > 'Z')
			return &bad_line;
	}
	if (strcmp(version, "HTTP/1.1") != 0)
		return &bad_version;
	if (strlen(target) > HTTP_TARGET_MAX)
		return &long_target;
	ret->target = target;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (strcmp(methods[i].name, line) == 0)
			ret->method = methods[i].method;
	}
	return NULL;
}

/* ---- header lines ---- */

static bool
is_name_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

/* Lower case in place; false for what no name may hold. */
static bool
fold_name(char *name)
{
	if (*name == '\0')
		return false;
	for (; *name != '\0'; name++) {
		if (*name >= 'A' && *name <= 'Z')
			*name = (char)(*name + ('a' - 'A'));
		if (!is_name_char(*name))
			return false;
	}
	return true;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *
trim(char *s)
{
	size_t n;

	while (is_blank(*s))
		s++;
	n = strlen(s);
	while (n > 0 && is_blank(s[n - 1]))
		n--;
	s[n] = '\0';
	return s;
}

/* A list's elements, each without its parameters. They need not be taken apart exactly: what is
 * not understood is not accepted. */
static void
read_list(const char *value, enum http_header which, struct http_head *ret)
{
	static const struct {
		enum http_header which;
		const char *word;
		size_t flag;
	} words[] = {
#define FLAG(name) offsetof(struct http_head, name)
		{HTTP_H_ACCEPT, "application/json", FLAG(accepts_json)},
		{HTTP_H_ACCEPT, "application/*", FLAG(accepts_json)},
		{HTTP_H_ACCEPT, "*/*", FLAG(accepts_json)},
		{HTTP_H_ACCEPT, "text/event-stream", FLAG(accepts_stream)},
		{HTTP_H_ACCEPT, "text/*", FLAG(accepts_stream)},
		{HTTP_H_ACCEPT, "*/*", FLAG(accepts_stream)},
		{HTTP_H_CONNECTION, "close", FLAG(close)},
#undef FLAG
	};

	while (*value != '\0') {
		size_t n, whole;

		value += strspn(value, " \t,");
		n = strcspn(value, " \t,;");
		whole = strcspn(value, ",");
		for (size_t i = 0; n > 0 && i < ARRAY_LEN(words); i++) {
			if (words[i].which == which && strlen(words[i].word) == n &&
			    strncasecmp(words[i].word, value, n) == 0)
				*(bool *)((char *)ret + words[i].flag) = true;
		}
		value += whole;
	}
}

/* Names seen that may not come twice, though only the first few mean anything here. */
struct seen {
	const char *names[HTTP_FIELDS_MAX];
	size_t n;
};

static bool
seen_before(struct seen *seen, const char *name)
{
	for (size_t i = 0; i < seen->n; i++) {
		if (strcmp(seen->names[i], name) == 0)
			return true;
	}
	seen->names[seen->n++] = name;
	return false;
}

static const struct http_refusal *
header_line(char *line, struct http_head *ret, struct seen *seen)
{
	char *colon = strchr(line, ':'), *value;

	if (colon == NULL)
		return &bad_field;
	*colon = '\0';
	if (!fold_name(line)) /* also a folded line, and a blank before the colon */
		return &bad_field;
	value = trim(colon + 1);
	for (size_t i = 0; i < HTTP_HEADERS; i++) {
		if (strcmp(headers[i].name, line) != 0)
			continue;
		if (headers[i].repeat == HTTP_ONCE && ret->value[i] != NULL)
			return &repeated;
		if (headers[i].repeat == HTTP_LIST)
			read_list(value, (enum http_header)i, ret);
		ret->value[i] = value;
		return NULL;
	}
	if (strncmp(line, "mcp-", 4) == 0 && seen_before(seen, line))
		return &repeated;
	return NULL;
}

/* ---- the whole ---- */

static const struct http_refusal *
body_length(struct http_head *head)
{
	const char *length = head->value[HTTP_H_CONTENT_LENGTH];

	if (head->value[HTTP_H_TRANSFER_ENCODING] != NULL)
		return length != NULL ? &two_lengths : &no_length;
	if (length == NULL)
		return head->method == HTTP_POST ? &no_length : NULL;
	switch (parse_u64(length, 0, MESSAGE_MAX, &head->length)) {
	case 0:
		break;
	case -ERANGE:
		return &big_body;
	default:
		return &bad_length;
	}
	return head->length > 0 && head->method != HTTP_POST ? &odd_body : NULL;
}

/* The next line without its end; NULL at the empty one. */
static char *
next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\r');

	if (end == NULL || end == line)
		return NULL;
	*end = '\0';
	*at = end + 2;
	return line;
}

const struct http_refusal *
http_head_parse(char *text, size_t len, struct http_head *ret)
{
	const struct http_refusal *why;
	struct seen seen = {.n = 0};
	char *at = text, *line;

	*ret = (struct http_head){.method = HTTP_OTHER};
	if (len < 4 || memchr(text, '\0', len) != NULL)
		return &bad_line;
	line = next_line(&at);
	why = line == NULL ? &bad_line : request_line(line, ret);
	for (size_t fields = 1; why == NULL; fields++) {
		line = next_line(&at);
		if (line == NULL)
			break;
		why = fields > HTTP_FIELDS_MAX ? &many_fields : header_line(line, ret, &seen);
	}
	if (why == NULL && ret->value[HTTP_H_HOST] == NULL)
		why = &no_host;
	return why == NULL ? body_length(ret) : why;
}
