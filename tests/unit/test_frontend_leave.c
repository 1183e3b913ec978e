/*
 * tests/unit/test_frontend_leave.c - every way to end.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static int
open_reading(void **state)
{
	(void)open_fake(state);
	assert_int_equal(transport_start(fe.transport), 0);
	return 0;
}

static void
say_line(const char *text)
{
	assert_int_equal(write(client_in, text, strlen(text)), (ssize_t)strlen(text));
	fake_spin();
}

#define CALL_LINE                                           \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/" \
	"call\",\"params\":{\"name\":\"docker_run\","       \
	"\"arguments\":{\"command\":\":\"}}}\n"

static void
test_leave_client_gone_cancels(void **state)
{
	struct ipc_row row;
	bool cancelled = false;

	(void)state;
	say_line(CALL_LINE);
	assert_non_null(fe.call_list);
	(void)close(client_in);
	fake_spin();
	assert_true(fe.leaving);
	assert_int_equal(fe.exit_code, 0);
	assert_null(fe.call_list);
	while (fake_broker_row(&row))
		cancelled = cancelled || row.num == IPC_NUM_call_cancel;
	assert_true(cancelled);
	assert_string_equal(fake_sent(), "");
}

/* The end of a file leaves when the last call has ended, not before. */
static void
test_leave_after_a_file(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER}, .rev = REV_2025_11_25};
	struct call *c = call_new(&fe, &to, &run_plan);

	(void)state;
	fe.finishing = true;
	frontend_idle(&fe);
	assert_false(fe.leaving);
	call_free(c);
	assert_true(fe.leaving);
}

static void
test_leave_waits_for_the_queue(void **state)
{
	size_t n = 3 << 20;
	char *big = calloc(1, n + 1), *sink = malloc(n);

	(void)state;
	assert_int_equal(transport_send(fe.transport, big, n, &(struct sent){.more = false}), 0);
	frontend_leave(&fe, 3, 10000);
	assert_true(event_pending(fe.leave_timer, EV_TIMEOUT, NULL) != 0);
	frontend_leave(&fe, 4, 0); /* once is enough */
	assert_int_equal(fe.exit_code, 3);
	while (transport_queued(fe.transport) > 0) {
		(void)read(client_out, sink, n);
		(void)event_base_loop(fe.base, EVLOOP_NONBLOCK);
	}
	assert_true(event_base_got_break(fe.base) != 0);
	free(big);
	free(sink);
}

static void
test_leave_timer_ends_the_wait(void **state)
{
	size_t n = 3 << 20;
	char *big = calloc(1, n + 1);

	(void)state;
	assert_int_equal(transport_send(fe.transport, big, n, &(struct sent){.more = false}), 0);
	frontend_leave(&fe, 0, 20);
	assert_int_equal(event_base_dispatch(fe.base), 0);
	assert_true(event_base_got_break(fe.base) != 0);
	assert_true(transport_queued(fe.transport) > 0);
	free(big);
}

static void
test_leave_when_no_broker_comes_back(void **state)
{
	(void)state;
	frontend_alone(&fe, true);
	assert_true(event_pending(fe.leave_timer, EV_TIMEOUT, NULL) != 0);
	frontend_alone(&fe, false);
	assert_int_equal(event_pending(fe.leave_timer, EV_TIMEOUT, NULL), 0);
	frontend_alone(&fe, true);
	event_active(fe.leave_timer, EV_TIMEOUT, 0); /* the time is over */
	(void)event_base_loop(fe.base, EVLOOP_NONBLOCK);
	assert_true(event_base_got_break(fe.base) != 0);
	assert_int_equal(fe.exit_code, 1);
}

static void
test_leave_reader_gone(void **state)
{
	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)close(client_out);
	say_line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
	assert_true(fe.leaving);
	assert_int_equal(fe.exit_code, 0);
}

#define READING(t) cmocka_unit_test_setup_teardown(t, open_reading, close_fake)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		READING(test_leave_client_gone_cancels), FAKE(test_leave_after_a_file),
		READING(test_leave_waits_for_the_queue), FAKE(test_leave_timer_ends_the_wait),
		READING(test_leave_reader_gone),         FAKE(test_leave_when_no_broker_comes_back),
	};

	return cmocka_run_group_tests_name("frontend_leave", tests, NULL, NULL);
}
