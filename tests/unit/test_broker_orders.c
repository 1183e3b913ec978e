/* The reaper's orders, its restart, and boxes a former broker made. */
#include "test.h"

#include <event2/event.h>
#include <sys/mman.h>

#include "broker_world.h"

static void
test_orders_for_boxes_of_a_former_broker(void **state)
{
	static const char id[] = "1111111111111111111111111111111111111111111111111111111111111111";

	(void)state;
	reaper_says(
		IPC_ROW(order_kill, .box = 7, .container = IPC_STR(id), .cause = CAUSE_DEADLINE));
	reaper_says(
		IPC_ROW(order_remove, .box = 7, .container = IPC_STR(id), .name = IPC_STR("n")));
	world_settle();
	assert_int_equal(fake.calls[OP_KILL], 1);
	assert_string_equal(fake.last_removed, id);
	assert_int_equal(w->reaper.n_gone, 1);
	assert_int_equal(w->reaper.gone[0], 7);
	reaper_says(IPC_ROW(order_remove, .box = 8, .container = IPC_STR(""),
			    .name = IPC_STR("bailey-01234567-8")));
	world_settle();
	assert_string_equal(fake.last_removed, "bailey-01234567-8");
	reaper_says(IPC_ROW(order_remove, .box = 9, .container = IPC_STR(""), .name = IPC_STR("")));
	world_settle();
	assert_int_equal(w->reaper.n_gone, 3);
	fake_fail(OP_REMOVE, -EEXIST, 409, "in progress", 1); /* not confirmed: ordered again */
	reaper_says(
		IPC_ROW(order_remove, .box = 10, .container = IPC_STR(id), .name = IPC_STR("")));
	world_settle();
	assert_int_equal(w->reaper.n_gone, 3);
	reaper_says(
		IPC_ROW(order_remove, .box = 10, .container = IPC_STR(id), .name = IPC_STR("")));
	world_settle();
	assert_int_equal(w->reaper.n_gone, 4);
}

/* Many tokens come between our start and our settings: the reaper may speak before those. */
static void
test_orders_before_the_settings(void **state)
{
	static const char id[] = "1111111111111111111111111111111111111111111111111111111111111111";

	(void)state;
	engine_free(TAKE(w->b.engine));
	reaper_says(
		IPC_ROW(order_kill, .box = 7, .container = IPC_STR(id), .cause = CAUSE_DEADLINE));
	reaper_says(
		IPC_ROW(order_remove, .box = 7, .container = IPC_STR(id), .name = IPC_STR("n")));
	reaper_says(IPC_ROW(sweep_verdict, .container = IPC_STR(id), .dead = 1));
	world_settle();
	assert_int_equal(fake.calls[OP_KILL], 0);
	assert_int_equal(fake.calls[OP_REMOVE], 0);
	assert_int_equal(w->reaper.n_gone, 0);
	w->b.engine = engine_new(w->base, &w->b.engine_config);
	reaper_says(
		IPC_ROW(order_remove, .box = 7, .container = IPC_STR(id), .name = IPC_STR("n")));
	world_settle();
	assert_int_equal(w->reaper.n_gone, 1);
}

static void
test_rows_about_unknown_boxes_mean_nothing(void **state)
{
	(void)state;
	reaper_says(IPC_ROW(watch_ok, .box = 1));
	reaper_says(IPC_ROW(watch_held, .box = 1, .own_kill = 1));
	reaper_says(IPC_ROW(watch_killed, .box = 1, .cause = CAUSE_DEADLINE));
	reaper_says(IPC_ROW(watch_counter, .box = 1, .which = COUNTER_CPU));
	world_settle();
	assert_non_null(w->b.reaper);
	assert_int_equal(w->b.own_kill, 1);
}

/* A descriptor is kept for the box it was sent for, and for nothing else. */
static void
test_counters_are_kept_with_their_box(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const struct box *x;
	int fd = memfd_create("counter", MFD_CLOEXEC);
	size_t fds;

	(void)state;
	assert_true(fd >= 0);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	x = TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready);
	world_settle();
	fds = test_open_fds();
	for (uint32_t which = 0; which < COUNTERS + 2; which++)
		for (int i = 0; i < 2; i++) {
			assert_int_equal(link_send_fd(w->reaper.link,
						      IPC_ROW(watch_counter,
							      .box = x->id + (uint64_t)i * 1000,
							      .which = which),
						      fd),
					 0);
			world_settle();
		}
	assert_int_equal(test_open_fds(), fds + COUNTERS);
	for (uint32_t which = 0; which < COUNTERS; which++)
		assert_true(x->counters.fd[which] >= 0);
	reaper_says(
		IPC_ROW(watch_counter, .box = x->id, .which = COUNTER_CPU)); /* no place for it */
	world_settle();
	assert_int_equal(x->counters.fd[COUNTER_CPU], -1);
	assert_int_equal(test_open_fds(), fds + COUNTERS - 1);
	assert_int_equal(close(fd), 0);
}

/* The reaper hears of a stop when we do, and may be the first to say so. */
static void
test_a_stop_that_the_reaper_tells_first(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t calls[2], box[2];

	(void)state;
	fake.guest.exit = false;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (size_t i = 0; i < 2; i++) {
		calls[i] = submit(c, BOX_SHELL);
		assert_true(granted(c, calls[i]));
		world_settle();
		box[i] = run_of(c, calls[i])->box->id;
	}
	reaper_says(IPC_ROW(watch_killed, .box = box[0], .cause = CAUSE_STOPPED));
	reaper_says(IPC_ROW(order_kill, .box = box[1], .container = IPC_STR(fake_box(box[1])->id),
			    .cause = CAUSE_STOPPED));
	for (size_t i = 0; i < 2; i++) {
		assert_true(ended(c, calls[i]));
		assert_int_equal(seen_of(c, calls[i])->end.status, RUN_cancelled);
	}
}

