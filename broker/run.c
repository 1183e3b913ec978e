/*
 * broker/run.c - one call from its admission to its one call_ended.
 *
 * Runs in: bailey-broker.
 * Input: frames of an untrusted frontend, frames of a hostile guest, counters of
 *        the kernel, fates of boxes.
 * Owns: struct run; run_finish, run_account, run_cancel and run_forget free it.
 *
 * QUEUED (admission.c holds it) - STARTING (a box is being made or updated for
 * it) - GRANTED (its specification may come) - ACTIVE (RUN was written) -
 * OVER (EXIT was read or the box died, and its figures: it is answered and
 * freed). The answer leaves before any clean-up work starts.
 *
 * A run in a sandbox that stays (within) begins at GRANTED and leaves its box as it was. Its call
 * may be answered before it is over: it then has no front and goes on until its EXIT, either as its
 * caller wished (background) or for two seconds at most, told to end (withdrawn).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "broker.h"

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct run *r = ctx;

	(void)fd;
	(void)what;
	if (r->withdrawn || r->awaits) {
		log_warn("run=%s did not end when it was told to", r->run_id);
		box_end(r->box, CAUSE_SILENT);
	} else if (r->phase == PHASE_ACTIVE) {
		box_tell_deadline(r->box);
		broker_soon(r->b); /* the start of this call is over: a refill may begin */
	}
}

void
run_set_timer(struct run *r, uint32_t ms)
{
	if (!r->timer)
		r->timer = evtimer_new(r->b->base, on_timer, r);
	if (!r->timer)
		fatal("no memory for a timer");
	loop_add_ms(r->timer, ms);
}

struct run *
run_new(struct front *f, const struct ipc_call_submit *m, const struct decision *d)
{
	struct broker *b = f->b;
	struct run *r = xcalloc(1, sizeof(*r));
	uint8_t id[16];

	*r = (struct run){.id = b->next_run++,
			  .call = m->call,
			  .peer = f->peer_id,
			  .b = b,
			  .front = f,
			  .owner = owner_ref(f->owner),
			  .phase = PHASE_QUEUED,
			  .box_class = (enum box_class)m->box_class,
			  .flags = m->flags,
			  .profile = d->profile,
			  .limits = d->limits,
			  .ttl_s = d->ttl_s,
			  .idle_s = d->idle_s,
			  .kept = STORE_NONE,
			  .queued_ms = clock_now_ms()};
	if (m->spec.len) {
		r->early = xcalloc(1, m->spec.len);
		memcpy(r->early, m->spec.data, m->spec.len);
		r->early_len = m->spec.len;
	}
	memcpy(r->tag, m->tag.data, m->tag.len); /* its size: messages.def */
	random_bytes(id, sizeof(id));
	hex_encode(r->run_id, id, sizeof(id));
	if (idmap_put(b->runs, r->id, r) < 0)
		fatal("no room for a run"); /* requests.c keeps fewer than the map holds */
	TAILQ_INSERT_TAIL(&f->runs, r, front_entry);
	return r;
}

void
run_set_phase(struct run *r, enum run_phase to)
{
	if (to == PHASE_STARTING) {
		r->b->starting++;
	} else if (r->phase == PHASE_STARTING) {
		r->b->starting--;
		if (r->b->queued)
			broker_soon(r->b); /* as many start at once as may */
	}
	r->phase = to;
}

/* Whether somebody waits for it: what the pool takes into account. */
static void
count_in_flight(struct run *r, bool counts)
{
	if (counts && !r->in_flight)
		r->b->in_flight++;
	else if (!counts && r->in_flight)
		r->b->in_flight--;
	r->in_flight = counts;
}

static void
attach(struct run *r, struct box *x)
{
	r->box = x;
	TAILQ_INSERT_TAIL(&x->runs, r, box_entry);
}

