/*
 * tests/unit/test_frontend_upcalls.c - rows to and from the broker and the supervisor.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static struct call *
run_call(size_t code_bytes, size_t stdin_bytes)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct guest_spec spec = {.kind = RUN_PYTHON, .timeout_ms = UINT32_MAX};
	struct call *c = call_new(&fe, &to, &run_plan);
	uint8_t *bytes = malloc(code_bytes + stdin_bytes + 1);

	memset(bytes, 'c', code_bytes + stdin_bytes);
	spec.code = (struct ipc_bin){bytes, code_bytes};
	spec.flags = stdin_bytes > 0 ? SPEC_STDIN : 0;
	assert_int_equal(spec_encode(&spec, &c->spec), 0);
	assert_int_equal(buf_append(&c->input, bytes, stdin_bytes), 0);
	c->input_open = stdin_bytes > 0;
	free(bytes);
	return c;
}

static void
grant(const struct call *c, uint32_t start, uint32_t timeout_ms)
{
	fake_broker_tell(IPC_ROW(call_granted, .call = c->no, .start = start,
				 .timeout_ms = timeout_ms, .run_id = IPC_STR("ab")));
}

/* Collects the specification from the broker's side. */
static void
read_spec(struct buf *b, struct guest_spec *ret)
{
	struct ipc_row row;

	buf_init(b, GUEST_SPEC_MAX);
	do {
		assert_true(fake_broker_row(&row));
		assert_int_equal(row.num, IPC_NUM_call_frame);
		assert_int_equal(
			buf_append(b, row.u.call_frame.data.data, row.u.call_frame.data.len), 0);
		assert_true(row.u.call_frame.type == GUEST_h_run ||
			    row.u.call_frame.data.len == GUEST_PAYLOAD_MAX);
	} while (row.u.call_frame.type == GUEST_h_spec);
	assert_int_equal(row.u.call_frame.type, GUEST_h_run);
	assert_int_equal(spec_decode(buf_data(b), buf_len(b), ret), 0);
}

static void
test_upcalls_nothing_before_configured(void **state)
{
	struct ipc_row row;
	struct call *c;

	(void)state;
	fake_open(false);
	c = run_call(1, 0);
	call_start(c);
	upcalls_warm(&fe);
	assert_false(fake_broker_row(&row));
	fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(configured));
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_warm_hint);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_call_submit);
	upcalls_warm(&fe);
	assert_false(fake_broker_row(&row)); /* one hint a link */
	fake_close();
}

static void
test_upcalls_submit_carries_what_was_asked(void **state)
{
	struct ipc_row row;
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, 0);
	c->box_class = BOX_NODE;
	c->flags = CALL_LIVE;
	c->ask = (struct call_limits){
		.profile = "p", .image = "i", .timeout_ms = 1, .cpus_milli = 2, .memory_bytes = 3};
	call_start(c);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_submit.call, c->no);
	assert_int_equal(row.u.call_submit.box_class, BOX_NODE);
	assert_int_equal(row.u.call_submit.flags, CALL_LIVE);
	assert_int_equal(row.u.call_submit.timeout_ms, 1);
	assert_int_equal(row.u.call_submit.cpus_milli, 2);
	assert_int_equal(row.u.call_submit.memory_bytes, 3);
	assert_memory_equal(row.u.call_submit.profile.data, "p", 1);
	assert_memory_equal(row.u.call_submit.image.data, "i", 1);
	fake_close();
}

static void
test_upcalls_run_sends_the_whole_specification(void **state)
{
	static const size_t sizes[] = {0, 1, 32700, 32768, 32800, 100000, SPEC_CODE_MAX};
	static const struct {
		uint32_t start;
		uint32_t flags;
	} starts[] = {{START_WARM, 0}, {START_LIVE, SPEC_LIVE}, {START_COLD, SPEC_LIVE}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(starts); i++) {
		struct guest_spec spec;
		struct ipc_row row;
		struct buf b;
		struct call *c;

		fake_open(true);
		c = run_call(sizes[i / ARRAY_LEN(starts)], 0);
		call_start(c);
		assert_true(fake_broker_row(&row));
		grant(c, starts[i % ARRAY_LEN(starts)].start, 4321);
		read_spec(&b, &spec);
		assert_int_equal(spec.code.len, sizes[i / ARRAY_LEN(starts)]);
		assert_int_equal(spec.timeout_ms, 4321);
		assert_int_equal(spec.flags, starts[i % ARRAY_LEN(starts)].flags);
		assert_false(fake_broker_row(&row)); /* no stdin, so no end of it */
		spec_done(&spec);
		buf_done(&b);
		fake_close();
	}
}

