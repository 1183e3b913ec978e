/* What a fresh broker makes of a former one's records: sandboxes, runs, endings, owners. */
#include "test.h"

#include "broker_world.h"

static struct client *
begin(char id[33], uint32_t flags)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	world_remember();
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	memcpy(id, stay(c, flags), 33);
	return c;
}

static void
test_a_living_one(void **state)
{
	char id[33], run_id[33];
	struct client *c = begin(id, CALL_KEEP);
	uint64_t call = submit_within(c, id, 0, "code"), born = box_in(BOX_STAYS)->sandbox->born_ms;
	const struct run *r;
	struct box *x;

	(void)state;
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_stays], 1);
	memcpy(run_id, run_of(c, call)->run_id, sizeof(run_id));
	fake_guest_out(box_in(BOX_STAYS)->id, 1, STREAM_STDOUT, "hello", 5);
	world_later(1000); /* the tick acknowledges */
	assert_int_equal(fake.last_ack, 1);
	fake_guest_out(box_in(BOX_STAYS)->id, 1, STREAM_STDOUT, "not yet acknowledged", 20);
	w->reaper.keeps = false;
	world_broker_dies();
	x = box_in(BOX_CLAIMED);
	assert_non_null(x);
	assert_string_equal(x->sandbox->id, id);
	assert_int_equal(x->sandbox->born_ms, born);
	assert_int_equal(x->sandbox->owner->kind, OWNER_UID);
	assert_int_equal(x->owner->boxes, 1);
	assert_true(w->b.memory_bytes >= x->limits.memory_bytes);
	assert_int_equal(x->session.guest_seq, 1);
	assert_int_equal(x->session.last_run, 1);
	r = TAILQ_FIRST(&x->runs);
	assert_string_equal(r->run_id, run_id);
	assert_int_equal(r->awaits, 1);
	assert_int_equal(r->phase, PHASE_ACTIVE);
	assert_int_equal(session_run(&x->session, 1)->sent[STREAM_STDOUT], 5);
	assert_int_equal(r->stored[STREAM_STDOUT], 20); /* kept, though never acknowledged */
	assert_int_equal(w->lost, 0);                   /* it goes on */
	world_settle();
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_claim], 1);
	c = world_client(0, OWNER_UID, 1);
	assert_int_equal(listed(c), 1);
	assert_int_equal(c->list[0].row.alive, 1);
	c = world_client(1, OWNER_UID, 2);
	assert_int_equal(listed(c), 0);
}

/* What served a single call ends with its broker: the next one logs and counts that. */
static void
test_runs_that_were_lost_are_counted_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	world_remember();
	fake.guest.exit = false;
	call = submit_spec(c, BOX_PYTHON, "code");
	assert_true(granted(c, call));
	world_settle();
	world_broker_dies();
	assert_int_equal(w->lost, 1);
	world_broker_dies();
	assert_int_equal(w->lost, 0);
}

/* Its frontend has the word and calls it lost: so does the next broker. */
static void
test_a_run_that_had_only_the_word_is_lost_too(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	world_remember();
	call = submit(c, BOX_PYTHON);
	seen_of(c, call)->quiet = true;
	assert_true(granted(c, call));
	assert_int_equal(run_of(c, call)->phase, PHASE_GRANTED);
	world_broker_dies();
	assert_int_equal(w->lost, 1);
}

static void
test_an_ended_one_says_why_for_its_ten_minutes(void **state)
{
	char id[33];
	struct client *c = begin(id, CALL_KEEP);
	uint64_t call;

	(void)state;
	(void)link_send(c->link,
			IPC_ROW(sandbox_destroy, .call = ++c->next_call, .sandbox = IPC_STR(id)));
	world_settle();
	world_broker_dies();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	c = world_client(0, OWNER_UID, 1);
	call = submit_within(c, id, 0, "code");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_not_found);
	assert_non_null(strstr(seen_of(c, call)->message, "because it was destroyed"));
	c = world_client(1, OWNER_UID, 2);
	call = submit_within(c, id, 0, "code");
	assert_true(ended(c, call));
	assert_string_equal(seen_of(c, call)->message, ""); /* as if it had never been */
	world_later(SANDBOX_ENDED_MS + 1000);
	world_broker_dies();
	assert_int_equal(w->b.sandboxes.n_ended, 0);
}

