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
	assert_non_null(strstr(seen_of(c, last)->message, "64")); /* the cap that was met */
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
	assert_non_null(strstr(seen_of(c, call)->message, "reaper"));
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
	world_warm(c);
	call = submit_with(c, big); /* fits only when waiting boxes are ended */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	big.memory_bytes = UINT64_C(2048) << 20;
	w->b.memory_max_bytes = UINT64_C(1024) << 20;
	call = submit_with(c, big); /* can never fit */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_denied);
}

static struct ipc_call_submit
sized(uint64_t mb)
{
	return (struct ipc_call_submit){
		.box_class = BOX_SHELL, .profile = IPC_STR("build"), .memory_bytes = mb << 20};
}

/* What does not fit is passed over by what does, for a while; then all wait for it, for a while. */
static void
test_what_does_not_fit_is_passed_over_for_a_while(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t running, large, call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	fake.guest.exit = false;
	running = submit_with(b, sized(256));
	assert_true(granted(b, running));
	large = submit_with(a, sized(2048));
	call = submit_with(a, sized(256)); /* of the same owner, too */
	assert_true(granted(a, call));
	assert_true(granted(b, submit_with(b, sized(256))));
	assert_false(seen_of(a, large)->granted);
	world_later(4900);
	assert_true(granted(b, submit_with(b, sized(256))));
	world_later(200);
	call = submit_with(b, sized(256)); /* would fit, and must not starve the large one */
	world_settle();
	assert_false(seen_of(b, call)->granted);
	world_hang_up(a); /* its own end first: the large one goes with it */
	assert_true(granted(b, call));
}

static void
test_the_large_one_starts_once_all_wait_for_it(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t running[2], large, later;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	fake.guest.exit = false;
	running[0] = submit_with(b, sized(256));
	assert_true(granted(b, running[0]));
	large = submit_with(a, sized(2048));
	running[1] = submit_with(b, sized(256));
	assert_true(granted(b, running[1]));
	world_later(5100);
	later = submit_with(b, sized(256));
	(void)link_send(b->link, IPC_ROW(call_cancel, .call = running[0]));
	world_settle();
	assert_false(seen_of(b, later)->granted);
	(void)link_send(b->link, IPC_ROW(call_cancel, .call = running[1]));
	assert_true(granted(a, large));
	assert_false(seen_of(b, later)->granted);
	(void)link_send(a->link, IPC_ROW(call_cancel, .call = large));
	assert_true(granted(b, later));
}

static void
test_nobody_waits_for_ever_for_what_does_not_end(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t large, later;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	fake.guest.exit = false;
	assert_true(granted(b, submit_with(b, sized(256))));
	large = submit_with(a, sized(2048));
	assert_true(granted(b, submit_with(b, sized(256))));
	world_later(5100);
	later = submit_with(b, sized(256));
	world_later(5000);
	assert_false(seen_of(b, later)->granted);
	world_later(5000);
	assert_true(granted(b, later));
	world_later(15000);
	assert_true(ended(a, large));
	assert_int_equal(seen_of(a, large)->end.status, RUN_queue_timeout);
	assert_non_null(strstr(seen_of(a, large)->message, "2048 MiB"));
	assert_true(seen_of(a, large)->end.retry_ms > 0);
}

/* Those that were passed over by nobody wait their turn, however long. */
static void
test_owners_take_turns_however_long_one_waits(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t running, first;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(512) << 20; /* one box at a time */
	fake.guest.exit = false;
	running = submit_with(a, (struct ipc_call_submit){.profile = IPC_STR(""),
							  .image = IPC_STR(""),
							  .timeout_ms = 60000});
	assert_true(granted(a, running));
	for (int i = 0; i < 10; i++)
		(void)submit(a, BOX_SHELL);
	world_settle();
	for (int i = 0; i < 20; i++)
		world_later(1000); /* not at once: the guest has to be heard of */
	assert_false(seen_of(a, running)->ended);
	first = submit(b, BOX_SHELL);
	world_settle();
	fake.guest.exit = true;
	(void)link_send(a->link, IPC_ROW(call_cancel, .call = running));
	assert_true(ended(b, first));
	assert_true(seen_of(b, first)->order <= 3);
}

