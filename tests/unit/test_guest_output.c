/*
 * tests/unit/test_guest_output.c - head, tail, counts, credit and the window.
 * Runs in: ctest.
 * Input: none.
 * Owns: pipes.
 */
#include "test.h"
#include "guest_fakes.h"

static struct fake *
new_box(void)
{
	struct fake *f = fake_new();

	(void)fake_run(f, 1);
	return f;
}

static uint8_t
byte_at(uint64_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

/* Writes bytes from..to of the pattern as the run would, read as they come. */
static void
write_run(struct fake *f, uint64_t from, uint64_t to)
{
	static uint8_t chunk[4096];

	while (from < to) {
		size_t n = to - from > sizeof(chunk) ? sizeof(chunk) : (size_t)(to - from);

		for (size_t i = 0; i < n; i++)
			chunk[i] = byte_at(from + i);
		assert_int_equal(write(f->run_out, chunk, n), n);
		(void)output_read(&f->g.runs[0].out[0], false);
		from += n;
	}
}

/* Acknowledges and takes all frames that are kept; their bytes are appended to all. */
static void
take_frames(struct fake *f, struct buf *head, struct buf *tail)
{
	struct stream *s = &f->g.stream;
	struct guest_frame frame;

	while (fake_next_frame(&s->kept, &frame)) {
		struct buf *to = frame.row->type == GUEST_g_tail ? tail : head;

		assert_true(frame.row->type == GUEST_g_tail || frame.row->type == GUEST_g_out);
		assert_int_equal(frame.stream, STREAM_STDOUT);
		assert_int_equal(buf_append(to, frame.payload, frame.len), 0);
		s->acked++;
	}
}

static void
check_size(uint64_t size)
{
	struct fake *f = new_box();
	struct output *o = &f->g.runs[0].out[0];
	uint64_t tail_len = size > GUEST_HEAD_MAX ? size - GUEST_HEAD_MAX : 0;
	struct buf head;
	struct buf tail;

	buf_init(&head, 2 * GUEST_HEAD_MAX);
	buf_init(&tail, GUEST_TAIL_MAX);
	o->credit = UINT64_MAX;
	write_run(f, 0, size);
	while (!output_finish(&f->g, o))
		take_frames(f, &head, &tail);
	take_frames(f, &head, &tail);
	assert_true(output_finish(&f->g, o)); /* and nothing twice */
	assert_int_equal(buf_len(&f->g.stream.kept), 0);

	tail_len = tail_len > GUEST_TAIL_MAX ? GUEST_TAIL_MAX : tail_len;
	assert_int_equal(o->total, size);
	assert_int_equal(buf_len(&head), size < GUEST_HEAD_MAX ? size : GUEST_HEAD_MAX);
	assert_int_equal(buf_len(&tail), tail_len);
	assert_int_equal(output_dropped(o), size - buf_len(&head) - tail_len);
	for (size_t i = 0; i < buf_len(&head); i++)
		assert_int_equal(buf_data(&head)[i], byte_at(i));
	for (size_t i = 0; i < tail_len; i++)
		assert_int_equal(buf_data(&tail)[i], byte_at(size - tail_len + i));
	buf_done(&head);
	buf_done(&tail);
	fake_free(f);
}

static void
test_output_sizes(void **state)
{
	static const uint64_t sizes[] = {
		0,
		1,
		32768,
		32769,
		GUEST_HEAD_MAX - 1,
		GUEST_HEAD_MAX,
		GUEST_HEAD_MAX + 1,
		GUEST_HEAD_MAX + GUEST_TAIL_MAX - 1,
		GUEST_HEAD_MAX + GUEST_TAIL_MAX,
		GUEST_HEAD_MAX + GUEST_TAIL_MAX + 1,
		GUEST_HEAD_MAX + 3 * GUEST_TAIL_MAX + 5,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		check_size(sizes[i]);
}

static void
test_output_credit(void **state)
{
	const struct guest_h_credit more = {.limit = GUEST_WINDOW + 10};
	const struct guest_h_credit less = {.limit = 5};
	struct fake *f = new_box();
	struct output *o = &f->g.runs[0].out[0];

	(void)state;
	write_run(f, 0, GUEST_WINDOW + 100);
	output_pump(&f->g, o);
	assert_int_equal(o->framed, GUEST_WINDOW);
	assert_int_equal(guest_on_h_credit(&f->g, 1, STREAM_STDOUT, &more), 0);
	assert_int_equal(o->framed, GUEST_WINDOW + 10);
	assert_int_equal(guest_on_h_credit(&f->g, 1, STREAM_STDOUT, &less), 0);
	assert_int_equal(o->credit, GUEST_WINDOW + 10);
	assert_false(output_finish(&f->g, o)); /* the rest waits for credit */
	assert_int_equal(guest_on_h_credit(&f->g, 1, STREAM_STDIN, &more), -EBADMSG);
	assert_int_equal(guest_on_h_credit(&f->g, 2, STREAM_STDOUT, &more), 0); /* it is over */
	assert_int_equal(guest_on_h_credit(&f->g, 1, STREAM_VALUE, &more), 0);
	assert_int_equal(f->g.runs[0].out[2].credit, GUEST_WINDOW + 10);
	assert_int_equal(guest_on_h_credit(&f->g, 1, 4, &more), -EBADMSG);
	fake_free(f);
}

/* A frame is what engines copy at once: much output comes in whole ones. */
static void
test_output_in_whole_pieces(void **state)
{
	struct fake *f = new_box();
	struct guest_frame frame;
	size_t whole = 0, all = 0;

	(void)state;
	write_run(f, 0, 3 * GUEST_PIECE + 1);
	output_pump(&f->g, &f->g.runs[0].out[0]);
	while (fake_next_frame(&f->g.stream.kept, &frame)) {
		whole += frame.len == GUEST_PIECE;
		all++;
	}
	assert_int_equal(whole, 3);
	assert_int_equal(all, 4);
	assert_int_equal(GUEST_HEADER_LEN + GUEST_PIECE + GUEST_CRC_LEN, 32768);
	fake_free(f);
}

static void
test_output_stops_for_unacknowledged_frames(void **state)
{
	struct fake *f = new_box();
	struct output *o = &f->g.runs[0].out[0];

	(void)state;
	o->credit = UINT64_MAX;
	write_run(f, 0, GUEST_HEAD_MAX);
	output_pump(&f->g, o);
	assert_false(stream_has_room(&f->g.stream));
	assert_true(o->framed < 3 * GUEST_WINDOW);
	fake_free(f);
}

static void
test_output_window_without_session(void **state)
{
	struct fake *f = new_box();
	struct output *o = &f->g.runs[0].out[0];

	(void)state;
	f->g.stream.session = SESSION_LOST;
	assert_true(output_may_read(&f->g, o));
	write_run(f, 0, GUEST_WINDOW);
	assert_false(output_may_read(&f->g, o));
	f->g.stream.session = SESSION_OPEN;
	assert_true(output_may_read(&f->g, o));
	fake_free(f);
}

static void
test_output_read_is_bounded(void **state)
{
	struct fake *f = new_box();

	(void)state;
	assert_true(output_read(&f->g.runs[0].out[0], false)); /* empty */
	write_run(f, 0, 10);
	assert_true(output_read(&f->g.runs[0].out[0], true));
	assert_int_equal(f->g.runs[0].out[0].total, 10);
	(void)close(f->run_out);
	assert_true(output_read(&f->g.runs[0].out[0], true)); /* end of file */
	f->run_out = -1;
	fake_free(f);
}

/* Two runs write at once: each frame bears its run's number, and one's credit is not the other's.
 */
static void
test_output_of_two_runs(void **state)
{
	const struct guest_h_credit more = {.limit = 100};
	struct fake *f = new_box();
	struct run *second = fake_run(f, 7);
	struct guest_frame frame;

	(void)state;
	f->g.runs[0].out[0].credit = 1;
	second->out[0].credit = 1;
	output_put(&f->g.runs[0].out[0], (const uint8_t *)"ab", 2);
	output_put(&second->out[0], (const uint8_t *)"xy", 2);
	output_pump(&f->g, &second->out[0]);
	output_pump(&f->g, &f->g.runs[0].out[0]);
	assert_int_equal(guest_on_h_credit(&f->g, 7, STREAM_STDOUT, &more), 0);
	for (int i = 0; i < 3; i++) {
		assert_true(fake_next_frame(&f->g.stream.kept, &frame));
		assert_int_equal(frame.run, ((const int[]){7, 1, 7})[i]);
		assert_int_equal(frame.payload[0], "xay"[i]);
	}
	assert_false(fake_next_frame(&f->g.stream.kept, &frame));
	fake_free(f);
}

/* A flood beside the calls of others: the first part at once, then piece by piece, and what is
 * only counted is read with rests between. */
static void
test_output_paced(void **state)
{
	struct fake *f = new_box();
	struct output *o = &f->g.runs[0].out[0];
	uint64_t now;

	(void)state;
	f->g.pause_us = 60000000;
	write_run(f, 0, 200000);
	output_pump(&f->g, o);
	assert_int_equal(o->framed, 3 * GUEST_PIECE); /* the first past what never waits */
	output_pump(&f->g, o);
	assert_int_equal(o->framed, 3 * GUEST_PIECE);
	now = clock_now_us();
	assert_true(output_next_us(&f->g, o, now) > now + 50000000);
	assert_true(output_may_read(&f->g, o));
	o->next_us = now;
	output_pump(&f->g, o);
	assert_int_equal(o->framed, 4 * GUEST_PIECE);
	output_rest(&f->g, o);
	assert_int_equal(o->rest_us, 0); /* all of this is kept */
	write_run(f, 200000, GUEST_HEAD_MAX + 10);
	output_rest(&f->g, o);
	assert_true(o->rest_us > now);
	o->rest_us = clock_now_us() + 1000000;
	assert_false(output_may_read(&f->g, o));
	assert_int_equal(output_next_us(&f->g, o, clock_now_us()), o->rest_us);
	f->g.pause_us = 0; /* the others are gone */
	output_pump(&f->g, o);
	assert_int_equal(o->framed, GUEST_WINDOW);
	fake_free(f);
}

static uint64_t
framed_with(uint64_t head_max, uint32_t flags, uint32_t timeout_ms, uint64_t left_ms)
{
	struct fake *f = new_box();
	struct run *run = &f->g.runs[0];
	uint64_t framed;

	f->g.pause_us = 60000000;
	run->out[0].head_max = head_max;
	run->result.flags = flags;
	run->what.timeout_ms = timeout_ms;
	run->deadline_ms = timeout_ms ? clock_now_ms() + left_ms : 0;
	write_run(f, 0, 200000);
	output_pump(&f->g, &run->out[0]);
	framed = run->out[0].framed;
	fake_free(f);
	return framed;
}

/* What is wanted whole, a run that is to end, and one that has used half of its time. */
static void
test_output_not_paced(void **state)
{
	(void)state;
	assert_int_equal(framed_with(GUEST_HEAD_MAX, 0, 0, 0), 3 * GUEST_PIECE);
	assert_int_equal(framed_with(UINT64_MAX, 0, 0, 0), 200000);
	assert_int_equal(framed_with(GUEST_HEAD_MAX, EXIT_ENDED, 0, 0), 200000);
	assert_int_equal(framed_with(GUEST_HEAD_MAX, EXIT_TIMED_OUT, 0, 0), 200000);
	assert_int_equal(framed_with(GUEST_HEAD_MAX, 0, 100000, 90000), 3 * GUEST_PIECE);
	assert_int_equal(framed_with(GUEST_HEAD_MAX, 0, 100000, 50000), 200000);
	assert_int_equal(framed_with(GUEST_HEAD_MAX, 0, 600, 500), 200000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output_sizes),
		cmocka_unit_test(test_output_credit),
		cmocka_unit_test(test_output_in_whole_pieces),
		cmocka_unit_test(test_output_stops_for_unacknowledged_frames),
		cmocka_unit_test(test_output_window_without_session),
		cmocka_unit_test(test_output_read_is_bounded),
		cmocka_unit_test(test_output_of_two_runs),
		cmocka_unit_test(test_output_paced),
		cmocka_unit_test(test_output_not_paced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