static struct box *
detach(struct run *r)
{
	struct box *x = r->box;

	if (!x)
		return NULL;
	TAILQ_REMOVE(&x->runs, r, box_entry);
	session_run_close(&x->session, r->number);
	r->number = 0;
	r->box = NULL;
	return x;
}

static void
leave_front(struct run *r)
{
	if (r->front)
		TAILQ_REMOVE(&r->front->runs, r, front_entry);
	r->front = NULL;
}

static void
leave(struct run *r)
{
	struct broker *b = r->b;

	admission_dequeue(r);
	admission_created(r);
	count_in_flight(r, false);
	run_set_phase(r, PHASE_OVER);
	leave_front(r);
	(void)idmap_take(b->runs, r->id);
	owner_unref(b, r->owner);
	if (r->timer)
		event_free(r->timer);
	free(r->early);
	free(r);
	broker_soon(b);
}

static struct run_facts
facts_of(const struct run *r, const struct figures *final)
{
	const struct figures *base = r->within ? &r->baseline : r->box ? &r->box->baseline : NULL;

	return (struct run_facts){.exit = r->have_exit ? &r->exit : NULL,
				  .cause = r->cause,
				  .oom_event = r->oom,
				  .limits = &r->limits,
				  .within = r->within,
				  .alone = r->alone,
				  .unheard = r->box && r->run_seq > r->box->session.host_acked,
				  .away_s = r->box ? r->box->away_s : 0,
				  .baseline = base && base->have ? base : NULL,
				  .final = final};
}

static void
send_ended(struct run *r, enum run_status status, const char *message, uint32_t retry_ms,
	   const struct figures *final)
{
	struct run_facts facts = facts_of(r, final);
	struct ipc_row row = {.num = IPC_NUM_call_ended};
	struct ipc_call_ended *m = &row.u.call_ended;

	*m = (struct ipc_call_ended){.call = r->call,
				     .status = status,
				     .retry_ms = retry_ms,
				     .message = IPC_STR(message)};
	if (m->message.len > 512)
		m->message.len = 512;
	if (r->have_exit) {
		m->exit_code = r->exit.exit_code;
		m->signal = r->exit.signal;
		m->duration_us = r->exit_us - r->run_us;
		m->guest = (struct ipc_bin){r->exit_raw, sizeof(r->exit_raw)};
	}
	verdict_figures(&facts, m);
	if (r->front && r->front->link)
		(void)link_send(r->front->link, &row); /* a full link closes itself */
}

/* What is kept of it is complete. */
static void
close_kept(struct run *r, enum run_status status)
{
	struct store_end end = {.status = status, .cause = r->have_exit ? CAUSE_DONE : r->cause};

	if (r->have_exit) {
		end.exit_code = r->exit.exit_code;
		end.signal = r->exit.signal;
		end.written[0] = r->exit.stdout_bytes;
		end.written[1] = r->exit.stderr_bytes;
	}
	store_run_end(r->b->store, r->kept, &end);
	r->kept = STORE_NONE;
}

static const char *
advice(const struct run *r, enum run_status status)
{
	return status == RUN_cancelled && r->cause == CAUSE_STOPPED ? STOPPED_WORDS
								    : run_status_advice(status);
}

static void
finish(struct run *r, enum run_status status, const char *message, uint32_t retry_ms,
       const struct figures *final)
{
	struct broker *b = r->b;
	struct box *x;
	enum end_cause cause = r->have_exit ? CAUSE_DONE : r->cause;
	bool within = r->within;

	if (r->front)
		send_ended(r, status, message ? message : advice(r, status), retry_ms, final);
	LOG_EVENT(run_ended, .run = r->run_id,
		  .sandbox = r->box && r->box->sandbox ? r->box->sandbox->id : NULL,
		  .box = r->box ? r->box->id : 0, .status = run_status_name(status),
		  .start = r->start,
		  .queue_ms = r->left_queue_ms ? r->left_queue_ms - r->queued_ms : 0,
		  .run_us = r->have_exit ? r->exit_us - r->run_us : 0, .paced = r->paced);
	if (!(r->flags & CALL_STAYS))
		tally_add(TALLY_RUNS + (uint32_t)status);
	close_kept(r, status);
	x = detach(r);
	leave(r);
	if (x && within) {
		sandbox_used(x);
		adopt_mark(x);
	} else if (x && cause == CAUSE_DONE && b->in_flight == 0 && b->queued == 0) {
		box_event(x, ON_DONE);
	} else if (x) {
		box_end(x, cause == CAUSE_NONE ? CAUSE_START : cause);
	}
}

