/*
 * broker/resume.c - living boxes of a former broker, from the claim until their
 * sessions go on, and the calls that go on with them.
 *
 * Runs in: bailey-broker.
 * Input: the reaper's answers, stream bytes of a hostile guest, rows of untrusted
 *        frontends.
 * Owns: struct resume of a box in state CLAIMED.
 *
 * Claimed from the reaper, attached, SYNC written once every frontend has spoken
 * for its calls (or a second has passed: those calls are withdrawn), answered: the
 * box STAYS again. Whatever fails on the way is tried again until its guest must
 * have ended itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

#define AGAIN_MS 100u
#define ANSWER_MS 2000u               /* for SYNC_ACK, before the stream is attached anew */
#define SKIPPED_MAX ((size_t)4 << 20) /* what the guest had on its way to the former broker */
#define ACK_LEN (GUEST_HEADER_LEN + 24 + GUEST_CRC_LEN)
#define NONCE_AT GUEST_HEADER_LEN
#define AWAY_MS (DEADMAN_MS - 1500u) /* a guest may have heard nothing for a little longer */
#define AWAY_KNOWN_MS 10000u

void
resume_claim(struct box *x)
{
	x->resume.since_ms = clock_now_ms();
	(void)orders_send(x->b, IPC_ROW(watch_claim, .box = x->id));
	box_arm(x, AGAIN_MS);
}

enum end_cause
resume_death(struct broker *b, uint32_t *ret_away_s)
{
	uint64_t now = clock_now_ms(), away = b->tick_ms ? now - b->tick_ms : 0;

	*ret_away_s = 0;
	if (b->stopping)
		return CAUSE_STOPPED; /* the reaper, told when we were, kills every box */
	if (away < AWAY_MS && b->away_ms >= AWAY_MS && now - b->away_at_ms < AWAY_KNOWN_MS)
		away = b->away_ms;
	*ret_away_s = away >= AWAY_MS ? (uint32_t)((away + 500) / 1000) : 0;
	return away >= AWAY_MS ? CAUSE_BROKER_GONE : CAUSE_DIED;
}

void
resume_on_kept(struct broker *b, const struct ipc_watch_kept *m)
{
	struct box *x = box_find(b, m->box);

	if (!x || x->state != BOX_CLAIMED)
		return;
	if (m->word == KEPT_UNKNOWN) {
		box_event(x, ON_DESTROYED);
	} else if (m->word != KEPT_ALIVE) {
		x->cause = m->cause == CAUSE_NONE || m->cause == CAUSE_DIED
				   ? CAUSE_DIED
				   : (enum end_cause)m->cause;
		box_event(x, ON_KILLED);
	} else if (m->container.len != strlen(x->container) ||
		   memcmp(m->container.data, x->container, m->container.len) != 0 ||
		   m->secret.len != sizeof(x->secret) ||
		   str_copy(x->spec->name, sizeof(x->spec->name), m->name.data, m->name.len) < 0) {
		log_error("box=%" PRIu64 " is another one in the ledger", x->id);
		box_end(x, CAUSE_BROKER_GONE);
	} else {
		memcpy(x->secret, m->secret.data, sizeof(x->secret));
		x->pid = m->pid;
		x->pid_known = true;
		x->told_ns = m->deadline_ns;
		b->own_kill = m->own_kill;
		resume_step(x);
	}
}

/* Frontends that live speak for their calls as soon as they have a link. */
static bool
all_spoke(const struct box *x)
{
	const struct run *r;

	TAILQ_FOREACH(r, &x->runs, box_entry)
	if (r->awaits && !r->front)
		return clock_now_ms() - x->resume.since_ms >= RESUME_FRONTS_MS;
	return true;
}

