/* tests/unit/test_broker_docker_body.c - what a box is asked for to be. */
#include "test.h"

#include "../fakes/box_spec.h"
#include "engine_parts.h"

#include <cjson/cJSON.h>

static const cJSON *
at(const cJSON *v, const char *path)
{
	char key[64];

	while (*path != '\0') {
		size_t n = strcspn(path, ".");

		assert_int_equal(str_copy(key, sizeof(key), path, n), 0);
		v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, (int)strtoul(key, NULL, 10))
				     : cJSON_GetObjectItemCaseSensitive(v, key);
		path += n + (path[n] == '.');
	}
	return v;
}

/* JSON text of what stands at path, "" when nothing does. */
static void
is(const cJSON *root, const char *path, const char *want)
{
	const cJSON *v = at(root, path);
	char *text = v != NULL ? cJSON_PrintUnformatted(v) : NULL;

	if (strcmp(text != NULL ? text : "", want) != 0)
		fail_msg("%s is %s, not %s", path, text != NULL ? text : "absent", want);
	cJSON_free(text);
}

static void
test_create_constants(void **state)
{
	static const struct {
		const char *path, *want;
	} rows[] = {
		{"User", "\"10001:10002\""},
		{"Tty", "false"},
		{"OpenStdin", "true"},
		{"StdinOnce", "false"},
		{"AttachStdin", "true"},
		{"NetworkDisabled", "true"},
		{"Entrypoint", "[\"/.bailey/init\"]"},
		{"Cmd", "[]"},
		{"WorkingDir", "\"/workspace\""},
		{"Healthcheck", "{\"Test\":[\"NONE\"]}"},
		{"StopSignal", "\"KILL\""},
		{"Env",
		 "[\"PATH=/usr/local/bin:/usr/bin:/bin\",\"HOME=/workspace\",\"LANG=C.UTF-8\"]"},
		{"Labels.io", ""},
		{"HostConfig.Privileged", "false"},
		{"HostConfig.CapDrop", "[\"ALL\"]"},
		{"HostConfig.CapAdd", ""},
		{"HostConfig.SecurityOpt", "[\"no-new-privileges\",\"seccomp={"
					   "\\\"defaultAction\\\":\\\"SCMP_ACT_ERRNO\\\"}\"]"},
		{"HostConfig.ReadonlyRootfs", "true"},
		{"HostConfig.NetworkMode", "\"none\""},
		{"HostConfig.IpcMode", "\"private\""},
		{"HostConfig.CgroupnsMode", "\"private\""},
		{"HostConfig.CgroupParent", "\"\""},
		{"HostConfig.Runtime", "\"runc\""},
		{"HostConfig.AutoRemove", "true"},
		{"HostConfig.Init", "false"},
		{"HostConfig.LogConfig", "{\"Type\":\"none\"}"},
		{"HostConfig.RestartPolicy", "{\"Name\":\"no\"}"},
		{"HostConfig.Memory", "536870912"},
		{"HostConfig.MemorySwap", "536870912"},
		{"HostConfig.MemorySwappiness", "0"},
		{"HostConfig.NanoCpus", "1500000000"},
		{"HostConfig.CpuShares", "1024"},
		{"HostConfig.PidsLimit", "64"},
		{"HostConfig.OomScoreAdj", "500"},
		{"HostConfig.OomKillDisable", "false"},
		{"HostConfig.ShmSize", "8388608"},
		{"HostConfig.Ulimits",
		 "[{\"Name\":\"nofile\",\"Soft\":1024,\"Hard\":2048},{\"Name\":\"core\",\"Soft\":1,"
		 "\"Hard\":1},{\"Name\":\"memlock\",\"Soft\":65536,\"Hard\":65536},{\"Name\":"
		 "\"msgqueue\",\"Soft\":65536,\"Hard\":65536}]"},
		{"HostConfig.Tmpfs",
		 "{\"/workspace\":\"rw,exec,nosuid,nodev,size=201326592,nr_inodes=16384,uid=10001,"
		 "gid=10002,mode=0700\",\"/tmp\":\"rw,exec,nosuid,nodev,size=67108864,"
		 "nr_inodes=4096,uid=10001,gid=10002,mode=1777\"}"},
		{"HostConfig.Mounts.0",
		 "{\"Type\":\"bind\",\"Source\":\"/usr/share/bailey/box\",\"Target\":\"/.bailey\","
		 "\"ReadOnly\":true,\"BindOptions\":{\"Propagation\":\"rprivate\","
		 "\"NonRecursive\":true}}"},
		{"HostConfig.Mounts.1.Target", "\"/etc/passwd\""},
		{"HostConfig.Mounts.2.Target", "\"/etc/group\""},
		{"HostConfig.Mounts.3.Source", "\"/usr/share/bailey/cpu/online-2\""},
		{"HostConfig.Mounts.4.Source", "\"/usr/share/bailey/cpu/stat-2\""},
		{"HostConfig.Mounts.5", ""},
	};
	cJSON *root = docker_body_tree(&fake_box_spec, &fake_engine_info);

	(void)state;
	assert_non_null(root);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		is(root, rows[i].path, rows[i].want);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
				    at(root, "Labels"), "io.bailey.box")),
			    "18446744073709551615");
	cJSON_Delete(root);
}

