/* broker/store_open.c: whatever a former broker left, the next one starts and reads in bounds. */
#include "test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "broker_world.h"
#include "store_parts.h"

#define BLOCKS 200u

static int fd;
static struct store *s;
static struct owner me = {.kind = OWNER_TOKEN, .principal = "ann"};

static int
setup(void **state)
{
	(void)state;
	world_skew_ms = 0;
	fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(BLOCKS_AT + (size_t)BLOCKS * BLOCK)), 0);
	assert_int_equal(store_open(fd, &s), 0);
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
reopen(void)
{
	store_close(s);
	assert_int_equal(store_open(fd, &s), 0);
}

static const char *
id_of(uint32_t n)
{
	static char id[2][33];
	static unsigned turn;

	(void)snprintf(id[turn ^= 1], sizeof(id[0]), "%032x", n);
	return id[turn];
}

static uint8_t
byte_at(uint64_t at)
{
	return (uint8_t)(at * 13 + at / 256);
}

/* n bytes of stdout; those of a real run, in frames. */
static uint32_t
written(uint32_t id, size_t n)
{
	uint8_t data[4096];
	uint32_t run = store_run_new(s, id_of(id), id_of(0xb0), 7, &me);

	for (size_t at = 0; at < n; at += sizeof(data)) {
		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = byte_at(at + i);
		store_put(s, run, STREAM_STDOUT, data,
			  n - at < sizeof(data) ? n - at : sizeof(data), false);
	}
	return run;
}

/* Reads all that can be read; how much. Contents count where exact. */
static uint64_t
read_all(uint32_t run, uint32_t stream, bool exact)
{
	uint64_t at, offset = 0, count = 0;
	const uint8_t *p;
	uint32_t sum = 0;
	size_t n;

	while ((n = store_read(s, run, stream, offset, &at, &p)) > 0) {
		assert_true(at >= offset && n <= BLOCK);
		assert_true(p >= s->map && p + n <= s->map + s->len);
		for (size_t i = 0; i < n; i++) {
			sum += p[i];
			if (exact)
				assert_int_equal(p[i], byte_at(at + i));
		}
		offset = at + n;
		count += n;
		assert_true(count <= (uint64_t)2 << 20);
	}
	return count + (sum & 0); /* the bytes were really read */
}

static void
test_sizes(void **state)
{
	static const off_t bad[] = {0, 1, 4096, (off_t)BLOCKS_AT, (off_t)(BLOCKS_AT + BLOCK - 1)};
	struct store *none = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int small = memfd_create("small", MFD_CLOEXEC);

		assert_int_equal(ftruncate(small, bad[i]), 0);
		assert_int_equal(store_open(small, &none), -EINVAL);
		assert_int_equal(close(small), 0);
	}
	assert_int_equal(store_open(-1, &none), -EBADF);
	assert_null(none);
}

static void
test_a_fresh_one_takes_no_memory(void **state)
{
	struct stat st;

	(void)state;
	reopen();
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
}

static void
test_ended_and_going_runs(void **state)
{
	static const struct store_end how = {
		.status = RUN_signaled, .cause = CAUSE_DONE, .signal = 11};
	struct owner bob = {.kind = OWNER_TOKEN, .principal = "bob"};
	struct store_facts f;

	(void)state;
	store_run_end(s, written(1, 1500000), &how);
	store_run_end(s, written(2, 30), &how);
	(void)written(3, 20000);
	reopen();
	uint32_t run = store_find(s, id_of(1), &me);
	store_facts(s, run, &f);
	assert_true(f.ended);
	assert_int_equal(f.end.status, RUN_signaled);
	assert_int_equal(f.end.signal, 11);
	assert_int_equal(f.end.written[0], 1500000);
	assert_int_equal(read_all(run, STREAM_STDOUT, true), SHORT + 63 * BLOCK + RING);
	assert_int_equal(store_find(s, id_of(1), &bob), STORE_NONE);
	run = store_next_lost(s);
	store_facts(s, run, &f);
	assert_string_equal(f.run_id, id_of(3));
	assert_int_equal(f.box, 7);
	assert_int_equal(store_next_lost(s), STORE_NONE); /* once */
	run = store_find(s, id_of(0xb0), &me);            /* the newest is still the newest */
	store_facts(s, run, &f);
	assert_string_equal(f.run_id, id_of(3));
	assert_true(f.ended);
	assert_int_equal(f.end.status, RUN_lost);
	assert_int_equal(f.end.cause, CAUSE_BROKER_GONE);
	assert_int_equal(read_all(run, STREAM_STDOUT, true), 20000);
	/* No block belongs to two: new runs leave the old ones alone. */
	uint32_t fresh = written(4, 900000);
	assert_int_equal(store_find(s, id_of(0xb0), &me), fresh);
	assert_int_equal(read_all(run, STREAM_STDOUT, true), 20000);
	assert_int_equal(read_all(store_find(s, id_of(1), &me), STREAM_STDOUT, true),
			 SHORT + 63 * BLOCK + RING);
	assert_int_equal(read_all(fresh, STREAM_STDOUT, true), 900000);
	for (uint32_t i = 0; i < 10; i++)
		store_tick(s, clock_now_ms() + STORE_KEEP_MS + 1);
	assert_int_equal(store_find(s, id_of(1), &me), STORE_NONE);
	assert_int_equal(store_find(s, id_of(3), &me), STORE_NONE);
	assert_int_equal(store_find(s, id_of(4), &me), fresh); /* it goes on */
}

