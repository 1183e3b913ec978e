/*
 * reaper/watch.c - the table of boxes: what the broker tells and asks.
 * Runs in: bailey-reaper.
 * Input: rows of the broker; a broken or hostile broker can end boxes, but can
 *	make the reaper signal nothing that is not inside the container it names.
 * Owns: r->boxes.
 * Rows may come again after either side restarted: each is answered as if it
 * were the first.
 */
#include "reaper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CLAIM_NS (2 * NS_PER_S) /* recovered boxes: how long the broker may take to speak up */
#define STAYS_NS (DEADMAN_MS * NS_PER_MS) /* boxes that stay: then their guests are gone */

static struct reaper *
reaper_of(void *ctx)
{
	return ctx;
}

static struct box *
find(struct reaper *r, uint64_t box)
{
	return box == 0 ? NULL : idmap_get(r->boxes, box);
}

static bool
is_name(struct ipc_str s)
{
	if (s.len == 0 || s.len > 64)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.data[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_' && c != '.')
			return false;
	}
	return true;
}

static bool
is_container_id(struct ipc_str s)
{
	if (s.len != CONTAINER_ID_LEN)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!(s.data[i] >= '0' && s.data[i] <= '9') &&
		    !(s.data[i] >= 'a' && s.data[i] <= 'f'))
			return false;
	return true;
}

static void
refuse(struct reaper *r, uint64_t box, enum end_cause cause)
{
	(void)link_send(r->broker, IPC_ROW(watch_killed, .box = box, .cause = cause));
}

/* A new box: first the ledger, then the word that lets the broker create it. */
static int
intend(struct reaper *r, const struct ipc_watch_intend *m)
{
	struct record rec = {.box = m->box,
			     .end_ns = m->end_ns,
			     .state = BOX_INTENDED,
			     .born_ms = (uint32_t)(clock_boot_ns() / NS_PER_MS)};
	uint32_t slot;

	if (m->box == 0 || !is_name(m->name) || m->secret.len != sizeof(rec.secret))
		return -EINVAL;
	memcpy(rec.name, m->name.data, m->name.len);
	memcpy(rec.secret, m->secret.data, sizeof(rec.secret));
	int rc = ledger_alloc(&r->ledger, &slot);
	if (rc < 0)
		return rc;
	if (action_box_new(r, slot, &rec) == NULL) {
		r->ledger.used[slot] = 0;
		return -ENOSPC;
	}
	ledger_store(&r->ledger, slot, &rec);
	secret_wipe(&rec, sizeof(rec));
	return 0;
}

static void
reaper_on_watch_intend(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	const struct ipc_watch_intend *m = &row->u.watch_intend;
	struct box *b = find(r, m->box);

	if (r->stopping) {
		refuse(r, m->box, CAUSE_STOPPED);
		return;
	}
	if (b != NULL) {
		/* The same box told again after a restart, or a broker that lost count. */
		size_t n = strlen(b->rec.name);
		if (m->name.len != n || memcmp(m->name.data, b->rec.name, n) != 0) {
			refuse(r, m->box, CAUSE_START);
			return;
		}
		b->claim_ns = 0;
		b->unknown = false;
	} else {
		int rc = intend(r, m);
		if (rc < 0) {
			log_error("box %" PRIu64 " refused: %s", m->box, strerrordesc_np(-rc));
			refuse(r, m->box, CAUSE_START);
			return;
		}
	}
	(void)link_send(l, IPC_ROW(watch_ok, .box = m->box));
	action_rearm(r);
}

static void
reaper_on_watch_created(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	const struct ipc_watch_created *m = &row->u.watch_created;
	struct box *b = find(r, m->box);

	(void)l;
	if (b == NULL || !is_container_id(m->container)) {
		log_warn("box %" PRIu64 ": created, but %s", m->box,
			 b == NULL ? "never intended" : "its container id is not one");
		return;
	}
	if (b->rec.container[0] != '\0' &&
	    memcmp(b->rec.container, m->container.data, CONTAINER_ID_LEN) != 0) {
		log_error("box %" PRIu64 ": another container under the same number", m->box);
		return;
	}
	memcpy(b->rec.container, m->container.data, CONTAINER_ID_LEN);
	if (m->pid != 0)
		b->rec.pid = m->pid;
	action_step(r, b, m->pid != 0 ? BOX_EV_STARTED : BOX_EV_CREATED, CAUSE_NONE);
	action_rearm(r);
}

