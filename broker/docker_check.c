/*
 * broker/docker_check.c - is the container the engine made the one we asked for?
 *
 * Runs in: bailey-broker.
 * Input: untrusted; the engine's inspect reply. An engine drops fields it does not
 *   know, applies its own defaults, merges the image's settings.
 * Owns: nothing.
 *
 * The table names every field that could open the box, and a rule for each. The
 * expected value is what docker_body_tree put there; a field we never set must
 * be empty, and so must a host setting that no row knows: engines learn new ones.
 * A difference anywhere refuses the container.
 */
#include "engine_parts.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

enum rule {
	SAME,    /* equals the body's; where the body has none: EMPTY */
	EMPTY,   /* missing, null, false, 0, "", [], {} */
	STARTS,  /* an array beginning with the body's; the image may add to its end */
	HOLDS,   /* an object with all of the body's; the image may add keys */
	LIST,    /* an array of objects, each HOLDS the body's with nothing but empty extras */
	BINDS,   /* the mounts in effect: as many as asked for, all read-only binds */
	PROFILE, /* the AppArmor profile in force: spec's, where it names one */
	PROGRAM, /* the one program of every box */
	PINNED,  /* the image's id, where spec names the image by id */
	ALONE,   /* in no network but "none", no port, no address */
};
enum part { TOP, CONFIG, HOST };

