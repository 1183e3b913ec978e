/*
 * tests/unit/test_cli_client.c - the MCP client against scripted servers.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

#define HELLO "read a; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; read b; "

static int
open_script(struct mcp_client *c, const char *script)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	return mcp_open(c, (char **)(uintptr_t)argv);
}

static void
test_call_returns_the_answer_of_its_id(void **state)
{
	struct mcp_client c;
	struct mcp_timing t;

	(void)state;
	/* A progress notification and a stranger's answer come first. */
	assert_int_equal(
		open_script(
			&c, HELLO
			"read c; echo '{\"method\":\"notifications/progress\"}';"
			"echo '{\"id\":77,\"result\":{\"structuredContent\":{\"status\":\"no\"}}}';"
			"echo "
			"'{\"id\":2,\"result\":{\"structuredContent\":{\"status\":\"ok\",\"n\":4}}}"
			"'"),
		0);
	cJSON *r = mcp_call(&c, "execute_code", cJSON_CreateObject(), true, &t);
	assert_non_null(r);
	assert_string_equal(mcp_result_str(r, "status"), "ok");
	assert_string_equal(mcp_result_str(r, "absent"), "");
	assert_int_equal((int)mcp_result_num(r, "n", 0), 4);
	assert_int_equal((int)mcp_result_num(r, "absent", -3), -3);
	assert_true(t.first_us >= t.written_us && t.answered_us >= t.first_us);
	cJSON_Delete(r);
	assert_int_equal(mcp_close(&c), 0);
}

static void
test_call_says_no_to_an_error_answer(void **state)
{
	struct mcp_client c;

	(void)state;
	assert_int_equal(open_script(&c, HELLO "read c; echo '{\"id\":2,\"error\":{\"code\":-32602,"
					       "\"message\":\"Unknown tool\"}}'"),
			 0);
	assert_null(mcp_call(&c, "nope", cJSON_CreateObject(), false, NULL));
	assert_int_equal(mcp_close(&c), 0);
}

static void
test_a_server_that_goes_away_is_seen(void **state)
{
	struct mcp_client c;

	(void)state;
	assert_int_equal(open_script(&c, HELLO "exit 3"), 0);
	assert_null(mcp_call(&c, "execute_code", cJSON_CreateObject(), false, NULL));
	int status = mcp_close(&c);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void
test_open_fails_without_a_server(void **state)
{
	struct mcp_client c;
	const char *const argv[] = {"/nonexistent/server", NULL};
	size_t before = test_open_fds();

	(void)state;
	assert_true(mcp_open(&c, (char **)(uintptr_t)argv) < 0);
	assert_int_equal(open_script(&c, "exit 0"), -EPIPE);
	mcp_open_failed(-EPIPE); /* each of its lines, for the sanitizers */
	mcp_open_failed(-ETIMEDOUT);
	mcp_open_failed(-ENOMEM);
	assert_int_equal(test_open_fds(), before);
}

static void
test_next_times_out_and_refuses_broken_lines(void **state)
{
	struct mcp_client c;

	(void)state;
	assert_int_equal(open_script(&c, HELLO "echo '{broken'; read line"), 0);
	assert_null(mcp_next(&c, 30000));
	assert_int_equal(errno, EBADMSG);
	assert_null(mcp_next(&c, 30));
	assert_int_equal(errno, ETIMEDOUT);
	(void)mcp_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call_returns_the_answer_of_its_id),
		cmocka_unit_test(test_call_says_no_to_an_error_answer),
		cmocka_unit_test(test_a_server_that_goes_away_is_seen),
		cmocka_unit_test(test_open_fails_without_a_server),
		cmocka_unit_test(test_next_times_out_and_refuses_broken_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
