/*
 * tests/fakes/broker_world.c - see broker_world.h.
 * Runs in: unit tests. Input: the test. Owns: struct world.
 */
#include <string.h>

#include "test.h"

#include <event2/event.h>
#include <sys/mman.h>

#include "broker_world.h"

struct world *w;
uint64_t world_skew_ms;

uint64_t __real_clock_now_ms(void);
uint64_t __real_clock_now_us(void);
uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_now_ms(void);
uint64_t __wrap_clock_now_us(void);
uint64_t __wrap_clock_boot_ns(void);
void __wrap_counters_read(const struct counters *c, bool current, struct figures *ret);

uint64_t
__wrap_clock_now_ms(void)
{
	return __real_clock_now_ms() + world_skew_ms;
}

uint64_t
__wrap_clock_now_us(void)
{
	return __real_clock_now_us() + world_skew_ms * 1000;
}

uint64_t
__wrap_clock_boot_ns(void)
{
	return __real_clock_boot_ns() + world_skew_ms * 1000000;
}

void
__wrap_counters_read(const struct counters *c, bool current, struct figures *ret)
{
	(void)c;
	w->reaper.reads++;
	*ret = !w->reaper.figures ? (struct figures){.have = 0}
	       : current          ? w->reaper.baseline
				  : w->reaper.final;
}

/* ---- the reaper ---- */

void
reaper_says(const struct ipc_row *row)
{
	assert_int_equal(link_send(w->reaper.link, row), 0);
}

static void
reaper_kills(uint64_t box, uint32_t cause)
{
	struct fake_container *c = fake_box(box);

	w->reaper.last_cause = cause;
	if (!w->reaper.kill)
		return;
	if (c && c->running) {
		fake_die(box);
		reaper_says(IPC_ROW(watch_killed, .box = box, .cause = cause));
		if (w->reaper.autoremove)
			fake_event(box, ENGINE_EV_DESTROY);
	}
	if (w->reaper.remove && (!(c && c->removed) || box_find(&w->b, box)))
		reaper_says(IPC_ROW(order_remove, .box = box, .container = IPC_STR(c ? c->id : ""),
				    .name = IPC_STR("")));
}

static void
on_reaper_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct scripted_reaper *r = ctx;

	(void)l;
	r->rows[row->num]++;
	if (row->num == IPC_NUM_watch_intend) {
		r->last_box = row->u.watch_intend.box;
		if (r->intend)
			reaper_says(IPC_ROW(watch_ok, .box = r->last_box));
	} else if (row->num == IPC_NUM_watch_created) {
		if (row->u.watch_created.pid && r->held)
			reaper_says(IPC_ROW(watch_held, .box = row->u.watch_created.box,
					    .own_kill = 1));
	} else if (row->num == IPC_NUM_watch_deadline) {
		r->deadline_ns = row->u.watch_deadline.at_ns;
		r->deadlines++;
	} else if (row->num == IPC_NUM_watch_kill) {
		reaper_kills(row->u.watch_kill.box, row->u.watch_kill.cause);
	} else if (row->num == IPC_NUM_watch_claim) {
		struct fake_container *c = fake_box(row->u.watch_claim.box);
		uint8_t secret[32] = "as the ledger has it";

		if (r->keeps)
			reaper_says(IPC_ROW(watch_kept, .box = row->u.watch_claim.box,
					    .word = c ? KEPT_ALIVE : KEPT_UNKNOWN,
					    .name = IPC_STR(c ? c->name : ""),
					    .container = IPC_STR(c ? c->id : ""), .pid = 4000,
					    .own_kill = 1, .secret = {secret, sizeof(secret)}));
	} else if (row->num == IPC_NUM_watch_gone) {
		if (r->n_gone < ARRAY_LEN(r->gone))
			r->gone[r->n_gone++] = row->u.watch_gone.box;
	} else if (row->num == IPC_NUM_sweep_candidate) {
		r->candidates++;
		r->age_s = row->u.sweep_candidate.age_s;
	}
}

static const struct link_route reaper_routes[] = {
	{.num = IPC_NUM_watch_intend, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_created, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_deadline, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_kill, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_gone, .handler = on_reaper_row},
	{.num = IPC_NUM_sweep_candidate, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_stays, .handler = on_reaper_row},
	{.num = IPC_NUM_watch_claim, .handler = on_reaper_row},
};

static void
on_reaper_closed(void *ctx, struct link *l, int reason)
{
	struct scripted_reaper *r = ctx;

	(void)reason;
	if (r->link == l)
		link_free(TAKE(r->link));
}

