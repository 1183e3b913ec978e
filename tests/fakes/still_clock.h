/*
 * tests/fakes/still_clock.h - the monotonic clocks of a test that is linked with it stand still but
 * where the test lets time pass, so that a slow machine changes nothing. libevent's timers go by
 * them too: the next turn of a loop finds what is due. No wait may be left to epoll: with this
 * clock a loop is turned by EVLOOP_NONBLOCK.
 */
#ifndef BAILEY_STILL_CLOCK_H
#define BAILEY_STILL_CLOCK_H

#include <stdint.h>

struct event_base;

void clock_pass(uint64_t ms);
/* Handles all that is ready. */
void clock_turn(struct event_base *base);
/* Time passes in this loop: what is due in each of these milliseconds happens in it. */
void clock_pass_in(struct event_base *base, uint64_t ms);

#endif
