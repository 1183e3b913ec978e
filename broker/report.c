/*
 * broker/report.c - what the broker tells the supervisor for bailey status.
 *
 * Runs in: bailey-broker.
 * Input: the supervisor's question.
 * Owns: nothing.
 *
 * Owners' names are in it: it goes to the supervisor alone, which shows it to
 * the tree's own user and root.
 */
#include <string.h>

#include "broker.h"

static void
send_engine(struct broker *b, uint32_t query)
{
	static const enum engine_known words[] = {[ENGINE_ASLEEP] = KNOWN_NOT_ASKED,
						  [ENGINE_ASKED] = KNOWN_ASKED,
						  [ENGINE_UP] = KNOWN_USABLE,
						  [ENGINE_DOWN] = KNOWN_UNUSABLE};
	const struct probe *p = &b->probe;

	(void)link_send(b->supervisor,
			IPC_ROW(status_engine, .query = query, .state = words[p->state],
				.name = IPC_STR(p->info.name), .version = IPC_STR(p->info.version),
				.last_error = IPC_STR(p->last_error),
				.error_ago_ms = p->error_ms ? clock_now_ms() - p->error_ms : 0));
}

static void
send_pools(struct broker *b, uint32_t query)
{
	for (size_t i = 0; i < profile_count() && i < PROFILES_MAX; i++) {
		for (size_t c = 0; c < BOX_CLASSES; c++) {
			const struct pool *p = &b->pools[i][c];

			if (!p->target && !p->n_ready && !p->n_starting)
				continue;
			(void)link_send(b->supervisor,
					IPC_ROW(status_pool, .query = query,
						.profile = IPC_STR(profile_at(i)->name),
						.box_class = (uint32_t)c, .target = p->target,
						.ready = p->n_ready, .starting = p->n_starting));
		}
	}
}

static void
send_load(struct broker *b, uint32_t query)
{
	const struct owner *o;
	uint32_t owners = 0;

	TAILQ_FOREACH(o, &b->owners, link)
	owners++;
	(void)link_send(b->supervisor,
			IPC_ROW(status_load, .query = query, .queued = b->queued,
				.queued_max = QUEUE_MAX, .in_flight = b->in_flight,
				.paced = pace_count(b), .boxes = (uint32_t)idmap_count(b->boxes),
				.owners = owners, .memory_bytes = b->memory_bytes,
				.memory_max_bytes = b->memory_max_bytes));
}

static void
send_lease(struct broker *b, uint32_t query, const struct sandbox *s, uint64_t now)
{
	const struct owner *o = s->owner;
	uint32_t runs = s->box ? box_count_runs(s->box) : 0;

	(void)link_send(b->supervisor,
			IPC_ROW(status_lease, .query = query, .sandbox = IPC_STR(s->id),
				.owner_kind = o->kind, .owner = o->number,
				.principal = IPC_STR(o->principal),
				.profile = IPC_STR(s->profile->name), .keep = s->keep, .runs = runs,
				.age_ms = now - s->born_ms, .idle_ms = runs ? 0 : now - s->used_ms,
				.idle_limit_ms = s->idle_ms, .ttl_ms = sandbox_left_ms(s),
				.memory_bytes = s->memory_bytes));
}

void
report_status(struct broker *b, uint32_t query)
{
	const struct sandbox *s;
	uint64_t now = clock_now_ms();
	uint32_t n = 0;

	report_changes(b->supervisor);
	send_engine(b, query);
	send_pools(b, query);
	send_load(b, query);
	TAILQ_FOREACH(s, &b->sandboxes.live, entry)
	{
		if (n++ < STATUS_LEASES_MAX)
			send_lease(b, query, s, now);
	}
	(void)link_send(b->supervisor,
			IPC_ROW(status_end, .query = query,
				.left_out = n > STATUS_LEASES_MAX ? n - STATUS_LEASES_MAX : 0));
}
