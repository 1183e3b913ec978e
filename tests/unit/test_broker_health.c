/* health_query: asked anew, answered whole, also when the engine is away. */
#include "test.h"

#include "broker_world.h"

static bool
has_end(void *arg)
{
	const struct client *c = arg;

	return c->rows[IPC_NUM_health_end] > 0;
}

static void
ask(struct client *c)
{
	c->rows[IPC_NUM_health_end] = 0;
	assert_int_equal(link_send(c->link, IPC_ROW(health_query, .call = 5)), 0);
	assert_true(world_until(has_end, c));
}

static void
test_whole_answer(void **state)
{
	struct ipc_layers row = {.role = IPC_BROKER, .layers = 5, .restarts = 1};
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	health_layers(&w->b, &row);
	row.role = IPC_REAPER;
	health_layers(&w->b, &row);
	row.restarts = 2;
	health_layers(&w->b, &row);
	assert_int_equal(w->b.n_layers, 2);
	ask(c);
	assert_int_equal(c->engine.status, RUN_ok);
	assert_int_equal(c->engine.cgroup, 1);
	assert_int_equal(c->rows[IPC_NUM_health_pool], BOX_CLASSES);
	assert_int_equal(c->rows[IPC_NUM_health_usage], 1);
	assert_int_equal(c->rows[IPC_NUM_health_layers], 2);
	assert_true(c->rows[IPC_NUM_health_note] >= 2); /* no common cgroup, no AppArmor */
	assert_int_equal(c->usage.boxes_max, OWNER_BOXES_MAX);
	assert_int_equal(c->usage.timeout_max_ms, 300000);
	assert_int_equal(c->usage.limit_memory_bytes, UINT64_C(512) << 20);
	assert_int_equal(c->usage.memory_max_bytes, w->b.memory_max_bytes);
	assert_int_equal(c->usage.own_memory_bytes, 0);
	assert_int_equal(c->usage.own_memory_max_bytes, w->b.owner_memory_max_bytes);
}

static void
test_pool_figures(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	world_warm(c);
	ask(c);
	assert_int_equal(c->pool[BOX_PYTHON].ready, 2);
	assert_int_equal(c->pool[BOX_PYTHON].target, 2);
	assert_int_equal(c->pool[BOX_NODE].target, 0);
}

static void
test_engine_away_and_image_missing(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	fake_fail(OP_PROBE, -ENOTCONN, 0, "nobody listens", 1);
	ask(c);
	assert_int_equal(c->engine.status, RUN_engine_unavailable);
	assert_non_null(strstr(c->text, "nobody listens"));
	fake_fail(OP_IMAGE, -ENOENT, 404, "no such image", 1);
	ask(c);
	assert_int_equal(c->engine.status, RUN_image_unavailable);
	ask(c);
	assert_int_equal(c->engine.status, RUN_ok);
}

static void
test_fresh_answers_are_not_asked_again(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	ask(c);
	ask(c);
	assert_int_equal(fake.calls[OP_PROBE], 1);
	world_skew_ms += 1500;
	ask(c);
	assert_int_equal(fake.calls[OP_PROBE], 2);
}

static void
test_too_many_and_gone_askers(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1), *other = world_client(1, OWNER_UID, 2);

	(void)state;
	fake.hold[OP_PROBE] = true;
	(void)link_send(other->link, IPC_ROW(health_query, .call = 1));
	world_settle();
	for (int i = 0; i < 40; i++)
		(void)link_send(c->link, IPC_ROW(health_query, .call = 2));
	world_settle();
	assert_false(c->closed); /* what does not fit is answered from what is known */
	assert_int_equal(w->b.n_queries, ARRAY_LEN(w->b.queries));
	assert_int_equal(c->rows[IPC_NUM_health_end], 41 - (int)ARRAY_LEN(w->b.queries));
	assert_int_equal(c->engine.status, RUN_busy);
	(void)link_send(other->link, IPC_ROW(health_query, .call = 3));
	world_settle();
	assert_false(other->closed); /* nor does what others ask */
	assert_int_equal(other->rows[IPC_NUM_health_end], 1);
	world_hang_up(c);
	world_settle();
	assert_int_equal(w->b.n_queries, 1);
	fake_release(OP_PROBE);
	world_settle();
	assert_int_equal(other->rows[IPC_NUM_health_end], 2);
	assert_int_equal(other->engine.status, RUN_ok);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(test_whole_answer),
		T(test_pool_figures),
		T(test_engine_away_and_image_missing),
		T(test_fresh_answers_are_not_asked_again),
		T(test_too_many_and_gone_askers),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
