/* tests/unit/test_broker_docker_reply.c - replies as an engine sends them, and broken ones. */
#include "test.h"

#include "engine_parts.h"

#define HEX "664fb81dfacdfe4d6f8b931d85fe608e7f791f093fe2af59ac45951b553c8747"
#define B(s) (const uint8_t *)(s), strlen(s)
#define LABELS                                                                                 \
	"\"io.bailey.product\":\"bailey\",\"io.bailey.instance\":\"00ff\",\"io.bailey.boot\":" \
	"\"b-1\",\"io.bailey.user\":\"u1\",\"io.bailey.tree-pid\":\"12\",\"io.bailey.tree-"    \
	"start\":"                                                                             \
	"\"345\",\"io.bailey.pid-ns\":\"4026531836\",\"io.bailey.box\":\"18446744073709551615\""

static void
test_message(void **state)
{
	static const struct {
		const char *body, *want;
	} rows[] = {
		{"{\"message\":\"No such image: x\"}", "No such image: x"},
		{"{\"message\":\"a\\u001b[31m\\nb\\u00e9\"}", "a?[31m?b??"},
		{"{\"cause\":\"podman says\"}", "podman says"},
		{"{\"message\":5}", "{\"message\":5}"},
		{"plain text\r\n", "plain text??"},
		{"", ""},
	};
	char out[ENGINE_MESSAGE_MAX], longer[2000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		docker_reply_message(B(rows[i].body), out);
		assert_string_equal(out, rows[i].want);
	}
	(void)snprintf(longer, sizeof(longer), "{\"message\":\"%0600d\"}", 0);
	docker_reply_message(B(longer), out);
	assert_int_equal(strlen(out), ENGINE_MESSAGE_MAX - 1);
}

static void
test_created_and_image(void **state)
{
	char id[72];

	(void)state;
	assert_int_equal(docker_reply_created(B("{\"Id\":\"" HEX "\",\"Warnings\":[]}\n"), id), 0);
	assert_string_equal(id, HEX);
	assert_int_equal(docker_reply_created(B("{\"Id\":\"../../x\"}"), id), -EPROTO);
	assert_int_equal(docker_reply_created(B("{\"id\":\"" HEX "\"}"), id), -EPROTO);
	assert_int_equal(docker_reply_created(B("{\"Id\":\"" HEX "0\"}"), id), -EPROTO);
	assert_int_equal(docker_reply_created(B("[\"" HEX "\"]"), id), -EPROTO);
	assert_int_equal(docker_reply_created(B("{"), id), -EPROTO);
	assert_int_equal(docker_reply_created(B(""), id), -EPROTO);
	assert_int_equal(docker_reply_image(B("{\"Id\":\"sha256:" HEX "\"}"), id), 0);
	assert_string_equal(id, "sha256:" HEX);
	assert_int_equal(docker_reply_image(B("{\"Id\":\"" HEX "\"}"), id), 0);
	assert_string_equal(id, "sha256:" HEX);
	assert_int_equal(docker_reply_image(B("{\"Id\":\"sha512:" HEX "\"}"), id), -EPROTO);
}

static void
test_pid(void **state)
{
	uint32_t pid = 77;

	(void)state;
	assert_int_equal(docker_reply_pid(B("{\"State\":{\"Running\":true,\"Pid\":10425}}"), &pid),
			 0);
	assert_int_equal(pid, 10425);
	assert_int_equal(docker_reply_pid(B("{\"State\":{\"Running\":false,\"Pid\":9}}"), &pid), 0);
	assert_int_equal(pid, 0);
	pid = 77;
	assert_int_equal(docker_reply_pid(B("{\"State\":{\"Running\":true,\"Pid\":-1}}"), &pid),
			 -EPROTO);
	assert_int_equal(docker_reply_pid(B("{\"State\":{\"Running\":true,\"Pid\":1e300}}"), &pid),
			 -EPROTO);
	assert_int_equal(docker_reply_pid(B("{\"State\":{\"Running\":true,\"Pid\":\"9\"}}"), &pid),
			 -EPROTO);
	assert_int_equal(docker_reply_pid(B("{}"), &pid), -EPROTO);
	assert_int_equal(pid, 77);
}

static void
test_api(void **state)
{
	static const char *const bad[] = {"",     "1",    "1.",      "2.41",
					  "1.4x", "1.-1", "1.10000", "v1.41"};
	uint32_t minor;

	(void)state;
	assert_int_equal(docker_reply_api("1.41", &minor), 0);
	assert_int_equal(minor, 41);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(docker_reply_api(bad[i], &minor), -EPROTO);
}

