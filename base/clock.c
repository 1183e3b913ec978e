/*
 * base/clock.c - the only clock reads; tests wrap these three.
 * Runs in: every process and the guest.
 * Input: none.
 * Owns: nothing.
 */
#include <time.h>

#include "base.h"

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec now;

	if (clock_gettime(id, &now) == -1)
		fatal("clock %d cannot be read", (int)id);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t
clock_now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000U;
}

uint64_t
clock_now_us(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000U;
}

uint64_t
clock_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}
