/*
 * broker/http.c - HTTP/1.1 to the engine: libcurl's multi interface in the
 * libevent loop, over a unix socket, TCP or TLS. libcurl is known to http*.c only.
 *
 * Runs in: bailey-broker.
 * Input: untrusted; whatever the engine answers.
 * Owns: the multi handle, every easy handle, their events and buffers.
 *
 * Theory of operation: curl only ever marks. Its callbacks append to bounded
 * buffers and put an operation on the due list; http_pump runs after curl has
 * returned, takes one operation at a time from that list and makes one callback.
 * So a callback may start, cancel or free anything, this object included.
 * Nothing here may open a file or resolve a name: the broker is confined by then.
 */
#include "http_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEADERS_MAX 16384u
#define IDLE_CONNECTIONS 4u
#define EASY_MAX 1024u /* operations and raw connections at one time */

struct http_op {
	struct easy easy;
	char *send;
	struct buf in;
	size_t header_bytes;
	char api[17];
	struct event *head_timer; /* streams */
	bool head_ok, head_told, fresh, stream, late;
	void *ctx;
	void (*done)(void *ctx, const struct http_reply *r);
	void (*opened)(void *ctx);
	void (*fed)(void *ctx, struct buf *in);
};
_Static_assert(offsetof(struct http_op, easy) == 0, "an easy handle leads to its operation");

static CURLM *prepared; /* made before confinement: a multi handle opens a socket pair */

static void *
grow(void *p, size_t n)
{
	return xreallocarray(p, n, 1);
}

/* libcurl 7.88 goes on with a table it could not allocate, and divides by its size: so no memory is
 * the end here, and the next broker begins with some. */
int
http_global_init(void)
{
	if (curl_global_init_mem(CURL_GLOBAL_ALL, xmalloc, free, grow, xstrdup, xcalloc) !=
	    CURLE_OK)
		return -EIO;
	tzset();
	if (prepared == NULL)
		prepared = curl_multi_init();
	return prepared != NULL ? 0 : -ENOMEM;
}

/* ---- from curl to the due list ---- */

static void
make_due(struct easy *easy)
{
	struct http *h = easy->http;

	if (easy->due)
		return;
	easy->due = true;
	TAILQ_INSERT_TAIL(&h->due, easy, due_link);
}

static void http_pump(struct http *h);

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int flags = ((what & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
		    ((what & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
	int running;

	(void)curl_multi_socket_action(h->multi, fd, flags, &running);
	http_pump(h);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	int running;

	(void)fd;
	(void)what;
	(void)curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	http_pump(h);
}

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	http_pump(arg);
}

static int
watch_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct http *h = arg;
	struct timeval tv = {timeout_ms / 1000, (timeout_ms % 1000) * 1000};

	(void)multi;
	if (timeout_ms < 0)
		(void)evtimer_del(h->timer);
	else if (evtimer_add(h->timer, &tv) == -1)
		return -1;
	return 0;
}

static int
watch_socket(CURL *curl, curl_socket_t fd, int what, void *arg, void *assigned)
{
	struct http *h = arg;
	struct event *ev = assigned;
	short events = (short)(((what & CURL_POLL_IN) != 0 ? EV_READ : 0) |
			       ((what & CURL_POLL_OUT) != 0 ? EV_WRITE : 0) | EV_PERSIST);

	(void)curl;
	if (ev != NULL)
		event_free(ev);
	if (what == CURL_POLL_REMOVE) {
		(void)curl_multi_assign(h->multi, fd, NULL);
		return 0;
	}
	ev = event_new(h->base, fd, events, on_socket, h);
	if (ev == NULL)
		return -1;
	(void)curl_multi_assign(h->multi, fd, ev);
	return event_add(ev, NULL);
}

static size_t
take_body(char *p, size_t size, size_t count, void *arg)
{
	struct http_op *op = arg;
	size_t n = size * count;

	if (buf_append(&op->in, p, n) < 0) {
		op->easy.oversized = true;
		return CURL_WRITEFUNC_ERROR;
	}
	if (op->head_ok) {
		op->fresh = true;
		make_due(&op->easy);
	}
	return n;
}

static size_t
take_header(char *p, size_t size, size_t count, void *arg)
{
	static const char api[] = "api-version:";
	struct http_op *op = arg;
	size_t n = size * count, at = sizeof(api) - 1;
	long status = 0;

	op->header_bytes += n;
	if (op->header_bytes > HEADERS_MAX) {
		op->easy.oversized = true;
		return 0;
	}
	if (n > at && strncasecmp(p, api, at) == 0) {
		size_t end = n;

		while (at < n && p[at] == ' ')
			at++;
		while (end > at && (p[end - 1] == '\r' || p[end - 1] == '\n' || p[end - 1] == ' '))
			end--;
		(void)str_copy(op->api, sizeof(op->api), p + at, end - at); /* else "" */
	}
	(void)curl_easy_getinfo(op->easy.curl, CURLINFO_RESPONSE_CODE, &status);
	if (op->stream && n <= 2 && (p[0] == '\r' || p[0] == '\n') && status == 200) {
		op->head_ok = true;
		make_due(&op->easy);
	}
	return n;
}

/* ---- from the due list to the callbacks ---- */

static void
set_idle_limit(struct http *h)
{
	/* Above the raw connections, which count but must never be the ones dropped. */
	(void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)(h->raws + IDLE_CONNECTIONS));
}

