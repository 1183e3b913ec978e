/* Sandboxes that stay: made, used, listed, and ended in every way there is. */
#include "test.h"

#include "broker_world.h"

/* Within its sandbox the run goes on until the test ends it. */
static uint64_t
begin(struct client *c, const char *id)
{
	uint64_t call = submit_within(c, id, 0, "code");

	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(run_of(c, call)->phase, PHASE_ACTIVE);
	return call;
}

static struct seen *
refused(struct client *c, uint64_t call)
{
	assert_true(ended(c, call));
	assert_false(seen_of(c, call)->granted);
	return seen_of(c, call);
}

static uint64_t
destroy(struct client *c, const char *id)
{
	uint64_t call = ++c->next_call;

	(void)link_send(c->link, IPC_ROW(sandbox_destroy, .call = call, .sandbox = IPC_STR(id)));
	assert_true(ended(c, call));
	return call;
}

static void
test_made_of_a_warm_shell_and_used_twice(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const struct ipc_call_granted *g;
	const char *id;
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	id = stay(c, 0);
	g = &seen_of(c, 1)->grant;
	assert_int_equal(g->start, START_WARM);
	assert_int_equal(box_in(BOX_STAYS)->lifetime_s, 7200); /* it may have waited before */
	assert_true(g->ttl_ms <= 3600000 && g->ttl_ms > 3600000 - 60000); /* time goes on */
	assert_int_equal(g->idle_ms, 600000);
	assert_int_equal(g->memory_bytes, box_in(BOX_STAYS)->limits.memory_bytes);
	fake.guest.out = "hello\n";
	call = submit_within(c, id, 0, "first");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->out_bytes, 6);
	assert_int_equal(seen_of(c, call)->end.have, FIG_CPU); /* no peak: it might be another's */
	assert_int_equal(seen_of(c, call)->end.cpu_us, 2500);
	assert_string_equal(seen_of(c, call)->sandbox, id);
	assert_true(seen_of(c, call)->grant.ttl_ms <= 3600000);
	assert_int_equal(fake.last_run, 1);
	w->reaper.final.cpu_us += 40;
	call = submit_within(c, id, 0, "second");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.cpu_us, 40); /* since the first one's end */
	assert_int_equal(fake.last_run, 2);
	world_settle();
	assert_int_equal(boxes_in(BOX_STAYS), 1);
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_kill], 0);
	assert_int_equal(w->b.in_flight, 0);
	assert_int_equal(idmap_count(w->b.runs), 0);
}

static void
test_two_runs_at_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t box = box_in(BOX_STAYS)->id, one, two;

	(void)state;
	fake.guest.exit = false;
	one = begin(c, id);
	two = begin(c, id);
	fake_guest_out(box, 1, STREAM_STDOUT, "one", 3);
	fake_guest_out(box, 2, STREAM_VALUE, "seven!!", 7);
	fake_guest_exit_of(box, 2, &fake.guest.result);
	assert_true(ended(c, two));
	assert_false(seen_of(c, one)->ended);
	fake_guest_out(box, 1, STREAM_STDERR, "more", 4);
	fake_guest_exit_of(box, 1, &fake.guest.result);
	assert_true(ended(c, one));
	assert_int_equal(seen_of(c, one)->out_bytes, 7);
	assert_int_equal(seen_of(c, two)->out_bytes, 7);
	assert_int_equal(seen_of(c, one)->end.have, 0); /* nobody can tell them apart */
	assert_int_equal(seen_of(c, two)->end.have, 0);
	fake.guest.exit = true;
	one = submit_within(c, id, 0, "alone again");
	assert_true(ended(c, one));
	assert_int_equal(seen_of(c, one)->end.have, FIG_CPU);
}