static void
test_the_order_of_ends_stays(void **state)
{
	static const uint32_t order[] = {2, 5, 1, 4, 3};
	uint32_t run[6];

	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		run[i] = written(i, 10);
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		store_run_end(s, run[order[i]], &(struct store_end){.status = RUN_ok});
		world_skew_ms += 10;
	}
	reopen();
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		assert_int_equal(store_find(s, id_of(order[i]), &me), s->holders[0].oldest);
		store_tick(s, s->entries[s->holders[0].oldest].ended_ms + STORE_KEEP_MS);
	}
}

/* What each kind of lie about itself does to an entry: it is dropped, its neighbour stays. */
static void
test_broken_entries_are_dropped(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
		size_t size;
	} lies[] = {
#define LIE(field, value) \
	{offsetof(struct entry, field), (value), sizeof(((struct entry *)0)->field)}
		LIE(state, 3),
		LIE(state, UINT32_MAX),
		LIE(status, RUN_STATUS_COUNT),
		LIE(cause, CAUSES),
		LIE(started_ms, UINT64_MAX),
		LIE(ended_ms, UINT64_MAX),
		LIE(stream[0].head, 400001), /* above what was written */
		LIE(stream[0].head, UINT64_MAX),
		LIE(stream[0].written, 1),
		LIE(stream[0].first, NONE),
		LIE(stream[0].first, BLOCKS),
		LIE(stream[0].first, BLOCKS_MAX + 7),
		LIE(stream[1].head, 5),
		LIE(stream[1].ring, 1),
		LIE(stream[0].ring, RING + 1),
		LIE(stream[0].ring_at, RING),
		LIE(stream[0].ring_at, UINT32_MAX),
		LIE(rings, BLOCKS),
		LIE(rings, 0), /* of the neighbour */
		LIE(principal[64], 'x'),
		LIE(run_id[32], 'x'),
		LIE(sandbox[32], 'x'),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		uint32_t good = written(1, 100000), bad = written(2, 400000);

		store_run_end(s, good, &(struct store_end){.status = RUN_ok});
		store_run_end(s, bad, &(struct store_end){.status = RUN_ok});
		memcpy((uint8_t *)&s->entries[bad] + lies[i].at, &lies[i].value, lies[i].size);
		reopen();
		assert_int_equal(store_find(s, id_of(2), &me), STORE_NONE);
		good = store_find(s, id_of(1), &me);
		assert_int_not_equal(good, STORE_NONE);
		assert_int_equal(read_all(good, STREAM_STDOUT, true), 100000);
		assert_int_equal(s->n_open, ENTRIES - 1);
		assert_int_equal(s->n_free, BLOCKS - 7);
		store_tick(s, clock_now_ms() + STORE_KEEP_MS + 1);
		assert_int_equal(s->n_free, BLOCKS);
	}
}

static void
test_chains_that_cross(void **state)
{
	(void)state;
	uint32_t first = written(1, 100000), second = written(2, 100000);
	store_run_end(s, first, &(struct store_end){.status = RUN_ok});
	store_run_end(s, second, &(struct store_end){.status = RUN_ok});
	uint16_t *next = s->next;
	next[s->entries[second].stream[0].first] = s->entries[first].stream[0].first;
	next[s->entries[first].stream[0].last] = s->entries[first].stream[0].first; /* a ring */
	reopen();
	/* Its end is told by its length. */
	assert_int_equal(read_all(store_find(s, id_of(1), &me), STREAM_STDOUT, true), 100000);
	assert_int_equal(store_find(s, id_of(2), &me), STORE_NONE);
	next = s->next;
	struct entry *e = &s->entries[store_find(s, id_of(1), &me)];
	next[e->stream[0].first] = e->stream[0].first;
	reopen();
	assert_int_equal(store_find(s, id_of(1), &me), STORE_NONE);
	assert_int_equal(s->n_free, BLOCKS);
}

