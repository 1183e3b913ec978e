/*
 * tests/unit/test_cli_error.c - errors are one line on stderr, named after the command.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

#include <fcntl.h>
#include <unistd.h>

static void
test_one_line(void **state)
{
	int fds[2];
	int saved = dup(STDERR_FILENO);
	char text[64] = "";

	(void)state;
	assert_int_equal(pipe2(fds, O_DIRECT), 0); /* what is written at once is read at once */
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	cli_error("no %s of %d", "file", 3);
	(void)fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "bailey: no file of 3\n");
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_line)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
