/*
 * broker/steps.c - what the life of a box asks of the engine, and what the
 * engine's answers mean as events.
 *
 * Runs in: bailey-broker.
 * Input: engine answers (untrusted), attach data (hostile guest).
 * Owns: nothing; every answer finds its box again by number.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define GUEST_LINES_PER_10S 20u

static void
failed(struct box *x, const struct engine_result *r, enum box_event ev)
{
	probe_lost(x->b, r);
	x->why = *r;
	if (r->err == -ENOENT && ev == ON_FAILED)
		x->why.err = -EPIPE; /* it vanished; only create can miss the image */
	if (!x->why.message)
		x->why.message = "the engine did not say why";
	box_event(x, ev);
	x->why = (struct engine_result){0};
}

void
steps_fill_spec(struct box *x)
{
	const struct broker *b = x->b;
	const struct settings *s = &b->settings;
	const struct engine_info *info = &b->probe.info;
	struct box_spec *spec = x->spec;
	const struct profile *p = x->profile;

	(void)snprintf(spec->name, sizeof(spec->name), "bailey-%.8s-%" PRIu64, s->instance, x->id);
	(void)snprintf(spec->image, sizeof(spec->image), "%s", b->probe.image_id);
	spec->box_class = x->box_class;
	spec->uid = s->box_uid;
	spec->gid = s->box_gid;
	spec->memory_bytes = x->limits.memory_bytes;
	spec->cpus_milli = x->limits.cpus_milli;
	spec->cpu_shares = p->cpu_shares;
	spec->pids = x->limits.pids;
	spec->workspace_bytes = x->limits.workspace_bytes;
	spec->tmp_bytes = x->limits.tmp_bytes;
	spec->workspace_inodes = x->limits.workspace_inodes;
	spec->tmp_inodes = x->limits.tmp_inodes;
	spec->cpus_shown = policy_whole_cpus(x->limits.cpus_milli);
	spec->bind_guest = probe_local(b);
	(void)snprintf(spec->share_dir, sizeof(spec->share_dir), "%.511s", s->share_dir);
	/* The systemd driver wants a slice, which only systemd could have made. */
	if (!info->cgroup_systemd)
		(void)snprintf(spec->cgroup_parent, sizeof(spec->cgroup_parent), "%.63s",
			       s->cgroup_parent);
	spec->seccomp_json = container_seccomp_json;
	spec->apparmor = info->apparmor ? "docker-default" : NULL;
	memcpy(spec->label.instance, s->instance, sizeof(spec->label.instance));
	memcpy(spec->label.boot_id, s->boot_id, sizeof(spec->label.boot_id));
	memcpy(spec->label.user_hash, s->user_hash, sizeof(spec->label.user_hash));
	spec->label.tree_pid = s->tree_pid;
	spec->label.tree_start = s->tree_start;
	spec->label.pid_ns = s->pid_ns;
	spec->label.box = x->id;
}

static void
on_removed_stray(void *ctx, uint64_t tag, const struct engine_result *r)
{
	(void)ctx;
	(void)tag;
	if (r->err < 0)
		log_warn("a container nobody waits for was not removed: %s", r->message);
}

static void
on_created(void *ctx, uint64_t tag, const struct engine_result *r, const char *id)
{
	struct broker *b = ctx;
	struct box *x = box_find(b, tag);

	if (!x) {
		if (r->err == 0)
			engine_remove(b->engine, id, b, 0, on_removed_stray);
		return;
	}
	x->create_pending = false;
	if (r->err == 0 && str_copy(x->container, sizeof(x->container), id, strlen(id)) == 0) {
		box_event(x, ON_CREATED);
	} else if ((r->http_status >= 400 && r->http_status < 500) || r->err == -ENOTCONN) {
		failed(x, r, ON_NOCREATE); /* the engine said no: nothing exists */
	} else {
		failed(x, r, ON_FAILED); /* it may exist: to be removed by name */
		if (x->remove_wanted)
			box_event(x, ON_REMOVE);
	}
}

void
steps_create(struct box *x)
{
	tally_add(TALLY_boxes_created);
	engine_create(x->b->engine, x->spec, x->b, x->id, on_created);
}

static void
on_checked(void *ctx, uint64_t tag, const struct engine_result *r, uint32_t pid)
{
	struct broker *b = ctx;
	struct box *x = box_find(b, tag);

	if (!x)
		return;
	if (r->err < 0) {
		failed(x, r, ON_FAILED);
	} else if (x->state == BOX_CREATED) {
		box_event(x, ON_CHECKED);
	} else if (x->state == BOX_STARTED || x->state == BOX_ENDING) {
		x->pid = probe_local(b) ? pid : 0;
		if (x->pid || x->state == BOX_STARTED)
			box_event(x, ON_PID);
	}
}

void
steps_check(struct box *x)
{
	engine_check(x->b->engine, x->container, x->spec, x->b, x->id, on_checked);
}

