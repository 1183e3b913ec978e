/*
 * tests/unit/test_confine_confine.c - command-line words, layer names, first call, lock.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "confine.h"

#define PARSE(plan, ...) parse(plan, (const char *[]){"program", __VA_ARGS__, NULL})

static int
parse(struct confine_plan *plan, const char *words[])
{
	int n = 0;

	while (words[n] != NULL)
		n++;
	return confine_args(n, (char **)(uintptr_t)words, plan);
}

static void
test_confine_args_all_words(void **state)
{
	struct confine_plan plan = {.table = TABLE_BROKER};

	(void)state;
	assert_int_equal(PARSE(&plan, "parent=12", "uid=1", "ns=1", "net=1", "kill=0", "bind=/run",
			       "bind=/a/b.c", "bindro=1", "debug=1", "events=1", "engine=tcp"),
			 0);
	assert_int_equal(plan.table, TABLE_BROKER_TCP);
	assert_int_equal(plan.parent, 12);
	assert_true(plan.expect_uid && plan.namespaces && plan.keep_net && !plan.keep_kill);
	assert_string_equal(plan.bind_dir[0], "/run");
	assert_string_equal(plan.bind_dir[1], "/a/b.c");
	assert_true(plan.bind_readonly && plan.debug && plan.events && !plan.log_only);
	assert_string_equal(plan.engine, "tcp");

	/* Nothing is left over from before; without words all is off. */
	plan.table = TABLE_REAPER;
	assert_int_equal(PARSE(&plan, "engine=unix"), 0);
	assert_int_equal(plan.table, TABLE_REAPER);
	assert_int_equal(plan.parent, 0);
	assert_false(plan.expect_uid || plan.namespaces);
	assert_string_equal(plan.bind_dir[0], "");
}

static void
test_confine_args_refuses(void **state)
{
	static const char *const bad[] = {
		"",
		"parent",
		"parent=",
		"parent=0",
		"parent=-1",
		"parent=1x",
		"parent=99999999999",
		"uid=2",
		"uid=",
		"ns=yes",
		"nss=1",
		"n=1",
		"=1",
		"bind=run",
		"bind=/",
		"bind=//",
		"bind=/a//b",
		"bind=/a/",
		"bind=/a/../b",
		"bind=/..",
		"bind=/.",
		"bind=/a/.",
		"bind=",
		"engine=ssh",
		"engine=",
		"confine=off",
		"confine",
		"--help",
	};
	struct confine_plan plan = {.table = TABLE_FRONTEND, .parent = 7};
	char longest[700] = "bind=/";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int r = PARSE(&plan, bad[i]);

		if (r != -EINVAL && r != -ERANGE)
			fail_msg("\"%s\": %d", bad[i], r);
	}
	memset(longest + 6, 'a', sizeof(longest) - 7);
	assert_int_equal(PARSE(&plan, longest), -ENAMETOOLONG);
	assert_int_equal(PARSE(&plan, "bind=/a", "bind=/b", "bind=/c"), -EINVAL);
	assert_int_equal(plan.parent, 7); /* written only on success */
#ifdef BAILEY_CONFINE_LOG /* preset dev; asan and what is shipped are built without */
	assert_int_equal(PARSE(&plan, "confine=log"), 0);
	assert_true(plan.log_only);
#else
	assert_int_equal(PARSE(&plan, "confine=log"), -EPERM);
	assert_false(plan.log_only);
#endif
}

static void
test_confine_layer_names(void **state)
{
	uint32_t cursor = 0, seen = 0;
	enum confine_layer layer = LAYER_UID;

	(void)state;
	while (confine_next_layer(UINT32_MAX, &cursor, &layer)) {
		assert_int_equal(seen & layer, 0);
		seen |= layer;
		assert_string_not_equal(confine_layer_name(layer), "unknown");
	}
	assert_int_equal(seen, 255);
	cursor = 0;
	assert_true(confine_next_layer(LAYER_SECCOMP, &cursor, &layer));
	assert_int_equal(layer, LAYER_SECCOMP);
	assert_false(confine_next_layer(LAYER_SECCOMP, &cursor, &layer));
	assert_string_equal(confine_layer_name((enum confine_layer)3), "unknown");
}

