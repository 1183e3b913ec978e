/* broker/store.c: what is kept of a run's output, for whom, how long, and what goes first. */
#include "test.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "broker_world.h"
#include "store_parts.h"

static int fd;
static struct store *s;
static struct owner me = {.kind = OWNER_UID, .number = 1000};

static void
open_store(uint32_t blocks)
{
	fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(BLOCKS_AT + (size_t)blocks * BLOCK)), 0);
	assert_int_equal(store_open(fd, &s), 0);
}

static int
setup(void **state)
{
	(void)state;
	world_skew_ms = 0;
	open_store(BLOCKS_MAX);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	store_close(s);
	s = NULL;
	assert_int_equal(close(fd), 0);
	return 0;
}

static void
small(uint32_t blocks)
{
	(void)teardown(NULL);
	open_store(blocks);
}

/* "00…0n": the run's id. */
static const char *
id_of(uint32_t n)
{
	static char id[33];

	(void)snprintf(id, sizeof(id), "%032x", n);
	return id;
}

static uint32_t
begin(uint32_t n)
{
	return store_run_new(s, id_of(n), "", 7, &me);
}

static void
end(uint32_t run)
{
	store_run_end(s, run, &(struct store_end){.status = RUN_ok, .cause = CAUSE_DONE});
}

/* The byte every stream of these tests has at a place. */
static uint8_t
byte_at(uint64_t at, uint32_t stream)
{
	return (uint8_t)(at * 7 + at / 251 + stream);
}

static void
put(uint32_t run, uint32_t stream, uint64_t from, size_t n, bool tail)
{
	static uint8_t data[GUEST_PAYLOAD_MAX];

	while (n > 0) {
		size_t part = n < sizeof(data) ? n : sizeof(data);
		for (size_t i = 0; i < part; i++)
			data[i] = byte_at(from + i, stream);
		store_put(s, run, stream, data, part, tail);
		from += part;
		n -= part;
	}
}

/* Reads everything from offset on; every byte must be the right one. How many there were. */
static uint64_t
check_from(uint32_t run, uint32_t stream, uint64_t offset)
{
	struct store_extent x;
	uint64_t at, count = 0, least = offset;
	const uint8_t *p;
	size_t n;

	store_extent(s, run, stream, &x);
	assert_true(x.head <= x.tail && x.tail <= x.written);
	while ((n = store_read(s, run, stream, least, &at, &p)) > 0) {
		assert_true(at >= least && at + n <= x.written);
		assert_true(at + n <= x.head || at >= x.tail); /* nothing of the gap */
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], byte_at(at + i, stream));
		least = at + n;
		count += n;
	}
	return count;
}

static void
test_short_output(void **state)
{
	struct store_extent x;
	struct store_facts f;
	uint32_t run = begin(1);

	(void)state;
	put(run, STREAM_STDOUT, 0, 100, false);
	put(run, STREAM_STDERR, 0, 3, false);
	put(run, STREAM_STDOUT, 100, 50, false);
	put(run, STREAM_STDIN, 0, 50, false); /* neither is kept */
	put(run, STREAM_VALUE, 0, 50, false);
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_int_equal(x.written, 150);
	assert_true(x.head == 150 && x.tail == 150);
	assert_int_equal(check_from(run, STREAM_STDOUT, 0), 150);
	assert_int_equal(check_from(run, STREAM_STDOUT, 149), 1);
	assert_int_equal(check_from(run, STREAM_STDOUT, 150), 0);
	assert_int_equal(check_from(run, STREAM_STDOUT, UINT64_MAX), 0);
	assert_int_equal(check_from(run, STREAM_STDERR, 0), 3);
	assert_int_equal(check_from(run, STREAM_VALUE, 0), 0);
	store_facts(s, run, &f);
	assert_false(f.ended);
	assert_string_equal(f.run_id, id_of(1));
	world_skew_ms += 5000;
	store_run_end(s, run,
		      &(struct store_end){.status = RUN_nonzero,
					  .cause = CAUSE_DONE,
					  .exit_code = 3,
					  .written = {999, 999}}); /* no gap: our count holds */
	put(run, STREAM_STDOUT, 150, 50, false);                   /* too late */
	store_facts(s, run, &f);
	assert_true(f.ended);
	assert_true(f.ended_ms - f.started_ms >= 5000);
	assert_int_equal(f.end.status, RUN_nonzero);
	assert_int_equal(f.end.exit_code, 3);
	assert_int_equal(f.end.written[0], 150);
	assert_int_equal(f.end.written[1], 3);
}