static void
test_background(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, CALL_KEEP);
	struct box *x = box_in(BOX_STAYS);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit_within(c, id, CALL_BACKGROUND, "serve");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_running);
	assert_true(seen_of(c, call)->granted);
	assert_int_equal(seen_of(c, call)->grant.timeout_ms, 0);
	world_settle();
	assert_int_equal(fake.last_run, 1);
	assert_int_equal(w->b.in_flight, 0); /* nobody waits for it */
	assert_int_equal(idmap_count(w->b.runs), 1);
	for (int i = 0; i < 64; i++) { /* far past the first window: the broker grants */
		fake_guest_out(x->id, 1, STREAM_STDOUT, chunk, sizeof(chunk));
		world_turn();
	}
	assert_int_equal(x->state, BOX_STAYS);
	assert_true(fake.credit[STREAM_STDOUT] >= 64 * sizeof(chunk));
	assert_int_equal(seen_of(c, call)->out_bytes, 0);
	world_hang_up(c);
	world_later(700000); /* longer than it may be idle: but it is not */
	assert_int_equal(x->state, BOX_STAYS);
	assert_int_equal(w->reaper.deadlines, 0);
	fake_guest_exit_of(x->id, 1, &fake.guest.result);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	world_later(599000);
	assert_int_equal(x->state, BOX_STAYS);
	world_later(2000);
	assert_int_equal(boxes_in(BOX_STAYS), 0);
	assert_int_equal(w->reaper.last_cause, CAUSE_IDLE);
}

static void
test_background_with_a_timeout(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit_with(c, (struct ipc_call_submit){.sandbox = IPC_STR(id),
						       .flags = CALL_BACKGROUND,
						       .timeout_ms = 5000});
	assert_true(ended(c, call)); /* by its RUN frame, which the client sends after the grant */
	assert_int_equal(seen_of(c, call)->grant.timeout_ms, 5000);
	assert_int_not_equal(TAILQ_FIRST(&box_in(BOX_STAYS)->runs)->deadline_ns, 0);
}

static void
test_idle_and_then_forgotten(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS, .idle_s = 60});
	const char *id;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	assert_true(ended(c, call));
	id = seen_of(c, call)->sandbox;
	assert_int_equal(seen_of(c, call)->grant.idle_ms, 60000);
	world_later(50000);
	assert_true(ended(c, submit_within(c, id, 0, "use")));
	world_later(50000); /* since the use */
	assert_int_equal(boxes_in(BOX_STAYS), 1);
	world_later(11000);
	assert_int_equal(boxes_in(BOX_STAYS), 0);
	assert_int_equal(w->reaper.last_cause, CAUSE_IDLE);
	sandbox_tick(&w->b, clock_now_ms() - 1); /* a tick that began before that end */
	call = submit_within(c, id, 0, "late");
	assert_int_equal(refused(c, call)->end.status, RUN_not_found);
	assert_non_null(strstr(seen_of(c, call)->message, "idle"));
	world_later(SANDBOX_ENDED_MS);
	call = submit_within(c, id, 0, "later");
	assert_int_equal(refused(c, call)->end.status, RUN_not_found);
	assert_string_equal(seen_of(c, call)->message, "");
	assert_int_equal(idmap_count(w->b.sandboxes.by_id), 0);
}

static void
test_lifetime_ends_what_is_in_use(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS, .ttl_s = 5});
	assert_true(ended(c, call));
	assert_true(seen_of(c, call)->grant.ttl_ms <= 5000 && seen_of(c, call)->grant.ttl_ms > 0);
	fake.guest.exit = false;
	call = begin(c, seen_of(c, call)->sandbox);
	world_later(5100);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	assert_non_null(strstr(seen_of(c, call)->message, "lifetime"));
	assert_int_equal(w->reaper.last_cause, CAUSE_LIFETIME);
}

static void
test_longer_than_a_waiting_box_lives(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS, .ttl_s = 28800});
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	assert_int_equal(box_in(BOX_STAYS)->lifetime_s, 28800 + SANDBOX_START_S);
	call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS, .ttl_s = 28801});
	assert_int_equal(refused(c, call)->end.status, RUN_denied);
	assert_non_null(strstr(seen_of(c, call)->message, "ttl_seconds"));
	call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS, .idle_s = 28801});
	assert_int_equal(refused(c, call)->end.status, RUN_denied);
	assert_non_null(strstr(seen_of(c, call)->message, "idle_timeout_seconds"));
}