void
reaper_connect(void)
{
	int fds[2];

	assert_int_equal(fd_seqpacket_pair(fds), 0);
	link_free(TAKE(w->reaper.link));
	w->reaper.config = (struct link_config){.self = IPC_REAPER,
						.peer = IPC_BROKER,
						.routes = reaper_routes,
						.n_routes = ARRAY_LEN(reaper_routes),
						.ctx = &w->reaper,
						.queue_max = 1u << 20,
						.on_closed = on_reaper_closed};
	w->reaper.link = link_new(w->base, fds[1], &w->reaper.config);
	assert_int_equal(orders_open(&w->b, fds[0]), 0);
}

/* ---- frontends ---- */

struct seen *
seen_of(struct client *c, uint64_t call)
{
	assert_true(call < ARRAY_LEN(c->seen));
	return &c->seen[call];
}

void
send_frame(struct client *c, uint64_t call, enum guest_type type, uint32_t stream, const void *p,
	   size_t n)
{
	(void)link_send(c->link, IPC_ROW(call_frame, .call = call, .type = type, .stream = stream,
					 .data = {p, n}));
}

static void
on_client_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct client *c = ctx;
	struct seen *s;

	(void)l;
	c->rows[row->num]++;
	if (row->num == IPC_NUM_call_granted) {
		s = seen_of(c, row->u.call_granted.call);
		s->granted = true;
		s->grants++;
		s->order = ++w->orders;
		s->grant = row->u.call_granted;
		(void)str_copy(s->sandbox, sizeof(s->sandbox), s->grant.sandbox.data,
			       s->grant.sandbox.len);
		c->grant_order[c->n_granted++] = row->u.call_granted.call;
		if (c->auto_run && !s->quiet)
			send_frame(c, s->grant.call, GUEST_h_run, 0, "code", 4);
	} else if (row->num == IPC_NUM_call_ended) {
		s = seen_of(c, row->u.call_ended.call);
		s->ended = true;
		s->ends++;
		s->end = row->u.call_ended;
		memcpy(s->message, row->u.call_ended.message.data, row->u.call_ended.message.len);
		if (s->end.guest.len)
			assert_int_equal(
				guest_get_g_exit(s->end.guest.data, s->end.guest.len, &s->exit), 0);
	} else if (row->num == IPC_NUM_run_frame) {
		s = seen_of(c, row->u.run_frame.call);
		if (s->out_bytes + row->u.run_frame.data.len < sizeof(s->out))
			memcpy(s->out + s->out_bytes, row->u.run_frame.data.data,
			       row->u.run_frame.data.len);
		s->out_bytes += row->u.run_frame.data.len;
	} else if (row->num == IPC_NUM_call_resumed) {
		s = seen_of(c, row->u.call_resumed.call);
		s->resumed = true;
		s->resume = row->u.call_resumed;
	} else if (row->num == IPC_NUM_health_engine) {
		c->engine = row->u.health_engine;
		memcpy(c->text, c->engine.message.data, c->engine.message.len);
		c->text[c->engine.message.len] = '\0';
	} else if (row->num == IPC_NUM_health_usage) {
		c->usage = row->u.health_usage;
	} else if (row->num == IPC_NUM_health_pool) {
		c->pool[row->u.health_pool.box_class] = row->u.health_pool;
	} else if (row->num == IPC_NUM_sandbox_row) {
		struct listed *one = &c->list[c->n_listed++ % ARRAY_LEN(c->list)];

		one->row = row->u.sandbox_row;
		(void)str_copy(one->id, sizeof(one->id), one->row.sandbox.data,
			       one->row.sandbox.len);
	} else if (row->num == IPC_NUM_list_end) {
		c->list_over = true;
	}
}

static const struct link_route client_routes[] = {
	{.num = IPC_NUM_call_granted, .handler = on_client_row},
	{.num = IPC_NUM_run_frame, .handler = on_client_row},
	{.num = IPC_NUM_call_resumed, .handler = on_client_row},
	{.num = IPC_NUM_call_ended, .handler = on_client_row},
	{.num = IPC_NUM_health_engine, .handler = on_client_row},
	{.num = IPC_NUM_health_pool, .handler = on_client_row},
	{.num = IPC_NUM_health_usage, .handler = on_client_row},
	{.num = IPC_NUM_health_layers, .handler = on_client_row},
	{.num = IPC_NUM_health_note, .handler = on_client_row},
	{.num = IPC_NUM_health_end, .handler = on_client_row},
	{.num = IPC_NUM_sandbox_row, .handler = on_client_row},
	{.num = IPC_NUM_list_end, .handler = on_client_row},
	{.num = IPC_NUM_log_data, .handler = on_client_row},
	{.num = IPC_NUM_log_end, .handler = on_client_row},
	{.num = IPC_NUM_auth_end, .handler = on_client_row},
	{.num = IPC_NUM_session_row, .handler = on_client_row},
};

