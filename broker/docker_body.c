/*
 * broker/docker_body.c - the JSON bodies we send: create and update.
 *
 * Runs in: bailey-broker.
 * Input: trusted; a struct box_spec the broker filled, never a client's text.
 * Owns: nothing.
 *
 * Every field that matters for security is a constant here or
 * a figure from the typed struct. docker_check.c compares the container the
 * engine made with this same tree, so a field is described once.
 */
#include "engine_parts.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX (UINT64_C(1) << 53) /* a JSON number is a double */
#define SHM_BYTES 8388608u
#define MEMLOCK_BYTES 65536u
#define MSGQUEUE_BYTES 65536u
#define OOM_SCORE 500 /* a box goes before anything of the host */
#define THROTTLE_CPUS 256u

/* What a reading could tell about the host or its other users, or what an engine's own default
 * list misses. A path that is not there is passed over by the runtime. */
static const char *const masked_paths[] = {
	"/proc/acpi",          "/proc/asound",      "/proc/cmdline",
	"/proc/config.gz",     "/proc/diskstats",   "/proc/interrupts",
	"/proc/iomem",         "/proc/ioports",     "/proc/kallsyms",
	"/proc/kcore",         "/proc/key-users",   "/proc/keys",
	"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
	"/proc/timer_list",    "/proc/timer_stats", "/sys/devices/virtual/powercap",
	"/sys/firmware",
};
static const char *const readonly_paths[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};
static const char *const fixed_env[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin",
	"HOME=/workspace",
	"LANG=C.UTF-8",
};
static const char *const entrypoint[] = {"/.bailey/init"};
static const char *const no_health_check[] = {"NONE"};
static const char *const all_caps[] = {"ALL"};

/* ---- adding; one failure spoils the whole ---- */

struct build {
	bool failed;
};

static void
put(struct build *b, cJSON *to, const char *key, cJSON *item)
{
	if (item == NULL || to == NULL || !cJSON_AddItemToObject(to, key, item)) {
		cJSON_Delete(item);
		b->failed = true;
	}
}

static void
put_str(struct build *b, cJSON *to, const char *key, const char *value)
{
	put(b, to, key, cJSON_CreateString(value));
}

static void
put_num(struct build *b, cJSON *to, const char *key, uint64_t value)
{
	if (value >= EXACT_MAX)
		b->failed = true;
	put(b, to, key, cJSON_CreateNumber((double)value));
}

static void
put_bool(struct build *b, cJSON *to, const char *key, bool value)
{
	put(b, to, key, cJSON_CreateBool(value));
}

static void
put_strings(struct build *b, cJSON *to, const char *key, const char *const *values, size_t n)
{
	put(b, to, key, cJSON_CreateStringArray(values, (int)n));
}

static cJSON *
put_object(struct build *b, cJSON *to, const char *key)
{
	cJSON *o = cJSON_CreateObject();

	put(b, to, key, o);
	return b->failed ? NULL : o;
}

static void
push(struct build *b, cJSON *to, cJSON *item)
{
	if (item == NULL || to == NULL || !cJSON_AddItemToArray(to, item)) {
		cJSON_Delete(item);
		b->failed = true;
	}
}

/* ---- parts ---- */

static void
put_labels(struct build *b, cJSON *root, const struct box_spec *spec)
{
	const struct {
		const char *key;
		uint64_t value;
	} figures[] = {
		{ENGINE_LABEL "tree-pid", spec->label.tree_pid},
		{ENGINE_LABEL "tree-start", spec->label.tree_start},
		{ENGINE_LABEL "pid-ns", spec->label.pid_ns},
		{ENGINE_LABEL "box", spec->label.box},
	};
	cJSON *o = put_object(b, root, "Labels");

	put_str(b, o, ENGINE_LABEL "product", ENGINE_PRODUCT);
	put_str(b, o, ENGINE_LABEL "instance", spec->label.instance);
	put_str(b, o, ENGINE_LABEL "boot", spec->label.boot_id);
	put_str(b, o, ENGINE_LABEL "user", spec->label.user_hash);
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		char text[24];

		(void)snprintf(text, sizeof(text), "%" PRIu64, figures[i].value);
		put_str(b, o, figures[i].key, text);
	}
}

static void
put_mount(struct build *b, cJSON *list, const struct box_spec *spec, const char *source,
	  const char *target)
{
	char path[sizeof(spec->share_dir) + 32];
	cJSON *m = cJSON_CreateObject();
	cJSON *options;

	(void)snprintf(path, sizeof(path), "%s/%s", spec->share_dir, source);
	put_str(b, m, "Type", "bind");
	put_str(b, m, "Source", path);
	put_str(b, m, "Target", target);
	put_bool(b, m, "ReadOnly", true);
	options = put_object(b, m, "BindOptions");
	put_str(b, options, "Propagation", "rprivate");
	/* Before API 1.44 read-only does not reach what is mounted below a bind. */
	put_bool(b, options, "NonRecursive", true);
	push(b, list, m);
}