static void
test_version(void **state)
{
	struct engine_info info = {0};

	(void)state;
	assert_int_equal(docker_reply_version(B("{\"Platform\":{\"Name\":\"\"},\"Components\":[{"
						"\"Name\":\"Engine\"}],\"Version\":\"20.10.24\"}"),
					      &info),
			 0);
	assert_string_equal(info.name, "Docker Engine");
	assert_string_equal(info.version, "20.10.24");
	assert_int_equal(docker_reply_version(
				 B("{\"Platform\":{\"Name\":\"Docker Engine - Community\"},"
				   "\"Components\":[{\"Name\":\"Engine\"}],\"Version\":\"28\"}"),
				 &info),
			 0);
	assert_string_equal(info.name, "Docker Engine - Community");
	assert_int_equal(
		docker_reply_version(
			B("{\"Components\":[{\"Name\":\"Podman Engine\"}],\"Version\":\"4.3\"}"),
			&info),
		0);
	assert_string_equal(info.name, "Podman Engine");
	assert_int_equal(docker_reply_version(B("{\"Version\":4}"), &info), -EPROTO);
}

static void
test_info(void **state)
{
	static const char body[] =
		"{\"NCPU\":2,\"MemTotal\":25276510208,\"CgroupDriver\":\"systemd\","
		"\"CgroupVersion\":\"2\","
		"\"CpuCfsPeriod\":true,\"CpuCfsQuota\":true,\"PidsLimit\":true,\"MemoryLimit\":"
		"true,"
		"\"SwapLimit\":false,\"Runtimes\":{\"runc\":{},\"io.containerd.runc.v2\":{},"
		"\"crun\":{},"
		"\"bad name\":{},\"\":{}},\"DefaultRuntime\":\"runc\",\"SecurityOptions\":["
		"\"name=seccomp,profile=default\",\"name=apparmor\",\"name=rootlesss\",5,null]}";
	struct engine_info info = {.rootless = true};

	(void)state;
	assert_int_equal(docker_reply_info(B(body), &info), 0);
	assert_int_equal(info.cpus, 2);
	assert_int_equal(info.memory_bytes, 25276510208u);
	assert_int_equal(info.cgroup, 2);
	assert_true(info.cgroup_systemd && info.cpu_cfs && info.pids && info.memory_limit);
	assert_true(info.seccomp && info.apparmor);
	assert_false(info.swap_limit || info.userns || info.rootless);
	assert_string_equal(info.runtimes, "crun,io.containerd.runc.v2,runc");
	assert_string_equal(info.default_runtime, "runc");
	assert_int_equal(docker_reply_info(B("{\"NCPU\":2,\"MemTotal\":1}"), &info), 0);
	assert_int_equal(info.cgroup, 1);
	assert_string_equal(info.runtimes, "");
	assert_int_equal(docker_reply_info(B("{\"NCPU\":-2,\"MemTotal\":1}"), &info), -EPROTO);
	assert_int_equal(docker_reply_info(B("{\"NCPU\":2}"), &info), -EPROTO);
	assert_int_equal(docker_reply_info(B("[]"), &info), -EPROTO);
}

static void
test_info_many_runtimes(void **state)
{
	char body[2000];
	struct engine_info info = {0};
	int at = snprintf(body, sizeof(body), "{\"NCPU\":1,\"MemTotal\":1,\"Runtimes\":{");

	(void)state;
	for (int i = 0; i < 40; i++)
		at += snprintf(body + at, sizeof(body) - (size_t)at,
			       "%s\"a-rather-long-runtime-%03d\":{}", i > 0 ? "," : "", i);
	(void)snprintf(body + at, sizeof(body) - (size_t)at, "}}");
	assert_int_equal(docker_reply_info(B(body), &info), 0);
	/* whole names only */
	assert_string_equal(info.runtimes + strlen(info.runtimes) - 25,
			    "a-rather-long-runtime-008");
}