void
run_finish(struct run *r, enum run_status status, const char *message, uint32_t retry_ms)
{
	finish(r, status, message, retry_ms, NULL);
}

/* ---- into a box ---- */

static void
send_granted(const struct run *r)
{
	const struct limits *l = &r->limits;
	const struct box *x = r->box;
	const struct sandbox *s = x->sandbox;

	(void)link_send(
		r->front->link,
		IPC_ROW(call_granted, .call = r->call, .start = r->start, .run_id = {r->run_id, 32},
			.queue_ms = (uint32_t)(r->left_queue_ms - r->queued_ms),
			.timeout_ms = l->timeout_ms, .memory_bytes = l->memory_bytes,
			.cpus_milli = l->cpus_milli, .pids = l->pids,
			.workspace_bytes = x->limits.workspace_bytes,
			.tmp_bytes = x->limits.tmp_bytes, .sandbox = IPC_STR(s ? s->id : ""),
			.ttl_ms = s ? sandbox_left_ms(s) : 0, .idle_ms = s ? s->idle_ms : 0));
}

/* The word before the RUN frame: after it the call is never repeated. For a call that wants a
 * sandbox it is all: the box stays. r may be gone. */
void
run_grant(struct run *r)
{
	run_set_phase(r, PHASE_GRANTED);
	if (r->flags & CALL_STAYS) {
		sandbox_born(r);
		send_granted(r);
		r->within = true; /* its end is not the box's */
		run_finish(r, RUN_ok, NULL, 0);
		return;
	}
	if (!r->within)
		r->number = session_run_open(&r->box->session); /* a new box: there is room */
	else
		adopt_note(r->box); /* the next broker must know what its frontend will ask for */
	send_granted(r);
	r->word_queued = r->front->link && link_queued(r->front->link) > 0;
	run_words_follow(r);
}

static void
leave_queue(struct run *r)
{
	admission_dequeue(r);
	run_set_phase(r, PHASE_STARTING);
	r->left_queue_ms = clock_now_ms();
	count_in_flight(r, true);
}

/* Back to the queue, once: for a failure that says what to do otherwise. */
static bool
requeue(struct run *r)
{
	if (r->retried || r->phase != PHASE_STARTING)
		return false;
	r->retried = true;
	if (admission_enqueue(r) < 0)
		return false;
	(void)detach(r);
	run_set_phase(r, PHASE_QUEUED);
	count_in_flight(r, false);
	broker_soon(r->b);
	return true;
}

static bool
is_missing(const struct engine_result *res)
{
	return res->http_status == 404 || res->http_status == 405 || res->http_status == 501;
}

static void
on_updated(void *ctx, uint64_t tag, const struct engine_result *res)
{
	struct broker *b = ctx;
	struct run *r = idmap_get(b->runs, tag);
	struct box *x = r ? r->box : NULL;
	char text[300];

	if (!x)
		return; /* over already: its result stands */
	if (res->err < 0 && is_missing(res) && requeue(r)) {
		/* No such container: another one serves. No such call: from now on other
		 * limits mean a container of their own. */
		b->no_update = !res->message || !strstr(res->message, "container");
		log_warn("box=%" PRIu64 " not updated: %s", x->id,
			 res->message ? res->message : "");
		box_end(x, CAUSE_UNUSED);
	} else if (res->err < 0) {
		(void)snprintf(text, sizeof(text), "The sandbox's limits could not be set: %.200s",
			       res->message ? res->message : "");
		probe_lost(b, res);
		run_finish(r, res->err == -ENOENT ? RUN_lost : probe_status(res), text, 0);
	} else if (r->phase == PHASE_STARTING) {
		run_grant(r);
	}
}

