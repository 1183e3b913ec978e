/* supervisor/wiring.c: who gets which end, in every order of starts and ends. */
#include "test.h"
#include "supervisor.h"

#include <sys/socket.h>
#include <event2/event.h>

#define FRONTS 3
#define ACTORS (CHILD_SINGLES + FRONTS) /* broker, reaper, and three frontends */

static struct tree t;
static struct child front[FRONTS];
static char link_of[ACTORS];
static int inherited[ACTORS];
static int given[ACTORS][ACTORS]; /* the end an actor got by peer, by the other one */
static int send_result;

static struct child *
actor(size_t i)
{
	return i < CHILD_SINGLES ? &t.child[i] : &front[i - CHILD_SINGLES];
}

/* Which actor a peer row speaks of. */
static size_t
named(const struct ipc_peer *m)
{
	if (m->role == IPC_FRONTEND) {
		assert_int_equal(m->owner_kind, OWNER_UID);
		assert_in_range(m->peer_id, 1, FRONTS);
		assert_int_equal(m->owner, 1000 + m->peer_id);
		return CHILD_SINGLES + m->peer_id - 1;
	}
	assert_int_equal(m->owner_kind, 0);
	assert_int_equal(m->peer_id, 0);
	return m->role == IPC_BROKER ? CHILD_BROKER : CHILD_REAPER;
}

int __wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd);
int
__wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd)
{
	size_t to = (size_t)((char *)(void *)l - link_of);

	assert_int_equal(row->num, IPC_NUM_peer);
	if (send_result < 0)
		return send_result;
	int *slot = &given[to][named(&row->u.peer)];
	cleanup_closep(slot);
	*slot = dup(fd);
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	memset(front, 0, sizeof(front));
	send_result = 0;
	t.base = event_base_new();
	children_init(&t);
	for (size_t i = 0; i < ACTORS; i++) {
		inherited[i] = -1;
		for (size_t k = 0; k < ACTORS; k++)
			given[i][k] = -1;
	}
	for (size_t i = 0; i < FRONTS; i++) {
		child_init(&front[i], &t, CHILD_FRONTEND);
		front[i].client.owner_kind = OWNER_UID;
		front[i].client.peer_id = i + 1;
		front[i].client.owner = 1001 + i;
	}
	return 0;
}

static void
forget_ends(size_t i)
{
	cleanup_closep(&inherited[i]);
	inherited[i] = -1;
	for (size_t k = 0; k < ACTORS; k++) {
		cleanup_closep(&given[i][k]);
		given[i][k] = -1;
	}
}

static int
teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < ACTORS; i++) {
		forget_ends(i);
		actor(i)->link = NULL; /* never was one */
	}
	for (size_t i = 0; i < FRONTS; i++)
		child_done(&front[i]);
	TAILQ_INIT(&t.fronts);
	children_done(&t);
	event_base_free(t.base);
	return 0;
}

static void
actor_starts(size_t i)
{
	struct child *c = actor(i);

	if (c->id == CHILD_FRONTEND)
		TAILQ_INSERT_TAIL(&t.fronts, c, entry);
	cleanup_closep(&inherited[i]);
	assert_int_equal(wiring_before_start(c, &inherited[i]), 0);
	c->state = CHILD_STARTING;
	c->link = (struct link *)(void *)&link_of[i];
	assert_int_equal(wiring_after_start(c), 0);
}

static void
actor_ends(size_t i)
{
	struct child *c = actor(i);

	c->state = CHILD_BACKOFF;
	c->link = NULL;
	if (c->id == CHILD_FRONTEND) {
		TAILQ_REMOVE(&t.fronts, c, entry);
		wiring_drop(c);
	}
	forget_ends(i);
}

static void
linked(int a, int b)
{
	char got = 0;

	assert_true(a >= 0 && b >= 0);
	assert_int_equal(send(a, "x", 1, MSG_DONTWAIT), 1);
	assert_int_equal(recv(b, &got, 1, MSG_DONTWAIT), 1);
	assert_int_equal(got, 'x');
}

/* The end an actor uses to talk to another: what it was given, else what it inherited. */
static int
end_of(size_t i, size_t other)
{
	if (given[i][other] != -1)
		return given[i][other];
	return i == CHILD_BROKER && other >= CHILD_SINGLES ? -1 : inherited[i];
}

/* Every running frontend has its own link to the broker, and that one to the reaper. */
static void
all_linked(void)
{
	for (size_t i = CHILD_REAPER; i < ACTORS; i++)
		if (actor(i)->state == CHILD_STARTING)
			linked(end_of(i, CHILD_BROKER), end_of(CHILD_BROKER, i));
	/* and nothing waits while everything runs */
	for (size_t i = 0; i < ACTORS; i++) {
		assert_int_equal(actor(i)->held[0], -1);
		assert_int_equal(actor(i)->held[1], -1);
	}
}

