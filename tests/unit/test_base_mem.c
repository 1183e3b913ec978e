/*
 * tests/unit/test_base_mem.c - allocation that cannot fail, cleanup attributes, TAKE.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "base.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static bool memory_out;

void *
__wrap_calloc(size_t n, size_t size)
{
	return memory_out ? NULL : __real_calloc(n, size);
}

static void
test_mem_allocate(void **state)
{
	cleanup_free int *zeros = xcalloc(100, sizeof(*zeros));
	cleanup_free void *nothing = xcalloc(0, 8);
	cleanup_free char *copy = xstrdup("text");
	cleanup_free char *part = xstrndup("text", 2);
	cleanup_free char *made = xasprintf("%s-%d", "a", 5);
	cleanup_free void *none = xreallocarray(NULL, 0, 4);

	(void)state;
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(zeros[i], 0);
	zeros = xreallocarray(zeros, 200, sizeof(*zeros));
	assert_int_equal(zeros[99], 0);
	assert_non_null(nothing);
	assert_non_null(none);
	assert_string_equal(copy, "text");
	assert_string_equal(part, "te");
	assert_string_equal(made, "a-5");
}

static void
overflow_realloc(void *arg)
{
	free(xreallocarray(NULL, *(size_t *)arg, 16));
}

static void
failing_calloc(void *arg)
{
	(void)arg;
	memory_out = true;
	free(xcalloc(1, 1));
}

static void
test_mem_failure_is_fatal(void **state)
{
	size_t wrap = SIZE_MAX / 8;

	(void)state;
	test_is_fatal(overflow_realloc, &wrap);
	test_is_fatal(failing_calloc, NULL);
}

static void
test_take_hands_over(void **state)
{
	char *kept;
	int kept_fd;

	(void)state;
	{
		cleanup_free char *mine = xstrdup("kept");
		cleanup_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		kept = TAKE(mine);
		kept_fd = TAKE_FD(fd);
		assert_null(mine);
		assert_int_equal(fd, -1);
	}
	assert_string_equal(kept, "kept");
	assert_true(fcntl(kept_fd, F_GETFD) != -1);
	free(kept);
	assert_int_equal(close(kept_fd), 0);
}

static void
test_cleanup_close_closes_and_keeps_errno(void **state)
{
	size_t before = test_open_fds();
	int seen;

	(void)state;
	{
		cleanup_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		cleanup_close int none = -1;

		assert_true(fd >= 0);
		assert_int_equal(none, -1);
		errno = EDOM;
	}
	seen = errno;
	assert_int_equal(seen, EDOM);
	assert_int_equal(test_open_fds(), before);
}

static void
test_secret_wipe(void **state)
{
	char secret[] = "secret";

	(void)state;
	secret_wipe(secret, sizeof(secret));
	for (size_t i = 0; i < sizeof(secret); i++)
		assert_int_equal(secret[i], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mem_allocate),
		cmocka_unit_test(test_mem_failure_is_fatal),
		cmocka_unit_test(test_take_hands_over),
		cmocka_unit_test(test_cleanup_close_closes_and_keeps_errno),
		cmocka_unit_test(test_secret_wipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
