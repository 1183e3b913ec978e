/* The list at the first use: dead trees' containers go, live trees' stay. */
#include "test.h"

#include "broker_world.h"

static void
test_first_use_sweeps_once(void **state)
{
	static struct engine_container others[] = {
		{.id = "aaaa", .instance = "ffffffffffffffffffffffffffffffff", .box = 5},
		{.id = "bbbb",
		 .instance = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
		 .box = 6,
		 .created_only = true},
		{.id = "cccc", .instance = "0123456789abcdef0123456789abcdef", .box = 7},
		{.id = "dddd",
		 .instance = "0123456789abcdef0123456789abcdef",
		 .box = UINT64_MAX}, /* not a number this tree gives */
	};
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.strangers = others;
	fake.n_strangers = ARRAY_LEN(others);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(fake.calls[OP_LIST], 1);
	assert_int_equal(w->reaper.candidates, 2);
	assert_int_equal(fake.calls[OP_REMOVE], 1); /* a former broker's, of this tree */
	assert_string_equal(fake.last_removed, "cccc");
	reaper_says(IPC_ROW(sweep_verdict, .container = IPC_STR("aaaa"), .dead = 0));
	reaper_says(IPC_ROW(sweep_verdict, .container = IPC_STR("bbbb"), .dead = 1));
	world_settle();
	assert_int_equal(fake.calls[OP_REMOVE], 2);
	assert_string_equal(fake.last_removed, "bbbb");
	assert_true(ended(c, submit(c, BOX_SHELL)));
	assert_int_equal(fake.calls[OP_LIST], 1);
}

/* What was still being made for a tree just killed is not in the first list. */
static void
test_a_second_list_after_some_seconds(void **state)
{
	static struct engine_container late[] = {
		{.id = "aaaa", .instance = "ffffffffffffffffffffffffffffffff", .box = 5},
	};
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	world_later(60000); /* not before the first use */
	assert_int_equal(fake.calls[OP_LIST], 0);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(fake.calls[OP_LIST], 1);
	assert_int_equal(w->reaper.candidates, 0);
	fake.strangers = late;
	fake.n_strangers = 1;
	world_later(4000);
	assert_int_equal(fake.calls[OP_LIST], 1);
	world_later(2000);
	assert_int_equal(fake.calls[OP_LIST], 2);
	assert_int_equal(w->reaper.candidates, 1);
	world_later(60000);
	world_later(60000);
	assert_int_equal(fake.calls[OP_LIST], 2);
}

/* Its age is counted from where we saw it first: no wall clock has a word in it. */
static void
test_what_is_never_started_is_looked_at_again(void **state)
{
	static struct engine_container left[] = {
		{.id = "aaaa",
		 .instance = "ffffffffffffffffffffffffffffffff",
		 .box = 5,
		 .created_only = true},
	};
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.strangers = left;
	fake.n_strangers = 1;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(w->reaper.candidates, 1);
	assert_int_equal(w->reaper.age_s, 0);
	world_later(6000);
	assert_int_equal(w->reaper.candidates, 2);
	assert_in_range(w->reaper.age_s, 5, 10);
	world_later(59000);
	assert_int_equal(w->reaper.candidates, 2);
	world_later(4000);
	assert_int_equal(w->reaper.candidates, 3);
	assert_in_range(w->reaper.age_s, 61, 80);
	world_later(60000);
	world_later(60000);
	assert_int_equal(fake.calls[OP_LIST], 3); /* it is looked at no more */
	fake.n_strangers = 0;
	fake_gap();
	world_settle();
	fake.n_strangers = 1; /* another one of this name */
	fake_gap();
	world_settle();
	assert_int_equal(w->reaper.candidates, 4);
	assert_int_equal(w->reaper.age_s, 0);
}

/* More than are remembered count as young. */
static void
test_many_unstarted(void **state)
{
	static struct engine_container many[40];
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		(void)snprintf(many[i].id, sizeof(many[i].id), "%04zx", i);
		memset(many[i].instance, 'f', 32);
		many[i].created_only = true;
	}
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.strangers = many;
	fake.n_strangers = ARRAY_LEN(many);
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	world_later(6000);
	assert_int_equal(w->reaper.candidates, 80);
	assert_int_equal(w->reaper.age_s, 0);
	assert_int_equal(w->b.sweep.n_unstarted, 32);
}

static void
test_removals_are_one_at_a_time_and_survive_failure(void **state)
{
	(void)state;
	fake.hold[OP_REMOVE] = true;
	fake_fail(OP_REMOVE, -EIO, 500, "scripted", 1);
	for (int i = 0; i < 300; i++)
		sweep_remove(&w->b, "abcd");
	assert_int_equal(fake.calls[OP_REMOVE], 1);
	fake_release(OP_REMOVE);
	for (int i = 0; i < 10; i++)
		world_settle();
	assert_int_equal(fake.calls[OP_REMOVE],
			 257); /* 256 waited; the rest is for the next sweep */
}

static void
test_a_gap_in_the_events_shows_who_vanished(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct box *x;

	(void)state;
	world_warm(c);
	x = TAILQ_FIRST(&w->b.pools[0][BOX_PYTHON].ready);
	fake_box(x->id)->removed = true; /* and nobody told us */
	fake.live_now--;
	fake_gap();
	world_settle();
	assert_int_equal(fake.calls[OP_LIST], 2);
	world_later(1100);
	wait_warm(BOX_PYTHON, 2);
	fake.hold[OP_LIST] = true;
	fake_gap();
	fake_gap(); /* one question is enough */
	assert_int_equal(fake.calls[OP_LIST], 3);
	fake_fail(OP_LIST, -EIO, 500, "scripted", 1);
	fake_release(OP_LIST);
	world_settle();
	fake_gap();
	world_settle();
	assert_int_equal(w->b.pools[0][BOX_PYTHON].n_ready, 2);
}

/* A box made after the list was asked for is not in it, and not lost for that. */
static void
test_a_box_younger_than_the_list(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	fake.hold[OP_LIST] = true;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_box(run_of(c, call)->box->id)->spec.label.instance[0] = 'x'; /* list without it */
	fake_release(OP_LIST);
	world_settle();
	assert_false(seen_of(c, call)->ended);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_first_use_sweeps_once),
		T(test_a_second_list_after_some_seconds),
		T(test_what_is_never_started_is_looked_at_again),
		T(test_many_unstarted),
		T(test_removals_are_one_at_a_time_and_survive_failure),
		T(test_a_gap_in_the_events_shows_who_vanished),
		T(test_a_box_younger_than_the_list),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
