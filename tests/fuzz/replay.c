/*
 * tests/fuzz/replay.c - runs a fuzz harness over a stored corpus, without libFuzzer.
 * Runs in: ctest, linked with one <name>_fuzz.c.
 * Input: argv: corpus files or directories of them; trusted, the bytes are not.
 * Owns: one input at a time, in an allocation of its exact size so that valgrind
 * and ASan see the first byte read behind it.
 *
 * Prints TAP, one point per input; the first point is the empty input.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int points;
static int failures;

static void
point(int ok, const char *what)
{
	(void)printf("%sok %u - %s\n", ok ? "" : "not ", ++points, what);
	(void)fflush(stdout); /* the next input may crash us */
	failures += !ok;
}

static void
run_file(const char *path, size_t size)
{
	uint8_t *data = malloc(size == 0 ? 1 : size);
	FILE *file = fopen(path, "rbe");
	int ok = data != NULL && file != NULL && fread(data, 1, size, file) == size;

	if (file != NULL)
		(void)fclose(file); /* only read from */
	if (ok)
		(void)LLVMFuzzerTestOneInput(data, size);
	free(data);
	point(ok, path);
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void
run_path(const char *path)
{
	struct dirent **entries = NULL;
	struct stat st;
	int n;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		run_file(path, (size_t)st.st_size);
		return;
	}
	n = scandir(path, &entries, NULL, by_name);
	if (n < 0)
		point(0, path);
	for (int i = 0; i < n; i++) {
		char inner[4096];
		int len = snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);

		if (entries[i]->d_name[0] != '.' && len > 0 && (size_t)len < sizeof(inner) &&
		    stat(inner, &st) == 0 && S_ISREG(st.st_mode))
			run_file(inner, (size_t)st.st_size);
		free(entries[i]);
	}
	free(entries);
}

int
main(int argc, char **argv)
{
	(void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	point(1, "empty input");
	for (int i = 1; i < argc; i++)
		run_path(argv[i]);
	(void)printf("1..%u\n", points);
	return failures == 0 ? 0 : 1;
}