/* clang-format off */
static const struct row {
	enum part part;
	enum rule rule;
	const char *key;
	const char *field; /* for the message */
} rows[] = {
#define TOP_ROW(key, rule) {TOP, rule, #key, #key}
#define CONFIG_ROW(key, rule) {CONFIG, rule, #key, "Config." #key}
#define HOST_ROW(key, rule) {HOST, rule, #key, "HostConfig." #key}
	TOP_ROW(Path, PROGRAM),
	TOP_ROW(Args, EMPTY),
	TOP_ROW(Image, PINNED),
	TOP_ROW(AppArmorProfile, PROFILE),
	TOP_ROW(Mounts, BINDS),
	TOP_ROW(ExecIDs, EMPTY),
	TOP_ROW(NetworkSettings, ALONE),

	CONFIG_ROW(Image, SAME),
	CONFIG_ROW(Hostname, SAME),
	CONFIG_ROW(Domainname, EMPTY),
	CONFIG_ROW(User, SAME),
	CONFIG_ROW(AttachStdin, SAME),
	CONFIG_ROW(AttachStdout, SAME),
	CONFIG_ROW(AttachStderr, SAME),
	CONFIG_ROW(Tty, SAME),
	CONFIG_ROW(OpenStdin, SAME),
	CONFIG_ROW(StdinOnce, SAME),
	CONFIG_ROW(Env, STARTS),
	CONFIG_ROW(Entrypoint, SAME),
	CONFIG_ROW(Cmd, EMPTY),
	CONFIG_ROW(WorkingDir, SAME),
	CONFIG_ROW(NetworkDisabled, SAME),
	CONFIG_ROW(StopSignal, SAME),
	CONFIG_ROW(Healthcheck, HOLDS), /* NONE; the image's intervals then mean nothing */
	CONFIG_ROW(Labels, HOLDS),
	CONFIG_ROW(Volumes, EMPTY), /* an image's VOLUME would become a writable one */
	CONFIG_ROW(ArgsEscaped, EMPTY),

	HOST_ROW(Privileged, SAME),
	HOST_ROW(CapDrop, SAME),
	HOST_ROW(CapAdd, EMPTY),
	HOST_ROW(Capabilities, EMPTY),
	HOST_ROW(SecurityOpt, SAME),
	HOST_ROW(ReadonlyRootfs, SAME),
	HOST_ROW(MaskedPaths, SAME),
	HOST_ROW(ReadonlyPaths, SAME),
	HOST_ROW(NetworkMode, SAME),
	HOST_ROW(IpcMode, SAME),
	HOST_ROW(PidMode, EMPTY),
	HOST_ROW(UTSMode, EMPTY),
	HOST_ROW(UsernsMode, EMPTY),
	HOST_ROW(CgroupnsMode, SAME),
	HOST_ROW(Cgroup, EMPTY),
	HOST_ROW(CgroupParent, SAME),
	HOST_ROW(Runtime, SAME),
	HOST_ROW(Isolation, EMPTY),
	HOST_ROW(Init, SAME),
	HOST_ROW(Binds, EMPTY),
	HOST_ROW(Mounts, LIST),
	HOST_ROW(Tmpfs, SAME),
	HOST_ROW(ShmSize, SAME),
	HOST_ROW(VolumesFrom, EMPTY),
	HOST_ROW(VolumeDriver, EMPTY),
	HOST_ROW(StorageOpt, EMPTY),
	HOST_ROW(Devices, EMPTY),
	HOST_ROW(DeviceRequests, EMPTY),
	HOST_ROW(DeviceCgroupRules, EMPTY),
	HOST_ROW(GroupAdd, EMPTY),
	HOST_ROW(Sysctls, EMPTY),
	HOST_ROW(Links, EMPTY),
	HOST_ROW(ExtraHosts, EMPTY),
	HOST_ROW(Dns, EMPTY),
	HOST_ROW(DnsOptions, EMPTY),
	HOST_ROW(DnsSearch, EMPTY),
	HOST_ROW(PortBindings, EMPTY),
	HOST_ROW(PublishAllPorts, EMPTY),
	HOST_ROW(AutoRemove, SAME),
	HOST_ROW(RestartPolicy, LIST),
	HOST_ROW(LogConfig, LIST),
	HOST_ROW(ContainerIDFile, EMPTY),
	HOST_ROW(Annotations, EMPTY),
	HOST_ROW(Memory, SAME),
	HOST_ROW(MemorySwap, SAME),
	HOST_ROW(MemorySwappiness, SAME),
	HOST_ROW(MemoryReservation, EMPTY),
	HOST_ROW(KernelMemory, EMPTY),
	HOST_ROW(KernelMemoryTCP, EMPTY),
	HOST_ROW(NanoCpus, SAME),
	HOST_ROW(CpuShares, SAME),
	HOST_ROW(CpuPeriod, EMPTY),
	HOST_ROW(CpuQuota, EMPTY),
	HOST_ROW(CpuRealtimePeriod, EMPTY),
	HOST_ROW(CpuRealtimeRuntime, EMPTY),
	HOST_ROW(CpusetCpus, EMPTY),
	HOST_ROW(CpusetMems, EMPTY),
	HOST_ROW(BlkioWeight, EMPTY),
	HOST_ROW(BlkioWeightDevice, EMPTY),
	HOST_ROW(BlkioDeviceReadBps, EMPTY),
	HOST_ROW(BlkioDeviceWriteBps, EMPTY),
	HOST_ROW(BlkioDeviceReadIOps, EMPTY),
	HOST_ROW(BlkioDeviceWriteIOps, EMPTY),
	HOST_ROW(PidsLimit, SAME),
	HOST_ROW(OomKillDisable, SAME),
	HOST_ROW(OomScoreAdj, SAME),
	HOST_ROW(Ulimits, LIST),
};
/* clang-format on */

const char *
docker_check_field(size_t i)
{
	return i < ARRAY_LEN(rows) ? rows[i].field : NULL;
}

/* ---- rules ---- */