static void
test_first_start(void **state)
{
	size_t fe = CHILD_SINGLES;
	char got[8];

	(void)state;
	actor_starts(fe);
	assert_true(inherited[fe] >= 0);
	/* what it sends before there is a broker waits in the link */
	assert_int_equal(send(inherited[fe], "early", 5, MSG_DONTWAIT), 5);
	actor_starts(CHILD_BROKER);
	actor_starts(CHILD_REAPER);
	assert_int_equal(recv(end_of(CHILD_BROKER, fe), got, 8, MSG_DONTWAIT), 5);
	all_linked();
}

static void
test_any_order_of_ends_and_starts(void **state)
{
	uint32_t seed = 99;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		size_t k = test_random(&seed) % ACTORS;
		if (actor(k)->state == CHILD_STARTING)
			actor_ends(k);
		else
			actor_starts(k);
		if (t.child[CHILD_BROKER].state == CHILD_STARTING &&
		    t.child[CHILD_REAPER].state == CHILD_STARTING)
			all_linked();
	}
}

static void
test_no_descriptor_is_lost(void **state)
{
	size_t fds = test_open_fds();

	(void)state;
	for (int i = 0; i < 20; i++) {
		for (size_t k = ACTORS; k-- > 0;)
			actor_starts(k);
		actor_ends(CHILD_REAPER);
		actor_starts(CHILD_REAPER);
		for (size_t k = 0; k < ACTORS; k++)
			actor_ends(k);
	}
	wiring_drop(&t.child[CHILD_BROKER]);
	assert_int_equal(test_open_fds(), fds);
}

/* A frontend that is ending gets no link any more, and the others theirs. */
static void
test_broker_skips_who_is_ending(void **state)
{
	(void)state;
	actor_starts(CHILD_SINGLES);
	actor_starts(CHILD_SINGLES + 1);
	front[0].state = CHILD_STOPPING;
	wiring_drop(&front[0]);
	actor_starts(CHILD_BROKER);
	assert_int_equal(given[CHILD_BROKER][CHILD_SINGLES], -1);
	linked(end_of(CHILD_SINGLES + 1, CHILD_BROKER), end_of(CHILD_BROKER, CHILD_SINGLES + 1));
}

static bool
is_closed(int fd)
{
	char got;

	return recv(fd, &got, 1, MSG_DONTWAIT) == 0;
}

/* Whoever would wait for a broker that could not be started hears at once that there is none. */
static void
test_broker_that_cannot_be_started(void **state)
{
	struct child *broker = &t.child[CHILD_BROKER];
	size_t first = CHILD_SINGLES, late = CHILD_SINGLES + 1;

	(void)state;
	actor_starts(first);
	assert_int_equal(wiring_before_start(broker, &inherited[CHILD_BROKER]), 0);
	wiring_unstarted(broker);
	forget_ends(CHILD_BROKER);
	assert_true(is_closed(inherited[first]));
	assert_int_equal(wiring_before_start(broker, &inherited[CHILD_BROKER]), 0); /* and again */
	wiring_unstarted(broker);
	forget_ends(CHILD_BROKER);
	assert_true(is_closed(end_of(first, CHILD_BROKER)));
	broker->failures = 10; /* tried again soon: worth waiting for */
	actor_starts(late);
	assert_false(is_closed(inherited[late]));
	actor_ends(late);
	broker->failures = 11; /* in a minute */
	actor_starts(late);
	assert_true(is_closed(inherited[late]));
	actor_starts(CHILD_BROKER);
	linked(end_of(first, CHILD_BROKER), end_of(CHILD_BROKER, first));
	linked(end_of(late, CHILD_BROKER), end_of(CHILD_BROKER, late));
}

static void
test_peer_that_is_on_its_way_out(void **state)
{
	int fd = -1;

	(void)state;
	actor_starts(CHILD_BROKER);
	send_result = -EPIPE;
	assert_int_equal(wiring_before_start(&t.child[CHILD_REAPER], &fd), 0);
	cleanup_closep(&fd);
	send_result = -ENOMEM;
	assert_int_equal(wiring_before_start(&t.child[CHILD_REAPER], &fd), -ENOMEM);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_first_start),
		T(test_any_order_of_ends_and_starts),
		T(test_no_descriptor_is_lost),
		T(test_broker_skips_who_is_ending),
		T(test_broker_that_cannot_be_started),
		T(test_peer_that_is_on_its_way_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
