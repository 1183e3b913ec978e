/*
 * tests/fakes/still_clock.c - see still_clock.h.
 * Runs in: unit tests. Input: the test. Owns: the time.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <event2/event.h>

#include "still_clock.h"

/* Never set back: what began in one test of a program may be seen in the next. */
static uint64_t passed_ns = UINT64_C(1000000) * 1000000000;

void
clock_pass(uint64_t ms)
{
	passed_ns += ms * 1000000;
}

void
clock_turn(struct event_base *base)
{
	for (int i = 0; i < 10; i++) /* what one turn makes ready is handled by the next */
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
}

void
clock_pass_in(struct event_base *base, uint64_t ms)
{
	clock_turn(base);
	for (uint64_t i = 0; i < ms; i++) {
		clock_pass(1);
		clock_turn(base);
	}
}

/* In the place of libc's, for libevent as well, which would not see a hidden one. */
__attribute__((visibility("default"))) int
clock_gettime(clockid_t id, struct timespec *t)
{
	/* libcurl 8 goes by the raw one. */
	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE && id != CLOCK_MONOTONIC_RAW &&
	    id != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, id, t);
	t->tv_sec = (time_t)(passed_ns / 1000000000);
	t->tv_nsec = (long)(passed_ns % 1000000000);
	return 0;
}
