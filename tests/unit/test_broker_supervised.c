/* The supervisor's link: configured in order, links passed by descriptor. */
#include "test.h"

#include <event2/event.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "broker_world.h"

static void
ignore(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	(void)row;
}

static void
closed(void *ctx, struct link *l, int reason)
{
	(void)ctx;
	(void)l;
	(void)reason;
}

static unsigned int reapers_lost;

static void
on_reaper_lost(void *ctx, struct link *l, const struct ipc_row *row)
{
	ignore(ctx, l, row);
	reapers_lost++;
}

static const struct link_route routes[] = {
	{.num = IPC_NUM_ready, .handler = ignore},
	{.num = IPC_NUM_reaper_lost, .handler = on_reaper_lost},
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
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	w->supervisor = link_new(w->base, fds[0], &config);
	return supervised_open(&w->b, fds[1]);
}

static void
say(const struct ipc_row *row)
{
	assert_int_equal(link_send(w->supervisor, row), 0);
}

static void
configure(void)
{
	say(IPC_ROW(settings, .instance = IPC_STR("fedcba9876543210fedcba9876543210"),
		    .boot_id = IPC_STR("b"), .user_hash = IPC_STR("u"), .box_uid = 10001,
		    .box_gid = 10001, .share_dir = IPC_STR("/s"), .image = IPC_STR("i"),
		    .host_memory_bytes = UINT64_C(4) << 30, .cgroup_parent = IPC_STR(""),
		    .flags = SETTINGS_SAME_HOST));
	say(IPC_ROW(engine, .kind = ENGINE_UNIX, .path = IPC_STR("/x"), .host = IPC_STR(""),
		    .address = IPC_STR(""), .pem_parts = 1));
}

static void
test_configured(void **state)
{
	(void)state;
	engine_free(TAKE(w->b.engine));
	configure();
	say(IPC_ROW(engine_pem, .which = PEM_CA, .data = {(const uint8_t *)"x", 1}));
	world_settle();
	assert_null(w->b.engine);
	say(IPC_ROW(configured, ));
	say(IPC_ROW(layers, .role = IPC_BROKER, .layers = 3));
	world_settle();
	assert_non_null(w->b.engine);
	assert_int_equal(w->b.memory_max_bytes / 1000000, 3221); /* 75 % */
	assert_int_equal(w->b.owner_memory_max_bytes, w->b.memory_max_bytes / 2);
	assert_int_equal(w->b.n_layers, 1);
	assert_int_equal(fake.calls[OP_PROBE], 0);
}

static void
test_peers_come_with_a_descriptor(void **state)
{
	int fds[2], more[2];

	(void)state;
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	assert_int_equal(fd_seqpacket_pair(more), 0);
	assert_int_equal(link_send_fd(w->supervisor,
				      IPC_ROW(peer, .role = IPC_FRONTEND, .peer_id = 1,
					      .owner_kind = OWNER_UID, .owner = 1000),
				      fds[0]),
			 0);
	world_settle();
	assert_int_equal(w->b.n_fronts, 1);
	assert_int_equal(w->b.passed_fd, -1);
	assert_int_equal(link_send_fd(w->supervisor, IPC_ROW(peer, .role = IPC_REAPER), more[0]),
			 0);
	world_settle();
	assert_non_null(w->b.reaper);
	assert_int_equal(
		link_send_fd(w->supervisor, IPC_ROW(peer, .role = IPC_SUPERVISOR), more[0]), 0);
	world_settle(); /* not a role we link with: closed, no more */
	assert_int_equal(w->b.passed_fd, -1);
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(more[0]);
	(void)close(more[1]);
}

/* Says what went to the log while the reaper's link closed; 0 where nothing did. */
static size_t
logged_at_close(int peer)
{
	int kept = dup(STDERR_FILENO), log = memfd_create("log", MFD_CLOEXEC);
	struct stat st;

	assert_true(kept >= 0 && log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO);
	(void)close(peer);
	world_settle();
	assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(fstat(log, &st), 0);
	(void)close(kept);
	(void)close(log);
	return (size_t)st.st_size;
}

