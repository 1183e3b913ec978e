/*
 * broker/frames.c - what passes between a run's frontend and its guest.
 *
 * Runs in: bailey-broker.
 * Input: frames of an untrusted frontend; frames of a hostile guest, which session.c
 *        has checked for order, size and credit.
 * Owns: nothing.
 *
 * Output is kept before it is acknowledged, and then handed to the frontend. A
 * run without a frontend gets its credit from here, as its output is kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

/* When the reaper is to end the box for this run: later than the guest's own end of it. One that
 * waits its turn in the guest begins at the latest when those before it are ended. */
static uint64_t
deadline_of(const struct run *r)
{
	uint64_t from = clock_boot_ns();
	const struct run *o;

	if (!r->limits.timeout_ms)
		return 0;
	if (r->flags & CALL_TURNS)
		TAILQ_FOREACH(o, &r->box->runs, box_entry)
	if (o != r && o->phase == PHASE_ACTIVE && (o->flags & CALL_TURNS) && o->deadline_ns > from)
		from = o->deadline_ns;
	return from + ((uint64_t)r->limits.timeout_ms + DEADLINE_SLACK_MS) * 1000000u;
}

/* Most runs are over in milliseconds: the reaper is only woken for the others. Until then the
 * guest's own clock and its dead-man's switch hold. */
static void
run_written(struct run *r)
{
	struct broker *b = r->b;
	struct box *x = r->box;

	run_set_phase(r, PHASE_ACTIVE);
	r->deadline_ns = deadline_of(r);
	pool_quiet_for_call(b);
	run_set_timer(r, TELL_DEADLINE_MS);
	if (!r->within)
		box_event(x, ON_RUN);
	if (r->flags & CALL_BACKGROUND)
		run_let_go(r, RUN_running);
	if (r->within)
		adopt_note(x);
}

/* r may be gone. */
static int
write_frame(struct run *r, const struct ipc_call_frame *m)
{
	/* one thread, used within the call */
	static uint8_t out[PACE_FRAME_LEN + GUEST_FRAME_MAX];
	struct box *x = r->box;
	bool last = m->type == GUEST_h_run;
	uint8_t *from = out + PACE_FRAME_LEN;
	int n, sent;

	n = session_host_frame(&x->session, r->number, m->type, m->stream, &m->data, from);
	if (n < 0)
		return n;
	if (r->within && r->phase == PHASE_GRANTED)
		adopt_note(x); /* the next broker must not use its number for another */
	if (last && pace_frame(x, r, out)) {
		from = out; /* one write: nobody wakes twice */
		n += (int)PACE_FRAME_LEN;
	}
	if (last) {
		r->run_us = clock_now_us(); /* before the write: it may cost us the processor */
		r->run_seq = x->session.host_seq;
	}
	sent = x->attach ? attach_send(x->attach, from, (size_t)n) : -EPIPE;
	if (sent == -ENOBUFS)
		box_end(x, CAUSE_DIED); /* the engine reads no more */
	if (sent < 0)
		return 0; /* its stream may still hold the end of the run, and then closes */
	if (last)
		run_written(r);
	return 0;
}

/* Writes the specification that came with the submission. */
static void
release_early(struct run *r)
{
	struct ipc_call_frame m = {.call = r->call, .type = GUEST_h_run};
	cleanup_free uint8_t *early = TAKE(r->early);

	m.data = (struct ipc_bin){early, r->early_len};
	(void)write_frame(r, &m); /* its size was checked: it breaks no rule */
}

/* From its word on: were we to die before the RUN frame, its frontend would call it lost, and only
 * what is kept tells the next broker of it. */
static void
keep_from_now(struct run *r)
{
	const struct sandbox *s = r->box->sandbox;

	if (r->kept == STORE_NONE)
		r->kept = store_run_new(r->b->store, r->run_id,
					s && !(r->flags & CALL_STEP) ? s->id : "", r->box->id,
					r->owner);
}

/* At once where it came ahead, unless the word itself waits in the link: were we to die then, the
 * frontend would have the code run again. */
void
run_words_follow(struct run *r)
{
	if (r->word_queued || r->phase != PHASE_GRANTED)
		return; /* its box may have died meanwhile */
	keep_from_now(r);
	if (r->early)
		release_early(r);
}

