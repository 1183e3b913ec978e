/*
 * ipc/counters.c - the descriptors that watch_counter carries, of one box.
 * Runs in: bailey-reaper, which opens them, and bailey-broker, which reads them.
 * Input: none.
 * Owns: the descriptors in a struct counters, until it is closed.
 */
#include "ipc.h"

void
counters_init(struct counters *c)
{
	for (size_t i = 0; i < COUNTERS; i++)
		c->fd[i] = -1;
}

void
counters_take(struct counters *c, uint32_t which, int fd)
{
	cleanup_close int own = fd;

	if (which >= COUNTERS)
		return;
	cleanup_closep(&c->fd[which]);
	c->fd[which] = TAKE_FD(own);
}

void
counters_close(struct counters *c)
{
	for (size_t i = 0; i < COUNTERS; i++)
		cleanup_closep(&c->fd[i]);
	counters_init(c);
}
