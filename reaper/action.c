/*
 * reaper/action.c - carries out what the lifecycle table says about one box.
 * Runs in: bailey-reaper.
 * Input: events that watch.c, the timer and the pidfds made.
 * Owns: struct box: record, pidfd, counters.
 * Every change is in the ledger before a signal or an order leaves, so the next
 * reaper takes up where this one ended. A death is reported only once it was
 * seen on the pidfd; a box that cannot be seen from here (a remote engine) ends
 * by the engine's confirmed removal alone.
 */
#include "reaper.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#define LATER_NS (300 * NS_PER_MS)  /* the broker reads a dead box's last output */
#define UNSEEN_NS (200 * NS_PER_MS) /* order_kill gets this before the forced removal */
#define UNSURE_NS (2 * NS_PER_S)    /* the engine may still finish a create */
#define AGAIN_NS (300 * NS_PER_MS)

static void
box_store(struct reaper *r, struct box *b)
{
	ledger_store(&r->ledger, b->slot, &b->rec);
}

static void on_dead(int fd, short what, void *arg);

/* The event needs both the reaper and the box; the pair lives as long as the box. */
struct watched {
	struct reaper *reaper;
	struct box *box;
};

struct box *
action_box_new(struct reaper *r, uint32_t slot, const struct record *rec)
{
	struct box *b = xcalloc(1, sizeof(*b));

	b->rec = *rec;
	b->slot = slot;
	b->pidfd = -1;
	b->unknown = rec->cause == CAUSE_BROKER_GONE; /* with a former reaper */
	counters_init(&b->counters);
	if (idmap_put(r->boxes, rec->box, b) < 0) {
		free(b);
		return NULL;
	}
	return b;
}

/* The broker reads the counters to the last through its own descriptors. */
static void
box_unwatch(struct box *b)
{
	if (b->dead_event != NULL) {
		struct watched *w = event_get_callback_arg(b->dead_event);
		event_free(b->dead_event);
		free(w);
		b->dead_event = NULL;
	}
	cleanup_closep(&b->pidfd);
	b->pidfd = -1;
	counters_close(&b->counters);
}

void
action_box_free(struct reaper *r, struct box *b)
{
	if (b == NULL)
		return;
	(void)idmap_take(r->boxes, b->rec.box);
	box_unwatch(b);
	secret_wipe(&b->rec, sizeof(b->rec));
	free(b);
}

int
action_hold(struct reaper *r, struct box *b)
{
	if (b->pidfd != -1)
		return 0;
	if (b->rec.pid == 0 || b->rec.container[0] == '\0')
		return -ESRCH;
	int rc = kill_open(r->proc_fd, b->rec.pid, b->rec.container, &b->pidfd);
	if (rc < 0)
		return rc;
	b->own_kill = kill_send(b->pidfd, 0) == 0;
	counters_open(&b->counters, r->proc_fd, r->cgroup_fd, b->rec.pid);
	struct watched *w = xcalloc(1, sizeof(*w));
	*w = (struct watched){.reaper = r, .box = b};
	b->dead_event = event_new(r->base, b->pidfd, EV_READ, on_dead, w);
	if (b->dead_event == NULL || event_add(b->dead_event, NULL) == -1)
		fatal("cannot watch a pidfd");
	return 0;
}

static void
tell(struct reaper *r, struct box *b)
{
	if (b->rec.told != 0 || b->rec.cause == CAUSE_DIED)
		return;
	b->rec.told = 1;
	box_store(r, b);
	if (r->broker != NULL)
		(void)link_send(r->broker,
				IPC_ROW(watch_killed, .box = b->rec.box, .cause = b->rec.cause));
}

static void
retry_after(struct box *b, uint64_t delay_ns)
{
	b->retry_ns = clock_boot_ns() + delay_ns;
}

static void
order_remove(struct reaper *r, struct box *b)
{
	uint64_t now = clock_boot_ns();

	b->retry_step_ns = deadline_backoff(b->retry_step_ns);
	b->retry_ns = now + b->retry_step_ns;
	if (r->broker == NULL)
		return; /* the next one is asked as soon as it is there */
	if (b->removing_ns == 0) {
		b->removing_ns = now;
		b->stuck_step_ns = deadline_stuck(0);
		b->stuck_ns = now + b->stuck_step_ns;
	}
	b->ordered = true;
	(void)link_send(r->broker, IPC_ROW(order_remove, .box = b->rec.box,
					   .container = IPC_STR(b->rec.container),
					   .name = IPC_STR(b->rec.name)));
}