static void
reaper_on_watch_deadline(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	struct box *b = find(r, row->u.watch_deadline.box);

	(void)l;
	if (b == NULL)
		return; /* it ended while the row was on its way */
	b->rec.deadline_ns = row->u.watch_deadline.at_ns;
	b->heed_ns = 0;
	ledger_store(&r->ledger, b->slot, &b->rec);
	action_rearm(r);
}

static void
reaper_on_watch_kill(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	const struct ipc_watch_kill *m = &row->u.watch_kill;
	struct box *b = find(r, m->box);

	(void)l;
	if (b == NULL)
		return; /* gone and confirmed before */
	bool known = m->cause > CAUSE_NONE && m->cause < CAUSES;
	action_step(r, b, BOX_EV_KILL, known ? (enum end_cause)m->cause : CAUSE_UNUSED);
	action_rearm(r);
}

static void
reaper_on_watch_gone(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	struct box *b = find(r, row->u.watch_gone.box);

	(void)l;
	if (b == NULL)
		return; /* confirmed twice: by an event and by an answer */
	action_step(r, b, BOX_EV_GONE, CAUSE_NONE);
	action_rearm(r);
}

static void
reaper_on_watch_stays(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	struct box *b = find(r, row->u.watch_stays.box);

	(void)l;
	if (b == NULL)
		return; /* it ended while the row was on its way */
	b->rec.stays = 1;
	ledger_store(&r->ledger, b->slot, &b->rec);
}

/* A fresh broker asks for a box of the one before. What has not started, or is ending, is none to
 * take over. */
static void
reaper_on_watch_claim(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	uint64_t box = row->u.watch_claim.box;
	struct box *b = find(r, box);

	if (b != NULL)
		b->unknown = false;
	if (b == NULL || b->rec.state != BOX_ARMED || b->rec.stays == 0 || r->stopping) {
		(void)link_send(l, IPC_ROW(watch_kept, .box = box,
					   .word = b == NULL ? KEPT_UNKNOWN : KEPT_ENDING,
					   .cause = b == NULL ? CAUSE_NONE : b->rec.cause));
		return;
	}
	b->claim_ns = 0;
	counters_pass(&b->counters, l, box);
	(void)link_send(l, IPC_ROW(watch_kept, .box = box, .word = KEPT_ALIVE,
				   .name = IPC_STR(b->rec.name),
				   .container = IPC_STR(b->rec.container), .pid = b->rec.pid,
				   .end_ns = b->rec.end_ns, .deadline_ns = b->rec.deadline_ns,
				   .secret = {b->rec.secret, sizeof(b->rec.secret)},
				   .own_kill = b->pidfd != -1 && b->own_kill));
	action_rearm(r);
}

static void
reaper_on_sweep_candidate(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = reaper_of(ctx);
	const struct ipc_sweep_candidate *c = &row->u.sweep_candidate;
	bool dead = sweep_is_dead(r->proc_fd, &r->facts, c);

	(void)link_send(l, IPC_ROW(sweep_verdict, .container = c->container, .dead = dead));
}

const struct link_route watch_routes[WATCH_N_ROUTES] = {
	{.num = IPC_NUM_watch_intend, .handler = reaper_on_watch_intend},
	{.num = IPC_NUM_watch_created, .handler = reaper_on_watch_created},
	{.num = IPC_NUM_watch_deadline, .handler = reaper_on_watch_deadline},
	{.num = IPC_NUM_watch_kill, .handler = reaper_on_watch_kill},
	{.num = IPC_NUM_watch_gone, .handler = reaper_on_watch_gone},
	{.num = IPC_NUM_sweep_candidate, .handler = reaper_on_sweep_candidate},
	{.num = IPC_NUM_watch_stays, .handler = reaper_on_watch_stays},
	{.num = IPC_NUM_watch_claim, .handler = reaper_on_watch_claim},
};

/* Every box sees the event; a box may go on the way. */
static void
each_box(struct reaper *r, enum box_event event, enum end_cause cause)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(r->boxes, &cursor, &id, &obj))
		action_step(r, obj, event, cause);
	action_rearm(r);
}

