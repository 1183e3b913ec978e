/*
 * cli/config.c - `bailey config CLIENT`: what to paste into a client's
 * configuration, on stdout; where to paste it, on stderr.
 * Runs in: the calling user's terminal.
 * Input: argv and a few variables of the environment, trusted like the user.
 * Owns: nothing.
 * Clients start their servers with a small environment, so the variables that
 * lead to the engine are written down where they are set. A token never is:
 * each client's own way to fetch it stands in its place.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_DEFAULT "http://127.0.0.1:8900/mcp"

struct client_row {
	const char *name;
	const char *file;       /* where it goes */
	const char *servers;    /* the key that holds servers by name */
	const char *stdio_type; /* value of "type"; NULL: none */
	const char *http_type;
	const char *url_key;       /* NULL: no http of its own */
	const char *authorization; /* header's value with the client's way to fetch a token */
	bool token_input;          /* "inputs" asks for the token once and keeps it */
};

static const struct client_row clients[] = {
	{"claude-code", ".mcp.json of a project, or ~/.claude.json", "mcpServers", NULL, "http",
	 "url", "Bearer ${BAILEY_TOKEN}", false},
	{"claude-desktop",
	 "claude_desktop_config.json (Settings, Developer, Edit Config; on Linux in "
	 "~/.config/Claude)",
	 "mcpServers", NULL, NULL, NULL, NULL, false},
	{"cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", "mcpServers", NULL, NULL,
	 "url", "Bearer ${env:BAILEY_TOKEN}", false},
	{"vscode", ".vscode/mcp.json of a workspace, or the user's mcp.json", "servers", "stdio",
	 "http", "url", "Bearer ${input:bailey-token}", true},
	{"windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers", NULL, NULL, "serverUrl",
	 "Bearer ${env:BAILEY_TOKEN}", false},
};

/* Set in the caller's environment, they belong into the client's configuration. */
static const char *const passed_on[] = {
	"DOCKER_HOST",      "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SANDBOX_IMAGE",
	"MAX_CPU_CORES",    "MAX_MEMORY_MB",     "EXEC_TIMEOUT_SEC", "BAILEY_POOL",
	"BAILEY_SHARE_DIR", "BAILEY_DEBUG",
};

static void
add_type(cJSON *server, const char *type)
{
	if (type != NULL)
		cJSON_AddStringToObject(server, "type", type);
}

static cJSON *
stdio_server(const struct client_row *row, const char *program)
{
	cJSON *server = cJSON_CreateObject();
	cJSON *env = NULL;

	add_type(server, row->stdio_type);
	cJSON_AddStringToObject(server, "command", program);
	cJSON *args = cJSON_AddArrayToObject(server, "args");
	cJSON_AddItemToArray(args, cJSON_CreateString("mcp"));
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
		/* Single-threaded, and nothing here changes the environment. */
		const char *value = getenv(passed_on[i]); // NOLINT(concurrency-mt-unsafe)
		if (value == NULL || *value == '\0')
			continue;
		if (env == NULL)
			env = cJSON_AddObjectToObject(server, "env");
		cJSON_AddStringToObject(env, passed_on[i], value);
	}
	return server;
}

static cJSON *
http_server(const struct client_row *row, const char *url)
{
	cJSON *server = cJSON_CreateObject();

	if (row->url_key != NULL) {
		add_type(server, row->http_type);
		cJSON_AddStringToObject(server, row->url_key, url);
		cJSON *headers = cJSON_AddObjectToObject(server, "headers");
		cJSON_AddStringToObject(headers, "Authorization", row->authorization);
		return server;
	}
	/* It only starts programs: a bridge that speaks HTTP for it. No blank may stand in the
	 * argument, some systems split there; so the blank is in the variable. */
	static const char *const words[] = {"mcp-remote", NULL, "--header",
					    "Authorization:${BAILEY_AUTHORIZATION}"};
	cJSON_AddStringToObject(server, "command", "npx");
	cJSON *args = cJSON_AddArrayToObject(server, "args");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		cJSON_AddItemToArray(args, cJSON_CreateString(words[i] != NULL ? words[i] : url));
	cJSON *env = cJSON_AddObjectToObject(server, "env");
	cJSON_AddStringToObject(env, "BAILEY_AUTHORIZATION", "Bearer YOUR_TOKEN");
	return server;
}

static void
add_input(cJSON *root)
{
	cJSON *input = cJSON_CreateObject();

	cJSON_AddStringToObject(input, "type", "promptString");
	cJSON_AddStringToObject(input, "id", "bailey-token");
	cJSON_AddStringToObject(input, "description", "Bailey token");
	cJSON_AddBoolToObject(input, "password", true);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "inputs"), input);
}

static int
print_config(const struct client_row *row, const char *program, const char *url)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *servers = cJSON_AddObjectToObject(root, row->servers);

	cJSON_AddItemToObject(servers, "bailey",
			      url != NULL ? http_server(row, url) : stdio_server(row, program));
	if (url != NULL && row->token_input)
		add_input(root);
	cleanup_free char *text = cJSON_Print(root);
	cJSON_Delete(root);
	if (text == NULL)
		return CLI_FAILED;
	(void)fprintf(stderr, "# into %s\n", row->file);
	if (url != NULL)
		(void)fprintf(stderr, "# a token is made by bailey token add NAME; %s\n",
			      row->authorization == NULL ? "write it in place of YOUR_TOKEN"
			      : row->token_input
				      ? "the client asks for the token once"
				      : "the client takes it from its variable BAILEY_TOKEN");
	return puts(text) >= 0 && fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

static void
usage(void)
{
	(void)fputs("bailey: usage: bailey config CLIENT [--http [URL]], CLIENT one of:", stderr);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		(void)fprintf(stderr, " %s", clients[i].name);
	(void)fputc('\n', stderr);
}

static bool
url_ok(const char *url)
{
	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return false;
	for (const char *at = url; *at != '\0'; at++)
		if (*at <= ' ' || *at >= 0x7f)
			return false;
	return true;
}

/* The server serves one path, and people give the address alone. */
static char *
whole_url(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	const char *path = strchr(host, '/');

	if (path == NULL)
		return xasprintf("%s/mcp", url);
	return path[1] == '\0' ? xasprintf("%smcp", url) : xstrdup(url);
}

int
cmd_config(int argc, char **argv)
{
	char program[PATH_MAX];
	const char *url = NULL;
	size_t i = 0;

	while (argc >= 2 && i < ARRAY_LEN(clients) && strcmp(clients[i].name, argv[1]) != 0)
		i++;
	if (argc < 2 || argc > 4 || i == ARRAY_LEN(clients) ||
	    (argc > 2 && strcmp(argv[2], "--http") != 0)) {
		usage();
		return CLI_USAGE;
	}
	if (argc > 2)
		url = argc == 4 ? argv[3] : HTTP_DEFAULT;
	if (url != NULL && !url_ok(url)) {
		cli_error("%s is no URL; such as " HTTP_DEFAULT, url);
		return CLI_USAGE;
	}
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n == -1 || (size_t)n == sizeof(program) - 1) {
		cli_error("where this program is cannot be told: %s", strerror(errno));
		return CLI_FAILED;
	}
	program[n] = '\0';
	cleanup_free char *whole = url != NULL ? whole_url(url) : NULL;
	return print_config(&clients[i], program, whole);
}