/* What can be done to a live process: the signal, or the order to the broker. */
static void
kill_process(struct reaper *r, struct box *b, bool may_order)
{
	if (b->pidfd != -1 && b->own_kill) {
		int rc = kill_send(b->pidfd, SIGKILL);
		if (rc == 0)
			tally_add(TALLY_kills_signal);
		if (rc == 0 || rc == -ESRCH) /* gone already: the pidfd says so in a moment */
			return;
		log_warn("box %" PRIu64 ": signal refused: %s", b->rec.box, strerrordesc_np(-rc));
		b->own_kill = false;
	}
	if (!may_order || r->broker == NULL)
		return;
	tally_add(TALLY_kills_engine);
	(void)link_send(r->broker,
			IPC_ROW(order_kill, .box = b->rec.box,
				.container = IPC_STR(b->rec.container), .cause = b->rec.cause));
}

static void
act_kill(struct reaper *r, struct box *b)
{
	kill_process(r, b, true);
	retry_after(b, b->pidfd == -1 ? UNSEEN_NS : NS_PER_S);
}

static void
act_hold(struct reaper *r, struct box *b)
{
	int rc = action_hold(r, b);

	if (rc < 0)
		log_debug("box %" PRIu64 ": pid %u is not seen from here: %s", b->rec.box,
			  b->rec.pid, strerrordesc_np(-rc));
	if (r->broker == NULL)
		return;
	counters_pass(&b->counters, r->broker, b->rec.box);
	(void)link_send(r->broker, IPC_ROW(watch_held, .box = b->rec.box,
					   .own_kill = b->pidfd != -1 && b->own_kill));
}

static void
act_remove(struct reaper *r, struct box *b)
{
	if (b->pidfd != -1)
		kill_process(r, b, !b->own_kill);
	order_remove(r, b);
}

static void
carry_out(struct reaper *r, struct box *b, enum box_action action, enum box_event event)
{
	switch (action) {
	case BOX_ACT_IGNORE:
	case BOX_ACT_NOTE:
		break;
	case BOX_ACT_BUG:
		log_error("box %" PRIu64 ": %s in state %s", b->rec.box,
			  lifecycle_event_name(event),
			  lifecycle_state_name((enum box_state)b->rec.state));
		break;
	case BOX_ACT_HOLD:
		act_hold(r, b);
		break;
	case BOX_ACT_KILL:
		act_kill(r, b);
		break;
	case BOX_ACT_DROP_TELL:
		tell(r, b);
		order_remove(r, b);
		break;
	case BOX_ACT_DROP:
	case BOX_ACT_NOTE_REMOVE:
		order_remove(r, b);
		break;
	case BOX_ACT_REMOVE:
		act_remove(r, b);
		break;
	case BOX_ACT_REMOVE_LATER:
		retry_after(b, LATER_NS);
		break;
	case BOX_ACT_HURRY:
		if (!b->ordered)
			order_remove(r, b);
		break;
	case BOX_ACT_HOLD_KILL:
		act_hold(r, b);
		act_remove(r, b);
		break;
	case BOX_ACT_DEAD:
		tell(r, b);
		order_remove(r, b);
		break;
	case BOX_ACT_DEAD_TELL:
		tell(r, b);
		break;
	case BOX_ACT_RESIGNAL:
		b->ordered = false;
		b->retry_step_ns = 0;
		b->removing_ns = 0; /* the next broker gets its own thirty seconds */
		b->stuck_ns = 0;
		kill_process(r, b, false);
		break;
	case BOX_ACT_FORGET:
		break;
	}
}

/* The cause that ended a box is the first one; later ones only hurry it along. */
static void
note_cause(struct box *b, enum box_event event, enum end_cause cause)
{
	if (b->rec.cause != CAUSE_NONE)
		return;
	if (event == BOX_EV_KILL)
		b->rec.cause = cause;
	else if (event == BOX_EV_DEADLINE)
		b->rec.cause = CAUSE_DEADLINE;
	else if (event == BOX_EV_LIFETIME)
		b->rec.cause = CAUSE_LIFETIME;
	else if (event == BOX_EV_DEAD)
		b->rec.cause = CAUSE_DIED;
	else if (event == BOX_EV_BROKER_LOST)
		b->rec.cause = CAUSE_BROKER_GONE;
}