static const cJSON *
get(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static bool
is_empty(const cJSON *v)
{
	if (v == NULL || cJSON_IsNull(v) || cJSON_IsFalse(v))
		return true;
	if (cJSON_IsNumber(v))
		return v->valuedouble == 0;
	if (cJSON_IsString(v))
		return v->valuestring[0] == '\0';
	return (cJSON_IsArray(v) || cJSON_IsObject(v)) && v->child == NULL;
}

static bool
same(const cJSON *want, const cJSON *got)
{
	if (is_empty(want))
		return is_empty(got);
	return cJSON_Compare(want, got, true);
}

static bool
starts(const cJSON *want, const cJSON *got)
{
	const cJSON *g;

	if (!cJSON_IsArray(got))
		return false;
	g = got->child;
	for (const cJSON *w = want->child; w != NULL; w = w->next, g = g->next) {
		if (g == NULL || !cJSON_Compare(w, g, true))
			return false;
	}
	return true;
}

/* Every key of want is the same in got; extras, if any are let through, must be empty. */
static bool
holds(const cJSON *want, const cJSON *got, bool extras)
{
	if (!cJSON_IsObject(got))
		return false;
	for (const cJSON *w = want->child; w != NULL; w = w->next) {
		if (!cJSON_IsObject(w) && !same(w, get(got, w->string)))
			return false;
	}
	for (const cJSON *g = got->child; !extras && g != NULL; g = g->next) {
		if (get(want, g->string) == NULL && !is_empty(g))
			return false;
	}
	return true;
}

/* As holds, one level deeper: a mount holds its options. */
static bool
holds_deep(const cJSON *want, const cJSON *got)
{
	if (!holds(want, got, false))
		return false;
	for (const cJSON *w = want->child; w != NULL; w = w->next) {
		if (cJSON_IsObject(w) && !holds(w, get(got, w->string), false))
			return false;
	}
	return true;
}

static bool
list(const cJSON *want, const cJSON *got)
{
	const cJSON *g;

	if (cJSON_IsObject(want))
		return holds_deep(want, got);
	if (is_empty(want))
		return is_empty(got);
	if (!cJSON_IsArray(got))
		return false;
	g = got->child;
	for (const cJSON *w = want->child; w != NULL; w = w->next, g = g->next) {
		if (g == NULL || !holds_deep(w, g))
			return false;
	}
	return g == NULL;
}

static bool
binds(const cJSON *asked, const cJSON *got)
{
	int n = 0;

	if (got != NULL && !cJSON_IsNull(got) && !cJSON_IsArray(got))
		return false;
	for (const cJSON *g = got != NULL ? got->child : NULL; g != NULL; g = g->next, n++) {
		const char *type = cJSON_GetStringValue(get(g, "Type"));

		if (type == NULL || strcmp(type, "bind") != 0 || !cJSON_IsFalse(get(g, "RW")))
			return false;
	}
	return n == cJSON_GetArraySize(asked);
}

/* What is in force, beside what was asked for: somebody may have connected it. */
static bool
alone(const cJSON *got)
{
	static const char *const none[] = {"Ports", "IPAddress", "GlobalIPv6Address"};
	const cJSON *networks = get(got, "Networks");

	if (!is_empty(got) && !cJSON_IsObject(got))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		if (!is_empty(get(got, none[i])))
			return false;
	}
	if (!is_empty(networks) && !cJSON_IsObject(networks))
		return false;
	for (const cJSON *n = networks != NULL ? networks->child : NULL; n != NULL; n = n->next) {
		if (strcmp(n->string, "none") != 0)
			return false;
	}
	return true;
}

static bool
equals(const cJSON *got, const char *text)
{
	const char *s = cJSON_GetStringValue(got);

	return s != NULL && strcmp(s, text) == 0;
}

static bool
row_holds(const struct row *row, const cJSON *body, const cJSON *want, const cJSON *got,
	  const struct box_spec *spec)
{
	switch (row->rule) {
	case SAME:
		return same(want, got);
	case EMPTY:
		return is_empty(got);
	case STARTS:
		return starts(want, got);
	case HOLDS:
		return holds(want, got, true);
	case LIST:
		return list(want, got);
	case BINDS:
		return binds(get(get(body, "HostConfig"), "Mounts"), got);
	case PROFILE:
		return spec->apparmor == NULL || equals(got, spec->apparmor);
	case ALONE:
		return alone(got);
	case PROGRAM:
		return equals(got, cJSON_GetStringValue(get(body, "Entrypoint")->child));
	case PINNED:
		return strncmp(spec->image, "sha256:", 7) != 0 || equals(got, spec->image);
	}
	return false;
}

