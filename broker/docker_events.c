/*
 * broker/docker_events.c - the engine's stream of events about our containers,
 * opened again for ever.
 *
 * Runs in: bailey-broker.
 * Input: untrusted; one JSON object per line.
 * Owns: the one streaming request, its timer.
 *
 * A stream that ends, breaks a rule or does not open in time is opened again
 * after 0.1 s doubling to 5 s. What happened meanwhile is lost, so the listener
 * is told of the gap once the new stream stands.
 */
#include "engine_parts.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 65536u
#define BURST_MAX_BYTES 2097152u /* read by curl in one turn of the loop */
#define OPEN_MS 10000u
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 5000u

/* {"type":["container"],"event":["start","oom","die","destroy"],"label":["…product=bailey"]} */
static const char path_tail[] =
	"/events?filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22start%22%2C"
	"%22oom%22%2C%22die%22%2C%22destroy%22%5D%2C%22label%22%3A%5B%22" ENGINE_LABEL
	"product%3D" ENGINE_PRODUCT "%22%5D%7D";

struct engine_stream {
	struct engine *engine;
	struct http_op *op;
	struct event *retry;
	uint32_t wait_ms;
	bool was_open;
	bool feeding, dead; /* stopped inside a callback: on_fed lets go of it last */
	void *ctx;
	void (*event)(void *ctx, const struct engine_event *ev);
	void (*gap)(void *ctx);
};

static void
on_open(void *ctx)
{
	struct engine_stream *s = ctx;
	bool again = s->was_open;

	s->was_open = true;
	s->wait_ms = RETRY_MIN_MS;
	if (again)
		s->gap(s->ctx);
}

static void
try_later(struct engine_stream *s)
{
	s->op = NULL;
	loop_add_ms(s->retry, s->wait_ms);
	s->wait_ms = s->wait_ms * 2 < RETRY_MAX_MS ? s->wait_ms * 2 : RETRY_MAX_MS;
}

static void
spoilt(struct engine_stream *s)
{
	struct http_op *op = s->op;

	log_warn("the engine's event stream is not what it should be; opening it again");
	try_later(s);
	http_cancel(op);
}

static void
on_fed(void *ctx, struct buf *in)
{
	struct engine_stream *s = ctx;
	const uint8_t *end;
	int r = 0;

	s->feeding = true;
	/* Stopped, the stream has freed its buffer as well. */
	while (!s->dead && r >= 0 && (end = memchr(buf_data(in), '\n', buf_len(in))) != NULL) {
		size_t len = (size_t)(end - buf_data(in));
		struct engine_event ev;

		r = len > 0 ? docker_reply_event(buf_data(in), len, &ev) : 0;
		buf_consume(in, len + 1);
		if (r == 1)
			s->event(s->ctx, &ev);
	}
	s->feeding = false;
	if (s->dead)
		free(s);
	else if (r < 0 || buf_len(in) > LINE_MAX_BYTES)
		spoilt(s);
}

static void
on_end(void *ctx, const struct http_reply *r)
{
	(void)r;
	try_later(ctx);
}

static void
open_stream(struct engine_stream *s)
{
	struct engine *e = s->engine;
	char *path = xasprintf("/v%s%s", e->info.api, path_tail);

	s->op = http_start(e->http, &(struct http_request){
					    .method = "GET",
					    .path = path,
					    .deadline_ms = OPEN_MS,
					    .reply_max = BURST_MAX_BYTES,
					    .ctx = s,
					    .done = on_end,
					    .opened = on_open,
					    .fed = on_fed,
				    });
	free(path);
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	open_stream(arg);
}

void
engine_events(struct engine *e, void *ctx, void (*event)(void *ctx, const struct engine_event *ev),
	      void (*gap)(void *ctx))
{
	struct engine_stream *s = xcalloc(1, sizeof(*s));

	s->engine = e;
	s->ctx = ctx;
	s->event = event;
	s->gap = gap;
	s->wait_ms = RETRY_MIN_MS;
	s->retry = evtimer_new(e->base, on_retry, s);
	if (s->retry == NULL)
		fatal("out of memory");
	e->stream = s;
	open_stream(s);
}

void
docker_events_stop(struct engine *e)
{
	struct engine_stream *s = e->stream;

	if (s == NULL)
		return;
	http_cancel(s->op);
	event_free(s->retry);
	e->stream = NULL;
	if (s->feeding)
		s->dead = true;
	else
		free(s);
}
