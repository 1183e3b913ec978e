/*
 * base/mem.c - allocation of small things that cannot fail, and cleanup helpers.
 * Runs in: every process and the guest.
 * Input: sizes of our own; anything a peer can make large uses struct buf.
 * Owns: nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"

void
cleanup_freep(void *p)
{
	void *target;

	memcpy(&target, p, sizeof(target));
	free(target);
}

void
cleanup_closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd); /* nothing is written through these on a failing path */
	errno = saved;
}

static void *
checked(void *p)
{
	if (p == NULL)
		fatal("out of memory");
	return p;
}

void *
xmalloc(size_t n)
{
	return checked(malloc(n == 0 ? 1 : n));
}

void *
xcalloc(size_t n, size_t size)
{
	/* calloc(0, x) may return NULL; one byte more keeps NULL meaning failure. */
	return n == 0 || size == 0 ? checked(calloc(1, 1)) : checked(calloc(n, size));
}

void *
xreallocarray(void *p, size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total))
		fatal("out of memory: %zu items of %zu bytes", n, size);
	return checked(realloc(p, total == 0 ? 1 : total));
}

char *
xstrndup(const char *s, size_t n)
{
	return checked(strndup(s, n));
}

char *
xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *
xasprintf(const char *fmt, ...)
{
	va_list args;
	char *out = NULL;
	int n;

	va_start(args, fmt);
	n = vasprintf(&out, fmt, args);
	va_end(args);
	return checked(n < 0 ? NULL : out);
}

void
secret_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}