static void
on_client_closed(void *ctx, struct link *l, int reason)
{
	struct client *c = ctx;

	(void)l;
	(void)reason;
	c->closed = true;
	link_free(TAKE(c->link));
}

struct client *
world_client(size_t i, enum owner_kind kind, uint64_t owner)
{
	struct client *c = &w->client[i];
	struct ipc_peer peer = {
		.role = IPC_FRONTEND, .peer_id = i + 1, .owner_kind = kind, .owner = owner};
	int fds[2];

	assert_int_equal(fd_seqpacket_pair(fds), 0);
	memset(c, 0, sizeof(*c));
	c->auto_run = true;
	c->config = (struct link_config){.self = IPC_FRONTEND,
					 .peer = IPC_BROKER,
					 .routes = client_routes,
					 .n_routes = ARRAY_LEN(client_routes),
					 .ctx = c,
					 .queue_max = 4u << 20,
					 .on_closed = on_client_closed};
	c->link = link_new(w->base, fds[1], &c->config);
	assert_int_equal(front_open(&w->b, &peer, fds[0]), 0);
	return c;
}

void
world_hang_up(struct client *c)
{
	link_free(TAKE(c->link));
}

uint64_t
submit_with(struct client *c, struct ipc_call_submit m)
{
	struct ipc_row row = {.num = IPC_NUM_call_submit};

	m.call = ++c->next_call;
	seen_of(c, m.call)->quiet = m.spec.len > 0 || (m.flags & CALL_STAYS);
	row.u.call_submit = m;
	(void)link_send(c->link, &row);
	return m.call;
}

uint64_t
submit_spec(struct client *c, enum box_class box_class, const char *spec)
{
	return submit_with(c,
			   (struct ipc_call_submit){.box_class = box_class,
						    .profile = IPC_STR(""),
						    .image = IPC_STR(""),
						    .spec = {(const uint8_t *)spec, strlen(spec)}});
}

uint64_t
submit(struct client *c, enum box_class box_class)
{
	return submit_with(c, (struct ipc_call_submit){.box_class = box_class,
						       .profile = IPC_STR(""),
						       .image = IPC_STR("")});
}

const char *
stay(struct client *c, uint32_t flags)
{
	uint64_t call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS | flags});

	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_true(seen_of(c, call)->granted);
	assert_int_equal(strlen(seen_of(c, call)->sandbox), 32);
	return seen_of(c, call)->sandbox;
}

uint64_t
submit_within(struct client *c, const char *sandbox, uint32_t flags, const char *spec)
{
	return submit_with(c,
			   (struct ipc_call_submit){.sandbox = IPC_STR(sandbox),
						    .flags = flags,
						    .spec = {(const uint8_t *)spec, strlen(spec)}});
}

static bool
list_is_over(void *arg)
{
	return ((struct client *)arg)->list_over;
}

size_t
listed(struct client *c)
{
	c->n_listed = 0;
	c->list_over = false;
	(void)link_send(c->link, IPC_ROW(sandbox_list, .call = ++c->next_call));
	assert_true(world_until(list_is_over, c));
	return c->n_listed;
}

/* ---- the world ---- */

void
world_turn(void)
{
	(void)event_base_loop(w->base, EVLOOP_NONBLOCK);
}

bool
world_until(bool (*done)(void *arg), void *arg)
{
	for (int i = 0; i < 200 + 10000; i++) {
		if (done(arg))
			return true;
		world_turn();
		if (i >= 200)
			clock_pass(1);
	}
	return done(arg);
}

void
world_settle(void)
{
	for (int i = 0; i < 200; i++)
		world_turn();
	for (int i = 0; i < 10000 && boxes_in(BOX_SPENT) > 0; i++) {
		clock_pass(1); /* its clean-up waits a moment */
		for (int k = 0; k < 50; k++)
			world_turn();
	}
}

void
world_later(uint64_t ms)
{
	world_skew_ms += ms;
	broker_tick(&w->b);
	world_settle();
}

struct waits {
	struct client *c;
	uint64_t call;
};

static bool
is_ended(void *arg)
{
	struct waits *x = arg;

	return seen_of(x->c, x->call)->ended;
}

static bool
is_granted(void *arg)
{
	struct waits *x = arg;

	return seen_of(x->c, x->call)->granted;
}

bool
ended(struct client *c, uint64_t call)
{
	struct waits x = {c, call};

	return world_until(is_ended, &x);
}

bool
granted(struct client *c, uint64_t call)
{
	struct waits x = {c, call};

	return world_until(is_granted, &x);
}

struct run *
run_of(struct client *c, uint64_t call)
{
	struct front *f;
	struct run *r;

	TAILQ_FOREACH(f, &w->b.fronts, entry)
	{
		if (f->peer_id != (uint64_t)(c - w->client) + 1)
			continue;
		r = front_run(f, call);
		if (r)
			return r;
	}
	return NULL;
}

