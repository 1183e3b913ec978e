/* ipc/loop.c: what a filter allows, or nothing. */
#include "test.h"
#include "ipc.h"

#include <event2/event.h>
#include <sys/resource.h>

static void
test_epoll_whatever_the_environment_says(void **state)
{
	(void)state;
	assert_int_equal(setenv("EVENT_NOEPOLL", "1", 1), 0);
	struct event_base *base = loop_new();
	assert_non_null(base);
	assert_string_equal(event_base_get_method(base), "epoll");
	event_base_free(base);
	assert_int_equal(unsetenv("EVENT_NOEPOLL"), 0);
}

/* libevent would take poll(2), which no filter has: the process would die at its first wait. */
static void
without_descriptors(void *arg)
{
	const struct rlimit none = {0, 0};

	(void)arg;
	if (setrlimit(RLIMIT_NOFILE, &none) == -1)
		_exit(1);
	_exit(loop_new() == NULL ? 0 : 2);
}

static void
test_no_other_method(void **state)
{
	(void)state;
	test_needs_own_fds();
	assert_int_equal(test_in_child(without_descriptors, NULL), 0);
}

static void
nothing(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* A regular file cannot be polled: one of the ways to be refused. */
static void
add_a_file(void *arg)
{
	static struct event_base *base; /* reachable when the process ends in the call */
	static struct event *event;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)arg;
	base = loop_new();
	if (fd == -1 || base == NULL)
		_exit(1);
	event = event_new(base, fd, EV_READ, nothing, NULL);
	loop_add(event, NULL);
}

static void
test_an_event_that_is_refused(void **state)
{
	(void)state;
	test_needs_own_fds();
	test_is_fatal(add_a_file, NULL);
}

static void
test_a_timer_in_ms(void **state)
{
	struct event_base *base = loop_new();
	struct event *event = event_new(base, -1, 0, nothing, NULL);
	struct timeval at, now;

	(void)state;
	loop_add_ms(event, 61500);
	assert_true(event_pending(event, EV_TIMEOUT, &at));
	assert_int_equal(gettimeofday(&now, NULL), 0);
	int64_t left_ms = (at.tv_sec - now.tv_sec) * 1000 + (at.tv_usec - now.tv_usec) / 1000;
	assert_in_range(left_ms, 50000, 61501);
	event_free(event);
	event_base_free(base);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_epoll_whatever_the_environment_says),
		cmocka_unit_test(test_no_other_method),
		cmocka_unit_test(test_an_event_that_is_refused),
		cmocka_unit_test(test_a_timer_in_ms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