static void
test_a_kill_order_ends_a_live_box(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call, box;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	reaper_says(IPC_ROW(order_kill, .box = box, .container = IPC_STR(fake_box(box)->id),
			    .cause = CAUSE_DEADLINE));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_timed_out);
	assert_int_equal(fake.calls[OP_KILL], 1);
}

static void
test_removal_without_autoremove_and_with_an_unwilling_engine(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->reaper.autoremove = false;
	fake_fail(OP_REMOVE, -EEXIST, 409, "removal already in progress", 2);
	assert_true(ended(c, submit(c, BOX_SHELL)));
	for (int i = 0; i < 8; i++) { /* box timers: 150, 100, 200 ms */
		clock_pass(100);
		world_settle();
	}
	assert_int_equal(fake.calls[OP_REMOVE], 3);
	assert_int_equal(fake.live_now, 0);
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(w->reaper.n_gone, 1);
}

static void
test_a_new_reaper_hears_of_every_box(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	world_warm(c);
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	w->reaper.kill = false;
	box_end(TAILQ_FIRST(&w->b.pools[0][BOX_PYTHON].ready), CAUSE_UNUSED);
	world_settle();
	memset(w->reaper.rows, 0, sizeof(w->reaper.rows));
	link_free(TAKE(w->reaper.link));
	world_settle();
	assert_null(w->b.reaper);
	w->reaper.kill = true;
	reaper_connect();
	world_settle();
	assert_true(w->reaper.rows[IPC_NUM_watch_intend] >= 3);
	assert_true(w->reaper.rows[IPC_NUM_watch_created] >= 3);
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_deadline], 1);
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_kill], 1);
	assert_int_equal(boxes_in(BOX_ENDING), 0);
	clock_pass(80); /* the wait before the deadline would be told is over and forgotten */
	world_settle();
	assert_false(seen_of(c, call)->ended);
	fake_guest_exit(run_of(c, call)->box->id, &fake.guest.result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

/* Its run ended while no reaper listened, and the ledger still has the run's deadline. */
static void
test_a_new_reaper_hears_of_a_deadline_that_is_none_any_more(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	const char *id = stay(c, 0);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit_within(c, id, 0, "code");
	assert_true(granted(c, call));
	world_settle();
	clock_pass(80); /* a short run's deadline is told to nobody */
	world_settle();
	assert_true(w->reaper.deadline_ns > 0);
	link_free(TAKE(w->reaper.link));
	world_settle();
	assert_null(w->b.reaper);
	fake_guest_exit(run_of(c, call)->box->id, &fake.guest.result);
	assert_true(ended(c, call));
	reaper_connect();
	world_settle();
	assert_int_equal(w->reaper.deadline_ns, 0);
}

static void
test_a_box_asked_for_before_the_reaper_died(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->reaper.intend = false;
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_int_equal(boxes_in(BOX_ASKED), 1);
	link_free(TAKE(w->reaper.link));
	world_settle();
	w->reaper.intend = true;
	reaper_connect();
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_a_reaper_that_refuses(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->reaper.intend = false;
	call = submit(c, BOX_SHELL);
	world_settle();
	reaper_says(IPC_ROW(watch_killed, .box = w->reaper.last_box, .cause = CAUSE_START));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_busy);
	assert_int_equal(fake.calls[OP_CREATE], 0);
	world_settle();
}

static void
test_an_order_to_remove_while_create_is_under_way(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call, box;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_CREATE] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	box = w->reaper.last_box;
	w->reaper.kill = false; /* the order alone */
	reaper_says(
		IPC_ROW(order_remove, .box = box, .container = IPC_STR(""), .name = IPC_STR("x")));
	assert_true(ended(c, call));
	assert_int_equal(fake.calls[OP_REMOVE], 0);
	fake_release(OP_CREATE);
	world_settle();
	assert_int_equal(fake.calls[OP_REMOVE], 1);
	assert_int_equal(fake.live_now, 0);
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

static void
test_no_reaper_for_long_is_the_end(void **state)
{
	(void)state;
	link_free(TAKE(w->reaper.link));
	world_settle();
	assert_null(w->b.reaper);
	world_skew_ms += 60000;
	broker_tick(&w->b);
	assert_false(event_base_got_break(w->base));
	world_skew_ms += 11000;
	broker_tick(&w->b);
	assert_true(event_base_got_break(w->base));
	reaper_connect();
	world_settle();
	broker_tick(&w->b);
	assert_false(event_base_got_break(w->base));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_orders_for_boxes_of_a_former_broker),
		T(test_orders_before_the_settings),
		T(test_rows_about_unknown_boxes_mean_nothing),
		T(test_counters_are_kept_with_their_box),
		T(test_a_stop_that_the_reaper_tells_first),
		T(test_a_kill_order_ends_a_live_box),
		T(test_removal_without_autoremove_and_with_an_unwilling_engine),
		T(test_a_new_reaper_hears_of_every_box),
		T(test_a_new_reaper_hears_of_a_deadline_that_is_none_any_more),
		T(test_a_box_asked_for_before_the_reaper_died),
		T(test_a_reaper_that_refuses),
		T(test_no_reaper_for_long_is_the_end),
		T(test_an_order_to_remove_while_create_is_under_way),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