void
run_start_in(struct run *r, struct box *x, const struct fit *fit)
{
	struct broker *b = r->b;

	leave_queue(r);
	admission_count(x, r->owner);
	r->start = fit->start;
	attach(r, x);
	box_event(x, ON_GRANT);
	if (fit->update) {
		admission_resize(x, &r->limits);
		engine_update(b->engine, x->container, r->limits.memory_bytes, r->limits.cpus_milli,
			      b, r->id, on_updated);
	}
	/* What stays is not to stay without its limits. */
	if (!fit->update || (!fit->wait && !(r->flags & CALL_STAYS)))
		run_grant(r);
}

void
run_start_cold(struct run *r)
{
	struct broker *b = r->b;
	struct box *x = pool_adopt(r);

	leave_queue(r);
	r->start = START_COLD;
	if (!x)
		x = box_new(b, r->profile, r->box_class, false, &r->limits,
			    r->flags & CALL_STAYS ? r->ttl_s + SANDBOX_START_S
						  : r->profile->lifetime_s);
	if (!x) {
		run_finish(r, RUN_busy, NULL, admission_retry_ms(b));
		return;
	}
	admission_count(x, r->owner);
	attach(r, x);
	if (x->state == BOX_READY) /* adopted while its interpreter was starting */
		run_box_ready(r);
}

void
run_start_within(struct run *r, struct box *x)
{
	struct run *other;

	r->within = true;
	r->start = START_WARM;
	r->left_queue_ms = r->queued_ms;
	r->baseline = x->baseline;
	r->alone = TAILQ_EMPTY(&x->runs);
	TAILQ_FOREACH(other, &x->runs, box_entry)
	other->alone = false;
	attach(r, x);
	r->number = session_run_open(&x->session);
	count_in_flight(r, true);
	run_grant(r);
}

void
run_wait_within(struct run *r, struct box *x)
{
	r->within = true;
	r->start = START_WARM;
	r->left_queue_ms = r->queued_ms;
	attach(r, x);
	run_set_phase(r, PHASE_STARTING);
	count_in_flight(r, true);
}

void
run_begin_within(struct run *r)
{
	r->number = session_run_open(&r->box->session);
	if (r->number)
		run_grant(r);
	else
		run_finish(r, RUN_busy, NULL, admission_retry_ms(r->b));
}

void
run_rejoin(struct run *r, struct front *f, uint64_t call)
{
	r->front = f;
	r->call = call;
	r->awaits = 0;
	TAILQ_INSERT_TAIL(&f->runs, r, front_entry);
	count_in_flight(r, true);
}

void
run_forget(struct run *r)
{
	close_kept(r, RUN_lost);
	(void)detach(r);
	leave(r);
}

void
run_box_ready(struct run *r)
{
	if (r->phase != PHASE_STARTING)
		return;
	box_event(r->box, ON_GRANT);
	run_grant(r);
}

/* The engine's words; of files that its host does not have, the setting that says where they are.
 */
static void
start_failed(const struct broker *b, const char *why, char *text, size_t cap)
{
	const char *dir = b->settings.share_dir;
	bool files = dir[0] != '\0' && strstr(why, dir) != NULL;

	(void)snprintf(text, cap, "The sandbox could not be started: %.400s%s", why,
		       files ? ". BAILEY_SHARE_DIR says where the engine's host has Bailey's files."
			     : "");
}