static void
test_destroyed_with_its_runs(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t call, other, gone;

	(void)state;
	fake.guest.exit = false;
	call = begin(c, id);
	other = submit_within(c, id, CALL_BACKGROUND, "serve");
	assert_true(ended(c, other));
	gone = destroy(c, id);
	assert_int_equal(seen_of(c, gone)->end.status, RUN_ok);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost); /* cancelled has no answer */
	assert_non_null(strstr(seen_of(c, call)->message, "destroyed"));
	assert_int_equal(seen_of(c, other)->ends, 1);
	assert_int_equal(w->reaper.last_cause, CAUSE_DESTROYED);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(TAILQ_FIRST(&w->b.fronts)->owner->boxes, 0);
	gone = destroy(c, id);
	assert_int_equal(seen_of(c, gone)->end.status, RUN_not_found);
	assert_non_null(strstr(seen_of(c, gone)->message, "destroyed"));
}

/* Another's, unknown and no id at all: one answer. */
static void
test_foreign_ids(void **state)
{
	static const char *const ids[] = {"00000000000000000000000000000000",
					  "0123456789abcdef0123456789abcdef", "x", "../../etc",
					  "0123456789abcdef0123456789abcdeg"};
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	const char *id = stay(a, 0);
	char near[33];
	uint64_t call;

	(void)state;
	call = submit_within(b, id, 0, "code");
	assert_int_equal(refused(b, call)->end.status, RUN_not_found);
	assert_string_equal(seen_of(b, call)->message, "");
	assert_int_equal(seen_of(b, destroy(b, id))->end.status, RUN_not_found);
	assert_int_equal(listed(b), 0);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		call = submit_within(b, ids[i], 0, "code");
		assert_int_equal(refused(b, call)->end.status, RUN_not_found);
		assert_string_equal(seen_of(b, call)->message, "");
		assert_int_equal(seen_of(b, destroy(b, ids[i]))->end.status, RUN_not_found);
	}
	(void)str_copy(near, sizeof(near), id, 32); /* only its second half differs */
	near[31] = near[31] == '0' ? '1' : '0';
	assert_int_equal(refused(a, submit_within(a, near, 0, "x"))->end.status, RUN_not_found);
	assert_int_equal(seen_of(a, destroy(a, id))->end.status, RUN_ok);
	assert_int_equal(seen_of(b, destroy(b, id))->end.status, RUN_not_found);
	assert_string_equal(seen_of(b, b->next_call)->message, ""); /* nor why it ended */
	assert_false(b->closed);
}

static void
test_at_most_so_many_runs(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t first = 0, call;

	(void)state;
	fake.guest.exit = false;
	for (unsigned int i = 0; i < GUEST_RUNS_MAX; i++) {
		call = begin(c, id);
		first = first ? first : call;
	}
	call = submit_within(c, id, 0, "one more");
	assert_int_equal(refused(c, call)->end.status, RUN_busy);
	assert_true(seen_of(c, call)->end.retry_ms > 0);
	fake_guest_exit_of(box_in(BOX_STAYS)->id, 1, &fake.guest.result);
	assert_true(ended(c, first));
	(void)begin(c, id);
}

static struct front *
newest(void)
{
	struct front *f, *last = NULL;

	TAILQ_FOREACH(f, &w->b.fronts, entry)
	last = f;
	return last;
}

/* The cap is full of what stays: no use in waiting. */
static void
test_crowded(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1), *other = world_client(1, OWNER_UID, 2);
	uint64_t call, many = w->b.memory_max_bytes;
	const char *id = NULL;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (unsigned int i = 0; i < OWNER_BOXES_MAX; i++)
		id = stay(c, 0);
	for (int i = 0; i < 2; i++) {
		call = submit_with(c, (struct ipc_call_submit){.flags = i ? CALL_STAYS : 0});
		assert_int_equal(refused(c, call)->end.status, RUN_busy);
		assert_non_null(strstr(seen_of(c, call)->message, "Destroy one"));
		assert_true(seen_of(c, call)->end.retry_ms > 0);
	}
	assert_true(ended(other, submit(other, BOX_SHELL)));
	assert_int_equal(seen_of(other, 1)->end.status, RUN_ok);
	(void)destroy(c, id);
	id = stay(c, 0);
	w->b.memory_max_bytes = w->b.sandboxes.memory_bytes + (UINT64_C(512) << 20) - 1;
	call = submit(other, BOX_SHELL);
	assert_int_equal(refused(other, call)->end.status, RUN_busy);
	assert_non_null(strstr(seen_of(other, call)->message, "memory"));
	w->b.memory_max_bytes = many;
	(void)destroy(c, id);
	assert_int_equal(w->b.sandboxes.memory_bytes,
			 (OWNER_BOXES_MAX - 1) * (UINT64_C(512) << 20));
}

