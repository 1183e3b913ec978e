/* tests/unit/test_frontend_resume.c - calls that go on, or begin anew, with the next broker. */
#include "frontend_fake.h"

#define RUN "0123456789abcdef0123456789abcdef"
#define BOX "fedcba9876543210fedcba9876543210"

/* The next row that is no log, progress or the like. */
static struct ipc_row
next_row(void)
{
	struct ipc_row row;

	assert_true(fake_broker_row(&row));
	return row;
}

static void
no_row(void)
{
	struct ipc_row row;

	assert_false(fake_broker_row(&row));
}

/* Submitted and granted; the run's specification goes with either. */
static void
grant(struct call *c)
{
	struct ipc_row row = next_row();
	bool early;

	assert_int_equal(row.num, IPC_NUM_call_submit);
	early = row.u.call_submit.spec.len > 0;
	fake_broker_tell(
		IPC_ROW(call_granted, .call = c->no, .timeout_ms = 1000, .run_id = IPC_STR(RUN)));
	if (!early)
		assert_int_equal(next_row().u.call_frame.type, GUEST_h_run);
}

/* A granted run in a sandbox, with input of which a part was sent. */
static struct call *
granted_call(const char *sandbox, size_t input)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct guest_spec spec = {.kind = RUN_BASH, .timeout_ms = UINT32_MAX};
	struct rpc_id none = {.kind = RPC_ID_NONE};
	struct call *c = call_new(&fe, &to, &run_plan);
	uint8_t *room;

	assert_int_equal(spec_encode(&spec, &c->spec), 0);
	assert_int_equal(progress_init(c, &none), 0);
	memcpy(c->sandbox, sandbox, strlen(sandbox) + 1);
	assert_int_equal(buf_reserve(&c->input, input, &room), 0);
	for (size_t i = 0; i < input; i++)
		room[i] = (uint8_t)(i % 251);
	buf_commit(&c->input, input);
	c->input_open = input > 0;
	call_start(c);
	grant(c);
	return c;
}

static size_t
read_stdin(uint64_t from, bool *ret_closed)
{
	struct ipc_row row;
	size_t n = 0;

	*ret_closed = false;
	while (fake_broker_row(&row)) {
		assert_int_equal(row.num, IPC_NUM_call_frame);
		if (row.u.call_frame.type == GUEST_h_stdin_eof)
			*ret_closed = true;
		for (size_t i = 0; i < row.u.call_frame.data.len; i++, n++)
			assert_int_equal(row.u.call_frame.data.data[i], (from + n) % 251);
	}
	return n;
}

static void
test_resume_sends_what_did_not_come(void **state)
{
	const size_t size = 100000;
	struct call *c = granted_call(BOX, size);
	struct ipc_row row;
	bool closed;

	(void)state;
	assert_int_equal(read_stdin(0, &closed), size);
	assert_true(closed);
	fake_broker_tell(IPC_ROW(run_frame, .call = c->no, .type = GUEST_g_out, .stream = 1,
				 .data = {(const uint8_t *)"hello", 5}));
	call_event(c, EV_LINK_DOWN, NULL);
	assert_int_equal(c->state, CALL_RESUMING);
	call_event(c, EV_LINK_UP, NULL);
	row = next_row();
	assert_int_equal(row.num, IPC_NUM_call_resume);
	assert_int_equal(row.u.call_resume.out1, 5);
	assert_int_equal(row.u.call_resume.tail1, 0);
	assert_int_equal(row.u.call_resume.credit2, GUEST_WINDOW);
	assert_memory_equal(row.u.call_resume.run_id.data, RUN, 32);
	assert_memory_equal(row.u.call_resume.sandbox.data, BOX, 32);
	fake_broker_tell(IPC_ROW(call_resumed, .call = c->no, .received = 40000,
				 .granted = 40000 + GUEST_PIECE));
	assert_int_equal(c->state, CALL_GRANTED);
	assert_int_equal(read_stdin(40000, &closed), GUEST_PIECE);
	assert_false(closed);
	/* the next one dies as well, and its guest has had all but the end */
	call_event(c, EV_LINK_DOWN, NULL);
	call_event(c, EV_LINK_UP, NULL);
	assert_int_equal(next_row().num, IPC_NUM_call_resume);
	fake_broker_tell(IPC_ROW(call_resumed, .call = c->no, .received = 40000 + GUEST_PIECE,
				 .granted = 2 * size));
	assert_int_equal(read_stdin(40000 + GUEST_PIECE, &closed), size - 40000 - GUEST_PIECE);
	assert_true(closed);
	call_event(c, EV_LINK_DOWN, NULL);
	call_event(c, EV_LINK_UP, NULL);
	assert_int_equal(next_row().num, IPC_NUM_call_resume);
	fake_broker_tell(IPC_ROW(call_resumed, .call = c->no, .received = size, .granted = size,
				 .closed = 1));
	no_row();
	assert_string_equal(fake_sent(), "");
}

static void
test_resume_begins_anew_what_never_began(void **state)
{
	struct call *c = granted_call(BOX, 10);
	uint64_t no = c->no;
	bool closed;

	(void)state;
	assert_int_equal(read_stdin(0, &closed), 10);
	call_event(c, EV_LINK_DOWN, NULL);
	call_event(c, EV_LINK_UP, NULL);
	assert_int_equal(next_row().num, IPC_NUM_call_resume);
	fake_broker_tell(IPC_ROW(call_resumed, .call = no, .again = 1));
	assert_true(c->no > no);
	grant(c);
	assert_int_equal(read_stdin(0, &closed), 10);
	assert_true(closed);
}

static void
test_resume_believes_no_guest(void **state)
{
	static const struct ipc_call_resumed lies[] = {
		{.received = 11, .granted = 100},
		{.received = 10, .granted = 9},
		{.received = 9, .granted = 100, .closed = 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		struct call *c = granted_call(BOX, 10);
		bool closed;

		assert_int_equal(read_stdin(0, &closed), 10);
		call_event(c, EV_LINK_DOWN, NULL);
		call_event(c, EV_LINK_UP, NULL);
		assert_int_equal(next_row().num, IPC_NUM_call_resume);
		call_event(c, EV_RESUMED, &lies[i]);
		assert_int_equal(next_row().num, IPC_NUM_call_cancel);
		assert_non_null(strstr(fake_sent(), "\"status\":\"lost\""));
		assert_null(fe.call_list);
	}
}

static void
test_resume_is_for_sandboxes_that_stay(void **state)
{
	struct call *c = granted_call("", 0);

	(void)state;
	assert_false(call_is_kept(c));
	assert_int_equal(resume_wait_ms(c), LOST_WAIT_MS);
	call_event(c, EV_LINK_DOWN, NULL);
	assert_non_null(strstr(fake_sent(), "\"status\":\"lost\""));
	assert_null(fe.call_list);

	c = granted_call(BOX, 0);
	memcpy(c->hold, BOX, sizeof(BOX)); /* its own, for its steps */
	call_event(c, EV_LINK_DOWN, NULL);
	assert_non_null(strstr(fake_sent(), "\"status\":\"lost\""));
	assert_null(fe.call_list);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_resume_sends_what_did_not_come),
		FAKE(test_resume_begins_anew_what_never_began),
		FAKE(test_resume_believes_no_guest),
		FAKE(test_resume_is_for_sandboxes_that_stay),
	};

	return cmocka_run_group_tests_name("frontend_resume", tests, NULL, NULL);
}
