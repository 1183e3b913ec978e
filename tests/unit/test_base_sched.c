/*
 * tests/unit/test_base_sched.c - the short slice is asked for, and stays with its process.
 * Runs in: ctest.
 * Input: the kernel's own word about the process.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"

/* struct sched_attr, first version. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static struct attr
attr_now(void)
{
	struct attr attr = {.size = sizeof(attr)};

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr;
}

static int
in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(f());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int
changes_the_slice_alone(void)
{
	struct attr before = attr_now();

	if (sched_prompt() != 0)
		return 1;
	struct attr after = attr_now();
	if (after.policy != before.policy || after.nice != before.nice)
		return 2;
	if ((after.flags & 1) == 0)
		return 3;
	/* 0: the kernel is older than 6.12 and has no slice of one's own */
	return after.runtime == 0 || after.runtime < before.runtime ? 0 : 4;
}

static int
child_has_the_usual_one(void)
{
	uint64_t usual = attr_now().runtime;

	if (sched_prompt() != 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		struct attr mine = attr_now();
		_exit(mine.runtime == usual && (mine.flags & 1) == 0 ? 0 : 2);
	}
	int status = 0;
	if (waitpid(pid, &status, 0) != pid)
		return 3;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

static int
keeps_a_low_priority(void)
{
	if (setpriority(PRIO_PROCESS, 0, 7) == -1 || sched_prompt() != 0)
		return 1;
	return attr_now().nice == 7 ? 0 : 2;
}

static int
leaves_another_policy(void)
{
	struct sched_param none = {0};

	if (sched_setscheduler(0, SCHED_BATCH, &none) == -1)
		return 1;
	return sched_prompt() == -EINVAL && attr_now().policy == SCHED_BATCH ? 0 : 2;
}

static void
test_sched_prompt(void **state)
{
	(void)state;
	assert_int_equal(in_child(changes_the_slice_alone), 0);
	assert_int_equal(in_child(child_has_the_usual_one), 0);
	assert_int_equal(in_child(keeps_a_low_priority), 0);
	assert_int_equal(in_child(leaves_another_policy), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sched_prompt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