/* One maximum frame of zeros completes what a former broker left cut; then SYNC. */
static void
send_sync(struct box *x)
{
	static const uint8_t zeros[GUEST_FRAME_MAX];
	struct guest_h_sync m = {.last_guest_seq = x->session.guest_seq};
	uint8_t payload[56];

	random_bytes(x->resume.nonce, sizeof(x->resume.nonce));
	memcpy(m.nonce, x->resume.nonce, sizeof(m.nonce));
	memcpy(m.secret, x->secret, sizeof(m.secret));
	guest_put_h_sync(&m, payload);
	(void)attach_send(x->attach, zeros, sizeof(zeros)); /* a dead stream says so itself */
	(void)box_send(x, GUEST_h_sync, payload, sizeof(payload));
	secret_wipe(payload, sizeof(payload));
	secret_wipe(&m, sizeof(m));
	x->resume.asked = true;
	x->resume.asked_ms = clock_now_ms();
	box_arm(x, ANSWER_MS);
}

/* Closed, or refused, or not answered: anew. */
static void
step_again(struct box *x)
{
	box_close_stream(x);
	x->resume.open = x->resume.asked = false;
	buf_clear(&x->resume.seen);
	x->resume.skipped = 0;
	box_arm(x, AGAIN_MS);
}

void
resume_step(struct box *x)
{
	uint64_t now = clock_now_ms();

	if (now - x->resume.since_ms >= DEADMAN_MS + 2000) {
		log_warn("box=%" PRIu64 " cannot be reached: ending it", x->id);
		box_end(x, CAUSE_BROKER_GONE);
		return;
	}
	if (!x->pid_known) {
		box_arm(x, AGAIN_MS); /* the reaper's word is on its way */
		return;
	}
	bool closed = x->resume.open && !x->attach;
	bool unanswered = x->resume.asked && now - x->resume.asked_ms >= ANSWER_MS;
	if (x->b->probe.state != ENGINE_UP)
		resume_failed(x);
	else if (closed || unanswered)
		step_again(x);
	else if (!x->attach)
		steps_attach(x);
	else if (x->resume.open && !x->resume.asked && all_spoke(x))
		send_sync(x);
	else
		box_arm(x, AGAIN_MS);
}

void
resume_failed(struct box *x)
{
	probe_need(x->b);
	step_again(x);
}

void
resume_all(struct broker *b)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(b->boxes, &cursor, &id, &obj)) {
		struct box *x = obj;

		if (x->state == BOX_CLAIMED && !x->attach)
			resume_step(x);
	}
}

/* ---- SYNC's answer ---- */

/* Where the answer begins in p, or n. */
static size_t
find_answer(const struct box *x, const uint8_t *p, size_t n, struct guest_g_sync_ack *ret)
{
	const uint8_t *from = p, *at;
	struct guest_frame f;
	size_t used;

	while ((at = memmem(from, n - (size_t)(from - p), x->resume.nonce,
			    sizeof(x->resume.nonce)))) {
		size_t start = (size_t)(at - p);

		if (start >= NONCE_AT &&
		    guest_frame_parse(at - NONCE_AT, n - start + NONCE_AT, G2H, &f, &used) == 1 &&
		    f.row->type == GUEST_g_sync_ack &&
		    guest_get_g_sync_ack(f.payload, f.len, ret) == 0)
			return start - NONCE_AT;
		from = at + 1;
	}
	return n;
}

bool
resume_data(struct box *x, const uint8_t **p, size_t *n)
{
	struct resume *s = &x->resume;
	struct guest_g_sync_ack ack = {.last_host_seq = 0};
	size_t at, old = buf_len(&s->seen);

	if (!s->asked)
		return false;
	s->skipped += *n;
	if (s->skipped > SKIPPED_MAX || buf_append(&s->seen, *p, *n) < 0) {
		log_warn("box=%" PRIu64 " says everything but the answer", x->id);
		box_end(x, CAUSE_BAD_FRAME);
		return false;
	}
	at = find_answer(x, buf_data(&s->seen), buf_len(&s->seen), &ack);
	if (at == buf_len(&s->seen)) {
		if (at > ACK_LEN)
			buf_consume(&s->seen, at - ACK_LEN);
		return false;
	}
	/* What was kept of earlier bytes is less than the answer: its end lies in these. */
	*p += at + ACK_LEN - old;
	*n -= at + ACK_LEN - old;
	buf_done(&s->seen);
	s->host_seq = ack.last_host_seq;
	box_event(x, ON_SYNCED);
	return x->state == BOX_STAYS;
}

