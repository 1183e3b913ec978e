/* The guest stream's rules, frame by frame, both directions. */
#include "test.h"

#include "broker_world.h"

struct got {
	uint32_t frames[256];
	size_t bytes;
};

static void
sink(void *ctx, const struct guest_frame *f)
{
	struct got *g = ctx;

	g->frames[f->row->type]++;
	g->bytes += f->len;
}

static uint8_t frame[GUEST_FRAME_MAX];

static size_t
make(enum guest_type t, uint8_t stream, uint32_t run, uint64_t seq, const void *p, size_t n)
{
	return guest_frame_write(frame, t, stream, run, seq, p, n);
}

static int
feed(struct session *s, struct got *g, enum guest_type t, uint8_t stream, uint32_t run,
     uint64_t seq, const void *p, size_t n)
{
	return session_feed(s, frame, make(t, stream, run, seq, p, n), g, sink);
}

static void
greet(struct session *s, struct got *g)
{
	struct guest_g_hello h = {.version = GUEST_VERSION, .uid = 10001};
	uint8_t p[16];

	session_init(s);
	guest_put_g_hello(&h, p);
	assert_int_equal(feed(s, g, GUEST_g_hello, 0, 0, 0, p, sizeof(p)), 0);
	assert_int_equal(session_run_open(s), 1);
}

static int
host(struct session *s, enum guest_type t, uint32_t stream, const void *p, size_t n)
{
	struct ipc_bin data = {p, n};

	return session_host_frame(s, 1, t, stream, &data, frame);
}

static int
host_of(struct session *s, uint32_t run, enum guest_type t, uint32_t stream, const void *p,
	size_t n)
{
	struct ipc_bin data = {p, n};

	return session_host_frame(s, run, t, stream, &data, frame);
}

static void
start(struct session *s, struct got *g)
{
	greet(s, g);
	assert_true(host(s, GUEST_h_run, 0, "x", 1) > 0);
}

static void
test_hello_first_and_once(void **state)
{
	struct session s;
	struct got g = {0};
	uint8_t p[16] = {1};

	(void)state;
	session_init(&s);
	assert_int_equal(feed(&s, &g, GUEST_g_pong, 0, 0, 0, NULL, 0), -EBADMSG);
	session_done(&s);
	greet(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_pong, 0, 0, 0, NULL, 0), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_hello, 0, 0, 0, p, sizeof(p)), -EBADMSG);
	session_done(&s);
}

/* Nothing of a run before h_run, nothing after EXIT. */
static void
test_run_frames_only_during_the_run(void **state)
{
	uint8_t exit_payload[104] = {1}, credit[8] = {0};
	struct session s;
	struct got g = {0};

	(void)state;
	greet(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, "x", 1), -EBADMSG);
	session_done(&s);
	greet(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_exit, 0, 1, 1, exit_payload, 104), -EBADMSG);
	session_done(&s);
	start(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, "x", 1), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_exit, 0, 1, 2, exit_payload, 104), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_pong, 0, 0, 0, NULL, 0), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 3, "x", 1), -EBADMSG);
	session_done(&s);
	start(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_credit, 0, 1, 0, credit, 8), -EBADMSG); /* shrinks */
	session_done(&s);
}

static void
test_sequence_run_and_stream_must_match(void **state)
{
	static const struct {
		uint8_t stream;
		uint32_t run;
		uint64_t seq;
	} bad[] = {{1, 1, 2}, {1, 1, 0}, {1, 2, 1}, {1, 0, 1}, {0, 1, 1}, {4, 1, 1}};
	struct got g = {0};
	struct session s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		start(&s, &g);
		assert_int_equal(
			feed(&s, &g, GUEST_g_out, bad[i].stream, bad[i].run, bad[i].seq, "x", 1),
			-EBADMSG);
		session_done(&s);
	}
	start(&s, &g);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, "x", 1), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, "x", 1), -EBADMSG); /* again */
	session_done(&s);
}