/* "No such container" may be true only for now where nobody ever heard the answer to the create:
 * its broker died, or the engine stood still. Then the word must hold for a while; a tree that ends
 * leaves the rest to the next sweep. */
static bool
may_yet_appear(const struct reaper *r, struct box *b)
{
	if (b->rec.container[0] != '\0' || r->stopping)
		return false;
	if (b->unsure_ns == 0)
		b->unsure_ns = clock_boot_ns() + UNSURE_NS;
	return clock_boot_ns() < b->unsure_ns;
}

/* Of a box that a broker knows this is the broker's to tell. */
static void
tell_gone(const struct box *b)
{
	uint32_t now_ms = (uint32_t)(clock_boot_ns() / NS_PER_MS);

	LOG_EVENT(box_gone, .box = b->rec.box, .cause = cause_word(b->rec.cause),
		  .age_ms = now_ms - b->rec.born_ms);
	tally_add(TALLY_ENDED + b->rec.cause);
}

void
action_step(struct reaper *r, struct box *b, enum box_event event, enum end_cause cause)
{
	enum box_state before = (enum box_state)b->rec.state;

	if (event == BOX_EV_GONE && before == BOX_REMOVING && may_yet_appear(r, b)) {
		b->removing_ns = 0; /* the engine did answer: nothing is stuck */
		b->stuck_ns = 0;
		retry_after(b, AGAIN_NS);
		return;
	}
	if (event == BOX_EV_DEAD) {
		box_unwatch(b);
		if (b->confirmed)
			event = BOX_EV_GONE;
	}
	if (event == BOX_EV_GONE && b->pidfd != -1 && !kill_is_dead(b->pidfd)) {
		b->confirmed = true;
		event = BOX_EV_GONE_ALIVE;
	}
	struct box_cell cell = lifecycle_cell(before, event);
	note_cause(b, event, cause);
	b->unknown = b->unknown || event == BOX_EV_BROKER_LOST;
	log_debug("box %" PRIu64 ": %s, %s -> %s", b->rec.box, lifecycle_event_name(event),
		  lifecycle_state_name(before), lifecycle_state_name(cell.next));
	if (cell.next == BOX_GONE) {
		if (b->unknown)
			tell_gone(b);
		ledger_clear(&r->ledger, b->slot);
		action_box_free(r, b);
		return;
	}
	b->rec.state = cell.next;
	box_store(r, b);
	carry_out(r, b, cell.action, event);
}

static void
on_dead(int fd, short what, void *arg)
{
	const struct watched *w = arg;
	struct reaper *r = w->reaper;

	(void)fd;
	(void)what;
	action_step(r, w->box, BOX_EV_DEAD, CAUSE_DIED);
	action_rearm(r);
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
	return b != 0 && b < a ? b : a;
}

uint64_t
action_deadline(const struct box *b)
{
	if (b->rec.deadline_ns == 0 || b->rec.deadline_ns >= b->heed_ns)
		return b->rec.deadline_ns;
	return b->heed_ns;
}

bool
action_is_live(const struct box *b)
{
	return b->rec.state == BOX_INTENDED || b->rec.state == BOX_CREATED ||
	       b->rec.state == BOX_ARMED;
}

/* The next moment at which something about the box is due. */
static uint64_t
box_due(const struct box *b)
{
	uint64_t at = UINT64_MAX;

	at = earlier(at, b->retry_ns);
	at = earlier(at, b->claim_ns);
	at = earlier(at, b->stuck_ns);
	if (action_is_live(b)) {
		at = earlier(at, b->rec.end_ns);
		at = earlier(at, action_deadline(b));
	}
	return at;
}

void
action_rearm(struct reaper *r)
{
	uint64_t at = r->stopping ? r->stop_ns : UINT64_MAX;
	bool work = false;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(r->boxes, &cursor, &id, &obj)) {
		const struct box *b = obj;
		at = earlier(at, box_due(b));
		/* Without a broker only a process that can be signalled is still work. */
		if (r->broker != NULL || (b->pidfd != -1 && b->own_kill))
			work = true;
	}
	int rc = deadline_arm(&r->deadline, at);
	if (rc < 0)
		fatal("cannot set the timer: %s", strerrordesc_np(-rc));
	if (r->stopping && !work)
		r->on_idle(r);
}
