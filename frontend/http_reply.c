/*
 * frontend/http_reply.c - the bytes of HTTP answers: JSON, refusals, event streams.
 * Runs in: bailey-frontend.
 * Input: our own texts and messages.
 * Owns: nothing; everything is appended to a buffer of the caller.
 *
 * A refusal carries a JSON-RPC error without an id, because clients parse what
 * they get, whatever its status. Event streams are chunked, one message an event
 * and one event a chunk, so a reader that was cut off knows it.
 */
#include <errno.h>
#include <string.h>

#include "http.h"

#define KEEP_ALIVE_S 30 /* told to clients; we wait longer, so theirs is the first to give up */
#define EVENT_HEAD "event: message\ndata: "
#define EVENT_END "\n\n"
#define BEAT ":\n\n"

static const struct {
	unsigned code;
	const char *reason, *line;
} statuses[] = {
#define HTTP_METHOD(name)
#define HTTP_HEADER(id, name, rule)
#define HTTP_STATUS(code, reason, line) {code, reason, line},
#define HTTP_ERROR(code, legacy, modern)
#include "http.def"
#undef HTTP_STATUS
#undef HTTP_ERROR
};
static const struct {
	int code;
	unsigned legacy, modern;
} errors[] = {
#define HTTP_STATUS(code, reason, line)
#define HTTP_ERROR(code, legacy, modern) {code, legacy, modern},
#include "http.def"
#undef HTTP_METHOD
#undef HTTP_HEADER
#undef HTTP_STATUS
#undef HTTP_ERROR
};

unsigned
http_reply_status(const struct sent *as)
{
	if (as->code == 0)
		return 200;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		if (errors[i].code == as->code)
			return as->rev >= REV_2026_07_28 ? errors[i].modern : errors[i].legacy;
	}
	return as->refused ? 400 : 200;
}

/* The status line and what all answers carry; the caller ends it with its own and an empty line. */
static int
head(struct buf *out, const struct http_reply *r)
{
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(statuses) && statuses[i].code != r->status)
		i++;
	if (buf_printf(out,
		       "HTTP/1.1 %u %s\r\n"
		       "Cache-Control: no-store\r\n"
		       "X-Content-Type-Options: nosniff\r\n%s",
		       r->status, statuses[i].reason, statuses[i].line) < 0)
		return -ENOSPC;
	if (r->session != NULL && buf_printf(out, "Mcp-Session-Id: %s\r\n", r->session) < 0)
		return -ENOSPC;
	if (r->close)
		return buf_printf(out, "Connection: close\r\n");
	return buf_printf(out, "Keep-Alive: timeout=%d\r\n", KEEP_ALIVE_S);
}

int
http_reply_json(struct buf *out, const struct http_reply *r, const char *text, size_t len)
{
	int n = head(out, r);

	if (n < 0)
		return n;
	n = buf_printf(out, "%sContent-Length: %zu\r\n\r\n",
		       len > 0 ? "Content-Type: application/json\r\n" : "", len);
	return n < 0 ? n : buf_append(out, text, len);
}

int
http_reply_refusal(struct buf *out, const struct http_refusal *why, bool close)
{
	struct http_reply r = {.status = why->status, .close = close};
	struct buf body;
	int n;

	buf_init(&body, 1024);
	/* the texts are ours: nothing in them needs escaping */
	n = buf_printf(&body, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":%d,\"message\":\"%s\"}}",
		       RPC_REQUEST, why->text);
	if (n >= 0)
		n = http_reply_json(out, &r, (const char *)buf_data(&body), buf_len(&body));
	buf_done(&body);
	return n;
}

int
http_reply_stream(struct buf *out, const struct http_reply *r)
{
	int n = head(out, r);

	if (n < 0)
		return n;
	return buf_printf(out, "Content-Type: text/event-stream\r\n"
			       "X-Accel-Buffering: no\r\n" /* nginx would keep events back */
			       "Transfer-Encoding: chunked\r\n\r\n");
}

int
http_reply_event(struct buf *out, const char *text, size_t len)
{
	int n = buf_printf(out, "%zx\r\n" EVENT_HEAD, strlen(EVENT_HEAD) + len + strlen(EVENT_END));

	if (n >= 0)
		n = buf_append(out, text, len);
	return n < 0 ? n : buf_append(out, EVENT_END "\r\n", strlen(EVENT_END "\r\n"));
}

int
http_reply_beat(struct buf *out)
{
	return buf_printf(out, "%zx\r\n" BEAT "\r\n", strlen(BEAT));
}

int
http_reply_stream_end(struct buf *out)
{
	return buf_append(out, "0\r\n\r\n", 5);
}
