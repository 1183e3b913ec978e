/* tests/unit/test_broker_docker_events.c - the stream of events, and how it comes back. */
#include "test.h"

#include "../fakes/fake_server.h"
#include "engine_parts.h"

#define HEX "664fb81dfacdfe4d6f8b931d85fe608e7f791f093fe2af59ac45951b553c8747"
#define OPEN "HTTP/1.1 200 OK\r\n\r\n" /* until the connection ends */
#define EVENT(action, box)                                                           \
	"{\"Type\":\"container\",\"Action\":\"" action "\",\"Actor\":{\"ID\":\"" HEX \
	"\",\"Attributes\":{\"io.bailey.product\":\"bailey\",\"io.bailey.box\":\"" box "\"}}}\n"

static struct {
	struct event_base *base;
	struct fake_server server;
	struct engine *engine;
	bool happened, free_in_event;
	int events, gaps;
	uint64_t box;
	enum engine_event_kind kind;
} t;

static int
setup(void **state)
{
	struct engine_config config;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_server_start(&t.server, t.base);
	fake_server_config(&t.server, &config);
	t.engine = engine_new(t.base, &config);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	engine_free(t.engine);
	fake_server_stop(&t.server);
	event_base_free(t.base);
	return 0;
}

static void
on_event(void *ctx, const struct engine_event *ev)
{
	assert_ptr_equal(ctx, &t);
	t.events++;
	t.box = ev->box;
	t.kind = ev->kind;
	t.happened = true;
	if (t.free_in_event)
		engine_free(TAKE(t.engine));
}

static void
on_gap(void *ctx)
{
	assert_ptr_equal(ctx, &t);
	t.gaps++;
	t.happened = true;
}

/* Several may come in one turn of the loop. */
static void
wait_for(const int *count, int n)
{
	while (*count < n) {
		t.happened = false;
		fake_loop_until(t.base, &t.happened);
	}
}

static void
test_events(void **state)
{
	(void)state;
	fake_server_reply(&t.server, 0,
			  OPEN EVENT("start", "5") "\n" EVENT("pause", "6") EVENT("oom", "7"));
	engine_events(t.engine, &t, on_event, on_gap);
	wait_for(&t.events, 1);
	fake_loop_for(t.base, 30);
	assert_int_equal(t.events,
			 2); /* an empty line and an event of another kind are no events */
	assert_int_equal(t.box, 7);
	assert_int_equal(t.kind, ENGINE_EV_OOM);
	assert_int_equal(t.gaps, 0);
	assert_non_null(strstr(t.server.request[0], "GET /v1.40/events?filters=%7B%22type%22"));
}

static void
test_opened_again_with_a_gap(void **state)
{
	(void)state;
	fake_server_reply(&t.server, 0, OPEN EVENT("start", "1"));
	t.server.replies[0].close = true;
	t.server.replies[1].close = true; /* no answer */
	fake_server_reply(&t.server, 2, "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n");
	fake_server_reply(&t.server, 3, OPEN EVENT("die", "2"));
	engine_events(t.engine, &t, on_event, on_gap);
	wait_for(&t.events, 1);
	assert_int_equal(t.gaps, 0);
	wait_for(&t.events, 2);
	assert_int_equal(t.gaps, 1);
	assert_int_equal(t.box, 2);
}

static void
test_spoilt_stream(void **state)
{
	(void)state;
	fake_server_reply(&t.server, 0, OPEN "not json\n" EVENT("start", "1"));
	fake_server_reply(&t.server, 1, OPEN EVENT("die", "2"));
	engine_events(t.engine, &t, on_event, on_gap);
	wait_for(&t.events, 1);
	assert_int_equal(t.gaps, 1);
	assert_int_equal(t.events, 1); /* what came after the rubbish was not believed */
	assert_int_equal(t.box, 2);
}

static void
test_endless_line(void **state)
{
	static char big[70000];

	(void)state;
	memset(big, 'x', 66000);
	memcpy(big, OPEN, strlen(OPEN));
	fake_server_reply(&t.server, 0, big);
	fake_server_reply(&t.server, 1, OPEN EVENT("die", "3"));
	engine_events(t.engine, &t, on_event, on_gap);
	wait_for(&t.events, 1);
	assert_int_equal(t.box, 3);
}

static void
test_free_at_any_time(void **state)
{
	(void)state;
	engine_events(t.engine, &t, on_event, on_gap);
	engine_free(TAKE(t.engine)); /* before anything */
	fake_loop_for(t.base, 30);
	assert_int_equal(t.events + t.gaps, 0);
}

static void
test_free_in_an_event(void **state)
{
	(void)state;
	t.free_in_event = true;
	fake_server_reply(&t.server, 0, OPEN EVENT("start", "1") EVENT("die", "1"));
	engine_events(t.engine, &t, on_event, on_gap);
	wait_for(&t.events, 1);
	fake_loop_for(t.base, 50);
	assert_int_equal(t.events, 1);
}

static void
test_free_while_waiting_to_retry(void **state)
{
	(void)state;
	t.server.replies[0].close = true;
	engine_events(t.engine, &t, on_event, on_gap);
	fake_loop_for(t.base, 40);
	engine_free(TAKE(t.engine));
	fake_loop_for(t.base, 200);
	assert_int_equal(t.server.n_requests, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_events),
		T(test_opened_again_with_a_gap),
		T(test_spoilt_stream),
		T(test_endless_line),
		T(test_free_at_any_time),
		T(test_free_in_an_event),
		T(test_free_while_waiting_to_retry),
	};

	assert_int_equal(engine_global_init(), 0);
	log_init("test", LOG_L_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
