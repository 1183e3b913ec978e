/* reaper/ledger.c: what a next reaper finds, whatever happened to this one. */
#include "test.h"
#include "reaper.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define SLOTS 64u
#define SLOT_BYTES 512u

static int memfd;
static struct ledger l;

static int
setup(void **state)
{
	(void)state;
	memfd = memfd_create("test", MFD_CLOEXEC);
	assert_true(memfd >= 0);
	assert_int_equal(ftruncate(memfd, SLOTS * SLOT_BYTES), 0);
	assert_int_equal(ledger_open(&l, memfd), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	ledger_close(&l);
	ledger_close(&l); /* harmless */
	assert_int_equal(close(memfd), 0);
	return 0;
}

static void
reopen(void)
{
	ledger_close(&l);
	assert_int_equal(ledger_open(&l, memfd), 0);
}

static uint32_t
store_new(uint64_t box, enum box_state s)
{
	struct record rec = {.box = box, .state = s, .end_ns = 7, .pid = 99, .name = "name"};
	uint32_t slot;

	memset(rec.secret, 0x5a, sizeof(rec.secret));
	memset(rec.container, 'a', 64);
	assert_int_equal(ledger_alloc(&l, &slot), 0);
	ledger_store(&l, slot, &rec);
	return slot;
}

static uint32_t
count_recovered(void)
{
	struct record rec;
	uint32_t cursor = 0, slot, n = 0;

	while (ledger_recover(&l, &cursor, &slot, &rec))
		n++;
	return n;
}

static void
test_open_refuses_odd_sizes(void **state)
{
	static const off_t sizes[] = {0, 1, 511, 513, 65537 * 512};
	struct ledger other = {.fd = -1};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int fd = memfd_create("odd", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, sizes[i]), 0);
		assert_int_equal(ledger_open(&other, fd), -EINVAL);
		assert_int_equal(close(fd), 0);
	}
	assert_int_equal(ledger_open(&other, -1), -EBADF);
}

static void
test_recover_gives_back_what_was_stored(void **state)
{
	struct record rec;
	uint32_t cursor = 0, slot;

	(void)state;
	assert_int_equal(store_new(11, BOX_INTENDED), 0);
	assert_int_equal(store_new(12, BOX_ARMED), 1);
	reopen();
	assert_true(ledger_recover(&l, &cursor, &slot, &rec));
	assert_int_equal(slot, 0);
	assert_int_equal(rec.box, 11);
	assert_int_equal(rec.state, BOX_INTENDED);
	assert_int_equal(rec.secret[31], 0x5a);
	assert_true(ledger_recover(&l, &cursor, &slot, &rec));
	assert_int_equal(rec.box, 12);
	assert_false(ledger_recover(&l, &cursor, &slot, &rec));
	/* and the recovered slots are taken */
	assert_int_equal(ledger_alloc(&l, &slot), 0);
	assert_int_equal(slot, 2);
}

static void
test_latest_change_counts(void **state)
{
	struct record rec;
	uint32_t cursor = 0, slot = store_new(5, BOX_INTENDED);

	(void)state;
	for (uint64_t i = 1; i <= 9; i++) {
		struct record change = {.box = 5, .state = BOX_ARMED, .deadline_ns = i};
		ledger_store(&l, slot, &change);
	}
	reopen();
	assert_true(ledger_recover(&l, &cursor, &slot, &rec));
	assert_int_equal(rec.deadline_ns, 9);
	assert_int_equal(rec.seq, 10);
}

/* A writer killed at any byte leaves the state before or the one after, never neither. */
static void
test_torn_write_keeps_the_former_state(void **state)
{
	uint8_t before[SLOT_BYTES], after[SLOT_BYTES];
	uint32_t slot = store_new(5, BOX_INTENDED);
	struct record change = {.box = 5, .state = BOX_CREATED, .pid = 4711};

	(void)state;
	memcpy(before, l.map, sizeof(before));
	ledger_store(&l, slot, &change);
	memcpy(after, l.map, sizeof(after));
	for (size_t done = 0; done <= SLOT_BYTES; done++) {
		struct record rec;
		uint32_t cursor = 0;

		memcpy(l.map, before, sizeof(before));
		/* zeroed first, as the writer does, then the bytes up to done */
		memset(l.map + 256, 0, 256);
		memcpy(l.map, after, done < 256 ? 256 : done);
		reopen();
		assert_true(ledger_recover(&l, &cursor, &slot, &rec));
		assert_int_equal(rec.box, 5);
		assert_int_equal(rec.state, done == SLOT_BYTES ? BOX_CREATED : BOX_INTENDED);
	}
}

static void
test_damaged_slots_are_skipped(void **state)
{
	(void)state;
	store_new(1, BOX_ARMED);
	store_new(2, BOX_ARMED);
	for (size_t i = 0; i < 256; i++) {
		l.map[i] ^= 0x10;
		reopen();
		assert_int_equal(count_recovered(), 1);
		l.map[i] ^= 0x10;
	}
	reopen();
	assert_int_equal(count_recovered(), 2);
}

static void
test_random_bytes_are_no_boxes(void **state)
{
	uint32_t seed = 4711;

	(void)state;
	for (size_t i = 0; i < SLOTS * SLOT_BYTES; i++)
		l.map[i] = (uint8_t)test_random(&seed);
	reopen();
	assert_int_equal(count_recovered(), 0);
}

static void
test_clear_leaves_no_secret(void **state)
{
	static const uint8_t secret[] = {0x5a, 0x5a, 0x5a, 0x5a};
	uint32_t slot = store_new(1, BOX_ARMED), again;
	struct record change = {.box = 1, .state = BOX_KILLING};

	(void)state;
	memset(change.secret, 0x5a, sizeof(change.secret));
	ledger_store(&l, slot, &change);
	ledger_clear(&l, slot);
	assert_null(memmem(l.map, SLOTS * SLOT_BYTES, secret, sizeof(secret)));
	reopen();
	assert_int_equal(count_recovered(), 0);
	assert_int_equal(ledger_alloc(&l, &again), 0);
	assert_int_equal(again, slot);
	/* the slot's sequence goes on, so an old copy can never win */
	struct record next = {.box = 2, .state = BOX_INTENDED};
	ledger_store(&l, again, &next);
	assert_true(next.seq > change.seq);
}

static void
test_full_ledger(void **state)
{
	uint32_t slot;

	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++)
		store_new(i + 1, BOX_INTENDED);
	assert_int_equal(ledger_alloc(&l, &slot), -ENOSPC);
	ledger_clear(&l, 17);
	assert_int_equal(ledger_alloc(&l, &slot), 0);
	assert_int_equal(slot, 17);
}

/* Looking for boxes must not allocate the memory of slots never used. */
static void
test_recovery_touches_no_page(void **state)
{
	struct stat st;
	struct ledger big = {.fd = -1};
	struct record rec;
	uint32_t cursor = 0, slot;
	int fd = memfd_create("big", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 2 * 1024 * 1024), 0);
	assert_int_equal(ledger_open(&big, fd), 0);
	assert_int_equal(big.slots, 4096);
	assert_false(ledger_recover(&big, &cursor, &slot, &rec));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	ledger_close(&big);
	assert_int_equal(close(fd), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_open_refuses_odd_sizes),    T(test_recover_gives_back_what_was_stored),
		T(test_latest_change_counts),      T(test_torn_write_keeps_the_former_state),
		T(test_damaged_slots_are_skipped), T(test_random_bytes_are_no_boxes),
		T(test_clear_leaves_no_secret),    T(test_full_ledger),
		T(test_recovery_touches_no_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