static bool
no_box(void *arg)
{
	(void)arg;
	return idmap_count(w->b.boxes) == 0;
}

/* What the end of the connection that made it means, by whose it is. */
static void
test_end_of_the_connection(void **state)
{
	static const struct {
		enum owner_kind kind;
		uint32_t flags;
		bool stays;
	} rows[] = {
		{OWNER_TREE, 0, false},       {OWNER_UID, 0, false},
		{OWNER_UID, CALL_KEEP, true}, {OWNER_UID, CALL_HOLD, false},
		{OWNER_TOKEN, 0, true},       {OWNER_TOKEN, CALL_HOLD, false},
	};

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct client *c = world_client(0, rows[i].kind, i), *again;
		char id[33];
		uint64_t call;

		if (rows[i].kind == OWNER_TOKEN)
			assert_int_equal(owner_bind(newest(), "alice"), 0);
		fake.guest.exit = false;
		(void)str_copy(id, sizeof(id), stay(c, rows[i].flags), 32);
		call = begin(c, id);
		world_hang_up(c);
		world_settle();
		assert_int_equal(idmap_count(w->b.runs), 0); /* the run ends with it in any case */
		assert_int_equal(boxes_in(BOX_STAYS), rows[i].stays);
		if (!rows[i].stays)
			assert_int_equal(w->reaper.last_cause, CAUSE_OWNER_GONE);
		again = world_client(0, rows[i].kind, i);
		if (rows[i].kind == OWNER_TOKEN)
			assert_int_equal(owner_bind(newest(), "alice"), 0);
		fake.guest.exit = true;
		call = submit_within(again, id, 0, "code");
		assert_true(ended(again, call));
		assert_int_equal(seen_of(again, call)->end.status,
				 rows[i].stays ? RUN_ok : RUN_not_found);
		if (rows[i].stays)
			(void)destroy(again, id);
		world_hang_up(again);
		assert_true(world_until(no_box, NULL));
	}
}

static void
test_listing(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1), *other = world_client(1, OWNER_UID, 1);
	const char *one = stay(c, CALL_KEEP), *two;
	const struct ipc_sandbox_row *row = &other->list[0].row;

	(void)state;
	world_later(3000);
	two = stay(c, 0);
	(void)stay(c, CALL_HOLD);
	fake.guest.exit = false;
	(void)begin(c, one);
	assert_int_equal(listed(other), 2); /* the same owner's, and no held one */
	assert_string_equal(other->list[0].id, one);
	assert_string_equal(other->list[1].id, two);
	assert_int_equal(row->alive, 1);
	assert_int_equal(row->keep, 1);
	assert_int_equal(row->runs, 1);
	assert_int_equal(row->idle_ms, 0);
	assert_true(row->age_ms >= 3000);
	assert_true(row->ttl_ms <= 3600000 - 3000);
	assert_int_equal(row->idle_limit_ms, 600000);
	assert_int_equal(row->memory_bytes, UINT64_C(512) << 20);
	assert_int_equal(row->cpus_milli, 1000);
	(void)destroy(other, one);
	world_later(1000);
	assert_int_equal(listed(c), 2);
	row = &c->list[1].row;
	assert_string_equal(c->list[1].id, one);
	assert_int_equal(row->alive, 0);
	assert_int_equal(row->cause, CAUSE_DESTROYED);
	assert_true(row->ended_ms >= 1000);
	assert_int_equal(row->runs, 0);
}

