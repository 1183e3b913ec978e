/* The steps of a start: what is asked of the engine, and guests that are not ours. */
#include "test.h"

#include "broker_world.h"

static void
test_the_spec_is_complete(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct ipc_call_submit m = {
		.box_class = BOX_PYTHON, .memory_bytes = UINT64_C(256) << 20, .cpus_milli = 1500};
	const struct box_spec *s;
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	memcpy(w->b.settings.cgroup_parent, "/bailey", 8);
	fake.guest.exit = false;
	call = submit_with(c, m);
	assert_true(granted(c, call));
	world_settle();
	s = &fake_box(run_of(c, call)->box->id)->spec;
	assert_int_equal(s->memory_bytes, UINT64_C(256) << 20);
	assert_int_equal(s->workspace_bytes, UINT64_C(96) << 20);
	assert_int_equal(s->tmp_bytes, UINT64_C(32) << 20);
	assert_int_equal(s->cpus_milli, 1500);
	assert_int_equal(s->cpus_shown, 2);
	assert_int_equal(s->uid, 10001);
	assert_int_equal(s->gid, 10001);
	assert_int_equal(s->pids, 64);
	assert_true(s->bind_guest);
	assert_string_equal(s->image, fake.image_id);
	assert_string_equal(s->share_dir, "/share");
	assert_string_equal(s->cgroup_parent, "/bailey");
	assert_string_equal(s->label.instance, w->b.settings.instance);
	assert_int_equal(s->label.tree_pid, 100);
	assert_int_equal(s->label.box, run_of(c, call)->box->id);
	assert_int_equal(strncmp(s->name, "bailey-01234567-", 16), 0);
	assert_ptr_equal(s->seccomp_json, container_seccomp_json);
	assert_null(s->apparmor);
	assert_int_equal(seen_of(c, call)->grant.workspace_bytes, s->workspace_bytes);
}

/* C7: a fault at every step of a start: the call ends once, nothing is left. */
static void
test_each_step_failing_leaves_nothing(void **state)
{
	static const enum fake_op steps[] = {OP_CREATE, OP_CHECK, OP_ATTACH, OP_START};
	static const struct {
		int err, http;
		uint32_t times;
	} faults[] = {{-EIO, 500, 1},
		      {-ETIMEDOUT, 0, 1},
		      {-EPROTO, 200, 1},
		      {-EPERM, 0, 2}, /* once: another box serves */
		      {-EINVAL, 400, 1}};
	struct client *c = world_client(0, OWNER_TREE, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		for (size_t j = 0; j < ARRAY_LEN(faults); j++) {
			uint64_t call;

			fake_fail(steps[i], faults[j].err, faults[j].http, "scripted",
				  faults[j].times);
			call = submit(c, BOX_PYTHON);
			assert_true(ended(c, call));
			assert_int_not_equal(seen_of(c, call)->end.status, RUN_ok);
			assert_non_null(strstr(seen_of(c, call)->message, "scripted"));
			world_settle();
			assert_int_equal(idmap_count(w->b.boxes), 0);
			assert_int_equal(fake.live_now, 0);
			assert_int_equal(w->b.memory_bytes, 0);
		}
	}
	assert_true(ended(c, submit(c, BOX_PYTHON)));
}

/* Somebody restarted it through the engine, which takes AutoRemove away meanwhile. */
static void
test_a_box_that_is_not_what_was_asked_for(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake_fail(OP_CHECK, -EPERM, 0, "HostConfig.AutoRemove", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
	assert_int_equal(fake.live_now, 0);
}

static void
test_remote_engine(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags = SETTINGS_NO_POOL;
	w->reaper.held = false;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	assert_false(fake_box(run_of(c, call)->box->id)->spec.bind_guest);
	assert_int_equal(run_of(c, call)->box->pid, 0); /* a pid of another host means nothing */
	assert_int_equal(run_of(c, call)->box->affinity, 0);
}

static void
test_a_guest_of_another_uid_or_class(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.uid = 0;
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_internal);
	assert_int_equal(w->reaper.last_cause, CAUSE_BAD_FRAME);
	world_settle();
	assert_int_equal(fake.live_now, 0);
	w->b.settings.flags &= ~(uint32_t)SETTINGS_NO_POOL;
	fake.guest.uid = 10001;
	w->reaper.last_cause = CAUSE_DONE;
	fake.guest.ready_class = BOX_NODE; /* in a shell's or python's box */
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(w->reaper.last_cause, CAUSE_BAD_FRAME);
	assert_int_equal(w->b.pools[0][BOX_SHELL].n_ready, 0);
	assert_int_equal(w->b.pools[0][BOX_PYTHON].n_ready, 0);
	fake.guest.ready_class = UINT32_MAX;
	wait_warm(BOX_SHELL, 1);
}

static void
test_distress_on_stderr_is_bounded(void **state)
{
	static uint8_t text[40000];
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call, box;
	int err, null;
	uint64_t lines;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	err = dup(STDERR_FILENO);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)dup2(null, STDERR_FILENO);
	fake_guest_bytes(box, 2, "help\x1b[31m", 9);
	world_settle();
	assert_false(seen_of(c, call)->ended);
	log_init("test", LOG_L_WARNING);
	lines = log_last()->seq;
	for (int i = 0; i < 1000; i++)
		fake_guest_bytes(box, 2, "x", 1);
	lines = log_last()->seq - lines;
	log_init("test", LOG_L_ERROR);
	assert_in_range(lines, 1, 30); /* nor does it fill the log */
	fake_guest_bytes(box, 2, text, sizeof(text));
	fake_guest_bytes(box, 2, text, sizeof(text));
	(void)dup2(err, STDERR_FILENO);
	(void)close(err);
	(void)close(null);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
}

