/*
 * tests/fuzz/broker_fuzz.c - a broker core between an owned frontend and hostile guests: rows,
 * frames and bytes of any content and order, while engine, reaper and clock do what they like. Runs
 * in: ctest (replay), libFuzzer. Input: fuzzed; the first byte says how the world is, then one act
 * a byte with what it needs. Owns: one world of broker_world.h per input.
 *
 * Beside what the sanitizers see, every count is compared with what it counts: what is not counted
 * down is somebody's place for ever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/event.h>

#include "broker_world.h"
#include "fake_parts.h"

#define CLIENTS 3u
#define ACTS_MAX 400u
#define BYTES_MAX 600u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __wrap_fatal(const char *fmt, ...) __attribute__((noreturn));

/* Nothing that comes from outside may end a broker. */
void
__wrap_fatal(const char *fmt, ...)
{
	log_error("%s", fmt);
	abort();
}

static const uint8_t *at, *end;
static uint8_t filler[BYTES_MAX];

static uint32_t
byte(void)
{
	return at < end ? *at++ : 0;
}

/* Mostly small ones, and those where a sum could turn over. */
static uint64_t
number(void)
{
	static const uint64_t edges[] = {UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63, 262144,
					 1048576};
	uint32_t first = byte();

	if (first < 192)
		return first;
	if (first < 224)
		return (uint64_t)byte() << (first - 192);
	return edges[first % ARRAY_LEN(edges)] - byte();
}

static struct ipc_bin
bytes(size_t most)
{
	size_t n = byte() * 3u, have = (size_t)(end - at);

	n = n > most ? most : n;
	n = n > BYTES_MAX ? BYTES_MAX : n;
	memset(filler, 'x', n);
	if (have > 0 && n > 0)
		memcpy(filler, at, n < have ? n : have);
	at += n < have ? n : have;
	return (struct ipc_bin){filler, n};
}

/* ---- picks ---- */

static void *
nth(struct idmap *m, uint32_t n)
{
	size_t cursor = 0;
	void *obj, *found = NULL;

	while (idmap_next(m, &cursor, NULL, &obj)) {
		found = obj;
		if (n-- == 0)
			break;
	}
	return found;
}

static struct ipc_str
sandbox_id(void)
{
	uint32_t n = byte();
	struct sandbox *s;

	if (n >= 240)
		return n == 255 ? IPC_STR("") : IPC_STR("0123456789abcdef0123456789abcdef");
	TAILQ_FOREACH(s, &w->b.sandboxes.live, entry)
	if (n-- == 0)
		return (struct ipc_str){s->id, 32};
	s = TAILQ_FIRST(&w->b.sandboxes.ended);
	if (!s)
		s = TAILQ_FIRST(&w->b.sandboxes.live);
	return s ? (struct ipc_str){s->id, 32} : IPC_STR("");
}

static struct ipc_str
run_id(void)
{
	struct run *r = nth(w->b.runs, byte());

	return r ? (struct ipc_str){r->run_id, 32} : IPC_STR("0123456789abcdef0123456789abcdef");
}

static uint64_t
call_of(struct client *c)
{
	uint32_t back = byte();

	if (back >= 250)
		return number();
	return back <= c->next_call ? c->next_call - back : c->next_call;
}

static void
send_row(struct client *c, const struct ipc_row *row)
{
	if (c->link)
		(void)link_send(c->link, row);
}

static uint64_t
next_call(struct client *c)
{
	if (c->next_call < ARRAY_LEN(c->seen) - 2)
		c->next_call++;
	return c->next_call;
}

/* ---- acts of a frontend ---- */

