/* Runs in a sandbox frame by frame: withdrawn ones, deadlines, what is kept. */
#include "test.h"

#include <sys/mman.h>

#include "broker_world.h"

static struct client *c;
static const char *id;
static struct box *x;

static int
sandbox_setup(void **state)
{
	(void)world_setup(state);
	c = world_client(0, OWNER_UID, 1);
	id = stay(c, 0);
	x = box_in(BOX_STAYS);
	fake.guest.exit = false;
	c->auto_run = false;
	return 0;
}

static uint64_t
begin(uint32_t timeout_ms)
{
	uint64_t call =
		submit_with(c, (struct ipc_call_submit){.sandbox = IPC_STR(id),
							.timeout_ms = timeout_ms,
							.spec = {(const uint8_t *)"code", 4}});

	assert_true(granted(c, call));
	world_settle();
	return call;
}

static void
cancel(uint64_t call)
{
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_cancelled);
}

static void
test_withdrawn_and_its_sandbox_lives(void **state)
{
	uint64_t call = begin(0);

	(void)state;
	fake.guest.obeys = false;
	fake_guest_out(x->id, 1, STREAM_STDOUT, "some", 4);
	cancel(call);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 1); /* its EXIT has not come */
	assert_int_equal(fake.host_frames[GUEST_h_end], 1);
	fake_guest_out(x->id, 1, STREAM_STDOUT, "late", 4);
	fake_guest_exit(x->id, &fake.guest.result);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(seen_of(c, call)->out_bytes, 4);
	assert_int_equal(seen_of(c, call)->ends, 1);
	assert_int_equal(x->state, BOX_STAYS);
	call = begin(0);
	assert_int_equal(fake.last_run, 2);
	fake_guest_exit(x->id, &fake.guest.result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

/* The guest had used up its credit when the caller left: it still gets to its EXIT. */
static void
test_withdrawn_without_credit(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	uint64_t call = begin(0);

	(void)state;
	fake.guest.obeys = false;
	for (unsigned int i = 0; i < GUEST_WINDOW / GUEST_PAYLOAD_MAX; i++)
		fake_guest_out(x->id, 1, STREAM_STDERR, chunk, sizeof(chunk));
	world_settle();
	assert_int_equal(fake.credit[STREAM_STDERR], 0);
	cancel(call);
	world_settle();
	assert_int_equal(fake.credit[STREAM_STDERR], 2 * GUEST_WINDOW);
	assert_int_equal(fake.credit[STREAM_STDOUT], 0); /* wide open already */
	fake_guest_exit(x->id, &fake.guest.result);
	world_settle();
	assert_int_equal(x->state, BOX_STAYS);
	assert_int_equal(idmap_count(w->b.runs), 0);
}

static bool
ended_box(void *arg)
{
	(void)arg;
	return boxes_in(BOX_STAYS) == 0;
}

static void
test_withdrawn_and_deaf(void **state)
{
	uint64_t call = begin(0), start = clock_now_ms();

	(void)state;
	fake.guest.obeys = false;
	cancel(call);
	assert_true(world_until(ended_box, NULL));
	assert_in_range(clock_now_ms() - start, 1900, 2100);
	assert_int_equal(w->reaper.last_cause, CAUSE_SILENT);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	call = submit_within(c, id, 0, "x");
	assert_true(ended(c, call));
	assert_non_null(strstr(seen_of(c, call)->message, "did not answer"));
}

/* Before the run was written: the guest hears of it only if it knows a part. */
static void
test_withdrawn_before_it_ran(void **state)
{
	uint64_t call = submit_within(c, id, 0, "");

	(void)state;
	assert_true(granted(c, call));
	cancel(call);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 0);
	assert_int_equal(idmap_count(w->b.runs), 0);
	call = submit_within(c, id, 0, "");
	assert_true(granted(c, call));
	send_frame(c, call, GUEST_h_spec, 0, "part", 4);
	world_settle();
	cancel(call);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 1);
	assert_int_equal(idmap_count(w->b.runs), 0);
	call = submit_within(c, id, 0, ""); /* and one that is never used */
	assert_true(granted(c, call));
	world_later(START_WAIT_MS + 100);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_start_timeout);
	assert_int_equal(x->state, BOX_STAYS);
	call = begin(0);
	assert_int_equal(fake.last_run, 4); /* numbers are not given again */
}

