/*
 * tests/unit/test_confine_limits.c - ids, resource limits, capabilities, Landlock.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "confine_parts.h"

#define KILL_BIT (UINT64_C(1) << CAP_KILL)

static void
ids_in_child(void *arg)
{
	(void)arg;
	if (confine_ids_check(false) != 0 || confine_ids_check(true) != -EPERM)
		_exit(1);
	if (setresgid(64998, 64998, 64998) != 0 || setresuid(64999, 64999, 0) != 0)
		_exit(2);
	if (confine_ids_check(false) != -EPERM) /* the way back to 0 is still open */
		_exit(3);
	if (setresuid((uid_t)-1, (uid_t)-1, 64999) != 0)
		_exit(4);
	_exit(confine_ids_check(true) == 0 ? 0 : 5);
}

static void
test_confine_ids_check(void **state)
{
	(void)state;
	if (geteuid() != 0)
		test_skip("needs root");
	assert_int_equal(test_in_child(ids_in_child, NULL), 0);
}

static rlim_t
limit_of(__rlimit_resource_t resource)
{
	struct rlimit limit = {0};

	if (getrlimit(resource, &limit) == -1 || limit.rlim_cur != limit.rlim_max)
		_exit(90);
	return limit.rlim_cur;
}

static void
limits_in_child(void *arg)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)arg;
	if (dup2(null, 1) != 1 || dup2(null, 2) != 2)
		_exit(1);
	if (confine_limits(TABLE_FRONTEND) != 0)
		_exit(2);
	if (limit_of(RLIMIT_CORE) != 0 || limit_of(RLIMIT_FSIZE) != 0 ||
	    limit_of(RLIMIT_NPROC) != 0 || limit_of(RLIMIT_NOFILE) > 64)
		_exit(3);
	_exit(confine_limits(TABLE_BROKER) == 0 && limit_of(RLIMIT_NOFILE) <= 64 ? 0 : 4);
}

/* Output sent to a file must not be cut off at its first byte. */
static void
limits_with_file_in_child(void *arg)
{
	char name[] = "/tmp/bailey-test-XXXXXX";
	int file = mkstemp(name);

	(void)arg;
	if (file == -1 || unlink(name) != 0 || dup2(file, 1) != 1)
		_exit(1);
	if (confine_limits(TABLE_FRONTEND) != 0)
		_exit(2);
	_exit(write(1, "x", 1) == 1 ? 0 : 3);
}

static void
test_confine_limits(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(limits_in_child, NULL), 0);
	assert_int_equal(test_in_child(limits_with_file_in_child, NULL), 0);
}

static void
caps_in_child(void *arg)
{
	const bool *keep = arg;
	uint64_t kept = *keep ? KILL_BIT : 0;

	if (confine_caps_drop(*keep) != 0 || confine_caps_check(kept) != 0)
		_exit(1);
	if (*keep && confine_caps_check(0) != -EPERM)
		_exit(2);
	if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 0 ||
	    prctl(PR_CAPBSET_READ, CAP_KILL) != (*keep ? 1 : 0))
		_exit(3);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) != 0)
		_exit(4);
	_exit(0);
}

static void
no_kill_in_child(void *arg)
{
	(void)arg;
	if (geteuid() == 0 && setresuid(64999, 64999, 64999) != 0)
		_exit(1);
	_exit(confine_caps_drop(true) == -EPERM && confine_caps_drop(false) == 0 ? 0 : 2);
}

static void
test_confine_caps(void **state)
{
	bool keep = true;

	(void)state;
	assert_int_equal(test_in_child(no_kill_in_child, NULL), 0);
	if (geteuid() != 0)
		test_skip("needs root");
	assert_int_equal(test_in_child(caps_in_child, &keep), 0);
	keep = false;
	assert_int_equal(test_in_child(caps_in_child, &keep), 0);
	assert_int_equal(confine_caps_check(0), -EPERM);
}

static void
test_confine_caps_kept(void **state)
{
	struct confine_plan plan = {.table = TABLE_REAPER};

	(void)state;
	assert_true(confine_caps_kept(&plan) == 0);
	plan.keep_kill = true;
	assert_true(confine_caps_kept(&plan) == KILL_BIT);
	plan.table = TABLE_SUPERVISOR;
	assert_true(confine_caps_kept(&plan) ==
		    (KILL_BIT | UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID));
}

static void
no_files_in_child(void *arg)
{
	int before = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char byte = 0;

	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		_exit(1);
	int r = confine_no_files();
	if (r == 0)
		_exit(77);
	if (r != 1)
		_exit(2);
	if (open("/proc/self/status", O_RDONLY | O_CLOEXEC) != -1 || errno != EACCES)
		_exit(3);
	if (open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC) != -1 || errno != EACCES)
		_exit(4);
	if (open("/dev/null", O_WRONLY | O_CLOEXEC) != -1)
		_exit(5);
	/* What is open stays open. */
	_exit(read(before, &byte, 1) == 1 ? 0 : 6);
}

static void
test_confine_no_files(void **state)
{
	(void)state;
	int status = test_in_child(no_files_in_child, NULL);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		test_skip("this kernel has no Landlock");
	assert_int_equal(status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confine_ids_check), cmocka_unit_test(test_confine_limits),
		cmocka_unit_test(test_confine_caps),      cmocka_unit_test(test_confine_caps_kept),
		cmocka_unit_test(test_confine_no_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
