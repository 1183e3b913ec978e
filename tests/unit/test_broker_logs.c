/* broker/logs.c: a reader gets kept bytes, in order, within its limit, and only of its owner. */
#include "test.h"

#include <event2/event.h>
#include <sys/mman.h>

#include "broker_world.h"

#define RUN "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BOX "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* What frontends have not read yet. */
static size_t backlog;
size_t __wrap_link_queued(const struct link *l);
size_t
__wrap_link_queued(const struct link *l)
{
	(void)l;
	return backlog;
}

struct reader {
	struct link *link;
	struct link_config config;
	bool closed;
	uint8_t data[(2u << 20) + 1];
	size_t len;
	uint64_t first, next; /* of the bytes; next: where the last ones ended */
	uint32_t pieces, gaps, ends;
	struct ipc_log_end end;
	uint32_t refused; /* a status; 0: none */
	char run_id[33], sandbox[33], message[513];
};
static struct reader rd;
static int memory;
static uint32_t kept;

static void
copy(char *to, size_t cap, const struct ipc_str *s)
{
	assert_int_equal(str_copy(to, cap, s->data, s->len), 0);
}

static void
on_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_log_data *d = &row->u.log_data;

	(void)ctx;
	(void)l;
	if (row->num == IPC_NUM_call_ended) {
		rd.refused = row->u.call_ended.status;
		assert_int_equal(row->u.call_ended.call, 5);
		return;
	}
	if (row->num == IPC_NUM_log_end) {
		rd.end = row->u.log_end;
		rd.ends++;
		assert_int_equal(rd.end.call, 5);
		copy(rd.run_id, sizeof(rd.run_id), &rd.end.run_id);
		copy(rd.sandbox, sizeof(rd.sandbox), &rd.end.sandbox);
		copy(rd.message, sizeof(rd.message), &rd.end.message);
		return;
	}
	assert_int_equal(d->call, 5);
	assert_int_equal(rd.ends, 0);
	assert_true(d->data.len > 0);
	if (rd.pieces++ == 0)
		rd.first = d->offset;
	else
		rd.gaps += d->offset != rd.next;
	assert_true(rd.pieces == 1 || d->offset >= rd.next);
	assert_true(rd.len + d->data.len <= sizeof(rd.data));
	memcpy(rd.data + rd.len, d->data.data, d->data.len);
	rd.len += d->data.len;
	rd.next = d->offset + d->data.len;
}

static void
on_closed(void *ctx, struct link *l, int reason)
{
	(void)ctx;
	(void)l;
	(void)reason;
	rd.closed = true;
	link_free(TAKE(rd.link));
}

static void
connect_as(uint64_t uid)
{
	static const struct link_route routes[] = {
		{.num = IPC_NUM_log_data, .handler = on_row},
		{.num = IPC_NUM_log_end, .handler = on_row},
		{.num = IPC_NUM_call_ended, .handler = on_row},
	};
	struct ipc_peer peer = {
		.role = IPC_FRONTEND, .peer_id = 100 + uid, .owner_kind = OWNER_UID, .owner = uid};
	int fds[2];

	link_free(TAKE(rd.link));
	world_settle();
	rd.closed = false;
	rd.config = (struct link_config){.self = IPC_FRONTEND,
					 .peer = IPC_BROKER,
					 .routes = routes,
					 .n_routes = ARRAY_LEN(routes),
					 .queue_max = 1u << 20,
					 .on_closed = on_closed};
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	rd.link = link_new(w->base, fds[1], &rd.config);
	assert_int_equal(front_open(&w->b, &peer, fds[0]), 0);
}

static bool
answered(void *arg)
{
	(void)arg;
	return rd.ends > 0 || rd.refused != 0 || rd.closed;
}

static void
ask(struct ipc_log_read m)
{
	struct ipc_row row = {.num = IPC_NUM_log_read, .u.log_read = m};

	row.u.log_read.call = 5;
	rd.len = 0;
	rd.first = rd.next = 0;
	rd.pieces = rd.gaps = rd.ends = rd.refused = 0;
	assert_int_equal(link_send(rd.link, &row), 0);
	assert_true(world_until(answered, NULL));
}

