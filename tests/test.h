/*
 * tests/test.h - what every unit test includes first: cmocka wants its own
 * headers in this order. And helpers for code that ends the process.
 */
#ifndef BAILEY_TEST_H
#define BAILEY_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka's skip() says no reason; tests/tap-run reads it from this line. */
#define test_skip(reason)                             \
	do {                                          \
		(void)printf("# skip: %s\n", reason); \
		(void)fflush(stdout);                 \
		skip();                               \
	} while (0)

/* Runs fn in a child with its log thrown away; the wait status. For fatal() and filters. */
static inline int
test_in_child(void (*fn)(void *arg), void *arg)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		if (null == -1 || dup2(null, STDERR_FILENO) == -1)
			_exit(99);
		fn(arg);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void
test_lower_fds(void *arg)
{
	const struct rlimit few = {200, 200};

	(void)arg;
	_exit(setrlimit(RLIMIT_NOFILE, &few) == 0 ? 0 : 1);
}

/* valgrind keeps descriptors for itself, lets nobody set their number, and counts those open at
 * the end of a process that ends in fatal(). */
static inline void
test_needs_own_fds(void)
{
	if (test_in_child(test_lower_fds, NULL) != 0)
		test_skip("descriptors are not the process' own here");
}

/* fn must end in fatal(). */
static inline void
test_is_fatal(void (*fn)(void *arg), void *arg)
{
	int status = test_in_child(fn, arg);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 70);
}

/* Open descriptors of this process, for leak checks. */
static inline size_t
test_open_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

/* A repeatable pseudo-random sequence (xorshift); *state != 0. */
static inline uint32_t
test_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
