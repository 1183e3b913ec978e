/*
 * broker/probe.c - whether the engine can be used; asked at the first need and
 * again whenever it was found gone.
 *
 * Runs in: bailey-broker.
 * Input: engine answers (untrusted).
 * Owns: struct probe.
 *
 * ASLEEP - ASKED (version and information, then the image) - UP or DOWN. DOWN is
 * no state to stay in: it ends the calls that wait, and the next call asks
 * again. Nothing here runs before the first warm_hint, call or health query.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define ASK_MAX_MS 2500u
#define REFRESH_MS 30000u

bool
probe_local(const struct broker *b)
{
	return b->settings.flags & SETTINGS_SAME_HOST;
}

enum run_status
probe_status(const struct engine_result *r)
{
	if (r->err == -ENOENT)
		return RUN_image_unavailable;
	/* EPIPE: a box that died while it started; only our own program runs in it then. */
	if (r->err == -ENOTCONN || r->err == -ETIMEDOUT || r->err == -EIO || r->err == -EPROTO ||
	    r->err == -EPROTONOSUPPORT || r->err == -ECONNRESET || r->err == -EPIPE)
		return RUN_engine_unavailable;
	if (r->err == -EBUSY)
		return RUN_busy;
	return RUN_internal;
}

static void
note_error(struct probe *p, const char *message)
{
	(void)snprintf(p->last_error, sizeof(p->last_error), "%s", message);
	p->error_ms = clock_now_ms();
	tally_add(TALLY_engine_errors);
}

static void
settle(struct broker *b, enum engine_state state, int err, enum run_status status,
       const char *message)
{
	struct probe *p = &b->probe;

	p->state = state;
	p->err = err;
	p->status = status;
	p->known_ms = clock_now_ms();
	(void)snprintf(p->message, sizeof(p->message), "%s", message ? message : "");
	if (state == ENGINE_DOWN) {
		note_error(p, p->message);
		LOG_EVENT(engine_unusable, .status = run_status_name(status), .why = p->message);
		admission_fail_all(b, status, p->message);
	}
	health_answer(b);
	broker_soon(b);
}

static void
down(struct broker *b, const struct engine_result *r, enum run_status status)
{
	static const char check[] = ". Check that it runs, that DOCKER_HOST names it, and that "
				    "this user may open its socket.";
	char text[256];

	if (status == RUN_image_unavailable)
		(void)snprintf(text, sizeof(text),
			       "Image %.100s is missing on the engine, and none is ever pulled. "
			       "Build bailey/sandbox:slim with: bailey image build slim. "
			       "SANDBOX_IMAGE names another.",
			       b->settings.image);
	else
		(void)snprintf(text, sizeof(text), "The container engine cannot be used: %.180s",
			       r->message && r->message[0] ? r->message : "no answer");
	/* What went wrong comes first: what to do is left out where it does not fit. */
	size_t len = strlen(text);
	if (status == RUN_engine_unavailable && r->err == -ENOTCONN &&
	    len + sizeof(check) <= sizeof(text))
		memcpy(text + len, check, sizeof(check));
	settle(b, ENGINE_DOWN, r->err, status, text);
}

/* Whether this answer still counts; its question is closed if it was the last of it. */
static bool
counts(struct question *q, bool last)
{
	struct probe *p = &q->b->probe;

	if (last)
		q->open = false;
	return p->state == ENGINE_ASKED && q->number == p->asked;
}

static void
on_image(void *ctx, const struct engine_result *r, const char *image_id)
{
	struct question *q = ctx;
	struct broker *b = q->b;
	struct probe *p = &b->probe;

	if (!counts(q, true))
		return;
	if (r->err < 0) {
		down(b, r, r->err == -ENOENT ? RUN_image_unavailable : RUN_engine_unavailable);
		return;
	}
	p->image_ms = clock_now_ms();
	if (p->image_id[0] && strcmp(p->image_id, image_id) != 0)
		pool_drain(b, CAUSE_UNUSED); /* built anew: waiting boxes are of the old one */
	(void)snprintf(p->image_id, sizeof(p->image_id), "%s", image_id);
	settle(b, ENGINE_UP, 0, RUN_ok, "");
	resume_all(b);
	admission_pump(b);
	events_watch(b);
	if (!p->swept) {
		p->swept = true;
		sweep_start(b);
	}
}

