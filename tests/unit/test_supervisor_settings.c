/* supervisor/settings.c: facts about this machine, and the rows children get. */
#include "test.h"
#include "supervisor.h"

static struct ipc_row sent[16];
static size_t n_sent, fail_at;
static enum ipc_role to;

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	static uint8_t packet[IPC_PACKET_MAX];
	size_t len;

	(void)l;
	assert_true(n_sent < ARRAY_LEN(sent));
	/* the table accepts it: sizes and direction */
	assert_int_equal(ipc_encode(row, IPC_SUPERVISOR, to, packet, sizeof(packet), &len), 0);
	sent[n_sent++] = *row;
	return fail_at == n_sent ? -EPIPE : 0;
}

static int
setup(void **state)
{
	(void)state;
	n_sent = fail_at = 0;
	return 0;
}

static int
send_to(enum child_id child, const struct settings_source *s)
{
	to = children_role(child);
	return settings_send(NULL, child, s);
}

static void
test_facts(void **state)
{
	struct options o = {.share_dir = "/share", .no_pool = true};
	struct facts f, again;
	char error[256];

	(void)state;
	assert_int_equal(settings_gather(&f, &o, error, sizeof(error)), 0);
	assert_int_equal(settings_gather(&again, &o, error, sizeof(error)), 0);
	assert_int_equal(strlen(f.instance), 32);
	assert_string_not_equal(f.instance, again.instance);
	assert_int_equal(strlen(f.boot_id), 36);
	assert_string_equal(f.boot_id, again.boot_id);
	assert_int_equal(strlen(f.user_hash), 32);
	assert_string_equal(f.user_hash, again.user_hash);
	assert_int_equal(f.tree_pid, getpid());
	assert_true(f.tree_start > 0 && f.pid_ns > 0 && f.host_cpus > 0);
	assert_true(f.host_memory_bytes > 1 << 20);
	assert_string_equal(f.share_dir, "/share");
	assert_int_equal(f.flags, SETTINGS_NO_POOL);
}

static void
hash_as_another_user(void *arg)
{
	const char *ours = arg;
	struct options o = {.share_dir = "/share"};
	struct facts f;
	char error[256];

	if (setresuid(61500, 61500, 61500) == -1 ||
	    settings_gather(&f, &o, error, sizeof(error)) < 0)
		_exit(2);
	_exit(strcmp(f.user_hash, ours) == 0);
}

static void
test_user_hash_differs_by_user(void **state)
{
	struct options o = {.share_dir = "/share"};
	struct facts f;
	char error[256];

	(void)state;
	if (geteuid() != 0)
		test_skip("needs root");
	assert_int_equal(settings_gather(&f, &o, error, sizeof(error)), 0);
	assert_int_equal(test_in_child(hash_as_another_user, f.user_hash), 0);
}

static void
test_missing_data_files_have_a_clear_line(void **state)
{
	struct options o = {.debug = false};
	struct facts f;
	char error[256] = "";

	(void)state;
	/* a test program has no share directory with a guest beside it, or it has */
	if (settings_gather(&f, &o, error, sizeof(error)) < 0)
		assert_non_null(strstr(error, "share/box/init"));
}

static void
test_rows_to_a_reaper(void **state)
{
	struct options o = {.image = "img", .max_cpus_milli = 1500, .timeout_ms = 7};
	struct facts f = {.instance = "i", .tree_pid = 5, .flags = SETTINGS_SAME_HOST};
	const struct settings_source s = {.options = &o, .facts = &f};

	(void)state;
	assert_int_equal(send_to(CHILD_REAPER, &s), 0);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent[0].num, IPC_NUM_settings);
	assert_int_equal(sent[0].u.settings.tree_pid, 5);
	assert_int_equal(sent[0].u.settings.box_uid, 10001);
	assert_int_equal(sent[0].u.settings.max_cpus_milli, 1500);
	assert_int_equal(sent[0].u.settings.flags, SETTINGS_SAME_HOST);
	assert_int_equal(sent[1].num, IPC_NUM_configured);
}

static void
test_rows_to_a_broker(void **state)
{
	struct options o = {.image = "img"};
	struct facts f = {.instance = "i"};
	struct engine_target t = {.kind = ENGINE_TLS, .host = "h", .address = "::1", .port = 5};
	static const size_t sizes[] = {IPC_CHUNK_MAX * 2 + 1, IPC_CHUNK_MAX, 10};
	static const struct {
		uint32_t which;
		size_t len;
	} parts[] = {{PEM_CA, IPC_CHUNK_MAX},
		     {PEM_CA, IPC_CHUNK_MAX},
		     {PEM_CA, 1},
		     {PEM_CERT, IPC_CHUNK_MAX},
		     {PEM_KEY, 10}};
	static uint8_t bytes[IPC_CHUNK_MAX * 2 + 1];
	static struct tokens tokens = {.row = {{.principal = "ci"}}, .n = 1};
	const struct settings_source s = {
		.options = &o, .facts = &f, .engine = &t, .tokens = &tokens};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		buf_init(&t.pem[i], sizeof(bytes));
		assert_int_equal(buf_append(&t.pem[i], bytes, sizes[i]), 0);
	}
	assert_int_equal(send_to(CHILD_BROKER, &s), 0);
	assert_int_equal(n_sent, 10);
	assert_int_equal(sent[1].num, IPC_NUM_engine);
	assert_int_equal(sent[1].u.engine.kind, ENGINE_TLS);
	assert_int_equal(sent[1].u.engine.port, 5);
	assert_int_equal(sent[1].u.engine.pem_parts, 5);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		assert_int_equal(sent[2 + i].num, IPC_NUM_engine_pem);
		assert_int_equal(sent[2 + i].u.engine_pem.which, parts[i].which);
		assert_int_equal(sent[2 + i].u.engine_pem.data.len, parts[i].len);
	}
	assert_int_equal(sent[7].num, IPC_NUM_token);
	assert_int_equal(sent[8].num, IPC_NUM_tokens_end);
	assert_int_equal(sent[8].u.tokens_end.count, 1);
	assert_int_equal(sent[9].num, IPC_NUM_configured);
	/* a link that breaks on the way ends the telling */
	for (fail_at = 1; fail_at <= 10; fail_at++) {
		n_sent = 0;
		assert_int_equal(send_to(CHILD_BROKER, &s), -EPIPE);
		assert_int_equal(n_sent, fail_at);
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		buf_done(&t.pem[i]);
}

static void
test_rows_to_a_frontend(void **state)
{
	struct options o = {.image = "img"};
	struct facts f = {.instance = "i"};
	const struct settings_source s = {
		.options = &o,
		.facts = &f,
		.client = {.kind = CLIENT_HTTP, .hosts = "localhost:1", .origins = "http://a"}};

	(void)state;
	assert_int_equal(send_to(CHILD_FRONTEND, &s), 0);
	assert_int_equal(n_sent, 3);
	assert_int_equal(sent[1].num, IPC_NUM_client);
	assert_int_equal(sent[1].u.client.kind, CLIENT_HTTP);
	assert_memory_equal(sent[1].u.client.hosts.data, "localhost:1", 11);
	assert_memory_equal(sent[1].u.client.origins.data, "http://a", 8);
	assert_int_equal(sent[2].num, IPC_NUM_configured);
}

#define T(name) cmocka_unit_test_setup(name, setup)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_facts),
		T(test_user_hash_differs_by_user),
		T(test_missing_data_files_have_a_clear_line),
		T(test_rows_to_a_reaper),
		T(test_rows_to_a_broker),
		T(test_rows_to_a_frontend),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
