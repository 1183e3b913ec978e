/* cli/bench_clients.c: the two figures, by servers that take a known time. */
#include "test.h"

#include "../cli/bench_clients.c" /* its statics are what is tested */

#include <sys/socket.h>

static int flood_fd[2];
static bool bad_status;
static size_t open_clients, sandboxes;

uint64_t __wrap_clock_now_us(void);
static uint64_t now_us;
uint64_t
__wrap_clock_now_us(void)
{
	return now_us;
}

int
http_tree_open(struct http_tree *t)
{
	*t = (struct http_tree){.pid = -1};
	return 0;
}

void
http_tree_close(struct http_tree *t)
{
	(void)t;
}

int
http_open(struct http_client *c, const struct http_tree *t)
{
	open_clients++;
	*c = (struct http_client){.tree = t, .fd = flood_fd[0]};
	return 0;
}

void
http_close(struct http_client *c)
{
	(void)c;
	open_clients--;
}

/* A flood's answer waits at once after three other calls. */
int
http_send(struct http_client *c, const char *tool, cJSON *arguments)
{
	static int after;
	const cJSON *command = cJSON_GetObjectItemCaseSensitive(arguments, "command");
	bool flood_begins = command != NULL && strncmp(command->valuestring, "head", 4) == 0;

	(void)tool;
	if (flood_begins)
		after = 3;
	else if (after > 0 && --after == 0)
		assert_int_equal(write(flood_fd[1], "", 1), 1);
	now_us += after > 0 ? 3000 : 2000;
	c->next_id = flood_begins;
	cJSON_Delete(arguments);
	return 0;
}

cJSON *
http_wait(struct http_client *c)
{
	char byte;

	if (c->next_id != 0)
		assert_int_equal(read(flood_fd[0], &byte, 1), 1);
	return cJSON_Parse(bad_status ? "{\"structuredContent\":{\"status\":\"lost\"}}"
				      : "{\"structuredContent\":{\"status\":\"ok\",\"sandbox_id\":"
					"\"0123456789abcdef0123456789abcdef\"}}");
}

cJSON *__wrap_mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
		       struct mcp_timing *timing);
cJSON *
__wrap_mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
		struct mcp_timing *timing)
{
	(void)c;
	(void)tool;
	(void)progress;
	cJSON_Delete(arguments);
	*timing = (struct mcp_timing){.written_us = 0, .answered_us = 1750};
	return cJSON_Parse("{\"structuredContent\":{\"status\":\"ok\"}}");
}

int
bench_wait_quiet(struct mcp_client *tree, const char *class)
{
	(void)tree;
	(void)class;
	return 0;
}

int
bench_sandbox(struct mcp_client *tree, char id[33], double *ret_ms)
{
	(void)tree;
	(void)ret_ms;
	sandboxes++;
	return str_copy(id, 33, "x", 1);
}

int
bench_sandbox_end(struct mcp_client *tree, const char *id)
{
	(void)tree;
	(void)id;
	sandboxes--;
	return 0;
}

static struct report report;
static const struct bench_side side = {.report = &report, .quick = true};

static void
test_rows(void **state)
{
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, flood_fd), 0);
	assert_int_equal(bench_clients(&side), 0);
	assert_int_equal(report.n, 2);
	assert_true(fabs(report.rows[0].value - 0.25) < 1e-9);
	assert_true(fabs(report.rows[1].value - 1.5) < 1e-9);
	assert_int_equal(open_clients, 0);
	assert_int_equal(sandboxes, 0);
	bad_status = true;
	assert_true(bench_clients(&side) < 0);
	assert_int_equal(open_clients, 0);
	assert_int_equal(sandboxes, 0);
	assert_int_equal(close(flood_fd[0]) | close(flood_fd[1]), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