/* A remote engine's sandboxes have that machine's processors and memory, not this one's. */
static void
note_host(struct broker *b, const struct engine_info *info)
{
	if (probe_local(b))
		return;
	if (info->cpus)
		b->settings.host_cpus = info->cpus;
	if (info->memory_bytes)
		b->settings.host_memory_bytes = info->memory_bytes;
	admission_caps(b);
}

static void
on_info(void *ctx, const struct engine_result *r, const struct engine_info *info)
{
	struct question *q = ctx;
	struct broker *b = q->b;

	if (!counts(q, r->err < 0)) {
		q->open = false;
		return;
	}
	if (r->err < 0) {
		down(b, r, RUN_engine_unavailable);
		return;
	}
	b->probe.info = *info;
	b->probe.have_info = true;
	note_host(b, info);
	engine_image(b->engine, b->settings.image, q, on_image);
}

static void
on_refreshed(void *ctx, const struct engine_result *r, const char *image_id)
{
	struct broker *b = ctx;
	struct probe *p = &b->probe;

	p->refreshing = false;
	if (p->state != ENGINE_UP)
		return;
	if (r->err < 0) {
		p->state = ENGINE_ASLEEP; /* the next call asks in full and says what is wrong */
	} else if (strcmp(p->image_id, image_id) != 0) {
		(void)snprintf(p->image_id, sizeof(p->image_id), "%s", image_id);
		pool_drain(b, CAUSE_UNUSED);
	}
}

/* Beside the making of a box, now and then: the name may stand for a new image. */
void
probe_refresh(struct broker *b)
{
	struct probe *p = &b->probe;
	uint64_t now = clock_now_ms();

	if (p->state != ENGINE_UP || p->refreshing || now - p->image_ms < REFRESH_MS)
		return;
	p->refreshing = true;
	p->image_ms = now;
	engine_image(b->engine, b->settings.image, b, on_refreshed);
}

/* Questions overtake one another: one that hangs must not hold up the next. */
static struct question *
new_question(struct broker *b)
{
	struct probe *p = &b->probe;

	for (size_t i = 0; i < ARRAY_LEN(p->questions); i++) {
		struct question *q = &p->questions[i];

		if (!q->open) {
			*q = (struct question){.b = b, .number = ++p->asked, .open = true};
			return q;
		}
	}
	return NULL;
}

void
probe_again(struct broker *b)
{
	struct engine_result r = {.err = -EBUSY, .message = "it leaves several questions open"};
	struct probe *p = &b->probe;
	struct question *q;

	if (p->state == ENGINE_ASKED || !b->engine)
		return;
	q = new_question(b);
	if (!q) {
		down(b, &r, RUN_engine_unavailable);
		return;
	}
	p->state = ENGINE_ASKED;
	p->asked_ms = clock_now_ms();
	engine_probe(b->engine, q, on_info);
}

void
probe_need(struct broker *b)
{
	if (b->probe.state != ENGINE_UP)
		probe_again(b);
}

/* An operation failed. When the engine itself is away or stands still, the next need asks anew:
 * that is answered within ASK_MAX_MS, a step of a start may hang far longer. */
void
probe_lost(struct broker *b, const struct engine_result *r)
{
	if (b->probe.state != ENGINE_UP)
		return;
	if (r->err == -ENOTCONN || r->err == -ETIMEDOUT) {
		LOG_EVENT(engine_lost, .why = r->message);
		note_error(&b->probe, r->message ? r->message : "no answer");
		b->probe.state = ENGINE_ASLEEP;
		if (b->queued)
			probe_again(b);
	}
}

void
probe_tick(struct broker *b, uint64_t now_ms)
{
	struct engine_result r = {.err = -ETIMEDOUT, .message = "it did not answer in time"};

	if (b->probe.state == ENGINE_ASKED && now_ms - b->probe.asked_ms >= ASK_MAX_MS)
		down(b, &r, RUN_engine_unavailable);
}
