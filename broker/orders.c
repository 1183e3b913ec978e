/*
 * broker/orders.c - the reaper's link: its answers and its orders.
 *
 * Runs in: bailey-broker.
 * Input: rows of the reaper (trusted, yet checked: a box it names may be gone).
 * Owns: the link to the reaper.
 *
 * The ledger outlives us: the reaper may order the end of boxes a former broker
 * made. Those are removed by id or name just the same and confirmed.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <event2/event.h>

#include "broker.h"

#define REAPER_QUEUE_MAX ((size_t)1 << 20)

int
orders_send(struct broker *b, const struct ipc_row *row)
{
	int r;

	if (!b->reaper)
		return -ENOTCONN;
	r = link_send(b->reaper, row);
	if (r < 0)
		log_warn("reaper: %s not sent, error %d", ipc_name(row->num), r);
	return r;
}

static void
broker_on_watch_ok(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct box *x = box_find(ctx, row->u.watch_ok.box);

	(void)l;
	if (x)
		box_event(x, ON_INTENT_OK);
}

/* The counters came after its start: what it runs already is charged with nothing less. */
static void
first_baseline(struct box *x)
{
	bool started = x->state >= BOX_RUNNING && x->state != BOX_STAYS;

	if (!started || !x->baseline.have)
		box_baseline(x);
}

static void
broker_on_watch_held(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;
	struct box *x = box_find(b, row->u.watch_held.box);

	(void)l;
	b->own_kill = row->u.watch_held.own_kill;
	if (x)
		first_baseline(x);
}

/* Without its descriptor, for want of a place, the figure is not available. */
static void
broker_on_watch_counter(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;
	struct box *x = box_find(b, row->u.watch_counter.box);
	cleanup_close int fd = TAKE_FD(b->passed_fd);

	(void)l;
	if (x)
		counters_take(&x->counters, row->u.watch_counter.which, TAKE_FD(fd));
}

/* The reaper ends what it was not asked to end only where the tree stops, and may hear of that
 * before we do: its calls are withdrawn, as in broker_stop, and not lost. */
static void
withdraw_stopped(struct box *x, uint32_t cause)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&x->runs); r && cause == CAUSE_STOPPED; r = next) {
		next = TAILQ_NEXT(r, box_entry);
		if (r->phase == PHASE_GRANTED || r->phase == PHASE_ACTIVE)
			run_cancel(r, CAUSE_STOPPED);
	}
}

static void
broker_on_watch_killed(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct box *x = box_find(ctx, row->u.watch_killed.box);

	(void)l;
	if (!x)
		return;
	withdraw_stopped(x, row->u.watch_killed.cause);
	if (x->state < BOX_ENDING)
		x->cause = (enum end_cause)row->u.watch_killed.cause;
	box_event(x, ON_KILLED);
}

static void
broker_on_watch_kept(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	resume_on_kept(ctx, &row->u.watch_kept);
}

static void
on_done(void *ctx, uint64_t tag, const struct engine_result *r)
{
	(void)ctx;
	if (r->err < 0)
		log_warn("box=%" PRIu64 " kill through the engine: %s", tag,
			 r->message ? r->message : "failed");
}

static void
broker_on_order_kill(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_order_kill *m = &row->u.order_kill;
	struct broker *b = ctx;
	struct box *x = box_find(b, m->box);
	char id[65];

	(void)l;
	if (!b->engine)
		return; /* not configured yet; the order comes again */
	if (x)
		withdraw_stopped(x, m->cause);
	if (x && x->state < BOX_ENDING)
		box_end(x, (enum end_cause)m->cause);
	if (m->container.len && str_copy(id, sizeof(id), m->container.data, m->container.len) == 0)
		engine_kill(b->engine, id, b, m->box, on_done);
}

static void
on_removed_unknown(void *ctx, uint64_t tag, const struct engine_result *r)
{
	if (r->err == 0)
		(void)orders_send(ctx, IPC_ROW(watch_gone, .box = tag));
	/* else the reaper orders it again */
}

