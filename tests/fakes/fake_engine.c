/*
 * tests/fakes/fake_engine.c - engine.h in memory, for tests of the broker core.
 * Runs in: unit tests. Input: the test's script. Owns: struct fake_engine fake.
 * Every answer comes from the loop, as the real layer promises.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "fake_parts.h"

struct engine {
	int unused;
};

struct fake_engine fake;
static TAILQ_HEAD(answers, answer) answers = TAILQ_HEAD_INITIALIZER(answers);
static struct event *deliver;
static void *events_ctx;
static void (*events_fn)(void *, const struct engine_event *);
static void (*gap_fn)(void *);

static void
on_deliver(int fd, short what, void *ctx)
{
	struct answer *a, *next;
	struct answers now = TAILQ_HEAD_INITIALIZER(now);

	(void)fd;
	(void)what;
	(void)ctx;
	for (a = TAILQ_FIRST(&answers); a; a = next) {
		next = TAILQ_NEXT(a, next);
		if (fake.hold[a->op])
			continue;
		TAILQ_REMOVE(&answers, a, next);
		TAILQ_INSERT_TAIL(&now, a, next);
	}
	while ((a = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, a, next);
		a->fn(a);
		free(a);
	}
}

struct answer *
fake_ask(enum fake_op op, void *ctx, uint64_t tag, void (*fn)(struct answer *a))
{
	struct answer *a = xcalloc(1, sizeof(*a));

	a->op = op;
	a->ctx = ctx;
	a->tag = tag;
	a->fn = fn;
	fake.calls[op]++;
	a->result.message = "";
	if (fake.err[op]) {
		a->result = (struct engine_result){fake.err[op], fake.http[op], fake.message[op]};
		if (fake.times[op] && --fake.times[op] == 0)
			fake.err[op] = 0;
	}
	TAILQ_INSERT_TAIL(&answers, a, next);
	event_active(deliver, EV_TIMEOUT, 0);
	return a;
}

void
fake_release(enum fake_op op)
{
	fake.hold[op] = false;
	event_active(deliver, EV_TIMEOUT, 0);
}

void
fake_fail(enum fake_op op, int err, int http, const char *message, uint32_t times)
{
	fake.err[op] = err;
	fake.http[op] = http;
	fake.message[op] = message;
	fake.times[op] = times;
}

void
fake_reset(struct event_base *base)
{
	struct answer *a;

	while ((a = TAILQ_FIRST(&answers))) {
		TAILQ_REMOVE(&answers, a, next);
		free(a);
	}
	if (deliver)
		event_free(deliver);
	deliver = base ? event_new(base, -1, 0, on_deliver, NULL) : NULL;
	memset(&fake, 0, sizeof(fake));
	fake.base = base;
	events_fn = NULL;
	gap_fn = NULL;
	fake.guest = (struct fake_guest){.hello = true,
					 .ready = true,
					 .pong = true,
					 .exit = true,
					 .obeys = true,
					 .ready_class = UINT32_MAX,
					 .uid = 10001,
					 .result = {.how = EXIT_EXITED, .start = START_WARM}};
	(void)snprintf(fake.image_id, sizeof(fake.image_id), "sha256:%064d", 1);
	fake.info = (struct engine_info){.name = "fake",
					 .version = "1",
					 .api = "1.41",
					 .cgroup = 1,
					 .seccomp = true,
					 .pids = true,
					 .memory_limit = true,
					 .swap_limit = true,
					 .cpu_cfs = true,
					 .cpus = 2};
}

struct fake_container *
fake_by_id(const char *id)
{
	for (size_t i = 0; i < fake.n_boxes; i++)
		if (!fake.box[i].removed &&
		    (strcmp(fake.box[i].id, id) == 0 || strcmp(fake.box[i].name, id) == 0))
			return &fake.box[i];
	return NULL;
}

struct fake_container *
fake_box(uint64_t box)
{
	for (size_t i = 0; i < fake.n_boxes; i++)
		if (fake.box[i].spec.label.box == box)
			return &fake.box[i];
	return NULL;
}

struct engine *
engine_new(struct event_base *base, struct engine_config *config)
{
	(void)base;
	for (size_t i = 0; i < ARRAY_LEN(config->pem); i++)
		buf_done(&config->pem[i]);
	return xcalloc(1, sizeof(struct engine));
}

void
engine_free(struct engine *e)
{
	free(e);
}

int
engine_global_init(void)
{
	return 0;
}

static void
give_probe(struct answer *a)
{
	a->cb.probe(a->ctx, &a->result, a->result.err ? NULL : &fake.info);
}

void
engine_probe(struct engine *e, void *ctx,
	     void (*done)(void *, const struct engine_result *, const struct engine_info *))
{
	(void)e;
	fake_ask(OP_PROBE, ctx, 0, give_probe)->cb.probe = done;
}

static void
give_image(struct answer *a)
{
	a->cb.image(a->ctx, &a->result, a->result.err ? NULL : fake.image_id);
}

void
engine_image(struct engine *e, const char *image, void *ctx,
	     void (*done)(void *, const struct engine_result *, const char *))
{
	(void)e;
	(void)image;
	fake_ask(OP_IMAGE, ctx, 0, give_image)->cb.image = done;
}

static void
give_list(struct answer *a)
{
	static struct engine_container list[64];
	size_t n = 0;

	memset(list, 0, sizeof(list));
	for (size_t i = 0; i < fake.n_boxes && n < ARRAY_LEN(list); i++) {
		struct fake_container *c = &fake.box[i];

		if (c->removed)
			continue;
		memcpy(list[n].id, c->id, sizeof(c->id));
		memcpy(list[n].instance, c->spec.label.instance, sizeof(list[n].instance));
		list[n].box = c->spec.label.box;
		list[n++].running = c->running;
	}
	for (size_t i = 0; i < fake.n_strangers && n < ARRAY_LEN(list); i++)
		list[n++] = fake.strangers[i];
	a->cb.list(a->ctx, &a->result, list, a->result.err ? 0 : n);
}

void
engine_list(struct engine *e, const char *user_hash, void *ctx,
	    void (*done)(void *, const struct engine_result *, const struct engine_container *,
			 size_t))
{
	(void)e;
	(void)user_hash;
	fake_ask(OP_LIST, ctx, 0, give_list)->cb.list = done;
}

static void
give_create(struct answer *a)
{
	a->cb.create(a->ctx, a->tag, &a->result, a->result.err ? NULL : a->id);
}

static struct fake_container *
free_slot(void)
{
	for (size_t i = 0; i < fake.n_boxes; i++)
		if (fake.box[i].removed && !fake.box[i].attach && fake.n_boxes > 512)
			return &fake.box[i];
	if (fake.n_boxes == ARRAY_LEN(fake.box))
		abort();
	return &fake.box[fake.n_boxes++];
}

void
engine_create(struct engine *e, const struct box_spec *spec, void *ctx, uint64_t tag,
	      void (*done)(void *, uint64_t, const struct engine_result *, const char *))
{
	struct answer *a = fake_ask(OP_CREATE, ctx, tag, give_create);
	struct fake_container *c;

	(void)e;
	a->cb.create = done;
	if (a->result.err)
		return;
	c = free_slot();
	*c = (struct fake_container){.used = true,
				     .spec = *spec,
				     .memory_bytes = spec->memory_bytes,
				     .cpus_milli = spec->cpus_milli};
	(void)snprintf(c->id, sizeof(c->id), "%064" PRIu64, ++fake.made);
	memcpy(c->name, spec->name, sizeof(c->name));
	memcpy(a->id, c->id, sizeof(a->id));
	if (++fake.live_now > fake.live_most)
		fake.live_most = fake.live_now;
}

static void
give_check(struct answer *a)
{
	a->cb.check(a->ctx, a->tag, &a->result, a->result.err ? 0 : a->pid);
}

void
engine_check(struct engine *e, const char *id, const struct box_spec *spec, void *ctx, uint64_t tag,
	     void (*done)(void *, uint64_t, const struct engine_result *, uint32_t))
{
	struct answer *a = fake_ask(OP_CHECK, ctx, tag, give_check);
	struct fake_container *c = fake_by_id(id);

	(void)e;
	(void)spec;
	a->cb.check = done;
	a->pid = c && c->running ? 4000 + (uint32_t)(c - fake.box) : 0;
	if (!c && !a->result.err)
		a->result = (struct engine_result){-ENOENT, 404, "no such container"};
}

static void
give_done(struct answer *a)
{
	a->cb.done(a->ctx, a->tag, &a->result);
}

static void
give_start(struct answer *a)
{
	struct fake_container *c = &fake.box[a->index];

	give_done(a);
	if (!a->result.err && c->attach)
		fake_guest_greets(c->attach);
}

void
engine_start(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	struct answer *a = fake_ask(OP_START, ctx, tag, give_start);
	struct fake_container *c = fake_by_id(id);

	(void)e;
	a->cb.done = done;
	a->index = c ? (size_t)(c - fake.box) : 0;
	if (c && !a->result.err)
		c->running = true;
}

void
engine_update(struct engine *e, const char *id, uint64_t memory_bytes, uint32_t cpus_milli,
	      void *ctx, uint64_t tag, engine_done done)
{
	struct answer *a = fake_ask(OP_UPDATE, ctx, tag, give_done);
	struct fake_container *c = fake_by_id(id);

	(void)e;
	a->cb.done = done;
	if (c && !a->result.err) {
		c->memory_bytes = memory_bytes;
		c->cpus_milli = cpus_milli;
	}
}

/* The container's stream closes from the loop too, not inside the call that ends it. */
static void
give_end(struct answer *a)
{
	struct fake_container *c = a->pid ? &fake.box[a->index] : NULL;

	if (c && !c->removed && a->result.err == 0) {
		fake_die(c->spec.label.box);
		if (a->op == OP_REMOVE && !c->removed) {
			c->removed = true;
			fake.live_now--;
		}
	}
	give_done(a);
}