static void
act_submit(struct client *c)
{
	struct ipc_row row = {.num = IPC_NUM_call_submit};
	struct ipc_call_submit *m = &row.u.call_submit;
	uint32_t shape = byte();

	*m = (struct ipc_call_submit){.call = next_call(c),
				      .box_class = byte() % 4,
				      .profile = shape & 1 ? IPC_STR("build") : IPC_STR(""),
				      .image = IPC_STR(""),
				      .timeout_ms = (uint32_t)number(),
				      .flags = byte(),
				      .tag = shape & 2 ? IPC_STR("tag") : IPC_STR("")};
	if (shape & 4)
		m->memory_bytes = number() << 20;
	if (shape & 8)
		m->cpus_milli = (uint32_t)number() * 100;
	if (shape & 16)
		m->sandbox = sandbox_id();
	if (shape & 32)
		m->flags = m->sandbox.len ? 0 : CALL_STAYS | (m->flags & (CALL_KEEP | CALL_HOLD));
	if (shape & 64)
		m->ttl_s = (uint32_t)number();
	if (shape & 128 && !(m->flags & CALL_STAYS))
		m->spec = bytes(500);
	send_row(c, &row);
}

static void
act_frame(struct client *c)
{
	static const uint8_t types[] = {GUEST_h_spec,      GUEST_h_run, GUEST_h_stdin,
					GUEST_h_stdin_eof, GUEST_h_run, GUEST_h_credit,
					GUEST_h_ping,      GUEST_h_sync};
	uint64_t call = call_of(c);
	uint32_t type = byte(), stream = byte() % 5;
	uint8_t payload[8];
	struct ipc_bin data;

	type = type < 200 ? types[type % ARRAY_LEN(types)] : type;
	if (type == GUEST_h_credit) {
		struct guest_h_credit credit = {.limit = number()};

		guest_put_h_credit(&credit, payload);
		data = (struct ipc_bin){payload, sizeof(payload)};
	} else {
		data = bytes(500);
	}
	send_row(c,
		 IPC_ROW(call_frame, .call = call, .type = type, .stream = stream, .data = data));
}

static void
act_resume(struct client *c)
{
	struct ipc_row row = {.num = IPC_NUM_call_resume};
	struct ipc_call_resume *m = &row.u.call_resume;

	*m = (struct ipc_call_resume){.call = next_call(c),
				      .run_id = run_id(),
				      .sandbox = sandbox_id(),
				      .out1 = number(),
				      .out2 = number(),
				      .tail1 = number(),
				      .credit1 = number(),
				      .credit2 = number(),
				      .credit3 = number()};
	send_row(c, &row);
}

static void
act_ask(struct client *c)
{
	switch (byte() % 10) {
	case 0:
		send_row(c, IPC_ROW(health_query, .call = next_call(c)));
		break;
	case 1:
		send_row(c, IPC_ROW(warm_hint, ));
		break;
	case 2:
		send_row(c, IPC_ROW(sandbox_list, .call = next_call(c)));
		break;
	case 3:
		send_row(c,
			 IPC_ROW(sandbox_destroy, .call = next_call(c), .sandbox = sandbox_id()));
		break;
	case 4:
		send_row(c, IPC_ROW(log_read, .call = next_call(c), .id = run_id(),
				    .stream = 1 + byte() % 3, .from_end = byte() % 2,
				    .offset = number(), .limit = (uint32_t)number()));
		break;
	case 5:
		send_row(c, IPC_ROW(token_check, .call = next_call(c),
				    .token = {(const uint8_t *)"token", byte() % 2 ? 5u : 4u}));
		break;
	case 6:
		send_row(c, IPC_ROW(session_open, .call = next_call(c), .rev = byte()));
		break;
	case 7: {
		const struct auth_session *s = TAILQ_FIRST(&w->b.auth.sessions);

		send_row(c, IPC_ROW(session_check, .call = next_call(c),
				    .session = IPC_STR(s ? s->id : ""), .close = byte() % 2));
		break;
	}
	case 8:
		send_row(c, IPC_ROW(cancel_tag, .tag = IPC_STR("tag")));
		break;
	default:
		send_row(c, IPC_ROW(call_cancel, .call = call_of(c)));
		break;
	}
}