static void
broker_on_order_remove(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_order_remove *m = &row->u.order_remove;
	struct broker *b = ctx;
	struct box *x = box_find(b, m->box);
	const struct ipc_str *by = m->container.len ? &m->container : &m->name;
	char id[65];

	(void)l;
	if (!b->engine)
		return; /* as above */
	if (!x) {
		if (by->len && str_copy(id, sizeof(id), by->data, by->len) == 0)
			engine_remove(b->engine, id, b, m->box, on_removed_unknown);
		else
			(void)orders_send(b, IPC_ROW(watch_gone, .box = m->box));
		return;
	}
	if (x->state == BOX_CLAIMED)
		return; /* the answer to its claim says why it ends; the order comes again */
	if (x->create_pending) {
		/* Not before the engine has answered: it would find nothing to remove. */
		x->remove_wanted = true;
		box_end(x, CAUSE_STOPPED); /* of all others it has told the cause */
	} else {
		box_event(x, ON_REMOVE);
	}
}

static const struct link_route routes[] = {
	{.num = IPC_NUM_watch_ok, .handler = broker_on_watch_ok},
	{.num = IPC_NUM_watch_held, .handler = broker_on_watch_held},
	{.num = IPC_NUM_watch_counter, .handler = broker_on_watch_counter},
	{.num = IPC_NUM_watch_killed, .handler = broker_on_watch_killed},
	{.num = IPC_NUM_order_kill, .handler = broker_on_order_kill},
	{.num = IPC_NUM_order_remove, .handler = broker_on_order_remove},
	{.num = IPC_NUM_sweep_verdict, .handler = broker_on_sweep_verdict},
	{.num = IPC_NUM_watch_kept, .handler = broker_on_watch_kept},
};

/* All a new reaper must hear about a box; watch rows are idempotent. */
static void
announce(struct box *x)
{
	struct broker *b = x->b;

	if (x->state == BOX_CLAIMED && !x->pid_known) {
		resume_claim(x); /* the ledger may know it; we do not know its secret yet */
		return;
	}
	(void)orders_send(b,
			  IPC_ROW(watch_intend, .box = x->id, .name = IPC_STR(x->spec->name),
				  .end_ns = x->end_ns, .secret = {x->secret, sizeof(x->secret)}));
	if (x->container[0])
		(void)orders_send(b, IPC_ROW(watch_created, .box = x->id,
					     .container = IPC_STR(x->container), .pid = x->pid));
	if (x->kept != KEEP_NONE)
		(void)orders_send(b, IPC_ROW(watch_stays, .box = x->id));
	/* What the ledger has of a sandbox may be of a run that ended while no reaper listened. */
	x->told_ns = x->state == BOX_STAYS || x->state == BOX_CLAIMED ? TOLD_UNKNOWN : 0;
	box_tell_deadline(x);
	if (x->state >= BOX_ENDING)
		(void)orders_send(b, IPC_ROW(watch_kill, .box = x->id, .cause = x->cause));
}

static void
on_closed(void *ctx, struct link *l, int reason)
{
	struct broker *b = ctx;

	(void)l;
	link_free(TAKE(b->reaper));
	if (b->stopping) { /* it leaves when the last box is gone */
		(void)event_base_loopbreak(b->base);
		return;
	}
	b->no_reaper_ms = clock_now_ms();
	/* The supervisor sends another, and says why this one ended; where the tree ends, the
	 * reaper may be gone before we hear of it. */
	log_at(reason == 0 ? LOG_L_INFO : LOG_L_WARNING, "reaper link closed, error %d", reason);
	/* One that lives would wait for another broker, and nobody would end either of us. */
	if (reason < 0 && b->supervisor)
		(void)link_send(b->supervisor, IPC_ROW(reaper_lost));
}

int
orders_open(struct broker *b, int fd)
{
	static const struct link_config config_proto = {.self = IPC_BROKER,
							.peer = IPC_REAPER,
							.routes = routes,
							.n_routes = ARRAY_LEN(routes),
							.queue_max = REAPER_QUEUE_MAX,
							.on_closed = on_closed,
							.on_fd = broker_on_fd};
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	link_free(TAKE(b->reaper));
	b->reaper_config = config_proto;
	b->reaper_config.ctx = b;
	b->reaper = link_new(b->base, fd, &b->reaper_config);
	if (!b->reaper)
		return -ENOMEM;
	while (idmap_next(b->boxes, &cursor, &id, &obj))
		announce(obj);
	broker_soon(b);
	return 0;
}