static struct run *
first_unheard(const struct front *f)
{
	struct run *r;

	TAILQ_FOREACH(r, &f->runs, front_entry)
	if (r->word_queued)
		return r;
	return NULL;
}

/* From the start each time: writing may end the box, and with it other runs of the front. */
void
run_words_out(struct front *f)
{
	struct run *r;

	while ((r = first_unheard(f))) {
		r->word_queued = false;
		run_words_follow(r);
	}
}

int
run_frame_in(struct run *r, const struct ipc_call_frame *m)
{
	if (r->phase == PHASE_QUEUED || r->phase == PHASE_STARTING)
		return -EPROTO; /* it has not heard the word */
	if (r->resumes)
		return resume_frame_in(r, m);
	if (r->word_queued) {
		/* Then it has heard it: the word is out. */
		const struct front *f = r->front;
		struct broker *b = r->b;
		uint64_t id = r->id;

		r->word_queued = false;
		run_words_follow(r);
		r = idmap_get(b->runs, id);
		if (!r || r->front != f)
			return 0;
	}
	return write_frame(r, m);
}

void
run_tell_end(struct run *r, enum end_cause cause)
{
	uint8_t out[GUEST_HEADER_LEN + 4 + GUEST_CRC_LEN];
	struct box *x = r->box;
	size_t n;

	if (x->state == BOX_CLAIMED)
		return; /* its number is not known yet: resume_on_stands comes back to it */
	n = session_end_frame(&x->session, r->number, cause, out);
	if (n && x->attach)
		(void)attach_send(x->attach, out, n); /* a dead stream says so itself */
}

static void
feed_stream(struct run *r, uint32_t stream)
{
	uint8_t out[GUEST_HEADER_LEN + 8 + GUEST_CRC_LEN];
	struct box *x = r->box;
	size_t n = session_own_credit(&x->session, r->number, stream, out);

	if (n && x->attach)
		(void)attach_send(x->attach, out, n);
}

void
run_feed_itself(struct run *r)
{
	for (uint32_t stream = STREAM_STDOUT; stream < STREAMS; stream++)
		feed_stream(r, stream);
}

static void
guest_exit(struct run *r, const struct guest_frame *f)
{
	struct box *x = r->box;

	r->exit_us = clock_now_us();
	r->have_exit = guest_get_g_exit(f->payload, f->len, &r->exit) == 0;
	memcpy(r->exit_raw, f->payload, sizeof(r->exit_raw));
	r->number = 0; /* session.c has closed it */
	pace_note(r);
	run_account(r);
	if (x->told_ns && x->state == BOX_STAYS)
		box_tell_deadline(x); /* of its other runs; none may be left */
}

/* What a guest sends again after a broker's death is new only behind what was there already. */
static size_t
skip_known(uint64_t *known, size_t len)
{
	size_t n = *known < len ? (size_t)*known : len;

	*known -= n;
	return n;
}

static void
hand_on(struct run *r, const struct guest_frame *f)
{
	bool output = f->row->type == GUEST_g_out, tail = f->row->type == GUEST_g_tail;
	size_t skip = output ? skip_known(&r->had[f->stream], f->len)
		      : tail ? skip_known(&r->had_tail[f->stream], f->len)
			     : 0;

	if (!r->front || ((output || tail) && skip == f->len))
		return;
	(void)link_send(r->front->link,
			IPC_ROW(run_frame, .call = r->call, .type = f->row->type,
				.stream = f->stream, .data = {f->payload + skip, f->len - skip}));
}

static void
keep_output(struct run *r, const struct guest_frame *f)
{
	bool tail = f->row->type == GUEST_g_tail;
	size_t skip;

	if (f->row->type != GUEST_g_out && !tail)
		return;
	skip = skip_known(tail ? &r->stored_tail[f->stream] : &r->stored[f->stream], f->len);
	if (skip < f->len)
		store_put(r->b->store, r->kept, f->stream, f->payload + skip, f->len - skip, tail);
}

void
run_guest_frame(struct run *r, const struct guest_frame *f)
{
	struct box *x = r->box;

	if (f->row->type == GUEST_g_exit) {
		guest_exit(r, f);
		return;
	}
	/* On its way to the client first: the store's fresh pages take their time. */
	hand_on(r, f);
	keep_output(r, f);
	pace_seen(r);
	if (!r->front && f->row->type == GUEST_g_out)
		feed_stream(r, f->stream);
	box_ack(x, false);
}
