/* cli/bench_files.c: the archive tar is fed with, and the requests for a file's parts. */
#include "test.h"

#include "../cli/bench_files.c" /* its statics are what is tested */

#include <sys/socket.h>

int
bench_wait_quiet(struct mcp_client *tree, const char *class)
{
	(void)tree;
	(void)class;
	return -EIO;
}

int
bench_sandbox(struct mcp_client *tree, char id[33], double *ret_ms)
{
	(void)tree;
	(void)id;
	(void)ret_ms;
	return -EIO;
}

int
bench_sandbox_end(struct mcp_client *tree, const char *id)
{
	(void)tree;
	(void)id;
	return -EIO;
}

/* The sum is what tar itself checks; its field counts as blanks. */
static void
test_the_header_of_an_archive(void **state)
{
	uint8_t h[512];
	size_t sum = 0;
	char text[7];

	(void)state;
	tar_header(h, TOTAL);
	assert_string_equal((char *)h, "bench");
	assert_string_equal((char *)h + 124, "00575360400"); /* 100000000 */
	assert_memory_equal(h + 257, "ustar", 6);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	(void)snprintf(text, sizeof(text), "%06zo", sum & 0777777);
	assert_string_equal((char *)h + 148, text);
	assert_int_equal(h[155], ' ');
}

static void
answer(int fd, const char *line)
{
	assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
}

static void
test_parts(void **state)
{
	cleanup_free uint8_t *data = xcalloc(TOTAL, 1); /* untouched but for its end */
	static char sent[1024];
	struct mcp_client tree = {.pid = -1};
	struct buf line;
	double ms = 0;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	tree.to = tree.from = fds[0];
	buf_init(&tree.in, 65536);
	buf_init(&line, LINE_MAX_BYTES);
	answer(fds[1], "{\"answer\":1}\n{\"answer\":2}\n");
	memcpy(data + TOTAL - 6, "abcdef", 6);
	/* The last part of the whole: 6 bytes. */
	assert_int_equal(write_part(&tree, "ID", data, TOTAL - 6, &line, &ms), 0);
	ssize_t n = read(fds[1], sent, sizeof(sent) - 1);
	assert_true(n > 0);
	sent[n] = '\0';
	cJSON *o = cJSON_Parse(sent);
	const cJSON *a = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(o, "params"), "arguments");
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "content")),
			    "YWJjZGVm");
	assert_true(cJSON_GetObjectItemCaseSensitive(a, "offset")->valuedouble == TOTAL - 6);
	cJSON_Delete(o);
	/* An answer shorter than the bytes it should hold is none. */
	assert_int_equal(read_part(&tree, "ID", TOTAL - 600, &line, &ms), -EIO);
	n = read(fds[1], sent, sizeof(sent) - 1);
	assert_true(n > 0 && strstr(sent, "\"length\":600}") != NULL);
	buf_done(&line);
	buf_done(&tree.in);
	assert_int_equal(close(fds[0]) | close(fds[1]), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_header_of_an_archive),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
