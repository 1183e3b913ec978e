/*
 * supervisor/document.c - the status as one JSON document of bounded size.
 * Runs in: baileyd.
 * Input: what the tree knows; texts of engine, broker and reaper, escaped here.
 * Owns: nothing.
 * It is written, never parsed, in this process. Sizes: at most STATUS_LEASES_MAX
 * sandboxes of less than 700 bytes each; the rest is below 60 KiB.
 */
#include "supervisor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A string, or null where there is none. Anything that is no UTF-8 is replaced. */
static void
put_text(struct buf *b, const char *name, const char *text)
{
	(void)buf_printf(b, "\"%s\":", name);
	if (text == NULL) {
		(void)buf_printf(b, "null");
		return;
	}
	(void)buf_append(b, "\"", 1);
	for (size_t left = strlen(text); left > 0;) {
		size_t n = utf8_step(text, left);
		unsigned char c = (unsigned char)*text;

		if (n == 0)
			(void)buf_printf(b, "\\ufffd");
		else if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
			(void)buf_printf(b, "\\u%04x", c);
		else
			(void)buf_append(b, text, n);
		n = n == 0 ? 1 : n;
		text += n;
		left -= n;
	}
	(void)buf_append(b, "\"", 1);
}

static void
put_number(struct buf *b, const char *name, uint64_t n)
{
	(void)buf_printf(b, "\"%s\":%" PRIu64, name, n);
}

static void
comma(struct buf *b)
{
	(void)buf_append(b, ",", 1);
}

/* {"text":…,"ago_ms":…} or null */
static void
put_event(struct buf *b, const char *name, const char *text, uint64_t ago_ms)
{
	if (text[0] == '\0') {
		(void)buf_printf(b, "\"%s\":null", name);
		return;
	}
	(void)buf_printf(b, "\"%s\":{", name);
	put_text(b, "text", text);
	comma(b);
	put_number(b, "ago_ms", ago_ms);
	(void)buf_append(b, "}", 1);
}

static uint64_t
since(uint64_t at_ms)
{
	return at_ms != 0 ? clock_now_ms() - at_ms : 0;
}

static void
put_self(struct buf *b, const struct tree *t)
{
	const struct log_note *n = log_last();

	(void)buf_printf(b, "{\"name\":\"baileyd\",\"state\":\"ready\",");
	put_number(b, "pid", t->facts.tree_pid);
	comma(b);
	put_number(b, "uptime_ms", since(t->started_ms));
	(void)buf_printf(b, ",\"restarts\":0,\"last_end\":null,");
	put_event(b, "last_error", n->text, since(n->at_ms));
	(void)buf_printf(b, ",\"answered\":true}");
}

static void
put_child(struct buf *b, const struct tree *t, size_t i, bool answered)
{
	const struct child *c = &t->child[i];
	const struct known *k = &t->known[i];

	(void)buf_printf(b, ",{");
	put_text(b, "name", children_name(c->id));
	comma(b);
	put_text(b, "state", children_state(c));
	comma(b);
	put_number(b, "pid", (uint64_t)c->pid);
	comma(b);
	put_number(b, "uptime_ms", c->pid != 0 ? since(c->started_ms) : 0);
	comma(b);
	put_number(b, "restarts", c->restarts);
	comma(b);
	put_event(b, "last_end", c->last_end, since(c->ended_ms));
	comma(b);
	put_event(b, "last_error", k->trouble, since(k->trouble_ms));
	(void)buf_printf(b, ",\"answered\":%s}", answered ? "true" : "false");
}

static void
put_engine(struct buf *b, const struct findings *f)
{
	static const char *const words[] = {[KNOWN_NOT_ASKED] = "not asked yet",
					    [KNOWN_ASKED] = "being asked",
					    [KNOWN_USABLE] = "usable",
					    [KNOWN_UNUSABLE] = "unusable"};

	if (!f->have_engine) {
		(void)buf_printf(b, ",\"engine\":null");
		return;
	}
	(void)buf_printf(b, ",\"engine\":{");
	put_text(b, "state",
		 f->engine_state < ARRAY_LEN(words) ? words[f->engine_state] : "unknown");
	comma(b);
	put_text(b, "name", f->engine_name);
	comma(b);
	put_text(b, "version", f->engine_version);
	comma(b);
	put_event(b, "last_error", f->engine_error, f->engine_error_ago_ms);
	(void)buf_append(b, "}", 1);
}

