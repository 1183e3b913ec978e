/* supervisor/identity.c: ids and capabilities of each process, in a child of the test. */
#include "test.h"
#include "supervisor.h"

#include <grp.h>
#include <sys/resource.h>

static struct identity
made_up(void)
{
	struct identity id = {.switch_ids = true, .have_engine_gid = true, .engine_gid = 4242};

	for (uint32_t i = 0; i < CHILD_COUNT; i++)
		id.child[i] = (struct role_ids){.uid = 61001 + i, .gid = 62001 + i};
	id.self = (struct role_ids){.uid = 61009, .gid = 62009};
	return id;
}

/* One hexadecimal or list field of /proc/self/status. */
static void
field(const char *name, char *out, size_t cap)
{
	char text[4096];
	size_t len;

	if (fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof(text), &len) < 0)
		_exit(10);
	char *at = strstr(text, name);
	if (at == NULL)
		_exit(11);
	at += strlen(name);
	at += strspn(at, "\t ");
	at[strcspn(at, "\n")] = '\0';
	if (str_copy(out, cap, at, strlen(at)) < 0)
		_exit(12);
}

static void
expect(const char *name, const char *value)
{
	char got[256];

	field(name, got, sizeof(got));
	while (got[0] != '\0' && got[strlen(got) - 1] == ' ')
		got[strlen(got) - 1] = '\0';
	if (strcmp(got, value) != 0) {
		log_error("%s is '%s', not '%s'", name, got, value);
		_exit(1);
	}
}

static bool restarted; /* in the child process of the test */

static void
become_child(void *arg)
{
	enum child_id child = *(const enum child_id *)arg;
	static const char *const uids[] = {"61001\t61001\t61001\t61001",
					   "61002\t61002\t61002\t61002",
					   "61003\t61003\t61003\t61003"};
	struct identity id = made_up();

	if (identity_become_child(&id, child) < 0)
		_exit(2);
	bool reaper = child == CHILD_REAPER;
	expect("\nUid:", uids[child]);
	expect("\nGroups:", child == CHILD_BROKER ? "4242" : "");
	expect("\nCapPrm:", reaper ? "0000000000000020" : "0000000000000000");
	expect("\nCapEff:", reaper ? "0000000000000020" : "0000000000000000");
	expect("\nCapAmb:", reaper ? "0000000000000020" : "0000000000000000");
	/* The supervisor, which has no CAP_SETPCAP, has narrowed it before. */
	if (!restarted)
		expect("\nCapBnd:", reaper ? "0000000000000020" : "0000000000000000");
}

/* The supervisor first, and then a child of it: what a restart looks like. */
static void
become_self_then_child(void *arg)
{
	struct identity id = made_up();

	(void)arg;
	if (identity_become_self(&id) < 0)
		_exit(2);
	expect("\nUid:", "61009\t61009\t61009\t61009");
	expect("\nGroups:", "");
	expect("\nCapPrm:", "00000000000000e0");
	expect("\nCapEff:", "00000000000000e0");
	expect("\nCapBnd:", "00000000000000e0");
	if (setuid(0) == 0)
		_exit(3); /* CAP_SETUID allows that; it is why the page calls it root-equivalent */
	_exit(4);
}

static void
restart_of_a_child(void *arg)
{
	struct identity id = made_up();

	if (identity_become_self(&id) < 0)
		_exit(2);
	restarted = true;
	become_child(arg);
}

static void
need_root(void)
{
	if (geteuid() != 0)
		test_skip("needs root");
}

static void
test_children(void **state)
{
	(void)state;
	need_root();
	for (int c = 0; c < CHILD_COUNT; c++) {
		enum child_id child = (enum child_id)c;
		assert_int_equal(test_in_child(become_child, &child), 0);
		assert_int_equal(test_in_child(restart_of_a_child, &child), 0);
	}
}

static void
test_self(void **state)
{
	(void)state;
	need_root();
	int status = test_in_child(become_self_then_child, NULL);
	assert_int_equal(WEXITSTATUS(status), 3);
}

static void
become_keeper(void *arg)
{
	struct identity id = made_up();

	(void)arg;
	if (identity_become_keeper(&id) < 0)
		_exit(2);
	expect("\nUid:", "0\t0\t0\t0");
	expect("\nCapPrm:", "00000000000004e0");
	expect("\nCapBnd:", "00000000000004e0");
}

static void
test_keeper_of_stunnel(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(test_in_child(become_keeper, NULL), 0);
}

static void
test_find(void **state)
{
	struct identity id;
	char error[256];

	(void)state;
	assert_int_equal(identity_find(&id, error, sizeof(error)), 0);
	assert_int_equal(id.switch_ids, geteuid() == 0);
	if (!id.switch_ids)
		return;
	for (size_t i = 0; i < CHILD_COUNT; i++) {
		assert_true(id.child[i].uid != 0 && id.child[i].gid != 0);
		assert_true(id.child[i].uid != id.self.uid);
		for (size_t k = 0; k < i; k++)
			assert_true(id.child[i].uid != id.child[k].uid);
	}
}

static void
plain(void *arg)
{
	struct identity id;
	char error[256];

	(void)arg;
	if (setgroups(0, NULL) == -1 || setresgid(61500, 61500, 61500) == -1 ||
	    setresuid(61500, 61500, 61500) == -1)
		_exit(2);
	if (identity_find(&id, error, sizeof(error)) < 0 || id.switch_ids)
		_exit(3);
	/* nothing to switch, nothing to refuse */
	if (identity_become_self(&id) < 0 || identity_become_child(&id, CHILD_REAPER) < 0)
		_exit(4);
	expect("\nUid:", "61500\t61500\t61500\t61500");
}

static void
test_plain_user_keeps_its_ids(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(test_in_child(plain, NULL), 0);
}

/* The helper process can open nothing: what accounts there are is not known, and that none is
 * there would be a wrong answer. */
static void
find_without_descriptors(void *arg)
{
	struct identity id = {.switch_ids = false};
	char error[256] = "";
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const struct rlimit few = {(rlim_t)next + 2, (rlim_t)next + 2};

	(void)arg;
	if (next == -1 || close(next) == -1 || setrlimit(RLIMIT_NOFILE, &few) == -1)
		_exit(1);
	int r = identity_find(&id, error, sizeof(error));
	_exit(r == -EMFILE && strstr(error, "Too many open files") != NULL ? 0 : 2);
}

static void
test_accounts_that_cannot_be_asked(void **state)
{
	(void)state;
	if (geteuid() != 0)
		test_skip("needs root");
	test_needs_own_fds();
	assert_int_equal(test_in_child(find_without_descriptors, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accounts_that_cannot_be_asked),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_keeper_of_stunnel),
		cmocka_unit_test(test_plain_user_keeps_its_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