static void
put_mounts(struct build *b, cJSON *host, const struct box_spec *spec)
{
	cJSON *list = cJSON_CreateArray();
	char online[32], stat[32];

	put(b, host, "Mounts", list);
	if (!spec->bind_guest || b->failed)
		return;
	put_mount(b, list, spec, "box", "/.bailey");
	put_mount(b, list, spec, "passwd", "/etc/passwd");
	put_mount(b, list, spec, "group", "/etc/group");
	if (spec->cpus_shown == 0)
		return;
	(void)snprintf(online, sizeof(online), "cpu/online-%" PRIu32, spec->cpus_shown);
	(void)snprintf(stat, sizeof(stat), "cpu/stat-%" PRIu32, spec->cpus_shown);
	put_mount(b, list, spec, online, "/sys/devices/system/cpu/online");
	put_mount(b, list, spec, stat, "/proc/stat");
}

static void
put_tmpfs(struct build *b, cJSON *to, const char *target, const struct box_spec *spec,
	  uint64_t bytes, uint64_t inodes, const char *mode)
{
	char text[192];

	/* Without an inode cap creating files is what fills the memory. */
	(void)snprintf(text, sizeof(text),
		       "rw,exec,nosuid,nodev,size=%" PRIu64 ",nr_inodes=%" PRIu64 ",uid=%" PRIu32
		       ",gid=%" PRIu32 ",mode=%s",
		       bytes, inodes, spec->uid, spec->gid, mode);
	put_str(b, to, target, text);
}

static void
put_ulimits(struct build *b, cJSON *host)
{
	static const struct {
		const char *name;
		uint64_t soft, hard;
	} rows[] = {
		{"nofile", 1024, 2048},
		/* 1, not 0: the kernel skips a core_pattern pipe only at exactly 1 */
		{"core", 1, 1},
		{"memlock", MEMLOCK_BYTES, MEMLOCK_BYTES},
		{"msgqueue", MSGQUEUE_BYTES, MSGQUEUE_BYTES},
	};
	cJSON *list = cJSON_CreateArray();

	put(b, host, "Ulimits", list);
	for (size_t i = 0; !b->failed && i < ARRAY_LEN(rows); i++) {
		cJSON *o = cJSON_CreateObject();

		put_str(b, o, "Name", rows[i].name);
		put_num(b, o, "Soft", rows[i].soft);
		put_num(b, o, "Hard", rows[i].hard);
		push(b, list, o);
	}
}

static void
put_security(struct build *b, cJSON *host, const struct box_spec *spec)
{
	cJSON *list = cJSON_CreateArray();
	char *seccomp = xasprintf("seccomp=%s", spec->seccomp_json);

	put(b, host, "SecurityOpt", list);
	if (!b->failed) {
		push(b, list, cJSON_CreateString("no-new-privileges"));
		push(b, list, cJSON_CreateString(seccomp));
	}
	if (!b->failed && spec->apparmor != NULL) {
		char apparmor[128];

		(void)snprintf(apparmor, sizeof(apparmor), "apparmor=%s", spec->apparmor);
		push(b, list, cJSON_CreateString(apparmor));
	}
	free(seccomp);
}

static void
put_paths(struct build *b, cJSON *host, const struct engine_info *info)
{
	cJSON *masked = cJSON_CreateStringArray(masked_paths, (int)ARRAY_LEN(masked_paths));
	uint32_t cpus = info->cpus < THROTTLE_CPUS ? info->cpus : THROTTLE_CPUS;

	put(b, host, "MaskedPaths", masked);
	for (uint32_t i = 0; !b->failed && i < cpus; i++) {
		char path[80];

		(void)snprintf(path, sizeof(path),
			       "/sys/devices/system/cpu/cpu%" PRIu32 "/thermal_throttle", i);
		push(b, masked, cJSON_CreateString(path));
	}
	/* v1 hierarchies tell of the host; a private v2 one holds the box's own limits, which
	 * interpreters read. */
	if (!b->failed && info->cgroup != 2)
		push(b, masked, cJSON_CreateString("/sys/fs/cgroup"));
	put_strings(b, host, "ReadonlyPaths", readonly_paths, ARRAY_LEN(readonly_paths));
}

