/* What outlives a broker: written, read back by the next one, torn, full. */
#include "test.h"

#include <sys/mman.h>

#include "broker_world.h"

static int memory;
static struct keep *k;

static int
open_keep(void **state)
{
	(void)state;
	memory = memfd_create("keep", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memory, (off_t)KEEP_BYTES), 0);
	assert_int_equal(keep_open(memory, 0, &k), 0);
	return 0;
}

static int
close_keep(void **state)
{
	(void)state;
	keep_close(k);
	assert_int_equal(close(memory), 0);
	return 0;
}

static void
next_broker(void)
{
	keep_close(k);
	assert_int_equal(keep_open(memory, 0, &k), 0);
}

static struct keep_box
box_record(uint64_t box, uint32_t n_runs)
{
	struct keep_box b = {.box = box, .n_runs = n_runs, .guest_seq = box * 10};

	memset(b.name.id, 'a', 32);
	memset(b.container, 'c', 64);
	for (uint32_t i = 0; i < n_runs; i++) {
		b.run[i].number = i + 1;
		memset(b.run[i].run_id, 'r', 32);
	}
	return b;
}

static uint32_t
count(void)
{
	static struct keep_box b;
	uint32_t cursor = 0, place, n = 0;

	while (keep_next(k, &cursor, &place, &b))
		n++;
	return n;
}

static void
test_the_last_word_counts(void **state)
{
	static struct keep_box b, got;
	uint32_t one = keep_new(k), two = keep_new(k), cursor = 0, place;

	(void)state;
	assert_int_not_equal(one, two);
	for (uint64_t i = 1; i <= 5; i++) {
		b = box_record(7, (uint32_t)i);
		b.guest_seq = i;
		keep_put(k, one, &b);
	}
	b = box_record(8, 0);
	keep_put(k, two, &b);
	next_broker();
	assert_true(keep_next(k, &cursor, &place, &got));
	assert_int_equal(place, one);
	assert_int_equal(got.box, 7);
	assert_int_equal(got.guest_seq, 5);
	assert_int_equal(got.n_runs, 5);
	assert_int_equal(got.run[4].number, 5);
	assert_int_equal(count(), 2);
	keep_free(k, one);
	assert_int_equal(count(), 1);
	next_broker();
	assert_int_equal(count(), 1);
	assert_int_equal(keep_new(k), one);
}

/* Whatever byte of the newer copy is wrong, the one before counts. */
static void
test_a_torn_copy_does_not_count(void **state)
{
	static struct keep_box b, got;
	uint32_t place = keep_new(k), cursor;
	const off_t newer = 4096 + (off_t)sizeof(b); /* the first write goes to the second copy */

	(void)state;
	b = box_record(7, 1);
	b.guest_seq = 1;
	keep_put(k, place, &b);
	b.guest_seq = 2;
	keep_put(k, place, &b);
	b.guest_seq = 3;
	keep_put(k, place, &b);
	for (size_t at = 0; at < offsetof(struct keep_box, run) + 8; at += 13) {
		uint8_t byte;

		assert_int_equal(pread(memory, &byte, 1, newer + (off_t)at), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(memory, &byte, 1, newer + (off_t)at), 1);
		next_broker();
		cursor = 0;
		assert_true(keep_next(k, &cursor, &place, &got));
		assert_int_equal(got.guest_seq, 2);
		byte ^= 0x40;
		assert_int_equal(pwrite(memory, &byte, 1, newer + (off_t)at), 1);
	}
	next_broker();
	cursor = 0;
	assert_true(keep_next(k, &cursor, &place, &got));
	assert_int_equal(got.guest_seq, 3);
}

static void
test_ended_ones(void **state)
{
	struct keep_ended e = {.cause = CAUSE_IDLE, .ended_ms = 77}, got;
	uint32_t place, cursor = 0;

	(void)state;
	memset(e.name.id, 'a', 32);
	place = keep_put_ended(k, &e);
	next_broker();
	assert_true(keep_next_ended(k, &cursor, &place, &got));
	assert_int_equal(got.cause, CAUSE_IDLE);
	assert_int_equal(got.ended_ms, 77);
	assert_false(keep_next_ended(k, &cursor, &place, &got));
	keep_free_ended(k, place);
	next_broker();
	cursor = 0;
	assert_false(keep_next_ended(k, &cursor, &place, &got));
	for (uint32_t i = 0; i < KEEP_ENDED_MAX; i++)
		assert_int_equal(keep_put_ended(k, &e), i);
	assert_int_equal(keep_put_ended(k, &e), KEEP_NONE); /* it is known here all the same */
}

static void
test_places_end(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < BOXES_MAX; i++)
		assert_int_equal(keep_new(k), i);
	assert_int_equal(keep_new(k), KEEP_NONE);
	assert_int_equal(count(), BOXES_MAX); /* places taken; what is empty has no box */
}

static void
test_nothing_is_kept_without_memory(void **state)
{
	static struct keep_box b;
	struct keep_ended e = {.used = 0};
	struct keep *none = NULL;
	uint32_t cursor = 0, place;
	int small = memfd_create("small", MFD_CLOEXEC);

	b = box_record(1, 0);
	(void)state;
	assert_int_equal(keep_open(small, 0, &none), -EINVAL);
	assert_int_equal(close(small), 0);
	assert_int_equal(keep_open(-1, 0, &none), -EBADF);
	assert_int_equal(keep_new(NULL), KEEP_NONE);
	keep_put(NULL, 0, &b);
	keep_put(k, KEEP_NONE, &b);
	keep_free(k, KEEP_NONE);
	keep_free_ended(k, KEEP_NONE);
	assert_int_equal(keep_put_ended(NULL, &e), KEEP_NONE);
	assert_false(keep_next(NULL, &cursor, &place, &b));
	assert_int_equal(keep_stamp_ms(NULL), 0);
	keep_stamp(NULL, 5);
	keep_stamp(k, 1234);
	next_broker();
	assert_int_equal(keep_stamp_ms(k), 1234);
	assert_int_equal(count(), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_keep, close_keep)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_last_word_counts),
		T(test_a_torn_copy_does_not_count),
		T(test_ended_ones),
		T(test_places_end),
		T(test_nothing_is_kept_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