static void
test_a_guest_cannot_pass_its_credit(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct guest_h_credit credit = {.limit = GUEST_WINDOW + 10};
	uint8_t p[8];
	struct got g = {0};
	struct session s;
	uint64_t seq = 0;

	(void)state;
	start(&s, &g);
	for (unsigned int i = 0; i < GUEST_WINDOW / GUEST_PAYLOAD_MAX; i++)
		assert_int_equal(feed(&s, &g, GUEST_g_out, 2, 1, ++seq, chunk, sizeof(chunk)), 0);
	assert_int_equal(g.bytes, GUEST_WINDOW + 16);
	guest_put_h_credit(&credit, p);
	assert_true(host(&s, GUEST_h_credit, 2, p, 8) > 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 2, 1, ++seq, chunk, 10), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, ++seq, chunk, 1), 0); /* its own window */
	assert_int_equal(feed(&s, &g, GUEST_g_tail, 2, 1, ++seq, chunk, GUEST_TAIL_MAX), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_tail, 2, 1, seq + 1, chunk, 1), -EBADMSG);
	session_done(&s);
	start(&s, &g);
	for (seq = 0; seq < GUEST_WINDOW / GUEST_PAYLOAD_MAX;)
		assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, ++seq, chunk, sizeof(chunk)), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, ++seq, chunk, 1), -EBADMSG);
	session_done(&s);
}

static void
test_bytes_may_come_cut_anywhere(void **state)
{
	static uint8_t all[4 * GUEST_FRAME_MAX], chunk[GUEST_PAYLOAD_MAX];
	uint32_t seed = 7;
	size_t n = 0;

	(void)state;
	for (uint64_t seq = 1; seq <= 3; seq++) {
		size_t len = make(GUEST_g_out, 1, 1, seq, chunk, seq == 2 ? 1 : sizeof(chunk));

		memcpy(all + n, frame, len);
		n += len + 5; /* and some padding */
	}
	for (int round = 0; round < 50; round++) {
		struct got g = {0};
		struct session s;

		start(&s, &g);
		for (size_t at = 0; at < n;) {
			size_t take = round == 0 ? 1 : 1 + test_random(&seed) % 40000;

			take = take < n - at ? take : n - at;
			assert_int_equal(session_feed(&s, all + at, take, &g, sink), 0);
			at += take;
		}
		assert_int_equal(g.frames[GUEST_g_out], 3);
		session_done(&s);
	}
}

static void
test_garbage_and_damage(void **state)
{
	struct got g = {0};
	struct session s;
	uint32_t seed = 99;
	size_t n;

	(void)state;
	for (int i = 0; i < 2000; i++) { /* one flipped bit is never accepted as a frame */
		struct got before;

		start(&s, &g);
		n = make(GUEST_g_out, 1, 1, 1, "some output", 11);
		frame[test_random(&seed) % n] ^= (uint8_t)(1u << test_random(&seed) % 8);
		before = g;
		(void)session_feed(&s, frame, n, &g, sink);
		assert_int_equal(g.frames[GUEST_g_out], before.frames[GUEST_g_out]);
		session_done(&s);
	}
	greet(&s, &g);
	n = guest_frame_write(frame, GUEST_h_ping, 0, 0, 0, NULL, 0); /* ours, echoed */
	assert_int_equal(session_feed(&s, frame, n, &g, sink), -EBADMSG);
	session_done(&s);
}

/* What costs a guest no credit is bounded too: padding, answers, grants. */
static void
test_chatter_is_bounded(void **state)
{
	static const uint8_t padding[4096];
	uint8_t credit[8];
	struct guest_g_credit grant = {.limit = GUEST_WINDOW};
	struct got g = {0};
	struct session s;
	size_t n;

	(void)state;
	guest_put_g_credit(&grant, credit);
	for (int kind = 0; kind < 3; kind++) {
		int r = 0;

		start(&s, &g);
		for (n = 0; r == 0 && n < 100000; n++) {
			if (kind == 0)
				r = session_feed(&s, padding, sizeof(padding), &g, sink);
			else if (kind == 1)
				r = feed(&s, &g, GUEST_g_pong, 0, 0, 0, NULL, 0);
			else
				r = feed(&s, &g, GUEST_g_credit, 0, 1, 0, credit, 8);
		}
		assert_int_equal(r, -EBADMSG);
		assert_true(n > 10 && n < 4000);
		session_done(&s);
	}
	start(&s, &g);
	for (n = 1; n <= 10000; n++) { /* sequenced ones are bounded by what they are */
		assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, n, "x", 1), 0);
		if (n % 1000 == 0)
			s.chatter = 0; /* as a ping does */
		assert_int_equal(feed(&s, &g, GUEST_g_pong, 0, 0, 0, NULL, 0), 0);
	}
	session_done(&s);
}