/* When the specification goes with the submission. */
static void
test_upcalls_early_specification(void **state)
{
	static const struct {
		struct call_limits ask;
		enum box_class box_class;
		uint32_t default_ms;
		size_t code;
		uint32_t want_ms; /* 0: not early */
	} rows[] = {
		{{.timeout_ms = 0}, BOX_PYTHON, 0, 1, 0},
		{{.timeout_ms = 0}, BOX_PYTHON, 700, 1, 700},
		{{.timeout_ms = 500}, BOX_PYTHON, 700, 1, 500},
		{{.timeout_ms = 500, .profile = "p"}, BOX_PYTHON, 700, 1, 500},
		{{.profile = "p"}, BOX_PYTHON, 700, 1, 0},
		{{.image = "i"}, BOX_SHELL, 700, 1, 0},
		{{.memory_bytes = 1}, BOX_NODE, 700, 1, 0},
		{{.cpus_milli = 1}, BOX_PYTHON, 700, 1, 0},
		{{.cpus_milli = 1, .memory_bytes = 1}, BOX_SHELL, 700, 1, 700},
		{{.timeout_ms = 500}, BOX_SHELL, 700, GUEST_PAYLOAD_MAX, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct guest_spec spec;
		struct ipc_row row;
		struct call *c;

		fake_open(true);
		fe.default_timeout_ms = rows[i].default_ms;
		c = run_call(rows[i].code, 0);
		c->ask = rows[i].ask;
		c->box_class = rows[i].box_class;
		call_start(c);
		assert_true(fake_broker_row(&row));
		assert_int_equal(row.num, IPC_NUM_call_submit);
		assert_int_equal(c->spec_sent, rows[i].want_ms != 0);
		assert_int_equal(row.u.call_submit.spec.len != 0, rows[i].want_ms != 0);
		if (rows[i].want_ms != 0) {
			assert_int_equal(spec_decode(row.u.call_submit.spec.data,
						     row.u.call_submit.spec.len, &spec),
					 0);
			assert_int_equal(spec.timeout_ms, rows[i].want_ms);
			spec_done(&spec);
			grant(c, START_COLD, rows[i].want_ms);
		}
		assert_false(fake_broker_row(&row));
		fake_close();
	}
}

static void
test_upcalls_default_timeout_is_learnt(void **state)
{
	struct ipc_row row;
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, 0);
	c->ask.timeout_ms = 5;
	call_start(c);
	grant(c, START_WARM, 5);
	assert_int_equal(fe.default_timeout_ms, 0); /* it was asked for */
	c = run_call(1, 0);
	call_start(c);
	grant(c, START_WARM, 1234);
	assert_int_equal(fe.default_timeout_ms, 1234);
	while (fake_broker_row(&row))
		;
	fake_close();
}

static void
test_upcalls_stdin_keeps_to_the_credit(void **state)
{
	uint8_t payload[8];
	struct guest_g_credit credit = {.limit = GUEST_WINDOW + 10};
	struct guest_spec spec;
	struct ipc_row row;
	struct buf b;
	size_t sent = 0;
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, GUEST_WINDOW + 50);
	call_start(c);
	assert_true(fake_broker_row(&row));
	grant(c, START_WARM, 1000);
	read_spec(&b, &spec);
	while (fake_broker_row(&row)) {
		assert_int_equal(row.u.call_frame.type, GUEST_h_stdin);
		sent += row.u.call_frame.data.len;
	}
	/* whole pieces: a smaller one only as the last */
	assert_int_equal(sent, GUEST_WINDOW / GUEST_PIECE * GUEST_PIECE);
	guest_put_g_credit(&credit, payload);
	fake_broker_tell(IPC_ROW(run_frame, .call = c->no, .type = GUEST_g_credit,
				 .data = {payload, sizeof(payload)}));
	assert_false(fake_broker_row(&row));
	credit.limit = GUEST_WINDOW + 50;
	guest_put_g_credit(&credit, payload);
	fake_broker_tell(IPC_ROW(run_frame, .call = c->no, .type = GUEST_g_credit,
				 .data = {payload, sizeof(payload)}));
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_frame.data.len, GUEST_WINDOW + 50 - sent);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_frame.type, GUEST_h_stdin_eof);
	assert_false(fake_broker_row(&row));
	spec_done(&spec);
	buf_done(&b);
	fake_close();
}

static void
test_upcalls_output_brings_credit(void **state)
{
	static uint8_t chunk[32768];
	struct guest_h_credit credit;
	struct guest_spec spec;
	struct ipc_row row;
	struct buf b;
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, 0);
	call_start(c);
	assert_true(fake_broker_row(&row));
	grant(c, START_WARM, 1000);
	read_spec(&b, &spec);
	for (int i = 0; i < 4; i++)
		fake_broker_tell(IPC_ROW(run_frame, .call = c->no, .type = GUEST_g_out,
					 .stream = STREAM_STDERR, .data = {chunk, sizeof(chunk)}));
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.u.call_frame.type, GUEST_h_credit);
	assert_int_equal(row.u.call_frame.stream, STREAM_STDERR);
	assert_int_equal(
		guest_get_h_credit(row.u.call_frame.data.data, row.u.call_frame.data.len, &credit),
		0);
	assert_int_equal(credit.limit, 4 * sizeof(chunk) + GUEST_WINDOW);
	spec_done(&spec);
	buf_done(&b);
	fake_close();
}