static void
put_load(struct buf *b, const struct findings *f)
{
	const struct ipc_status_load *l = &f->load;

	if (!f->have_load) {
		(void)buf_printf(b, ",\"load\":null");
		return;
	}
	(void)buf_printf(b,
			 ",\"load\":{\"queued\":%u,\"queued_max\":%u,\"in_flight\":%u,\"paced\":%u,"
			 "\"boxes\":%u,\"owners\":%u,\"memory_bytes\":%" PRIu64
			 ",\"memory_max_bytes\":%" PRIu64 "}",
			 l->queued, l->queued_max, l->in_flight, l->paced, l->boxes, l->owners,
			 l->memory_bytes, l->memory_max_bytes);
}

static void
put_watch(struct buf *b, const struct findings *f)
{
	const struct ipc_status_watch *w = &f->watch;

	if (!f->have_watch) {
		(void)buf_printf(b, ",\"watch\":null");
		return;
	}
	(void)buf_printf(b,
			 ",\"watch\":{\"boxes\":%u,\"armed\":%u,\"ending\":%u,"
			 "\"oldest_removal_ms\":%" PRIu64 "}",
			 w->boxes, w->armed, w->ending, w->oldest_ms);
}

static void
put_pools(struct buf *b, const struct findings *f)
{
	(void)buf_printf(b, ",\"pools\":[");
	for (size_t i = 0; i < f->n_pools; i++) {
		const struct pool_fact *p = &f->pools[i];

		(void)buf_printf(b, i > 0 ? ",{" : "{");
		put_text(b, "profile", p->profile);
		comma(b);
		put_text(b, "box_class", box_class_name(p->box_class));
		(void)buf_printf(b, ",\"target\":%u,\"ready\":%u,\"starting\":%u}", p->target,
				 p->ready, p->starting);
	}
	(void)buf_append(b, "]", 1);
}

static void
put_owner(struct buf *b, const struct lease_fact *x)
{
	char text[96];

	if (x->owner_kind == OWNER_TOKEN)
		(void)snprintf(text, sizeof(text), "token %s", x->principal);
	else
		(void)snprintf(text, sizeof(text), "%s %" PRIu64,
			       x->owner_kind == OWNER_UID ? "uid" : "tree", x->owner);
	put_text(b, "owner", text);
}

static void
put_leases(struct buf *b, const struct findings *f)
{
	(void)buf_printf(b, ",\"sandboxes\":[");
	for (size_t i = 0; i < f->n_leases; i++) {
		const struct lease_fact *x = &f->leases[i];

		(void)buf_printf(b, i > 0 ? ",{" : "{");
		put_text(b, "sandbox_id", x->sandbox);
		comma(b);
		put_owner(b, x);
		comma(b);
		put_text(b, "profile", x->profile);
		(void)buf_printf(b,
				 ",\"keep\":%s,\"runs\":%u,\"age_ms\":%" PRIu64
				 ",\"idle_ms\":%" PRIu64 ",\"idle_limit_ms\":%" PRIu64
				 ",\"expires_in_ms\":%" PRIu64 ",\"memory_bytes\":%" PRIu64 "}",
				 x->keep ? "true" : "false", x->runs, x->age_ms, x->idle_ms,
				 x->idle_limit_ms, x->ttl_ms, x->memory_bytes);
	}
	(void)buf_printf(b, "],\"sandboxes_left_out\":%u", f->left_out);
}

uint64_t
document_count(const struct tree *t, uint32_t which)
{
	uint64_t n = tally_value(which);

	for (size_t i = 0; i < CHILD_SINGLES; i++)
		n += t->known[i].sum[which] + t->known[i].seen[which];
	return n;
}

void
document_write(struct buf *out, const struct tree *t, const struct findings *f)
{
	char room[32];

	(void)buf_printf(out, "{\"bailey_status\":1,");
	put_text(out, "version", BAILEY_VERSION);
	comma(out);
	put_text(out, "instance", t->facts.instance);
	(void)buf_printf(out, ",\"connections\":{\"open\":%zu,\"max\":%u}", t->n_fronts,
			 t->options.connections);
	(void)buf_printf(out, ",\"processes\":[");
	put_self(out, t);
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		put_child(out, t, i, f->answered[i]);
	(void)buf_printf(out, "]");
	put_engine(out, f);
	put_load(out, f);
	put_watch(out, f);
	put_pools(out, f);
	put_leases(out, f);
	(void)buf_printf(out, ",\"counters\":{");
	for (uint32_t i = 0; i < TALLY_COUNT; i++) {
		if (i > 0)
			comma(out);
		put_number(out, tally_name(i, room), document_count(t, i));
	}
	(void)buf_printf(out, "}}\n");
}
