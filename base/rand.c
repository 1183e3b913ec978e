/*
 * base/rand.c - random bytes from the kernel, for ids and secrets.
 * Runs in: every process and the guest.
 * Input: none.
 * Owns: nothing.
 */
#include <errno.h>
#include <sys/random.h>

#include "base.h"

void
random_bytes(void *p, size_t n)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got == -1) {
			if (errno == EINTR)
				continue;
			fatal("no random bytes: %m");
		}
		at += got;
		n -= (size_t)got;
	}
}
