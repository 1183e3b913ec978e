/* supervisor/wiring.c: who gets which end, in every order of starts and ends. */
#include "test.h"
#include "supervisor.h"

#include <sys/socket.h>
#include <event2/event.h>

static struct tree t;
static int given[CHILD_COUNT]
		[IPC_REAPER + 1]; /* the end a child got by peer, by the other's role */
static char link_of[CHILD_COUNT];
static int send_result;

int __wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd);
int
__wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd)
{
	size_t child = (size_t)((char *)(void *)l - link_of);

	assert_int_equal(row->num, IPC_NUM_peer);
	if (send_result < 0)
		return send_result;
	int *slot = &given[child][row->u.peer.role];
	if (*slot != -1)
		assert_int_equal(close(*slot), 0);
	*slot = dup(fd);
	if (row->u.peer.role == IPC_FRONTEND) {
		assert_int_equal(row->u.peer.owner_kind, OWNER_TREE);
		assert_int_equal(row->u.peer.owner, 99);
		assert_int_not_equal(row->u.peer.peer_id, 0);
	} else {
		assert_int_equal(row->u.peer.owner_kind, 0);
	}
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	send_result = 0;
	t.facts.tree_pid = 99;
	wiring_init(&t);
	for (size_t i = 0; i < CHILD_COUNT; i++) {
		t.child[i].state = CHILD_BACKOFF;
		for (size_t k = 0; k <= IPC_REAPER; k++)
			given[i][k] = -1;
	}
	return 0;
}

static int inherited[CHILD_COUNT] = {-1, -1, -1};

static int
teardown(void **state)
{
	(void)state;
	wiring_done(&t);
	for (size_t i = 0; i < CHILD_COUNT; i++) {
		cleanup_closep(&inherited[i]);
		inherited[i] = -1;
		for (size_t k = 0; k <= IPC_REAPER; k++)
			cleanup_closep(&given[i][k]);
	}
	return 0;
}

static void
child_starts(enum child_id id)
{
	cleanup_closep(&inherited[id]);
	assert_int_equal(wiring_before_start(&t, id, &inherited[id]), 0);
	t.child[id].state = CHILD_STARTING;
	t.child[id].link = (struct link *)(void *)&link_of[id];
	assert_int_equal(wiring_after_start(&t, id), 0);
}

static void
child_ends(enum child_id id)
{
	t.child[id].state = CHILD_BACKOFF;
	t.child[id].link = NULL;
	cleanup_closep(&inherited[id]);
	inherited[id] = -1;
	for (size_t k = 0; k <= IPC_REAPER; k++) {
		cleanup_closep(&given[id][k]);
		given[id][k] = -1;
	}
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

/* The end a child uses to talk to another: the newest of what it inherited and was given. */
static int
end_of(enum child_id id, enum child_id other)
{
	int by_peer = given[id][children_role(other)];

	if (by_peer != -1)
		return by_peer;
	return id == CHILD_BROKER && other == CHILD_FRONTEND ? -1 : inherited[id];
}

static void
all_linked(void)
{
	linked(end_of(CHILD_FRONTEND, CHILD_BROKER), end_of(CHILD_BROKER, CHILD_FRONTEND));
	linked(end_of(CHILD_BROKER, CHILD_REAPER), end_of(CHILD_REAPER, CHILD_BROKER));
	/* and nothing waits while everything runs */
	for (size_t i = 0; i < WIRING_LINKS; i++) {
		assert_int_equal(t.held[i][0], -1);
		assert_int_equal(t.held[i][1], -1);
	}
}

static void
test_first_start(void **state)
{
	(void)state;
	child_starts(CHILD_FRONTEND);
	assert_true(inherited[CHILD_FRONTEND] >= 0);
	/* what it sends before there is a broker waits in the link */
	assert_int_equal(send(inherited[CHILD_FRONTEND], "early", 5, MSG_DONTWAIT), 5);
	child_starts(CHILD_BROKER);
	child_starts(CHILD_REAPER);
	char got[8];
	assert_int_equal(recv(end_of(CHILD_BROKER, CHILD_FRONTEND), got, 8, MSG_DONTWAIT), 5);
	all_linked();
}

static void
test_any_order_of_ends_and_starts(void **state)
{
	uint32_t seed = 99;
	bool runs[CHILD_COUNT] = {false, false, false};

	(void)state;
	for (int i = 0; i < 2000; i++) {
		enum child_id id = (enum child_id)(test_random(&seed) % CHILD_COUNT);
		if (runs[id])
			child_ends(id);
		else
			child_starts(id);
		runs[id] = !runs[id];
		if (runs[0] && runs[1] && runs[2])
			all_linked();
	}
}

static void
test_no_descriptor_is_lost(void **state)
{
	size_t fds = test_open_fds();

	(void)state;
	for (int i = 0; i < 20; i++) {
		child_starts(CHILD_FRONTEND);
		child_starts(CHILD_BROKER);
		child_starts(CHILD_REAPER);
		child_ends(CHILD_REAPER);
		child_starts(CHILD_REAPER);
		child_ends(CHILD_BROKER);
		child_ends(CHILD_REAPER);
		child_ends(CHILD_FRONTEND);
	}
	wiring_done(&t);
	assert_int_equal(test_open_fds(), fds);
}

static void
test_peer_that_is_on_its_way_out(void **state)
{
	int fd = -1;

	(void)state;
	child_starts(CHILD_BROKER);
	send_result = -EPIPE;
	assert_int_equal(wiring_before_start(&t, CHILD_REAPER, &fd), 0);
	cleanup_closep(&fd);
	send_result = -ENOMEM;
	assert_int_equal(wiring_before_start(&t, CHILD_REAPER, &fd), -ENOMEM);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_first_start),
		T(test_any_order_of_ends_and_starts),
		T(test_no_descriptor_is_lost),
		T(test_peer_that_is_on_its_way_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
