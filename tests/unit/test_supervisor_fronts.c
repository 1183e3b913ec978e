/* supervisor/fronts.c: frontends are made, numbered, counted, and freed when they are gone. */
#include "test.h"
#include "supervisor.h"

#include <event2/event.h>

static struct tree t;
static int launch_result;

int __wrap_launch(struct child *c);
int
__wrap_launch(struct child *c)
{
	if (launch_result == 0)
		c->pid = 4711;
	return launch_result;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	launch_result = 0;
	t.base = event_base_new();
	children_init(&t);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	children_done(&t);
	assert_int_equal(t.n_fronts, 0);
	event_base_free(t.base);
	return 0;
}

static int
start(uint64_t uid)
{
	const struct client client = {.kind = CLIENT_UNIX,
				      .owner_kind = OWNER_UID,
				      .owner = uid,
				      .fd = open("/dev/null", O_RDWR | O_CLOEXEC)};

	return fronts_start(&t, &client);
}

static void
gone(struct child *c)
{
	c->pid = 0;
	c->state = CHILD_GAVE_UP;
}

static void
test_numbers_and_counts(void **state)
{
	(void)state;
	assert_int_equal(start(7), 0);
	assert_int_equal(start(8), 0);
	assert_int_equal(start(7), 0);
	assert_int_equal(t.n_fronts, 3);
	assert_int_equal(fronts_of_user(&t, 7), 2);
	assert_int_equal(fronts_of_user(&t, 8), 1);
	assert_int_equal(fronts_of_user(&t, 9), 0);
	struct child *first = TAILQ_FIRST(&t.fronts);
	assert_int_equal(first->client.peer_id, 1);
	assert_int_equal(first->state, CHILD_STARTING);
	gone(first);
	fronts_bury(&t);
	assert_int_equal(fronts_of_user(&t, 7), 1);
	assert_int_equal(start(9), 0);
	/* a number is never used twice */
	assert_int_equal(TAILQ_LAST(&t.fronts, child_list)->client.peer_id, 4);
}

static void
test_only_the_dead_are_buried(void **state)
{
	(void)state;
	assert_int_equal(start(7), 0);
	struct child *c = TAILQ_FIRST(&t.fronts);
	c->state = CHILD_GAVE_UP; /* its process has not been seen to end */
	fronts_bury(&t);
	assert_int_equal(t.n_fronts, 1);
	gone(c);
	fronts_bury(&t);
	assert_int_equal(t.n_fronts, 0);
}

static void
test_one_that_cannot_be_started(void **state)
{
	size_t fds = test_open_fds();

	(void)state;
	launch_result = -EAGAIN;
	assert_int_equal(start(7), -EAGAIN);
	assert_int_equal(t.n_fronts, 0);
	assert_int_equal(test_open_fds(), fds);
}

static void
test_every_child_is_walked(void **state)
{
	size_t n = 0;

	(void)state;
	assert_int_equal(start(7), 0);
	assert_int_equal(start(8), 0);
	for (struct child *c = &t.child[0]; c != NULL; c = children_next(c), n++)
		assert_int_equal(c->id, n < CHILD_SINGLES ? n : CHILD_FRONTEND);
	assert_int_equal(n, CHILD_SINGLES + 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_numbers_and_counts),
		T(test_only_the_dead_are_buried),
		T(test_one_that_cannot_be_started),
		T(test_every_child_is_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