void
watch_recover(struct reaper *r)
{
	uint64_t now = clock_boot_ns();
	uint32_t cursor = 0, slot, count = 0;
	struct record rec;

	while (ledger_recover(&r->ledger, &cursor, &slot, &rec)) {
		struct box *b = action_box_new(r, slot, &rec);
		if (b == NULL) {
			log_error("box %" PRIu64 " stands twice in the ledger", rec.box);
			ledger_clear(&r->ledger, slot);
			continue;
		}
		count++;
		bool live = action_is_live(b);
		/* A deadline that passed unheard may be of a run that ended unheard. */
		if (live && rec.deadline_ns != 0)
			b->heed_ns = now + CLAIM_NS;
		if (live)
			b->claim_ns = now + (rec.stays != 0 ? STAYS_NS : CLAIM_NS);
		else
			b->retry_ns = now;
		if (rec.state >= BOX_ARMED && action_hold(r, b) < 0)
			log_debug("box %" PRIu64 ": not seen any more", rec.box);
	}
	secret_wipe(&rec, sizeof(rec));
	if (count > 0)
		log_info("%u boxes taken over from the ledger", count);
	action_rearm(r);
}

void
watch_broker_new(struct reaper *r)
{
	each_box(r, BOX_EV_BROKER_NEW, CAUSE_NONE);
}

void
watch_broker_lost(struct reaper *r)
{
	uint64_t until = clock_boot_ns() + STAYS_NS;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(r->boxes, &cursor, &id, &obj)) {
		struct box *b = obj;

		if (b->rec.state == BOX_ARMED && b->rec.stays != 0 && !r->stopping)
			b->claim_ns = until;
		else
			action_step(r, b, BOX_EV_BROKER_LOST, CAUSE_BROKER_GONE);
	}
	action_rearm(r);
}

void
watch_abandoned(struct reaper *r)
{
	each_box(r, BOX_EV_BROKER_LOST, CAUSE_BROKER_GONE);
}

void
watch_stop(struct reaper *r, uint32_t grace_ms)
{
	r->stopping = true;
	r->stop_ns = clock_boot_ns() + grace_ms * NS_PER_MS;
	each_box(r, BOX_EV_KILL, CAUSE_STOPPED);
}

static void
report_stuck(struct reaper *r, struct box *b, uint64_t now)
{
	LOG_EVENT(removal_stuck, .box = b->rec.box, .since_s = (now - b->removing_ns) / NS_PER_S);
	tally_add(TALLY_removals_stuck);
	b->stuck_step_ns = deadline_stuck(b->stuck_step_ns);
	b->stuck_ns = now + b->stuck_step_ns;
	(void)link_send(r->supervisor, IPC_ROW(stuck, .box = b->rec.box,
					       .since_ms = (now - b->removing_ns) / NS_PER_MS));
}

/* One due thing at a time, most final first: a step may free the box. */
static void
box_timer(struct reaper *r, struct box *b, uint64_t now)
{
	bool live = action_is_live(b);

	if (b->claim_ns != 0 && b->claim_ns <= now) {
		b->claim_ns = 0;
		action_step(r, b, BOX_EV_BROKER_LOST, CAUSE_BROKER_GONE);
	} else if (live && b->rec.end_ns != 0 && b->rec.end_ns <= now) {
		action_step(r, b, BOX_EV_LIFETIME, CAUSE_LIFETIME);
	} else if (live && action_deadline(b) != 0 && action_deadline(b) <= now) {
		tally_add(TALLY_deadlines);
		action_step(r, b, BOX_EV_DEADLINE, CAUSE_DEADLINE);
	} else {
		if (b->stuck_ns != 0 && b->stuck_ns <= now)
			report_stuck(r, b, now);
		if (b->retry_ns != 0 && b->retry_ns <= now) {
			b->retry_ns = 0;
			action_step(r, b, BOX_EV_RETRY, CAUSE_NONE);
		}
	}
}

void
watch_timer(struct reaper *r)
{
	uint64_t now = clock_boot_ns();
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	deadline_drain(&r->deadline);
	if (r->stopping && now >= r->stop_ns) {
		r->on_idle(r);
		return;
	}
	while (idmap_next(r->boxes, &cursor, &id, &obj))
		box_timer(r, obj, now);
	action_rearm(r);
}

void
watch_free(struct reaper *r)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(r->boxes, &cursor, &id, &obj))
		action_box_free(r, obj);
}
