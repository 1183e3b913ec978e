/*
 * cli/bench_report.c - series of times, the machine's description, the table.
 * Runs in: bailey bench.
 * Input: our own figures, /proc/cpuinfo, uname.
 * Owns: the series' arrays.
 */
#include "cli.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CPUINFO_MAX (1u << 20)

void
series_add(struct series *s, double ms)
{
	if (s->n == s->cap) {
		s->cap = s->cap == 0 ? 256 : s->cap * 2;
		s->v = xreallocarray(s->v, s->cap, sizeof(*s->v));
	}
	s->v[s->n++] = ms;
	s->sorted = false;
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double
series_p(struct series *s, double percent)
{
	if (s->n == 0)
		return (double)NAN;
	if (!s->sorted) {
		qsort(s->v, s->n, sizeof(*s->v), compare);
		s->sorted = true;
	}
	size_t i = (size_t)(percent / 100.0 * (double)s->n);
	return s->v[i < s->n ? i : s->n - 1];
}

void
series_done(struct series *s)
{
	free(s->v);
	*s = (struct series){0};
}

void
report_add(struct report *r, const char *figure, const char *unit, double value, double reach,
	   bool at_least, const char *detail, ...)
{
	va_list ap;

	if (r->n == ARRAY_LEN(r->rows))
		fatal("bench: more rows than the report holds");
	struct report_row *row = &r->rows[r->n++];
	*row = (struct report_row){figure, unit, value, reach, at_least, ""};
	va_start(ap, detail);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 misses va_start */
	(void)vsnprintf(row->detail, sizeof(row->detail), detail, ap);
	va_end(ap);
}

static bool
row_holds(const struct report_row *row)
{
	if (isnan(row->value))
		return false;
	return row->at_least ? row->value >= row->reach : row->value <= row->reach;
}

void
report_machine(struct report *r)
{
	struct utsname u;
	struct sysinfo si;
	cleanup_free char *text = xcalloc(1, CPUINFO_MAX);
	size_t len = 0;
	char model[128] = "unknown processor";

	if (fd_read_file(AT_FDCWD, "/proc/cpuinfo", text, CPUINFO_MAX, &len) == 0) {
		const char *at = memmem(text, len, "model name", 10);
		const char *colon = at == NULL ? NULL : strchr(at, ':');
		if (colon != NULL)
			(void)str_copy(model, sizeof(model), colon + 2, strcspn(colon + 2, "\n"));
	}
	if (uname(&u) == -1 || sysinfo(&si) == -1)
		return;
	snprintf(r->machine, sizeof(r->machine), "%s, %ld cores, %lu MB, Linux %s", model,
		 sysconf(_SC_NPROCESSORS_ONLN), si.totalram / 1000000 * si.mem_unit, u.release);
}

static void
print_json(const struct report *r)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "version", BAILEY_VERSION);
	cJSON_AddStringToObject(o, "machine", r->machine);
	cJSON_AddStringToObject(o, "baseline", r->baseline);
	cJSON *rows = cJSON_AddArrayToObject(o, "figures");
	for (size_t i = 0; i < r->n; i++) {
		const struct report_row *row = &r->rows[i];
		cJSON *j = cJSON_CreateObject();
		cJSON_AddStringToObject(j, "figure", row->figure);
		cJSON_AddStringToObject(j, "unit", row->unit);
		cJSON_AddNumberToObject(j, row->at_least ? "at_least" : "at_most", row->reach);
		cJSON_AddItemToArray(rows, j);
		if (isnan(row->value)) { /* not measured: neither reached nor missed */
			cJSON_AddNullToObject(j, "value");
			cJSON_AddNullToObject(j, "reached");
			continue;
		}
		cJSON_AddNumberToObject(j, "value", row->value);
		cJSON_AddBoolToObject(j, "reached", row_holds(row));
		cJSON_AddStringToObject(j, "detail", row->detail);
	}
	cleanup_free char *text = cJSON_Print(o);
	cJSON_Delete(o);
	puts(text == NULL ? "{}" : text);
}

void
report_print(const struct report *r, bool json)
{
	if (json) {
		print_json(r);
		return;
	}
	printf("Machine: %s\nHost baseline: %s\n\n", r->machine, r->baseline);
	printf("| figure | measured | reach | holds | from |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < r->n; i++) {
		const struct report_row *row = &r->rows[i];
		if (isnan(row->value)) /* its part was not asked for, or failed and said so */
			continue;
		printf("| %s | %.3g%s%s | %s %.3g%s%s | %s | %s |\n", row->figure, row->value,
		       row->unit[0] != '\0' ? " " : "", row->unit, row->at_least ? "≥" : "≤",
		       row->reach, row->unit[0] != '\0' ? " " : "", row->unit,
		       row_holds(row) ? "yes" : "NO", row->detail);
	}
}
