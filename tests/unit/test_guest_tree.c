/*
 * tests/unit/test_guest_tree.c - a real tree of processes below a root that stays.
 * Runs in: ctest.
 * Input: /proc.
 * Owns: the processes it forks.
 */
#include "test.h"
#include "guest_fakes.h"

#include <sys/prctl.h>

/* A name with what confuses a reader of /proc/PID/stat. */
static void
sleep_named(const char *name)
{
	(void)prctl(PR_SET_NAME, name);
	for (;;)
		(void)pause();
}

static void
spawn_below(int depth, int ready)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (depth > 0)
			spawn_below(depth - 1, ready);
		(void)setsid();
		(void)!write(ready, "x", 1);
		sleep_named(depth == 1 ? ") S 1 (" : "deep");
	}
}

static void
root_main(int ready)
{
	pid_t middle;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	spawn_below(3, ready);
	middle = fork();
	if (middle == 0) {
		spawn_below(0, ready); /* an orphan, soon the root's own */
		_exit(0);
	}
	(void)waitpid(middle, NULL, 0);
	(void)!write(ready, "", 1); /* the one in the middle is no more */
	(void)close(ready);
	while (waitpid(-1, NULL, 0) > 0 || errno == ECHILD)
		(void)usleep(1000);
	_exit(1);
}

static void
test_tree_kill_leaves_the_root(void **state)
{
	int ready[2];
	pid_t root;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	root = fork();
	if (root == 0)
		root_main(ready[1]);
	(void)close(ready[1]);
	for (int i = 0; i < 5 + 1; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(tree_kill(root), 5);
	assert_int_equal(read(ready[0], &byte, 1), 0); /* every holder of the other end is gone … */
	assert_int_equal(kill(root, 0), 0);            /* … which lives */
	for (int i = 0; i < 30000 && tree_kill(root) != 0; i++)
		(void)usleep(1000); /* files close before a process counts as dead */
	assert_int_equal(tree_kill(root), 0);
	assert_int_equal(kill(root, SIGKILL), 0);
	assert_int_equal(waitpid(root, NULL, 0), root);
	(void)close(ready[0]);
}

/* Forks as fast as it can, each child going on where its parent ends. */
static void
runaway(void)
{
	for (;;) {
		if (fork() != 0)
			_exit(0);
	}
}

static void
test_tree_kill_catches_what_forks(void **state)
{
	uint32_t killed = 0;
	pid_t root;
	int status;

	(void)state;
	root = fork();
	if (root == 0) {
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
		for (int i = 0; i < 3; i++) {
			if (fork() == 0)
				runaway();
		}
		while (waitpid(-1, NULL, 0) > 0)
			; /* until nothing is left below */
		_exit(7);
	}
	for (int i = 0; i < 3000 && waitpid(root, &status, WNOHANG) == 0; i++) {
		killed += tree_kill(root);
		(void)usleep(10000);
		if (i == 2999)
			fail_msg("the runaways still run");
	}
	assert_true(killed > 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void
test_tree_kill_all_is_for_pid_1(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		sleep_named("bystander");
	tree_kill_all(); /* not PID 1: nothing */
	assert_int_equal(tree_kill(1), 0);
	assert_int_equal(tree_kill_others(NULL, 0), 0);
	assert_int_equal(tree_kill(0), 0);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree_kill_leaves_the_root),
		cmocka_unit_test(test_tree_kill_catches_what_forks),
		cmocka_unit_test(test_tree_kill_all_is_for_pid_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
