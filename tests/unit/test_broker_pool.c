/* The pool: what is warmed when, and that no box is ever handed out twice. */
#include "test.h"

#include "broker_world.h"

static struct pool *
pool(enum box_class c)
{
	return pool_of(&w->b, profile_find("", 0), c);
}

static void
test_asleep_until_the_first_hint(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	world_later(2000);
	assert_int_equal(fake.calls[OP_PROBE] + fake.calls[OP_CREATE], 0);
	world_warm(c);
	assert_int_equal(pool(BOX_NODE)->target, 0);
	assert_int_equal(w->b.memory_bytes, (uint64_t)3 * 512 << 20);
	assert_true(TAILQ_FIRST(&pool(BOX_SHELL)->ready)->baseline.have & FIG_CURRENT);
}

static void
test_node_after_its_first_use(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	assert_true(ended(c, submit(c, BOX_NODE)));
	wait_warm(BOX_NODE, 1);
	assert_int_equal(pool(BOX_NODE)->target, 1);
}

static void
test_refill_is_one_at_a_time(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	fake.hold[OP_CREATE] = true;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	world_later(1000);
	assert_int_equal(fake.calls[OP_CREATE], 1);
	fake_release(OP_CREATE);
	wait_warm(BOX_PYTHON, 2);
	assert_int_equal(fake.live_most, 3);
}

/* The only shell box is taken: its successor is not made beside the start of a lone call. */
static void
test_no_refill_beside_the_start_of_a_lone_call(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint32_t made;

	(void)state;
	world_warm(c);
	made = fake.calls[OP_CREATE];
	fake.guest.exit = false;
	assert_true(granted(c, submit(c, BOX_SHELL)));
	world_turn();
	assert_true(w->b.quiet_until_ms > 0);
	w->b.quiet_until_ms = UINT64_MAX;
	world_settle();
	assert_int_equal(fake.calls[OP_CREATE], made);
	w->b.quiet_until_ms = 0;
	world_later(1000);
	assert_int_equal(fake.calls[OP_CREATE], made + 1);
}

static void
test_no_refill_beside_a_call_while_one_is_ready(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	world_warm(c);
	fake.guest.exit = false;
	call = submit(c, BOX_PYTHON);
	assert_true(granted(c, call));
	world_later(1000);
	assert_int_equal(pool(BOX_PYTHON)->n_starting, 0);
	(void)submit(c, BOX_PYTHON); /* now none is ready: one refill may go on */
	world_settle();
	assert_int_equal(pool(BOX_PYTHON)->n_ready + pool(BOX_PYTHON)->n_starting, 1);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
}

static void
test_emptied_after_five_idle_minutes_and_woken_again(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	world_warm(c);
	for (int i = 0; i < 100; i++)
		world_later(2000);
	assert_int_equal(pool(BOX_PYTHON)->n_ready, 2);
	for (int i = 0; i < 60; i++)
		world_later(2000);
	assert_int_equal(fake.live_now, 0);
	assert_int_equal(w->b.memory_bytes, 0);
	assert_true(ended(c, submit(c, BOX_PYTHON)));
	wait_warm(BOX_PYTHON, 2);
}

static void
test_a_silent_box_is_not_handed_out(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	world_warm(c);
	fake.guest.pong = false;
	world_skew_ms += 6000;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	assert_true(ended(c, call));
	world_settle(); /* its own end is told */
	fake.guest.pong = true;
	world_later(1000);
	assert_int_equal(w->reaper.last_cause, CAUSE_SILENT);
}

/* One heartbeat is overdue: too little to end a box, enough not to give it to anybody. */
static void
test_a_box_that_owes_a_heartbeat_is_not_handed_out(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call, box;

	(void)state;
	world_warm(c);
	box = TAILQ_FIRST(&pool(BOX_SHELL)->ready)->id;
	fake.guest.pong = false;
	world_later(1600);
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	assert_true(ended(c, call));
	fake.guest.pong = true;
	world_later(1000);
	assert_int_equal(TAILQ_FIRST(&pool(BOX_SHELL)->ready)->id, box);
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_true(TAILQ_EMPTY(&pool(BOX_SHELL)->ready) ||
		    TAILQ_FIRST(&pool(BOX_SHELL)->ready)->id != box);
	assert_true(ended(c, call));
}

/* What ended one box may have ended all: each other has to answer before it is handed out. */
static void
test_a_death_puts_the_others_in_doubt(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	world_warm(c);
	fake.guest.pong = false;
	fake_die(TAILQ_FIRST(&pool(BOX_PYTHON)->ready)->id);
	world_settle();
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	assert_true(ended(c, call));
	fake.guest.pong = true;
	fake_die(TAILQ_FIRST(&pool(BOX_PYTHON)->ready)->id);
	world_settle(); /* asked at once, not at the next tick: it lives */
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_true(ended(c, call));
}

