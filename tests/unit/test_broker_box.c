/* box.def: every cell, and that no sequence of events leaves the table. */
#include "test.h"

#include "broker_world.h"

static void
test_every_cell_is_named_and_leads_somewhere(void **state)
{
	size_t cells = 0;

	(void)state;
	for (int ev = 0; ev < BOX_EVENTS; ev++) {
		for (int s = 0; s < BOX_STATES; s++) {
			enum box_state next = BOX_STATES;
			const char *action = box_cell((enum box_state)s, (enum box_event)ev, &next);

			assert_true(action[0] != '\0');
			assert_true(next < BOX_STATES);
			assert_string_not_equal(box_state_name(next), "?");
			/* Nothing comes back from the dead, nor from its end to life. */
			if (s == BOX_GONE)
				assert_int_equal(next, BOX_GONE);
			if (s == BOX_ENDING || s == BOX_REMOVING)
				assert_true(next >= BOX_ENDING);
			if (strcmp(action, "none") == 0 || strcmp(action, "stray") == 0)
				assert_int_equal(next, s);
			cells++;
		}
		assert_string_not_equal(box_event_name((enum box_event)ev), "?");
	}
	assert_int_equal(cells, (size_t)BOX_EVENTS * BOX_STATES);
	assert_string_equal(box_state_name(BOX_STATES), "?");
	assert_string_equal(box_event_name(BOX_EVENTS), "?");
}

/* Whatever state a box is in, wanting it ended or its stream closing ends it. */
static void
test_every_live_state_has_its_end(void **state)
{
	(void)state;
	for (int s = BOX_ASKED; s < BOX_ENDING; s++) {
		enum box_state next;

		(void)box_cell((enum box_state)s, ON_END, &next);
		assert_true(next >= BOX_ENDING);
		(void)box_cell((enum box_state)s, ON_KILLED, &next);
		assert_true(next >= BOX_ENDING);
		/* CLAIMED tries again for a while; in ATTACHED start's answer decides. */
		if (s >= BOX_CHECKED && s != BOX_ATTACHED && s != BOX_CLAIMED) {
			(void)box_cell((enum box_state)s, ON_CLOSED, &next);
			assert_true(next >= BOX_ENDING);
		}
	}
}

static struct box *
bring_to(enum box_state want, struct client *c)
{
	static const enum fake_op hold[BOX_STATES] = {[BOX_INTENDED] = OP_CREATE,
						      [BOX_CREATED] = OP_CHECK,
						      [BOX_CHECKED] = OP_ATTACH,
						      [BOX_ATTACHED] = OP_START};

	w->reaper.intend = want != BOX_ASKED;
	if (hold[want])
		fake.hold[hold[want]] = true;
	fake.guest.hello = want != BOX_STARTED;
	fake.guest.exit = false;
	c->auto_run = want == BOX_RUNNING || want == BOX_SPENT;
	w->reaper.kill = want != BOX_ENDING;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	if (want == BOX_READY || want == BOX_WARM) {
		w->b.settings.flags &= ~(uint32_t)SETTINGS_NO_POOL;
		fake.guest.ready = want == BOX_WARM;
		w->b.refill_after_ms = 0;
		pool_of(&w->b, profile_find("", 0), BOX_PYTHON)->target = 1;
		probe_need(&w->b);
	} else if (want == BOX_CLAIMED) {
		world_remember();
		(void)submit_within(c, stay(c, CALL_KEEP), 0, "code");
		world_settle();
		w->reaper.keeps = false;
		world_broker_dies();
	} else if (want == BOX_STAYS) {
		(void)submit_within(c, stay(c, 0), 0, "code"); /* one run goes on in it */
	} else {
		(void)submit(c, BOX_PYTHON);
	}
	world_settle();
	if (want == BOX_SPENT) {
		struct run *r = TAILQ_FIRST(&box_in(BOX_RUNNING)->runs);

		r->have_exit = true;
		run_finish(r, RUN_ok, NULL, 0);
	}
	if (want == BOX_ENDING || want == BOX_REMOVING) {
		fake.hold[OP_REMOVE] = true;
		w->reaper.autoremove = false;
		box_end(box_in(BOX_GRANTED), CAUSE_UNUSED);
		world_settle();
		if (want == BOX_REMOVING && box_in(BOX_ENDING))
			box_event(box_in(BOX_ENDING), ON_REMOVE);
	}
	return box_in(want);
}

