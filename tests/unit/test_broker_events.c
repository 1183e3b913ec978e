/* The event stream: only what truly is ours moves anything. */
#include "test.h"

#include "broker_world.h"

static void
test_watched_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	assert_true(ended(c, submit(c, BOX_SHELL)));
	events_watch(&w->b);
	assert_int_equal(fake.calls[OP_EVENTS], 1);
}

static void
test_foreign_events_mean_nothing(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct fake_container *f;
	uint64_t call, box;
	char keep;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	f = fake_box(box);
	keep = f->spec.label.instance[0];
	f->spec.label.instance[0] = 'z'; /* another tree's */
	fake_event(box, ENGINE_EV_OOM);
	assert_false(run_of(c, call)->oom);
	f->spec.label.instance[0] = keep;
	f->id[0] = 'z'; /* another container with our label */
	fake_event(box, ENGINE_EV_OOM);
	assert_false(run_of(c, call)->oom);
	f->id[0] = '0';
	fake_event(box, ENGINE_EV_START);
	fake_event(box, ENGINE_EV_DIE);
	world_settle();
	assert_false(seen_of(c, call)->ended);
	fake_event(box, ENGINE_EV_OOM);
	assert_true(run_of(c, call)->oom);
}

/* The counters are read as the stream ends; the engine's word comes after it. */
static void
test_destroyed_after_its_verdict(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call, box;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	w->reaper.kill = false;
	w->reaper.final = (struct figures){.have = FIG_OOM, .oom_kills = 1};
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	fake_die(box);
	fake_event(box, ENGINE_EV_DESTROY);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_oom_killed);
	reaper_says(IPC_ROW(order_remove, .box = box, .container = IPC_STR(fake_box(box)->id),
			    .name = IPC_STR("")));
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_watched_once),
		T(test_foreign_events_mean_nothing),
		T(test_destroyed_after_its_verdict),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
