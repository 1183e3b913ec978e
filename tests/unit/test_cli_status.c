/* cli/status.c: the document as it came and as text; whatever else stands at the path. */
#include "test.h"

#include "cli.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char dir[] = "/tmp/bailey-cstat-XXXXXX", path[64], out_path[64];
static pid_t server;

static int
setup(void **state)
{
	(void)state;
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/s.status", dir);
	(void)snprintf(out_path, sizeof(out_path), "%s/out", dir);
	server = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (server > 0) {
		assert_int_equal(kill(server, SIGKILL), 0);
		assert_int_equal(waitpid(server, NULL, 0), server);
	}
	(void)unlink(path);
	(void)unlink(out_path);
	return rmdir(dir);
}

static int
listen_at(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* Somebody who says text to each who connects. */
static void
serve(const char *text)
{
	int fd = listen_at();

	server = fork();
	if (server == 0) {
		for (;;) {
			int client = accept(fd, NULL, NULL);
			(void)fd_write_all(client, text, strlen(text));
			(void)close(client);
		}
	}
	assert_true(server > 0);
	assert_int_equal(close(fd), 0);
}

/* Runs the command; *ret_out: what it printed. */
static int
run(const char *const *words, int n, const char **ret_out)
{
	static char text[8192];
	int saved = dup(STDOUT_FILENO), code;
	int out = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t len;

	(void)fflush(stdout);
	assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	code = cmd_status(n, (char **)(uintptr_t)words);
	(void)fflush(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	assert_int_equal(close(saved) | close(out), 0);
	assert_int_equal(fd_read_file(AT_FDCWD, out_path, text, sizeof(text), &len), 0);
	text[len] = '\0';
	*ret_out = text;
	return code;
}

static int
ask(bool json, const char **ret_out)
{
	char socket_path[64];
	(void)snprintf(socket_path, sizeof(socket_path), "%s/s", dir);
	const char *const words[] = {"status", "--socket", socket_path, "--json", NULL};

	return run(words, json ? 4 : 3, ret_out);
}

static const char document[] =
	"{\"bailey_status\":1,\"version\":\"9.9\",\"connections\":{\"open\":2,\"max\":10},"
	"\"processes\":[{\"name\":\"bailey-broker\",\"state\":\"ready\",\"pid\":5,"
	"\"uptime_ms\":1500,\"restarts\":3,\"last_end\":{\"text\":\"signal 9\\u001b[2J\","
	"\"ago_ms\":600000},\"last_error\":null,\"answered\":false}],"
	"\"engine\":{\"state\":\"unusable\",\"name\":\"\",\"version\":\"\",\"last_error\":"
	"{\"text\":\"no engine\",\"ago_ms\":1}},\"load\":null,\"watch\":{},"
	"\"pools\":[{\"profile\":\"default\",\"box_class\":\"python\",\"target\":2,\"ready\":1,"
	"\"starting\":1}],\"sandboxes\":[{\"sandbox_id\":\"abc\",\"owner\":\"uid 7\",\"keep\":true,"
	"\"age_ms\":9000000,\"runs\":1}],\"sandboxes_left_out\":5,"
	"\"counters\":{\"runs_ok\":12,\"runs_lost\":0}}\n";

static void
test_as_it_came(void **state)
{
	const char *out;

	(void)state;
	serve(document);
	assert_int_equal(ask(true, &out), CLI_OK);
	assert_string_equal(out, document);
}

static void
test_as_text(void **state)
{
	static const char *const parts[] = {
		"bailey 9.9, 2 of 10 connections",
		"restarts 3, DOES NOT ANSWER",
		"last end: signal 9\\x1b[2J (10 min ago)",
		"unusable",
		"last error: no engine (0.0 s ago)",
		"1 of 2 ready, 1 starting",
		"abc  uid 7, age 2.5 h",
		", kept",
		"and 5 more",
		"runs_ok",
	};
	const char *out;

	(void)state;
	serve(document);
	assert_int_equal(ask(false, &out), CLI_OK);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strstr(out, parts[i]) == NULL)
			fail_msg("%s is not in %s", parts[i], out);
	assert_null(strstr(out, "runs_lost"));
}

static void
test_nobody_and_left_over(void **state)
{
	const char *out;

	(void)state;
	assert_int_equal(ask(false, &out), CLI_FAILED);
	assert_int_equal(close(listen_at()), 0);
	assert_int_equal(ask(false, &out), CLI_FAILED);
	assert_string_equal(out, "");
}

static void
test_something_else(void **state)
{
	static const char *const said[] = {"", "hello\n", "{}", "{\"bailey_status\":2}",
					   "{\"bailey_status\":1"};
	const char *out;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(said); i++) {
		serve(said[i]);
		assert_int_equal(ask(i % 2 == 0, &out), CLI_FAILED);
		assert_string_equal(out, "");
		assert_int_equal(kill(server, SIGKILL), 0);
		assert_int_equal(waitpid(server, NULL, 0), server);
		server = 0;
		assert_int_equal(unlink(path), 0);
	}
}

/* It may leave out anything and be of any type. */
static void
test_odd_documents(void **state)
{
	const char *out;

	(void)state;
	serve("{\"bailey_status\":1,\"processes\":7,\"engine\":{},\"load\":{},\"pools\":[1,{}],"
	      "\"sandboxes\":\"x\",\"counters\":[1]}");
	assert_int_equal(ask(false, &out), CLI_OK);
}

/* Whatever answers at a wrong path, none of its control bytes reach the terminal. */
static void
test_control_bytes(void **state)
{
	const char *out;

	(void)state;
	for (int json = 0; json < 2; json++) {
		serve("{\"bailey_status\":1,\"counters\":{\"a\x1b[2Jb\":1}}");
		assert_int_equal(ask(json != 0, &out), CLI_OK);
		assert_non_null(strstr(out, "[2Jb"));
		assert_null(strchr(out, '\x1b'));
		assert_int_equal(kill(server, SIGKILL), 0);
		assert_int_equal(waitpid(server, NULL, 0), server);
		server = 0;
		assert_int_equal(unlink(path), 0);
	}
}

static void
test_wrong_words(void **state)
{
	static const char *const twice[] = {"status", "--socket", "a", "--status", "b", NULL};
	static const char *const unknown[] = {"status", "all", NULL};
	static const char *const missing[] = {"status", "--socket", NULL};
	const char *out;

	(void)state;
	assert_int_equal(run(twice, 5, &out), CLI_USAGE);
	assert_int_equal(run(unknown, 2, &out), CLI_USAGE);
	assert_int_equal(run(missing, 2, &out), CLI_USAGE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_as_it_came),     T(test_as_text),       T(test_nobody_and_left_over),
		T(test_something_else), T(test_odd_documents), T(test_control_bytes),
		T(test_wrong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
