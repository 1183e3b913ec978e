/*
 * broker/pace.c - whether a run stands beside somebody's short calls, and is to write much more
 * slowly than it could.
 *
 * Runs in: bailey-broker.
 * Input: ends of runs; what a hostile guest says of its output decides about pace alone.
 * Owns: nothing.
 *
 * On its way to us each piece of output costs the engine, its shim and us a part of all
 * processors, and what is dropped in the box costs two of them there. A guest that is told to
 * pause gives the calls of others their turn in between; what a call waits for at most is one
 * piece.
 */
#include "broker.h"

#define SHORT_BYTES 65536u /* a call that wrote no more is a short one */
#define RECENT_MS 250u
#define PAUSE_US 32000u /* of a piece where there is one processor: 1 MiB a second */

void
pace_note(struct run *r)
{
	struct pace *p = &r->b->pace;

	if (r->exit.stdout_bytes > SHORT_BYTES || r->exit.stderr_bytes > SHORT_BYTES)
		return;
	if (p->peer != r->peer)
		p->others_ms = p->at_ms;
	p->peer = r->peer;
	p->at_ms = clock_now_ms();
}

/* How long its guest is to pause between two pieces of much output; 0: nobody else calls. */
static uint32_t
pace_of(const struct run *r)
{
	const struct pace *p = &r->b->pace;
	uint64_t at_ms = p->peer == r->peer ? p->others_ms : p->at_ms;
	uint32_t cpus = r->b->settings.host_cpus;

	if (!at_ms || clock_now_ms() - at_ms > RECENT_MS)
		return 0;
	return PAUSE_US / (cpus ? cpus : 1);
}

/* True when x does not know yet what payload says now. */
static bool
pace_changed(struct box *x, const struct run *r, uint8_t payload[4])
{
	struct guest_h_pace m = {.pause_us = pace_of(r)};

	if (m.pause_us == x->pause_us)
		return false;
	x->pause_us = m.pause_us;
	guest_put_h_pace(&m, payload);
	return true;
}

size_t
pace_frame(struct box *x, const struct run *r, uint8_t *out)
{
	uint8_t payload[4];

	if (!pace_changed(x, r, payload))
		return 0;
	return guest_frame_write(out, GUEST_h_pace, 0, 0, 0, payload, sizeof(payload));
}

void
pace_tick(struct box *x)
{
	const struct run *r = TAILQ_FIRST(&x->runs);
	uint8_t payload[4];

	if (r && pace_changed(x, r, payload))
		(void)box_send(x, GUEST_h_pace, payload, sizeof(payload)); /* as box_ping */
	for (struct run *one = TAILQ_FIRST(&x->runs); one; one = TAILQ_NEXT(one, box_entry))
		pace_seen(one); /* it may write on without a frame of it coming */
}

/* What it wrote before it was told counts as well: from then on the rest waits. */
static bool
pace_holds(const struct run *r)
{
	const struct session_run *n;

	if (!r->box || !r->box->pause_us || r->flags & CALL_STEP)
		return false; /* nobody slows down a file */
	n = session_run(&r->box->session, r->number);
	return n &&
	       (n->sent[STREAM_STDOUT] > GUEST_AT_ONCE || n->sent[STREAM_STDERR] > GUEST_AT_ONCE);
}

void
pace_seen(struct run *r)
{
	if (r->paced || !pace_holds(r))
		return;
	r->paced = true;
	tally_add(TALLY_paced);
}

uint32_t
pace_count(const struct broker *b)
{
	size_t cursor = 0;
	uint32_t n = 0;
	uint64_t id;
	void *r;

	while (idmap_next(b->runs, &cursor, &id, &r))
		n += pace_holds(r);
	return n;
}
