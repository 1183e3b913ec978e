/*
 * cli/mcp.c - `bailey mcp`: becomes the supervisor of a private tree.
 * Runs in: the calling user's client configuration.
 * Input: argv, trusted like the user.
 * Owns: nothing. The same process goes on as baileyd, so that the client's
 * signals and its wait reach the supervisor itself.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char **
mcp_server_argv(void)
{
	static char program[PATH_MAX];
	static char private_flag[] = "--private";
	static char stdio_flag[] = "--stdio";
	static char *argv[] = {program, private_flag, stdio_flag, NULL};

	if (exe_find("baileyd", program, sizeof(program)) < 0) {
		cli_error("baileyd is neither beside this program nor in ../libexec/bailey; "
			  "install or build Bailey as a whole");
		return NULL;
	}
	return argv;
}

int
cmd_mcp(int argc, char **argv)
{
	if (argc > 1) {
		cli_error("mcp takes no argument, got \"%s\"", argv[1]);
		return CLI_USAGE;
	}
	char **server = mcp_server_argv();
	if (server == NULL)
		return CLI_FAILED;
	execv(server[0], server);
	cli_error("cannot start %s: %s", server[0], strerror(errno));
	return CLI_FAILED;
}