/* Takes the handle out of everything; what contains it is left to free. */
void
http_easy_detach(struct easy *easy)
{
	struct http *h = easy->http;

	if (easy->due)
		TAILQ_REMOVE(&h->due, easy, due_link);
	TAILQ_REMOVE(&h->all, easy, all);
	h->count--;
	if (easy->raw)
		h->raws--;
	if (easy->curl == NULL)
		return;
	(void)curl_multi_remove_handle(h->multi, easy->curl);
	curl_easy_cleanup(easy->curl);
	easy->curl = NULL;
	set_idle_limit(h);
}

static void
op_free(struct http_op *op)
{
	http_easy_detach(&op->easy);
	if (op->head_timer != NULL)
		event_free(op->head_timer);
	buf_done(&op->in);
	free(op->send);
	free(op);
}

int
http_easy_tell(const struct easy *easy, char *out, size_t cap)
{
	if (!easy->oversized)
		return http_explain(&easy->http->to, easy->curl, easy->result, out, cap);
	(void)snprintf(out, cap, "the engine at %.120s sent more than it may",
		       easy->http->to.where);
	return -EPROTO;
}

static void
op_complete(struct http_op *op)
{
	char message[ENGINE_MESSAGE_MAX] = "";
	struct http_reply r = {.message = message, .api = op->api};
	long status = 0;

	if (op->easy.curl != NULL)
		(void)curl_easy_getinfo(op->easy.curl, CURLINFO_RESPONSE_CODE, &status);
	r.status = (int)status;
	if (op->late)
		op->easy.result = CURLE_OPERATION_TIMEDOUT;
	if (op->easy.result != CURLE_OK)
		r.err = http_easy_tell(&op->easy, message, sizeof(message));
	r.body = buf_data(&op->in);
	r.len = buf_len(&op->in);

	/* The reply's bytes must outlive the operation, which the callback must not see. */
	struct buf in = op->in;
	char api[17];
	void (*done)(void *, const struct http_reply *) = op->done;
	void *ctx = op->ctx;

	memcpy(api, op->api, sizeof(api));
	r.api = api;
	memset(&op->in, 0, sizeof(op->in));
	op_free(op);
	done(ctx, &r);
	buf_done(&in);
}

static void
op_deliver(struct http_op *op)
{
	if (op->head_ok && !op->head_told) {
		op->head_told = true;
		if (op->head_timer != NULL)
			(void)evtimer_del(op->head_timer);
		if (op->fresh || op->easy.finished)
			make_due(&op->easy);
		op->opened(op->ctx);
	} else if (op->fresh) {
		op->fresh = false;
		if (op->easy.finished)
			make_due(&op->easy);
		op->fed(op->ctx, &op->in);
	} else if (op->easy.finished) {
		op_complete(op);
	}
}

static void
http_release(struct http *h)
{
	if (h->multi != NULL)
		(void)curl_multi_cleanup(h->multi);
	if (h->timer != NULL)
		event_free(h->timer);
	if (h->later != NULL)
		event_free(h->later);
	http_target_done(&h->to);
	free(h);
}

static void
http_pump(struct http *h)
{
	struct easy *easy;
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(h->multi, &left)) != NULL) {
		if (msg->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&easy);
		easy->finished = true;
		easy->result = msg->data.result;
		make_due(easy);
	}
	h->pumping = true;
	while (!h->dead && (easy = TAILQ_FIRST(&h->due)) != NULL) {
		TAILQ_REMOVE(&h->due, easy, due_link);
		easy->due = false;
		if (easy->raw)
			http_raw_deliver((struct http_raw *)(void *)easy);
		else
			op_deliver((struct http_op *)(void *)easy);
	}
	h->pumping = false;
	if (h->dead)
		http_release(h);
}

/* ---- starting ---- */

