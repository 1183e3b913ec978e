/*
 * reaper/deadline.c - one absolute timer on CLOCK_BOOTTIME for every box.
 * Runs in: bailey-reaper.
 * Input: trusted.
 * Owns: the timerfd.
 * The boot clock counts through suspend and does not jump, so a deadline means
 * the same after both; it is kept absolute so that a restart loses nothing.
 */
#include "reaper.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int
deadline_init(struct deadline *d)
{
	d->armed_ns = UINT64_MAX;
	d->fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	return d->fd == -1 ? -errno : 0;
}

void
deadline_done(struct deadline *d)
{
	cleanup_closep(&d->fd);
	d->fd = -1;
}

int
deadline_arm(struct deadline *d, uint64_t at_ns)
{
	struct itimerspec spec = {.it_value.tv_sec = 0};

	if (at_ns == d->armed_ns)
		return 0;
	if (at_ns != UINT64_MAX) {
		/* Zero would disarm; a moment in the past fires at once. */
		uint64_t at = at_ns == 0 ? 1 : at_ns;
		spec.it_value.tv_sec = (time_t)(at / NS_PER_S);
		spec.it_value.tv_nsec = (long)(at % NS_PER_S);
	}
	if (timerfd_settime(d->fd, TFD_TIMER_ABSTIME, &spec, NULL) == -1)
		return -errno;
	d->armed_ns = at_ns;
	return 0;
}

void
deadline_drain(struct deadline *d)
{
	uint64_t fired;

	/* EAGAIN: it was set anew after it fired; the walk that follows is right either way. */
	(void)!read(d->fd, &fired, sizeof(fired));
	d->armed_ns = UINT64_MAX;
}

static uint64_t
doubled(uint64_t last, uint64_t first, uint64_t most)
{
	if (last == 0)
		return first;
	return last >= most / 2 ? most : last * 2;
}

uint64_t
deadline_backoff(uint64_t last_step_ns)
{
	return doubled(last_step_ns, NS_PER_S, 5 * NS_PER_S);
}

uint64_t
deadline_stuck(uint64_t last_step_ns)
{
	return doubled(last_step_ns, 30 * NS_PER_S, 600 * NS_PER_S);
}
