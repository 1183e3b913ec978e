/* What a hostile frontend may try: every row is checked again. */
#include "test.h"

#include "broker_world.h"

static void
test_out_of_range_costs_the_link(void **state)
{
	static const struct ipc_call_submit bad[] = {
		{.call = 0, .box_class = BOX_SHELL},
		{.call = 1, .box_class = BOX_CLASSES},
		{.call = 1, .box_class = UINT32_MAX},
		{.call = 1, .box_class = BOX_SHELL, .flags = UINT32_MAX},
		{.call = 1, .flags = CALL_KEEP},
		{.call = 1, .flags = CALL_HOLD},
		{.call = 1, .flags = CALL_BACKGROUND},
		{.call = 1, .flags = CALL_STEP},
		{.call = 1, .flags = CALL_STAYS | CALL_BACKGROUND},
		{.call = 1, .flags = CALL_STAYS | CALL_KEEP | CALL_HOLD},
		{.call = 1, .flags = CALL_STAYS, .spec = {(const uint8_t *)"x", 1}},
		{.call = 1, .flags = CALL_STAYS, .sandbox = {"x", 1}},
		{.call = 1, .flags = CALL_HOLD, .sandbox = {"x", 1}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct client *c = world_client(0, OWNER_UID, 1);
		struct ipc_row row = {.num = IPC_NUM_call_submit, .u.call_submit = bad[i]};

		assert_int_equal(link_send(c->link, &row), 0);
		world_settle();
		assert_true(c->closed);
		assert_int_equal(w->b.n_fronts, 0);
	}
	assert_int_equal(fake.calls[OP_PROBE], 0);
}

static void
test_a_call_number_is_used_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	assert_true(ended(c, submit(c, BOX_SHELL)));
	c->next_call = 0;
	(void)submit(c, BOX_SHELL);
	world_settle();
	assert_true(c->closed);
	assert_int_equal(seen_of(c, 1)->ends, 1);
}

static void
test_denied_never_reaches_the_engine(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	call = submit_with(c, (struct ipc_call_submit){.memory_bytes = UINT64_C(1) << 40});
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_denied);
	call = submit_with(c, (struct ipc_call_submit){.image = IPC_STR("evil:latest")});
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_denied);
	call = submit_with(c, (struct ipc_call_submit){.profile = IPC_STR("root")});
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_denied);
	assert_int_equal(fake.calls[OP_PROBE], 0);
}

static void
test_late_frames_are_dropped(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	send_frame(c, call, GUEST_h_stdin, 0, "late", 4);
	world_settle();
	assert_false(c->closed);
	fake.guest.exit = false; /* beside its EXIT as well */
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_guest_exit(run_of(c, call)->box->id, &fake.guest.result);
	send_frame(c, call, GUEST_h_stdin, 0, "late", 4);
	assert_true(ended(c, call));
	assert_false(c->closed);
}

static void
test_while_stopping(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.stopping = true;
	call = submit(c, BOX_SHELL);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	assert_int_equal(fake.calls[OP_PROBE], 0);
}

static bool
no_box(void *arg)
{
	(void)arg;
	return idmap_count(w->b.boxes) == 0;
}

/* One that lives, or none at all. */
static const char *
any_sandbox(void)
{
	const struct sandbox *s = TAILQ_FIRST(&w->b.sandboxes.live);

	return s ? s->id : "00112233445566778899aabbccddeeff";
}

/* An owned frontend floods: rows of every kind in any order. The broker lives, the
 * link goes, nothing stays behind. */
static void
test_random_rows(void **state)
{
	uint32_t seed = 4711;
	static uint8_t data[64];

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (int round = 0; round < 300; round++) {
		struct client *c = world_client(0, OWNER_UID, 1);

		c->auto_run = round % 2;
		for (int i = 0; i < 20 && c->link; i++) {
			uint32_t dice = test_random(&seed);
			uint64_t call = dice >> 8 & 7;

			if (dice % 8 == 0)
				(void)submit(c, (enum box_class)(dice >> 16 & 3));
			else if (dice % 8 == 5)
				(void)submit_with(
					c, (struct ipc_call_submit){
						   .flags = CALL_STAYS | (dice >> 16 & CALL_HOLD)});
			else if (dice % 8 == 6)
				(void)submit_within(c, any_sandbox(), dice >> 16 & CALL_BACKGROUND,
						    dice >> 20 & 1 ? "code" : "");
			else if (dice % 8 == 7)
				(void)link_send(c->link,
						IPC_ROW(sandbox_destroy, .call = ++c->next_call,
							.sandbox = IPC_STR(any_sandbox())));
			else if (dice % 8 == 1)
				(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
			else if (dice % 8 == 2)
				send_frame(c, call, (enum guest_type)(dice >> 16 & 0x1f),
					   dice >> 24 & 3, data, dice >> 26 & 63);
			else if (dice % 8 == 3)
				(void)link_send(c->link, IPC_ROW(warm_hint, ));
			else
				(void)link_send(c->link, IPC_ROW(health_query, .call = call));
			if (dice >> 31)
				world_turn();
		}
		world_hang_up(c);
		world_settle();
		assert_int_equal(w->b.n_fronts, 0);
		assert_int_equal(w->b.in_flight + w->b.queued, 0);
		assert_true(TAILQ_EMPTY(&w->b.sandboxes.live));
	}
	assert_true(world_until(no_box, NULL));
	assert_int_equal(w->b.memory_bytes, 0);
	assert_int_equal(idmap_count(w->b.runs), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_out_of_range_costs_the_link),
		T(test_a_call_number_is_used_once),
		T(test_denied_never_reaches_the_engine),
		T(test_late_frames_are_dropped),
		T(test_while_stopping),
		T(test_random_rows),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