static void
test_cancel_of_what_is_over(void **state)
{
	uint64_t call;

	(void)state;
	call = begin(0);
	fake_guest_exit(x->id, &fake.guest.result);
	/* Before its frontend heard of its end. */
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	world_settle();
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->ends, 1);
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(x->state, BOX_STAYS);
}

static bool
told(void *arg)
{
	return w->reaper.deadline_ns == *(uint64_t *)arg;
}

/* The reaper has the earliest deadline; it moves with the ends of runs, and a new reaper hears it.
 */
static void
test_the_earliest_deadline(void **state)
{
	uint64_t slow = begin(9000), fast = begin(2000), at, none = 0;

	(void)state;
	at = run_of(c, fast)->deadline_ns;
	assert_true(at < run_of(c, slow)->deadline_ns);
	assert_true(world_until(told, &at));
	w->reaper.deadline_ns = 0;
	reaper_connect();
	assert_true(world_until(told, &at));
	fake_guest_exit_of(x->id, 2, &fake.guest.result);
	assert_true(ended(c, fast));
	at = run_of(c, slow)->deadline_ns;
	assert_true(world_until(told, &at));
	fake_guest_exit_of(x->id, 1, &fake.guest.result);
	assert_true(ended(c, slow));
	assert_true(world_until(told, &none));
	w->reaper.deadlines = 0;
	slow = begin(9000); /* over before it is worth a word */
	fake_guest_exit(x->id, &fake.guest.result);
	assert_true(ended(c, slow));
	clock_pass(60);
	world_settle();
	assert_int_equal(w->reaper.deadlines, 0);
}

static void
test_second_tier(void **state)
{
	uint64_t slow = begin(9000), fast = begin(2000), next = begin(2400);

	(void)state;
	world_skew_ms += 2600;
	fake_box(x->id)->running = false;
	reaper_says(IPC_ROW(watch_killed, .box = x->id, .cause = CAUSE_DEADLINE));
	assert_true(ended(c, fast));
	/* Its time was up too; only the reaper's patience with it was not. */
	assert_true(ended(c, next));
	assert_int_equal(seen_of(c, next)->end.status, RUN_timed_out);
	assert_true(ended(c, slow));
	assert_int_equal(seen_of(c, fast)->end.status, RUN_timed_out);
	assert_non_null(strstr(seen_of(c, fast)->message, "sandbox ended with it"));
	assert_int_equal(seen_of(c, slow)->end.status, RUN_lost);
	fast = submit_within(c, id, 0, "x");
	assert_true(ended(c, fast));
	assert_non_null(strstr(seen_of(c, fast)->message, "time limit"));
}

static void
test_second_tier_of_what_never_arrived(void **state)
{
	uint64_t call;

	(void)state;
	fake.guest.deaf = true;
	call = begin(2000);
	world_skew_ms += 2600;
	fake_box(x->id)->running = false;
	reaper_says(IPC_ROW(watch_killed, .box = x->id, .cause = CAUSE_DEADLINE));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	assert_non_null(strstr(seen_of(c, call)->message, "confirm"));
}

/* An evaluation waits in the guest for the one before it: so does the reaper's clock. */
static void
test_deadlines_in_turns(void **state)
{
	uint64_t calls[3], first, slack = (uint64_t)DEADLINE_SLACK_MS * 1000000;

	(void)state;
	for (int i = 0; i < 3; i++) {
		calls[i] = submit_with(
			c, (struct ipc_call_submit){.sandbox = IPC_STR(id),
						    .flags = i == 2 ? 0 : CALL_TURNS,
						    .timeout_ms = i == 0 ? 60000 : 1000,
						    .spec = {(const uint8_t *)"code", 4}});
		assert_true(granted(c, calls[i]));
		world_settle();
	}
	first = run_of(c, calls[0])->deadline_ns;
	assert_int_equal(run_of(c, calls[1])->deadline_ns, first + 1000000000 + slack);
	assert_true(run_of(c, calls[2])->deadline_ns < first); /* it takes no turn */
}

/* The counters came after its first run had started. */
static void
test_late_baseline(void **state)
{
	uint64_t call;

	(void)state;
	x->baseline.have = 0;
	call = begin(0);
	assert_int_equal(run_of(c, call)->baseline.have, 0);
	box_baseline(x);
	world_settle();
	assert_int_equal(run_of(c, call)->baseline.cpu_us, 1000);
	w->reaper.baseline.cpu_us = 77;
	box_baseline(x); /* another one is not its own */
	world_settle();
	assert_int_equal(run_of(c, call)->baseline.cpu_us, 1000);
}