static void
test_a_dead_waiting_box_is_replaced(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct box *x;

	(void)state;
	world_warm(c);
	x = TAILQ_FIRST(&pool(BOX_PYTHON)->ready);
	fake_die(x->id);
	assert_int_equal(pool(BOX_PYTHON)->n_ready, 1);
	world_settle(); /* not at once: what dies while it waits may do so again */
	assert_int_equal(pool(BOX_PYTHON)->n_ready, 1);
	world_later(1100);
	wait_warm(BOX_PYTHON, 2);
}

static void
test_no_interpreter_in_the_image_runs_live(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake.guest.ready_class = BOX_NOTHING;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_PYTHON, 2);
	call = submit(c, BOX_PYTHON);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_LIVE);
}

static void
test_failed_refill_backs_off(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	fake_fail(OP_START, -EIO, 500, "scripted", 0);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(fake.calls[OP_CREATE], 1);
	world_later(1100);
	assert_int_equal(fake.calls[OP_CREATE], 2);
	world_later(1100); /* two seconds now */
	assert_int_equal(fake.calls[OP_CREATE], 2);
	world_later(1100);
	assert_int_equal(fake.calls[OP_CREATE], 3);
	fake_fail(OP_START, 0, 0, NULL, 0);
	world_later(40000);
	wait_warm(BOX_PYTHON, 2);
}

static void
test_a_refill_that_never_comes_is_given_up(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	fake.guest.hello = false;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(boxes_in(BOX_STARTED), 1);
	world_later(START_WAIT_MS + 100);
	world_settle();
	assert_int_equal(boxes_in(BOX_STARTED), 0);
	assert_int_equal(fake.live_now, 0);
}

static void
test_a_waiting_caller_adopts_what_is_starting(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake.hold[OP_START] = true;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(pool(BOX_SHELL)->n_starting, 1);
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_int_equal(fake.calls[OP_CREATE], 1); /* and no refill beside it */
	fake_release(OP_START);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	wait_warm(BOX_SHELL, 1);
	wait_warm(BOX_PYTHON, 2);
}

static void
test_misses_raise_and_calm_lowers_the_target(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	world_warm(c);
	fake.guest.exit = false;
	for (int i = 0; i < 8; i++)
		(void)submit(c, BOX_PYTHON);
	world_settle();
	assert_int_equal(pool(BOX_PYTHON)->target, POOL_CAP);
	world_hang_up(c);
	world_settle();
	for (int i = 0; i < 70; i++)
		world_later(2000);
	assert_int_equal(pool(BOX_PYTHON)->target, 2);
	assert_true(pool(BOX_PYTHON)->n_ready <= 2);
}

/* Demand for python took the last place; node is used now. */
static void
test_a_full_house_makes_room(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	world_warm(c);
	pool_used(&w->b, profile_find("", 0), BOX_PYTHON, true);
	world_later(1000);
	wait_warm(BOX_PYTHON, 3);
	world_later(1000);
	assert_true(ended(c, submit(c, BOX_NODE)));
	wait_warm(BOX_NODE, 1);
	world_later(1000);
	assert_int_equal(pool(BOX_NODE)->n_ready, 1);
	assert_int_equal(pool(BOX_PYTHON)->n_ready, 2);
	assert_int_equal(pool(BOX_SHELL)->n_ready, 1);
}

/* No pool is over its figure: the one used longest ago gives a box, and does not take it back. */
static void
test_a_full_house_gives_up_what_is_used_least(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.box_class = BOX_SHELL, .profile = {"build", 5}};

	(void)state;
	assert_true(ended(c, submit(c, BOX_NODE)));
	wait_warm(BOX_NODE, 1);
	world_later(1000);
	pool_used(&w->b, profile_find("", 0), BOX_PYTHON, false);
	pool_used(&w->b, profile_find("", 0), BOX_SHELL, false);
	wait_warm(BOX_PYTHON, 2);
	wait_warm(BOX_SHELL, 1);
	world_later(1000);
	assert_true(ended(c, submit_with(c, m)));
	for (int i = 0; i < 10; i++)
		world_later(500);
	assert_int_equal(pool_of(&w->b, profile_find("build", 5), BOX_SHELL)->n_ready, 1);
	assert_int_equal(pool(BOX_NODE)->n_ready, 0);
	assert_int_equal(pool(BOX_PYTHON)->n_ready + pool(BOX_SHELL)->n_ready, 3);
	assert_int_equal(fake.calls[OP_CREATE], 1 + 1 + 3 + 1 + 1);
}

/* Of pools used at the same moment the last one finds no place; they do not take it in turns. */
static void
test_pools_used_at_once_do_not_chase_each_other(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t now = clock_now_ms() + 1000;
	uint32_t made;

	(void)state;
	assert_true(ended(c, submit(c, BOX_SHELL)));
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < BOX_CLASSES; k++) {
			struct pool *p = pool_of(&w->b, profile_at(i), (enum box_class)k);

			p->target = 1;
			p->used_ms = now;
		}
	world_later(1000);
	world_later(1000);
	made = fake.calls[OP_CREATE];
	for (int i = 0; i < 20; i++)
		world_later(100);
	assert_int_equal(fake.calls[OP_CREATE], made);
	assert_int_equal(boxes_in(BOX_WARM), POOL_CAP);
}

