/* A call through the whole core: warm, cold, output, credits, ends of every kind. */
#include "test.h"

#include "broker_world.h"

static void
test_warm_call_runs_and_box_goes(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	world_warm(c);
	fake.guest.out = "hello\n";
	call = submit(c, BOX_PYTHON);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_int_equal(seen_of(c, call)->out_bytes, 6);
	assert_int_equal(seen_of(c, call)->end.have, FIG_CPU | FIG_PEAK | FIG_CURRENT);
	assert_int_equal(seen_of(c, call)->end.cpu_us, 2500);
	assert_int_equal(seen_of(c, call)->end.baseline_bytes, 4096);
	assert_int_equal(seen_of(c, call)->end.guest.len, 104);
	assert_int_equal(w->reaper.deadline_ns, 0); /* not worth waking it for this one */
	world_settle();
	assert_int_equal(w->reaper.n_gone, 1);
	assert_int_equal(seen_of(c, call)->ends, 1);
	wait_warm(BOX_PYTHON, 2);
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_int_equal(w->b.in_flight + w->b.starting, 0);
}

static void
test_first_call_is_cold_and_without_prestart(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	assert_int_equal(fake.calls[OP_PROBE], 0);
	w->b.settings.flags |= SETTINGS_NO_POOL;
	call = submit(c, BOX_PYTHON);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	world_settle();
	assert_int_equal(fake.calls[OP_CREATE], 1);
	assert_int_equal(fake.live_now, 0);
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(w->b.memory_bytes, 0);
}

static void
test_figures_that_cannot_be_read_are_null(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->reaper.figures = false;
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.have, 0);
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_engine_absent_ends_quickly_and_recovers(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake_fail(OP_PROBE, -ENOTCONN, 0, "no socket there", 0);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	assert_non_null(strstr(seen_of(c, call)->message, "no socket there"));
	fake_fail(OP_PROBE, 0, 0, NULL, 0);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_engine_lost_between_calls(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	assert_true(ended(c, submit(c, BOX_SHELL)));
	fake_fail(OP_CREATE, -ENOTCONN, 0, "gone", 0);
	fake_fail(OP_PROBE, -ENOTCONN, 0, "gone", 0);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	fake_fail(OP_CREATE, 0, 0, NULL, 0);
	fake_fail(OP_PROBE, 0, 0, NULL, 0);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_image_missing_is_looked_up_once_more(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake_fail(OP_CREATE, -ENOENT, 404, "No such image", 1);
	call = submit(c, BOX_SHELL); /* built anew meanwhile */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	fake_fail(OP_CREATE, -ENOENT, 404, "No such image", 0);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_image_unavailable);
	fake_fail(OP_CREATE, 0, 0, NULL, 0);
	fake_fail(OP_IMAGE, -ENOENT, 404, "No such image", 0);
	fake_fail(OP_PROBE, 0, 0, NULL, 0);
	w->b.probe.state = ENGINE_ASLEEP;
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_image_unavailable);
	assert_non_null(strstr(seen_of(c, call)->message, "bailey image build"));
}

static void
test_cancel_in_every_phase(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	fake.hold[OP_PROBE] = true; /* queued */
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_int_equal(run_of(c, call)->phase, PHASE_QUEUED);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_cancelled);
	fake_release(OP_PROBE);
	world_settle();
	fake.hold[OP_CREATE] = true; /* starting, create in flight */
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_int_equal(run_of(c, call)->phase, PHASE_STARTING);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_cancelled);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 1); /* the create has not answered yet */
	fake_release(OP_CREATE);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(fake.live_now, 0);
	c->auto_run = false; /* granted */
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	c->auto_run = true; /* active */
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	assert_int_equal(run_of(c, call)->phase, PHASE_ACTIVE);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_cancelled);
	assert_int_equal(w->reaper.last_cause, CAUSE_CANCEL);
	world_settle();
	assert_int_equal(fake.live_now, 0);
	assert_int_equal(idmap_count(w->b.boxes), 0);
	/* one that has ended, and one that never was */
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = 9999));
	world_settle();
	assert_false(c->closed);
	assert_int_equal(seen_of(c, call)->ends, 1);
}