static void
test_long_output_keeps_head_and_tail(void **state)
{
	static const uint64_t head = SHORT + (uint64_t)(RUN_BLOCKS - 1) * BLOCK;
	struct store_extent x;
	uint32_t run = begin(1);

	(void)state;
	put(run, STREAM_STDOUT, 0, head, false);
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_true(x.head == head && x.tail == head);
	put(run, STREAM_STDOUT, head, 5000, false);
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_true(x.head == head && x.tail == head); /* the ring goes on where the head ends */
	assert_int_equal(check_from(run, STREAM_STDOUT, 0), head + 5000);
	put(run, STREAM_STDOUT, head + 5000, 5000, false);
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_int_equal(x.written, head + 10000);
	assert_int_equal(x.tail, x.written - RING);
	assert_int_equal(check_from(run, STREAM_STDOUT, 0), head + RING);
	assert_int_equal(check_from(run, STREAM_STDOUT, head), RING); /* from the gap: the tail */
	assert_int_equal(check_from(run, STREAM_STDOUT, x.written - 10), 10);
	put(run, STREAM_STDOUT, x.written, 3 * RING + 17, false); /* in pieces above the ring */
	assert_int_equal(check_from(run, STREAM_STDOUT, head + 1), RING);
	/* The run's share is used up: the other stream has its first bytes and its ring. */
	put(run, STREAM_STDERR, 0, 10000, false);
	store_extent(s, run, STREAM_STDERR, &x);
	assert_int_equal(x.head, SHORT);
	assert_int_equal(check_from(run, STREAM_STDERR, 0), SHORT + RING);
	assert_int_equal(check_from(run, STREAM_STDOUT, 0), head + RING);
}

static void
test_a_tail_of_the_guest(void **state)
{
	struct store_extent x;
	uint32_t run = begin(1);

	(void)state;
	put(run, STREAM_STDOUT, 0, 40000, false);
	put(run, STREAM_STDOUT, 1000000, 3000, true); /* 957000 bytes were dropped before it */
	put(run, STREAM_STDOUT, 1003000, 2000, true);
	put(run, STREAM_STDOUT, 1005000, 10, false); /* against the rules, and harmless */
	store_run_end(s, run,
		      &(struct store_end){.status = RUN_ok, .written = {1005010, UINT64_MAX}});
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_int_equal(x.written, 1005010);
	assert_int_equal(x.head, 40000);
	assert_int_equal(x.tail, 1000000);
	assert_int_equal(check_from(run, STREAM_STDOUT, 0), 40000 + 5010);
	store_extent(s, run, STREAM_STDERR, &x);
	assert_int_equal(x.written, 0);
}