/* ---- its runs ---- */

static void
say_resumed(const struct run *r, const struct guest_g_stands *m)
{
	(void)link_send(r->front->link,
			IPC_ROW(call_resumed, .call = r->call, .again = m == NULL,
				.received = m ? m->received : 0, .granted = m ? m->granted : 0,
				.closed = m ? m->closed : 0));
}

/* The guest never had its h_run: nothing of it happened. */
static void
never_began(struct run *r)
{
	struct box *x = r->box;

	log_info("run=%s never began", r->run_id);
	if (r->front)
		say_resumed(r, NULL);
	session_run_close(&x->session, r->number);
	run_forget(r);
}

void
resume_synced(struct box *x)
{
	struct run *r, *next;

	box_disarm(x);
	session_resume(&x->session, x->resume.host_seq);
	log_info("box=%" PRIu64 " goes on after %" PRIu64 " ms", x->id,
		 clock_now_ms() - x->resume.since_ms);
	for (r = TAILQ_FIRST(&x->runs); r; r = next) {
		const struct session_run *n = session_run(&x->session, r->number);

		next = TAILQ_NEXT(r, box_entry);
		if (r->phase == PHASE_STARTING)
			run_begin_within(r);
		else if (!n || n->ordered_seq == 0 || n->ordered_seq > x->resume.host_seq)
			never_began(r);
		else if (!r->front && (r->withdrawn || r->awaits))
			run_set_timer(r, WITHDRAWN_MS); /* to say how it stands, and to end */
	}
	box_baseline(x);
	box_tell_deadline(x);
	adopt_note(x); /* for the next broker: none of it was written while it was CLAIMED */
}

static void
send_frame(struct box *x, const uint8_t *out, size_t n)
{
	if (n && x->attach)
		(void)attach_send(x->attach, out, n); /* a dead stream says so itself */
}

static void
restate_credit(struct run *r)
{
	uint8_t out[GUEST_HEADER_LEN + 8 + GUEST_CRC_LEN];
	struct box *x = r->box;
	const struct session_run *n = session_run(&x->session, r->number);

	for (uint32_t i = STREAM_STDOUT; n && i < STREAMS; i++)
		send_frame(x, out,
			   session_credit(&x->session, r->number, i,
					  r->front ? r->credit[i] : n->granted[i], out));
}

/* Parts of a specification whose end never came: thrown away. A former broker may have said so
 * already, to a guest that did not hear it. */
static void
drop_parts(struct box *x, uint32_t number)
{
	uint8_t out[GUEST_HEADER_LEN + 4 + GUEST_CRC_LEN];
	static const uint64_t none[STREAMS];
	struct session_run *n = session_run(&x->session, number);

	if (!n)
		n = session_run_resume(&x->session, number, none, none);
	if (!n)
		return;
	n->ended = true;
	adopt_note(x); /* its EXIT may come to the next broker */
	n->ended = false;
	send_frame(x, out, session_end_frame(&x->session, number, CAUSE_CANCEL, out));
}

void
resume_on_stands(struct box *x, const struct guest_frame *f)
{
	struct run *r = box_run(x, f->run);
	struct session_run *n = session_run(&x->session, f->run);
	struct guest_g_stands m;

	if (guest_get_g_stands(f->payload, f->len, &m) < 0 || (!r && m.ordered) || (r && !n)) {
		box_end(x, CAUSE_BAD_FRAME);
		return;
	}
	if (!r) {
		drop_parts(x, f->run);
		return;
	}
	r->resumes = false;
	n->sent[STREAM_STDIN] = m.received;
	n->granted[STREAM_STDIN] = m.granted;
	n->stdin_closed = m.closed;
	restate_credit(r);
	if (r->front)
		say_resumed(r, &m);
	else if (r->withdrawn || r->awaits)
		run_withdraw(r, RUN_cancelled, r->withdrawn ? CAUSE_CANCEL : CAUSE_OWNER_GONE);
}

