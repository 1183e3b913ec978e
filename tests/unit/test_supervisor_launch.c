/* supervisor/launch.c: the command line of each child, and what a failed launch leaves. */
#include "test.h"
#include "supervisor.h"

#include <event2/event.h>

static struct tree t;
static char words[512]; /* of the last child, joined */
static int spawn_result;
static bool had_peer, had_state;
static int client_in, client_out;

int __wrap_spawn_child(const struct spawn_plan *plan, pid_t *ret_pid);
int
__wrap_spawn_child(const struct spawn_plan *plan, pid_t *ret_pid)
{
	words[0] = '\0';
	for (size_t i = 0; plan->argv[i] != NULL; i++) {
		bool parent = strncmp(plan->argv[i], "parent=", 7) == 0;
		const char *word = parent ? "parent" : plan->argv[i];
		size_t n = strlen(words);
		if (i > 0)
			words[n++] = ' ';
		assert_int_equal(str_copy(words + n, sizeof(words) - n, word, strlen(word)), 0);
	}
	had_peer = plan->peer != -1;
	had_state = plan->state != -1;
	client_in = plan->stdio[0];
	client_out = plan->stdio[1];
	if (spawn_result < 0)
		return spawn_result;
	*ret_pid = 4711;
	return 0;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	spawn_result = 0;
	t.base = event_base_new();
	t.ledger = 77; /* never looked into, as the next */
	t.output = 78;
	children_init(&t);
	return 0;
}

/* The child of that kind: one more frontend each time. */
static struct child *
child_of(enum child_id id)
{
	if (id != CHILD_FRONTEND)
		return &t.child[id];
	struct child *c = calloc(1, sizeof(*c));
	assert_non_null(c);
	child_init(c, &t, id);
	TAILQ_INSERT_TAIL(&t.fronts, c, entry);
	return c;
}

static int
teardown(void **state)
{
	(void)state;
	children_done(&t);
	event_base_free(t.base);
	return 0;
}

static void
launched(enum child_id id, const char *expected)
{
	struct child *c = child_of(id);

	assert_int_equal(launch(c), 0);
	c->state = CHILD_STARTING;
	assert_string_equal(words, expected);
	assert_true(had_peer);
	assert_int_equal(had_state, id != CHILD_FRONTEND);
	assert_int_equal(client_in, id == CHILD_FRONTEND ? FD_IN : -1);
	assert_int_equal(client_out, id == CHILD_FRONTEND ? FD_OUT : -1);
	assert_int_equal(c->pid, 4711);
}

static void
test_accepted_connection_is_handed_over(void **state)
{
	size_t fds = test_open_fds();

	(void)state;
	t.engine.kind = ENGINE_UNIX;
	for (int fails = 0; fails < 2; fails++) {
		struct child *c = child_of(CHILD_FRONTEND);
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		c->client = (struct client){.kind = CLIENT_UNIX, .fd = fd};
		spawn_result = fails ? -EAGAIN : 0;
		assert_int_equal(launch(c), spawn_result);
		assert_int_equal(client_in, fd);
		assert_int_equal(client_out, fd);
		/* in both cases it is not ours any more */
		assert_int_equal(c->client.fd, -1);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
		c->pid = 0;
		c->state = CHILD_GAVE_UP;
	}
	fronts_bury(&t);
	assert_int_equal(test_open_fds(), fds);
}

static void
test_as_root(void **state)
{
	(void)state;
	t.identity.switch_ids = true;
	t.engine.kind = ENGINE_UNIX;
	launched(CHILD_FRONTEND, "bailey-frontend parent uid=1");
	launched(CHILD_BROKER, "bailey-broker parent engine=unix uid=1");
	launched(CHILD_REAPER, "bailey-reaper parent uid=1 kill=1");
}

static void
test_as_a_plain_user(void **state)
{
	(void)state;
	t.engine.kind = ENGINE_UNIX;
	assert_int_equal(str_copy(t.engine.dir, sizeof(t.engine.dir), "/run", 4), 0);
	launched(CHILD_FRONTEND, "bailey-frontend parent ns=1");
	launched(CHILD_BROKER, "bailey-broker parent engine=unix ns=1 bind=/run");
	launched(CHILD_REAPER, "bailey-reaper parent ns=1 bind=/proc bind=/sys/fs/cgroup bindro=1");
}