/* As many ends as are remembered: the newest one is, too. */
static void
test_the_newest_of_many_ends(void **state)
{
	char id[33];
	struct client *c = begin(id, CALL_KEEP);
	struct keep_ended e = {.name = {.owner_kind = OWNER_UID, .owner_number = 1, .keep = 1},
			       .cause = CAUSE_IDLE};
	const struct sandbox *s;

	(void)state;
	(void)str_copy(e.name.profile, sizeof(e.name.profile), "default", 7);
	for (uint32_t i = 0; i < KEEP_ENDED_MAX; i++) {
		uint8_t raw[16] = {1, (uint8_t)i, (uint8_t)(i >> 8)};

		hex_encode(e.name.id, raw, sizeof(raw));
		e.ended_ms = clock_now_ms();
		assert_int_equal(keep_put_ended(w->b.keep, &e), i);
	}
	w->b.settings.flags |= SETTINGS_NO_POOL;
	world_broker_dies();
	world_settle();
	assert_int_equal(w->b.sandboxes.n_ended, KEEP_ENDED_MAX);
	c = world_client(0, OWNER_UID, 1);
	(void)link_send(c->link,
			IPC_ROW(sandbox_destroy, .call = ++c->next_call, .sandbox = IPC_STR(id)));
	world_settle();
	world_broker_dies();
	assert_int_equal(w->b.sandboxes.n_ended, KEEP_ENDED_MAX);
	TAILQ_FOREACH(s, &w->b.sandboxes.ended, entry)
	if (strcmp(s->id, id) == 0)
		return;
	fail();
}

static void
test_what_a_call_holds_is_not_kept(void **state)
{
	char id[33];

	(void)state;
	(void)begin(id, CALL_HOLD);
	assert_int_equal(box_in(BOX_STAYS)->kept, KEEP_NONE);
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_stays], 0);
	world_broker_dies();
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

/* Killed between the two writes of an end: the end counts. */
static void
test_an_end_beside_a_living_record(void **state)
{
	char id[33];
	struct client *c = begin(id, CALL_KEEP);
	struct box *x = box_in(BOX_STAYS);

	(void)state;
	x->sandbox->cause = CAUSE_IDLE;
	x->sandbox->ended_ms = clock_now_ms();
	adopt_note_ended(x->sandbox, &w->b);
	world_broker_dies();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(w->b.sandboxes.n_ended, 1);
	c = world_client(0, OWNER_UID, 1);
	assert_int_equal(listed(c), 1);
	assert_int_equal(c->list[0].row.alive, 0);
}

static void
test_an_owner_that_does_not_come_back(void **state)
{
	char id[33];
	struct client *c = begin(id, 0);
	struct box *x;

	(void)state;
	w->reaper.kill = false; /* what our way to die says must not reach it */
	world_broker_dies();
	w->reaper.kill = true;
	x = box_in(BOX_CLAIMED);
	if (x) {
		assert_int_equal(x->sandbox->front_peer, 1);
		c = world_client(0, OWNER_UID, 1);
		assert_non_null(x->sandbox->front);
		world_hang_up(c);
		world_settle();
		assert_null(box_in(BOX_CLAIMED));
	}
	assert_non_null(x);
}

static void
test_frontends_are_waited_for(void **state)
{
	char id[33];

	(void)state;
	(void)begin(id, 0);
	w->reaper.kill = false;
	world_broker_dies();
	w->reaper.kill = true;
	assert_non_null(box_in(BOX_CLAIMED));
	world_later(3500);
	assert_null(box_in(BOX_CLAIMED));
	assert_int_equal(TAILQ_FIRST(&w->b.sandboxes.ended)->cause, CAUSE_OWNER_GONE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_living_one),
		T(test_runs_that_were_lost_are_counted_once),
		T(test_a_run_that_had_only_the_word_is_lost_too),
		T(test_an_ended_one_says_why_for_its_ten_minutes),
		T(test_the_newest_of_many_ends),
		T(test_what_a_call_holds_is_not_kept),
		T(test_an_end_beside_a_living_record),
		T(test_an_owner_that_does_not_come_back),
		T(test_frontends_are_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
