/*
 * tests/unit/test_supervisor_total.c - the common cgroup on both cgroup versions.
 * Runs in: ctest.
 * Input: none.
 * Owns: a directory that stands in for the cgroup file system.
 */
#include "test.h"

#include <sys/stat.h>

#include "supervisor.h"

static char root[] = "/tmp/bailey-total-XXXXXX";

static void
put(const char *relative, bool is_dir)
{
	cleanup_free char *path = xasprintf("%s/%s", root, relative);

	if (is_dir) {
		assert_int_equal(mkdir(path, 0755), 0);
		return;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
}

static void
holds(const char *relative, const char *text)
{
	cleanup_free char *path = xasprintf("%s/%s", root, relative);
	char found[64];

	assert_int_equal(fd_read_file(AT_FDCWD, path, found, sizeof(found), NULL), 0);
	assert_string_equal(found, text);
}

static void
test_version_1(void **state)
{
	char name[16] = "unset";

	(void)state;
	assert_int_equal(total_open(root, 4096, name, sizeof(name)), -ENOENT); /* not mounted */
	put("memory", true);
	/* The kernel would have made the file; its absence is an error, nothing is created. */
	assert_int_equal(total_open(root, 4096, name, sizeof(name)), -ENOENT);
	assert_string_equal(name, "unset");
	put("memory/bailey/memory.limit_in_bytes", false);
	assert_int_equal(total_open(root, 4096, name, sizeof(name)), 0);
	assert_string_equal(name, "/bailey");
	holds("memory/bailey/memory.limit_in_bytes", "4096");
}

static void
test_version_2(void **state)
{
	char name[16] = "unset";

	(void)state;
	put("cgroup.controllers", false);
	assert_int_equal(total_open(root, 8192, name, sizeof(name)), -ENOENT);
	put("cgroup.subtree_control", false);
	put("bailey", true);
	put("bailey/memory.max", false);
	assert_int_equal(total_open(root, 8192, name, sizeof(name)), 0);
	holds("cgroup.subtree_control", "+memory");
	holds("bailey/memory.max", "8192");
	assert_string_equal(name, "/bailey");
}

static int
setup(void **state)
{
	(void)state;
	return mkdtemp(root) == NULL ? -1 : 0;
}

static int
teardown(void **state)
{
	static const char *const made[] = {"memory/bailey/memory.limit_in_bytes",
					   "memory/bailey",
					   "memory",
					   "cgroup.controllers",
					   "cgroup.subtree_control",
					   "bailey/memory.max",
					   "bailey",
					   ""};
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		cleanup_free char *path = xasprintf("%s/%s", root, made[i]);
		failed += remove(path) != 0;
	}
	return failed;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_1),
		cmocka_unit_test(test_version_2),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
