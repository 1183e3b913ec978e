/*
 * tests/unit/test_ipc_link_rules.c - links: what is refused, descriptors, and being
 * freed at every point.
 * Runs in: ctest.
 * Input: none.
 * Owns: the loop, the pair and the links, per test.
 */
#include "link_ends.h"

/* Raw packets from a peer that breaks the rules: refused, nothing handled. */
static void
test_link_refuses_raw_packets(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		const char *seen;
	} cases[] = {
		{"\x92\x38\x01", 3, "health_end"},
		{"\x92\x38\x01\x00", 4, "closed:-71"}, /* a byte behind */
		{"\x91\x38", 2, "closed:-71"},         /* a field missing */
		{"\x92\x20\x01", 3, "closed:-71"},     /* the other direction's */
		{"\x92\x45\x01", 3, "closed:-71"},     /* another link's */
		{"\x92\x35\x01", 3, "closed:-71"},     /* wrong arity */
		{"\x92\x70\x01", 3, "closed:-71"},     /* nobody's */
		{"\xc1", 1, "closed:-71"},
		{"", 0, "closed:0"}, /* an empty packet reads like an end */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		frontend = (struct end){.fd = -1};
		if (i > 0)
			assert_int_equal(fd_seqpacket_pair(pair), 0);
		frontend.link = link_new(base, pair[1], &frontend_config);
		assert_int_equal(send(pair[0], cases[i].in, cases[i].len, 0), cases[i].len);
		spin();
		assert_string_equal(frontend.seen, cases[i].seen);
		link_free(TAKE(frontend.link));
		assert_int_equal(close(pair[0]), 0);
	}
}

static void
test_link_refuses_a_packet_above_the_maximum(void **state)
{
	static uint8_t packet[IPC_PACKET_MAX + 1];

	(void)state;
	frontend.link = link_new(base, pair[1], &frontend_config);
	assert_int_equal(send(pair[0], packet, sizeof(packet), 0), sizeof(packet));
	spin();
	assert_string_equal(frontend.seen, "closed:-71");
	(void)close(pair[0]);
}

static void
expect_refused(const struct ipc_row *row)
{
	assert_int_equal(link_send(broker.link, row), 0);
	/* what comes behind a refused row is not looked at */
	assert_int_equal(link_send(broker.link, IPC_ROW(run_frame, .call = 1, .data = {big, BIG})),
			 0);
	spin();
	assert_int_equal(frontend.calls, 0);
	assert_non_null(strstr(frontend.seen, "closed:-71"));
}

static void
test_link_refuses_in_the_wrong_state(void **state)
{
	(void)state;
	open_calls();
	assert_int_equal(link_send(broker.link, IPC_ROW(call_granted, .call = 1)), 0);
	spin();
	link_set_state(frontend.link, 2);
	assert_int_equal(link_send(broker.link, IPC_ROW(call_ended, .call = 1)), 0);
	spin();
	link_set_state(frontend.link, 4);
	assert_int_equal(link_send(broker.link, IPC_ROW(call_granted, .call = 1)), 0);
	spin();
	assert_string_equal(frontend.seen, "call_granted call_ended call_granted");
	expect_refused(IPC_ROW(call_ended, .call = 2));
}

static void
test_link_refuses_a_second_once(void **state)
{
	(void)state;
	open_calls();
	assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 1)), 0);
	spin();
	assert_string_equal(frontend.seen, "health_end");
	expect_refused(IPC_ROW(health_end, .call = 2));
}

static void
test_link_refuses_without_route(void **state)
{
	(void)state;
	open_calls();
	expect_refused(IPC_ROW(health_note, .call = 1)); /* permitted, but nobody handles it */
}

/* ---- descriptors ---- */
static const struct ipc_row *
peer_row(void)
{
	static struct ipc_row row = {.num = IPC_NUM_peer};

	row.u.peer.role = IPC_BROKER;
	return &row;
}

static void
test_link_peer_brings_one_descriptor(void **state)
{
	(void)state;
	open_child();
	assert_int_equal(link_send_fd(broker.link, peer_row(), STDERR_FILENO), 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(stop, .grace_ms = 1)), 0);
	spin();
	assert_string_equal(frontend.seen, "fd peer stop");
	assert_int_equal(close(frontend.fd), 0);
}

/* One descriptor with "peer", none with anything else, and only where they are taken. */
static void
test_link_descriptors_out_of_place(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		const struct ipc_row *stop = IPC_ROW(stop, .grace_ms = 1);
		const struct ipc_row *end = IPC_ROW(health_end, .call = 1);
		const struct ipc_row *row = i == 0 ? peer_row() : i == 1 ? stop : end;

		frontend = (struct end){.fd = -1};
		if (i > 0)
			assert_int_equal(fd_seqpacket_pair(pair), 0);
		if (i < 2)
			open_child();
		else
			open_calls();
		assert_int_equal(link_send_fd(broker.link, row, i == 0 ? -1 : STDERR_FILENO), 0);
		spin();
		assert_string_equal(frontend.seen, "closed:-71");
		link_free(TAKE(broker.link));
		link_free(TAKE(frontend.link));
	}
}

