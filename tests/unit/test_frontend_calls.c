/*
 * tests/unit/test_frontend_calls.c - every state and event of a call; caps; one answer each.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static struct call *
new_call(const struct plan *plan, int64_t id)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = id}, .rev = REV_2025_11_25};
	struct guest_spec spec = {.kind = RUN_BASH, .timeout_ms = UINT32_MAX};
	struct rpc_id none = {.kind = RPC_ID_NONE};
	struct call *c = call_new(&fe, &to, plan);

	if (c == NULL)
		return NULL;
	assert_int_equal(spec_encode(&spec, &c->spec), 0);
	assert_int_equal(progress_init(c, &none), 0);
	if (plan == &health_plan)
		c->job = health_new();
	return c;
}

static const struct ipc_call_granted grant = {.timeout_ms = 1000, .run_id = {"0123", 4}};
static const struct ipc_call_ended ended = {.status = RUN_ok};
static const struct ipc_run_frame frame = {
	.type = GUEST_g_out, .stream = STREAM_STDOUT, .data = {(const uint8_t *)"x", 1}};

static const struct ipc_call_resumed resumed = {.granted = GUEST_WINDOW};

static const void *
event_arg(enum call_event ev)
{
	if (ev == EV_RESUMED)
		return &resumed;
	if (ev == EV_GRANTED)
		return &grant;
	if (ev == EV_FRAME)
		return &frame;
	return ev == EV_ENDED ? &ended : NULL;
}

/* Brings a new call into a state the way it gets there. */
static struct call *
call_in(enum call_state wanted)
{
	struct call *c = new_call(&run_plan, 1);

	if (wanted >= CALL_SUBMITTED)
		call_start(c);
	if (wanted >= CALL_GRANTED)
		call_event(c, EV_GRANTED, &grant);
	if (wanted == CALL_CANCELLED)
		call_event(c, EV_CANCEL, NULL);
	if (wanted == CALL_RESUMING) {
		memset(c->sandbox, 'a', SANDBOX_ID_LEN);
		call_event(c, EV_LINK_DOWN, NULL);
	}
	assert_int_equal(c->state, wanted);
	return c;
}

#define GONE CALL_STATES
/* What each event leads to, and the status answered ("" = nothing is said). */
static const struct {
	enum call_state from;
	enum call_event ev;
	enum call_state to;
	const char *status;
} cells[] = {
	{CALL_WAITING, EV_LINK_UP, CALL_SUBMITTED, ""},
	{CALL_WAITING, EV_LINK_DOWN, CALL_WAITING, ""},
	{CALL_WAITING, EV_GRANTED, CALL_WAITING, ""},
	{CALL_WAITING, EV_FRAME, CALL_WAITING, ""},
	{CALL_WAITING, EV_ENDED, CALL_WAITING, ""},
	{CALL_WAITING, EV_CANCEL, GONE, ""},
	{CALL_WAITING, EV_TIMER, GONE, "engine_unavailable"},
	{CALL_WAITING, EV_RESUMED, CALL_WAITING, ""},
	{CALL_SUBMITTED, EV_LINK_UP, CALL_SUBMITTED, ""},
	{CALL_SUBMITTED, EV_LINK_DOWN, CALL_WAITING, ""},
	{CALL_SUBMITTED, EV_GRANTED, CALL_GRANTED, ""},
	{CALL_SUBMITTED, EV_FRAME, CALL_SUBMITTED, ""},
	{CALL_SUBMITTED, EV_ENDED, GONE, "ok"},
	{CALL_SUBMITTED, EV_CANCEL, CALL_CANCELLED, ""},
	{CALL_SUBMITTED, EV_TIMER, GONE, "engine_unavailable"},
	{CALL_SUBMITTED, EV_RESUMED, CALL_SUBMITTED, ""},
	{CALL_GRANTED, EV_LINK_UP, CALL_GRANTED, ""},
	{CALL_GRANTED, EV_LINK_DOWN, GONE, "lost"},
	{CALL_GRANTED, EV_GRANTED, CALL_GRANTED, ""},
	{CALL_GRANTED, EV_FRAME, CALL_GRANTED, ""},
	{CALL_GRANTED, EV_ENDED, GONE, "ok"},
	{CALL_GRANTED, EV_CANCEL, CALL_CANCELLED, ""},
	{CALL_GRANTED, EV_TIMER, GONE, "lost"},
	{CALL_GRANTED, EV_RESUMED, CALL_GRANTED, ""},
	{CALL_RESUMING, EV_LINK_UP, CALL_RESUMING, ""},
	{CALL_RESUMING, EV_LINK_DOWN, CALL_RESUMING, ""},
	{CALL_RESUMING, EV_GRANTED, CALL_RESUMING, ""},
	{CALL_RESUMING, EV_FRAME, CALL_RESUMING, ""},
	{CALL_RESUMING, EV_ENDED, GONE, "ok"},
	{CALL_RESUMING, EV_CANCEL, CALL_CANCELLED, ""},
	{CALL_RESUMING, EV_TIMER, GONE, "lost"},
	{CALL_RESUMING, EV_RESUMED, CALL_GRANTED, ""},
	{CALL_CANCELLED, EV_LINK_UP, CALL_CANCELLED, ""},
	{CALL_CANCELLED, EV_LINK_DOWN, GONE, ""},
	{CALL_CANCELLED, EV_GRANTED, CALL_CANCELLED, ""},
	{CALL_CANCELLED, EV_FRAME, CALL_CANCELLED, ""},
	{CALL_CANCELLED, EV_ENDED, GONE, ""},
	{CALL_CANCELLED, EV_CANCEL, CALL_CANCELLED, ""},
	{CALL_CANCELLED, EV_TIMER, GONE, ""},
	{CALL_CANCELLED, EV_RESUMED, CALL_CANCELLED, ""},
};

