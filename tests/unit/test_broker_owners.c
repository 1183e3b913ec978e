/* Owners and fronts: counted, capped, and cancelled with their link. */
#include "test.h"

#include "broker_world.h"

/* What a slow frontend leaves in the broker's memory. */
static size_t backlog;
size_t __wrap_link_queued(const struct link *l);
size_t
__wrap_link_queued(const struct link *l)
{
	(void)l;
	return backlog;
}

static void
test_owner_is_shared_and_freed(void **state)
{
	struct owner *a, *b;

	(void)state;
	a = owner_get(&w->b, OWNER_UID, 1000, "");
	b = owner_get(&w->b, OWNER_UID, 1000, "");
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, owner_get(&w->b, OWNER_TREE, 1000, ""));
	owner_unref(&w->b, TAILQ_LAST(&w->b.owners, owner_list));
	owner_unref(&w->b, a);
	owner_unref(&w->b, b);
	owner_unref(&w->b, NULL);
	assert_true(TAILQ_EMPTY(&w->b.owners));
}

static void
test_end_of_a_link_cancels_everything(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	c->auto_run = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	fake.hold[OP_START] = true;
	(void)submit(c, BOX_PYTHON);
	world_settle();
	assert_int_equal(w->b.in_flight, 3);
	world_hang_up(c);
	world_settle();
	assert_int_equal(w->b.in_flight, 0);
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(w->b.n_fronts, 0);
	assert_int_equal(w->reaper.last_cause, CAUSE_OWNER_GONE);
	fake_release(OP_START);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_true(TAILQ_EMPTY(&w->b.owners));
}

/* An http front is nobody's until its token came: any other row ends its link. */
static void
test_a_front_of_nobody(void **state)
{
	struct client *c;
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (int i = 0; i < 4; i++) {
		c = world_client(0, OWNER_TOKEN, 0);
		assert_false(front_bound(TAILQ_FIRST(&w->b.fronts)));
		if (i == 0)
			(void)submit(c, BOX_SHELL);
		else if (i == 1)
			(void)link_send(c->link, IPC_ROW(warm_hint, ));
		else if (i == 2)
			(void)link_send(c->link, IPC_ROW(sandbox_list, .call = 1));
		else
			(void)link_send(c->link, IPC_ROW(health_query, .call = 1));
		world_settle();
		assert_true(c->closed);
		assert_int_equal(w->b.n_fronts, 0);
		assert_int_equal(c->rows[IPC_NUM_call_ended], 0);
	}
	assert_int_equal(fake.calls[OP_PROBE], 0);
	c = world_client(0, OWNER_TOKEN, 0);
	assert_int_equal(owner_bind(TAILQ_FIRST(&w->b.fronts), "alice"), 0);
	assert_int_equal(owner_bind(TAILQ_FIRST(&w->b.fronts), "alice"), 0);
	assert_int_equal(owner_bind(TAILQ_FIRST(&w->b.fronts), "bob"), -EPERM);
	assert_true(front_bound(TAILQ_FIRST(&w->b.fronts)));
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	(void)world_client(1, OWNER_TOKEN, 0);
	assert_int_equal(owner_bind(TAILQ_NEXT(TAILQ_FIRST(&w->b.fronts), entry), "alice"), 0);
	world_settle();
	assert_int_equal(TAILQ_FIRST(&w->b.owners)->refs, 2); /* one owner for both */
	(void)world_client(2, OWNER_UID, 0);
	assert_int_equal(owner_bind(TAILQ_NEXT(TAILQ_NEXT(TAILQ_FIRST(&w->b.fronts), entry), entry),
				    "alice"),
			 -EPERM); /* it is somebody already */
}

static void
test_refusals(void **state)
{
	struct ipc_peer peer = {.role = IPC_FRONTEND, .peer_id = 9, .owner_kind = 77};
	int fds[2];

	(void)state;
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	assert_int_equal(front_open(&w->b, &peer, fds[0]), -EINVAL);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1); /* closed */
	(void)close(fds[1]);
	peer.owner_kind = OWNER_UID;
	w->b.n_fronts = FRONTS_MAX;
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	assert_int_equal(front_open(&w->b, &peer, fds[0]), -EBUSY);
	(void)close(fds[1]);
	w->b.n_fronts = 0;
}

static void
test_a_frontend_names_only_its_own_calls(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit(a, BOX_SHELL);
	assert_true(granted(a, call));
	(void)submit(b, BOX_SHELL);
	(void)link_send(b->link, IPC_ROW(call_cancel, .call = 77));
	world_settle();
	(void)link_send(b->link, IPC_ROW(call_cancel, .call = call)); /* b's own call 1 */
	world_settle();
	assert_false(seen_of(a, call)->ended);
	assert_null(front_run(TAILQ_FIRST(&w->b.fronts), 999));
}

/* A broker that died now would leave a frontend that never heard the word and runs the code again:
 * so the code may not have started. */
static void
test_no_run_before_the_word_has_left(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	c->auto_run = false;
	backlog = 1;
	call = submit_spec(c, BOX_SHELL, "code");
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(fake.spec_len, 0);
	backlog = 0;
	run_words_out(TAILQ_FIRST(&w->b.fronts));
	assert_true(ended(c, call));
	assert_int_equal(fake.spec_len, 4);

	/* A frame, which needs the grant, shows that the word was heard. */
	fake.spec_len = 0;
	backlog = 1;
	call = submit_spec(c, BOX_SHELL, "more");
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(fake.spec_len, 0);
	send_frame(c, call, GUEST_h_stdin_eof, 0, "", 0);
	assert_true(ended(c, call));
	assert_int_equal(fake.spec_len, 4);
	backlog = 0;
}

/* Two words wait for one front, and the first specification finds that the engine reads no more:
 * the box ends, and the other run with it. */
static void
test_words_of_runs_that_end_together(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t calls[2];
	const char *id;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	c->auto_run = false;
	id = stay(c, 0);
	backlog = 1;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		calls[i] = submit_within(c, id, 0, "code");
		assert_true(granted(c, calls[i]));
	}
	backlog = 0;
	fake.send_err = -ENOBUFS;
	run_words_out(TAILQ_FIRST(&w->b.fronts));
	fake.send_err = 0;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		assert_true(ended(c, calls[i]));
		assert_int_equal(seen_of(c, calls[i])->end.status, RUN_lost);
	}
	assert_int_equal(idmap_count(w->b.runs), 0);
}

/* Many that do not read would use up the memory of all: those with the most go, until it is enough.
 */
static void
test_frontends_that_do_not_read(void **state)
{
	struct client *a = world_client(0, OWNER_UID, 1), *b = world_client(1, OWNER_UID, 2);

	(void)state;
	backlog = FRONTS_UNREAD_MAX / 2;
	assert_int_equal(fronts_unread(&w->b), FRONTS_UNREAD_MAX);
	fronts_tick(&w->b);
	assert_int_equal(w->b.n_fronts, 2);
	backlog++;
	fronts_tick(&w->b);
	backlog = 0;
	world_settle();
	assert_int_equal(w->b.n_fronts, 1);
	assert_true(a->closed != b->closed);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_owner_is_shared_and_freed),
		T(test_end_of_a_link_cancels_everything),
		T(test_a_front_of_nobody),
		T(test_refusals),
		T(test_a_frontend_names_only_its_own_calls),
		T(test_no_run_before_the_word_has_left),
		T(test_words_of_runs_that_end_together),
		T(test_frontends_that_do_not_read),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