/* An engine that comes later must be found: the nearest directory there is stands in for its own.
 */
static void
test_engine_directory_that_is_not_there_yet(void **state)
{
	static const char absent[] = "/run/bailey-none/of/these", nowhere[] = "/bailey-none/x";

	(void)state;
	t.engine.kind = ENGINE_UNIX;
	assert_int_equal(str_copy(t.engine.dir, sizeof(t.engine.dir), absent, strlen(absent)), 0);
	launched(CHILD_BROKER, "bailey-broker parent engine=unix ns=1 bind=/run");
	link_free(t.child[CHILD_BROKER].link);
	t.child[CHILD_BROKER].link = NULL;
	assert_int_equal(str_copy(t.engine.dir, sizeof(t.engine.dir), nowhere, strlen(nowhere)), 0);
	launched(CHILD_BROKER, "bailey-broker parent engine=unix ns=1 bind=/bailey-none");
}

static void
test_server_tells_events(void **state)
{
	(void)state;
	t.engine.kind = ENGINE_TLS;
	t.serve.socket = "/x";
	launched(CHILD_FRONTEND, "bailey-frontend parent ns=1");
	launched(CHILD_BROKER, "bailey-broker parent events=1 engine=tcp ns=1 net=1");
}

static void
test_tcp_engine_and_switches(void **state)
{
	(void)state;
	t.engine.kind = ENGINE_TLS;
	t.options.debug = t.options.confine_log = true;
	launched(CHILD_FRONTEND, "bailey-frontend parent debug=1 confine=log ns=1");
	launched(CHILD_BROKER, "bailey-broker parent debug=1 confine=log engine=tcp ns=1 net=1");
}

static void
test_every_command_line_is_understood(void **state)
{
	static const enum engine_kind kinds[] = {ENGINE_UNIX, ENGINE_TCP};

	(void)state;
	assert_int_equal(str_copy(t.engine.dir, sizeof(t.engine.dir), "/run/x", 6), 0);
	for (size_t k = 0; k < ARRAY_LEN(kinds) * 2; k++) {
		t.engine.kind = kinds[k % 2];
		t.identity.switch_ids = k >= 2;
		for (int id = 0; id < CHILD_COUNT; id++) {
			char *argv[16];
			int argc = 0;
			struct confine_plan plan = {.table = TABLE_BROKER};

			struct child *c = child_of((enum child_id)id);
			assert_int_equal(launch(c), 0);
			link_free(c->link);
			c->link = NULL;
			for (char *at = words; at != NULL && argc < 16;) {
				argv[argc++] = at;
				at = strchr(at, ' ');
				if (at != NULL)
					*at++ = '\0';
			}
			/* this test replaced the number */
			char parent[] = "parent=1";
			argv[1] = parent;
			assert_int_equal(confine_args(argc, argv, &plan), 0);
			assert_int_equal(plan.namespaces, !t.identity.switch_ids);
			assert_int_equal(plan.keep_kill,
					 t.identity.switch_ids && id == CHILD_REAPER);
		}
	}
}

static void
test_failed_spawn_is_told(void **state)
{
	size_t fds;

	(void)state;
	spawn_result = -EAGAIN;
	struct child *c = &t.child[CHILD_REAPER];
	assert_int_equal(launch(c), -EAGAIN);
	assert_int_equal(c->pid, 0);
	link_free(c->link);
	c->link = NULL;
	fds = test_open_fds();
	for (int i = 0; i < 5; i++) {
		assert_int_equal(launch(c), -EAGAIN);
		link_free(c->link);
		c->link = NULL;
	}
	assert_int_equal(test_open_fds(), fds);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_as_root),
		T(test_accepted_connection_is_handed_over),
		T(test_as_a_plain_user),
		T(test_engine_directory_that_is_not_there_yet),
		T(test_server_tells_events),
		T(test_tcp_engine_and_switches),
		T(test_every_command_line_is_understood),
		T(test_failed_spawn_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
