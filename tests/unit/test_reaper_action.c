/* reaper/action.c: the ways a box ends, seen from outside: signals, orders, words. */
#include "reaper_world.h"

static void
kill_box(uint64_t box, enum end_cause cause)
{
	say(IPC_ROW(watch_kill, .box = box, .cause = cause));
}

static void
gone(uint64_t box)
{
	say(IPC_ROW(watch_gone, .box = box));
	nothing_sent();
}

/* watch_killed and order_remove, in this order, for one box. */
static void
told_and_removed(uint64_t box, enum end_cause cause)
{
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent[0].row.num, IPC_NUM_watch_killed);
	assert_int_equal(sent[0].row.u.watch_killed.box, box);
	assert_int_equal(sent[0].row.u.watch_killed.cause, cause);
	assert_int_equal(sent[1].row.num, IPC_NUM_order_remove);
	assert_int_equal(sent[1].row.u.order_remove.box, box);
	n_sent = 0;
}

static void
test_done_box_is_killed_seen_dead_removed(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	kill_box(5, CAUSE_DONE);
	assert_int_equal(p->signals, 1);
	told_and_removed(5, CAUSE_DONE);
	assert_string_equal(sent[1].container, ID);
	assert_string_equal(sent[1].name, "bailey-box");
	assert_int_equal(state_of(5), BOX_REMOVING);
	gone(5);
	assert_int_equal(state_of(5), BOX_FREE);
	assert_int_equal(idmap_count(r.boxes), 0);
}

/* The signal is out, but the process takes its time: nothing is said before it is seen dead. */
static void
test_no_word_before_death_is_seen(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	p->stubborn = true;
	kill_box(5, CAUSE_CANCEL);
	assert_int_equal(p->signals, 1);
	nothing_sent();
	process_die(p);
	look();
	told_and_removed(5, CAUSE_CANCEL);
}

static void
test_stubborn_process_is_left_to_the_engine_too(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	p->stubborn = true;
	kill_box(5, CAUSE_DONE);
	pass(NS_PER_S);
	assert_int_equal(p->signals, 2);
	only_sent(IPC_NUM_order_remove);
	assert_int_equal(state_of(5), BOX_REMOVING);
	/* dies now: the word comes, once, and no second order */
	process_die(p);
	look();
	assert_int_equal(only_sent(IPC_NUM_watch_killed)->u.watch_killed.cause, CAUSE_DONE);
	gone(5);
}

/* A plain user's reaper sees the process but may not signal it. */
static void
test_without_the_right_the_broker_kills(void **state)
{
	struct process *p = running_box(5, 500, false);

	(void)state;
	kill_box(5, CAUSE_DONE);
	assert_int_equal(p->signals, 0);
	const struct ipc_row *row = only_sent(IPC_NUM_order_kill);
	assert_int_equal(row->u.order_kill.cause, CAUSE_DONE);
	process_die(p);
	look();
	told_and_removed(5, CAUSE_DONE);
	gone(5);
}

/* A remote engine's box cannot be seen: order_kill, then removal; its death is never claimed. */
static void
test_unseen_box_ends_by_the_engines_word(void **state)
{
	(void)state;
	intend(5);
	created(5);
	started(5, 500, false);
	kill_box(5, CAUSE_DONE);
	only_sent(IPC_NUM_order_kill);
	pass(200 * NS_PER_MS);
	only_sent(IPC_NUM_order_remove);
	gone(5);
	assert_int_equal(state_of(5), BOX_FREE);
}

static void
test_box_that_was_never_started_is_dropped(void **state)
{
	(void)state;
	intend(5);
	kill_box(5, CAUSE_UNUSED);
	only_sent(IPC_NUM_order_remove);
	assert_string_equal(sent[0].container, "");
	/* the create came through after all: ordered again, by id */
	say(IPC_ROW(watch_created, .box = 5, .container = IPC_STR(ID)));
	only_sent(IPC_NUM_order_remove);
	assert_string_equal(sent[0].container, ID);
	/* and even started: held, killed, removed */
	struct process *p = process_new(500, true);
	say(IPC_ROW(watch_created, .box = 5, .container = IPC_STR(ID), .pid = 500));
	assert_int_equal(p->signals, 1);
	assert_int_equal(n_sent, 3);
	assert_int_equal(sent[0].row.num, IPC_NUM_watch_held);
	assert_int_equal(sent[1].row.num, IPC_NUM_order_remove);
	assert_int_equal(sent[2].row.num, IPC_NUM_watch_killed);
	n_sent = 0;
	gone(5);
}

