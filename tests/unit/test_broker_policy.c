/* Requests and limits: what is given, what is denied and why, what a box can serve. */
#include "test.h"

#include "broker_world.h"

#define MB (UINT64_C(1) << 20)

static struct settings
settings(void)
{
	return (struct settings){.host_cpus = 8, .image = "bailey/sandbox:slim"};
}

static void
test_defaults(void **state)
{
	struct settings s = settings();
	struct ipc_call_submit m = {.box_class = BOX_PYTHON};
	struct decision d;

	(void)state;
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.memory_bytes, 512 * MB);
	assert_int_equal(d.limits.cpus_milli, 1000);
	assert_int_equal(d.limits.timeout_ms, 10000);
	assert_int_equal(d.limits.pids, 64);
	assert_int_equal(d.limits.workspace_bytes, 192 * MB);
	assert_int_equal(d.limits.tmp_bytes, 64 * MB);
	m.profile = IPC_STR("build");
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.memory_bytes, 2048 * MB);
	assert_int_equal(d.limits.timeout_ms, 30000);
	s.timeout_ms = 5000;
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.timeout_ms,
			 30000); /* EXEC_TIMEOUT_SEC is the default profile's */
	m.profile = IPC_STR("default");
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.timeout_ms, 5000);
}

static void
test_bounds(void **state)
{
	static const struct {
		enum box_class c;
		uint64_t memory;
		uint32_t cpus, timeout;
		bool ok;
		const char *says;
	} rows[] = {
		{BOX_SHELL, 32 * MB, 0, 0, true, NULL},
		{BOX_SHELL, 31 * MB, 0, 0, false, "memory_mb 31 is"},
		{BOX_PYTHON, 2048 * MB, 0, 0, true, NULL},
		{BOX_PYTHON, 2049 * MB, 0, 0, false, "32 to 2048."},
		{BOX_PYTHON, UINT64_MAX, 0, 0, false, "memory_mb"},
		{BOX_NODE, 95 * MB, 0, 0, false, "96 to 2048."},
		{BOX_NODE, 96 * MB, 0, 0, true, NULL},
		{BOX_SHELL, 0, 2000, 0, true, NULL},
		{BOX_SHELL, 0, 2001, 0, false, "cpus 2.001 is"},
		{BOX_SHELL, 0, 99, 0, false,
		 "cpus 0.099 is outside what profile \"default\" allows: 0.1 to 2."},
		{BOX_SHELL, 0, UINT32_MAX, 0, false, "cpus"},
		{BOX_SHELL, 0, 0, 300000, true, NULL},
		{BOX_SHELL, 0, 0, 300001, false, "timeout_seconds 300.001 is"},
		{BOX_SHELL, 0, 0, 1, true, NULL},
	};
	struct settings s = settings();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_call_submit m = {.box_class = rows[i].c,
					    .memory_bytes = rows[i].memory,
					    .cpus_milli = rows[i].cpus,
					    .timeout_ms = rows[i].timeout};
		struct decision d;

		assert_int_equal(policy_decide(&s, &m, &d), rows[i].ok ? 0 : -EPERM);
		if (!rows[i].ok)
			assert_non_null(strstr(d.message, rows[i].says));
	}
}

static void
test_the_trees_maxima_bind_requests_and_defaults(void **state)
{
	struct settings s = settings();
	struct ipc_call_submit m = {.box_class = BOX_SHELL};
	struct decision d;
	struct limits most;

	(void)state;
	s.max_memory_bytes = 256 * MB;
	s.max_cpus_milli = 500;
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.memory_bytes, 256 * MB);
	assert_int_equal(d.limits.cpus_milli, 500);
	assert_true(d.limits.workspace_bytes + d.limits.tmp_bytes <= 128 * MB);
	m.memory_bytes = 257 * MB;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	policy_maxima(&s, profile_find("", 0), &most);
	assert_int_equal(most.cpus_milli, 500);
	assert_int_equal(most.memory_bytes, 256 * MB);
	/* They replace what the profile has, in both directions. */
	s = settings();
	s.max_memory_bytes = 8192 * MB;
	s.max_cpus_milli = 6000;
	m = (struct ipc_call_submit){
		.box_class = BOX_SHELL, .memory_bytes = 8192 * MB, .cpus_milli = 6000};
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.memory_bytes, 8192 * MB);
	assert_int_equal(d.limits.cpus_milli, 6000);
	assert_int_equal(d.limits.workspace_bytes, 192 * MB);
	m.memory_bytes++;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	/* What all sandboxes may have together is the most that one can. */
	s.host_memory_bytes = 8192 * MB;
	policy_maxima(&s, profile_find("", 0), &most);
	assert_int_equal(most.memory_bytes, policy_total_memory(&s));
	assert_true(most.memory_bytes > 6143 * MB && most.memory_bytes <= 6144 * MB);
	m.memory_bytes = 6145 * MB;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	s = settings();
	s.host_cpus = 1; /* the engine refuses more than there are */
	m = (struct ipc_call_submit){.box_class = BOX_SHELL, .profile = IPC_STR("build")};
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.limits.cpus_milli, 1000);
}

