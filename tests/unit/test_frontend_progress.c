/*
 * tests/unit/test_frontend_progress.c - when progress is told, and what.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test; the clock is the test's.
 */
#include "frontend_fake.h"

static uint64_t now_ms;
static char told[65536];
static unsigned count;
static uint64_t last_value;

uint64_t __wrap_clock_now_ms(void);
void __wrap_mcp_send_progress(struct frontend *f, const struct reply_to *to,
			      const struct rpc_id *token, uint64_t progress, const char *message);

uint64_t
__wrap_clock_now_ms(void)
{
	return now_ms;
}

void
__wrap_mcp_send_progress(struct frontend *f, const struct reply_to *to, const struct rpc_id *token,
			 uint64_t progress, const char *message)
{
	assert_ptr_equal(f, &fe);
	assert_int_equal(to->rev, REV_2025_11_25);
	assert_int_equal(token->kind, RPC_ID_STRING);
	assert_true(progress > last_value);
	last_value = progress;
	count++;
	(void)snprintf(told, sizeof(told), "%s", message);
}

static struct call *
start(enum rpc_id_kind kind)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct rpc_id token = {.kind = kind, .text = "t"};
	struct call *c;

	now_ms = 1000;
	count = 0;
	last_value = 0;
	told[0] = '\0';
	fake_open(true);
	c = call_new(&fe, &to, &run_plan);
	c->state = CALL_GRANTED;
	assert_int_equal(progress_init(c, &token), 0);
	return c;
}

static void
out(struct call *c, const char *text)
{
	progress_output(c, (const uint8_t *)text, strlen(text));
}

static void
test_progress_first_at_once_then_every_100_ms(void **state)
{
	struct call *c = start(RPC_ID_STRING);

	(void)state;
	out(c, "a\n");
	assert_int_equal(count, 1);
	assert_string_equal(told, "a\n");
	for (int i = 0; i < 9; i++) {
		now_ms += 10;
		out(c, "b");
	}
	assert_int_equal(count, 1);
	now_ms += 10;
	out(c, "c");
	assert_int_equal(count, 2);
	assert_string_equal(told, "bbbbbbbbbc");
	fake_close();
}

static void
test_progress_without_a_token(void **state)
{
	struct call *c = start(RPC_ID_NONE);

	(void)state;
	out(c, "a\n");
	assert_int_equal(count, 0);
	assert_null(c->progress.timer);
	fake_close();
}

static void
test_progress_timer_tells_the_rest_or_the_state(void **state)
{
	struct call *c = start(RPC_ID_STRING);

	(void)state;
	event_active(c->progress.timer, EV_TIMEOUT, 1);
	fake_spin();
	assert_string_equal(told, "running, 0 s");
	now_ms += 5000;
	c->state = CALL_SUBMITTED;
	event_active(c->progress.timer, EV_TIMEOUT, 1);
	fake_spin();
	assert_string_equal(told, "waiting for a sandbox, 5 s");
	c->state = CALL_CANCELLED;
	event_active(c->progress.timer, EV_TIMEOUT, 1);
	fake_spin();
	assert_int_equal(count, 2);
	fake_close();
}

static void
test_progress_keeps_code_points_whole(void **state)
{
	struct call *c = start(RPC_ID_STRING);

	(void)state;
	out(c, "x\xe4\xb8");
	assert_string_equal(told, "x");
	now_ms += 100;
	out(c, "\xad");
	assert_string_equal(told, "\xe4\xb8\xad");
	fake_close();
}

static void
test_progress_keeps_the_last_bytes(void **state)
{
	struct call *c = start(RPC_ID_STRING);
	static char big[20001];

	(void)state;
	memset(big, 'o', sizeof(big) - 1);
	out(c, "first");
	for (int i = 0; i < 5; i++)
		out(c, big);
	out(c, "end");
	now_ms += 100;
	event_active(c->progress.timer, EV_TIMEOUT, 1);
	fake_spin();
	assert_int_equal(strlen(told), 4096);
	assert_string_equal(told + 4093, "end");
	fake_close();
}

/* A client that does not read gets fewer, and the values still rise. */
static void
test_progress_left_out_while_much_is_unsent(void **state)
{
	struct call *c = start(RPC_ID_STRING);
	size_t n = 3 << 20;
	char *big = calloc(1, n + 1);

	(void)state;
	assert_int_equal(transport_send(fe.transport, big, n, &(struct sent){.more = false}), 0);
	out(c, "a");
	assert_int_equal(count, 0);
	free(big);
	fake_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_progress_first_at_once_then_every_100_ms),
		cmocka_unit_test(test_progress_without_a_token),
		cmocka_unit_test(test_progress_timer_tells_the_rest_or_the_state),
		cmocka_unit_test(test_progress_keeps_code_points_whole),
		cmocka_unit_test(test_progress_keeps_the_last_bytes),
		cmocka_unit_test(test_progress_left_out_while_much_is_unsent),
	};

	return cmocka_run_group_tests_name("frontend_progress", tests, NULL, NULL);
}
