/*
 * broker/run.c - one call from its admission to its one call_ended.
 *
 * Runs in: bailey-broker.
 * Input: frames of an untrusted frontend, frames of a hostile guest, figures of
 *        the reaper, fates of boxes.
 * Owns: struct run; it is freed by run_finish or run_cancel and nowhere else.
 *
 * QUEUED (admission.c holds it) - STARTING (a box is being made or updated for
 * it) - GRANTED (its specification may come) - ACTIVE (RUN was written) -
 * ACCOUNT (EXIT was read or the box died; the reaper's figures are awaited,
 * 200 ms at most). The answer leaves before any clean-up work starts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

struct run *
run_new(struct front *f, const struct ipc_call_submit *m, const struct decision *d)
{
	struct broker *b = f->b;
	struct run *r = xcalloc(1, sizeof(*r));
	uint8_t id[16];

	*r = (struct run){.id = b->next_run++,
			  .call = m->call,
			  .front = f,
			  .owner = owner_ref(f->owner),
			  .phase = PHASE_QUEUED,
			  .box_class = (enum box_class)m->box_class,
			  .flags = m->flags,
			  .profile = d->profile,
			  .limits = d->limits,
			  .queued_ms = clock_now_ms()};
	if (m->spec.len) {
		r->early = xcalloc(1, m->spec.len);
		memcpy(r->early, m->spec.data, m->spec.len);
		r->early_len = m->spec.len;
	}
	random_bytes(id, sizeof(id));
	hex_encode(r->run_id, id, sizeof(id));
	if (idmap_put(b->runs, r->id, r) < 0)
		fatal("no room for a run"); /* requests.c keeps fewer than the map holds */
	TAILQ_INSERT_TAIL(&f->runs, r, front_entry);
	return r;
}

static void
set_phase(struct run *r, enum run_phase to)
{
	struct broker *b = r->front->b;

	if (to == PHASE_STARTING)
		b->starting++;
	else if (r->phase == PHASE_STARTING)
		b->starting--;
	r->phase = to;
}

static struct box *
detach(struct run *r)
{
	struct box *x = r->box;

	if (x)
		x->run = NULL;
	r->box = NULL;
	return x;
}

static void
leave(struct run *r)
{
	struct broker *b = r->front->b;

	if (r->phase == PHASE_QUEUED)
		admission_dequeue(r);
	else
		b->in_flight--;
	if (r->phase == PHASE_STARTING)
		b->starting--;
	TAILQ_REMOVE(&r->front->runs, r, front_entry);
	(void)idmap_take(b->runs, r->id);
	owner_unref(b, r->owner);
	free(r->early);
	free(r);
	broker_soon(b);
}

static struct run_facts
facts_of(const struct run *r, const struct ipc_watch_figures *final)
{
	const struct box *x = r->box;

	return (struct run_facts){.exit = r->have_exit ? &r->exit : NULL,
				  .cause = r->cause,
				  .oom_event = x && x->oom,
				  .baseline = x && x->baseline.have ? &x->baseline : NULL,
				  .final = final};
}

static void
send_ended(struct run *r, enum run_status status, const char *message, uint32_t retry_ms,
	   const struct ipc_watch_figures *final)
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
	if (r->front->link)
		(void)link_send(r->front->link, &row); /* a full link closes itself */
}

static void
finish(struct run *r, enum run_status status, const char *message, uint32_t retry_ms,
       const struct ipc_watch_figures *final)
{
	struct broker *b = r->front->b;
	struct box *x;
	enum end_cause cause = r->have_exit ? CAUSE_DONE : r->cause;

	send_ended(r, status, message ? message : run_status_advice(status), retry_ms, final);
	log_info("run=%s box=%" PRIu64 " class=%d start=%d status=%s queue_ms=%" PRIu64
		 " run_us=%" PRIu64,
		 r->run_id, r->box ? r->box->id : 0, (int)r->box_class, (int)r->start,
		 run_status_name(status), r->left_queue_ms ? r->left_queue_ms - r->queued_ms : 0,
		 r->have_exit ? r->exit_us - r->run_us : 0);
	x = detach(r);
	leave(r);
	if (x && cause == CAUSE_DONE && b->in_flight == 0 && b->queued == 0)
		box_event(x, ON_DONE);
	else if (x)
		box_end(x, cause == CAUSE_NONE ? CAUSE_START : cause);
}

void
run_finish(struct run *r, enum run_status status, const char *message, uint32_t retry_ms)
{
	finish(r, status, message, retry_ms, NULL);
}

static int write_frame(struct run *r, const struct ipc_call_frame *m);

/* ---- into a box ---- */

