/* supervisor/status.c: who gets the document, what the children's rows do, who is not waited for.
 */
#include "test.h"
#include "supervisor.h"
#include "fakes/still_clock.h"

#include <sys/un.h>
#include <event2/event.h>

static struct tree t;
static char path[64];
static uint32_t asked[CHILD_SINGLES], last_query;
static char ends[CHILD_SINGLES];

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	assert_int_equal(row->num, IPC_NUM_status_ask);
	last_query = row->u.status_ask.query;
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		asked[i] += l == (struct link *)(void *)&ends[i];
	return 0;
}

static void
open_status(uid_t uid)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	(void)snprintf(path, sizeof(path), "/tmp/bailey-status-%d", (int)getpid());
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	(void)unlink(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 16), 0);
	t.status = status_new(&t, fd, uid);
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	memset(asked, 0, sizeof(asked));
	t.base = event_base_new();
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		t.child[i] = (struct child){.tree = &t,
					    .id = (enum child_id)i,
					    .state = CHILD_READY,
					    .link = (struct link *)(void *)&ends[i]};
	open_status(getuid());
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	status_free(t.status);
	event_base_free(t.base);
	return unlink(path);
}

static int
knock(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void
turn(unsigned ms)
{
	clock_pass_in(t.base, ms);
}

/* What came until the end; closes. */
static const char *
heard(int fd)
{
	static char text[DOCUMENT_MAX + 1];
	size_t len = 0;
	ssize_t n;

	assert_int_equal(fd_set_nonblock(fd), 0);
	while (len < DOCUMENT_MAX && (n = read(fd, text + len, DOCUMENT_MAX - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	assert_int_equal(n, 0); /* the end, not "nothing yet" */
	assert_int_equal(close(fd), 0);
	return text;
}

#define SAY(who, name, ...) supervisor_on_##name(&t.child[who], NULL, IPC_ROW(name, ##__VA_ARGS__))

static void
test_whole_answer(void **state)
{
	(void)state;
	int fd = knock(), second = knock();
	turn(20);
	assert_int_equal(asked[CHILD_BROKER], 1); /* one question for both */
	assert_int_equal(asked[CHILD_REAPER], 1);
	SAY(CHILD_BROKER, status_engine, .query = last_query, .state = KNOWN_USABLE,
	    .name = IPC_STR("docker"), .version = IPC_STR("20"), .last_error = IPC_STR("gone"),
	    .error_ago_ms = 5);
	SAY(CHILD_BROKER, status_load, .query = last_query, .queued = 3);
	SAY(CHILD_BROKER, status_pool, .query = last_query, .profile = IPC_STR("default"),
	    .box_class = BOX_PYTHON, .target = 2);
	SAY(CHILD_BROKER, status_lease, .query = last_query, .sandbox = IPC_STR("ab"),
	    .principal = IPC_STR("ann"), .owner_kind = OWNER_TOKEN, .profile = IPC_STR("build"));
	SAY(CHILD_BROKER, status_lease, .query = last_query - 1, .sandbox = IPC_STR("old"),
	    .principal = IPC_STR(""), .profile = IPC_STR(""));
	SAY(CHILD_BROKER, status_end, .query = last_query, .left_out = 1);
	SAY(CHILD_BROKER, status_load, .query = last_query, .queued = 4); /* it said it is done */
	turn(20);
	SAY(CHILD_REAPER, status_watch, .query = last_query, .boxes = 9);
	SAY(CHILD_REAPER, status_end, .query = last_query);
	turn(20);
	const char *doc = heard(fd);
	assert_non_null(strstr(doc, "\"state\":\"usable\",\"name\":\"docker\""));
	assert_non_null(strstr(doc, "\"queued\":3,"));
	assert_non_null(strstr(doc, "\"owner\":\"token ann\""));
	assert_null(strstr(doc, "\"old\""));
	assert_non_null(strstr(doc, "\"box_class\":\"python\",\"target\":2"));
	assert_non_null(strstr(doc, "\"watch\":{\"boxes\":9,"));
	assert_null(strstr(doc, "\"answered\":false"));
	assert_non_null(strstr(heard(second), "\"queued\":3,"));
}

static void
test_one_that_does_not_answer(void **state)
{
	(void)state;
	int fd = knock();
	turn(20);
	SAY(CHILD_BROKER, status_end, .query = last_query);
	turn(1100);
	const char *doc = heard(fd);
	assert_non_null(strstr(doc, "\"name\":\"bailey-reaper\""));
	assert_non_null(strstr(doc, "\"answered\":false"));
}

static void
test_one_that_ends_meanwhile(void **state)
{
	(void)state;
	int fd = knock();
	turn(20);
	SAY(CHILD_REAPER, status_end, .query = last_query);
	status_child_ended(&t.child[CHILD_BROKER]);
	turn(20);
	assert_non_null(strstr(heard(fd), "\"load\":null"));
}

static void
test_nobody_to_ask(void **state)
{
	(void)state;
	t.child[CHILD_BROKER].state = t.child[CHILD_REAPER].state = CHILD_BACKOFF;
	int fd = knock();
	turn(20);
	assert_non_null(strstr(heard(fd), "\"state\":\"backoff\""));
}

static void
test_counters_never_go_back(void **state)
{
	(void)state;
	SAY(CHILD_BROKER, tally, .which = TALLY_pool_refills, .value = 6);
	SAY(CHILD_BROKER, tally, .which = TALLY_pool_refills, .value = 2); /* a lie */
	SAY(CHILD_BROKER, tally, .which = TALLY_COUNT, .value = 1);        /* none */
	SAY(CHILD_BROKER, tally, .which = UINT32_MAX, .value = 1);
	assert_int_equal(document_count(&t, TALLY_pool_refills), 6);
	status_child_ended(&t.child[CHILD_BROKER]);
	assert_int_equal(document_count(&t, TALLY_pool_refills), 6);
	SAY(CHILD_BROKER, tally, .which = TALLY_pool_refills, .value = 1);
	assert_int_equal(document_count(&t, TALLY_pool_refills), 7);
}

static void
test_trouble_is_kept(void **state)
{
	(void)state;
	SAY(CHILD_REAPER, trouble, .ago_ms = UINT64_MAX, .text = IPC_STR("it hurts"));
	assert_string_equal(t.known[CHILD_REAPER].trouble, "it hurts");
	status_child_ended(&t.child[CHILD_REAPER]);
	assert_string_equal(t.known[CHILD_REAPER].trouble, "it hurts");
}

/* More at once than there are places: the others wait for one. */
static void
test_many_askers(void **state)
{
	int fd[12];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = knock();
	for (size_t i = 0; i < ARRAY_LEN(fd); i += 8) {
		turn(150);
		SAY(CHILD_BROKER, status_end, .query = last_query);
		SAY(CHILD_REAPER, status_end, .query = last_query);
		turn(20);
		for (size_t k = i; k < i + 8 && k < ARRAY_LEN(fd); k++)
			assert_non_null(strstr(heard(fd[k]), "bailey_status"));
	}
}

static void
test_another_user_is_refused(void **state)
{
	(void)state;
	if (getuid() == 0)
		test_skip("root may always ask; the integration test asks as another user");
	status_free(t.status);
	open_status(getuid() + 1);
	int fd = knock();
	turn(20);
	assert_string_equal(heard(fd), "");
	assert_int_equal(asked[CHILD_BROKER], 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_whole_answer),
		T(test_one_that_does_not_answer),
		T(test_one_that_ends_meanwhile),
		T(test_nobody_to_ask),
		T(test_counters_never_go_back),
		T(test_trouble_is_kept),
		T(test_many_askers),
		T(test_another_user_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