static CURLcode
set_request(const struct http *h, struct http_op *op, const struct http_request *req)
{
	CURL *curl = op->easy.curl;
	CURLcode r = curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);

	(void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, op);
	(void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	(void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, op);
	if (r == CURLE_OK)
		r = curl_easy_setopt(curl, CURLOPT_HTTPHEADER, h->to.headers);
	if (r == CURLE_OK && !op->stream)
		r = curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)req->deadline_ms);
	/* curl repeats a request whose kept connection turns out dead. Only one that changes
	 * nothing may be: the others open a connection of their own. */
	if (r == CURLE_OK && strcmp(req->method, "GET") != 0)
		r = curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
	if (r == CURLE_OK && strcmp(req->method, "POST") == 0) {
		r = curl_easy_setopt(curl, CURLOPT_POSTFIELDS, op->send != NULL ? op->send : "");
		(void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE,
				       op->send != NULL ? (long)req->body_len : 0L);
	} else if (r == CURLE_OK && strcmp(req->method, "GET") != 0) {
		r = curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, req->method);
	}
	return r;
}

/* Gives the handle to curl; whatever fails is told later, by http_pump. */
void
http_easy_begin(struct easy *easy, CURLcode r)
{
	struct http *h = easy->http;

	TAILQ_INSERT_TAIL(&h->all, easy, all);
	h->count++;
	if (easy->raw)
		h->raws++;
	set_idle_limit(h);
	if (h->count > EASY_MAX)
		r = HTTP_TOO_MANY;
	if (r == CURLE_OK && curl_multi_add_handle(h->multi, easy->curl) != CURLM_OK)
		r = CURLE_OUT_OF_MEMORY;
	if (r == CURLE_OK)
		return;
	easy->finished = true;
	easy->result = r;
	make_due(easy);
	event_active(h->later, EV_TIMEOUT, 0);
}

static void
on_head_late(evutil_socket_t fd, short what, void *arg)
{
	struct http_op *op = arg;

	(void)fd;
	(void)what;
	op->late = true;
	op->easy.finished = true;
	make_due(&op->easy);
	http_pump(op->easy.http);
}

struct http_op *
http_start(struct http *h, const struct http_request *req)
{
	struct http_op *op = xcalloc(1, sizeof(*op));
	CURLcode r = CURLE_OUT_OF_MEMORY;

	op->easy.http = h;
	op->ctx = req->ctx;
	op->done = req->done;
	op->opened = req->opened;
	op->fed = req->fed;
	op->stream = req->fed != NULL;
	buf_init(&op->in, req->reply_max);
	if (req->body != NULL)
		op->send = xstrndup(req->body, req->body_len);
	op->easy.curl = curl_easy_init();
	if (op->easy.curl != NULL)
		r = http_setup(&h->to, op->easy.curl, req->path, &op->easy);
	if (r == CURLE_OK)
		r = set_request(h, op, req);
	if (op->stream) {
		struct timeval tv = {req->deadline_ms / 1000,
				     (suseconds_t)(req->deadline_ms % 1000) * 1000};

		op->head_timer = evtimer_new(h->base, on_head_late, op);
		if (op->head_timer == NULL || evtimer_add(op->head_timer, &tv) == -1)
			r = CURLE_OUT_OF_MEMORY;
	}
	http_easy_begin(&op->easy, r);
	return op;
}

void
http_cancel(struct http_op *op)
{
	if (op != NULL)
		op_free(op);
}

/* ---- the whole ---- */

struct http *
http_new(struct event_base *base, const struct engine_config *config)
{
	struct http *h = xcalloc(1, sizeof(*h));

	h->base = base;
	TAILQ_INIT(&h->all);
	TAILQ_INIT(&h->due);
	h->multi = prepared != NULL ? TAKE(prepared) : curl_multi_init();
	h->timer = evtimer_new(base, on_timer, h);
	h->later = event_new(base, -1, 0, on_later, h);
	if (h->multi == NULL || h->timer == NULL || h->later == NULL ||
	    http_target_init(&h->to, config) < 0) {
		http_free(h);
		return NULL;
	}
	(void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	(void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	(void)curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, watch_timer);
	(void)curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	(void)curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	set_idle_limit(h);
	return h;
}

void
http_free(struct http *h)
{
	struct easy *next;

	if (h == NULL)
		return;
	for (struct easy *easy = TAILQ_FIRST(&h->all); easy != NULL; easy = next) {
		next = TAILQ_NEXT(easy, all);
		if (easy->raw)
			http_raw_close((struct http_raw *)(void *)easy);
		else
			op_free((struct http_op *)(void *)easy);
	}
	if (h->pumping)
		h->dead = true;
	else
		http_release(h);
}

const char *
http_where(const struct http *h)
{
	return h->to.where;
}

const char *
http_host(const struct http *h)
{
	return h->to.host;
}