static void
test_only_its_owner_finds_it(void **state)
{
	struct owner other = {.kind = OWNER_UID, .number = 1001},
		     tree = {.kind = OWNER_TREE, .number = 1000},
		     ann = {.kind = OWNER_TOKEN, .principal = "ann"},
		     bob = {.kind = OWNER_TOKEN, .principal = "bob"};
	char box[33], mine[33];

	(void)state;
	(void)snprintf(box, sizeof(box), "%s", id_of(0xb0));
	(void)snprintf(mine, sizeof(mine), "%s", id_of(1));
	uint32_t first = store_run_new(s, mine, box, 7, &me);
	uint32_t second = store_run_new(s, id_of(2), box, 7, &me);
	uint32_t anns = store_run_new(s, id_of(3), box, 7, &ann);
	uint32_t step = store_run_new(s, id_of(4), "", 7, &me);
	assert_int_equal(store_find(s, mine, &me), first);
	assert_int_equal(store_find(s, box, &me), second); /* the newest */
	assert_int_equal(store_find(s, box, &ann), anns);
	assert_int_equal(store_find(s, id_of(4), &me), step);
	assert_int_equal(store_find(s, "", &me), STORE_NONE);
	assert_int_equal(store_find(s, id_of(5), &me), STORE_NONE);
	assert_int_equal(store_find(s, mine, &other), STORE_NONE);
	assert_int_equal(store_find(s, mine, &tree), STORE_NONE);
	assert_int_equal(store_find(s, box, &other), STORE_NONE);
	assert_int_equal(store_find(s, id_of(3), &bob), STORE_NONE);
	assert_int_equal(store_find(s, id_of(3), &ann), anns);
	end(second); /* an end changes nothing of it */
	assert_int_equal(store_find(s, box, &me), second);
}

static void
test_the_oldest_ended_goes_first(void **state)
{
	uint32_t run[4];

	(void)state;
	small(4);
	for (uint32_t i = 0; i < 3; i++) {
		run[i] = begin(i);
		put(run[i], STREAM_STDOUT, 0, SHORT + 10, false);
	}
	end(run[1]);
	end(run[0]);
	run[3] = begin(3);
	put(run[3], STREAM_STDOUT, 0, SHORT + 2 * BLOCK, false); /* one is free, one is needed */
	assert_int_equal(store_find(s, id_of(1), &me), STORE_NONE);
	assert_int_equal(store_find(s, id_of(0), &me), run[0]);
	assert_int_equal(check_from(run[0], STREAM_STDOUT, 0), SHORT + 10);
	put(run[3], STREAM_STDOUT, SHORT + 2 * BLOCK, BLOCK, false);
	assert_int_equal(store_find(s, id_of(0), &me), STORE_NONE);
	/* Only runs that go on are left: nothing of theirs is taken, the rest is counted. */
	put(run[3], STREAM_STDOUT, SHORT + 3 * BLOCK, 1000, false);
	struct store_extent x;
	store_extent(s, run[3], STREAM_STDOUT, &x);
	assert_int_equal(x.written, SHORT + 3 * BLOCK + 1000);
	assert_int_equal(x.head, SHORT + 3 * BLOCK);
	assert_int_equal(x.tail, x.written);
	assert_int_equal(check_from(run[3], STREAM_STDOUT, 0), SHORT + 3 * BLOCK);
	assert_int_equal(check_from(run[2], STREAM_STDOUT, 0), SHORT + 10);
	/* With room again the last bytes are kept, by themselves. */
	end(run[2]);
	put(run[3], STREAM_STDOUT, x.written, 100, false);
	assert_int_equal(check_from(run[3], STREAM_STDOUT, 0), SHORT + 3 * BLOCK + 100);
	store_extent(s, run[3], STREAM_STDOUT, &x);
	assert_int_equal(x.tail, x.written - 100);
}

static void
test_places_are_counted(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < ENTRIES; i++)
		assert_true(begin(i) < ENTRIES);
	assert_int_equal(begin(ENTRIES), STORE_NONE);
	uint32_t run = store_find(s, id_of(77), &me);
	end(run);
	assert_int_equal(begin(ENTRIES), run);
	assert_int_equal(store_find(s, id_of(77), &me), STORE_NONE);
	assert_int_equal(begin(ENTRIES + 1), STORE_NONE);
}

