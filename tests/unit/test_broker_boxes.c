/* Boxes made and buried: numbers, caps, secrets, and nothing freed under a caller. */
#include "test.h"

#include "broker_world.h"

static struct box *
make(void)
{
	const struct profile *p = profile_find("", 0);
	struct limits l;

	policy_defaults(&w->b.settings, p, &l);
	return box_new(&w->b, p, BOX_PYTHON, true, &l, 60);
}

static void
test_numbers_and_secrets_differ(void **state)
{
	struct box *a, *b;

	(void)state;
	w->reaper.intend = false;
	a = make();
	b = make();
	assert_true(b->id == a->id + 1);
	assert_int_not_equal(memcmp(a->secret, b->secret, sizeof(a->secret)), 0);
	assert_ptr_equal(box_find(&w->b, a->id), a);
	assert_null(box_find(&w->b, 0));
	assert_null(box_find(&w->b, b->id + 1));
	world_settle();
	assert_int_equal(w->reaper.rows[IPC_NUM_watch_intend], 2);
}

static void
test_none_without_a_reaper_or_room(void **state)
{
	struct box *x = NULL;

	(void)state;
	w->reaper.intend = false;
	for (unsigned int i = 0; i < BOXES_MAX; i++) {
		x = make();
		assert_non_null(x);
	}
	assert_null(make());
	box_end(x, CAUSE_UNUSED); /* nothing was created: gone at once */
	assert_int_equal(idmap_count(w->b.boxes), BOXES_MAX - 1);
	link_free(TAKE(w->reaper.link));
	world_settle();
	assert_null(make());
}

static void
test_buried_but_not_freed_under_a_caller(void **state)
{
	struct box *x;

	(void)state;
	w->reaper.intend = false;
	x = make();
	box_end(x, CAUSE_UNUSED);
	assert_int_equal(x->state, BOX_GONE); /* still readable */
	assert_int_equal(x->cause, CAUSE_UNUSED);
	assert_int_equal(box_send(x, GUEST_h_ping, NULL, 0), -EPIPE);
	box_end(x, CAUSE_DONE); /* and deaf */
	assert_int_equal(x->cause, CAUSE_UNUSED);
	world_settle();
	assert_true(TAILQ_EMPTY(&w->b.grave));
	assert_int_equal(w->reaper.n_gone, 1);
}

static void
test_a_restarted_broker_counts_on(void **state)
{
	static struct broker other;

	(void)state;
	world_skew_ms += 10;
	assert_int_equal(broker_init(&other, w->base), 0);
	assert_true(other.next_box > w->b.next_box);
	broker_done(&other);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_numbers_and_secrets_differ),
		T(test_none_without_a_reaper_or_room),
		T(test_buried_but_not_freed_under_a_caller),
		T(test_a_restarted_broker_counts_on),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