/* Input is sent again from where the guest has it, and what its frontend grants comes to it with
 * the rest: only that is kept. */
int
resume_frame_in(struct run *r, const struct ipc_call_frame *m)
{
	const struct session_run *n = session_run(&r->box->session, r->number);
	struct guest_h_credit credit;

	if (m->type != GUEST_h_credit || !n)
		return 0;
	if (m->stream < STREAM_STDOUT || m->stream >= STREAMS ||
	    guest_get_h_credit(m->data.data, m->data.len, &credit) < 0 ||
	    credit.limit < r->credit[m->stream] ||
	    credit.limit > n->sent[m->stream] + (uint64_t)16 * GUEST_WINDOW)
		return -EPROTO;
	r->credit[m->stream] = credit.limit;
	return 0;
}

/* ---- its calls ---- */

static struct run *
run_that_waits(struct front *f, const struct ipc_str *run_id)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(f->b->runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		if (run_id->len == 32 && memcmp(r->run_id, run_id->data, 32) == 0 &&
		    r->owner == f->owner && !r->front && r->box && !r->withdrawn)
			return r;
	}
	return NULL;
}

/* What the frontend has of a stream, beyond what counts as handed on: false when it has less. */
static bool
beyond(uint64_t has, uint64_t marked, uint64_t *ret)
{
	*ret = has - marked;
	return has >= marked && *ret <= (uint64_t)8 * GUEST_WINDOW;
}

static bool
take_counts(struct run *r, const struct ipc_call_resume *m)
{
	const struct session_run *n = session_run(&r->box->session, r->number);
	const uint64_t out[STREAMS] = {0, m->out1, m->out2, m->out3};
	const uint64_t tail[STREAMS] = {0, m->tail1, m->tail2, m->tail3};
	const uint64_t credit[STREAMS] = {0, m->credit1, m->credit2, m->credit3};

	for (uint32_t i = STREAM_STDOUT; n && i < STREAMS; i++) {
		if (!beyond(out[i], n->sent[i], &r->had[i]) ||
		    !beyond(tail[i], n->tail[i], &r->had_tail[i]) || credit[i] < out[i] ||
		    credit[i] > out[i] + (uint64_t)8 * GUEST_WINDOW)
			return false;
		r->credit[i] = credit[i];
	}
	return true;
}

void
broker_on_call_resume(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_call_resume *m = &row->u.call_resume;
	struct front *f = ctx;
	struct run *r;

	(void)l;
	if (m->call <= f->last_call) {
		front_drop(f, "call_resume out of range");
		return;
	}
	f->last_call = m->call;
	r = run_that_waits(f, &m->run_id);
	if (!r || r->box->state >= BOX_ENDING) {
		sandbox_refuse_lost(f, m->call, &m->sandbox);
	} else if (r->flags & CALL_BACKGROUND) {
		front_refuse(f, m->call, RUN_running, run_status_advice(RUN_running), 0);
	} else if (r->box->state != BOX_CLAIMED || !take_counts(r, m)) {
		front_refuse(f, m->call, RUN_lost,
			     "A part of the output was lost while a process of Bailey was started "
			     "again. inspect_logs shows what is kept of it.",
			     0);
	} else {
		run_rejoin(r, f, m->call);
		resume_step(r->box);
	}
}

void
resume_tick(struct broker *b, uint64_t now_ms)
{
	if (b->tick_ms && now_ms - b->tick_ms >= AWAY_MS) {
		b->away_ms = now_ms - b->tick_ms;
		b->away_at_ms = now_ms;
	}
	b->tick_ms = now_ms;
	keep_stamp(b->keep, now_ms);
	if (b->fronts_due_ms && now_ms >= b->fronts_due_ms) {
		b->fronts_due_ms = 0;
		sandbox_fronts_due(b);
	}
}
