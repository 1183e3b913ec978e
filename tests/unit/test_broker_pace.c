/* Which runs are told to write slowly, and until when. */
#include "test.h"

#include "broker_world.h"

static struct client *us, *them;
static const char *ours, *theirs;

static int
two_setup(void **state)
{
	static char ids[2][33];

	(void)world_setup(state);
	us = world_client(0, OWNER_UID, 1);
	them = world_client(1, OWNER_UID, 2);
	(void)snprintf(ids[0], sizeof(ids[0]), "%s", stay(us, 0));
	(void)snprintf(ids[1], sizeof(ids[1]), "%s", stay(them, 0));
	ours = ids[0];
	theirs = ids[1];
	world_later(1000);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 0);
	return 0;
}

/* A call whose run writes so much, to its end. */
static void
call(struct client *c, const char *sandbox, uint64_t out, uint64_t err)
{
	fake.guest.exit = true;
	fake.guest.result.stdout_bytes = out;
	fake.guest.result.stderr_bytes = err;
	assert_true(ended(c, submit_within(c, sandbox, 0, "code")));
}

static void
test_nobody_else(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		call(us, ours, 10, 0);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 0);
}

static void
test_beside_short_calls(void **state)
{
	(void)state;
	call(them, theirs, 65536, 65536);
	call(us, ours, 100000000, 0);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 1);
	assert_int_equal(fake.pause_us, 32000 / w->b.settings.host_cpus);
	call(them, theirs, 10, 0);
	call(us, ours, 100000000, 0);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 1); /* it knows; ours are no short calls */
	world_later(251);
	call(us, ours, 100000000, 0);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 2);
	assert_int_equal(fake.pause_us, 0);
}

/* Both of them flood: neither would gain by the other's pauses. */
static void
test_beside_a_flood(void **state)
{
	(void)state;
	call(them, theirs, 65537, 0);
	call(us, ours, 65537, 0);
	call(them, theirs, 0, 65537);
	call(us, ours, 65537, 0);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 0);
}

/* One that goes on for long is told when others come, and when they are gone. */
static void
test_each_second(void **state)
{
	uint64_t id;

	(void)state;
	fake.guest.exit = false;
	id = submit_within(us, ours, 0, "code");
	assert_true(granted(us, id));
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_pace], 0);
	call(them, theirs, 0, 0);
	broker_tick(&w->b);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_pace], 1);
	assert_true(fake.pause_us > 0);
	world_later(1000);
	assert_int_equal(fake.host_frames[GUEST_h_pace], 2);
	assert_int_equal(fake.pause_us, 0);
	world_hang_up(us);
}

/* Who writes much while it is told to pause is counted: once since the start, and while it lasts.
 */
static void
test_counted(void **state)
{
	static const char much[30000];
	uint64_t id, before = tally_value(TALLY_paced);
	const struct run *r;

	(void)state;
	fake.guest.exit = false;
	id = submit_within(us, ours, 0, "code");
	assert_true(granted(us, id));
	world_settle();
	r = run_of(us, id);
	for (int i = 0; i < 2; i++)
		fake_guest_out(r->box->id, r->number, STREAM_STDOUT, much, sizeof(much));
	call(them, theirs, 0, 0);
	broker_tick(&w->b);
	world_settle();
	assert_true(fake.pause_us > 0);
	assert_int_equal(pace_count(&w->b), 0); /* told, and nothing of it waits */
	fake_guest_out(r->box->id, r->number, STREAM_STDOUT, much, sizeof(much));
	world_settle();
	assert_int_equal(pace_count(&w->b), 1);
	assert_int_equal(tally_value(TALLY_paced), before + 1);
	world_later(1000);
	assert_int_equal(fake.pause_us, 0);
	assert_int_equal(pace_count(&w->b), 0);
	call(them, theirs, 0, 0);
	broker_tick(&w->b); /* it wrote much before */
	assert_int_equal(pace_count(&w->b), 1);
	assert_int_equal(tally_value(TALLY_paced), before + 1);
	world_hang_up(us);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, two_setup, world_teardown)
		T(test_nobody_else),    T(test_beside_short_calls),
		T(test_beside_a_flood), T(test_each_second),
		T(test_counted),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
