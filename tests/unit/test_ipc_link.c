/*
 * tests/unit/test_ipc_link.c - links: order, queues, batches and ends.
 * Runs in: ctest.
 * Input: none.
 * Owns: the loop, the pair and the links, per test.
 */
#include "link_ends.h"

static void
test_link_both_ways_in_order(void **state)
{
	(void)state;
	open_calls();
	assert_int_equal(link_fd(broker.link), pair[0]);
	assert_int_equal(link_send(broker.link, IPC_ROW(call_granted, .call = 1)), 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 2)), 0);
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 3)), 0);
	assert_string_equal(frontend.seen, ""); /* nothing from inside a call */
	spin();
	assert_string_equal(frontend.seen, "call_granted health_end");
	assert_string_equal(broker.seen, "call_submit");
	assert_int_equal(link_flush(broker.link), 0);
}

static void
test_link_send_refuses_rows_the_table_does_not_have(void **state)
{
	static uint8_t wide[BIG + 1];

	(void)state;
	open_calls();
	assert_int_equal(link_send(broker.link, IPC_ROW(call_submit, .call = 1)), -EINVAL);
	assert_int_equal(link_send(broker.link, IPC_ROW(watch_gone, .box = 1)), -EINVAL);
	assert_int_equal(link_send(broker.link, IPC_ROW(run_frame, .data = {wide, sizeof(wide)})),
			 -EINVAL);
	spin();
	assert_string_equal(broker.seen, ""); /* the link lives on */
	assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 2)), 0);
}

static void
test_link_queues_and_drains_in_order(void **state)
{
	uint64_t n = 200;

	(void)state;
	open_calls();
	for (uint64_t i = 1; i <= n; i++)
		send_big(i, 0);
	assert_true(link_queued(broker.link) > 0);
	assert_int_equal(link_flush(broker.link), -EAGAIN);
	spin();
	assert_int_equal(frontend.calls, n);
	assert_int_equal(link_queued(broker.link), 0);
	assert_string_equal(broker.seen, "drained");
	send_big(n + 1, 0);
	spin();
	assert_int_equal(frontend.calls, n + 1);
	assert_string_equal(broker.seen, "drained"); /* only after a queue */
}

static void
test_link_flush_without_the_loop(void **state)
{
	static uint8_t packet[IPC_PACKET_MAX];
	uint64_t got = 0;

	(void)state;
	broker.link = link_new(base, pair[0], &broker_config);
	for (uint64_t i = 1; i <= 100; i++)
		send_big(i, 0);
	for (;;) {
		int r = link_flush(broker.link);

		while (recv(pair[1], packet, sizeof(packet), 0) > 0)
			got++;
		if (r == 0)
			break;
		assert_int_equal(r, -EAGAIN);
	}
	assert_int_equal(got, 100);
	(void)close(pair[1]);
}

static void
test_link_queue_maximum_ends_it(void **state)
{
	struct link_config small = broker_config;
	uint64_t i = 0;
	int r = 0;

	(void)state;
	small.queue_max = 100000;
	broker.link = link_new(base, pair[0], &small);
	while (r == 0) {
		r = link_send(broker.link, IPC_ROW(run_frame, .call = ++i, .data = {big, BIG}));
		assert_true(link_queued(broker.link) <= 100000);
	}
	assert_int_equal(r, -ENOBUFS);
	assert_string_equal(broker.seen, ""); /* told from the loop only */
	send_big(1, -ENOTCONN);
	assert_int_equal(link_flush(broker.link), -ENOTCONN);
	spin();
	assert_string_equal(broker.seen, "closed:-105");
	spin();
	assert_string_equal(broker.seen, "closed:-105"); /* once */
	(void)close(pair[1]);
}

static void
test_link_delivers_last_words(void **state)
{
	(void)state;
	open_calls();
	/* unread data of ours makes the kernel report a reset first */
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 1)), 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(call_granted, .call = 1)), 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 1)), 0);
	link_free(TAKE(broker.link));
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 2)), -EPIPE);
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 3)), -EPIPE);
	assert_int_equal(link_flush(frontend.link), -EPIPE);
	spin();
	assert_string_equal(frontend.seen, "call_granted health_end closed:0");
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 3)), -ENOTCONN);
}

static void
test_link_reset_before_last_words(void **state)
{
	(void)state;
	open_calls();
	assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 1)), 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 1)), 0);
	link_free(TAKE(broker.link));
	spin(); /* here the read side meets the reset */
	assert_string_equal(frontend.seen, "health_end closed:0");
}

static void
test_link_queued_to_a_peer_that_leaves(void **state)
{
	(void)state;
	open_calls();
	for (uint64_t i = 1; i <= 100; i++)
		send_big(i, 0);
	link_free(TAKE(frontend.link));
	spin();
	assert_string_equal(broker.seen, "closed:0");
	assert_int_equal(link_queued(broker.link), 0);
}

static void
test_link_gives_way_after_a_batch(void **state)
{
	(void)state;
	open_calls();
	for (int i = 0; i < 80; i++)
		assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 1)), 0);
	assert_true(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	assert_int_equal(strlen(broker.seen), 32 * strlen("call_submit ") - 1);
	spin();
	assert_int_equal(strlen(broker.seen), 80 * strlen("call_submit ") - 1);
}

/* Before a link is replaced: what its peer sent last is handled, more than a batch too. */
static void
test_link_read_out(void **state)
{
	(void)state;
	open_calls();
	for (int i = 0; i < 80; i++)
		assert_int_equal(link_send(frontend.link, IPC_ROW(call_submit, .call = 1)), 0);
	link_free(TAKE(frontend.link));
	link_read_out(broker.link);
	assert_int_equal(strlen(broker.seen), 80 * strlen("call_submit ") - 1);
	link_free(TAKE(broker.link));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_link_both_ways_in_order),
		CASE(test_link_send_refuses_rows_the_table_does_not_have),
		CASE(test_link_queues_and_drains_in_order),
		CASE(test_link_flush_without_the_loop),
		CASE(test_link_queue_maximum_ends_it),
		CASE(test_link_delivers_last_words),
		CASE(test_link_reset_before_last_words),
		CASE(test_link_queued_to_a_peer_that_leaves),
		CASE(test_link_gives_way_after_a_batch),
		CASE(test_link_read_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
