/*
 * supervisor/tree.c: a tree that cannot be put together says so and leaves nothing. How a whole
 * one lives and ends is tests/integration/test_tree.py's matter.
 */
#include "test.h"
#include "supervisor.h"

static int exe_result;
static const struct serve on_stdio = {.stdio = true};
static enum child_id missing = CHILD_COUNT;

int __wrap_exe_find(const char *name, char *ret, size_t cap);
int
__wrap_exe_find(const char *name, char *ret, size_t cap)
{
	if (missing != CHILD_COUNT && strcmp(name, children_name(missing)) == 0)
		return exe_result;
	return str_copy(ret, cap, "/bin/true", 9);
}

int __wrap_identity_find(struct identity *ret, char *error, size_t cap);
int
__wrap_identity_find(struct identity *ret, char *error, size_t cap)
{
	(void)ret;
	(void)snprintf(error, cap, "no ids today");
	return -EEXIST;
}

static void
run_without(enum child_id id)
{
	struct options o = {.share_dir = "/share"};
	struct engine_target engine = {.kind = ENGINE_UNIX};

	missing = id;
	_exit(tree_run(&o, &engine, &on_stdio));
}

static void
run_one(void *arg)
{
	run_without(*(const enum child_id *)arg);
}

static void
test_missing_programs(void **state)
{
	(void)state;
	exe_result = -ENOENT;
	for (int i = 0; i < CHILD_COUNT; i++) {
		enum child_id id = (enum child_id)i;
		int status = test_in_child(run_one, &id);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 1);
	}
}

static void
test_no_ids(void **state)
{
	enum child_id id = CHILD_COUNT;

	(void)state;
	int status = test_in_child(run_one, &id);
	assert_int_equal(WEXITSTATUS(status), 1);
}

static void
test_nothing_is_left_open(void **state)
{
	struct options o = {.share_dir = "/share"};
	struct engine_target engine = {.kind = ENGINE_UNIX};
	size_t fds = test_open_fds();

	(void)state;
	buf_init(&engine.pem[0], 16);
	assert_int_equal(buf_append(&engine.pem[0], "key", 3), 0);
	missing = CHILD_REAPER;
	exe_result = -ENOENT;
	assert_int_equal(tree_run(&o, &engine, &on_stdio), 1);
	assert_int_equal(test_open_fds(), fds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_programs),
		cmocka_unit_test(test_no_ids),
		cmocka_unit_test(test_nothing_is_left_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