/* Drives a real box into each state and fires each event at it: the table's word
 * holds, nothing crashes, and in the end nothing is left. */
static void
test_walk_all_cells(void **state)
{
	/* Most of these events are faults and say so: not in the test's output. */
	int err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	assert_true(err >= 0 && null >= 0 && dup2(null, STDERR_FILENO) >= 0);
	for (int s = BOX_ASKED; s < BOX_GONE; s++) {
		for (int ev = 0; ev < BOX_EVENTS; ev++) {
			enum box_state next;
			struct client *c;
			struct box *x;
			uint64_t id;

			assert_int_equal(world_setup(state), 0);
			c = world_client(0, OWNER_TREE, 1);
			x = bring_to((enum box_state)s, c);
			assert_non_null(x);
			id = x->id;
			(void)box_cell((enum box_state)s, (enum box_event)ev, &next);
			x->why = (struct engine_result){-EIO, 500, "scripted"};
			box_event(x, (enum box_event)ev);
			if (next == BOX_GONE)
				assert_null(box_find(&w->b, id));
			else if (next >= BOX_ENDING)
				assert_true(x->state >= BOX_ENDING);
			for (int op = 0; op < OPS; op++)
				fake_release((enum fake_op)op);
			world_settle();
			w->reaper.kill = w->reaper.remove = true;
			world_hang_up(c);
			w->b.settings.flags |= SETTINGS_NO_POOL;
			world_settle();
			pool_drain(&w->b, CAUSE_UNUSED);
			x = box_find(&w->b, id);
			if (x && x->state < BOX_ENDING)
				box_end(x, CAUSE_UNUSED);
			world_settle();
			assert_int_equal(idmap_count(w->b.runs), 0);
			assert_int_equal(world_teardown(state), 0);
		}
	}
	assert_true(dup2(err, STDERR_FILENO) >= 0);
	(void)close(err);
	(void)close(null);
}

/* Who asked reads the answer before anybody works on the box's end; where others wait, it ends at
 * once. */
static void
test_the_asker_reads_first(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct box *first, *second;

	(void)state;
	fake.guest.exit = false;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)submit(c, BOX_SHELL);
	world_settle();
	first = box_in(BOX_RUNNING);
	assert_non_null(first);
	(void)submit(c, BOX_SHELL);
	world_settle();
	TAILQ_FIRST(&first->runs)->have_exit = true;
	run_finish(TAILQ_FIRST(&first->runs), RUN_ok, NULL, 0);
	assert_int_equal(first->state, BOX_ENDING); /* the other call goes on */
	world_settle();
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_kill], 1);
	second = box_in(BOX_RUNNING);
	TAILQ_FIRST(&second->runs)->have_exit = true;
	run_finish(TAILQ_FIRST(&second->runs), RUN_ok, NULL, 0);
	assert_int_equal(second->state, BOX_SPENT);
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_kill], 1);
	assert_true(w->b.quiet_until_ms >= clock_now_ms());
	world_settle();
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_kill], 2);
	assert_int_equal(w->reaper.last_cause, CAUSE_DONE);
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell_is_named_and_leads_somewhere),
		cmocka_unit_test(test_every_live_state_has_its_end),
		cmocka_unit_test(test_walk_all_cells),
		cmocka_unit_test_setup_teardown(test_the_asker_reads_first, world_setup,
						world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