static bool
has(const cJSON *list, const char *text)
{
	for (const cJSON *v = list->child; v != NULL; v = v->next) {
		if (strcmp(v->valuestring, text) == 0)
			return true;
	}
	return false;
}

static void
test_create_by_engine(void **state)
{
	struct box_spec spec = fake_box_spec;
	struct engine_info info = fake_engine_info;
	cJSON *root = docker_body_tree(&spec, &info);

	(void)state;
	assert_true(has(at(root, "HostConfig.MaskedPaths"), "/sys/fs/cgroup"));
	assert_true(has(at(root, "HostConfig.MaskedPaths"),
			"/sys/devices/system/cpu/cpu1/thermal_throttle"));
	assert_false(has(at(root, "HostConfig.MaskedPaths"),
			 "/sys/devices/system/cpu/cpu2/thermal_throttle"));
	cJSON_Delete(root);

	info.cgroup = 2;
	info.default_runtime[0] = '\0';
	(void)snprintf(info.api, sizeof(info.api), "1.40");
	spec.bind_guest = false;
	spec.apparmor = "bailey-box";
	root = docker_body_tree(&spec, &info);
	assert_false(has(at(root, "HostConfig.MaskedPaths"), "/sys/fs/cgroup"));
	is(root, "HostConfig.MemorySwappiness", "");
	is(root, "HostConfig.CgroupnsMode", "");
	is(root, "HostConfig.Runtime", "");
	is(root, "HostConfig.Mounts", "[]");
	is(root, "HostConfig.SecurityOpt.2", "\"apparmor=bailey-box\"");
	cJSON_Delete(root);

	(void)snprintf(spec.runtime, sizeof(spec.runtime), "runsc");
	spec.bind_guest = true;
	spec.cpus_shown = 0;
	(void)snprintf(spec.cgroup_parent, sizeof(spec.cgroup_parent), "/bailey");
	root = docker_body_tree(&spec, &info);
	is(root, "HostConfig.Runtime", "\"runsc\"");
	is(root, "HostConfig.CgroupParent", "\"/bailey\"");
	is(root, "HostConfig.Mounts.3", "");
	cJSON_Delete(root);
}

static void
test_create_figures_out_of_range(void **state)
{
	struct box_spec spec = fake_box_spec;

	(void)state;
	spec.memory_bytes = UINT64_C(1) << 53;
	assert_null(docker_body_tree(&spec, &fake_engine_info));
	assert_null(docker_create_body(&spec, &fake_engine_info));
	assert_null(docker_body_update(UINT64_MAX, 0));
}

static void
test_texts(void **state)
{
	char *text = docker_create_body(&fake_box_spec, NULL);

	(void)state;
	assert_non_null(text);
	assert_non_null(strstr(text, "\"/sys/fs/cgroup\""));
	assert_null(strstr(text, "\"Runtime\""));
	free(text);
	text = docker_body_update(268435456, 500);
	assert_string_equal(
		text, "{\"Memory\":268435456,\"MemorySwap\":268435456,\"NanoCpus\":500000000}");
	free(text);
	text = docker_body_update(0, 2000);
	assert_string_equal(text, "{\"NanoCpus\":2000000000}");
	free(text);
	text = docker_body_update(0, 0);
	assert_string_equal(text, "{}");
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_constants),
		cmocka_unit_test(test_create_by_engine),
		cmocka_unit_test(test_create_figures_out_of_range),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