static void
test_deadline(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = now_ns + 10 * NS_PER_S));
	assert_int_equal(r.deadline.armed_ns, now_ns + 10 * NS_PER_S);
	pass(10 * NS_PER_S - 1);
	assert_int_equal(p->signals, 0);
	pass(1);
	assert_int_equal(p->signals, 1);
	told_and_removed(5, CAUSE_DEADLINE);
	/* the broker's own kill, on its way at the same time, changes nothing */
	kill_box(5, CAUSE_DONE);
	nothing_sent();
	gone(5);
}

static void
test_deadline_can_be_disarmed_and_moved(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = now_ns + NS_PER_S));
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = 0));
	pass(2 * NS_PER_S);
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = now_ns + 5 * NS_PER_S));
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = now_ns + NS_PER_S));
	pass(NS_PER_S);
	assert_int_equal(p->signals, 1);
	n_sent = 0;
	gone(5);
}

static void
test_lifetime_ends_every_live_state(void **state)
{
	(void)state;
	intend(1);
	intend(2);
	created(2);
	struct process *p = running_box(3, 500, true);
	pass(3600 * NS_PER_S);
	assert_int_equal(p->signals, 1);
	/* each: told once, removal ordered once */
	int told = 0, removed = 0;
	for (size_t i = 0; i < n_sent; i++) {
		if (sent[i].row.num == IPC_NUM_watch_killed) {
			told++;
			assert_int_equal(sent[i].row.u.watch_killed.cause, CAUSE_LIFETIME);
		}
		removed += sent[i].row.num == IPC_NUM_order_remove;
	}
	assert_int_equal(told, 3);
	assert_int_equal(removed, 3);
}

/* A box that dies by itself: the broker may read its last output first. */
static void
test_death_nobody_ordered(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	process_die(p);
	look();
	nothing_sent();
	assert_int_equal(state_of(5), BOX_REMOVING);
	pass(299 * NS_PER_MS);
	nothing_sent();
	pass(NS_PER_MS);
	only_sent(IPC_NUM_order_remove);
	gone(5);
	/* or the broker says it is through with it */
	p = running_box(6, 600, true);
	process_die(p);
	look();
	kill_box(6, CAUSE_DIED);
	only_sent(IPC_NUM_order_remove);
	kill_box(6, CAUSE_DIED);
	nothing_sent();
	gone(6);
}

static void
test_removal_is_ordered_until_confirmed(void **state)
{
	static const uint64_t steps[] = {1, 2, 4, 5, 5, 5};

	(void)state;
	(void)running_box(5, 500, true);
	kill_box(5, CAUSE_DONE);
	n_sent = 0;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		pass(steps[i] * NS_PER_S - 1);
		nothing_sent();
		pass(1);
		only_sent(IPC_NUM_order_remove);
	}
	gone(5);
}

static void
test_stuck_is_reported_to_the_supervisor(void **state)
{
	int reports = 0;

	(void)state;
	(void)running_box(5, 500, true);
	kill_box(5, CAUSE_DONE);
	n_sent = 0;
	for (int second = 1; second <= 100; second++) {
		pass(NS_PER_S);
		for (size_t i = 0; i < n_sent; i++) {
			if (sent[i].row.num != IPC_NUM_stuck)
				continue;
			assert_ptr_equal(sent[i].link, SUPERVISOR);
			assert_int_equal(sent[i].row.u.stuck.box, 5);
			reports++;
			assert_int_equal(second, reports == 1 ? 30 : 90);
		}
		n_sent = 0;
	}
	assert_int_equal(reports, 2);
	gone(5);
}

/* The engine says "removed" while the process can be seen alive. */
static void
test_removed_but_alive(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	p->stubborn = true;
	say(IPC_ROW(watch_gone, .box = 5));
	assert_int_equal(state_of(5), BOX_KILLING);
	assert_int_equal(p->signals, 1);
	process_die(p);
	look();
	assert_int_equal(state_of(5), BOX_FREE);
	nothing_sent();
}

static void
test_broker_lost(void **state)
{
	struct process *seen = running_box(1, 100, true);
	struct process *barred = running_box(2, 200, false);
	uint64_t told = tally_value(TALLY_ENDED + CAUSE_BROKER_GONE);

	(void)state;
	intend(3);
	r.broker = NULL;
	watch_broker_lost(&r);
	look();
	assert_int_equal(seen->signals, 1);
	assert_int_equal(barred->signals, 0);
	nothing_sent(); /* there is nobody to talk to */
	pass(10 * NS_PER_S);
	nothing_sent();
	/* the next broker is asked at once for what is left */
	r.broker = BROKER;
	watch_broker_new(&r);
	int kills = 0, removes = 0;
	for (size_t i = 0; i < n_sent; i++) {
		kills += sent[i].row.num == IPC_NUM_order_kill;
		removes += sent[i].row.num == IPC_NUM_order_remove;
	}
	assert_int_equal(kills, 1);
	assert_int_equal(removes, 3);
	n_sent = 0;
	gone(1);
	process_die(barred);
	look();
	n_sent = 0;
	gone(2);
	gone(3);
	pass(3 * NS_PER_S); /* the create of this one was never answered */
	only_sent(IPC_NUM_order_remove);
	gone(3);
	assert_int_equal(idmap_count(r.boxes), 0);
	/* No broker knew them: nobody else logs and counts their end. */
	assert_int_equal(tally_value(TALLY_ENDED + CAUSE_BROKER_GONE), told + 3);
}