void
run_box_failed(struct run *r, const struct engine_result *why)
{
	struct broker *b = r->b;
	enum run_status status = probe_status(why);
	char text[512];

	/* It died, or somebody changed it through the engine: a restart takes AutoRemove away. */
	if ((why->err == -EPIPE || why->err == -EPERM) && !b->stopping && requeue(r)) {
		r->cause = CAUSE_NONE; /* nothing of it was started: another box serves */
		return;
	}
	if (status == RUN_image_unavailable && requeue(r)) {
		probe_again(b); /* the image may have been built anew: look it up once more */
		return;
	}
	if (status == RUN_image_unavailable)
		(void)snprintf(text, sizeof(text), "%s", run_status_advice(status));
	else
		start_failed(b, why->message ? why->message : "", text, sizeof(text));
	r->cause = CAUSE_START;
	run_finish(r, status, text, 0);
}

/* ---- ends ---- */

void
run_account(struct run *r)
{
	struct box *x = r->box;
	struct figures final;
	struct run_facts facts;
	enum run_status status;
	char text[400];

	counters_read(&x->counters, false, &final);
	if (x->state == BOX_STAYS)
		x->baseline = final; /* where the next one starts */
	facts = facts_of(r, final.have ? &final : NULL);
	status = verdict_status(&facts);
	finish(r, status, verdict_message(&facts, status, text, sizeof(text)), 0, facts.final);
}

/* The reaper's clock ends a box for one of its runs; the others are lost with it, but for those
 * whose own time was up as well: the guest's clock ended them before. */
static enum end_cause
cause_for(const struct run *r, enum end_cause cause)
{
	uint64_t slack = UINT64_C(1000000) * DEADLINE_SLACK_MS;
	bool late = r->deadline_ns && clock_boot_ns() + slack >= r->deadline_ns;

	return cause == CAUSE_DEADLINE && r->within && !late ? CAUSE_DIED : cause;
}

void
run_box_ended(struct run *r, enum end_cause cause)
{
	struct engine_result why = {.err = cause == CAUSE_DIED ? -EPIPE : -ECANCELED,
				    .message = "the sandbox ended while starting"};
	struct run_facts facts;
	enum run_status status;
	char text[400];

	if (!r->withdrawn)
		r->cause = cause_for(r, cause);
	if (r->phase == PHASE_STARTING && cause == CAUSE_STOPPED) {
		run_finish(r, RUN_engine_unavailable, "Bailey is stopping.", 0);
	} else if (r->phase == PHASE_STARTING && !r->within) {
		run_box_failed(r, &why);
	} else if (cause == CAUSE_DEADLINE || cause == CAUSE_DESTROYED ||
		   r->phase == PHASE_GRANTED || r->phase == PHASE_STARTING) {
		facts = facts_of(r, NULL);
		status = verdict_status(&facts);
		run_finish(r, status, verdict_message(&facts, status, text, sizeof(text)), 0);
	} else {
		run_account(r);
	}
}

void
run_let_go(struct run *r, enum run_status status)
{
	send_ended(r, status, advice(r, status), 0, NULL);
	leave_front(r);
	count_in_flight(r, false);
	run_feed_itself(r);
}

void
run_withdraw(struct run *r, enum run_status status, enum end_cause cause)
{
	const struct session_run *n = r->box ? session_run(&r->box->session, r->number) : NULL;

	r->cause = cause;
	r->have_exit = false;
	if (n && n->told)
		run_tell_end(r, cause);
	if (r->within && n && n->told) {
		r->withdrawn = true;
		run_let_go(r, status);
		if (r->box->state != BOX_CLAIMED)
			run_set_timer(r, WITHDRAWN_MS);
		adopt_note(r->box);
	} else {
		run_finish(r, status,
			   status == RUN_start_timeout && !r->b->reaper ? NO_REAPER : NULL, 0);
	}
}

void
run_cancel(struct run *r, enum end_cause cause)
{
	run_withdraw(r, RUN_cancelled, cause);
}