static void
test_first_tier_leaves_the_sandbox(void **state)
{
	struct guest_g_exit e = {.how = EXIT_SIGNALED, .signal = 9, .flags = EXIT_TIMED_OUT};
	uint64_t call = begin(1000);

	(void)state;
	fake_guest_exit(x->id, &e);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_timed_out);
	assert_int_equal(x->state, BOX_STAYS);
}

/* Everything a run wrote is in the store before it is acknowledged, and its end with it. */
static void
test_kept(void **state)
{
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	int fd = memfd_create("kept", MFD_CLOEXEC);
	const struct owner *o = TAILQ_FIRST(&w->b.fronts)->owner;
	struct store_extent extent;
	struct store_facts facts;
	uint32_t kept;
	uint64_t call;

	(void)state;
	assert_int_equal(ftruncate(fd, 66 << 20), 0);
	assert_int_equal(store_open(fd, &w->b.store), 0);
	(void)close(fd);
	call = begin(0);
	kept = store_find(w->b.store, id, o);
	assert_int_not_equal(kept, STORE_NONE);
	fake.last_ack = 0;
	for (int i = 0; i < 8; i++)
		fake_guest_out(x->id, 1, STREAM_STDOUT, chunk, sizeof(chunk));
	store_extent(w->b.store, kept, STREAM_STDOUT, &extent);
	assert_int_equal(extent.head, 8 * sizeof(chunk));
	world_settle();
	assert_int_equal(fake.last_ack, 8);
	fake_guest_exit(x->id, &fake.guest.result);
	assert_true(ended(c, call));
	store_facts(w->b.store, store_find(w->b.store, id, o), &facts);
	assert_true(facts.ended);
	assert_int_equal(facts.end.status, RUN_ok);
	assert_int_equal(facts.end.cause, CAUSE_DONE);
	call = submit_within(c, id, CALL_STEP, "step"); /* not what its sandbox's id shows */
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(store_find(w->b.store, id, o), kept);
	cancel(call);
	world_settle();
	call = submit_within(c, id, CALL_BACKGROUND, "serve");
	assert_true(ended(c, call));
	kept = store_find(w->b.store, id, o);
	store_facts(w->b.store, kept, &facts);
	assert_false(facts.ended);
	box_end(x, CAUSE_DESTROYED);
	store_facts(w->b.store, store_find(w->b.store, id, o), &facts);
	assert_true(facts.ended);
	assert_int_equal(facts.end.status, RUN_lost);
	assert_int_equal(facts.end.cause, CAUSE_DESTROYED);
}

static void
test_single_use_numbers_stay_one(void **state)
{
	uint64_t call;

	(void)state;
	fake.guest.exit = true;
	for (int i = 0; i < 3; i++) {
		call = submit_with(c,
				   (struct ipc_call_submit){.spec = {(const uint8_t *)"code", 4}});
		assert_true(ended(c, call));
		assert_int_equal(fake.last_run, 1);
	}
}

static void
test_frames_against_the_rules_cost_the_link(void **state)
{
	struct client *f = world_client(1, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	f->auto_run = false;
	call = submit(f, BOX_SHELL);
	assert_true(granted(f, call));
	send_frame(f, call, GUEST_h_stdin, 0, "x", 1); /* before h_run */
	world_settle();
	assert_true(f->closed);
	assert_int_equal(w->b.n_fronts, 1);
	assert_int_equal(w->reaper.last_cause, CAUSE_OWNER_GONE);
	f = world_client(2, OWNER_TREE, 1);
	send_frame(f, 77, GUEST_h_run, 0, "x", 1); /* never submitted */
	world_settle();
	assert_true(f->closed);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, sandbox_setup, world_teardown)
		T(test_withdrawn_and_its_sandbox_lives),
		T(test_withdrawn_without_credit),
		T(test_withdrawn_and_deaf),
		T(test_withdrawn_before_it_ran),
		T(test_cancel_of_what_is_over),
		T(test_the_earliest_deadline),
		T(test_second_tier),
		T(test_second_tier_of_what_never_arrived),
		T(test_deadlines_in_turns),
		T(test_late_baseline),
		T(test_first_tier_leaves_the_sandbox),
		T(test_kept),
		T(test_single_use_numbers_stay_one),
		T(test_frames_against_the_rules_cost_the_link),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
