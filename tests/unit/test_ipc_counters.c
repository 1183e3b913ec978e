/* ipc/counters.c: each descriptor is owned once and closed once. */
#include "test.h"
#include "ipc.h"

static int
file(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void
take_all(struct counters *c)
{
	for (uint32_t i = 0; i < COUNTERS; i++)
		counters_take(c, i, file());
}

static void
test_descriptors_are_owned(void **state)
{
	size_t fds = test_open_fds();
	struct counters c;

	(void)state;
	counters_init(&c);
	take_all(&c);
	take_all(&c);
	assert_int_equal(test_open_fds(), fds + COUNTERS);
	counters_take(&c, COUNTERS, file());
	counters_take(&c, UINT32_MAX, file());
	counters_take(&c, UINT32_MAX, -1);
	assert_int_equal(test_open_fds(), fds + COUNTERS);
	counters_close(&c);
	counters_close(&c);
	for (uint32_t i = 0; i < COUNTERS; i++)
		assert_int_equal(c.fd[i], -1);
	assert_int_equal(test_open_fds(), fds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_are_owned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
