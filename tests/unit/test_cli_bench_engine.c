/*
 * tests/unit/test_cli_bench_engine.c - the raw engine client against a scripted socket.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "cli.h"

static char path[] = "/tmp/bailey-raw-XXXXXX/s";

/* Serves each answer to one connection, then ends. */
static pid_t
serve(const char *const *answers)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(path);
	memcpy(sa.sun_path, path, sizeof(path));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 8), 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (; *answers != NULL; answers++) {
			char in[4096];
			int c = accept(fd, NULL, NULL);
			if (read(c, in, sizeof(in)) <= 0)
				_exit(1);
			if (write(c, *answers, strlen(*answers)) == -1)
				_exit(1);
			close(c);
		}
		_exit(0);
	}
	close(fd);
	return pid;
}

static void
reap(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
test_requests_and_creates(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 201 Created\r\nContent-Length: 13\r\n\r\n{\"Id\":\"abcd\"}",
		"HTTP/1.1 404 Not Found\r\n\r\n{\"message\":\"no\"}",
		"HTTP/1.1 101 UPGRADED\r\n\r\n",
		"HTTP/1.1 500 Oops\r\n\r\n",
		"garbage\r\n\r\n",
		NULL,
	};
	char id[65];
	pid_t pid = serve(answers);

	(void)state;
	assert_int_equal(raw_request("POST", "/x", NULL, NULL), 204);
	assert_int_equal(raw_create("/containers/create", "{}", id), 0);
	assert_string_equal(id, "abcd");
	assert_int_equal(raw_create("/containers/create", "{}", id), -EPROTO);
	int fd = raw_upgrade("/a", NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(raw_upgrade("/a", NULL), -EPROTO);
	assert_int_equal(raw_request("GET", "/x", NULL, NULL), -EPROTO);
	reap(pid);
	assert_true(raw_request("GET", "/x", NULL, NULL) < 0); /* nobody listens */
}

static void
test_download_undoes_chunks(void **state)
{
	static const char *const answers[] = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
					      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
					      "HTTP/1.1 200 OK\r\n\r\n9\r\ncut", NULL};
	int fds[2];
	char out[16];
	pid_t pid = serve(answers);

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(raw_download("/x", fds[1]), 0);
	assert_int_equal(read(fds[0], out, sizeof(out)), 5);
	assert_memory_equal(out, "abcde", 5);
	assert_int_equal(raw_download("/x", fds[1]), -EPIPE);
	reap(pid);
	close(fds[0]);
	close(fds[1]);
}

static int
setup(void **state)
{
	char *slash = strrchr(path, '/');
	char url[64] = "unix://";

	(void)state;
	*slash = '\0';
	if (mkdtemp(path) == NULL)
		return -1;
	*slash = '/';
	memcpy(url + 7, path, sizeof(path));
	return setenv("DOCKER_HOST", url, 1);
}

static int
teardown(void **state)
{
	(void)state;
	unlink(path);
	*strrchr(path, '/') = '\0';
	return rmdir(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests_and_creates),
		cmocka_unit_test(test_download_undoes_chunks),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
