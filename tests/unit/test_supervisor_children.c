/* supervisor/children.c: the table, the pauses, and the machine with launches of our own. */
#include "test.h"
#include "supervisor.h"
#include "fakes/still_clock.h"

#include <signal.h>
#include <event2/event.h>

static struct tree t;
static int launches[CHILD_COUNT];
static bool launch_fails, child_exits_at_once;
static uint32_t given_up; /* failures at the first time its links were dropped */

void __wrap_wiring_unstarted(struct child *c);
void
__wrap_wiring_unstarted(struct child *c)
{
	if (given_up == 0)
		given_up = c->failures + 1;
}

int __wrap_launch(struct child *c);
int
__wrap_launch(struct child *c)
{
	launches[c->id]++;
	if (launch_fails)
		return -EAGAIN;
	c->pid = fork();
	if (c->pid == 0) {
		if (!child_exits_at_once)
			(void)pause();
		_exit(7);
	}
	return c->pid > 0 ? 0 : -errno;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	memset(launches, 0, sizeof(launches));
	launch_fails = child_exits_at_once = false;
	given_up = 0;
	t.base = event_base_new();
	t.serve.stdio = true;
	children_init(&t);
	return 0;
}

/* The broker, the reaper, or the newest frontend. */
static struct child *
of(enum child_id id)
{
	return id == CHILD_FRONTEND ? TAILQ_LAST(&t.fronts, child_list) : &t.child[id];
}

static void
start(enum child_id id)
{
	const struct client client = {.kind = CLIENT_STDIO, .fd = -1};

	if (id == CHILD_FRONTEND)
		(void)fronts_start(&t, &client);
	else
		child_start(&t.child[id]);
}

static int
teardown(void **state)
{
	(void)state;
	for (struct child *c = &t.child[0]; c != NULL; c = children_next(c)) {
		if (c->pid == 0)
			continue;
		assert_int_equal(kill(c->pid, SIGKILL), 0);
		assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	}
	children_done(&t);
	event_base_free(t.base);
	return 0;
}

/* Waits until the child's process has ended, then lets the machine see it. */
static void
reap(enum child_id id)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)of(id)->pid, &info, WEXITED | WNOWAIT), 0);
	children_reap(&t);
}

static void
loop_for_ms(unsigned ms)
{
	clock_pass_in(t.base, ms);
}

static void
test_every_cell_is_filled(void **state)
{
	(void)state;
	for (int s = 0; s < CHILD_STATES; s++)
		for (int e = 0; e < CHILD_EVENTS; e++) {
			struct child_cell c =
				children_cell((enum child_state)s, (enum child_event)e);
			assert_in_range(c.action, CHILD_ACT_NONE, CHILD_ACTIONS - 1);
			assert_in_range(c.next, 0, CHILD_STATES - 1);
		}
	/* given up is for ever, and what ended for good is given up */
	for (int e = 0; e < CHILD_EVENTS; e++)
		assert_int_equal(children_cell(CHILD_GAVE_UP, (enum child_event)e).next,
				 CHILD_GAVE_UP);
	for (int s = 0; s < CHILD_STATES; s++)
		assert_int_equal(children_cell((enum child_state)s, CHILD_EV_END).next,
				 CHILD_GAVE_UP);
}

static void
outside(void *arg)
{
	const int *pair = arg;

	(void)children_cell((enum child_state)pair[0], (enum child_event)pair[1]);
}

static void
test_cell_outside_the_table_is_fatal(void **state)
{
	int bad_state[] = {CHILD_STATES, 0}, bad_event[] = {0, CHILD_EVENTS};

	(void)state;
	test_is_fatal(outside, bad_state);
	test_is_fatal(outside, bad_event);
}

static void
test_pauses(void **state)
{
	static const uint64_t ms[] = {0,    0,    100,  200,  400,  800,
				      1600, 3200, 5000, 5000, 5000, 60000};

	(void)state;
	for (uint32_t failures = 0; failures < ARRAY_LEN(ms); failures++)
		assert_int_equal(children_delay_ms(failures), ms[failures]);
	assert_int_equal(children_delay_ms(UINT32_MAX), 60000);
}

static void
test_names_and_roles(void **state)
{
	(void)state;
	assert_string_equal(children_name(CHILD_REAPER), "bailey-reaper");
	assert_int_equal(children_role(CHILD_FRONTEND), IPC_FRONTEND);
	assert_int_equal(children_role(CHILD_BROKER), IPC_BROKER);
	assert_int_equal(children_role(CHILD_REAPER), IPC_REAPER);
}