static bool
has_deadline(void *arg)
{
	(void)arg;
	return w->reaper.deadline_ns > 0;
}

static void
test_early_specification(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	c->auto_run = false;
	call = submit_spec(c, BOX_SHELL, "early code"); /* cold: it waits for the grant */
	assert_true(ended(c, call));
	assert_true(seen_of(c, call)->granted);
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(fake.spec_len, 10);
	assert_memory_equal(fake.spec, "early code", 10);
	w->b.settings.flags &= ~(uint32_t)SETTINGS_NO_POOL;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	call = submit_spec(c, BOX_SHELL, "again"); /* warm: the grant comes first all the same */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	call = submit_with(c, (struct ipc_call_submit){.profile = IPC_STR("nosuch"),
						       .spec = {(const uint8_t *)"no", 2}});
	assert_true(ended(c, call)); /* denied: dropped with it */
	world_settle();
	assert_false(c->closed);
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_CREATE] = true;
	call = submit_spec(c, BOX_NODE, "one");
	world_settle();
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call)); /* freed with the call */
	assert_true(ended(c, call));
}

/* It has not heard the word: whatever it sends is against the rules. */
static void
test_no_frame_before_the_grant(void **state)
{
	static const enum guest_type types[] = {GUEST_h_spec, GUEST_h_run, GUEST_h_stdin};

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_CREATE] = true;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct client *c = world_client(i, OWNER_TREE, 1);
		uint64_t call = submit(c, BOX_NODE);

		send_frame(c, call, types[i], 0, "x", 1); /* 0 is also stdin's stream */
		world_settle();
		assert_true(c->closed);
	}
}

static void
test_deadline_of_the_reaper_is_timed_out(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call, box;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	assert_true(world_until(has_deadline, NULL));
	fake_box(box)->running = false;
	reaper_says(IPC_ROW(watch_killed, .box = box, .cause = CAUSE_DEADLINE));
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_timed_out);
}

static void
test_deadline_without_reaper_ends_by_the_tick(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	world_later(10000 + DEADLINE_SLACK_MS + 2500);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_timed_out);
}

static void
test_death_without_exit(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_die(run_of(c, call)->box->id);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	w->reaper.final.oom_kills = 1;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_die(run_of(c, call)->box->id);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_oom_killed);
	w->reaper.final.oom_kills = 0;
	call = submit(c, BOX_SHELL); /* the engine's word counts as well */
	assert_true(granted(c, call));
	world_settle();
	fake_event(run_of(c, call)->box->id, ENGINE_EV_OOM);
	fake_die(run_of(c, call)->box->id);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_oom_killed);
}

/* A destroy event may overtake the last bytes of the stream: they still count. */
static void
test_exit_after_destroy_still_counts(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call, box;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	fake_event(box, ENGINE_EV_DESTROY);
	fake_guest_exit(box, &fake.guest.result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_event(run_of(c, call)->box->id, ENGINE_EV_DESTROY);
	assert_true(ended(c, call)); /* and without them the run is lost soon */
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
}

static void
test_bad_frame_costs_the_box(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake_guest_bytes(run_of(c, call)->box->id, 1, "\x99garbage", 8);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	assert_int_equal(w->reaper.last_cause, CAUSE_BAD_FRAME);
	world_settle();
	assert_int_equal(fake.live_now,
			 w->b.pools[0][BOX_SHELL].n_ready + w->b.pools[0][BOX_PYTHON].n_ready);
}

/* A write that fails is no end by itself: what the guest said before still counts. */
static void
test_writes_that_fail(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call, box;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	fake.send_err = -EPIPE;
	send_frame(c, call, GUEST_h_stdin, 0, "x", 1);
	world_settle();
	assert_false(seen_of(c, call)->ended);
	fake_guest_exit(box, &fake.guest.result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	fake.send_err = 0;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	fake.send_err = -ENOBUFS;
	send_frame(c, call, GUEST_h_stdin, 0, "x", 1);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	fake.send_err = 0;
	c->auto_run = false;
	call = submit(c, BOX_SHELL); /* the RUN frame itself */
	assert_true(granted(c, call));
	fake.send_err = -EPIPE;
	send_frame(c, call, GUEST_h_run, 0, "x", 1);
	world_settle();
	fake.send_err = 0;
	fake_die(run_of(c, call)->box->id);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
}

static void
test_memory_widened_before_the_grant(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.box_class = BOX_PYTHON, .memory_bytes = UINT64_C(1) << 30};
	uint64_t call, sum;

	(void)state;
	world_warm(c);
	sum = w->b.memory_bytes;
	fake.hold[OP_UPDATE] = true;
	call = submit_with(c, m);
	world_settle();
	assert_false(seen_of(c, call)->granted);
	assert_int_equal(w->b.memory_bytes, sum + (UINT64_C(512) << 20));
	fake_release(OP_UPDATE);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	fake_fail(OP_UPDATE, -EINVAL, 400, "no", 1);
	call = submit_with(c, m);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_internal);
	assert_false(seen_of(c, call)->granted);
}

