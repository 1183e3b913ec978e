/*
 * cli/serve.c - `bailey serve`: becomes a supervisor that clients connect to.
 * Runs in: the calling user's terminal or service manager.
 * Input: argv, trusted like the user; the supervisor checks it.
 * Owns: nothing; becomes baileyd.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 64

static bool
has_word(int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], word) == 0)
			return true;
	return false;
}

/* Where `bailey token add` puts it; -errno with a message where there is none. */
static int
find_tokens(char *ret, size_t cap)
{
	int r = token_file_default(ret, cap);

	if (r == 0 && access(ret, F_OK) == -1)
		r = -errno;
	if (r < 0)
		cli_error("--http needs a token file, since every user of this machine can reach a "
			  "loopback port; bailey token add NAME makes one");
	return r;
}

int
cmd_serve(int argc, char **argv)
{
	static char program[PATH_MAX];
	static char private_flag[] = "--private", tokens_flag[] = "--tokens";
	static char tokens[PATH_MAX];
	char *words[WORDS_MAX + 3] = {program, private_flag};
	size_t n = 2;

	if (argc < 2) {
		cli_error("serve what? bailey serve --socket PATH, or --http ADDRESS:PORT; "
			  "bailey serve --help");
		return CLI_USAGE;
	}
	for (int i = 1; i < argc; i++) {
		/* Its own words for being started otherwise are none of this command's. */
		bool inner = strcmp(argv[i], "--stdio") == 0 || strcmp(argv[i], "--private") == 0;
		if (n == WORDS_MAX || inner) {
			cli_error(inner ? "serve does not take %s" : "too many words, at %s",
				  argv[i]);
			return CLI_USAGE;
		}
		words[n++] = argv[i];
	}
	if (has_word(argc, argv, "--http") && !has_word(argc, argv, "--tokens")) {
		if (find_tokens(tokens, sizeof(tokens)) < 0)
			return CLI_USAGE;
		words[n++] = tokens_flag;
		words[n++] = tokens;
	}
	if (exe_find("baileyd", program, sizeof(program)) < 0) {
		cli_error("baileyd is neither beside this program nor in ../libexec/bailey; "
			  "install or build Bailey as a whole");
		return CLI_FAILED;
	}
	execv(program, words);
	cli_error("cannot start %s: %s", program, strerror(errno));
	return CLI_FAILED;
}
