/*
 * broker/box.c - the life of one container as the state x event table of box.def.
 *
 * Runs in: bailey-broker.
 * Input: events from steps.c (engine answers), orders.c (reaper), session frames
 *        (hostile guest), run.c and pool.c (our own wishes).
 * Owns: the table; boxes.c makes and buries what it moves.
 *
 * Whoever notices something calls box_event; the table says what it means in
 * the state the box is in. Actions act, they never choose the next state. What
 * follows without waiting (a pid and a hello make a box READY, a READY box goes
 * to its run or into the pool) is done by advance() once the table is through.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "broker.h"

/* Killing and making a container take both processors for tens of milliseconds: whoever asked reads
 * the answer first. */
#define YIELD_MS 2u
#define LINGER_MS 100u     /* after destroy: the stream may still hold EXIT */
#define AUTOREMOVE_MS 150u /* after a seen death the engine removes it by itself */
#define RETRY_FIRST_MS 100u
#define RETRY_MAX_MS 5000u

typedef void (*box_act)(struct box *x);

#define BOX_STATE(name, text)
#define BOX_ACTION(name, next) static void act_##name(struct box *x);
#define BOX_EVENT(name, ...)
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT

enum { BOX_STAY = BOX_STATES };
enum action {
#define BOX_STATE(name, text)
#define BOX_ACTION(name, next) ACT_##name,
#define BOX_EVENT(name, ...)
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
};
static const struct action_row {
	const char *name;
	box_act act;
	enum box_state next;
} actions[] = {
#define BOX_STATE(name, text)
#define BOX_ACTION(name, next) [ACT_##name] = {#name, act_##name, (enum box_state)BOX_##next},
#define BOX_EVENT(name, ...)
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
};
static const unsigned char table[BOX_EVENTS][BOX_STATES] = {
#define BOX_STATE(name, text)
#define BOX_ACTION(name, next)
#define BOX_EVENT(name, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                        \
	[ON_##name] = {ACT_##a, ACT_##b, ACT_##c, ACT_##d, ACT_##e, ACT_##f, ACT_##g, ACT_##h, \
		       ACT_##i, ACT_##j, ACT_##k, ACT_##l, ACT_##m, ACT_##n, ACT_##o, ACT_##p},
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
};

const char *
box_state_name(enum box_state s)
{
	static const char *const names[] = {
#define BOX_STATE(name, text) #name,
#define BOX_ACTION(name, next)
#define BOX_EVENT(name, ...)
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
	};
	return s < BOX_STATES ? names[s] : "?";
}

const char *
box_event_name(enum box_event ev)
{
	static const char *const names[] = {
#define BOX_STATE(name, text)
#define BOX_ACTION(name, next)
#define BOX_EVENT(name, ...) #name,
#include "box.def"
#undef BOX_STATE
#undef BOX_ACTION
#undef BOX_EVENT
	};
	return ev < BOX_EVENTS ? names[ev] : "?";
}

const char *
box_cell(enum box_state s, enum box_event ev, enum box_state *ret_next)
{
	const struct action_row *a = &actions[table[ev][s]];

	*ret_next = a->next == (enum box_state)BOX_STAY ? s : a->next;
	return a->name;
}

/* What is due in this state without any further event from outside. */
static bool
next_step(const struct box *x, enum box_event *ret)
{
	if (x->state == BOX_STARTED && x->pid_known && x->session.hello) {
		*ret = ON_UP;
		return true;
	}
	if (x->state == BOX_READY && x->pooled == POOL_STARTING &&
	    (!x->prestart || x->session.ready)) {
		*ret = ON_WARM;
		return true;
	}
	return false;
}

static void
step(struct box *x, enum box_event ev)
{
	const struct run *r = TAILQ_FIRST(&x->runs);
	const struct action_row *a = &actions[table[ev][x->state]];
	enum box_state from = x->state;

	if (a->next != (enum box_state)BOX_STAY)
		x->state = a->next;
	if (a->next != (enum box_state)BOX_STAY || a->act != act_none)
		log_debug("box=%" PRIu64 " run=%s event=%s action=%s state=%s->%s", x->id,
			  r ? r->run_id : "-", box_event_name(ev), a->name, box_state_name(from),
			  box_state_name(x->state));
	a->act(x);
}

void
box_event(struct box *x, enum box_event ev)
{
	enum box_event more;

	step(x, ev);
	while (next_step(x, &more))
		step(x, more);
	if (x->state >= BOX_ENDING && x->sandbox)
		sandbox_box_ended(x);
	if (x->state == BOX_READY && !TAILQ_EMPTY(&x->runs))
		run_box_ready(TAILQ_FIRST(&x->runs));
}

/* ---- actions ---- */

static void
act_none(struct box *x)
{
	(void)x;
}

static void
act_odd(struct box *x)
{
	log_error("box=%" PRIu64 " an event its state cannot have; ending it", x->id);
	x->cause = CAUSE_START;
	box_runs_ended(x);
	box_tell_kill(x);
}

static void
act_stray(struct box *x)
{
	log_warn("box=%" PRIu64 " an event out of place while %s", x->id, box_state_name(x->state));
}

static void
act_create(struct box *x)
{
	x->create_pending = true;
	steps_create(x);
}

static void
send_created(struct box *x)
{
	(void)orders_send(x->b, IPC_ROW(watch_created, .box = x->id,
					.container = IPC_STR(x->container), .pid = x->pid));
}

static void
act_check(struct box *x)
{
	send_created(x);
	steps_check(x);
}

static void
act_attach(struct box *x)
{
	steps_attach(x);
}

static void
act_start(struct box *x)
{
	uint32_t whole = policy_whole_cpus(x->limits.cpus_milli);
	struct guest_h_hello h = {.version = GUEST_VERSION,
				  .box_class = x->prestart ? x->box_class : BOX_NOTHING,
				  .deadman_ms = DEADMAN_MS,
				  .lifetime_s = x->lifetime_s,
				  .cpus = whole,
				  .affinity = x->affinity};
	uint8_t payload[64];

	memcpy(h.secret, x->secret, sizeof(h.secret));
	guest_put_h_hello(&h, payload);
	(void)box_send(x, GUEST_h_hello, payload,
		       sizeof(payload)); /* a dead stream says so itself */
	secret_wipe(payload, sizeof(payload));
	secret_wipe(&h, sizeof(h));
	steps_start(x);
}

static void
act_started(struct box *x)
{
	if (x->attach)
		steps_check(x);
	else
		box_event(x, ON_CLOSED); /* it ran and ended while start was under way */
}

static void
act_pid(struct box *x)
{
	x->pid_known = true;
	send_created(x);
}

static void
act_late_pid(struct box *x)
{
	send_created(x);
}

static void
act_up(struct box *x)
{
	x->session.pong_ms = clock_now_ms();
	box_ping(x); /* it waits for more than a hello, but not as long */
}

static void
act_warm(struct box *x)
{
	box_baseline(x);
	x->warm_ms = clock_now_ms();
	pool_add(x);
	tally_add(TALLY_boxes_warm);
	LOG_EVENT(box_warm, .box = x->id, .class = x->box_class,
		  .after_ms = x->warm_ms - x->born_ms);
}

static void
act_grant(struct box *x)
{
	pool_quiet_for_call(x->b);
	if (!x->warm_ms)
		box_baseline(x);
}

static void
act_run(struct box *x)
{
	(void)x;
}

static void
act_stay(struct box *x)
{
	(void)x;
}

static void
act_spend(struct box *x)
{
	x->cause = CAUSE_DONE;
	x->b->quiet_until_ms = clock_now_ms() + YIELD_MS;
	box_arm(x, YIELD_MS);
}

/* A step of the start failed, or the stream closed during it. */
static void
act_fail(struct box *x)
{
	if (!x->why.message)
		x->why = (struct engine_result){.err = -EPIPE,
						.message = "the sandbox ended while starting"};
	LOG_EVENT(box_failed, .box = x->id, .step = "start", .error = (uint64_t)-x->why.err,
		  .why = x->why.message);
	tally_add(TALLY_boxes_failed);
	x->cause = CAUSE_START;
	box_runs_failed(x);
	box_tell_kill(x);
}

static void
act_uncreated(struct box *x)
{
	LOG_EVENT(box_failed, .box = x->id, .step = "create", .error = (uint64_t)-x->why.err,
		  .why = x->why.message);
	tally_add(TALLY_boxes_failed);
	x->cause = CAUSE_START;
	box_runs_failed(x);
	box_bury(x, true);
}

static void
act_never(struct box *x)
{
	box_bury(x, true);
}

static void
act_drop(struct box *x)
{
	box_runs_ended(x);
	box_bury(x, true);
}

static void
act_refused(struct box *x)
{
	x->why = (struct engine_result){.err = -EBUSY,
					.message = "the reaper takes no further sandbox"};
	box_runs_failed(x);
	box_bury(x, false);
}

static void
act_end(struct box *x)
{
	box_runs_ended(x);
	box_tell_kill(x);
}

static void
act_clean_up(struct box *x)
{
	act_end(x);
	broker_soon(x->b);
}

static void
act_resume(struct box *x)
{
	resume_step(x);
}

static void
act_resume_later(struct box *x)
{
	resume_failed(x);
}

static void
act_opened(struct box *x)
{
	x->resume.open = true;
	resume_step(x);
}

static void
act_synced(struct box *x)
{
	resume_synced(x);
}

/* It ended and nobody ordered it: by itself, or because no broker spoke to it. */
static void
died(struct box *x)
{
	x->cause = resume_death(x->b, &x->away_s);
	pool_doubt(x->b);
}

static void
act_died(struct box *x)
{
	died(x);
	box_runs_ended(x); /* reads the counters while there are any */
	box_tell_kill(x);
	box_close_stream(x);
}

/* The reaper says it is dead, by its own clock (x->cause). */
static void
act_slain(struct box *x)
{
	if (x->cause == CAUSE_DIED || x->cause == CAUSE_BROKER_GONE)
		died(x);
	x->killed = true;
	pool_remove(x);
	box_disarm(x);
	box_runs_ended(x);
	box_close_stream(x);
}

static void
act_late_id(struct box *x)
{
	send_created(x);
	if (x->remove_wanted)
		box_event(x, ON_REMOVE);
}

static void
act_dead(struct box *x)
{
	x->killed = true;
	box_close_stream(x);
}

static void
act_remove(struct box *x)
{
	box_close_stream(x);
	if (x->killed && x->b->probe.watching)
		box_arm(x, AUTOREMOVE_MS);
	else
		steps_remove(x);
}

static void
act_lost(struct box *x)
{
	died(x);
	pool_remove(x);
	box_runs_ended(x);
	box_close_stream(x);
	steps_remove(x);
}

static void
act_remove_now(struct box *x)
{
	steps_remove(x);
}

static void
act_again(struct box *x)
{
	uint32_t shift = x->removals < 6 ? x->removals : 6, ms = RETRY_FIRST_MS << shift;

	x->removals++;
	box_arm(x, ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS);
}

static void
act_linger(struct box *x)
{
	box_arm(x, LINGER_MS);
}

static void
act_vanish(struct box *x)
{
	died(x);
	box_runs_ended(x);
	box_bury(x, true);
}

static void
act_gone(struct box *x)
{
	box_bury(x, true);
}