/* Any bytes anywhere in the index. */
static void
test_random_damage(void **state)
{
	uint32_t seed = 31337;

	(void)state;
	for (int round = 0; round < 300; round++) {
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t run = written(i, test_random(&seed) % 300000);
			if (test_random(&seed) % 2 == 0)
				store_run_end(s, run, &(struct store_end){.status = RUN_ok});
		}
		for (uint32_t i = 0; i < 1 + test_random(&seed) % 40; i++) {
			uint32_t place = test_random(&seed);
			/* the strings of an entry hold nothing that could lead astray */
			size_t at = place % 2 == 0 ? (place >> 1) % (8 * sizeof(struct entry))
						   : NEXT_AT + (place >> 1) % (2 * BLOCKS);
			s->map[at] = (uint8_t)(test_random(&seed) >> 3);
		}
		reopen();
		for (uint32_t i = 0; i < ENTRIES; i++) {
			(void)read_all(i, STREAM_STDOUT, false);
			(void)read_all(i, STREAM_STDERR, false);
		}
		(void)read_all(written(99, 500000), STREAM_STDOUT, true);
		store_close(s);
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(ftruncate(fd, (off_t)(BLOCKS_AT + (size_t)BLOCKS * BLOCK)), 0);
		assert_int_equal(store_open(fd, &s), 0);
	}
}

static void
write_for_ever(void *arg)
{
	const int *done = arg;
	uint32_t id = 1, seed = 5;

	for (;;) {
		uint32_t run = written(id++, test_random(&seed) % 200000);
		store_run_end(s, run, &(struct store_end){.status = RUN_ok});
		(void)!write(*done, "", 1);
	}
}

/* Killed at any moment, what is counted is there. */
static void
test_a_writer_that_is_killed(void **state)
{
	uint32_t seed = 77, found = 0;

	(void)state;
	for (int round = 0; round < 30; round++) {
		int done[2];
		char byte;

		assert_int_equal(pipe2(done, O_CLOEXEC), 0);
		pid_t pid = fork();
		if (pid == 0) {
			write_for_ever(&done[1]);
			_exit(0);
		}
		assert_true(pid > 0);
		assert_int_equal(close(done[1]), 0);
		for (uint32_t runs = 2 + test_random(&seed) % 16; runs > 0; runs--)
			assert_int_equal(read(done[0], &byte, 1), 1);
		(void)usleep(test_random(&seed) % 500); /* somewhere in the next */
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(close(done[0]), 0);
		reopen();
		for (uint32_t i = 0; i < ENTRIES; i++)
			found += read_all(i, STREAM_STDOUT, true) > 0;
	}
	assert_true(found > 30);
}

/* A run that goes on under the next broker: what is kept of it is added to, not begun anew. */
static void
test_a_run_that_goes_on(void **state)
{
	struct owner other = {.kind = OWNER_TOKEN, .principal = "bob"};
	struct store_end end = {.status = RUN_ok};
	struct store_facts facts;
	struct store_has has;
	uint32_t run;

	(void)state;
	(void)written(1, 100);
	run = written(2, 5000);
	store_put(s, run, STREAM_STDERR, "tail", 4, true);
	(void)written(3, 10);
	store_run_end(s, written(4, 10), &end);
	reopen();
	assert_int_equal(store_run_resume(s, id_of(2), &other), STORE_NONE);
	assert_int_equal(store_run_resume(s, id_of(9), &me), STORE_NONE);
	assert_int_equal(store_run_resume(s, id_of(0xb0), &me), STORE_NONE); /* a sandbox's id */
	assert_int_equal(store_run_resume(s, id_of(4), &me), STORE_NONE);    /* it had ended */
	run = store_run_resume(s, id_of(2), &me);
	assert_int_not_equal(run, STORE_NONE);
	store_has(s, run, STREAM_STDOUT, &has);
	assert_int_equal(has.out, 5000);
	assert_int_equal(has.tail, 0);
	store_has(s, run, STREAM_STDERR, &has);
	assert_int_equal(has.out, 0);
	assert_int_equal(has.tail, 4);
	store_has(s, run, STREAM_VALUE, &has);
	assert_int_equal(has.out, 0);
	store_facts(s, run, &facts);
	assert_false(facts.ended);
	store_put(s, run, STREAM_STDOUT, "more", 4, false);
	store_run_end(s, run, &end);
	store_facts(s, run, &facts);
	assert_int_equal(facts.end.status, RUN_ok);
	assert_int_equal(facts.end.written[0], 5004);
	for (uint32_t id = 1; id <= 3; id += 2) /* the first and the last of the ended ones */
		assert_int_not_equal(store_run_resume(s, id_of(id), &me), STORE_NONE);
	assert_int_equal(store_run_resume(NULL, id_of(1), &me), STORE_NONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_run_that_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_fresh_one_takes_no_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ended_and_going_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_order_of_ends_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken_entries_are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chains_that_cross, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_damage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_writer_that_is_killed, setup, teardown),
	};

	log_init("test", LOG_L_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
