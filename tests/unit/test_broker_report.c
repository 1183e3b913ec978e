/* broker/report.c: the rows of one status question. */
#include "test.h"

#include "broker_world.h"

static uint32_t rows[256];
static struct ipc_status_lease lease;
static struct ipc_status_load load;
static struct ipc_status_engine engine;
static struct ipc_status_end end;
static char owner[65], error[257];

static void
take(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	rows[row->num]++;
	if (row->num == IPC_NUM_status_lease) {
		lease = row->u.status_lease;
		(void)str_copy(owner, sizeof(owner), lease.principal.data, lease.principal.len);
	} else if (row->num == IPC_NUM_status_load) {
		load = row->u.status_load;
	} else if (row->num == IPC_NUM_status_engine) {
		engine = row->u.status_engine;
		(void)str_copy(error, sizeof(error), engine.last_error.data, engine.last_error.len);
	} else if (row->num == IPC_NUM_status_end) {
		end = row->u.status_end;
	}
}

static void
closed(void *ctx, struct link *l, int reason)
{
	(void)ctx;
	(void)l;
	fail_msg("the link ended: %d", reason);
}

static const struct link_route routes[] = {
	{.num = IPC_NUM_tally, .handler = take},
	{.num = IPC_NUM_trouble, .handler = take},
	{.num = IPC_NUM_status_engine, .handler = take},
	{.num = IPC_NUM_status_pool, .handler = take},
	{.num = IPC_NUM_status_load, .handler = take},
	{.num = IPC_NUM_status_lease, .handler = take},
	{.num = IPC_NUM_status_end, .handler = take},
};
static const struct link_config config = {.self = IPC_SUPERVISOR,
					  .peer = IPC_BROKER,
					  .routes = routes,
					  .n_routes = ARRAY_LEN(routes),
					  .queue_max = 1u << 20,
					  .on_closed = closed};

static int
setup(void **state)
{
	int fds[2];

	(void)world_setup(state);
	memset(rows, 0, sizeof(rows));
	report_forget();
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	w->supervisor = link_new(w->base, fds[0], &config);
	return supervised_open(&w->b, fds[1]);
}

static void
ask(uint32_t query)
{
	assert_int_equal(link_send(w->supervisor, IPC_ROW(status_ask, .query = query)), 0);
	world_settle();
	assert_int_equal(end.query, query);
}

static void
test_idle_broker(void **state)
{
	(void)state;
	ask(7);
	assert_int_equal(rows[IPC_NUM_status_engine], 1);
	assert_int_equal(engine.state, KNOWN_NOT_ASKED);
	assert_string_equal(error, "");
	assert_int_equal(rows[IPC_NUM_status_pool], 0);
	assert_int_equal(rows[IPC_NUM_status_load], 1);
	assert_int_equal(load.queued_max, QUEUE_MAX);
	assert_int_equal(rows[IPC_NUM_status_lease], 0);
}

static void
test_sandbox_with_its_owner(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 4711);

	(void)state;
	uint64_t call = submit_with(c, (struct ipc_call_submit){.flags = CALL_STAYS});
	assert_true(ended(c, call));
	ask(8);
	assert_int_equal(rows[IPC_NUM_status_lease], 1);
	assert_int_equal(lease.owner_kind, OWNER_UID);
	assert_int_equal(lease.owner, 4711);
	assert_string_equal(owner, "");
	assert_int_equal(lease.runs, 0);
	assert_true(lease.ttl_ms > 0 && lease.idle_limit_ms > 0);
	assert_int_equal(engine.state, KNOWN_USABLE);
	assert_true(rows[IPC_NUM_status_pool] >= 1);
	assert_true(load.boxes >= 1 && load.owners >= 1 && load.memory_bytes > 0);
	assert_true(rows[IPC_NUM_tally] >= 2); /* a box was made, a sandbox born */
	world_hang_up(c);
}

static void
test_engine_away_is_remembered(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	log_init("tester", LOG_L_WARNING);
	fake_fail(OP_PROBE, -ENOTCONN, 0, "nobody listens", 1);
	assert_true(ended(c, submit(c, BOX_PYTHON)));
	ask(9);
	assert_int_equal(engine.state, KNOWN_UNUSABLE);
	assert_non_null(strstr(error, "nobody listens"));
	assert_int_equal(rows[IPC_NUM_trouble], 1);
	probe_again(&w->b); /* it is back */
	world_settle();
	ask(10);
	assert_int_equal(engine.state, KNOWN_USABLE);
	assert_non_null(strstr(error, "nobody listens"));
	world_hang_up(c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_idle_broker),
		T(test_sandbox_with_its_owner),
		T(test_engine_away_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
