/*
 * broker/docker_api.c - the engine's endpoints as functions. No other path of
 * the Docker API is ever asked for.
 *
 * Runs in: bailey-broker.
 * Input: ids and figures from the broker core (checked again here: they become
 *   paths), replies from the engine (untrusted).
 * Owns: struct engine and its calls under way.
 *
 * One call is one request with its own deadline and, while it lasts, its own
 * connection: a hung answer holds nothing else up.
 */
#include "engine_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum endpoint {
	EP_PING,
	EP_VERSION,
	EP_INFO,
	EP_IMAGE,
	EP_LIST,
	EP_CREATE,
	EP_CHECK,
	EP_START,
	EP_UPDATE,
	EP_UPDATED,
	EP_KILL,
	EP_REMOVE,
};

static const struct {
	const char *method;
	uint32_t deadline_ms;
	uint32_t reply_max;
	int ok[2]; /* statuses that are a success */
} endpoints[] = {
	[EP_PING] = {"GET", 5000, 4096, {200, 0}},
	[EP_VERSION] = {"GET", 5000, 65536, {200, 0}},
	[EP_INFO] = {"GET", 10000, 262144, {200, 0}},
	[EP_IMAGE] = {"GET", 5000, 262144, {200, 0}},
	[EP_LIST] = {"GET", 15000, 4194304, {200, 0}},
	[EP_CREATE] = {"POST", 15000, 65536, {201, 0}},
	[EP_CHECK] = {"GET", 5000, 524288, {200, 0}},
	[EP_START] = {"POST", 15000, 65536, {204, 304}},
	[EP_UPDATE] = {"POST", 10000, 65536, {200, 0}},
	[EP_UPDATED] = {"GET", 5000, 524288, {200, 0}},
	[EP_KILL] = {"POST", 10000, 65536, {204, 0}},
	[EP_REMOVE] = {"DELETE", 30000, 65536, {204, 404}},
};

struct engine_call {
	struct engine *engine;
	struct engine_call *next, **link;
	struct http_op *op;
	struct event *refusal; /* set instead of op: refused before it was sent */
	const char *why;
	enum endpoint ep;
	void *ctx;
	uint64_t tag;
	union {
		void (*probe)(void *, const struct engine_result *, const struct engine_info *);
		void (*image)(void *, const struct engine_result *, const char *);
		void (*list)(void *, const struct engine_result *, const struct engine_container *,
			     size_t);
		void (*create)(void *, uint64_t, const struct engine_result *, const char *);
		void (*check)(void *, uint64_t, const struct engine_result *, uint32_t);
		engine_done done;
	} cb;
	struct engine_info info; /* probe: so far */
	struct box_spec *spec;   /* check */
	char id[65];             /* update: of what, and to what */
	uint64_t memory_bytes;
	uint32_t cpus_milli;
};

/* ---- names ---- */

