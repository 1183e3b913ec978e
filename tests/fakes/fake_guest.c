/*
 * tests/fakes/fake_guest.c - the attach of fake_engine.c: what a container's guest
 * hears and says.
 * Runs in: unit tests. Input: the broker's frames. Owns: struct attach.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_parts.h"

void
fake_guest_greets(struct attach *at)
{
	struct guest_g_hello h = {.version = GUEST_VERSION, .uid = fake.guest.uid};
	struct guest_g_ready r;
	struct fake_container *c = &fake.box[at->index];
	uint64_t box = c->spec.label.box;
	uint8_t payload[64];

	if (!c->running || !at->open || at->said_hello || !fake.guest.hello)
		return;
	at->said_hello = true;
	guest_put_g_hello(&h, payload);
	fake_guest_frame(box, GUEST_g_hello, 0, 0, 0, payload, 16);
	if (at->box_class == BOX_NOTHING || !fake.guest.ready || fake_box(box)->attach != at)
		return;
	r.box_class = fake.guest.ready_class == UINT32_MAX ? at->box_class : fake.guest.ready_class;
	guest_put_g_ready(&r, payload);
	fake_guest_frame(box, GUEST_g_ready, 0, 0, 0, payload, 4);
}

static void
give_opened(struct answer *a)
{
	struct attach *at = fake.box[a->index].attach;

	if (!at || at->tag != a->tag)
		return; /* freed meanwhile */
	at->open = a->result.err == 0;
	at->handler.opened(at->ctx, at->tag, &a->result);
}

struct attach *
engine_attach(struct engine *e, const char *id, const struct attach_handler *h, void *ctx,
	      uint64_t tag)
{
	struct answer *a = fake_ask(OP_ATTACH, ctx, tag, give_opened);
	struct fake_container *c = fake_by_id(id);
	struct attach *at = xcalloc(1, sizeof(*at));

	(void)e;
	if (!c) { /* it was removed before this could be said: a place that is never a container's
		   */
		c = &fake.box[ARRAY_LEN(fake.box) - 1];
		a->result = (struct engine_result){-ENOENT, 404, "no such container"};
	}
	*at = (struct attach){
		.handler = *h, .ctx = ctx, .tag = tag, .index = (size_t)(c - fake.box)};
	buf_init(&at->in, (size_t)4 << 20);
	c->attach = at;
	a->index = at->index;
	return at;
}

void
attach_free(struct attach *a)
{
	if (!a)
		return;
	if (fake.box[a->index].attach == a)
		fake.box[a->index].attach = NULL;
	buf_done(&a->in);
	free(a);
}

static void
guest_runs(struct attach *at, uint32_t run)
{
	uint64_t box = fake.box[at->index].spec.label.box;

	at->run = fake.last_run = run;
	if (fake.guest.out)
		fake_guest_frame(box, GUEST_g_out, STREAM_STDOUT, run, ++at->seq, fake.guest.out,
				 strlen(fake.guest.out));
	if (fake.guest.exit && fake_box(box)->attach == at)
		fake_guest_exit(box, &fake.guest.result);
}

/* Nothing of the run is left: what was going on, or only a part of its specification. */
static void
guest_ends(uint64_t box, uint32_t run)
{
	struct guest_g_exit e = {.how = EXIT_SIGNALED, .signal = 9, .flags = EXIT_ENDED};

	if (fake.guest.obeys)
		fake_guest_exit_of(box, run, &e);
}

static void
guest_confirms(uint64_t box, uint64_t seq)
{
	const struct guest_g_ack ack = {.seq = seq};
	uint8_t payload[8];

	guest_put_g_ack(&ack, payload);
	if (!fake.guest.deaf)
		fake_guest_frame(box, GUEST_g_ack, 0, 0, 0, payload, sizeof(payload));
}