static void
test_a_flood_pushes_out_only_its_own(void **state)
{
	struct owner ann = {.kind = OWNER_TOKEN, .principal = "ann"};
	struct store_extent x;
	uint32_t run = 0;

	(void)state;
	small(8);
	uint32_t anns = store_run_new(s, id_of(1000), "", 7, &ann); /* the oldest end of all */
	put(anns, STREAM_STDOUT, 0, SHORT + 2 * BLOCK, false);
	end(anns);
	for (uint32_t i = 0; i < 20; i++) {
		run = begin(i);
		put(run, STREAM_STDOUT, 0, SHORT + 2 * BLOCK, false);
		end(run);
	}
	assert_int_equal(store_find(s, id_of(1000), &ann), anns);
	assert_int_equal(check_from(anns, STREAM_STDOUT, 0), SHORT + 2 * BLOCK);
	assert_int_equal(store_find(s, id_of(16), &me), STORE_NONE);
	assert_int_not_equal(store_find(s, id_of(17), &me), STORE_NONE);
	/* Nor does one run that takes all there is. */
	run = begin(50);
	put(run, STREAM_STDOUT, 0, SHORT + 20 * BLOCK, false);
	store_extent(s, run, STREAM_STDOUT, &x);
	assert_int_equal(x.head, SHORT + 6 * BLOCK);
	assert_int_equal(x.written, SHORT + 20 * BLOCK);
	assert_int_equal(store_find(s, id_of(1000), &ann), anns);
	/* Whoever holds less gets room from whoever holds most, once that has ended. */
	end(run);
	uint32_t more = store_run_new(s, id_of(1001), "", 7, &ann);
	put(more, STREAM_STDOUT, 0, SHORT + 3 * BLOCK, false);
	assert_int_equal(check_from(more, STREAM_STDOUT, 0), SHORT + 3 * BLOCK);
	assert_int_equal(check_from(anns, STREAM_STDOUT, 0), SHORT + 2 * BLOCK);
	assert_int_equal(store_find(s, id_of(50), &me), STORE_NONE);
}

static void
test_nor_does_a_flood_of_short_runs(void **state)
{
	struct owner ann = {.kind = OWNER_TOKEN, .principal = "ann"};
	uint32_t anns = store_run_new(s, id_of(90000), "", 7, &ann);

	(void)state;
	put(anns, STREAM_STDOUT, 0, 10, false);
	end(anns);
	for (uint32_t i = 0; i < ENTRIES + 100; i++)
		end(begin(i));
	assert_int_equal(store_find(s, id_of(90000), &ann), anns);
	assert_int_equal(store_find(s, id_of(100), &me), STORE_NONE);
	assert_int_not_equal(store_find(s, id_of(101), &me), STORE_NONE);
	/* All is known again to the next broker. */
	store_close(s);
	assert_int_equal(store_open(fd, &s), 0);
	end(begin(200000));
	assert_int_not_equal(store_find(s, id_of(90000), &ann), STORE_NONE);
	store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	for (uint32_t i = 0; i < 16; i++) /* 256 at once */
		store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	assert_int_equal(store_find(s, id_of(90000), &ann), STORE_NONE);
	assert_int_equal(store_find(s, id_of(200000), &me), STORE_NONE);
}

static uint64_t
resident(void)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void
test_after_ten_minutes_it_goes(void **state)
{
	uint32_t first = begin(1), second = begin(2), going = begin(3);

	(void)state;
	put(first, STREAM_STDOUT, 0, 500000, false);
	put(second, STREAM_STDOUT, 0, 500000, false);
	put(going, STREAM_STDOUT, 0, 1000, false);
	uint64_t before = clock_now_ms();
	end(first);
	uint64_t after = clock_now_ms(); /* the first ended between these two */
	world_skew_ms += 1000;
	end(second);
	assert_true(resident() > 1000000);
	store_tick(s, before + STORE_KEEP_MS - 1);
	assert_int_equal(store_find(s, id_of(1), &me), first);
	store_tick(s, after + STORE_KEEP_MS);
	assert_int_equal(store_find(s, id_of(1), &me), STORE_NONE);
	assert_int_equal(store_find(s, id_of(2), &me), second);
	assert_true(resident() < 600000 && resident() > 500000);
	store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	assert_int_equal(store_find(s, id_of(2), &me), STORE_NONE);
	assert_int_equal(check_from(going, STREAM_STDOUT, 0), 1000);
	end(going);
	store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	assert_int_equal(resident(), 0); /* the index too */
	store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	assert_int_equal(resident(), 0);
	uint32_t again = begin(4); /* and it works as before */
	put(again, STREAM_STDOUT, 0, 100000, false);
	assert_int_equal(check_from(again, STREAM_STDOUT, 0), 100000);
}