static void
send_granted(struct run *r)
{
	const struct limits *l = &r->limits;
	const struct box *x = r->box;

	set_phase(r, PHASE_GRANTED);
	/* The word before the RUN frame: after it the call is never repeated. */
	(void)link_send(r->front->link,
			IPC_ROW(call_granted, .call = r->call, .start = r->start,
				.run_id = {r->run_id, 32},
				.queue_ms = (uint32_t)(r->left_queue_ms - r->queued_ms),
				.timeout_ms = l->timeout_ms, .memory_bytes = l->memory_bytes,
				.cpus_milli = l->cpus_milli, .pids = l->pids,
				.workspace_bytes = x->limits.workspace_bytes,
				.tmp_bytes = x->limits.tmp_bytes));
	r->word_queued = r->front->link && link_queued(r->front->link) > 0;
}

/* Writes the specification that came with the submission. r may be gone. */
static void
release_early(struct run *r)
{
	struct ipc_call_frame m = {.call = r->call, .type = GUEST_h_run};
	cleanup_free uint8_t *early = TAKE(r->early);

	if (r->phase != PHASE_GRANTED)
		return; /* its box died meanwhile */
	m.data = (struct ipc_bin){early, r->early_len};
	(void)write_frame(r, &m); /* its size was checked: it breaks no rule */
}

/* Grants, and writes the specification at once where it came ahead, unless the word itself waits
 * in the link: were we to die then, the frontend would have the code run again. r may be gone. */
static void
grant(struct run *r)
{
	send_granted(r);
	if (r->early && !r->word_queued)
		release_early(r);
}

void
run_words_out(struct front *f)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&f->runs); r; r = next) {
		next = TAILQ_NEXT(r, front_entry); /* writing may end r, and no other run */
		if (!r->word_queued)
			continue;
		r->word_queued = false;
		if (r->early)
			release_early(r);
	}
}

static void
leave_queue(struct run *r)
{
	admission_dequeue(r);
	set_phase(r, PHASE_STARTING);
	r->left_queue_ms = clock_now_ms();
	r->front->b->in_flight++;
}

/* Back to the queue, once: for a failure that says what to do otherwise. */
static bool
requeue(struct run *r)
{
	struct broker *b = r->front->b;

	if (r->retried || r->phase != PHASE_STARTING)
		return false;
	r->retried = true;
	if (admission_enqueue(r) < 0)
		return false;
	(void)detach(r);
	set_phase(r, PHASE_QUEUED);
	b->in_flight--;
	broker_soon(b);
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

	if (!x || r->phase == PHASE_ACCOUNT)
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
		grant(r);
	}
}

void
run_start_in(struct run *r, struct box *x, const struct fit *fit)
{
	struct broker *b = r->front->b;

	leave_queue(r);
	admission_count(x, r->owner);
	r->start = fit->start;
	r->box = x;
	x->run = r;
	box_event(x, ON_GRANT);
	if (fit->update) {
		admission_resize(x, &r->limits);
		engine_update(b->engine, x->container, r->limits.memory_bytes, r->limits.cpus_milli,
			      b, r->id, on_updated);
	}
	if (!fit->update || !fit->wait)
		grant(r);
}

void
run_start_cold(struct run *r)
{
	struct broker *b = r->front->b;
	struct box *x = pool_adopt(r);

	leave_queue(r);
	r->start = START_COLD;
	if (!x)
		x = box_new(b, r->profile, r->box_class, false, &r->limits);
	if (!x) {
		run_finish(r, RUN_busy, NULL, admission_retry_ms(b));
		return;
	}
	admission_count(x, r->owner);
	r->box = x;
	x->run = r;
	if (x->state == BOX_READY) /* adopted while its interpreter was starting */
		run_box_ready(r);
}

void
run_box_ready(struct run *r)
{
	if (r->phase != PHASE_STARTING)
		return;
	box_event(r->box, ON_GRANT);
	grant(r);
}

void
run_box_failed(struct run *r, const struct engine_result *why)
{
	struct broker *b = r->front->b;
	enum run_status status = probe_status(why);
	char text[400];

	if (status == RUN_image_unavailable && requeue(r)) {
		probe_again(b); /* the image may have been built anew: look it up once more */
		return;
	}
	if (status == RUN_image_unavailable)
		(void)snprintf(text, sizeof(text), "%s", run_status_advice(status));
	else
		(void)snprintf(text, sizeof(text), "The sandbox could not be started: %.200s",
			       why->message ? why->message : "");
	r->cause = CAUSE_START;
	run_finish(r, status, text, 0);
}

/* ---- frames ---- */

