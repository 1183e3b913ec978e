/*
 * broker/health.c - answers to health_query: the engine asked anew, the pool,
 * the owner's use, the layers in force, what an operator should know.
 *
 * Runs in: bailey-broker.
 * Input: queries of frontends; engine facts (untrusted text, bounded).
 * Owns: the list of queries that wait for the engine's answer.
 */
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define FRESH_MS 1000u

static void
note(struct front *f, uint64_t call, const char *text)
{
	(void)link_send(f->link, IPC_ROW(health_note, .call = call, .text = IPC_STR(text)));
}

static void
send_engine(struct front *f, uint64_t call)
{
	const struct broker *b = f->b;
	const struct probe *p = &b->probe;
	const struct engine_info *i = &p->info;
	bool up = p->state == ENGINE_UP, down = p->state == ENGINE_DOWN;
	/* neither: it is being asked, or nobody asked yet */
	enum run_status status = up ? RUN_ok : down ? p->status : RUN_busy;

	(void)link_send(f->link,
			IPC_ROW(health_engine, .call = call, .status = status,
				.engine = IPC_STR(i->name), .version = IPC_STR(i->version),
				.api = IPC_STR(i->api), .image = IPC_STR(b->settings.image),
				.image_id = IPC_STR(up ? p->image_id : ""),
				.runtimes = IPC_STR(i->runtimes), .cgroup = i->cgroup,
				.message = IPC_STR(up || down ? p->message
							      : "The container engine "
								"is being asked; ask "
								"again in a moment.")));
}

static void
send_pool(struct front *f, uint64_t call)
{
	const struct profile *profile = profile_find("", 0);

	for (uint32_t c = 0; c < BOX_CLASSES; c++) {
		const struct pool *p = pool_of(f->b, profile, (enum box_class)c);

		(void)link_send(f->link, IPC_ROW(health_pool, .call = call, .box_class = c,
						 .target = p->target, .ready = p->n_ready,
						 .starting = p->n_starting));
	}
}

static void
send_usage(struct front *f, uint64_t call)
{
	const struct broker *b = f->b;
	const struct profile *p = profile_find("", 0);
	struct limits l, most;

	policy_defaults(&b->settings, p, &l);
	policy_maxima(&b->settings, p, &most);
	(void)link_send(f->link,
			IPC_ROW(health_usage, .call = call, .boxes = f->owner->boxes,
				.boxes_max = OWNER_BOXES_MAX, .queued = f->owner->queued,
				.queued_max = OWNER_QUEUE_MAX, .memory_bytes = b->memory_bytes,
				.memory_max_bytes = b->memory_max_bytes,
				.own_memory_bytes = f->owner->memory_bytes,
				.own_memory_max_bytes = admission_owner_max(b, f->owner),
				.timeout_ms = l.timeout_ms, .timeout_max_ms = most.timeout_ms,
				.limit_memory_bytes = l.memory_bytes,
				.limit_memory_max_bytes = most.memory_bytes,
				.cpus_milli = l.cpus_milli, .cpus_max_milli = most.cpus_milli,
				.pids = l.pids));
}

static void
send_notes(struct front *f, uint64_t call)
{
	const struct broker *b = f->b;
	const struct engine_info *i = &b->probe.info;

	if (!b->reaper)
		note(f, call, NO_REAPER);
	if (!b->settings.cgroup_parent[0] || i->cgroup_systemd)
		note(f, call,
		     "No common cgroup holds all sandboxes; their total is capped by counting "
		     "alone.");
	if (!(b->settings.flags & SETTINGS_REAPER_KILLS))
		note(f, call,
		     "The reaper may not signal sandboxes itself; kills go through the engine.");
	if (b->settings.flags & SETTINGS_NO_POOL)
		note(f, call, "The pool is switched off: every call starts its own sandbox.");
	if (!probe_local(b))
		note(f, call,
		     "The engine is remote: processor files are not bound and host-measured "
		     "figures are missing.");
	if (!b->probe.have_info)
		return;
	if (!i->seccomp)
		note(f, call, "The engine has no seccomp: sandboxes are not started on it.");
	if (!i->apparmor)
		note(f, call, "The engine has no AppArmor; seccomp and capabilities hold alone.");
	if (!i->swap_limit)
		note(f, call, "The engine cannot limit swap.");
	if (!i->pids || !i->memory_limit || !i->cpu_cfs)
		note(f, call, "The engine lacks a limit for processes, memory or processors.");
}

static void
answer(struct front *f, uint64_t call)
{
	const struct broker *b = f->b;

	send_engine(f, call);
	send_pool(f, call);
	send_usage(f, call);
	for (size_t i = 0; i < b->n_layers; i++)
		(void)link_send(f->link,
				IPC_ROW(health_layers, .call = call, .role = b->layers[i].role,
					.layers = b->layers[i].layers,
					.restarts = b->layers[i].restarts,
					.last_end = IPC_STR(b->layers[i].last_end)));
	send_notes(f, call);
	(void)link_send(f->link, IPC_ROW(health_end, .call = call));
}

void
health_answer(struct broker *b)
{
	size_t n = b->n_queries;

	b->n_queries = 0;
	for (size_t i = 0; i < n; i++)
		answer(b->queries[i].front, b->queries[i].call);
}

/* With the list full the answer is what is known now: how many a client asks at once, and
 * what other frontends ask, must not cost a frontend its link. */
void
health_ask(struct front *f, uint64_t call)
{
	struct broker *b = f->b;

	if (!b->engine || b->stopping || b->n_queries == ARRAY_LEN(b->queries) ||
	    (b->probe.state == ENGINE_UP && clock_now_ms() - b->probe.known_ms < FRESH_MS)) {
		answer(f, call);
		return;
	}
	b->queries[b->n_queries++] = (struct health_query){f, call};
	probe_again(b);
}

void
health_forget(struct front *f)
{
	struct broker *b = f->b;
	size_t kept = 0;

	for (size_t i = 0; i < b->n_queries; i++)
		if (b->queries[i].front != f)
			b->queries[kept++] = b->queries[i];
	b->n_queries = kept;
}

void
health_layers(struct broker *b, const struct ipc_layers *m)
{
	struct layers_row row = {m->role, m->layers, m->restarts, ""};

	if (str_copy(row.last_end, sizeof(row.last_end), m->last_end.data, m->last_end.len) < 0)
		row.last_end[0] = '\0';

	for (size_t i = 0; i < b->n_layers; i++) {
		if (b->layers[i].role == m->role) {
			b->layers[i] = row;
			return;
		}
	}
	if (b->n_layers < ARRAY_LEN(b->layers))
		b->layers[b->n_layers++] = row;
}