static void
test_without_a_store(void **state)
{
	struct store_extent x;
	const uint8_t *p;
	uint64_t at;

	(void)state;
	assert_int_equal(store_run_new(NULL, id_of(1), "", 7, &me), STORE_NONE);
	store_put(NULL, STORE_NONE, STREAM_STDOUT, "x", 1, false);
	store_put(s, STORE_NONE, STREAM_STDOUT, "x", 1, false);
	store_put(s, 5, STREAM_STDOUT, "x", 1, false);
	store_run_end(NULL, STORE_NONE, &(struct store_end){.status = RUN_ok});
	store_run_end(s, STORE_NONE, &(struct store_end){.status = RUN_ok});
	store_tick(NULL, UINT64_MAX);
	assert_int_equal(store_find(NULL, id_of(1), &me), STORE_NONE);
	store_extent(s, STORE_NONE, STREAM_STDOUT, &x);
	assert_int_equal(x.written, 0);
	assert_int_equal(store_read(s, STORE_NONE, STREAM_STDOUT, 0, &at, &p), 0);
	store_close(NULL);
	assert_int_equal(resident(), 0);
}

struct model {
	uint32_t run;
	bool live;
	uint64_t written[2];
};

/* Any order of everything, in little memory: what is read back is what was written. */
static void
test_against_a_model(void **state)
{
	struct model m[16] = {{.live = false}};
	uint32_t seed = 90210, next = 1, kept = 0;

	(void)state;
	small(150);
	for (int step = 0; step < 20000; step++) {
		struct model *x = &m[test_random(&seed) % ARRAY_LEN(m)];
		uint32_t dice = test_random(&seed), which = dice >> 8 & 1;

		if (!x->live) {
			*x = (struct model){.run = begin(next++), .live = true};
			assert_true(x->run < ENTRIES);
		} else if (dice % 64 == 0) {
			end(x->run);
			x->live = false;
		} else {
			size_t n = dice % 7 == 0 ? dice >> 16 & 0x7fff : dice >> 16 & 0xff;
			put(x->run, which + 1, x->written[which], n, false);
			x->written[which] += n;
		}
		if (step % 512 == 0)
			store_tick(s, clock_now_ms());
		if (!x->live || dice % 32 != 1)
			continue;
		struct store_extent e;
		store_extent(s, x->run, which + 1, &e);
		assert_int_equal(e.written, x->written[which]);
		kept += check_from(x->run, which + 1, 0) > 0;
	}
	assert_true(kept > 100);
	for (size_t i = 0; i < ARRAY_LEN(m); i++)
		if (m[i].live)
			end(m[i].run);
	for (uint32_t i = 0; i < 50; i++)
		store_tick(s, clock_now_ms() + STORE_KEEP_MS);
	assert_int_equal(s->n_free, 150);
	assert_int_equal(s->n_open, ENTRIES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_short_output, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_output_keeps_head_and_tail, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_tail_of_the_guest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_its_owner_finds_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_oldest_ended_goes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_places_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_flood_pushes_out_only_its_own, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_nor_does_a_flood_of_short_runs, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_after_ten_minutes_it_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_a_store, setup, teardown),
		cmocka_unit_test_setup_teardown(test_against_a_model, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