/* The stream closes while start is under way: start's own words are what the caller gets. */
static void
test_closed_before_start_answers(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_START] = true;
	fake_fail(OP_START, -EINVAL, 400, "exec: /.bailey/init: no such file", 1);
	call = submit(c, BOX_SHELL);
	world_settle();
	fake_die(run_of(c, call)->box->id);
	assert_false(seen_of(c, call)->ended);
	fake_release(OP_START);
	assert_true(ended(c, call));
	assert_non_null(strstr(seen_of(c, call)->message, "no such file"));
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

/* A box that dies before anything of the run was started, as with a restarting engine, costs the
 * caller time and nothing else. */
static void
test_a_box_that_dies_while_starting_is_replaced_once(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_START] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	fake_die(run_of(c, call)->box->id);
	fake_release(OP_START);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->grants, 1);
	assert_int_equal(fake.calls[OP_CREATE], 2);
}

/* A tree that stops says so to a call whose box still starts; the reaper may know it first. */
static void
test_a_start_in_a_stopping_tree(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_START] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	reaper_says(IPC_ROW(watch_killed, .box = run_of(c, call)->box->id, .cause = CAUSE_STOPPED));
	fake_release(OP_START);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	assert_string_equal(seen_of(c, call)->message, "Bailey is stopping.");
}

/* A container that vanishes while it starts has nothing to do with the image. */
static void
test_a_vanished_container_is_not_a_missing_image(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake_fail(OP_START, -ENOENT, 404, "no such container", 2); /* a second box is tried */
	call = submit(c, BOX_PYTHON);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	assert_int_equal(fake.calls[OP_IMAGE], 1);
}

/* The engine removes what it could not start, and says so before it says why. */
static void
test_a_start_that_fails_is_told_in_the_engines_words(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	struct box *x;
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.hold[OP_START] = true;
	fake_fail(OP_START, -EINVAL, 400, "no such directory", 1);
	call = submit(c, BOX_SHELL);
	world_settle();
	x = run_of(c, call)->box;
	box_event(x, ON_DESTROYED);
	assert_int_equal(x->state, BOX_ATTACHED);
	fake_release(OP_START);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_internal);
	assert_non_null(strstr(seen_of(c, call)->message, "no such directory"));
	assert_int_equal(fake.calls[OP_CREATE], 1);
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 0);
}

/* The pid comes after the hello or before it: both ways the run is granted once. */
static void
test_hello_and_pid_in_either_order(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	fake.hold[OP_CHECK] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	fake_release(OP_CHECK);
	world_turn();
	assert_true(granted(c, call));
	assert_int_equal(seen_of(c, call)->grants, 1);
	fake.guest.hello = false; /* pid first */
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_false(seen_of(c, call)->granted);
	assert_true(run_of(c, call)->box->pid_known);
	{
		struct guest_g_hello h = {.version = GUEST_VERSION, .uid = 10001};
		uint8_t p[16];

		guest_put_g_hello(&h, p);
		fake_guest_frame(run_of(c, call)->box->id, GUEST_g_hello, 0, 0, 0, p, sizeof(p));
	}
	assert_true(granted(c, call));
}

/* Output that looks like EXIT is output. */
static void
test_output_that_looks_like_an_exit(void **state)
{
	static uint8_t junk[GUEST_HEADER_LEN + 104 + GUEST_CRC_LEN];
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call, box;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	call = submit(c, BOX_SHELL);
	assert_true(granted(c, call));
	world_settle();
	box = run_of(c, call)->box->id;
	memset(junk, GUEST_g_exit, sizeof(junk));
	fake_guest_frame(box, GUEST_g_out, STREAM_STDOUT, 1, fake_next_seq(box), junk,
			 sizeof(junk));
	world_settle();
	assert_false(seen_of(c, call)->ended);
	assert_int_equal(run_of(c, call)->phase, PHASE_ACTIVE);
	fake_guest_exit(box, &fake.guest.result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->end.have, FIG_CPU | FIG_PEAK | FIG_CURRENT);
}

/* Limits were to shrink beside the run, and it was over before the engine refused. */
static void
test_a_late_refusal_does_not_take_a_result(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	struct ipc_call_submit m = {.box_class = BOX_SHELL, .cpus_milli = 500};
	uint64_t call;

	(void)state;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	wait_warm(BOX_SHELL, 1);
	fake_fail(OP_UPDATE, -EINVAL, 400, "no", 1);
	fake.hold[OP_UPDATE] = true;
	call = submit_with(c, m);
	assert_true(granted(c, call));
	assert_true(ended(c, call));
	fake_release(OP_UPDATE);
	world_settle();
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_int_equal(seen_of(c, call)->end.guest.len, 104);
	assert_int_equal(seen_of(c, call)->ends, 1);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_the_spec_is_complete),
		T(test_a_late_refusal_does_not_take_a_result),
		T(test_output_that_looks_like_an_exit),
		T(test_each_step_failing_leaves_nothing),
		T(test_a_box_that_is_not_what_was_asked_for),
		T(test_remote_engine),
		T(test_a_guest_of_another_uid_or_class),
		T(test_distress_on_stderr_is_bounded),
		T(test_closed_before_start_answers),
		T(test_a_box_that_dies_while_starting_is_replaced_once),
		T(test_a_start_in_a_stopping_tree),
		T(test_a_vanished_container_is_not_a_missing_image),
		T(test_a_start_that_fails_is_told_in_the_engines_words),
		T(test_hello_and_pid_in_either_order),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
