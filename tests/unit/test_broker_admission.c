/* Queues, caps and turns. */
#include "test.h"

#include "broker_world.h"

static void
settle_empty(void)
{
	for (int i = 0; i < 40; i++) {
		world_settle();
		world_later(200);
	}
}

static void
test_owner_cap_and_the_next_in_line(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call[20];

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	for (int i = 0; i < 20; i++)
		call[i] = submit(c, BOX_SHELL);
	assert_true(granted(c, call[15]));
	world_settle();
	assert_int_equal(w->b.in_flight, OWNER_BOXES_MAX);
	assert_int_equal(w->b.queued, 4);
	assert_false(seen_of(c, call[16])->granted);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call[3]));
	assert_true(granted(c, call[16])); /* once the engine confirmed the removal */
	assert_int_equal(fake.live_most, OWNER_BOXES_MAX);
	world_hang_up(c);
	settle_empty();
	assert_int_equal(fake.live_now, 0);
	assert_true(TAILQ_EMPTY(&w->b.owners));
}

static void
test_full_queue_is_busy_at_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t last = 0;

	(void)state;
	fake.hold[OP_PROBE] = true;
	for (unsigned int i = 0; i < OWNER_QUEUE_MAX; i++)
		last = submit(c, BOX_SHELL);
	world_settle();
	assert_false(seen_of(c, last)->ended);
	last = submit(c, BOX_SHELL);
	assert_true(ended(c, last));
	assert_int_equal(seen_of(c, last)->end.status, RUN_busy);
	assert_true(seen_of(c, last)->end.retry_ms >= 250);
	assert_true(seen_of(c, last)->end.retry_ms <= 10000);
}

static void
test_queue_timeout(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->reaper.intend = false;
	link_free(TAKE(w->reaper.link)); /* without a reaper nothing may start */
	world_settle();
	call = submit(c, BOX_SHELL);
	world_settle();
	world_later(QUEUE_WAIT_MS - 1000);
	assert_false(seen_of(c, call)->ended);
	world_later(1100);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_queue_timeout);
}

static void
test_owners_take_turns(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t first_b;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(512) << 20; /* one box at a time */
	fake.hold[OP_PROBE] = true;
	for (int i = 0; i < 10; i++)
		(void)submit(a, BOX_SHELL);
	world_settle();
	first_b = submit(b, BOX_SHELL);
	for (int i = 0; i < 9; i++)
		(void)submit(b, BOX_SHELL);
	world_settle();
	fake_release(OP_PROBE);
	assert_true(granted(b, first_b));
	assert_true(seen_of(b, first_b)->order <= 2);
	assert_true(ended(b, 10) && ended(a, 10));
	assert_int_equal(fake.live_most, 1);
	assert_int_equal(a->n_granted, 10);
	assert_int_equal(b->n_granted, 10);
	for (uint64_t call = 1; call <= 10; call++) /* one of each in turn */
		assert_in_range(seen_of(a, call)->order, 2 * call - 1, 2 * call);
}

static void
test_one_owner_over_two_frontends_is_one_owner(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 5), *b = world_client(1, OWNER_UID, 5);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	for (int i = 0; i < 10; i++) {
		(void)submit(a, BOX_SHELL);
		(void)submit(b, BOX_SHELL);
	}
	world_settle();
	assert_int_equal(w->b.in_flight, OWNER_BOXES_MAX);
	assert_int_equal(w->b.queued, 4);
}

static void
test_memory_cap_and_pool_giving_way(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct ipc_call_submit big = {.box_class = BOX_SHELL, .profile = IPC_STR("build")};
	uint64_t call;

	(void)state;
	w->b.memory_max_bytes = UINT64_C(2304) << 20;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_PYTHON, 2);
	wait_warm(BOX_SHELL, 1);
	call = submit_with(c, big); /* fits only when waiting boxes are ended */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	big.memory_bytes = UINT64_C(2048) << 20;
	w->b.memory_max_bytes = UINT64_C(1024) << 20;
	call = submit_with(c, big); /* can never fit */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_denied);
}

static void
test_the_turn_waits_for_memory(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	struct ipc_call_submit big = {.box_class = BOX_SHELL, .profile = IPC_STR("build")};
	uint64_t running, large;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	fake.guest.exit = false;
	running = submit(b, BOX_SHELL);
	assert_true(granted(b, running));
	large = submit_with(a, big);
	world_settle();
	for (int i = 0; i < 3; i++)
		(void)submit(b, BOX_SHELL); /* would fit, and must not starve the large one */
	world_settle();
	assert_int_equal(b->n_granted, 1);
	(void)link_send(b->link, IPC_ROW(call_cancel, .call = running));
	assert_true(granted(a, large));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_owner_cap_and_the_next_in_line),
		T(test_full_queue_is_busy_at_once),
		T(test_queue_timeout),
		T(test_owners_take_turns),
		T(test_one_owner_over_two_frontends_is_one_owner),
		T(test_memory_cap_and_pool_giving_way),
		T(test_the_turn_waits_for_memory),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
