/*
 * frontend/progress.c - notifications/progress for a call that asked for them.
 * Runs in: bailey-frontend.
 * Input: output of the run; untrusted, shown with hidden code points visible.
 * Owns: the output not told yet (the last LINES_MAX bytes) and the call's progress timer.
 *
 * The first output is told at once, more of it at most every EVERY_MS, and
 * without any a sign of life comes every ALIVE_MS. The progress value is the
 * number of the notification, so it always rises; a client that does not read
 * gets fewer. None can follow the answer: they end with the call.
 */
#include <errno.h>

#include "frontend.h"

#define EVERY_MS 100u
#define ALIVE_MS 5000u
#define LINES_MAX ((size_t)4096)
#define QUEUE_SLACK ((size_t)256 << 10) /* unsent bytes above which a notification is left out */

static void
arm(struct progress *p, uint64_t in_ms)
{
	loop_add_ms(p->timer, in_ms);
}

/* The text of one notification: new output, or how things stand. NUL-terminated in ret. */
static void
tell(struct call *c, struct buf *ret)
{
	struct progress *p = &c->progress;
	size_t n = text_floor(buf_data(&p->lines), buf_len(&p->lines));
	uint64_t ms = clock_now_ms() - p->started_ms;

	if (n > 0) {
		(void)text_append_visible(ret, buf_data(&p->lines), n);
		buf_consume(&p->lines, n);
	} else {
		(void)buf_printf(ret, "%s, %llu s",
				 c->state >= CALL_GRANTED ? "running" : "waiting for a sandbox",
				 (unsigned long long)(ms / 1000));
	}
	(void)buf_append(ret, "", 1);
}

static void
notify(struct call *c)
{
	struct progress *p = &c->progress;
	struct buf text;

	p->last_ms = clock_now_ms();
	arm(p, ALIVE_MS);
	if (transport_queued(c->fe->transport) > QUEUE_SLACK)
		return;
	buf_init(&text, LINES_MAX * 10);
	tell(c, &text);
	mcp_send_progress(c->fe, &c->to, &p->token, ++p->sent, (const char *)buf_data(&text));
	buf_done(&text);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct call *c = arg;

	(void)fd;
	(void)what;
	if (c->state != CALL_CANCELLED)
		notify(c);
}

int
progress_init(struct call *c, const struct rpc_id *token)
{
	struct progress *p = &c->progress;

	p->token = *token;
	if (token->kind == RPC_ID_NONE)
		return 0;
	p->started_ms = p->last_ms = clock_now_ms();
	buf_init(&p->lines, 2 * LINES_MAX);
	p->timer = event_new(c->fe->base, -1, 0, on_timer, c);
	if (p->timer == NULL)
		return -ENOMEM;
	arm(p, ALIVE_MS);
	return 0;
}

void
progress_done(struct progress *p)
{
	if (p->timer != NULL)
		event_free(p->timer);
	p->timer = NULL;
	buf_done(&p->lines);
}

void
progress_output(struct call *c, const uint8_t *data, size_t len)
{
	struct progress *p = &c->progress;
	uint64_t now;

	if (p->token.kind == RPC_ID_NONE)
		return;
	if (len > LINES_MAX) {
		data += len - LINES_MAX;
		len = LINES_MAX;
	}
	if (buf_len(&p->lines) + len > LINES_MAX)
		buf_consume(&p->lines, buf_len(&p->lines) + len - LINES_MAX);
	(void)buf_append(&p->lines, data, len); /* at most LINES_MAX by the above */
	now = clock_now_ms();
	if (!p->any_output || now - p->last_ms >= EVERY_MS) {
		p->any_output = true;
		notify(c);
	} else {
		arm(p, EVERY_MS - (now - p->last_ms));
	}
}