static int
write_frame(struct run *r, const struct ipc_call_frame *m)
{
	static uint8_t out[GUEST_FRAME_MAX]; /* one thread, used within the call */
	struct box *x = r->box;
	int n, sent;

	n = session_host_frame(&x->session, m->type, m->stream, &m->data, out);
	if (n < 0)
		return n;
	if (r->phase == PHASE_GRANTED && x->session.running)
		r->run_us = clock_now_us(); /* before the write: it may cost us the processor */
	sent = x->attach ? attach_send(x->attach, out, (size_t)n) : -EPIPE;
	if (sent == -ENOBUFS)
		box_end(x, CAUSE_DIED); /* the engine reads no more */
	if (sent < 0)
		return 0; /* its stream may still hold the end of the run, and then closes */
	if (r->phase == PHASE_GRANTED && x->session.running) {
		set_phase(r, PHASE_ACTIVE);
		x->deadline_ns = clock_boot_ns() +
				 ((uint64_t)r->limits.timeout_ms + DEADLINE_SLACK_MS) * 1000000u;
		box_event(x, ON_RUN);
	}
	return 0;
}

int
run_frame_in(struct run *r, const struct ipc_call_frame *m)
{
	if (r->phase == PHASE_ACCOUNT)
		return 0; /* the run is over; the frontend does not know yet */
	if (r->phase == PHASE_QUEUED || r->phase == PHASE_STARTING)
		return -EPROTO; /* it has not heard the word */
	if (r->word_queued) {
		/* Then it has heard it: the word is out. */
		uint64_t id = r->id;
		struct broker *b = r->front->b;
		r->word_queued = false;
		if (r->early)
			release_early(r);
		if (!idmap_get(b->runs, id))
			return 0;
	}
	return write_frame(r, m);
}

void
run_expect_exit(struct run *r)
{
	if (r->phase == PHASE_ACTIVE && !r->asked)
		r->asked = orders_send(r->box->b, IPC_ROW(watch_account, .box = r->box->id,
							  .phase = ACCOUNT_FINAL)) == 0;
}

static void
ask_figures(struct run *r)
{
	struct box *x = r->box;

	run_expect_exit(r);
	set_phase(r, PHASE_ACCOUNT);
	if (r->asked)
		box_arm(x, FIGURES_WAIT_MS);
	else
		run_figures(r, NULL);
}

void
run_guest_frame(struct run *r, const struct guest_frame *f)
{
	struct box *x = r->box;
	uint8_t ack[GUEST_HEADER_LEN + 8 + GUEST_CRC_LEN];
	size_t n;

	if (r->phase != PHASE_ACTIVE)
		return;
	if (f->row->type == GUEST_g_exit) {
		r->exit_us = clock_now_us();
		r->have_exit = guest_get_g_exit(f->payload, f->len, &r->exit) == 0;
		memcpy(r->exit_raw, f->payload, sizeof(r->exit_raw));
		ask_figures(r);
		return;
	}
	(void)link_send(r->front->link, IPC_ROW(run_frame, .call = r->call, .type = f->row->type,
						.stream = f->stream, .data = {f->payload, f->len}));
	/* Forwarded counts as kept: the store of kept output will stand here. */
	n = session_ack(&x->session, false, ack);
	if (n && x->attach)
		(void)attach_send(x->attach, ack, n); /* a dead stream says so itself */
}

void
run_figures(struct run *r, const struct ipc_watch_figures *m)
{
	struct run_facts facts = facts_of(r, m);
	enum run_status status = verdict_status(&facts);
	char text[300];

	if (r->phase != PHASE_ACCOUNT)
		return;
	if (r->box && r->box->state < BOX_REMOVING)
		box_disarm(r->box);
	finish(r, status, verdict_message(&facts, status, text, sizeof(text)), 0, m);
}

/* ---- ends ---- */

void
run_box_ended(struct run *r, enum end_cause cause)
{
	struct engine_result why = {.err = -EPIPE, .message = "the sandbox ended while starting"};
	struct run_facts facts;
	enum run_status status;
	char text[300];

	if (r->phase == PHASE_ACCOUNT)
		return; /* EXIT was read: only figures are missing */
	r->cause = cause;
	if (r->phase == PHASE_STARTING) {
		run_box_failed(r, &why);
	} else if (cause == CAUSE_DEADLINE || r->phase == PHASE_GRANTED) {
		facts = facts_of(r, NULL);
		status = verdict_status(&facts);
		run_finish(r, status, verdict_message(&facts, status, text, sizeof(text)), 0);
	} else {
		ask_figures(r);
	}
}

void
run_box_gone(struct run *r)
{
	if (r->phase == PHASE_ACCOUNT)
		run_figures(r, NULL);
	else
		run_finish(r, RUN_lost, NULL, 0);
}

void
run_cancel(struct run *r, enum end_cause cause)
{
	uint8_t out[GUEST_HEADER_LEN + 4 + GUEST_CRC_LEN];
	struct box *x = r->box;
	size_t n;

	r->cause = cause;
	r->have_exit = false;
	if (r->phase == PHASE_ACTIVE && x->attach) {
		n = session_end_frame(&x->session, cause, out);
		if (n)
			(void)attach_send(x->attach, out, n); /* the kill follows anyway */
	}
	run_finish(r, RUN_cancelled, NULL, 0);
}
