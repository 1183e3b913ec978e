/*
 * cli/image.c - `bailey image build`: runs the image recipe that is installed
 * with us, with the caller's own rights on the engine.
 * Runs in: the calling user's terminal.
 * Input: argv, trusted like the user.
 * Owns: nothing; becomes the recipe.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
cmd_image(int argc, char **argv)
{
	static char slim[] = "slim", full[] = "full";
	char *const kinds[] = {slim, full};
	char *kind = NULL;
	char share[PATH_MAX - 64];
	char script[PATH_MAX];

	if (argc < 2 || strcmp(argv[1], "build") != 0 || argc > 3) {
		cli_error("usage: bailey image build [slim|full]");
		return CLI_USAGE;
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(argc == 3 ? argv[2] : slim, kinds[i]) == 0)
			kind = kinds[i];
	if (kind == NULL) {
		cli_error("there is no image recipe \"%s\"; known: slim, full", argv[2]);
		return CLI_USAGE;
	}
	if (exe_share_dir(share, sizeof(share)) < 0) {
		cli_error(
			"the data directory (share/bailey) is missing; install Bailey as a whole");
		return CLI_FAILED;
	}
	int n = snprintf(script, sizeof(script), "%s/scripts/sandbox-profiles/image/build", share);
	if (n < 0 || (size_t)n >= sizeof(script)) {
		cli_error("the data directory's path is too long");
		return CLI_FAILED;
	}
	char *args[] = {script, kind, NULL};
	execv(script, args);
	cli_error("cannot run %s: %s", script, strerror(errno));
	return CLI_FAILED;
}
