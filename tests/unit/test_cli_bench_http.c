/* cli/bench_http.c: the line a server says, the heads of answers, bodies in pieces. */
#include "test.h"

#include "../cli/bench_http.c" /* its statics are what is tested */

static void
test_the_listening_line(void **state)
{
	static const struct {
		const char *line;
		uint32_t port;
	} rows[] = {
		{"listening on http://127.0.0.1:8080/mcp\n", 8080},
		{"listening on http://127.0.0.1:1/mcp", 1},
		{"listening on http://127.0.0.1:65536/mcp", 0},
		{"listening on http://127.0.0.1:123456/mcp", 0},
		{"listening on http://127.0.0.1:/mcp", 0},
		{"listening on unix:/run/x", 0},
		{"", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(port_of(rows[i].line), rows[i].port);
}

static void
test_tokens(void **state)
{
	struct http_tree t = {.pid = -1};
	char path[80], text[200], hex[65];
	uint8_t hash[32];
	size_t n = 0;

	(void)state;
	assert_int_equal(make_tokens(&t, path, sizeof(path)), 0);
	assert_int_equal(fd_read_file(AT_FDCWD, path, text, sizeof(text), &n), 0);
	sha256(t.token, strlen(t.token), hash);
	hex_encode(hex, hash, sizeof(hash));
	assert_memory_equal(text, "bench ", 6);
	assert_memory_equal(text + 6, hex, 64);
	http_tree_close(&t);
	assert_int_equal(access(path, F_OK), -1);
	http_tree_close(&t); /* harmless */
}

static struct http_client c;
static int server;

static int
setup(void **state)
{
	static const struct http_tree tree = {.port = 80, .token = "T"};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	c = (struct http_client){.fd = fds[0], .tree = &tree};
	buf_init(&c.in, ANSWER_MAX);
	server = fds[1];
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	http_close(&c);
	return close(server);
}

static void
say(const char *text)
{
	assert_int_equal(write(server, text, strlen(text)), (ssize_t)strlen(text));
}

static void
test_answers(void **state)
{
	char sent[2048];

	(void)state;
	assert_int_equal(http_send(&c, "t", cJSON_CreateObject()), 0);
	ssize_t n = read(server, sent, sizeof(sent) - 1);
	assert_true(n > 0);
	sent[n] = '\0';
	assert_non_null(strstr(sent, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"));
	assert_non_null(strstr(sent, "Authorization: Bearer T\r\n"));
	assert_null(strstr(sent, "Session"));
	/* Two answers in one piece; the first names the session. */
	say("HTTP/1.1 200 OK\r\nmcp-session-id: abc\r\nContent-Length: 14\r\n\r\n"
	    "{\"result\":{}}\n"
	    "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"result\":[1]} \n");
	for (int i = 0; i < 2; i++) {
		cJSON *result = http_wait(&c);
		assert_non_null(result);
		assert_int_equal(cJSON_IsArray(result), i);
		cJSON_Delete(result);
	}
	assert_string_equal(c.session, "abc");
	assert_int_equal(http_send(&c, "t", cJSON_CreateObject()), 0);
	n = read(server, sent, sizeof(sent) - 1);
	assert_true(n > 0);
	sent[n] = '\0';
	assert_non_null(strstr(sent, "Mcp-Session-Id: abc\r\n"));
}

static void
test_what_is_no_answer(void **state)
{
	static const char *const bad[] = {
		"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf_clear(&c.in);
		say(bad[i]);
		assert_null(http_wait(&c));
	}
	assert_int_equal(shutdown(server, SHUT_WR), 0);
	assert_null(http_wait(&c));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_listening_line),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_answer, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