/* Byte by byte: the guest, which keeps whole frames, hears of it before it has to wait. */
static void
test_acknowledgements_of_small_frames(void **state)
{
	struct got g = {0};
	struct session s;
	uint64_t seq = 0;

	(void)state;
	start(&s, &g);
	do
		assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, ++seq, "x", 1), 0);
	while (!session_owes(&s, false));
	assert_in_range(seq * (GUEST_HEADER_LEN + 1 + GUEST_CRC_LEN), GUEST_WINDOW,
			GUEST_WINDOW + GUEST_FRAME_MAX);
	session_done(&s);
}

static void
test_acknowledgements(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct guest_g_ack ack = {.seq = 1};
	uint8_t p[8], out[64];
	struct got g = {0};
	struct session s;

	(void)state;
	start(&s, &g);
	guest_put_g_ack(&ack, p);
	assert_int_equal(feed(&s, &g, GUEST_g_ack, 0, 0, 0, p, 8), 0);
	assert_false(session_owes(&s, true)); /* nothing to acknowledge */
	assert_int_equal(session_ack(&s, out), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, chunk, 100), 0);
	assert_false(session_owes(&s, false)); /* not yet worth a write */
	assert_true(session_owes(&s, true));
	session_mark(&s);
	assert_int_equal(s.marked_seq, 1);
	assert_true(session_ack(&s, out) > 0);
	assert_int_equal(session_ack(&s, out), 0);
	for (uint64_t seq = 2; seq < 9; seq++) {
		assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, seq, chunk, sizeof(chunk)), 0);
		assert_false(session_owes(&s, false));
	}
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 9, chunk, sizeof(chunk) - 100), 0);
	assert_true(session_owes(&s, false));  /* a window of frames */
	assert_true(session_ack(&s, out) > 0); /* up to the mark, not to what came since */
	assert_int_equal(s.marked_seq, 1);
	ack.seq = 2; /* we sent only one frame */
	guest_put_g_ack(&ack, p);
	assert_int_equal(feed(&s, &g, GUEST_g_ack, 0, 0, 0, p, 8), -EBADMSG);
	session_done(&s);
}

static void
test_frontend_frames(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct guest_h_credit credit = {.limit = 5};
	struct guest_g_credit more = {.limit = GUEST_WINDOW + 1};
	struct got g = {0};
	struct session s;
	uint8_t p[8];

	(void)state;
	greet(&s, &g);
	assert_int_equal(host(&s, GUEST_h_hello, 0, chunk, 64), -EPROTO); /* the broker's own */
	assert_int_equal(host(&s, GUEST_h_end, 0, chunk, 4), -EPROTO);
	assert_int_equal(host(&s, GUEST_g_out, 1, chunk, 4), -EPROTO);
	assert_int_equal(host(&s, (enum guest_type)0x99, 0, chunk, 4), -EPROTO);
	assert_int_equal(host(&s, GUEST_h_stdin, 0, chunk, 4), -EPROTO); /* before RUN */
	for (unsigned int i = 0; i < GUEST_SPEC_MAX / GUEST_PAYLOAD_MAX; i++)
		assert_true(host(&s, GUEST_h_spec, 0, chunk, sizeof(chunk)) > 0);
	assert_int_equal(host(&s, GUEST_h_spec, 0, chunk, 1), -EPROTO); /* over 2 MiB */
	assert_true(host(&s, GUEST_h_run, 0, chunk, 0) > 0);
	assert_int_equal(host(&s, GUEST_h_run, 0, chunk, 0), -EPROTO); /* single use */
	assert_int_equal(host(&s, GUEST_h_spec, 0, chunk, 1), -EPROTO);
	guest_put_h_credit(&credit, p);
	assert_int_equal(host(&s, GUEST_h_credit, 1, p, 8), -EPROTO); /* shrinks */
	credit.limit = UINT64_MAX;
	guest_put_h_credit(&credit, p);
	assert_int_equal(host(&s, GUEST_h_credit, 1, p, 8), -EPROTO); /* no end to it */
	credit.limit = GUEST_WINDOW + 1;
	guest_put_h_credit(&credit, p);
	assert_int_equal(host(&s, GUEST_h_credit, 0, p, 8), -EPROTO); /* stdin is the guest's */
	assert_true(host(&s, GUEST_h_credit, 1, p, 8) > 0);
	for (unsigned int i = 0; i < GUEST_WINDOW / GUEST_PAYLOAD_MAX; i++)
		assert_true(host(&s, GUEST_h_stdin, 0, chunk, sizeof(chunk)) > 0);
	assert_int_equal(host(&s, GUEST_h_stdin, 0, chunk, 1), -EPROTO);
	guest_put_g_credit(&more, p);
	assert_int_equal(feed(&s, &g, GUEST_g_credit, 0, 1, 0, p, 8), 0);
	assert_true(host(&s, GUEST_h_stdin, 0, chunk, 1) > 0);
	assert_true(host(&s, GUEST_h_stdin_eof, 0, NULL, 0) > 0);
	assert_int_equal(host(&s, GUEST_h_stdin_eof, 0, NULL, 0), -EPROTO);
	assert_int_equal(s.host_seq, 64 + 1 + 8 + 1 + 1);
	session_done(&s);
}

