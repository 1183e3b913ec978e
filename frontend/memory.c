/*
 * frontend/memory.c - what big messages took goes back to the system, but not
 * between two of them; and none left is the end.
 * Runs in: bailey-frontend.
 * Input: none.
 * Owns: the timer that says that nothing happened for a while.
 *
 * A file in parts of megabytes would pay for fresh pages with every part: a third of its time.
 * So malloc keeps what was freed, and once no call ended for a second the rest is given back.
 *
 * An answer is built of hundreds of small pieces, and one without a piece is a wrong answer: an
 * output that is empty, a status that is missing. So an allocation that fails ends the process, and
 * with it the connection of its one client.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define KEPT_BLOCK (32 * 1024 * 1024) /* from here on malloc maps, and unmaps at once */
#define IDLE_S 1
#define WORTH_BYTES ((size_t)1 << 20)

void
memory_init(void)
{
	cJSON_Hooks hooks = {.malloc_fn = xmalloc, .free_fn = free};

	cJSON_InitHooks(&hooks);
	buf_must_grow();
	(void)mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK);     // NOLINT(concurrency-mt-unsafe)
	(void)mallopt(M_TRIM_THRESHOLD, 2 * KEPT_BLOCK); // NOLINT(concurrency-mt-unsafe)
}

static void
on_idle(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	if (mallinfo2().fordblks >= WORTH_BYTES)
		(void)malloc_trim(0); /* 0: there was nothing whole to give back */
}

int
memory_open(struct frontend *fe)
{
	fe->memory_timer = event_new(fe->base, -1, 0, on_idle, NULL);
	return fe->memory_timer == NULL ? -ENOMEM : 0;
}

void
memory_close(struct frontend *fe)
{
	if (fe->memory_timer != NULL)
		event_free(TAKE(fe->memory_timer));
}

void
memory_used(struct frontend *fe)
{
	static const struct timeval tv = {.tv_sec = IDLE_S};

	if (fe->memory_timer != NULL)
		loop_add(fe->memory_timer, &tv); /* anew: it counts from the last use */
}