static void
test_an_engine_without_update(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.box_class = BOX_PYTHON, .memory_bytes = UINT64_C(1) << 30};
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_PYTHON, 2);
	fake_fail(OP_UPDATE, -ENOENT, 404, "No such container: abc", 1);
	call = submit_with(c, m); /* it died meanwhile: another waiting one serves */
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->grant.start, START_WARM);
	assert_false(w->b.no_update);
	wait_warm(BOX_PYTHON, 2);
	fake.calls[OP_UPDATE] = 0;
	fake_fail(OP_UPDATE, -ENOENT, 404, "page not found", 0);
	for (int i = 0; i < 2; i++) {
		call = submit_with(c, m);
		assert_true(ended(c, call));
		assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
		assert_int_equal(seen_of(c, call)->grant.start, START_COLD);
		assert_int_equal(seen_of(c, call)->ends, 1);
		wait_warm(BOX_PYTHON, 2);
	}
	assert_int_equal(fake.calls[OP_UPDATE], 1); /* learnt */
}

static void
test_processor_narrowed_beside_the_grant(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.box_class = BOX_SHELL, .cpus_milli = 500};
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	fake.hold[OP_UPDATE] = true;
	call = submit_with(c, m);
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grant.cpus_milli, 500);
	assert_true(ended(c, call));
	fake_release(OP_UPDATE);
	world_settle();
}

static void
test_processor_narrowed_before_it_stays(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.cpus_milli = 500, .flags = CALL_STAYS};
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	fake.hold[OP_UPDATE] = true;
	call = submit_with(c, m);
	world_settle();
	assert_false(seen_of(c, call)->granted);
	fake_release(OP_UPDATE);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(boxes_in(BOX_STAYS), 1);
	wait_warm(BOX_SHELL, 1);
	fake_fail(OP_UPDATE, -EINVAL, 400, "no", 1);
	call = submit_with(c, m);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_internal);
	assert_int_equal(boxes_in(BOX_STAYS), 1);
}

static void
test_start_timeout_and_grant_never_used(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_START] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	world_later(START_WAIT_MS + 100);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_start_timeout);
	fake_release(OP_START);
	world_settle();
	assert_int_equal(fake.live_now, 0);
	c->auto_run = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_later(START_WAIT_MS + 100);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_start_timeout);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_warm_call_runs_and_box_goes),
		T(test_first_call_is_cold_and_without_prestart),
		T(test_figures_that_cannot_be_read_are_null),
		T(test_engine_absent_ends_quickly_and_recovers),
		T(test_engine_lost_between_calls),
		T(test_image_missing_is_looked_up_once_more),
		T(test_cancel_in_every_phase),
		T(test_early_specification),
		T(test_no_frame_before_the_grant),
		T(test_deadline_of_the_reaper_is_timed_out),
		T(test_deadline_without_reaper_ends_by_the_tick),
		T(test_death_without_exit),
		T(test_exit_after_destroy_still_counts),
		T(test_bad_frame_costs_the_box),
		T(test_writes_that_fail),
		T(test_memory_widened_before_the_grant),
		T(test_an_engine_without_update),
		T(test_processor_narrowed_beside_the_grant),
		T(test_processor_narrowed_before_it_stays),
		T(test_start_timeout_and_grant_never_used),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