static void
on_opened(void *ctx, uint64_t tag, const struct engine_result *r)
{
	struct box *x = box_find(ctx, tag);

	if (!x)
		return;
	if (r->err < 0) {
		attach_free(TAKE(x->attach));
		failed(x, r, ON_FAILED);
	} else {
		box_event(x, ON_ATTACHED);
	}
}

/* Nothing, from a box that should prestart: the image has no such interpreter. */
static bool
class_matches(struct box *x, const struct guest_frame *f)
{
	struct guest_g_ready m;

	if (!x->prestart || guest_get_g_ready(f->payload, f->len, &m) < 0)
		return false;
	if (m.box_class == BOX_NOTHING)
		x->prestart = false;
	return m.box_class == BOX_NOTHING || m.box_class == (uint32_t)x->box_class;
}

static bool
hello_matches(const struct box *x, const struct guest_frame *f)
{
	struct guest_g_hello m;

	return guest_get_g_hello(f->payload, f->len, &m) == 0 && m.version == GUEST_VERSION &&
	       m.uid == x->spec->uid;
}

/* One good frame; session.c has checked order, size, sequence and credit. */
static void
on_frame(void *ctx, const struct guest_frame *f)
{
	struct box *x = ctx;
	struct run *r;

	if (x->state >= BOX_ENDING)
		return;
	if ((f->row->type == GUEST_g_hello && !hello_matches(x, f)) ||
	    (f->row->type == GUEST_g_ready && !class_matches(x, f))) {
		log_warn("box=%" PRIu64 " is not the guest that was asked for", x->id);
		box_end(x, CAUSE_BAD_FRAME);
		return;
	}
	if (f->row->type == GUEST_g_stands) {
		resume_on_stands(x, f);
	} else if (f->row->type == GUEST_g_pong) {
		if (session_heard(&x->session))
			broker_soon(x->b);     /* somebody may wait for one that is fit */
	} else if ((r = box_run(x, f->run))) { /* only frames of a run carry its number */
		run_guest_frame(r, f);
	} else if (f->row->type == GUEST_g_exit) {
		adopt_mark(x); /* of parts that were told to end: its number is not kept any more */
	}
}

static void
stderr_text(struct box *x, const uint8_t *p, size_t n)
{
	static struct log_limit limit; /* of all boxes: each byte may come by itself */
	char text[256];

	if (!log_allowed(&limit, GUEST_LINES_PER_10S))
		return;
	log_warn("box=%" PRIu64 " guest says: %s", x->id,
		 log_escape(text, sizeof(text), (const char *)p, n));
}

static void
on_data(void *ctx, uint64_t tag, int stream, const uint8_t *p, size_t n)
{
	struct box *x = box_find(ctx, tag);
	enum box_state before;
	bool ready;

	if (!x || x->state >= BOX_ENDING)
		return;    /* still read, so that the engine never blocks on us */
	if (stream == 2) { /* only guest-init itself can write here, in distress */
		if (x->session.stderr_bytes < 4096)
			stderr_text(x, p, n);
		x->session.stderr_bytes += (uint32_t)(n < 65536 ? n : 65536);
		if (x->session.stderr_bytes > 65536)
			box_end(x, CAUSE_BAD_FRAME);
		return;
	}
	if (x->state == BOX_CLAIMED && !resume_data(x, &p, &n))
		return;
	before = x->state;
	ready = x->session.hello && x->session.ready;
	if (session_feed(&x->session, p, n, x, on_frame) < 0) {
		log_warn("box=%" PRIu64 " broke the stream rules", x->id);
		box_end(x, CAUSE_BAD_FRAME);
		return;
	}
	if (before < BOX_WARM && !ready)
		box_event(x, ON_HEARD);
}

static void
on_closed(void *ctx, uint64_t tag, int err)
{
	struct box *x = box_find(ctx, tag);

	(void)err;
	if (!x)
		return;
	attach_free(TAKE(x->attach)); /* in state CLAIMED it is opened again */
	box_event(x, ON_CLOSED);
}

void
steps_attach(struct box *x)
{
	static const struct attach_handler handler = {on_opened, on_data, on_closed};

	x->attach = engine_attach(x->b->engine, x->container, &handler, x->b, x->id);
}

static void
on_started(void *ctx, uint64_t tag, const struct engine_result *r)
{
	struct box *x = box_find(ctx, tag);

	if (!x)
		return;
	if (r->err < 0)
		failed(x, r, ON_FAILED);
	else
		box_event(x, ON_STARTED);
}

void
steps_start(struct box *x)
{
	engine_start(x->b->engine, x->container, x->b, x->id, on_started);
}

static void
on_removed(void *ctx, uint64_t tag, const struct engine_result *r)
{
	struct box *x = box_find(ctx, tag);

	if (!x)
		return;
	if (r->err == 0) {
		box_event(x, ON_REMOVED);
	} else {
		probe_lost(x->b, r);
		box_event(x, ON_RETRY);
	}
}

void
steps_remove(struct box *x)
{
	engine_remove(x->b->engine, x->container[0] ? x->container : x->spec->name, x->b, x->id,
		      on_removed);
}