static void
start_in_child(void *arg)
{
	struct confine_plan plan = {.parent = getppid()};
	struct stat st;
	sigset_t blocked;

	(void)arg;
	(void)close(0);
	(void)close(1);
	if (dup2(2, 9) != 9 || confine_start(&plan, 5) != 0)
		_exit(1);
	if (fcntl(9, F_GETFD) != -1 || fstat(0, &st) != 0 || !S_ISCHR(st.st_mode) ||
	    fstat(1, &st) != 0 || umask(0) != 077)
		_exit(2);
	int signal_at_death = 0;
	if (prctl(PR_GET_PDEATHSIG, &signal_at_death) != 0 || signal_at_death != SIGKILL)
		_exit(3);
	if (sigprocmask(SIG_BLOCK, NULL, &blocked) != 0 || sigismember(&blocked, SIGTERM) != 1)
		_exit(4);
	plan.parent = getpid(); /* as if the parent had died in between */
	_exit(confine_start(&plan, 5) == -ESRCH ? 0 : 5);
}

static void
test_confine_start(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(start_in_child, NULL), 0);
}

/* Locks as the given table and looks at what the kernel says. */
static void
lock_in_child(void *arg)
{
	const enum confine_table *table = arg;
	struct confine_plan plan = {.table = *table, .parent = getppid()};
	uint32_t layers = 0;
	const uint32_t always = LAYER_NO_NEW_PRIVS | LAYER_CAPS | LAYER_RLIMITS | LAYER_UNDUMPABLE;

	if (confine_start(&plan, 2) != 0 || confine_lock(&plan, &layers) != 0)
		_exit(1);
	if ((layers & always) != always || (layers & (LAYER_UID | LAYER_NAMESPACES)) != 0)
		_exit(2);
#ifdef BAILEY_NO_FILTER
	if ((layers & LAYER_SECCOMP) != 0)
		_exit(3);
#else
	if ((layers & LAYER_SECCOMP) == 0 || prctl(PR_GET_SECCOMP) != 2)
		_exit(3);
#endif
	if (confine_selftest(&plan, layers) != 0)
		_exit(4);
	log_error("the log still works %d", 1);
	_exit(0);
}

static void
test_confine_lock_tables(void **state)
{
	(void)state;
	for (int table = TABLE_FRONTEND; table <= TABLE_REAPER; table++)
		assert_int_equal(test_in_child(lock_in_child, &table), 0);
}

static void
refused_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND, .expect_uid = true};
	uint32_t layers = 77;

	(void)arg;
	_exit(confine_lock(&plan, &layers) == -EPERM && layers == 77 ? 0 : 1);
}

static void
switched_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND, .expect_uid = true};
	uint32_t layers = 0;

	(void)arg;
	if (setresgid(64999, 64999, 64999) != 0 || setresuid(64999, 64999, 64999) != 0)
		_exit(1);
	if (confine_lock(&plan, &layers) != 0 || (layers & LAYER_UID) == 0)
		_exit(2);
	_exit(confine_selftest(&plan, layers) == 0 ? 0 : 3);
}

static void
test_confine_lock_wants_the_role_uid(void **state)
{
	(void)state;
	if (geteuid() != 0)
		test_skip("needs root");
	assert_int_equal(test_in_child(refused_in_child, NULL), 0);
	assert_int_equal(test_in_child(switched_in_child, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confine_args_all_words),
		cmocka_unit_test(test_confine_args_refuses),
		cmocka_unit_test(test_confine_layer_names),
		cmocka_unit_test(test_confine_start),
		cmocka_unit_test(test_confine_lock_tables),
		cmocka_unit_test(test_confine_lock_wants_the_role_uid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