static void
act_packet(struct client *c)
{
	struct ipc_bin data = bytes(BYTES_MAX);

	if (c->link)
		(void)send(link_fd(c->link), data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
connect_again(size_t i)
{
	static const enum owner_kind kinds[CLIENTS] = {OWNER_UID, OWNER_UID, OWNER_TOKEN};

	if (w->client[i].link)
		world_hang_up(&w->client[i]);
	for (int k = 0; k < 5; k++)
		world_turn();
	world_client(i, kinds[i], 1 + i)->auto_run = byte() % 4 != 0;
}

/* ---- acts of a guest ---- */

static void
act_guest_frame(struct fake_container *c)
{
	static const uint8_t types[] = {GUEST_g_out,    GUEST_g_out,    GUEST_g_exit,
					GUEST_g_credit, GUEST_g_tail,   GUEST_g_ack,
					GUEST_g_pong,   GUEST_g_stands, GUEST_g_sync_ack,
					GUEST_g_hello,  GUEST_g_ready};
	uint32_t type = types[byte() % ARRAY_LEN(types)], pick = byte(), stream = byte() % 4;
	struct box *x = box_find(&w->b, c->spec.label.box);
	uint32_t run = pick < 16 && x ? x->session.run[pick].number : pick;
	const struct guest_row *row = guest_row(type);
	uint64_t seq = row->sequenced ? c->attach->seq + 1 : 0;
	static uint8_t payload[BYTES_MAX];
	struct guest_g_credit credit;
	struct ipc_bin data;

	if (byte() == 255)
		seq = number();
	if (type == GUEST_g_ack || type == GUEST_g_credit) {
		credit.limit = number();
		guest_put_g_credit(&credit, payload);
		data = (struct ipc_bin){payload, 8};
	} else if (type == GUEST_g_stands) {
		struct guest_g_stands m = {.received = number()};

		m.granted = number();
		m.ordered = byte() % 2;
		m.closed = byte() % 2;

		guest_put_g_stands(&m, payload);
		data = (struct ipc_bin){payload, 24};
	} else if (type == GUEST_g_sync_ack) {
		struct guest_g_sync_ack m = {.last_host_seq = number()};

		memcpy(m.nonce, fake.sync.nonce, sizeof(m.nonce));
		guest_put_g_sync_ack(&m, payload);
		data = (struct ipc_bin){payload, 24};
	} else {
		data = bytes(BYTES_MAX);
		memcpy(payload, data.data, data.len);
		data.data = payload;
		if (row->min == row->max) {
			memset(payload + data.len, 0, sizeof(payload) - data.len);
			data.len = row->min;
		}
	}
	if (row->sequenced)
		c->attach->seq = seq;
	fake_guest_frame(c->spec.label.box, (enum guest_type)type, (uint8_t)stream, run, seq,
			 data.data, data.len);
}

static void
act_guest(void)
{
	uint32_t n = byte(), what = byte();
	struct fake_container *c = NULL;
	struct ipc_bin data;

	for (size_t i = 0; i < fake.n_boxes; i++) {
		if (fake.box[i].removed || !fake.box[i].attach || !fake.box[i].attach->open)
			continue;
		c = &fake.box[i];
		if (n-- == 0)
			break;
	}
	if (!c)
		return;
	if (what < 200) {
		act_guest_frame(c);
	} else if (what < 220) {
		data = bytes(BYTES_MAX);
		fake_guest_bytes(c->spec.label.box, 1 + (int)(what % 2), data.data, data.len);
	} else if (what < 230) {
		fake_die(c->spec.label.box);
	} else {
		fake_event(c->spec.label.box, what % 2 ? ENGINE_EV_OOM : ENGINE_EV_DESTROY);
	}
}

/* ---- acts of the others ---- */

static void
act_engine(void)
{
	uint32_t what = byte(), op = byte() % OPS;
	static const int errors[] = {-ENOENT, -ENOTCONN, -ETIMEDOUT, -EIO, -EEXIST, -EPERM};

	if (op == OP_EVENTS && w->b.probe.watching)
		fake_gap();
	else if (what % 3 == 0)
		fake_fail((enum fake_op)op, errors[what / 3 % ARRAY_LEN(errors)],
			  what % 2 ? 404 : 0, "no such container", 1 + what / 64);
	else if (what % 3 == 1)
		fake.hold[op] = op != OP_ATTACH;
	else
		fake_release((enum fake_op)op);
}

static void
act_reaper(void)
{
	uint32_t what = byte() % 8;
	struct box *x = nth(w->b.boxes, byte());

	if (what == 0) {
		link_free(TAKE(w->reaper.link));
	} else if (what == 1) {
		reaper_connect();
	} else if (what == 2) {
		w->reaper.kill = byte() % 2;
		w->reaper.intend = byte() % 4 != 0;
		w->reaper.keeps = byte() % 2;
	} else if (x && w->reaper.link && what < 5) {
		(void)link_send(w->reaper.link,
				IPC_ROW(watch_killed, .box = x->id, .cause = byte() % 16));
	} else if (x && w->reaper.link) {
		struct fake_container *c = fake_box(x->id);

		(void)link_send(w->reaper.link, IPC_ROW(order_remove, .box = x->id,
							.container = IPC_STR(c ? c->id : ""),
							.name = IPC_STR(x->spec->name)));
	}
}

static void
act_time(void)
{
	uint64_t ms = number();

	ms = ms > 100000 ? 100000 : ms;
	world_skew_ms += ms;
	clock_pass(ms > 5000 ? 5000 : ms);
	if (byte() % 2)
		broker_tick(&w->b);
}

static void
act_death(void)
{
	if (!w->memory || !w->b.keep)
		return;
	world_skew_ms += 10; /* a start takes longer, and numbers of boxes count on that */
	for (size_t i = 0; i < OPS; i++)
		fake.hold[i] = false;
	fake_release(OP_PROBE);
	for (int i = 0; i < 60; i++)
		world_turn();
	world_broker_dies();
	for (size_t i = 0; i < CLIENTS; i++)
		if (byte() % 4)
			connect_again(i);
}

static void
act(void)
{
	uint32_t what = byte(), i = what / 16 % CLIENTS;
	struct client *c = &w->client[i];

	switch (what % 16) {
	case 0:
	case 1:
	case 2:
		act_submit(c);
		break;
	case 3:
	case 4:
		act_frame(c);
		break;
	case 5:
		act_ask(c);
		break;
	case 6:
		act_resume(c);
		break;
	case 7:
	case 8:
	case 9:
		act_guest();
		break;
	case 10:
		act_engine();
		break;
	case 11:
		act_reaper();
		break;
	case 12:
		act_time();
		break;
	case 13:
		if (what > 200)
			act_death();
		else if (what > 100)
			act_packet(c);
		break;
	case 14:
		connect_again(i);
		break;
	default:
		for (int k = 0; k < 20; k++)
			world_turn();
		break;
	}
	world_turn();
	world_turn();
}

/* ---- counts ---- */

static void
must(bool holds)
{
	if (!holds)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ipc_token token = {.principal = {"one", 3}};
	struct ipc_token row = token;
	uint8_t hash[32];
	uint32_t how;

	at = data;
	end = data + size;
	how = byte();
	(void)world_setup(NULL);
	log_init("fuzz", LOG_L_ERROR);
	w->b.memory_max_bytes = how & 1 ? UINT64_C(3) << 30 : UINT64_C(48) << 30;
	w->b.owner_memory_max_bytes = w->b.memory_max_bytes / 2;
	if (how & 2)
		world_remember();
	if (how & 4)
		w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = how & 8;
	fake.guest.obeys = how & 16;
	sha256("token", 5, hash);
	row.hash = (struct ipc_bin){hash, sizeof(hash)};
	must(auth_on_token(&w->b, &row) == 0);
	must(auth_on_tokens_end(&w->b, &(struct ipc_tokens_end){.count = 1}) == 0);
	for (size_t i = 0; i < CLIENTS; i++)
		connect_again(i);
	for (uint32_t n = 0; at < end && n < ACTS_MAX && !event_base_got_break(w->base); n++) {
		act();
		world_check_counts();
	}
	(void)world_teardown(NULL);
	return 0;
}