static void
test_end_frame(void **state)
{
	struct got g = {0};
	struct session s;

	(void)state;
	greet(&s, &g);
	assert_int_equal(session_end_frame(&s, 1, CAUSE_CANCEL, frame), 0); /* nothing to end */
	assert_int_equal(session_end_frame(&s, 2, CAUSE_CANCEL, frame), 0); /* no such run */
	assert_true(host(&s, GUEST_h_run, 0, "x", 1) > 0);
	assert_true(session_end_frame(&s, 1, CAUSE_CANCEL, frame) > 0);
	assert_int_equal(session_end_frame(&s, 1, CAUSE_CANCEL, frame), 0); /* once */
	assert_int_equal(s.host_seq, 2);
	assert_int_equal(host(&s, GUEST_h_stdin, 0, "x", 1), -EPROTO);
	session_done(&s);
}

/* A specification that was broken off: EXIT may come, output may not. */
static void
test_end_of_a_part(void **state)
{
	uint8_t exit_payload[104] = {1};
	struct got g = {0};
	struct session s;

	(void)state;
	for (int wrong = 0; wrong < 3; wrong++) {
		greet(&s, &g);
		assert_true(host(&s, GUEST_h_spec, 0, "x", 1) > 0);
		if (wrong != 2)
			assert_true(session_end_frame(&s, 1, CAUSE_CANCEL, frame) > 0);
		if (wrong == 1)
			assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, 1, "x", 1), -EBADMSG);
		else
			assert_int_equal(feed(&s, &g, GUEST_g_exit, 0, 1, 1, exit_payload, 104),
					 wrong ? -EBADMSG : 0);
		session_done(&s);
	}
}

/* Each run has its own windows, the sequence is everybody's, numbers never come again. */
static void
test_many_runs(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	uint8_t exit_payload[104] = {1};
	struct got g = {0};
	struct session s;
	uint64_t seq = 0;

	(void)state;
	greet(&s, &g);
	for (uint32_t run = 2; run <= GUEST_RUNS_MAX; run++)
		assert_int_equal(session_run_open(&s), run);
	assert_int_equal(session_run_open(&s), 0);
	for (uint32_t run = 1; run <= GUEST_RUNS_MAX; run++)
		assert_true(host_of(&s, run, GUEST_h_run, 0, "x", 1) > 0);
	assert_int_equal(s.host_seq, GUEST_RUNS_MAX);
	for (unsigned int i = 0; i < GUEST_WINDOW / GUEST_PAYLOAD_MAX; i++)
		for (uint32_t run = 3; run <= 4; run++)
			assert_int_equal(
				feed(&s, &g, GUEST_g_out, 3, run, ++seq, chunk, sizeof(chunk)), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_exit, 0, 3, ++seq, exit_payload, 104), 0);
	assert_null(session_run(&s, 3));
	assert_null(session_run(&s, 0));
	assert_non_null(session_run(&s, 4));
	assert_int_equal(session_run_open(&s), GUEST_RUNS_MAX + 1);
	assert_int_equal(host_of(&s, 3, GUEST_h_stdin, 0, "x", 1), -EPROTO);
	session_run_close(&s, GUEST_RUNS_MAX + 1);
	session_run_close(&s, 3);
	assert_int_equal(session_run_open(&s), GUEST_RUNS_MAX + 2);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 3, seq + 1, "x", 1),
			 -EBADMSG); /* it is over */
	session_done(&s);
}