static void
put_limits(struct build *b, cJSON *host, const struct box_spec *spec,
	   const struct engine_info *info)
{
	put_num(b, host, "Memory", spec->memory_bytes);
	put_num(b, host, "MemorySwap", spec->memory_bytes);
	if (info->cgroup != 2)
		put_num(b, host, "MemorySwappiness", 0);
	put_num(b, host, "NanoCpus", (uint64_t)spec->cpus_milli * 1000000);
	put_num(b, host, "CpuShares", spec->cpu_shares);
	put_num(b, host, "PidsLimit", spec->pids);
	put_bool(b, host, "OomKillDisable", false);
	put_num(b, host, "OomScoreAdj", OOM_SCORE);
	put_num(b, host, "ShmSize", SHM_BYTES);
	put_ulimits(b, host);
}

static void
put_host(struct build *b, cJSON *root, const struct box_spec *spec, const struct engine_info *info)
{
	cJSON *host = put_object(b, root, "HostConfig");
	const char *runtime = spec->runtime[0] != '\0' ? spec->runtime : info->default_runtime;
	cJSON *o;

	put_bool(b, host, "Privileged", false);
	put_strings(b, host, "CapDrop", all_caps, ARRAY_LEN(all_caps));
	put_security(b, host, spec);
	put_bool(b, host, "ReadonlyRootfs", true);
	put_str(b, host, "NetworkMode", "none");
	put_str(b, host, "IpcMode", "private");
	if (strcmp(info->api, "1.40") != 0) /* 1.41 brought it; before, it would be dropped */
		put_str(b, host, "CgroupnsMode", "private");
	put_str(b, host, "CgroupParent", spec->cgroup_parent);
	if (runtime[0] != '\0')
		put_str(b, host, "Runtime", runtime);
	put_limits(b, host, spec, info);
	o = put_object(b, host, "Tmpfs");
	put_tmpfs(b, o, "/workspace", spec, spec->workspace_bytes, spec->workspace_inodes, "0700");
	put_tmpfs(b, o, "/tmp", spec, spec->tmp_bytes, spec->tmp_inodes, "1777");
	put_mounts(b, host, spec);
	put_paths(b, host, info);
	put_bool(b, host, "AutoRemove", true);
	put_bool(b, host, "Init", false);
	o = put_object(b, host, "LogConfig");
	put_str(b, o, "Type", "none");
	o = put_object(b, host, "RestartPolicy");
	put_str(b, o, "Name", "no");
}

cJSON *
docker_body_tree(const struct box_spec *spec, const struct engine_info *info)
{
	struct build b = {0};
	cJSON *root = cJSON_CreateObject();
	char user[24];
	cJSON *o;

	(void)snprintf(user, sizeof(user), "%" PRIu32 ":%" PRIu32, spec->uid, spec->gid);
	put_str(&b, root, "Image", spec->image);
	put_str(&b, root, "Hostname", "sandbox");
	put_str(&b, root, "User", user);
	put_bool(&b, root, "AttachStdin", true);
	put_bool(&b, root, "AttachStdout", true);
	put_bool(&b, root, "AttachStderr", true);
	put_bool(&b, root, "Tty", false);
	put_bool(&b, root, "OpenStdin", true);
	put_bool(&b, root, "StdinOnce", false); /* true would make a second attach mute */
	put_strings(&b, root, "Env", fixed_env, ARRAY_LEN(fixed_env));
	put_strings(&b, root, "Entrypoint", entrypoint, ARRAY_LEN(entrypoint));
	put(&b, root, "Cmd", cJSON_CreateArray());
	put_str(&b, root, "WorkingDir", "/workspace");
	put_bool(&b, root, "NetworkDisabled", true);
	put_str(&b, root, "StopSignal", "KILL");
	o = put_object(&b, root, "Healthcheck");
	put_strings(&b, o, "Test", no_health_check, ARRAY_LEN(no_health_check));
	put_labels(&b, root, spec);
	put_host(&b, root, spec, info);
	if (b.failed) {
		cJSON_Delete(root);
		return NULL;
	}
	return root;
}

char *
docker_create_body(const struct box_spec *spec, const struct engine_info *info)
{
	static const struct engine_info plain = {.cgroup = 1};
	cJSON *root = docker_body_tree(spec, info != NULL ? info : &plain);
	char *text = root != NULL ? cJSON_PrintUnformatted(root) : NULL;

	cJSON_Delete(root);
	return text;
}

char *
docker_body_update(uint64_t memory_bytes, uint32_t cpus_milli)
{
	struct build b = {0};
	cJSON *root = cJSON_CreateObject();
	char *text = NULL;

	if (memory_bytes != 0) {
		put_num(&b, root, "Memory", memory_bytes);
		put_num(&b, root, "MemorySwap", memory_bytes);
	}
	if (cpus_milli != 0)
		put_num(&b, root, "NanoCpus", (uint64_t)cpus_milli * 1000000);
	if (!b.failed && root != NULL)
		text = cJSON_PrintUnformatted(root);
	cJSON_Delete(root);
	return text;
}
