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

static struct mcp_client tree;
static int server;

static int
setup(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	tree = (struct mcp_client){.pid = -1, .to = fds[0], .from = fds[0]};
	buf_init(&tree.in, 65536);
	server = fds[1];
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	buf_done(&tree.in);
	return close(tree.to) | close(server);
}

static void
answer(const char *line)
{
	assert_int_equal(write(server, line, strlen(line)), (ssize_t)strlen(line));
}

static cJSON *
sent_line(void)
{
	static char text[4096];
	size_t n = 0;

	do {
		assert_true(n < sizeof(text) - 1);
		assert_int_equal(read(server, text + n, 1), 1);
	} while (text[n++] != '\n');
	text[n] = '\0';
	return cJSON_Parse(text);
}

static const cJSON *
argument(const cJSON *line, const char *name)
{
	const cJSON *params = cJSON_GetObjectItemCaseSensitive(line, "params");
	const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(params, "arguments");

	return cJSON_GetObjectItemCaseSensitive(arguments, name);
}

static void
test_a_write(void **state)
{
	double ms = 0;

	(void)state;
	answer("{\"answer\":1}\n");
	assert_int_equal(transfer(&tree, "ID", (const uint8_t *)"abcdef", 6, &ms), 0);
	cJSON *o = sent_line();
	assert_string_equal(cJSON_GetStringValue(argument(o, "content")), "YWJjZGVm");
	assert_string_equal(cJSON_GetStringValue(argument(o, "sandbox_id")), "ID");
	assert_true(argument(o, "offset")->valuedouble == 0);
	cJSON_Delete(o);
}

static void
test_reads_in_parts(void **state)
{
	double ms = 0;
	size_t total = READ_PART + 6;
	cleanup_free char *big = xcalloc(READ_PART * 2, 1);

	(void)state;
	/* The first answer is as large as the bytes it should hold, the second one is short. */
	memset(big, 'x', READ_PART / 3 * 4);
	big[READ_PART / 3 * 4] = '\n';
	buf_done(&tree.in);
	buf_init(&tree.in, LINE_MAX_BYTES);
	assert_int_equal(buf_append(&tree.in, big, strlen(big)), 0);
	answer("{}\n");
	assert_int_equal(transfer(&tree, "ID", NULL, total, &ms), -EIO);
	for (int i = 0; i < 2; i++) {
		cJSON *o = sent_line();
		assert_true(argument(o, "offset")->valuedouble == (double)i * (double)READ_PART);
		assert_true(argument(o, "length")->valuedouble == (i == 0 ? READ_PART : 6));
		cJSON_Delete(o);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_header_of_an_archive),
		cmocka_unit_test_setup_teardown(test_a_write, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reads_in_parts, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