static void
test_broker_is_started_again(void **state)
{
	(void)state;
	start(CHILD_BROKER);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STARTING);
	assert_int_equal(kill(t.child[CHILD_BROKER].pid, SIGKILL), 0);
	reap(CHILD_BROKER);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_BACKOFF);
	loop_for_ms(20);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STARTING);
	assert_int_equal(launches[CHILD_BROKER], 2);
	assert_int_equal(t.child[CHILD_BROKER].restarts, 1);
	assert_false(t.stopping);
}

static void
test_frontend_is_not(void **state)
{
	(void)state;
	child_exits_at_once = true;
	start(CHILD_FRONTEND);
	reap(CHILD_FRONTEND);
	assert_null(of(CHILD_FRONTEND));
	assert_true(t.stopping);
	assert_int_equal(t.exit_code, 7);
	assert_true(t.over); /* nothing else ran */
	assert_int_equal(launches[CHILD_FRONTEND], 1);
}

static void
test_frontend_killed(void **state)
{
	(void)state;
	start(CHILD_FRONTEND);
	assert_int_equal(kill(of(CHILD_FRONTEND)->pid, SIGKILL), 0);
	reap(CHILD_FRONTEND);
	assert_int_equal(t.exit_code, 128 + SIGKILL);
}

/* Of a tree that many connect to, one frontend's end is one connection's. */
static void
test_one_frontend_of_many(void **state)
{
	(void)state;
	t.serve.stdio = false;
	start(CHILD_BROKER);
	start(CHILD_FRONTEND);
	struct child *first = of(CHILD_FRONTEND);
	start(CHILD_FRONTEND);
	assert_int_equal(t.n_fronts, 2);
	assert_ptr_not_equal(first, of(CHILD_FRONTEND));
	assert_int_not_equal(first->client.peer_id, of(CHILD_FRONTEND)->client.peer_id);
	assert_int_equal(kill(of(CHILD_FRONTEND)->pid, SIGKILL), 0);
	reap(CHILD_FRONTEND);
	assert_int_equal(t.n_fronts, 1);
	assert_ptr_equal(first, of(CHILD_FRONTEND));
	assert_false(t.stopping);
	/* and all of them go with the tree */
	children_stop(&t, 0);
	assert_int_equal(first->state, CHILD_STOPPING);
	assert_int_equal(kill(first->pid, SIGKILL), 0);
	reap(CHILD_FRONTEND);
	assert_false(t.over);
	assert_int_equal(kill(t.child[CHILD_BROKER].pid, SIGKILL), 0);
	reap(CHILD_BROKER);
	assert_true(t.over);
}

/* TLS is what was asked for: without it nothing is served. */
static void
test_end_of_the_stunnel_keeper_ends_the_tree(void **state)
{
	siginfo_t info;

	(void)state;
	t.serve.stdio = false;
	start(CHILD_BROKER);
	t.tls_keeper = fork();
	if (t.tls_keeper == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)t.tls_keeper, &info, WEXITED | WNOWAIT), 0);
	children_reap(&t);
	assert_int_equal(t.tls_keeper, 0);
	assert_true(t.stopping);
	assert_int_equal(t.exit_code, 1);
}

static void
test_launch_that_fails_is_repeated_with_pauses(void **state)
{
	(void)state;
	launch_fails = true;
	start(CHILD_REAPER);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_BACKOFF);
	loop_for_ms(150); /* at once, after 100 ms */
	assert_int_equal(launches[CHILD_REAPER], 3);
	launch_fails = false;
	loop_for_ms(300);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_STARTING);
}

/* The limit that was hit may be lifted any moment: no minute's pause, however often it was. */
static void
test_launch_that_fails_many_times(void **state)
{
	struct child *c = &t.child[CHILD_REAPER];

	(void)state;
	launch_fails = true;
	for (uint32_t failures = 8; failures <= 10; failures++) {
		c->state = CHILD_BACKOFF;
		c->failures = failures;
		start(CHILD_REAPER);
		assert_int_equal(c->state, CHILD_BACKOFF);
		assert_true(children_delay_ms(c->failures) <= 5000);
	}
}

/* One failed fork costs no call: what waits in the link is read after the next try. Whoever waits
 * for more than a second is told that there is nobody. */
static void
test_links_of_a_broker_that_cannot_be_launched(void **state)
{
	(void)state;
	launch_fails = true;
	start(CHILD_BROKER);
	loop_for_ms(1200);
	assert_int_equal(given_up, 0);
	loop_for_ms(2500);
	assert_true(given_up > 0);
	assert_in_range(children_delay_ms(given_up), 1001, 2000);
}