static uint64_t
create(struct client *c, uint32_t more)
{
	return submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS | more});
}

static void
test_more_sandboxes_than_may_be_are_busy_at_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call, last;

	(void)state;
	fake.hold[OP_CREATE] = true; /* none of them is there yet */
	for (unsigned int i = 0; i < OWNER_BOXES_MAX; i++)
		last = create(c, 0);
	world_settle();
	assert_false(seen_of(c, last)->ended);
	call = create(c, 0);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_busy);
	assert_non_null(strstr(seen_of(c, call)->message, "16"));
	assert_true(seen_of(c, call)->end.retry_ms > 0);
	call = submit(c, BOX_SHELL); /* it would wait for them, in vain */
	world_settle();
	assert_false(seen_of(c, call)->ended);
	fake.hold[OP_CREATE] = false;
	fake_release(OP_CREATE);
	assert_true(ended(c, last));
	world_later(1000);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_busy);
	world_hang_up(c);
	settle_empty();
	assert_int_equal(w->b.sandboxes.creating_bytes, 0);
	assert_int_equal(w->b.sandboxes.memory_bytes, 0);
}

/* One that is cancelled, or fails, gives its place back. */
static void
test_a_create_that_comes_to_nothing_counts_no_longer(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t last = 0;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_CREATE] = true;
	for (unsigned int i = 0; i < OWNER_BOXES_MAX; i++)
		last = create(c, 0);
	world_settle();
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = last));
	world_settle();
	last = create(c, 0);
	world_settle();
	assert_false(seen_of(c, last)->ended);
	fake_fail(OP_CREATE, -EIO, 409, "no", 0);
	fake_release(OP_CREATE);
	assert_true(ended(c, last));
	world_settle();
	world_hang_up(c);
	settle_empty();
	assert_int_equal(w->b.sandboxes.creating_bytes, 0);
	assert_int_equal(w->b.memory_bytes, 0);
	assert_int_equal(TAILQ_FIRST(&w->b.owners)->creating,
			 0); /* known as long as the ended are */
}

/* What a call holds ends with it: others wait for it as for any run. */
static void
test_held_sandboxes_are_waited_for(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call = 0;
	char id[33];

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (unsigned int i = 0; i < OWNER_BOXES_MAX; i++) {
		call = create(c, CALL_HOLD);
		assert_true(ended(c, call));
	}
	memcpy(id, seen_of(c, call)->sandbox, sizeof(id));
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_false(seen_of(c, call)->ended);
	(void)link_send(c->link,
			IPC_ROW(sandbox_destroy, .call = ++c->next_call, .sandbox = {id, 32}));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_memory_of_sandboxes_on_their_way_counts(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct ipc_call_submit big = sized(1024);
	uint64_t call;

	(void)state;
	big.flags = CALL_STAYS;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	fake.hold[OP_CREATE] = true;
	(void)submit_with(c, big);
	(void)submit_with(c, big);
	call = submit_with(c, big);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_busy);
	assert_non_null(strstr(seen_of(c, call)->message, "2048 MiB"));
}

/* What one owner may have of the memory leaves room for the others. */
static void
test_an_owner_has_a_part_of_the_memory(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	struct ipc_call_submit half = sized(512), quarter = sized(256);
	uint64_t one, waits, large;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	w->b.owner_memory_max_bytes = UINT64_C(1024) << 20;
	fake.guest.exit = false;
	half.timeout_ms = quarter.timeout_ms = 60000;
	large = submit_with(a, sized(1025));
	assert_true(ended(a, large));
	assert_int_equal(seen_of(a, large)->end.status, RUN_denied);
	one = submit_with(a, half);
	assert_true(granted(a, one));
	assert_true(granted(a, submit_with(a, half)));
	waits = submit_with(a, quarter);
	world_later(5100); /* it is not passed over: nothing is kept free for it */
	assert_true(granted(b, submit_with(b, half)));
	assert_true(granted(b, submit_with(b, half)));
	assert_false(seen_of(a, waits)->granted);
	(void)link_send(a->link, IPC_ROW(call_cancel, .call = one));
	assert_true(granted(a, waits));
	waits = submit_with(a, half);
	for (int i = 0; i < 31; i++)
		world_later(1000);
	assert_true(ended(a, waits));
	assert_int_equal(seen_of(a, waits)->end.status, RUN_queue_timeout);
	assert_non_null(strstr(seen_of(a, waits)->message, "1024 MiB that your"));
}

