/* The tick: pings, late acknowledgements; and the way a broker stops. */
#include "test.h"

#include <event2/event.h>

#include "broker_world.h"

static void
test_every_live_box_is_pinged(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint32_t before;

	(void)state;
	world_warm(c);
	assert_int_equal(fake.host_frames[GUEST_h_ping], 3); /* at once, for each hello heard */
	before = fake.host_frames[GUEST_h_ping];
	world_later(1000);
	assert_int_equal(fake.host_frames[GUEST_h_ping], before + 3);
	w->reaper.kill = false; /* one whose kill is stuck is left to its own silence */
	box_end(TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready), CAUSE_UNUSED);
	w->b.settings.flags |= SETTINGS_NO_POOL;
	world_settle();
	before = fake.host_frames[GUEST_h_ping];
	world_later(1000);
	assert_int_equal(fake.host_frames[GUEST_h_ping], before + 2);
}

/* What is written before a box has started waits in the engine, and may be read long after we
 * ended. */
static void
test_no_ping_before_the_guest_spoke(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	fake.hold[OP_START] = true;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	world_later(1000);
	assert_true(fake.host_frames[GUEST_h_hello] > 0);
	assert_int_equal(fake.host_frames[GUEST_h_ping], 0);
	fake.hold[OP_START] = false;
	fake_release(OP_START);
	wait_warm(BOX_PYTHON, 2);
	assert_true(fake.host_frames[GUEST_h_ping] >= 2);
}

static void
test_baselines_stay_fresh(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint32_t reads;

	(void)state;
	world_warm(c);
	reads = w->reaper.reads;
	w->reaper.baseline.cpu_us = 77;
	world_later(3000);
	assert_int_equal(w->reaper.reads, reads);
	for (int i = 0; i < 3; i++)
		world_later(3000);
	assert_int_equal(w->reaper.reads, reads + 3);
	assert_int_equal(TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready)->baseline.cpu_us, 77);
}

static void
test_small_output_is_acknowledged_by_the_tick(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	fake.guest.out = "few bytes";
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(fake.last_ack, 0);
	world_later(1000);
	assert_int_equal(fake.last_ack, 1);
}

static bool
is_stopped(void *arg)
{
	(void)arg;
	return event_base_got_break(w->base);
}

static void
test_stop_ends_calls_and_leaves_with_the_reaper(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	broker_stop(&w->b, 60000);
	broker_stop(&w->b, 60000); /* twice is once */
	assert_true(w->b.stopping);
	assert_int_equal(w->b.n_fronts, 0);
	world_settle();
	assert_int_equal(seen_of(c, call)->end.status,
			 RUN_cancelled); /* told before the link went */
	assert_string_equal(seen_of(c, call)->message, STOPPED_WORDS);
	assert_int_equal(seen_of(c, call)->ends, 1);
	assert_int_equal(idmap_count(w->b.boxes), 0);
	link_free(TAKE(w->reaper.link));
	assert_true(world_until(is_stopped, NULL));
}

/* The reaper kills them as well, and we may hear of a death before the reaper's word of it: that is
 * no box which died by itself. */
static void
test_stop_is_why_boxes_end(void **state)
{
	uint64_t died = tally_value(TALLY_ENDED + CAUSE_DIED),
		 stopped = tally_value(TALLY_ENDED + CAUSE_STOPPED);
	struct client *c = world_client(0, OWNER_UID, 1);
	struct box *x;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)stay(c, CALL_KEEP);
	x = box_in(BOX_STAYS);
	broker_stop(&w->b, 60000);
	fake_die(x->id);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(tally_value(TALLY_ENDED + CAUSE_DIED), died);
	assert_int_equal(tally_value(TALLY_ENDED + CAUSE_STOPPED), stopped + 1);
}

static void
test_stop_with_nothing_to_do_or_no_time(void **state)
{
	(void)state;
	broker_stop(&w->b, 1000);
	world_skew_ms += 1100;
	broker_tick(&w->b);
	assert_true(world_until(is_stopped, NULL));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_every_live_box_is_pinged),
		T(test_no_ping_before_the_guest_spoke),
		T(test_baselines_stay_fresh),
		T(test_small_output_is_acknowledged_by_the_tick),
		T(test_stop_ends_calls_and_leaves_with_the_reaper),
		T(test_stop_is_why_boxes_end),
		T(test_stop_with_nothing_to_do_or_no_time),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