static void
test_upcalls_peer_replaces_the_link(void **state)
{
	struct ipc_row row;
	uint8_t packet[256];
	size_t n;
	int fds[2];
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, 0);
	call_start(c);
	assert_true(fake_broker_row(&row));
	(void)close(broker_end);
	fake_spin();
	assert_null(fe.broker);
	assert_int_equal(c->state, CALL_WAITING);
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	broker_end = fcntl(fds[0], F_DUPFD_CLOEXEC, 40); /* 4 is free now and must stay so */
	(void)close(fds[0]);
	assert_int_equal(ipc_encode(IPC_ROW(peer, .role = IPC_BROKER), IPC_SUPERVISOR, IPC_FRONTEND,
				    packet, sizeof(packet), &n),
			 0);
	assert_int_equal(fdpass_send(supervisor_end, packet, n, fds[1]), 0);
	(void)close(fds[1]);
	fake_spin();
	assert_non_null(fe.broker);
	assert_int_equal(link_fd(fe.broker), FD_PEER);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_call_submit);
	assert_int_equal(row.u.call_submit.call, c->no);
	fake_close();
}

static void
test_upcalls_health_rows_reach_their_call(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct ipc_row row;
	struct call *c;

	(void)state;
	fake_open(true);
	c = call_new(&fe, &to, &health_plan);
	c->job = health_new();
	call_start(c);
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_health_query);
	fake_broker_tell(IPC_ROW(health_note, .call = c->no + 1, .text = IPC_STR("not ours")));
	fake_broker_tell(IPC_ROW(health_note, .call = c->no, .text = IPC_STR("ours")));
	fake_broker_tell(IPC_ROW(health_engine, .call = c->no, .status = RUN_image_unavailable,
				 .engine = IPC_STR(""), .version = IPC_STR(""), .api = IPC_STR(""),
				 .image = IPC_STR(""), .image_id = IPC_STR(""),
				 .runtimes = IPC_STR(""), .message = IPC_STR("build it")));
	fake_broker_tell(IPC_ROW(health_end, .call = c->no));
	assert_null(fe.call_list);
	assert_non_null(strstr(fake_sent(), "\"warnings\":[\"ours\"]"));
	fake_close();
}

static void
test_upcalls_stop_and_loss_of_the_supervisor(void **state)
{
	(void)state;
	fake_open(true);
	call_start(run_call(1, 0));
	fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(stop, .grace_ms = 100));
	assert_true(fe.leaving && fe.exit_code == 0);
	assert_non_null(strstr(fake_sent(), "\"status\":\"cancelled\""));
	fake_close();
	fake_open(true);
	(void)shutdown(supervisor_end, SHUT_RDWR);
	fake_spin();
	assert_true(fe.leaving && fe.exit_code == 1);
	assert_null(fe.supervisor);
	fake_close();
}

static void
test_upcalls_without_a_broker(void **state)
{
	struct call *c;

	(void)state;
	fake_open(true);
	c = run_call(1, 1);
	link_free(fe.broker);
	fe.broker = NULL;
	assert_int_equal(upcalls_submit(c), -ENOTCONN);
	assert_int_equal(upcalls_cancel(c), -ENOTCONN);
	assert_int_equal(upcalls_credit(c, 1, 1), -ENOTCONN);
	assert_int_equal(upcalls_stdin(c), -ENOTCONN);
	assert_false(upcalls_ready(&fe));
	upcalls_warm(&fe);
	fake_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_upcalls_nothing_before_configured),
		cmocka_unit_test(test_upcalls_submit_carries_what_was_asked),
		cmocka_unit_test(test_upcalls_run_sends_the_whole_specification),
		cmocka_unit_test(test_upcalls_early_specification),
		cmocka_unit_test(test_upcalls_default_timeout_is_learnt),
		cmocka_unit_test(test_upcalls_stdin_keeps_to_the_credit),
		cmocka_unit_test(test_upcalls_output_brings_credit),
		cmocka_unit_test(test_upcalls_peer_replaces_the_link),
		cmocka_unit_test(test_upcalls_health_rows_reach_their_call),
		cmocka_unit_test(test_upcalls_stop_and_loss_of_the_supervisor),
		cmocka_unit_test(test_upcalls_without_a_broker),
	};

	return cmocka_run_group_tests_name("frontend_upcalls", tests, NULL, NULL);
}