/* A process tree has nobody beside it. */
static void
test_an_owner_alone_has_all_of_the_memory(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	w->b.owner_memory_max_bytes = UINT64_C(1024) << 20;
	fake.guest.exit = false;
	assert_true(granted(c, submit_with(c, sized(2048))));
}

static void
test_what_stays_of_an_owners_leaves_room(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	struct ipc_call_submit stays = sized(512);
	uint64_t call;

	(void)state;
	stays.flags = CALL_STAYS;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->b.memory_max_bytes = UINT64_C(2048) << 20;
	w->b.owner_memory_max_bytes = UINT64_C(1024) << 20;
	assert_true(ended(a, submit_with(a, stays)));
	fake.hold[OP_CREATE] = true;
	(void)submit_with(a, stays); /* on its way, it counts too */
	call = submit_with(a, stays);
	assert_true(ended(a, call));
	assert_int_equal(seen_of(a, call)->end.status, RUN_busy);
	assert_non_null(strstr(seen_of(a, call)->message, "Your sandboxes that stay hold 1024"));
	fake.hold[OP_CREATE] = false;
	world_settle();
	assert_true(ended(b, submit_with(b, stays)));
	assert_int_equal(seen_of(b, 1)->end.status, RUN_ok);
}

/* An owner with all it may have waits for its own: the pool serves others meanwhile. */
static void
test_refilled_beside_an_owner_at_its_cap(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	for (unsigned int i = 0; i < OWNER_BOXES_MAX + 3; i++)
		(void)submit(a, BOX_SHELL);
	world_settle();
	assert_int_equal(w->b.queued, 3);
	world_later(1000);
	wait_warm(BOX_SHELL, 1);
	fake.guest.exit = true;
	call = submit(b, BOX_SHELL);
	assert_true(ended(b, call));
	assert_int_equal(seen_of(b, call)->grant.start, START_WARM);
}

/* Boxes of the pool do not make way where that would not be enough. */
static void
test_the_pool_gives_way_only_where_it_helps(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	w->b.memory_max_bytes = UINT64_C(3072) << 20;
	assert_true(granted(c, submit_with(c, sized(2048))));
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_later(1000);
	wait_warm(BOX_PYTHON, 1);
	call = submit_with(c, sized(2048));
	world_settle();
	assert_false(seen_of(c, call)->ended || seen_of(c, call)->granted);
	assert_int_equal(pool_of(&w->b, profile_find("", 0), BOX_PYTHON)->n_ready, 1);
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
		T(test_what_does_not_fit_is_passed_over_for_a_while),
		T(test_the_large_one_starts_once_all_wait_for_it),
		T(test_nobody_waits_for_ever_for_what_does_not_end),
		T(test_owners_take_turns_however_long_one_waits),
		T(test_more_sandboxes_than_may_be_are_busy_at_once),
		T(test_a_create_that_comes_to_nothing_counts_no_longer),
		T(test_held_sandboxes_are_waited_for),
		T(test_memory_of_sandboxes_on_their_way_counts),
		T(test_an_owner_has_a_part_of_the_memory),
		T(test_an_owner_alone_has_all_of_the_memory),
		T(test_what_stays_of_an_owners_leaves_room),
		T(test_refilled_beside_an_owner_at_its_cap),
		T(test_the_pool_gives_way_only_where_it_helps),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