static void
test_calls_every_cell(void **state)
{
	(void)state;
	assert_int_equal(ARRAY_LEN(cells), (size_t)CALL_STATES * (size_t)CALL_EVENTS);
	for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
		struct call *c;
		uint64_t no;
		const char *sent;
		char want[64];

		fake_open(true);
		c = call_in(cells[i].from);
		no = c->no;
		call_event(c, cells[i].ev, event_arg(cells[i].ev));
		c = call_find(&fe, no);
		assert_int_equal(c == NULL ? GONE : c->state, cells[i].to);
		sent = fake_sent();
		(void)snprintf(want, sizeof(want), "\"status\":\"%s\"", cells[i].status);
		if (cells[i].status[0] == '\0')
			assert_string_equal(sent, "");
		else
			assert_non_null(strstr(sent, want));
		fake_close();
	}
}

static void
test_calls_submitted_again_only_once(void **state)
{
	struct call *c = call_in(CALL_SUBMITTED);

	(void)state;
	call_event(c, EV_LINK_DOWN, NULL);
	call_event(c, EV_LINK_UP, NULL);
	assert_int_equal(c->state, CALL_SUBMITTED);
	call_event(c, EV_LINK_DOWN, NULL);
	assert_null(fe.call_list);
	const char *said = fake_sent();
	assert_non_null(strstr(said, "engine_unavailable"));
	assert_non_null(strstr(said, "broker")); /* of the engine nobody knows */
}

static void
test_calls_health_is_just_dropped(void **state)
{
	struct call *c = new_call(&health_plan, 1);

	(void)state;
	call_start(c);
	call_event(c, EV_CANCEL, NULL);
	assert_null(fe.call_list);
	assert_string_equal(fake_sent(), "");
}

static void
test_calls_cap(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		assert_non_null(new_call(&run_plan, i));
	assert_null(new_call(&run_plan, 999));
	call_free(fe.call_list);
	assert_non_null(new_call(&run_plan, 999));
}

static void
test_calls_held_bytes(void **state)
{
	struct call *a = new_call(&run_plan, 1), *b = new_call(&run_plan, 2);

	(void)state;
	assert_int_equal(call_hold(a, CALLS_BYTES_MAX), 0);
	assert_int_equal(call_hold(b, 1), -ENOBUFS);
	assert_int_equal(call_hold(b, SIZE_MAX), -ENOBUFS);
	call_free(a);
	assert_int_equal(call_hold(b, CALLS_BYTES_MAX), 0);
	assert_int_equal(fe.held_bytes, CALLS_BYTES_MAX);
}

static void
test_calls_find_by_id(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = 1};
	struct call *c = call_in(CALL_SUBMITTED);

	(void)state;
	assert_ptr_equal(call_find_id(&fe, &id), c);
	assert_ptr_equal(call_find(&fe, c->no), c);
	assert_null(call_find(&fe, 0));
	assert_null(call_find(&fe, c->no + 1));
	call_event(c, EV_CANCEL, NULL);
	assert_null(call_find_id(&fe, &id)); /* its id is free again */
}

static void
test_calls_answer_all(void **state)
{
	struct ipc_row row;
	unsigned cancels = 0;

	(void)state;
	(void)call_in(CALL_WAITING);
	(void)call_in(CALL_SUBMITTED);
	(void)call_in(CALL_GRANTED);
	(void)call_in(CALL_CANCELLED);
	while (fake_broker_row(&row))
		;
	calls_answer_all(&fe, RUN_cancelled);
	assert_null(fe.call_list);
	while (fake_broker_row(&row))
		cancels += row.num == IPC_NUM_call_cancel;
	assert_int_equal(cancels, 2);
	assert_non_null(strstr(fake_sent(), STOPPED_WORDS));
}

static void
test_calls_odd_frames_change_nothing(void **state)
{
	static const struct ipc_run_frame odd[] = {
		{.type = GUEST_g_out, .stream = STREAM_STDIN, .data = {(const uint8_t *)"x", 1}},
		{.type = GUEST_g_out, .stream = 9, .data = {(const uint8_t *)"x", 1}},
		{.type = 0x99, .stream = STREAM_STDOUT, .data = {(const uint8_t *)"x", 1}},
		{.type = GUEST_g_credit, .data = {(const uint8_t *)"x", 1}},
		/* less credit than before */
		{.type = GUEST_g_credit, .data = {(const uint8_t *)"\1\0\0\0\0\0\0\0", 8}},
	};
	struct call *c = call_in(CALL_GRANTED);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		call_event(c, EV_FRAME, &odd[i]);
	assert_int_equal(c->state, CALL_GRANTED);
	assert_int_equal(c->out[0].received + c->out[1].received, 0);
	assert_int_equal(c->input_credit, GUEST_WINDOW);
}

static void
test_calls_long_run_id_is_left_out(void **state)
{
	static const struct ipc_call_granted odd = {
		.run_id = {"0123456789012345678901234567890123456789", 40}};
	struct call *c = call_in(CALL_SUBMITTED);

	(void)state;
	call_event(c, EV_GRANTED, &odd);
	assert_string_equal(c->grant.run_id, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_every_cell),
		FAKE(test_calls_submitted_again_only_once),
		FAKE(test_calls_health_is_just_dropped),
		FAKE(test_calls_cap),
		FAKE(test_calls_held_bytes),
		FAKE(test_calls_find_by_id),
		FAKE(test_calls_answer_all),
		FAKE(test_calls_odd_frames_change_nothing),
		FAKE(test_calls_long_run_id_is_left_out),
	};

	return cmocka_run_group_tests_name("frontend_calls", tests, NULL, NULL);
}