bool
docker_id_ok(const char *id)
{
	return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

static bool
made_of(const char *s, const char *extra, size_t max)
{
	static const char alnum[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t n = strlen(s);

	if (n == 0 || n > max || strchr(alnum, s[0]) == NULL)
		return false;
	while (*s != '\0' && (strchr(alnum, *s) != NULL || strchr(extra, *s) != NULL))
		s++;
	return *s == '\0';
}

bool
docker_name_ok(const char *name)
{
	return made_of(name, "_.-", 64);
}

static bool
image_ok(const char *image)
{
	return made_of(image, "_.-/:@", 255) && strstr(image, "..") == NULL &&
	       strstr(image, "//") == NULL;
}

/* ---- a call's life ---- */

static void
call_free(struct engine_call *call)
{
	*call->link = call->next;
	if (call->next != NULL)
		call->next->link = call->link;
	http_cancel(call->op);
	if (call->refusal != NULL)
		event_free(call->refusal);
	free(call->spec);
	free(call);
}

/* Frees call, then tells its starter. Nothing of the engine is touched after that. */
static void
call_answer(struct engine_call *call, const struct engine_result *r, const void *what, size_t n)
{
	const struct engine_call c = *call;
	uint32_t pid = 0;

	if (c.ep == EP_CHECK && what != NULL)
		memcpy(&pid, what, sizeof(pid));
	call_free(call);
	switch (c.ep) {
	case EP_PING:
	case EP_VERSION:
	case EP_INFO:
		c.cb.probe(c.ctx, r, what);
		break;
	case EP_IMAGE:
		c.cb.image(c.ctx, r, what);
		break;
	case EP_LIST:
		c.cb.list(c.ctx, r, what, n);
		break;
	case EP_CREATE:
		c.cb.create(c.ctx, c.tag, r, what);
		break;
	case EP_CHECK:
		c.cb.check(c.ctx, c.tag, r, pid);
		break;
	case EP_START:
	case EP_UPDATE:
	case EP_UPDATED:
	case EP_KILL:
	case EP_REMOVE:
		c.cb.done(c.ctx, c.tag, r);
		break;
	}
}

static void
on_refusal(evutil_socket_t fd, short what, void *arg)
{
	struct engine_call *call = arg;
	const struct engine_result r = {.err = -EINVAL, .message = call->why};

	(void)fd;
	(void)what;
	call_answer(call, &r, NULL, 0);
}

static void on_reply(void *ctx, const struct http_reply *r);

static struct engine_call *
call_new(struct engine *e, enum endpoint ep, void *ctx, uint64_t tag)
{
	struct engine_call *call = xcalloc(1, sizeof(*call));

	call->engine = e;
	call->ep = ep;
	call->ctx = ctx;
	call->tag = tag;
	call->next = e->calls;
	call->link = &e->calls;
	if (call->next != NULL)
		call->next->link = &call->next;
	e->calls = call;
	return call;
}

/* Answers from the loop, as everything does. why is a literal. */
static void
call_refuse(struct engine_call *call, const char *why)
{
	call->why = why;
	call->refusal = event_new(call->engine->base, -1, 0, on_refusal, call);
	if (call->refusal == NULL)
		fatal("out of memory");
	event_active(call->refusal, EV_TIMEOUT, 0);
}

static void
call_send(struct engine_call *call, const char *body, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The path follows the negotiated version's prefix, but for the ping that negotiates. */
static void
call_send(struct engine_call *call, const char *body, const char *fmt, ...)
{
	char path[1024];
	size_t at = 0;
	va_list ap;
	int n;

	if (call->ep != EP_PING)
		at = (size_t)snprintf(path, sizeof(path), "/v%s", call->engine->info.api);
	va_start(ap, fmt);
	n = vsnprintf(path + at, sizeof(path) - at, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(path) - at) {
		call_refuse(call, "a request's path is too long");
		return;
	}
	call->op = http_start(call->engine->http,
			      &(struct http_request){
				      .method = endpoints[call->ep].method,
				      .path = path,
				      .body = body,
				      .body_len = body != NULL ? strlen(body) : 0,
				      .deadline_ms = endpoints[call->ep].deadline_ms,
				      .reply_max = endpoints[call->ep].reply_max,
				      .ctx = call,
				      .done = on_reply,
			      });
}

/* ---- replies ---- */

static int
negotiate(struct engine_call *call, const char *offered, char *message)
{
	uint32_t minor = 0;

	if (docker_reply_api(offered, &minor) < 0)
		return -EPROTO;
	if (minor < ENGINE_API_MIN) {
		(void)snprintf(message, ENGINE_MESSAGE_MAX,
			       "the engine at %.100s speaks API 1.%u; 1.%u or newer is needed",
			       http_where(call->engine->http), minor, ENGINE_API_MIN);
		return -EPROTONOSUPPORT;
	}
	if (minor > ENGINE_API_MAX)
		minor = ENGINE_API_MAX;
	(void)snprintf(call->info.api, sizeof(call->info.api), "1.%u", minor);
	memcpy(call->engine->info.api, call->info.api, sizeof(call->info.api));
	return 0;
}

/* ping, version, info: each starts the next (1); the engine's info changes when all have come. */
static int
probe_step(struct engine_call *call, const struct http_reply *r, char *message)
{
	int err;

	if (call->ep == EP_PING) {
		err = negotiate(call, r->api, message);
		if (err < 0)
			return err;
		call->ep = EP_VERSION;
		call_send(call, NULL, "/version");
		return 1;
	}
	if (call->ep == EP_VERSION) {
		err = docker_reply_version(r->body, r->len, &call->info);
		if (err < 0)
			return err;
		call->ep = EP_INFO;
		call_send(call, NULL, "/info");
		return 1;
	}
	err = docker_reply_info(r->body, r->len, &call->info);
	if (err == 0)
		call->engine->info = call->info;
	return err;
}

static int
check_reply(struct engine_call *call, const struct http_reply *r, uint32_t *ret_pid, char *message)
{
	const char *field = NULL;
	int err = docker_check(r->body, r->len, call->spec, &call->engine->info, &field);

	if (err == -EPERM)
		(void)snprintf(message, ENGINE_MESSAGE_MAX,
			       "the engine made a container whose %s is not what was asked for",
			       field);
	return err < 0 ? err : docker_reply_pid(r->body, r->len, ret_pid);
}

/* An answer of 200 says that the engine took the figures, not what became of them. */
static int
update_step(struct engine_call *call, const struct http_reply *r, char *message)
{
	const char *field = NULL;

	if (call->ep == EP_UPDATE) {
		call->ep = EP_UPDATED;
		call_send(call, NULL, "/containers/%s/json", call->id);
		return 1;
	}
	int err =
		docker_check_update(r->body, r->len, call->memory_bytes, call->cpus_milli, &field);
	if (err == -EPERM)
		(void)snprintf(message, ENGINE_MESSAGE_MAX,
			       "the engine did not set a container's %s as it was told", field);
	return err;
}

/* A success by its status: takes the reply apart and answers. */
static void
on_success(struct engine_call *call, struct engine_result *result, const struct http_reply *r,
	   char *message)
{
	cleanup_free struct engine_container *list = NULL;
	char id[72] = "";
	uint32_t pid = 0;
	size_t n = 0;
	const void *what = NULL;
	struct engine_info info;

	switch (call->ep) {
	case EP_PING:
	case EP_VERSION:
	case EP_INFO:
		result->err = probe_step(call, r, message);
		if (result->err == 1)
			return;
		info = call->engine->info;
		what = &info;
		break;
	case EP_IMAGE:
		result->err = docker_reply_image(r->body, r->len, id);
		what = id;
		break;
	case EP_LIST:
		result->err = docker_reply_list(r->body, r->len, &list, &n);
		what = list;
		break;
	case EP_CREATE:
		result->err = docker_reply_created(r->body, r->len, id);
		what = id;
		break;
	case EP_CHECK:
		result->err = check_reply(call, r, &pid, message);
		what = &pid;
		break;
	case EP_UPDATE:
	case EP_UPDATED:
		result->err = update_step(call, r, message);
		if (result->err == 1)
			return;
		break;
	case EP_START:
	case EP_KILL:
	case EP_REMOVE:
		break;
	}
	if (result->err == -EPROTO && message[0] == '\0')
		(void)snprintf(message, ENGINE_MESSAGE_MAX,
			       "the engine at %.120s gave an answer that makes no sense",
			       http_where(call->engine->http));
	call_answer(call, result, result->err == 0 ? what : NULL, n);
}

static void
on_reply(void *ctx, const struct http_reply *r)
{
	struct engine_call *call = ctx;
	const int *ok = endpoints[call->ep].ok;
	char message[ENGINE_MESSAGE_MAX] = "";
	struct engine_result result = {.http_status = r->status, .message = message};

	call->op = NULL;
	if (r->err == 0 && (r->status == ok[0] || r->status == ok[1])) {
		on_success(call, &result, r, message);
		return;
	}
	if (r->err != 0) {
		result.err = r->err;
		(void)snprintf(message, sizeof(message), "%s", r->message);
	} else {
		result.err = docker_status_err(r->status);
		docker_reply_message(r->body, r->len, message);
		if (message[0] == '\0')
			(void)snprintf(message, sizeof(message), "the engine at %.120s answered %d",
				       http_where(call->engine->http), r->status);
	}
	call_answer(call, &result, NULL, 0);
}

/* ---- engine.h ---- */

int
engine_global_init(void)
{
	return http_global_init();
}

struct engine *
engine_new(struct event_base *base, struct engine_config *config)
{
	struct engine *e = xcalloc(1, sizeof(*e));

	e->base = base;
	e->config = *config;
	memset(config->pem, 0, sizeof(config->pem));
	(void)snprintf(e->info.api, sizeof(e->info.api), "1.%u", ENGINE_API_MIN);
	e->http = http_new(base, &e->config);
	if (e->http == NULL)
		fatal("cannot set up HTTP: out of memory or a host name too long");
	return e;
}

void
engine_free(struct engine *e)
{
	struct engine_call *next_call;
	struct attach *a;

	if (e == NULL)
		return;
	for (struct engine_call *call = e->calls; call != NULL; call = next_call) {
		next_call = call->next;
		call_free(call);
	}
	while ((a = e->attaches) != NULL)
		attach_engine_gone(a); /* takes itself off the list, and lives on */
	docker_events_stop(e);
	http_free(e->http);
	for (size_t i = 0; i < ARRAY_LEN(e->config.pem); i++) {
		if (e->config.pem[i].data != NULL)
			secret_wipe(e->config.pem[i].data, e->config.pem[i].cap);
		buf_done(&e->config.pem[i]);
	}
	free(e);
}

void
engine_probe(struct engine *e, void *ctx,
	     void (*done)(void *ctx, const struct engine_result *r, const struct engine_info *info))
{
	struct engine_call *call = call_new(e, EP_PING, ctx, 0);

	call->cb.probe = done;
	call_send(call, NULL, "/_ping");
}

void
engine_image(struct engine *e, const char *image, void *ctx,
	     void (*done)(void *ctx, const struct engine_result *r, const char *image_id))
{
	struct engine_call *call = call_new(e, EP_IMAGE, ctx, 0);

	call->cb.image = done;
	if (!image_ok(image))
		call_refuse(call, "not a name an image can have");
	else
		call_send(call, NULL, "/images/%s/json", image);
}

void
engine_list(struct engine *e, const char *user_hash, void *ctx,
	    void (*done)(void *ctx, const struct engine_result *r,
			 const struct engine_container *list, size_t n))
{
	struct engine_call *call = call_new(e, EP_LIST, ctx, 0);

	call->cb.list = done;
	if (!docker_name_ok(user_hash))
		call_refuse(call, "not a user hash");
	else /* {"label":["…product=bailey","…user=HASH"]} */
		call_send(
			call, NULL,
			"/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" ENGINE_LABEL
			"product%%3D" ENGINE_PRODUCT "%%22%%2C%%22" ENGINE_LABEL
			"user%%3D%s%%22%%5D%%7D",
			user_hash);
}

void
engine_create(struct engine *e, const struct box_spec *spec, void *ctx, uint64_t tag,
	      void (*done)(void *ctx, uint64_t tag, const struct engine_result *r,
			   const char *container_id))
{
	struct engine_call *call = call_new(e, EP_CREATE, ctx, tag);
	cleanup_free char *body = NULL;

	call->cb.create = done;
	if (!docker_name_ok(spec->name) || !image_ok(spec->image)) {
		call_refuse(call, "not a container's or image's name");
		return;
	}
	body = docker_create_body(spec, &e->info);
	if (body == NULL)
		call_refuse(call, "no create body: a figure is out of range or memory is out");
	else
		call_send(call, body, "/containers/create?name=%s", spec->name);
}

void
engine_check(struct engine *e, const char *id, const struct box_spec *spec, void *ctx, uint64_t tag,
	     void (*done)(void *ctx, uint64_t tag, const struct engine_result *r, uint32_t pid))
{
	struct engine_call *call = call_new(e, EP_CHECK, ctx, tag);

	call->cb.check = done;
	call->spec = xcalloc(1, sizeof(*spec));
	*call->spec = *spec;
	if (!docker_id_ok(id))
		call_refuse(call, "not a container id");
	else
		call_send(call, NULL, "/containers/%s/json", id);
}

static struct engine_call *
done_call(struct engine *e, enum endpoint ep, void *ctx, uint64_t tag, engine_done done)
{
	struct engine_call *call = call_new(e, ep, ctx, tag);

	call->cb.done = done;
	return call;
}

void
engine_start(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	struct engine_call *call = done_call(e, EP_START, ctx, tag, done);

	if (!docker_id_ok(id))
		call_refuse(call, "not a container id");
	else
		call_send(call, NULL, "/containers/%s/start", id);
}

void
engine_update(struct engine *e, const char *id, uint64_t memory_bytes, uint32_t cpus_milli,
	      void *ctx, uint64_t tag, engine_done done)
{
	struct engine_call *call = done_call(e, EP_UPDATE, ctx, tag, done);
	cleanup_free char *body = docker_body_update(memory_bytes, cpus_milli);

	if (!docker_id_ok(id) || body == NULL) {
		call_refuse(call, "not a container id, or a figure out of range");
		return;
	}
	memcpy(call->id, id, sizeof(call->id));
	call->memory_bytes = memory_bytes;
	call->cpus_milli = cpus_milli;
	call_send(call, body, "/containers/%s/update", id);
}

void
engine_kill(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	struct engine_call *call = done_call(e, EP_KILL, ctx, tag, done);

	if (!docker_id_ok(id))
		call_refuse(call, "not a container id");
	else
		call_send(call, NULL, "/containers/%s/kill?signal=KILL", id);
}

void
engine_remove(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	struct engine_call *call = done_call(e, EP_REMOVE, ctx, tag, done);

	if (!docker_name_ok(id))
		call_refuse(call, "not a container id or name");
	else
		call_send(call, NULL, "/containers/%s?force=1&v=1", id);
}