/* With "watch_counter" there may be none: its receiver had no place for it. */
static void
test_link_counters_bring_one_or_none(void **state)
{
	static const struct link_route routes[] = {{IPC_NUM_watch_counter, on_row, 0, false},
						   {IPC_NUM_watch_held, on_row, 0, false}};
	struct link_config to = child_config, from = parent_config;

	(void)state;
	from.self = to.peer = IPC_REAPER;
	from.peer = to.self = IPC_BROKER;
	to.routes = routes;
	broker.link = link_new(base, pair[0], &from);
	frontend.link = link_new(base, pair[1], &to);
	assert_int_equal(link_send_fd(broker.link, IPC_ROW(watch_counter, .box = 1), STDERR_FILENO),
			 0);
	assert_int_equal(link_send(broker.link, IPC_ROW(watch_counter, .box = 1)), 0);
	spin();
	assert_string_equal(frontend.seen, "fd watch_counter watch_counter");
	assert_int_equal(close(frontend.fd), 0);
	assert_int_equal(link_send_fd(broker.link, IPC_ROW(watch_held, .box = 1), STDERR_FILENO),
			 0);
	spin();
	assert_non_null(strstr(frontend.seen, " closed:-71"));
}

static void
test_link_queued_descriptor_is_its_own(void **state)
{
	int passed = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t stops = 0;

	(void)state;
	broker.link = link_new(base, pair[0], &parent_config);
	while (link_queued(broker.link) == 0) {
		assert_int_equal(link_send(broker.link, IPC_ROW(stop, .grace_ms = 1)), 0);
		stops++;
	}
	assert_int_equal(link_send_fd(broker.link, peer_row(), passed), 0);
	assert_int_equal(close(passed), 0); /* the link has its own */
	frontend.link = link_new(base, pair[1], &child_config);
	for (int i = 0; i < 20; i++)
		spin();
	assert_true(stops > 32);
	assert_non_null(strstr(frontend.seen, "fd peer"));
	assert_int_equal(close(frontend.fd), 0);
}

static void
test_link_queued_descriptor_is_closed_with_it(void **state)
{
	(void)state;
	broker.link = link_new(base, pair[0], &parent_config);
	while (link_queued(broker.link) == 0)
		assert_int_equal(link_send(broker.link, IPC_ROW(stop, .grace_ms = 1)), 0);
	assert_int_equal(link_send_fd(broker.link, peer_row(), STDERR_FILENO), 0);
	(void)close(pair[1]); /* tear_down counts */
}

/* ---- freed at every point ---- */
static void
test_link_free_in_every_handler(void **state)
{
	static const char *const points[] = {"health_end", "closed:0", "closed:-71"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		if (i > 0)
			assert_int_equal(fd_seqpacket_pair(pair), 0);
		broker = (struct end){.fd = -1};
		frontend = (struct end){.fd = -1, .free = points[i]};
		open_calls();
		assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 1)), 0);
		if (i == 2) /* the second one is refused */
			assert_int_equal(link_send(broker.link, IPC_ROW(health_end, .call = 2)), 0);
		if (i == 1)
			link_free(TAKE(broker.link));
		spin();
		assert_null(frontend.link);
		assert_non_null(strstr(frontend.seen, points[i]));
		link_free(TAKE(broker.link));
	}
	assert_int_equal(strncmp(frontend.seen, "health_end", 10), 0);
}

static void
test_link_free_in_on_fd(void **state)
{
	(void)state;
	frontend.free = "fd";
	open_child();
	assert_int_equal(link_send_fd(broker.link, peer_row(), STDERR_FILENO), 0);
	spin();
	assert_string_equal(frontend.seen, "fd"); /* no handler of a freed link */
	assert_null(frontend.link);
	assert_int_equal(close(frontend.fd), 0);
}

static void
test_link_free_in_on_drained(void **state)
{
	(void)state;
	broker.free = "drained";
	open_calls();
	for (uint64_t i = 1; i <= 100; i++)
		send_big(i, 0);
	spin();
	assert_null(broker.link);
	assert_int_equal(frontend.calls, 100);
	assert_string_equal(frontend.seen, "closed:0");
}

static void
test_link_free_before_the_end_is_told(void **state)
{
	(void)state;
	open_calls();
	assert_int_equal(send(pair[0], "?", 1, 0), 1);
	assert_true(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	link_free(TAKE(frontend.link));
	spin();
	link_free(NULL);
}

static void
too_many_routes(void *arg)
{
	struct link_config many = frontend_config;

	many.n_routes = 255;
	(void)link_new(arg, pair[1], &many);
}

static void
test_link_new_wants_few_routes(void **state)
{
	(void)state;
	test_is_fatal(too_many_routes, base);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_link_refuses_raw_packets),
		CASE(test_link_refuses_a_packet_above_the_maximum),
		CASE(test_link_refuses_in_the_wrong_state),
		CASE(test_link_refuses_a_second_once),
		CASE(test_link_refuses_without_route),
		CASE(test_link_peer_brings_one_descriptor),
		CASE(test_link_descriptors_out_of_place),
		CASE(test_link_counters_bring_one_or_none),
		CASE(test_link_queued_descriptor_is_its_own),
		CASE(test_link_queued_descriptor_is_closed_with_it),
		CASE(test_link_free_in_every_handler),
		CASE(test_link_free_in_on_fd),
		CASE(test_link_free_in_on_drained),
		CASE(test_link_free_before_the_end_is_told),
		CASE(test_link_new_wants_few_routes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