static void
test_held_for_one_call(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_PYTHON, 2);
	call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS | CALL_HOLD,
						       .box_class = BOX_PYTHON});
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_int_equal(box_in(BOX_STAYS)->box_class, BOX_PYTHON);
	assert_true(box_in(BOX_STAYS)->prestart);
	call = submit_within(c, seen_of(c, call)->sandbox, CALL_STEP, "code");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	call = submit_with(c,
			   (struct ipc_call_submit){.flags = CALL_STAYS, .box_class = BOX_PYTHON});
	assert_true(ended(c, call)); /* without HOLD it is a shell whatever was said */
	assert_int_equal(TAILQ_LAST(&w->b.sandboxes.live, sandbox_list)->box->box_class, BOX_SHELL);
}

/* Ended in great number: remembered up to a bound. */
static void
test_memory_of_ends_is_bounded(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1), *other = world_client(1, OWNER_UID, 2);
	char first[33] = "", others[33] = "";

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)str_copy(others, sizeof(others), stay(other, 0), 32); /* the oldest end of all */
	(void)destroy(other, others);
	for (unsigned int i = 0; i < SANDBOX_ENDED_MAX + 2; i++) {
		const char *id = stay(c, 0);
		if (i == 0)
			(void)str_copy(first, sizeof(first), id, 32);
		assert_int_equal(seen_of(c, destroy(c, id))->end.status, RUN_ok);
		world_turn();
	}
	assert_int_equal(w->b.sandboxes.n_ended, SANDBOX_ENDED_MAX);
	assert_string_equal(refused(c, submit_within(c, first, 0, "x"))->message, "");
	assert_string_not_equal(refused(other, submit_within(other, others, 0, "x"))->message, "");
}

static void
test_death_of_the_box(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t one, two;

	(void)state;
	fake.guest.exit = false;
	one = begin(c, id);
	two = begin(c, id);
	fake_die(box_in(BOX_STAYS)->id);
	assert_true(ended(c, one));
	assert_true(ended(c, two));
	assert_int_equal(seen_of(c, one)->end.status, RUN_lost);
	assert_non_null(strstr(seen_of(c, two)->message, "by itself"));
	assert_int_equal(refused(c, submit_within(c, id, 0, "x"))->end.status, RUN_not_found);
	id = stay(c, 0);
	one = begin(c, id);
	fake_guest_bytes(box_in(BOX_STAYS)->id, 1, "\x99garbage", 8);
	assert_true(ended(c, one));
	assert_int_equal(seen_of(c, one)->end.status, RUN_lost);
	assert_int_equal(w->reaper.last_cause, CAUSE_BAD_FRAME);
	assert_non_null(
		strstr(refused(c, submit_within(c, id, 0, "x"))->message, "broke the rules"));
}

static void
test_out_of_memory(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t call;

	(void)state;
	fake.guest.result = (struct guest_g_exit){.how = EXIT_SIGNALED, .signal = 9};
	w->reaper.final.oom_kills = 1; /* rose during this run */
	call = submit_within(c, id, 0, "big");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_oom_killed);
	assert_int_equal(boxes_in(BOX_STAYS), 1);
	call = submit_within(c, id, 0, "killed otherwise");
	assert_true(ended(c, call)); /* and not during this one */
	assert_int_equal(seen_of(c, call)->end.status, RUN_signaled);
}

static void
test_denied_within(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t call;

	(void)state;
	call = submit_with(c,
			   (struct ipc_call_submit){.sandbox = IPC_STR(id), .timeout_ms = 300001});
	assert_int_equal(refused(c, call)->end.status, RUN_denied);
	w->b.stopping = true;
	assert_int_equal(refused(c, submit_within(c, id, 0, "x"))->end.status,
			 RUN_engine_unavailable);
	w->b.stopping = false;
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_made_of_a_warm_shell_and_used_twice),
		T(test_two_runs_at_once),
		T(test_background),
		T(test_background_with_a_timeout),
		T(test_idle_and_then_forgotten),
		T(test_lifetime_ends_what_is_in_use),
		T(test_longer_than_a_waiting_box_lives),
		T(test_destroyed_with_its_runs),
		T(test_foreign_ids),
		T(test_at_most_so_many_runs),
		T(test_crowded),
		T(test_end_of_the_connection),
		T(test_listing),
		T(test_held_for_one_call),
		T(test_memory_of_ends_is_bounded),
		T(test_death_of_the_box),
		T(test_out_of_memory),
		T(test_denied_within),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
