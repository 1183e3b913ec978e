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

	fputs("bailey: ", stderr);
	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 misses va_start */
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}
