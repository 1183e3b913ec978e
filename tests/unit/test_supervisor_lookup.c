/* supervisor/lookup.c: a question asked in a process of its own. */
#include "test.h"
#include "supervisor.h"

#include <signal.h>

static int
echo(const void *question, void *answer, size_t cap)
{
	memcpy(answer, question, cap);
	return 0;
}

static int
fail_with(const void *question, void *answer, size_t cap)
{
	(void)answer;
	(void)cap;
	return *(const int *)question;
}

static int
die(const void *question, void *answer, size_t cap)
{
	(void)question;
	(void)answer;
	(void)cap;
	(void)raise(SIGKILL);
	return 0;
}

static int __attribute__((noreturn)) hang(const void *question, void *answer, size_t cap)
{
	(void)question;
	(void)answer;
	(void)cap;
	for (;;)
		(void)pause();
}

static void
nothing_left(size_t fds)
{
	assert_int_equal(test_open_fds(), fds);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void
test_answer_of_any_size(void **state)
{
	static const size_t sizes[] = {1, 100, 65536, 300000};
	static uint8_t question[300000], answer[300000];
	size_t fds = test_open_fds();
	uint32_t seed = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(question); i++)
		question[i] = (uint8_t)test_random(&seed);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		memset(answer, 0, sizeof(answer));
		assert_int_equal(lookup_run(echo, question, answer, sizes[i], 5000), 0);
		assert_memory_equal(answer, question, sizes[i]);
	}
	nothing_left(fds);
}

static void
test_failures(void **state)
{
	static const int errors[] = {-ENOENT, -EIO, -EEXIST};
	size_t fds = test_open_fds();
	char answer[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		assert_int_equal(lookup_run(fail_with, &errors[i], answer, sizeof(answer), 5000),
				 errors[i]);
	assert_true(lookup_run(die, NULL, answer, sizeof(answer), 5000) < 0);
	nothing_left(fds);
}

static void
test_no_answer_in_time(void **state)
{
	size_t fds = test_open_fds();
	uint64_t before = clock_now_ms();
	char answer[8];

	(void)state;
	assert_int_equal(lookup_run(hang, NULL, answer, sizeof(answer), 50), -ETIME);
	assert_true(clock_now_ms() - before >=
		    50); /* and not for ever, which is how long it hangs */
	nothing_left(fds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer_of_any_size),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_no_answer_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