/* As is_empty, or a list of nothing else, such as a console's size of no rows and no columns. */
static bool
is_nothing(const cJSON *v)
{
	if (!cJSON_IsArray(v))
		return is_empty(v);
	for (const cJSON *e = v->child; e != NULL; e = e->next) {
		if (!is_empty(e))
			return false;
	}
	return true;
}

static bool
known_to_rows(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].part == HOST && strcmp(rows[i].key, key) == 0)
			return true;
	}
	return false;
}

static bool
strange_setting(const cJSON *host)
{
	char shown[204];

	for (const cJSON *v = host->child; v != NULL; v = v->next) {
		if (known_to_rows(v->string) || is_nothing(v))
			continue;
		log_warn("the engine has a host setting Bailey does not know: %s",
			 log_escape(shown, sizeof(shown), v->string, strlen(v->string)));
		return true;
	}
	return false;
}

static int
compare(const cJSON *body, const cJSON *reply, const struct box_spec *spec, const char **ret_field)
{
	const cJSON *config = get(reply, "Config"), *host = get(reply, "HostConfig");
	const cJSON *host_body = get(body, "HostConfig");

	if (!cJSON_IsObject(config) || !cJSON_IsObject(host))
		return -EPROTO;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		const cJSON *got = get(row->part == TOP      ? reply
				       : row->part == CONFIG ? config
							     : host,
				       row->key);
		const cJSON *want = get(row->part == HOST ? host_body : body, row->key);

		if (!row_holds(row, body, want, got, spec)) {
			*ret_field = row->field;
			return -EPERM;
		}
	}
	if (strange_setting(host)) {
		*ret_field = "HostConfig (a setting unknown to Bailey, named in its log)";
		return -EPERM;
	}
	return 0;
}

int
docker_check(const uint8_t *body, size_t len, const struct box_spec *spec,
	     const struct engine_info *info, const char **ret_field)
{
	cJSON *want = docker_body_tree(spec, info);
	cJSON *reply = cJSON_ParseWithLength((const char *)body, len);
	int r;

	if (want == NULL)
		r = -ENOMEM;
	else if (!cJSON_IsObject(reply))
		r = -EPROTO;
	else
		r = compare(want, reply, spec, ret_field);
	cJSON_Delete(want);
	cJSON_Delete(reply);
	return r;
}

static bool
has_number(const cJSON *host, const char *key, uint64_t want)
{
	const cJSON *v = get(host, key);

	return cJSON_IsNumber(v) && v->valuedouble == (double)want;
}

int
docker_check_update(const uint8_t *body, size_t len, uint64_t memory_bytes, uint32_t cpus_milli,
		    const char **ret_field)
{
	cJSON *reply = cJSON_ParseWithLength((const char *)body, len);
	const cJSON *host = get(reply, "HostConfig");
	int r = -EPERM;

	*ret_field = NULL;
	if (!cJSON_IsObject(host))
		r = -EPROTO;
	else if (memory_bytes != 0 && !has_number(host, "Memory", memory_bytes))
		*ret_field = "HostConfig.Memory";
	else if (memory_bytes != 0 && !has_number(host, "MemorySwap", memory_bytes))
		*ret_field = "HostConfig.MemorySwap";
	else if (cpus_milli != 0 && !has_number(host, "NanoCpus", (uint64_t)cpus_milli * 1000000))
		*ret_field = "HostConfig.NanoCpus";
	else
		r = 0;
	cJSON_Delete(reply);
	return r;
}
