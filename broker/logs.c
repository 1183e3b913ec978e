/*
 * broker/logs.c - a frontend reads what a run of its owner wrote.
 *
 * Runs in: bailey-broker.
 * Input: log_read rows of an untrusted frontend.
 * Owns: nothing.
 */
#include <string.h>

#include "broker.h"

#define READ_MAX (UINT32_C(1) << 20)
#define BUSY_RETRY_MS 1000u

/* Foreign, unknown and malformed ids get the same answer; its words are the frontend's. The owner
 * of a sandbox hears that this one has nothing to read. */
static void
not_found(const struct front *f, const struct ipc_log_read *m)
{
	const char *words = sandbox_is_of(f, &m->id)
				    ? "Nothing has run in this sandbox, or it is kept no longer."
				    : "";

	(void)link_send(f->link, IPC_ROW(log_end, .call = m->call, .status = RUN_not_found,
					 .message = IPC_STR(words)));
}

static void
send_end(struct link *l, uint64_t call, const struct store_facts *facts,
	 const struct store_extent *x)
{
	uint64_t now = clock_now_ms();
	uint64_t ended_ago = now > facts->ended_ms ? now - facts->ended_ms : 1;
	enum run_status status = facts->ended ? facts->end.status : RUN_running;

	(void)link_send(l, IPC_ROW(log_end, .call = call, .status = status,
				   .run_id = IPC_STR(facts->run_id),
				   .sandbox = IPC_STR(facts->sandbox),
				   .exit_code = facts->end.exit_code, .signal = facts->end.signal,
				   .cause = facts->end.cause, .started_ms = now - facts->started_ms,
				   .ended_ms = facts->ended ? ended_ago : 0, .written = x->written,
				   .head = x->head, .tail = x->tail,
				   .message = IPC_STR(run_status_advice(status))));
}

void
broker_on_log_read(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_log_read *m = &row->u.log_read;
	struct front *f = ctx;
	const struct store *s = f->b->store;
	struct store_extent x;
	struct store_facts facts;
	const uint8_t *p;
	uint32_t run = STORE_NONE;
	uint64_t at;
	char id[33];
	size_t n;

	if (m->limit > READ_MAX || m->from_end > 1 ||
	    (m->stream != STREAM_STDOUT && m->stream != STREAM_STDERR)) {
		front_drop(f, "log_read out of range");
		return;
	}
	/* A short row asks for much: those who do not read must not use up all memory. */
	if (fronts_unread(f->b) > FRONTS_UNREAD_MAX / 2) {
		front_refuse(f, m->call, RUN_busy, run_status_advice(RUN_busy), BUSY_RETRY_MS);
		return;
	}
	if (m->id.len == 32 && str_copy(id, sizeof(id), m->id.data, m->id.len) == 0)
		run = store_find(s, id, f->owner);
	if (run == STORE_NONE) {
		not_found(f, m);
		return;
	}
	store_extent(s, run, m->stream, &x);
	uint64_t offset = m->offset;
	if (m->from_end)
		offset = x.written > m->offset ? x.written - m->offset : 0;
	for (size_t left = m->limit; left > 0; left -= n, offset = at + n) {
		n = store_read(s, run, m->stream, offset, &at, &p);
		if (n == 0)
			break;
		n = n < left ? n : left;
		if (link_send(l, IPC_ROW(log_data, .call = m->call, .offset = at, .data = {p, n})) <
		    0)
			return; /* it is closing */
	}
	store_facts(s, run, &facts);
	send_end(l, m->call, &facts, &x);
}