size_t
boxes_in(enum box_state s)
{
	size_t cursor = 0, n = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj))
		n += ((struct box *)obj)->state == s;
	return n;
}

struct box *
box_in(enum box_state s)
{
	size_t cursor = 0;
	struct box *found = NULL;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj))
		if (((struct box *)obj)->state == s) {
			assert_null(found);
			found = obj;
		}
	return found;
}

struct warm {
	enum box_class c;
	uint32_t n;
};

static bool
is_warm(void *arg)
{
	const struct warm *x = arg;

	return pool_of(&w->b, profile_find("", 0), x->c)->n_ready >= x->n;
}

void
wait_warm(enum box_class c, uint32_t n)
{
	struct warm x = {c, n};

	assert_true(world_until(is_warm, &x));
}

int
world_setup(void **state)
{
	static const struct settings usual = {.instance = "0123456789abcdef0123456789abcdef",
					      .boot_id = "boot",
					      .user_hash = "user",
					      .tree_pid = 100,
					      .box_uid = 10001,
					      .box_gid = 10001,
					      .host_cpus = 4,
					      .timeout_ms = 10000,
					      .flags = SETTINGS_SAME_HOST | SETTINGS_REAPER_KILLS,
					      .host_memory_bytes = UINT64_C(64) << 30,
					      .share_dir = "/share",
					      .image = "bailey/sandbox:slim"};

	(void)state;
	log_init("test", LOG_L_ERROR);
	w = xcalloc(1, sizeof(*w));
	world_skew_ms = 0;
	w->base = event_base_new();
	fake_reset(w->base);
	assert_int_equal(broker_init(&w->b, w->base), 0);
	w->b.settings = usual;
	w->b.memory_max_bytes = w->b.owner_memory_max_bytes = UINT64_C(48) << 30;
	w->b.engine = engine_new(w->base, &w->b.engine_config);
	w->reaper = (struct scripted_reaper){.intend = true,
					     .held = true,
					     .figures = true,
					     .kill = true,
					     .remove = true,
					     .keeps = true,
					     .autoremove = true};
	w->reaper.baseline = (struct figures){.have = FIG_CPU | FIG_CURRENT | FIG_OOM | FIG_PIDS,
					      .cpu_us = 1000,
					      .current_bytes = 4096};
	w->reaper.final = (struct figures){.have = FIG_CPU | FIG_PEAK | FIG_OOM | FIG_PIDS,
					   .cpu_us = 3500,
					   .peak_bytes = 8192};
	reaper_connect();
	return 0;
}

void
world_remember(void)
{
	w->memory = memfd_create("memory", MFD_CLOEXEC);
	assert_int_equal(ftruncate(w->memory, KEEP_AT + (off_t)KEEP_BYTES), 0);
	assert_int_equal(keep_open(w->memory, KEEP_AT, &w->b.keep), 0);
	assert_int_equal(store_open(w->memory, &w->b.store), 0);
}

void
world_broker_dies(void)
{
	struct settings settings = w->b.settings;
	struct store *store = NULL;

	keep_close(TAKE(w->b.keep));
	store_close(TAKE(w->b.store));
	link_free(TAKE(w->reaper.link));
	broker_done(&w->b); /* tells its peers more than a kill would: they are made anew */
	for (size_t i = 0; i < ARRAY_LEN(w->client); i++)
		link_free(TAKE(w->client[i].link));
	world_turn();
	assert_int_equal(broker_init(&w->b, w->base), 0);
	w->b.settings = settings;
	w->b.memory_max_bytes = w->b.owner_memory_max_bytes = UINT64_C(48) << 30;
	w->b.engine = engine_new(w->base, &w->b.engine_config);
	assert_int_equal(keep_open(w->memory, KEEP_AT, &w->b.keep), 0);
	assert_int_equal(store_open(w->memory, &store), 0);
	w->b.store = store;
	reaper_connect();
	w->lost = tally_value(TALLY_RUNS + RUN_lost);
	adopt_all(&w->b);
	w->lost = tally_value(TALLY_RUNS + RUN_lost) - w->lost;
}

int
world_teardown(void **state)
{
	(void)state;
	broker_done(&w->b);
	if (w->memory)
		assert_int_equal(close(w->memory), 0);
	for (size_t i = 0; i < ARRAY_LEN(w->client); i++)
		link_free(TAKE(w->client[i].link));
	link_free(TAKE(w->reaper.link));
	link_free(TAKE(w->supervisor));
	fake_reset(NULL);
	event_base_free(w->base);
	free(w);
	w = NULL;
	return 0;
}
