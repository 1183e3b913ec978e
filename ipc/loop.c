/*
 * ipc/loop.c - the event loop of a host process: epoll, or none.
 * Runs in: every host process.
 * Input: none; the environment is not asked.
 * Owns: nothing.
 */
#include <stdlib.h>

#include <event2/event.h>

#include "ipc.h"

static void *
grow(void *p, size_t n)
{
	return xreallocarray(p, n, 1);
}

struct event_base *
loop_new(void)
{
	struct event_base *base = NULL;

	/* A timer that was not armed for want of memory is an answer that never comes. */
	event_set_mem_functions(xmalloc, grow, free);
	struct event_config *config = event_config_new();

	if (config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0 &&
	    event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0 &&
	    event_config_avoid_method(config, "poll") == 0 &&
	    event_config_avoid_method(config, "select") == 0)
		base = event_base_new_with_config(config);
	if (config != NULL)
		event_config_free(config);
	return base;
}

void
loop_add(struct event *event, const struct timeval *wait)
{
	if (event_add(event, wait) == -1)
		fatal("the kernel refuses an event: %m");
}

void
loop_add_ms(struct event *event, uint64_t ms)
{
	const struct timeval wait = {.tv_sec = (time_t)(ms / 1000),
				     .tv_usec = (suseconds_t)(ms % 1000) * 1000};

	loop_add(event, &wait);
}
