/*
 * cli/error.c - one line on stderr for the person who called.
 * Runs in: every subcommand.
 * Input: our own words, and parts of answers that were escaped before.
 * Owns: nothing.
 */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>

void
cli_error(const char *fmt, ...)
{
	va_list ap;
	cleanup_free char *text = NULL, *line = NULL;

	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 misses va_start */
	if (vasprintf(&text, fmt, ap) == -1)
		fatal("out of memory");
	va_end(ap);
	/* Written at once: processes of a tree that we started may log to the same place. */
	line = xasprintf("bailey: %s\n", text);
	fputs(line, stderr);
}