static void
test_frontend_that_cannot_be_launched_is_over(void **state)
{
	(void)state;
	launch_fails = true;
	start(CHILD_FRONTEND);
	assert_int_equal(of(CHILD_FRONTEND)->state, CHILD_GAVE_UP);
}

/* What a child says, as the link hands it over. */
static void
row_from(enum child_id id, const struct ipc_row *row)
{
	struct link_config *config = &of(id)->link_config;

	for (size_t i = 0; i < config->n_routes; i++) {
		if (config->routes[i].num == row->num) {
			config->routes[i].handler(config->ctx, NULL, row);
			return;
		}
	}
	fail_msg("no route for %s from %s", ipc_name(row->num), children_name(id));
}

static void
test_ready(void **state)
{
	(void)state;
	start(CHILD_BROKER);
	row_from(CHILD_BROKER, IPC_ROW(ready, .version = IPC_VERSION, .layers = 5));
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_READY);
	assert_int_equal(t.child[CHILD_BROKER].layers, 5);
	/* twice is wrong: it has to go */
	row_from(CHILD_BROKER, IPC_ROW(ready, .version = IPC_VERSION));
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STOPPING);
	reap(CHILD_BROKER);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_BACKOFF);
}

static void
test_ready_in_another_version(void **state)
{
	(void)state;
	start(CHILD_REAPER);
	row_from(CHILD_REAPER, IPC_ROW(ready, .version = IPC_VERSION + 1));
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_STOPPING);
	reap(CHILD_REAPER);
}

/* The reaper cannot get a removal confirmed: a fresh broker has to try. */
static void
test_stuck(void **state)
{
	(void)state;
	start(CHILD_BROKER);
	row_from(CHILD_REAPER, IPC_ROW(stuck, .box = 1, .since_ms = 30000));
	reap(CHILD_BROKER);
	loop_for_ms(20);
	assert_int_equal(launches[CHILD_BROKER], 2);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STARTING);
}

/* It lives and waits for another broker: the next one is wired anew. */
static void
test_reaper_lost(void **state)
{
	(void)state;
	start(CHILD_BROKER);
	start(CHILD_REAPER);
	row_from(CHILD_BROKER, IPC_ROW(reaper_lost));
	reap(CHILD_REAPER);
	loop_for_ms(20);
	assert_int_equal(launches[CHILD_BROKER], 1);
	assert_int_equal(launches[CHILD_REAPER], 2);
	/* told once more about the one that is being started: once more anew, no harm */
	row_from(CHILD_BROKER, IPC_ROW(reaper_lost));
	reap(CHILD_REAPER);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STARTING);
}

static void
test_closed_link_leaves_a_moment_to_end(void **state)
{
	struct link_config *config = &t.child[CHILD_REAPER].link_config;

	(void)state;
	start(CHILD_REAPER);
	config->on_closed(config->ctx, NULL, 0);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_STOPPING);
	assert_int_equal(waitpid(t.child[CHILD_REAPER].pid, NULL, WNOHANG), 0);
	loop_for_ms(550); /* it does not end by itself */
	reap(CHILD_REAPER);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_BACKOFF);
	/* rules broken: at once */
	loop_for_ms(20);
	config->on_closed(config->ctx, NULL, -EPROTO);
	reap(CHILD_REAPER);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_BACKOFF);
}

static void
test_stop(void **state)
{
	(void)state;
	start(CHILD_BROKER);
	launch_fails = true;
	start(CHILD_REAPER); /* waits for its next try */
	children_stop(&t, 3);
	children_stop(&t, 4); /* the first one counts */
	assert_int_equal(t.exit_code, 3);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_STOPPING);
	assert_int_equal(t.child[CHILD_REAPER].state, CHILD_GAVE_UP);
	assert_false(t.over);
	/* it does not listen: killed when its grace is over */
	loop_for_ms(1950);
	reap(CHILD_BROKER);
	assert_int_equal(t.child[CHILD_BROKER].state, CHILD_GAVE_UP);
	assert_true(t.over);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell_is_filled),
		cmocka_unit_test(test_cell_outside_the_table_is_fatal),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_names_and_roles),
		T(test_broker_is_started_again),
		T(test_frontend_is_not),
		T(test_frontend_killed),
		T(test_one_frontend_of_many),
		T(test_end_of_the_stunnel_keeper_ends_the_tree),
		T(test_launch_that_fails_is_repeated_with_pauses),
		T(test_launch_that_fails_many_times),
		T(test_links_of_a_broker_that_cannot_be_launched),
		T(test_frontend_that_cannot_be_launched_is_over),
		T(test_ready),
		T(test_ready_in_another_version),
		T(test_stuck),
		T(test_reaper_lost),
		T(test_closed_link_leaves_a_moment_to_end),
		T(test_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