static void
test_list(void **state)
{
	static const char body[] =
		"[{\"Id\":\"" HEX
		"\",\"Names\":[\"/bailey-0-1\"],\"Created\":1795964815,\"Labels\":{" LABELS
		"},\"State\":\"running\"},"
		"{\"Id\":\"" HEX
		"\",\"Names\":[\"/other\"],\"Created\":1,\"Labels\":{},\"State\":\"running\"},"
		"{\"Id\":\"" HEX "\",\"Names\":null,\"Created\":5,\"Labels\":{" LABELS
		"},\"State\":\"created\"},"
		"{\"Id\":\"short\",\"Created\":5,\"Labels\":{" LABELS "},\"State\":\"created\"},"
		"{\"Id\":\"" HEX "\",\"Created\":5,\"Labels\":{\"io.bailey.product\":\"bailey\"}},"
		"7,null,[]]";
	struct engine_container *list = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(docker_reply_list(B(body), &list, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].id, HEX);
	assert_string_equal(list[0].name, "bailey-0-1");
	assert_true(list[0].running);
	assert_false(list[0].created_only);
	assert_string_equal(list[0].instance, "00ff");
	assert_string_equal(list[0].boot_id, "b-1");
	assert_string_equal(list[0].user_hash, "u1");
	assert_int_equal(list[0].tree_pid, 12);
	assert_int_equal(list[0].tree_start, 345);
	assert_int_equal(list[0].pid_ns, 4026531836u);
	assert_true(list[0].box == UINT64_MAX);
	assert_true(list[1].created_only);
	assert_false(list[1].running);
	assert_string_equal(list[1].name, "");
	free(list);
	assert_int_equal(docker_reply_list(B("[]"), &list, &n), 0);
	assert_int_equal(n, 0);
	free(list);
	assert_int_equal(docker_reply_list(B("{\"message\":\"x\"}"), &list, &n), -EPROTO);
	assert_int_equal(docker_reply_list(B("[{\"Id\""), &list, &n), -EPROTO);
}

static void
test_list_label_values_that_are_none(void **state)
{
	static const char *const bad[] = {"\"io.bailey.tree-pid\":\"-1\"",
					  "\"io.bailey.tree-pid\":12",
					  "\"io.bailey.box\":\"\"",
					  "\"io.bailey.box\":\"1e3\"",
					  "\"io.bailey.tree-pid\":\"99999999999\"",
					  "\"io.bailey.user\":\"a b\"",
					  "\"io.bailey.instance\":\"\""};
	char body[1200];
	struct engine_container *list;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		/* the first of two equal keys is the one that is read */
		(void)snprintf(body, sizeof(body),
			       "[{\"Id\":\"" HEX "\",\"Created\":1,\"Labels\":{%s," LABELS
			       "},\"State\":\"exited\"}]",
			       bad[i]);
		assert_int_equal(docker_reply_list(B(body), &list, &n), 0);
		assert_int_equal(n, 0);
		free(list);
	}
}

static void
test_event(void **state)
{
	static const struct {
		const char *line;
		int r;
		enum engine_event_kind kind;
		int code;
	} rows[] = {
		{"{\"status\":\"die\",\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"ID\":"
		 "\"" HEX "\",\"Attributes\":{\"exitCode\":\"137\"," LABELS "}}}",
		 1, ENGINE_EV_DIE, 137},
		{"{\"Type\":\"container\",\"Action\":\"oom\",\"Actor\":{\"ID\":\"" HEX
		 "\",\"Attributes\":{" LABELS "}}}",
		 1, ENGINE_EV_OOM, 0},
		{"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"" HEX
		 "\",\"Attributes\":{\"io.bailey.product\":\"bailey\",\"exitCode\":\"999\"}}}",
		 1, ENGINE_EV_START, 0},
		{"{\"Type\":\"container\",\"Action\":\"pause\",\"Actor\":{\"ID\":\"" HEX
		 "\",\"Attributes\":{" LABELS "}}}",
		 0, 0, 0},
		{"{\"Type\":\"image\",\"Action\":\"destroy\",\"Actor\":{\"ID\":\"" HEX
		 "\",\"Attributes\":{" LABELS "}}}",
		 0, 0, 0},
		{"{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"ID\":\"" HEX
		 "\",\"Attributes\":{}}}",
		 0, 0, 0},
		{"{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"ID\":\"x\","
		 "\"Attributes\":{" LABELS "}}}",
		 0, 0, 0},
		{"{}", 0, 0, 0},
		{"[]", -EPROTO, 0, 0},
		{"{\"Type\":", -EPROTO, 0, 0},
	};
	struct engine_event ev;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(docker_reply_event(B(rows[i].line), &ev), rows[i].r);
		if (rows[i].r != 1)
			continue;
		assert_string_equal(ev.id, HEX);
		assert_int_equal(ev.kind, rows[i].kind);
		assert_int_equal(ev.exit_code, rows[i].code);
	}
	assert_int_equal(docker_reply_event(B(rows[0].line), &ev), 1);
	assert_true(ev.box == UINT64_MAX);
	assert_string_equal(ev.instance, "00ff");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_created_and_image),
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_api),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_info_many_runtimes),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_label_values_that_are_none),
		cmocka_unit_test(test_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