/* Whose end the present broker tells, and counts, is not told twice. */
static void
test_ends_are_told_once(void **state)
{
	uint64_t told = tally_value(TALLY_ENDED + CAUSE_BROKER_GONE),
		 done = tally_value(TALLY_ENDED + CAUSE_DONE);
	struct process *p = running_box(5, 500, true), *q = running_box(6, 600, true);

	(void)state;
	kill_box(5, CAUSE_DONE);
	process_die(p);
	look();
	n_sent = 0;
	gone(5);
	say(IPC_ROW(watch_stays, .box = 6));
	r.broker = NULL;
	watch_broker_lost(&r);
	pass(8 * NS_PER_S); /* nobody claims it: it is to end */
	r.broker = BROKER;
	watch_broker_new(&r);
	say(IPC_ROW(watch_claim, .box = 6)); /* then somebody does, and hears of its end */
	process_die(q);
	look();
	n_sent = 0;
	gone(6);
	assert_int_equal(idmap_count(r.boxes), 0);
	assert_int_equal(tally_value(TALLY_ENDED + CAUSE_BROKER_GONE), told);
	assert_int_equal(tally_value(TALLY_ENDED + CAUSE_DONE), done);
}

static void
test_next_broker_has_its_own_thirty_seconds(void **state)
{
	(void)state;
	(void)running_box(5, 500, true);
	kill_box(5, CAUSE_DONE);
	pass(20 * NS_PER_S);
	r.broker = NULL;
	watch_broker_lost(&r);
	pass(20 * NS_PER_S);
	n_sent = 0;
	r.broker = BROKER;
	watch_broker_new(&r);
	only_sent(IPC_NUM_order_remove);
	pass(29 * NS_PER_S);
	for (size_t i = 0; i < n_sent; i++)
		assert_int_not_equal(sent[i].row.num, IPC_NUM_stuck);
}

/* Nobody heard the answer to the create, so "no such container" is asked again for a while. */
static void
test_create_of_unknown_outcome(void **state)
{
	(void)state;
	intend(3);
	r.broker = NULL;
	watch_broker_lost(&r);
	pass(20 * NS_PER_MS);
	r.broker = BROKER;
	watch_broker_new(&r);
	only_sent(IPC_NUM_order_remove);
	gone(3);
	assert_int_equal(state_of(3), BOX_REMOVING);
	for (int i = 0; i < 3; i++) {
		pass(300 * NS_PER_MS);
		only_sent(IPC_NUM_order_remove);
		gone(3);
		assert_int_equal(state_of(3), BOX_REMOVING);
	}
	/* the engine goes away meanwhile: what was answered once is not stuck since the first order
	 */
	pass(27 * NS_PER_S);
	only_sent(IPC_NUM_order_remove);
	pass(5 * NS_PER_S);
	only_sent(IPC_NUM_order_remove);
	gone(3);
	assert_int_equal(idmap_count(r.boxes), 0);
}

/* A tree that ends does not wait for it: the user's next one looks through the engine's list. */
static void
test_create_of_unknown_outcome_at_the_end(void **state)
{
	(void)state;
	intend(3);
	r.broker = NULL;
	watch_broker_lost(&r);
	r.broker = BROKER;
	watch_broker_new(&r);
	only_sent(IPC_NUM_order_remove);
	watch_stop(&r, 1500);
	n_sent = 0;
	gone(3);
	assert_int_equal(idle_calls, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_done_box_is_killed_seen_dead_removed),
		T(test_no_word_before_death_is_seen),
		T(test_stubborn_process_is_left_to_the_engine_too),
		T(test_without_the_right_the_broker_kills),
		T(test_unseen_box_ends_by_the_engines_word),
		T(test_box_that_was_never_started_is_dropped),
		T(test_deadline),
		T(test_deadline_can_be_disarmed_and_moved),
		T(test_lifetime_ends_every_live_state),
		T(test_death_nobody_ordered),
		T(test_removal_is_ordered_until_confirmed),
		T(test_stuck_is_reported_to_the_supervisor),
		T(test_removed_but_alive),
		T(test_broker_lost),
		T(test_ends_are_told_once),
		T(test_next_broker_has_its_own_thirty_seconds),
		T(test_create_of_unknown_outcome),
		T(test_create_of_unknown_outcome_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
