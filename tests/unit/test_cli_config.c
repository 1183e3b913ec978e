/*
 * tests/unit/test_cli_config.c - what is printed is JSON with what each client looks for.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

#include <limits.h>

static const char *const variables[] = {
	"DOCKER_HOST",      "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SANDBOX_IMAGE",
	"MAX_CPU_CORES",    "MAX_MEMORY_MB",     "EXEC_TIMEOUT_SEC", "BAILEY_POOL",
	"BAILEY_SHARE_DIR", "BAILEY_DEBUG",
};

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		assert_int_equal(unsetenv(variables[i]), 0);
	return 0;
}

/* The JSON printed on stdout, in a child whose stdout is a pipe. */
static cJSON *
printed(int argc, const char *const *argv)
{
	static char text[8192];
	int fds[2], status;
	size_t len = 0;
	ssize_t n;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (dup2(fds[1], STDOUT_FILENO) == -1)
			_exit(99);
		_exit(cmd_config(argc, (char **)(uintptr_t)argv));
	}
	assert_int_equal(close(fds[1]), 0);
	while ((n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), CLI_OK);
	cJSON *root = cJSON_ParseWithOpts(text, NULL, true); /* and nothing but JSON */
	assert_non_null(root);
	return root;
}

static const char *
text_at(const cJSON *root, const char *servers, const char *key)
{
	const cJSON *server = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(root, servers), "bailey");

	assert_non_null(server);
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(server, key));
}

static const struct {
	const char *client, *servers, *stdio_type, *http_type, *url_key, *authorization;
} rows[] = {
	{"claude-code", "mcpServers", NULL, "http", "url", "Bearer ${BAILEY_TOKEN}"},
	{"claude-desktop", "mcpServers", NULL, NULL, NULL, NULL},
	{"cursor", "mcpServers", NULL, NULL, "url", "Bearer ${env:BAILEY_TOKEN}"},
	{"vscode", "servers", "stdio", "http", "url", "Bearer ${input:bailey-token}"},
	{"windsurf", "mcpServers", NULL, NULL, "serverUrl", "Bearer ${env:BAILEY_TOKEN}"},
};

static void
same(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		assert_ptr_equal(a, b);
	else
		assert_string_equal(a, b);
}

static void
test_stdio(void **state)
{
	char program[PATH_MAX] = "";

	(void)state;
	assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const argv[] = {"config", rows[i].client, NULL};
		cJSON *root = printed(2, argv);
		same(text_at(root, rows[i].servers, "command"), program);
		same(text_at(root, rows[i].servers, "type"), rows[i].stdio_type);
		const cJSON *server =
			cJSON_GetObjectItem(cJSON_GetObjectItem(root, rows[i].servers), "bailey");
		same(cJSON_GetStringValue(
			     cJSON_GetArrayItem(cJSON_GetObjectItem(server, "args"), 0)),
		     "mcp");
		assert_null(cJSON_GetObjectItem(server, "env"));
		cJSON_Delete(root);
	}
}

/* Clients start servers without the caller's environment. */
static void
test_engine_variables_are_written_down(void **state)
{
	const char *const argv[] = {"config", "cursor", NULL};

	(void)state;
	assert_int_equal(setenv("DOCKER_HOST", "unix:///run/\"x\".sock", 1), 0);
	assert_int_equal(setenv("SANDBOX_IMAGE", "", 1), 0); /* as if it were not set */
	cJSON *root = printed(2, argv);
	const cJSON *env = cJSON_GetObjectItem(
		cJSON_GetObjectItem(cJSON_GetObjectItem(root, "mcpServers"), "bailey"), "env");
	same(cJSON_GetStringValue(cJSON_GetObjectItem(env, "DOCKER_HOST")),
	     "unix:///run/\"x\".sock");
	assert_int_equal(cJSON_GetArraySize(env), 1);
	cJSON_Delete(root);
}

static void
test_http(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const argv[] = {"config", rows[i].client, "--http",
					    "https://host.example:8443/mcp", NULL};
		cJSON *root = printed(4, argv);
		const cJSON *server =
			cJSON_GetObjectItem(cJSON_GetObjectItem(root, rows[i].servers), "bailey");
		if (rows[i].url_key == NULL) {
			same(text_at(root, rows[i].servers, "command"), "npx");
			same(cJSON_GetStringValue(
				     cJSON_GetArrayItem(cJSON_GetObjectItem(server, "args"), 1)),
			     "https://host.example:8443/mcp");
		} else {
			same(text_at(root, rows[i].servers, rows[i].url_key),
			     "https://host.example:8443/mcp");
			same(text_at(root, rows[i].servers, "type"), rows[i].http_type);
			same(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
				     cJSON_GetObjectItem(server, "headers"), "Authorization")),
			     rows[i].authorization);
			assert_null(cJSON_GetObjectItem(server, "command"));
		}
		bool asks = strcmp(rows[i].client, "vscode") == 0;
		assert_int_equal(cJSON_GetObjectItem(root, "inputs") != NULL, asks);
		cJSON_Delete(root);
	}
}

/* An address without a path is the server's; any other is somebody's proxy. */
static void
test_http_path(void **state)
{
	static const struct {
		const char *given, *url;
	} cases[] = {
		{"http://127.0.0.1:8900", "http://127.0.0.1:8900/mcp"},
		{"https://host.example:8443/", "https://host.example:8443/mcp"},
		{"https://host.example/a/", "https://host.example/a/"},
		{"https://host.example/a/mcp", "https://host.example/a/mcp"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *const argv[] = {"config", "cursor", "--http", cases[i].given, NULL};
		cJSON *root = printed(4, argv);
		same(text_at(root, "mcpServers", "url"), cases[i].url);
		cJSON_Delete(root);
	}
}

static void
test_usage(void **state)
{
	const char *const unknown[] = {"config", "emacs", NULL};
	const char *const word[] = {"config", "cursor", "--https", NULL};
	const char *const url[] = {"config", "cursor", "--http", "127.0.0.1:1", NULL};
	const char *const blank[] = {"config", "cursor", "--http", "http://a b", NULL};
	const char *const many[] = {"config", "cursor", "--http", "http://a", "x", NULL};

	(void)state;
	assert_int_equal(cmd_config(1, (char **)(uintptr_t)unknown), CLI_USAGE);
	assert_int_equal(cmd_config(2, (char **)(uintptr_t)unknown), CLI_USAGE);
	assert_int_equal(cmd_config(3, (char **)(uintptr_t)word), CLI_USAGE);
	assert_int_equal(cmd_config(4, (char **)(uintptr_t)url), CLI_USAGE);
	assert_int_equal(cmd_config(4, (char **)(uintptr_t)blank), CLI_USAGE);
	assert_int_equal(cmd_config(5, (char **)(uintptr_t)many), CLI_USAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_stdio, setup),
		cmocka_unit_test_setup(test_engine_variables_are_written_down, setup),
		cmocka_unit_test_setup(test_http, setup),
		cmocka_unit_test_setup(test_http_path, setup),
		cmocka_unit_test_setup(test_usage, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
