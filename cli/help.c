/*
 * cli/help.c - the page each subcommand prints for --help.
 * Runs in: the calling user's terminal.
 * Input: none.
 * Owns: nothing.
 */
#include "cli.h"

#include <string.h>

static const struct {
	const char *command, *page;
} pages[] = {
	{"mcp",
	 "Usage: bailey mcp [--private | --socket PATH]\n\n"
	 "Speaks MCP on stdin and stdout; this is what a client's configuration starts.\n"
	 "Where /run/bailey/mcp.sock is there, or PATH is given, stdin and stdout are joined\n"
	 "to the daemon that serves it; sandboxes then belong to your user. Else, or with\n"
	 "--private, a whole tree of processes is started as you, and ends with its client.\n\n"
	 "Environment of a private tree: DOCKER_HOST (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH),\n"
	 "SANDBOX_IMAGE, MAX_CPU_CORES, MAX_MEMORY_MB, EXEC_TIMEOUT_SEC, BAILEY_POOL,\n"
	 "BAILEY_SHARE_DIR, BAILEY_DEBUG=1; baileyd -T says what each may be.\n\n"
	 "Exit code: 0 when the client closed its end; 1 when the daemon did or nothing could\n"
	 "be started; 2 for a wrong word or variable.\n"},
	{"serve",
	 "Usage: bailey serve --socket PATH\n"
	 "       bailey serve --http ADDRESS:PORT [--tokens FILE]\n"
	 "                    [--tls CERT KEY [--tls-listen ADDRESS:PORT]] [--host NAME]...\n\n"
	 "Serves every MCP client that connects; --socket and --http may stand together.\n"
	 "Runs in the foreground as you until SIGTERM or SIGINT. SIGHUP ends it too, unless\n"
	 "it serves --http and its log is no terminal: then it reads the token file again. Once it "
	 "listens it\n"
	 "says so on stdout, a line for each socket.\n\n"
	 "  --socket PATH   a unix socket that only your user can open (mode 0600), in a\n"
	 "                  directory that only your user or root can write to; the file stays "
	 "when\n"
	 "                  the server ends, and the next start replaces it\n"
	 "  --status PATH   where bailey status asks; PATH.status beside --socket PATH where none\n"
	 "                  is given, and nowhere with --http alone\n"
	 "  --http ADDRESS:PORT\n"
	 "                  Streamable HTTP at /mcp on a loopback address; port 0 picks one\n"
	 "  --tokens FILE   who may use it: what bailey token add wrote, and where it writes when\n"
	 "                  nothing is given\n"
	 "  --tls CERT KEY  stunnel in front, with that certificate chain and key (PEM, absolute\n"
	 "                  paths)\n"
	 "  --tls-listen ADDRESS:PORT\n"
	 "                  where stunnel listens; 0.0.0.0:8443 where nothing is given\n"
	 "  --host NAME     a name clients reach it by through TLS; the machine's own where none "
	 "is\n"
	 "                  given; may be repeated; also for a TLS proxy of your own\n\n"
	 "Environment: as of bailey mcp, and BAILEY_CONNECTIONS (1024 at once),\n"
	 "BAILEY_CONNECTIONS_USER (64 of one user).\n\n"
	 "Exit code: 0 after a signal; 1 when it cannot start; 2 for a wrong word or variable.\n"},
	{"status",
	 "Usage: bailey status [--json] [--socket PATH | --status PATH]\n\n"
	 "Tells what a running server is doing: its processes, how often and why they were\n"
	 "started again and their last errors, the engine, queue and pools, every live sandbox\n"
	 "with its owner, and counters since the server started. Only the user who runs the\n"
	 "server, and root, may ask.\n\n"
	 "  --json         one JSON document\n"
	 "  --socket PATH  as it was given to bailey serve; the installed one else\n"
	 "  --status PATH  the status socket itself, as given to bailey serve --status\n\n"
	 "Exit code: 0; 1 when nobody answers there; 2 for a wrong word.\n"},
	{"config",
	 "Usage: bailey config claude-code|claude-desktop|cursor|vscode|windsurf [--http [URL]]\n\n"
	 "Prints what to paste into that client's configuration (JSON on stdout) and where\n"
	 "(on stderr). Without --http the client starts bailey mcp; DOCKER_HOST and the other\n"
	 "variables of bailey mcp are written down where they are set now. With --http it\n"
	 "connects to URL, http://127.0.0.1:8900/mcp where none is given (and /mcp where URL\n"
	 "has no path); the token is not written down but fetched by the client.\n"},
	{"run",
	 "Usage: bailey run [-l python|bash|node] [-t SECONDS] [-m MB] [FILE|-] [ARG...]\n\n"
	 "Runs a file, or what stdin holds, in a fresh sandbox of a tree of its own.\n\n"
	 "  -l LANGUAGE  instead of what the file's name says (.py .js .mjs .cjs .sh .bash);\n"
	 "               python where it says nothing\n"
	 "  -t SECONDS   time limit, 300 at most; EXEC_TIMEOUT_SEC or 10 where none is given\n"
	 "  -m MB        memory limit, MAX_MEMORY_MB or 2048 at most; 512 where none is given\n\n"
	 "What is piped in beside a FILE is its stdin, read to its end first. The code has no\n"
	 "network and sees no file of this machine; nothing can be switched on for it.\n\n"
	 "Exit code: the code's own, 128 and the number where a signal ended it; 124 when its "
	 "time\n"
	 "was over, 125 when it could not be run. What it wrote comes as it is, but on a terminal\n"
	 "what that would obey is escaped; the first 24 KiB and the last 8 KiB of each stream.\n"},
	{"image",
	 "Usage: bailey image build [slim|full]\n\n"
	 "Builds the sandbox image on the engine from packages of the distribution, with your\n"
	 "own rights on the engine; slim where nothing is given. The recipes are in the data\n"
	 "directory, below scripts/sandbox-profiles/image.\n"},
	{"token",
	 "Usage: bailey token add NAME [--tokens FILE]\n\n"
	 "Makes a token for a client that comes by HTTP and prints it, once. The file gets its\n"
	 "hash and NAME, under which sandboxes made with it belong together. Without --tokens\n"
	 "it is /etc/bailey/tokens for root, else ~/.config/bailey/tokens. A running server\n"
	 "reads it again when it gets SIGHUP; without the line it closes what the token opened.\n"},
	{"bench",
	 "Usage: bailey bench [--json] [--quick] [--only PART]\n\n"
	 "Measures calls beside the same code on the host, docker exec and the raw engine.\n"
	 "Nothing else should run on the machine meanwhile.\n\n"
	 "  --json       figures as JSON\n"
	 "  --quick      fewer calls: of the warm ones 40 for 1000, of the others a sixth or more\n"
	 "  --only PART  one part; a wrong one lists them\n"},
};

const char *
cli_help(const char *command)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		if (strcmp(pages[i].command, command) == 0)
			return pages[i].page;
	return NULL;
}

const char *
cli_help_asked(int argc, char **argv)
{
	bool two_words =
		argc > 3 && ((strcmp(argv[1], "image") == 0 && strcmp(argv[2], "build") == 0) ||
			     (strcmp(argv[1], "token") == 0 && strcmp(argv[2], "add") == 0));
	const char *word = two_words ? argv[3] : argc > 2 ? argv[2] : "";

	if (strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0)
		return NULL;
	return cli_help(argv[1]);
}