/* Where the tree ends it may be the reaper that goes first: no warning for anybody's log. */
static void
test_a_reaper_that_leaves_is_no_warning(void **state)
{
	int fds[2];

	(void)state;
	log_init("bailey-broker", LOG_L_WARNING);
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	assert_int_equal(link_send_fd(w->supervisor, IPC_ROW(peer, .role = IPC_REAPER), fds[0]), 0);
	world_settle();
	assert_non_null(w->b.reaper);
	(void)close(fds[0]);
	assert_int_equal(logged_at_close(fds[1]), 0);
	assert_null(w->b.reaper);
}

static void
configured_too_early(void *arg)
{
	(void)arg;
	engine_free(TAKE(w->b.engine));
	say(IPC_ROW(configured, ));
	world_settle();
}

static void
bad_settings(void *arg)
{
	(void)arg;
	say(IPC_ROW(settings, .instance = IPC_STR("x"), .boot_id = IPC_STR(""),
		    .user_hash = IPC_STR(""), .share_dir = IPC_STR(""), .image = IPC_STR(""),
		    .cgroup_parent = IPC_STR("")));
	world_settle();
}

static void
bad_engine(void *arg)
{
	(void)arg;
	say(IPC_ROW(engine, .kind = 7, .path = IPC_STR(""), .host = IPC_STR(""),
		    .address = IPC_STR("")));
	world_settle();
}

static void
early_pem(void *arg)
{
	(void)arg;
	say(IPC_ROW(engine_pem, .which = PEM_CA, .data = {(const uint8_t *)"x", 1}));
	world_settle();
}

/* Without one of its parts a certificate or key is another one, or none. */
static void
too_few_pem_parts(void *arg)
{
	(void)arg;
	configure();
	say(IPC_ROW(configured, ));
	world_settle();
}

static void
too_many_pem_parts(void *arg)
{
	(void)arg;
	configure();
	say(IPC_ROW(engine_pem, .which = PEM_CA, .data = {(const uint8_t *)"x", 1}));
	say(IPC_ROW(engine_pem, .which = PEM_KEY, .data = {(const uint8_t *)"y", 1}));
	world_settle();
}

static void
test_wrong_order_is_fatal(void **state)
{
	(void)state;
	test_is_fatal(configured_too_early, NULL);
	test_is_fatal(bad_settings, NULL);
	test_is_fatal(bad_engine, NULL);
	test_is_fatal(early_pem, NULL);
	test_is_fatal(too_few_pem_parts, NULL);
	test_is_fatal(too_many_pem_parts, NULL);
}

static void
hang_up(void *arg)
{
	(void)arg;
	(void)shutdown(link_fd(w->supervisor), SHUT_RDWR); /* the parent holds it open as well */
	world_settle();
	_exit(7); /* not reached */
}

static void
test_ends_with_the_supervisor(void **state)
{
	(void)state;
	assert_int_equal(WEXITSTATUS(test_in_child(hang_up, NULL)), 0);
}

static void
test_stop(void **state)
{
	(void)state;
	say(IPC_ROW(stop, .grace_ms = 500));
	for (int i = 0; i < 10; i++)
		world_turn();
	assert_true(w->b.stopping);
}

/* A reaper that is gone is replaced anyway; one that lives must be ended by somebody. */
static void
test_a_reaper_link_that_fails_is_told(void **state)
{
	(void)state;
	reapers_lost = 0;
	link_free(TAKE(w->reaper.link));
	world_settle();
	assert_null(w->b.reaper);
	assert_int_equal(reapers_lost, 0);
	reaper_connect();
	world_settle();
	assert_int_equal(send(link_fd(w->reaper.link), "no row", 6, 0), 6);
	world_settle();
	assert_null(w->b.reaper);
	assert_int_equal(reapers_lost, 1);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)
		T(test_a_reaper_link_that_fails_is_told),
		T(test_configured),
		T(test_peers_come_with_a_descriptor),
		T(test_a_reaper_that_leaves_is_no_warning),
		T(test_wrong_order_is_fatal),
		T(test_ends_with_the_supervisor),
		T(test_stop),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