static void
test_switched_off(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_true(ended(c, submit(c, BOX_SHELL)));
	world_settle();
	assert_int_equal(fake.live_now, 0);
}

/* One random act of a hostile pair of clients and of fate. */
static void
random_act(struct client *c, uint32_t *seed)
{
	uint32_t dice = test_random(seed) % 100, skip = test_random(seed) % 8;
	uint64_t last = c->next_call, id;
	size_t cursor = 0;
	void *obj;

	if (dice < 25 && last < 4000) {
		(void)submit(c, (enum box_class)(test_random(seed) % 3));
	} else if (dice < 35 && last) {
		(void)link_send(c->link,
				IPC_ROW(call_cancel, .call = last - test_random(seed) % 4 % last));
	} else if (dice >= 70 && dice < 72) {
		world_skew_ms += 300;
		broker_tick(&w->b);
	} else if (dice < 70) {
		while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
			struct box *x = obj;

			if (skip-- || !x->attach)
				continue;
			if (dice < 60 && x->state == BOX_RUNNING && session_run(&x->session, 1))
				fake_guest_exit(id, &fake.guest.result);
			else if (dice >= 67 && x->state >= BOX_READY && x->state < BOX_ENDING)
				fake_die(id);
			break;
		}
	}
}

/* True of every box at any time; how many serve a run. */
static size_t
check_boxes(void)
{
	size_t cursor = 0, serving = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
		struct box *x = obj;

		if (!TAILQ_EMPTY(&x->runs)) {
			assert_ptr_equal(TAILQ_FIRST(&x->runs)->box, x);
			assert_null(TAILQ_NEXT(TAILQ_FIRST(&x->runs), box_entry));
			assert_int_equal(x->pooled, POOL_NOT);
			serving++;
		}
		if (x->pooled == POOL_READY)
			assert_int_equal(x->state, BOX_WARM);
		if (x->session.last_run) { /* single use: its stream never saw a second run */
			assert_true(x->state >= BOX_GRANTED);
			assert_true(x->session.host_seq <= 2);
			assert_int_equal(x->session.last_run, 1);
		}
	}
	assert_true(w->b.memory_bytes <= w->b.memory_max_bytes);
	return serving;
}

static void
nothing_left(struct client *c)
{
	for (uint64_t call = 1; call <= c->next_call; call++)
		assert_true(c->seen[call].ends <= 1 && c->seen[call].grants <= 1);
}

/* Ten thousand random acts: no box serves two runs, every call ends exactly once,
 * sums return to zero. */
static void
test_never_handed_out_twice(void **state)
{
	struct client *c[2] = {world_client(0, OWNER_UID, 1), world_client(1, OWNER_UID, 2)};
	uint32_t seed = 20261129;
	size_t served = 0;

	(void)state;
	fake.guest.exit = false;
	for (int i = 0; i < 10000; i++) {
		random_act(c[test_random(&seed) % 2], &seed);
		world_turn();
		served += check_boxes();
	}
	assert_true(served > 10000);
	world_hang_up(c[0]);
	world_hang_up(c[1]);
	w->b.settings.flags |= SETTINGS_NO_POOL;
	world_settle();
	pool_drain(&w->b, CAUSE_UNUSED);
	for (int i = 0; i < 30; i++)
		world_later(1000);
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(w->b.memory_bytes, 0);
	assert_int_equal(w->b.in_flight + w->b.starting, 0);
	assert_true(TAILQ_EMPTY(&w->b.owners));
	nothing_left(c[0]);
	nothing_left(c[1]);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_asleep_until_the_first_hint),
		T(test_node_after_its_first_use),
		T(test_refill_is_one_at_a_time),
		T(test_no_refill_beside_the_start_of_a_lone_call),
		T(test_no_refill_beside_a_call_while_one_is_ready),
		T(test_emptied_after_five_idle_minutes_and_woken_again),
		T(test_a_silent_box_is_not_handed_out),
		T(test_a_box_that_owes_a_heartbeat_is_not_handed_out),
		T(test_a_death_puts_the_others_in_doubt),
		T(test_a_dead_waiting_box_is_replaced),
		T(test_no_interpreter_in_the_image_runs_live),
		T(test_failed_refill_backs_off),
		T(test_a_refill_that_never_comes_is_given_up),
		T(test_a_waiting_caller_adopts_what_is_starting),
		T(test_misses_raise_and_calm_lowers_the_target),
		T(test_a_full_house_makes_room),
		T(test_a_full_house_gives_up_what_is_used_least),
		T(test_pools_used_at_once_do_not_chase_each_other),
		T(test_switched_off),
		T(test_never_handed_out_twice),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