static int
setup(void **state)
{
	struct owner me = {.kind = OWNER_UID, .number = 1000};
	uint8_t data[10000];

	(void)world_setup(state);
	memory = memfd_create("test", MFD_CLOEXEC);
	assert_true(memory >= 0);
	assert_int_equal(ftruncate(memory, 16 << 20), 0);
	assert_int_equal(store_open(memory, &w->b.store), 0);
	kept = store_run_new(w->b.store, RUN, BOX, 7, &me);
	for (size_t i = 0; i < 150; i++) { /* 1.5 million bytes of stdout */
		memset(data, (int)i, sizeof(data));
		store_put(w->b.store, kept, STREAM_STDOUT, data, sizeof(data), false);
	}
	store_put(w->b.store, kept, STREAM_STDERR, "warning", 7, false);
	memset(&rd, 0, sizeof(rd));
	connect_as(1000);
	return 0;
}

static int
teardown(void **state)
{
	link_free(TAKE(rd.link));
	world_settle();
	assert_int_equal(close(memory), 0);
	return world_teardown(state);
}

static void
test_a_run_that_goes_on(void **state)
{
	(void)state;
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDERR, .limit = 100});
	assert_int_equal(rd.len, 7);
	assert_memory_equal(rd.data, "warning", 7);
	assert_int_equal(rd.end.status, RUN_running);
	assert_int_equal(rd.end.ended_ms, 0);
	assert_string_equal(rd.run_id, RUN);
	assert_string_equal(rd.sandbox, BOX);
	assert_true(rd.end.written == 7 && rd.end.head == 7 && rd.end.tail == 7);
	assert_string_equal(rd.message, "");
	ask((struct ipc_log_read){.id = IPC_STR(BOX), .stream = STREAM_STDERR, .limit = 3});
	assert_string_equal(rd.run_id, RUN);
	assert_memory_equal(rd.data, "war", 3);
	assert_int_equal(rd.len, 3);
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDERR});
	assert_int_equal(rd.pieces, 0);
}

static void
test_how_it_ended(void **state)
{
	(void)state;
	store_run_end(w->b.store, kept,
		      &(struct store_end){.status = RUN_timed_out,
					  .cause = CAUSE_DEADLINE,
					  .exit_code = 137,
					  .signal = 9});
	world_skew_ms += 3000;
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDOUT});
	assert_int_equal(rd.end.status, RUN_timed_out);
	assert_int_equal(rd.end.cause, CAUSE_DEADLINE);
	assert_int_equal(rd.end.exit_code, 137);
	assert_int_equal(rd.end.signal, 9);
	assert_true(rd.end.ended_ms >= 3000 && rd.end.ended_ms <= rd.end.started_ms);
	assert_string_equal(rd.message, run_status_advice(RUN_timed_out));
}

static void
test_parts_of_much(void **state)
{
	static const uint64_t all = 1500000;

	(void)state;
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDOUT, .limit = 1u << 20});
	assert_true(rd.end.written == all && rd.end.head < (1u << 20) && rd.end.tail < all);
	assert_int_equal(rd.len, rd.end.head + (all - rd.end.tail));
	assert_int_equal(rd.gaps, 1);
	for (size_t i = 0; i < rd.end.head; i++)
		assert_int_equal(rd.data[i], i / 10000);
	for (uint64_t i = rd.end.tail; i < all; i++)
		assert_int_equal(rd.data[rd.len - (all - i)], i / 10000);
	ask((struct ipc_log_read){
		.id = IPC_STR(RUN), .stream = STREAM_STDOUT, .offset = 9990, .limit = 20000});
	assert_int_equal(rd.first, 9990);
	assert_int_equal(rd.len, 20000);
	assert_true(rd.data[9] == 0 && rd.data[10] == 1);
	assert_true(rd.data[10009] == 1 && rd.data[10010] == 2);
	ask((struct ipc_log_read){.id = IPC_STR(RUN),
				  .stream = STREAM_STDOUT,
				  .offset = 100,
				  .from_end = 1,
				  .limit = 1000});
	assert_int_equal(rd.first, all - 100);
	assert_int_equal(rd.len, 100);
	ask((struct ipc_log_read){.id = IPC_STR(RUN),
				  .stream = STREAM_STDOUT,
				  .offset = all + 1,
				  .from_end = 1,
				  .limit = 5});
	assert_int_equal(rd.first, 0);
	assert_int_equal(rd.len, 5);
	ask((struct ipc_log_read){
		.id = IPC_STR(RUN), .stream = STREAM_STDOUT, .offset = UINT64_MAX, .limit = 5});
	assert_int_equal(rd.len, 0);
}