static void
test_tmpfs_is_at_most_half_of_memory(void **state)
{
	struct settings s = settings();

	(void)state;
	for (uint64_t mb = 32; mb <= 2048; mb += 7) {
		struct ipc_call_submit m = {.box_class = BOX_SHELL, .memory_bytes = mb * MB};
		struct decision d;

		assert_int_equal(policy_decide(&s, &m, &d), 0);
		assert_true(d.limits.workspace_bytes + d.limits.tmp_bytes <= mb * MB / 2);
		assert_true(d.limits.workspace_bytes > 0 && d.limits.tmp_bytes > 0);
		assert_true(d.limits.workspace_inodes > 0 && d.limits.tmp_inodes > 0);
		if (mb >= 512)
			assert_int_equal(d.limits.workspace_bytes, 192 * MB);
	}
}

static void
test_names(void **state)
{
	struct settings s = settings();
	struct ipc_call_submit m = {.profile = IPC_STR("nosuch")};
	struct decision d;

	(void)state;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	assert_string_equal(d.message,
			    "There is no profile of that name. There is: default, build.");
	m = (struct ipc_call_submit){.image = IPC_STR("bailey/sandbox:slim")};
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	m.image = IPC_STR("bailey/sandbox:slim2");
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	assert_non_null(strstr(d.message, "bailey/sandbox:slim"));
	m.image = IPC_STR("ubuntu");
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
}

static void
test_fit(void **state)
{
	struct settings s = settings();
	struct limits have, want;
	struct fit f;

	(void)state;
	policy_defaults(&s, profile_find("", 0), &have);
	want = have;
	f = policy_fit(BOX_PYTHON, &have, &want, 0, true);
	assert_false(f.cold || f.update || f.wait);
	assert_int_equal(f.start, START_WARM);
	assert_int_equal(policy_fit(BOX_PYTHON, &have, &want, CALL_LIVE, true).start, START_LIVE);
	assert_int_equal(policy_fit(BOX_SHELL, &have, &want, CALL_LIVE, true).start, START_WARM);
	want.memory_bytes *= 2; /* wider: waited for; node sized its heap at its start */
	f = policy_fit(BOX_PYTHON, &have, &want, 0, true);
	assert_true(!f.cold && f.update && f.wait && f.start == START_WARM);
	assert_int_equal(policy_fit(BOX_NODE, &have, &want, 0, true).start, START_LIVE);
	assert_true(policy_fit(BOX_PYTHON, &have, &want, 0, false).cold); /* no update endpoint */
	want = have;
	want.cpus_milli = 500; /* narrower: in parallel */
	f = policy_fit(BOX_PYTHON, &have, &want, 0, true);
	assert_true(!f.cold && f.update && !f.wait && f.start == START_WARM);
	want.cpus_milli = 2000; /* another whole number: the processor files are bound */
	assert_true(policy_fit(BOX_PYTHON, &have, &want, 0, true).cold);
	want = have;
	want.memory_bytes /= 2;
	want.workspace_bytes /= 2; /* less memory means smaller tmpfs, made at create */
	assert_true(policy_fit(BOX_PYTHON, &have, &want, 0, true).cold);
	want = have;
	want.pids++;
	assert_true(policy_fit(BOX_PYTHON, &have, &want, 0, true).cold);
	assert_int_equal(policy_whole_cpus(1), 1);
	assert_int_equal(policy_whole_cpus(1000), 1);
	assert_int_equal(policy_whole_cpus(1001), 2);
}

static void
test_sandboxes_that_stay(void **state)
{
	struct settings s = settings();
	struct ipc_call_submit m = {.flags = CALL_STAYS};
	const struct limits have = {.memory_bytes = 99 * MB, .cpus_milli = 77, .timeout_ms = 1};
	struct decision d;

	(void)state;
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.ttl_s, 3600);
	assert_int_equal(d.idle_s, 600);
	m.ttl_s = 28800;
	m.idle_s = 28800;
	assert_int_equal(policy_decide(&s, &m, &d), 0);
	assert_int_equal(d.ttl_s, 28800);
	m.ttl_s++;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	assert_non_null(strstr(d.message, "ttl_seconds 28801"));
	m.ttl_s--;
	m.idle_s++;
	assert_int_equal(policy_decide(&s, &m, &d), -EPERM);
	assert_non_null(strstr(d.message, "idle_timeout_seconds"));
	/* A run in one: its limits are there already, its timeout is its own. */
	m = (struct ipc_call_submit){.memory_bytes = 1, .cpus_milli = UINT32_MAX};
	assert_int_equal(policy_decide_within(&s, profile_find("", 0), &have, &m, &d), 0);
	assert_int_equal(d.limits.memory_bytes, 99 * MB);
	assert_int_equal(d.limits.cpus_milli, 77);
	assert_int_equal(d.limits.timeout_ms, 10000);
	m.flags = CALL_BACKGROUND;
	assert_int_equal(policy_decide_within(&s, profile_find("", 0), &have, &m, &d), 0);
	assert_int_equal(d.limits.timeout_ms, 0); /* none unless it was asked for */
	m.timeout_ms = 300000;
	assert_int_equal(policy_decide_within(&s, profile_find("", 0), &have, &m, &d), 0);
	assert_int_equal(d.limits.timeout_ms, 300000);
	m.timeout_ms++;
	assert_int_equal(policy_decide_within(&s, profile_find("", 0), &have, &m, &d), -EPERM);
	assert_non_null(strstr(d.message, "timeout_seconds"));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_the_trees_maxima_bind_requests_and_defaults),
		cmocka_unit_test(test_tmpfs_is_at_most_half_of_memory),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_sandboxes_that_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
