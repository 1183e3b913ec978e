/*
 * cli/mcp.c - `bailey mcp`: what a client's configuration starts. Joins its
 * stdin and stdout to a running daemon, or becomes the supervisor of a private
 * tree.
 * Runs in: the calling user's client configuration.
 * Input: argv, trusted like the user.
 * Owns: nothing. For a private tree the same process goes on as baileyd, so
 * that the client's signals and its wait reach the supervisor itself.
 * Where a daemon is installed a private tree never stands beside it by
 * accident: a socket that is there and does not answer is an error.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAEMON_SOCKET "/run/bailey/mcp.sock"

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

static int
private_tree(void)
{
	char **server = mcp_server_argv();

	if (server == NULL)
		return CLI_FAILED;
	execv(server[0], server);
	cli_error("cannot start %s: %s", server[0], strerror(errno));
	return CLI_FAILED;
}

/* Anything but "there is no such file" means that a daemon is meant to be there. */
static bool
daemon_installed(void)
{
	struct stat st;

	return lstat(DAEMON_SOCKET, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

char **
mcp_client_argv(void)
{
	static char program[PATH_MAX];
	static char command[] = "mcp";
	static char *argv[] = {program, command, NULL};

	if (!daemon_installed())
		return mcp_server_argv();
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n == -1 || (size_t)n == sizeof(program) - 1) {
		cli_error("where this program is cannot be told: %s", strerror(errno));
		return NULL;
	}
	program[n] = '\0';
	return argv;
}

static int
join(const char *path)
{
	cleanup_close int fd = bridge_connect(path);

	if (fd == -EACCES || fd == -EPERM)
		cli_error(
			"%s is not open to this user; ask who runs the daemon, or start a private "
			"tree with bailey mcp --private",
			path);
	else if (fd == -ENOENT || fd == -ECONNREFUSED)
		cli_error("no daemon answers at %s (%s); start it, or start a private tree with "
			  "bailey mcp --private",
			  path, strerror(-fd));
	else if (fd < 0)
		cli_error("%s: %s", path, strerror(-fd));
	if (fd < 0)
		return CLI_FAILED;
	int r = bridge_run(STDIN_FILENO, STDOUT_FILENO, fd);
	if (r == 0)
		return CLI_OK;
	if (r == -ECONNRESET)
		cli_error("the daemon closed the connection");
	else if (r != -EPIPE) /* the client went without reading: nobody to tell */
		cli_error("%s", strerror(-r));
	return CLI_FAILED;
}

/* Who types it waits for a prompt that never comes. */
static void
tell_terminal(void)
{
	if (isatty(STDIN_FILENO))
		cli_error("a client's program speaks MCP here, a line of JSON each; bailey config "
			  "CLIENT prints what to paste there (Ctrl-D ends)");
}

int
cmd_mcp(int argc, char **argv)
{
	if (argc <= 3)
		tell_terminal();
	if (argc == 2 && strcmp(argv[1], "--private") == 0)
		return private_tree();
	if (argc == 3 && strcmp(argv[1], "--socket") == 0)
		return join(argv[2]);
	if (argc > 1) {
		cli_error("usage: bailey mcp [--private | --socket PATH]");
		return CLI_USAGE;
	}
	return daemon_installed() ? join(DAEMON_SOCKET) : private_tree();
}