static void
guest_reads(struct attach *at, const struct guest_frame *f)
{
	struct guest_h_hello hello;
	struct guest_h_ack ack;
	uint64_t box = fake.box[at->index].spec.label.box;

	fake.host_frames[f->row->type]++;
	if (f->row->type == GUEST_h_hello && guest_get_h_hello(f->payload, f->len, &hello) == 0) {
		at->box_class = hello.box_class;
		fake.greeting = hello;
	} else if (f->row->type == GUEST_h_ping && fake.guest.pong && at->said_hello) {
		fake_guest_frame(box, GUEST_g_pong, 0, 0, 0, NULL, 0);
	} else if (f->row->type == GUEST_h_ack && guest_get_h_ack(f->payload, f->len, &ack) == 0) {
		fake.last_ack = ack.seq;
	} else if (f->row->type == GUEST_h_credit) {
		struct guest_h_credit credit;

		if (guest_get_h_credit(f->payload, f->len, &credit) == 0 && f->stream < STREAMS)
			fake.credit[f->stream] = credit.limit;
	} else if (f->row->type == GUEST_h_pace) {
		struct guest_h_pace pace;

		if (guest_get_h_pace(f->payload, f->len, &pace) == 0)
			fake.pause_us = pace.pause_us;
	} else if (f->row->type == GUEST_h_sync) {
		(void)guest_get_h_sync(f->payload, f->len, &fake.sync);
	} else if (f->row->type == GUEST_h_end) {
		guest_ends(box, f->run);
	} else if (f->row->type == GUEST_h_spec || f->row->type == GUEST_h_run) {
		if (f->len <= sizeof(fake.spec)) {
			memcpy(fake.spec, f->payload, f->len);
			fake.spec_len = f->len;
		}
		if (f->row->type == GUEST_h_run) {
			guest_confirms(box, f->seq);
			if (fake_box(box)->attach == at)
				guest_runs(at, f->run);
		}
	}
}

/* The guest answers from the loop, never from inside the write. */
static void
give_read(struct answer *a)
{
	struct attach *at = fake.box[a->index].attach;
	struct guest_frame f;
	size_t used;

	while (at && at == fake.box[a->index].attach && buf_len(&at->in) &&
	       guest_frame_parse(buf_data(&at->in), buf_len(&at->in), H2G, &f, &used) == 1) {
		static uint8_t payload[GUEST_PAYLOAD_MAX];

		if (f.len)
			memcpy(payload, f.payload, f.len);
		f.payload = payload;
		buf_consume(&at->in, used);
		guest_reads(at, &f);
	}
}

int
attach_send(struct attach *a, const void *p, size_t n)
{
	int r;

	if (fake.send_err)
		return fake.send_err;
	r = buf_append(&a->in, p, n);
	if (r < 0)
		return -ENOBUFS;
	fake_ask(OP_ATTACH, NULL, a->tag, give_read)->index = a->index;
	fake.calls[OP_ATTACH]--;
	return 0;
}

void
fake_guest_bytes(uint64_t box, int stream, const void *p, size_t n)
{
	struct attach *at = fake_box(box)->attach;

	if (at)
		at->handler.data(at->ctx, at->tag, stream, p, n);
}

void
fake_guest_frame(uint64_t box, enum guest_type type, uint8_t stream, uint32_t run, uint64_t seq,
		 const void *payload, size_t len)
{
	static uint8_t out[GUEST_FRAME_MAX];

	fake_guest_bytes(box, 1, out, guest_frame_write(out, type, stream, run, seq, payload, len));
}

uint64_t
fake_next_seq(uint64_t box)
{
	return ++fake_box(box)->attach->seq;
}

void
fake_guest_exit_of(uint64_t box, uint32_t run, const struct guest_g_exit *e)
{
	struct attach *at = fake_box(box)->attach;
	uint8_t payload[104];

	guest_put_g_exit(e, payload);
	fake_guest_frame(box, GUEST_g_exit, 0, run, ++at->seq, payload, sizeof(payload));
}

void
fake_guest_exit(uint64_t box, const struct guest_g_exit *e)
{
	fake_guest_exit_of(box, fake_box(box)->attach->run, e);
}

void
fake_guest_out(uint64_t box, uint32_t run, uint8_t stream, const void *p, size_t n)
{
	fake_guest_frame(box, GUEST_g_out, stream, run, fake_next_seq(box), p, n);
}

void
fake_die(uint64_t box)
{
	struct fake_container *c = fake_box(box);

	c->running = false;
	if (c->attach && c->attach->open)
		c->attach->handler.closed(c->attach->ctx, c->attach->tag, 0);
}
