/* Whether the engine can be used: nothing before the need, no wedge after a failure. */
#include "test.h"

#include "broker_world.h"

static void
test_statuses_of_errors(void **state)
{
	static const struct {
		int err;
		enum run_status want;
	} rows[] = {
		{-ENOENT, RUN_image_unavailable},
		{-ENOTCONN, RUN_engine_unavailable},
		{-ETIMEDOUT, RUN_engine_unavailable},
		{-ECONNRESET, RUN_engine_unavailable},
		{-EIO, RUN_engine_unavailable},
		{-EPROTO, RUN_engine_unavailable},
		{-EPROTONOSUPPORT, RUN_engine_unavailable},
		{-EBUSY, RUN_busy},
		{-EPERM, RUN_internal},
		{-EINVAL, RUN_internal},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct engine_result r = {.err = rows[i].err};

		assert_int_equal(probe_status(&r), rows[i].want);
	}
}

/* What a person can do about it stands in the answer. */
static void
test_words(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	char longest[200];
	uint64_t call;

	(void)state;
	(void)snprintf(w->b.settings.image, sizeof(w->b.settings.image), "bailey/sandbox:slimm");
	fake_fail(OP_IMAGE, -ENOENT, 404, "No such image", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_string_equal(seen_of(c, call)->message,
			    "Image bailey/sandbox:slimm is missing on the engine, and none is ever "
			    "pulled. Build bailey/sandbox:slim with: bailey image build slim. "
			    "SANDBOX_IMAGE names another.");
	fake_fail(OP_PROBE, -ENOTCONN, 0, "cannot connect", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_string_equal(seen_of(c, call)->message,
			    "The container engine cannot be used: cannot connect. Check that it "
			    "runs, that DOCKER_HOST names it, and that this user may open its "
			    "socket.");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	fake_fail(OP_PROBE, -ENOTCONN, 0, longest, 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(strspn(strchr(seen_of(c, call)->message, 'x'), "x"), 180);
	fake_fail(OP_PROBE, -EPROTO, 0, "not an engine", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_string_equal(seen_of(c, call)->message,
			    "The container engine cannot be used: not an engine");
}

/* Caps are those of the machine that the sandboxes are on. */
static void
test_a_remote_engine_brings_its_own_figures(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t here = w->b.memory_max_bytes, call;

	(void)state;
	fake.info.cpus = 1;
	fake.info.memory_bytes = UINT64_C(1) << 30;
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(w->b.memory_max_bytes, here);
	w->b.settings.flags = SETTINGS_NO_POOL;
	probe_again(&w->b);
	world_settle();
	assert_int_equal(w->b.settings.host_cpus, 1);
	assert_int_equal(w->b.memory_max_bytes, (UINT64_C(1) << 30) / 100 * 75);
	assert_int_equal(w->b.owner_memory_max_bytes, w->b.memory_max_bytes / 2);
	fake.info.cpus = 0; /* an engine that does not say */
	fake.info.memory_bytes = 0;
	probe_again(&w->b);
	world_settle();
	assert_int_equal(w->b.settings.host_cpus, 1);
	assert_int_equal(w->b.memory_max_bytes, (UINT64_C(1) << 30) / 100 * 75);
}

/* What to do is told where we know it, and nothing is invented where we do not. */
static void
test_words_of_a_failed_start(void **state)
{
	struct client *c = world_client(0, OWNER_TREE, 1);
	uint64_t call;

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)snprintf(w->b.settings.share_dir, sizeof(w->b.settings.share_dir), "/elsewhere");
	fake_fail(OP_CREATE, -EINVAL, 400, "bind source path does not exist: /elsewhere/box", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_non_null(strstr(seen_of(c, call)->message, "/elsewhere/box. BAILEY_SHARE_DIR says"));
	fake_fail(OP_CREATE, -EINVAL, 400, "no such runtime", 1);
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_string_equal(seen_of(c, call)->message,
			    "The sandbox could not be started: no such runtime");
}

static void
test_no_answer_in_time(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	fake.hold[OP_PROBE] = true;
	call = submit(c, BOX_SHELL);
	world_settle();
	world_later(1000);
	assert_false(seen_of(c, call)->ended);
	world_later(2000);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	/* The next call asks anew; the old question's late answer does not count for it. */
	call = submit(c, BOX_SHELL);
	world_settle();
	assert_int_equal(fake.calls[OP_PROBE], 2);
	assert_true(w->b.probe.questions[0].open && w->b.probe.questions[1].open);
	fake_release(OP_PROBE);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	assert_false(w->b.probe.questions[0].open || w->b.probe.questions[1].open);
}

/* An engine that takes every question and answers none: refused, not piled up. */
static void
test_questions_do_not_pile_up(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call = 0;

	(void)state;
	fake.hold[OP_PROBE] = true;
	for (int i = 0; i < 10; i++) {
		call = submit(c, BOX_SHELL);
		world_settle();
		world_later(3000);
		assert_true(ended(c, call));
		assert_int_equal(seen_of(c, call)->end.status, RUN_engine_unavailable);
	}
	assert_int_equal(fake.calls[OP_PROBE], 8);
	fake_release(OP_PROBE);
	world_settle();
	call = submit(c, BOX_SHELL);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
}

static void
test_a_new_image_drains_the_pool(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t old;

	(void)state;
	world_warm(c);
	old = TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready)->id;
	fake.image_id[8] = '7';
	world_later(1500);
	(void)link_send(c->link, IPC_ROW(health_query, .call = 1));
	world_settle();
	wait_warm(BOX_PYTHON, 2);
	wait_warm(BOX_SHELL, 1);
	assert_true(TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready)->id > old);
	assert_string_equal(TAILQ_FIRST(&w->b.pools[0][BOX_SHELL].ready)->spec->image,
			    fake.image_id);
}

static void
test_a_box_of_the_old_image_is_not_handed_out(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	fake.hold[OP_START] = true;
	(void)link_send(c->link, IPC_ROW(warm_hint, ));
	world_settle();
	assert_int_equal(idmap_count(w->b.boxes), 1); /* it starts while the image changes */
	fake.image_id[8] = '7';
	world_later(1500);
	(void)link_send(c->link, IPC_ROW(health_query, .call = 1));
	world_settle();
	fake_release(OP_START);
	world_settle();
	fake.guest.exit = false;
	for (int k = BOX_SHELL; k <= BOX_PYTHON; k++) {
		call = submit(c, (enum box_class)k);
		assert_true(granted(c, call));
		assert_string_equal(run_of(c, call)->box->spec->image, fake.image_id);
	}
}

static void
test_lost_is_noticed_by_any_operation(void **state)
{
	struct engine_result gone = {.err = -ENOTCONN, .message = "gone"};
	struct engine_result still = {.err = -ETIMEDOUT, .message = "no answer"};
	struct engine_result other = {.err = -EIO, .message = "500"};

	(void)state;
	w->b.probe.state = ENGINE_UP;
	probe_lost(&w->b, &other);
	assert_int_equal(w->b.probe.state, ENGINE_UP);
	probe_lost(&w->b, &gone);
	assert_int_equal(w->b.probe.state, ENGINE_ASLEEP);
	w->b.probe.state = ENGINE_UP;
	probe_lost(&w->b, &still);
	assert_int_equal(w->b.probe.state, ENGINE_ASLEEP);
	w->b.probe.state = ENGINE_DOWN;
	probe_lost(&w->b, &gone);
	assert_int_equal(w->b.probe.state, ENGINE_DOWN);
}

static void
test_image_looked_up_again_now_and_then(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	assert_true(ended(c, submit(c, BOX_SHELL)));
	assert_int_equal(fake.calls[OP_IMAGE], 1);
	world_later(1000);
	assert_true(ended(c, submit(c, BOX_SHELL)));
	assert_int_equal(fake.calls[OP_IMAGE], 1);
	world_later(60000);
	assert_true(ended(c, submit(c, BOX_SHELL)));
	world_settle();
	assert_int_equal(fake.calls[OP_IMAGE], 2);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_statuses_of_errors),
		T(test_words),
		T(test_a_remote_engine_brings_its_own_figures),
		T(test_words_of_a_failed_start),
		T(test_no_answer_in_time),
		T(test_questions_do_not_pile_up),
		T(test_a_new_image_drains_the_pool),
		T(test_a_box_of_the_old_image_is_not_handed_out),
		T(test_lost_is_noticed_by_any_operation),
		T(test_image_looked_up_again_now_and_then),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