static void
not_found(const char *id)
{
	ask((struct ipc_log_read){.id = IPC_STR(id), .stream = STREAM_STDOUT, .limit = 100});
	assert_int_equal(rd.end.status, RUN_not_found);
	assert_int_equal(rd.pieces, 0);
	assert_string_equal(rd.run_id, "");
	assert_int_equal(rd.end.written, 0);
	assert_string_equal(rd.message, "");
}

static void
test_not_found_is_one_answer(void **state)
{
	(void)state;
	not_found("cccccccccccccccccccccccccccccccc"); /* nobody's */
	not_found("");
	not_found("aaaa");
	not_found("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
	connect_as(1001); /* another's */
	not_found(RUN);
	not_found(BOX);
	store_close(TAKE(w->b.store));
	connect_as(1000);
	not_found(RUN);
}

static void
test_too_much_is_unread(void **state)
{
	(void)state;
	backlog = FRONTS_UNREAD_MAX / 2 + 1;
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDOUT, .limit = 100});
	backlog = 0;
	assert_int_equal(rd.refused, RUN_busy);
	assert_int_equal(rd.pieces + rd.ends, 0);
	assert_false(rd.closed);
	ask((struct ipc_log_read){.id = IPC_STR(RUN), .stream = STREAM_STDOUT, .limit = 100});
	assert_int_equal(rd.len, 100);
}

static void
test_out_of_range_costs_the_link(void **state)
{
	static const struct ipc_log_read bad[] = {
		{.stream = STREAM_STDIN},
		{.stream = STREAM_VALUE},
		{.stream = UINT32_MAX},
		{.stream = STREAM_STDOUT, .limit = (1u << 20) + 1},
		{.stream = STREAM_STDOUT, .from_end = 2},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct ipc_log_read m = bad[i];

		connect_as(1000);
		m.id = IPC_STR(RUN);
		ask(m);
		assert_true(rd.closed && rd.ends == 0);
	}
}

/* What a run writes on its way through the broker, and how it ended, is found by its number. */
static void
test_a_whole_run(void **state)
{
	static const struct guest_g_exit result = {
		.how = EXIT_EXITED, .exit_code = 3, .stdout_bytes = 5};
	struct client *c = world_client(0, OWNER_UID, 1001);
	char id[33];

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	uint64_t call = submit(c, BOX_SHELL);

	fake.guest.exit = false;
	assert_true(granted(c, call));
	world_settle();
	struct run *r = run_of(c, call);
	uint64_t box = r->box->id;
	memcpy(id, r->run_id, sizeof(id));
	fake_guest_out(box, r->number, STREAM_STDOUT, "hello", 5);
	fake_guest_exit(box, &result);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->out_bytes, 5);
	connect_as(1001);
	ask((struct ipc_log_read){.id = IPC_STR(id), .stream = STREAM_STDOUT, .limit = 100});
	assert_int_equal(rd.end.status, RUN_nonzero);
	assert_int_equal(rd.end.exit_code, 3);
	assert_int_equal(rd.end.cause, CAUSE_DONE);
	assert_int_equal(rd.len, 5);
	assert_memory_equal(rd.data, "hello", 5);
	assert_true(rd.end.ended_ms > 0);
	connect_as(1002);
	not_found(id);
	connect_as(1001);
	call = submit(c, BOX_SHELL); /* withdrawn by its caller */
	assert_true(granted(c, call));
	world_settle();
	memcpy(id, run_of(c, call)->run_id, sizeof(id));
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	ask((struct ipc_log_read){.id = IPC_STR(id), .stream = STREAM_STDOUT, .limit = 100});
	assert_int_equal(rd.end.status, RUN_cancelled);
}

/* Its owner is not told that there is no such sandbox; others are. */
static void
test_a_sandbox_without_a_run(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1001);
	char id[33];

	(void)state;
	w->b.settings.flags |= SETTINGS_NO_POOL;
	(void)snprintf(id, sizeof(id), "%s", stay(c, 0));
	connect_as(1001);
	ask((struct ipc_log_read){.id = IPC_STR(id), .stream = STREAM_STDOUT, .limit = 100});
	assert_int_equal(rd.end.status, RUN_not_found);
	assert_non_null(strstr(rd.message, "Nothing has run in this sandbox"));
	connect_as(1002);
	not_found(id);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_run_that_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_how_it_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts_of_much, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_found_is_one_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_much_is_unread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_out_of_range_costs_the_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_whole_run, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_sandbox_without_a_run, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