static void
end_container(enum fake_op op, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	struct answer *a = fake_ask(op, ctx, tag, give_end);
	struct fake_container *c = fake_by_id(id);

	a->cb.done = done;
	a->pid = c != NULL;
	a->index = c ? (size_t)(c - fake.box) : 0;
}

void
engine_kill(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	(void)e;
	end_container(OP_KILL, id, ctx, tag, done);
}

void
engine_remove(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done)
{
	(void)e;
	(void)snprintf(fake.last_removed, sizeof(fake.last_removed), "%s", id);
	end_container(OP_REMOVE, id, ctx, tag, done);
}

void
engine_events(struct engine *e, void *ctx, void (*event)(void *, const struct engine_event *),
	      void (*gap)(void *))
{
	(void)e;
	fake.calls[OP_EVENTS]++;
	events_ctx = ctx;
	events_fn = event;
	gap_fn = gap;
}

void
fake_event(uint64_t box, enum engine_event_kind kind)
{
	struct fake_container *c = fake_box(box);
	struct engine_event ev = {.kind = kind, .box = box};

	if (kind == ENGINE_EV_DESTROY && !c->removed) {
		c->removed = true;
		fake.live_now--;
	}
	memcpy(ev.id, c->id, sizeof(ev.id));
	memcpy(ev.instance, c->spec.label.instance, sizeof(ev.instance));
	if (events_fn)
		events_fn(events_ctx, &ev);
}

void
fake_gap(void)
{
	gap_fn(events_ctx);
}