/* Runs as short as file transfers may come by thousands between two pings. */
static void
test_short_runs_are_no_chatter(void **state)
{
	uint8_t exit_payload[104] = {1}, p[8];
	struct got g = {0};
	struct session s;

	(void)state;
	greet(&s, &g);
	for (uint32_t run = 1; run <= 5000; run++) {
		struct guest_g_ack ack = {.seq = run};
		struct guest_g_credit credit = {.limit = GUEST_WINDOW + 1};

		assert_true(host_of(&s, run, GUEST_h_run, 0, "x", 1) > 0);
		guest_put_g_ack(&ack, p);
		assert_int_equal(feed(&s, &g, GUEST_g_ack, 0, 0, 0, p, 8), 0);
		guest_put_g_credit(&credit, p);
		assert_int_equal(feed(&s, &g, GUEST_g_credit, 0, run, 0, p, 8), 0);
		assert_int_equal(feed(&s, &g, GUEST_g_exit, 0, run, run, exit_payload, 104), 0);
		assert_int_equal(session_run_open(&s), run + 1);
	}
	session_done(&s);
}

static void
test_own_credit(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct got g = {0};
	struct session s;
	uint64_t seq = 0;

	(void)state;
	greet(&s, &g);
	assert_int_equal(session_own_credit(&s, 1, 1, frame), 0); /* not running */
	assert_true(host(&s, GUEST_h_run, 0, "x", 1) > 0);
	assert_int_equal(session_own_credit(&s, 1, 1, frame), 0); /* wide open */
	for (int i = 0; i < 100; i++) { /* without end, as long as it is granted */
		size_t n;

		assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 1, ++seq, chunk, sizeof(chunk)), 0);
		n = session_own_credit(&s, 1, 1, frame);
		if (i == 2)
			assert_int_equal(n, 0);
		if (i == 3)
			assert_int_equal(n, GUEST_HEADER_LEN + 8 + GUEST_CRC_LEN);
	}
	session_done(&s);
}

/* After a former broker: sequences go on, runs are as they were at the mark, how they stand may
 * come once, before anything else. */
static void
test_session_that_goes_on(void **state)
{
	static const uint64_t sent[STREAMS] = {0, 100, 0, 7}, none[STREAMS];
	struct guest_g_stands m = {.ordered = 1};
	struct got g = {0};
	struct session s;
	uint8_t p[24], out[64];

	(void)state;
	session_init(&s);
	s.guest_seq = 40;
	s.last_run = 3;
	assert_non_null(session_run_resume(&s, 3, sent, none));
	assert_null(session_run_resume(&s, 0, sent, none));
	session_resume(&s, 12);
	guest_put_g_stands(&m, p);
	assert_int_equal(feed(&s, &g, GUEST_g_stands, 0, 3, 0, p, 24), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_out, 1, 3, 41, "x", 1), 0);
	assert_int_equal(session_run(&s, 3)->sent[STREAM_STDOUT], 101);
	assert_int_equal(session_run(&s, 3)->marked[STREAM_STDOUT], 100);
	assert_int_equal(session_run_open(&s), 4);
	assert_int_equal(s.host_seq, 12);
	assert_true(session_credit(&s, 3, STREAM_STDOUT, 5000, out) > 0);
	assert_int_equal(session_run(&s, 3)->granted[STREAM_STDOUT], 5000);
	assert_int_equal(session_credit(&s, 9, STREAM_STDOUT, 5000, out), 0);
	assert_int_equal(feed(&s, &g, GUEST_g_stands, 0, 3, 0, p, 24), -EBADMSG); /* too late */
	for (uint32_t i = 2; i < GUEST_RUNS_MAX; i++)
		assert_non_null(session_run_resume(&s, 100 + i, none, none));
	assert_null(session_run_resume(&s, 99, none, none));
	session_done(&s);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_session_that_goes_on),
		cmocka_unit_test(test_hello_first_and_once),
		cmocka_unit_test(test_run_frames_only_during_the_run),
		cmocka_unit_test(test_sequence_run_and_stream_must_match),
		cmocka_unit_test(test_a_guest_cannot_pass_its_credit),
		cmocka_unit_test(test_bytes_may_come_cut_anywhere),
		cmocka_unit_test(test_garbage_and_damage),
		cmocka_unit_test(test_chatter_is_bounded),
		cmocka_unit_test(test_acknowledgements),
		cmocka_unit_test(test_acknowledgements_of_small_frames),
		cmocka_unit_test(test_frontend_frames),
		cmocka_unit_test(test_end_frame),
		cmocka_unit_test(test_end_of_a_part),
		cmocka_unit_test(test_many_runs),
		cmocka_unit_test(test_short_runs_are_no_chatter),
		cmocka_unit_test(test_own_credit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
