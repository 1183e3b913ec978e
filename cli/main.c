/*
 * cli/main.c - the bailey command: picks a subcommand from a table.
 * Runs in: the calling user's terminal or client configuration.
 * Input: argv, trusted like the user.
 * Owns: nothing.
 */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command commands[] = {
	{"mcp", "[--private | --socket PATH]",
	 "speak MCP on stdin and stdout (what a client's configuration starts)", cmd_mcp},
	{"serve", "[--socket PATH] [--http ADDRESS:PORT [--tokens FILE] [--tls CERT KEY]]",
	 "serve every MCP client that connects", cmd_serve},
	{"status", "[--json] [--socket PATH | --status PATH]",
	 "what a running server is doing: processes, pool, queue, sandboxes, counters", cmd_status},
	{"config", "CLIENT [--http [URL]]", "print what to paste into a client's configuration",
	 cmd_config},
	{"run", "[-l python|bash|node] [-t SECONDS] [-m MB] [FILE|-] [ARG…]",
	 "run a file in a fresh sandbox; its exit code is passed through", cmd_run},
	{"image", "build [slim|full]",
	 "build a sandbox image on the engine (full: git, compilers, numpy, pandas, matplotlib)",
	 cmd_image},
	{"token", "add NAME [--tokens FILE]",
	 "make a token for a client that comes by HTTP; it is printed once", cmd_token},
	{"bench", "[--json] [--quick] [--only PART]",
	 "measure calls beside the host, docker exec and the raw engine", cmd_bench},
};

static void
usage(FILE *out)
{
	fputs("Usage: bailey COMMAND\n\n"
	      "Runs Python, Bash and Node code in throw-away, locked-down containers.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  bailey %s %s\n      %s\n", commands[i].name, commands[i].args,
			commands[i].help);
	fputs("  bailey COMMAND --help\n      what a command takes, does and answers\n"
	      "  bailey --version | --help\n\n"
	      "The engine is taken from DOCKER_HOST (and DOCKER_TLS_VERIFY, DOCKER_CERT_PATH) or "
	      "the\n"
	      "usual socket; SANDBOX_IMAGE, MAX_CPU_CORES, MAX_MEMORY_MB and EXEC_TIMEOUT_SEC set "
	      "the\n"
	      "image, the maxima and the default timeout.\n",
	      out);
}

int
main(int argc, char **argv)
{
	log_init("bailey", LOG_L_INFO);
	/* A file limit is told as an error, not by a silent end in the middle of a line. */
	if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		fatal("signals");
	if (argc < 2) {
		usage(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		puts("bailey " BAILEY_VERSION);
		return CLI_OK;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		usage(stdout);
		return CLI_OK;
	}
	const char *page = cli_help_asked(argc, argv);
	if (page != NULL) {
		(void)fputs(page, stdout);
		return CLI_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	cli_error("unknown command \"%s\"; bailey --help lists them", argv[1]);
	return CLI_USAGE;
}
