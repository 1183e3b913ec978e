/*
 * broker/docker_reply.c - picks the few things we need out of the engine's
 * replies and events.
 *
 * Runs in: bailey-broker.
 * Input: untrusted; the engine's JSON. Sizes were capped by http.c, values are
 *   range-checked here and copied into typed structs; later code sees those only.
 * Owns: nothing.
 */
#include "engine_parts.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 8192u
#define RUNTIMES_MAX 16u

/* ---- typed access; every getter tells missing and wrong kind apart from nothing ---- */

static const cJSON *
get(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *
text_of(const cJSON *object, const char *key)
{
	const char *s = cJSON_GetStringValue(get(object, key));

	return s != NULL ? s : "";
}

static bool
flag_of(const cJSON *object, const char *key)
{
	return cJSON_IsTrue(get(object, key));
}

/* A whole number in [0, max]; false when it is anything else. */
static bool
number_of(const cJSON *object, const char *key, uint64_t max, uint64_t *ret)
{
	const cJSON *v = get(object, key);

	if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > (double)max)
		return false;
	*ret = (uint64_t)v->valuedouble;
	return true;
}

/* Printable ASCII of any origin; longer text is cut. */
static void
copy_words(char *out, size_t cap, const char *text)
{
	size_t n = 0;

	for (; text[n] != '\0' && n + 1 < cap; n++)
		out[n] = (char)(text[n] >= ' ' && text[n] <= '~' ? text[n] : '?');
	out[n] = '\0';
}

static int
copy_id(char ret_id[65], const char *text)
{
	if (!docker_id_ok(text))
		return -EPROTO;
	memcpy(ret_id, text, 65);
	return 0;
}

static cJSON *
parse_object(const uint8_t *body, size_t len)
{
	cJSON *root = cJSON_ParseWithLength((const char *)body, len);

	if (!cJSON_IsObject(root)) {
		cJSON_Delete(root);
		return NULL;
	}
	return root;
}

/* ---- single replies ---- */

int
docker_status_err(int status)
{
	switch (status) {
	case 404:
		return -ENOENT;
	case 409:
		return -EEXIST;
	case 423:
	case 429:
	case 503:
		return -EBUSY;
	default:
		break;
	}
	if (status >= 500 && status <= 599)
		return -EIO;
	return status >= 400 && status <= 499 ? -EINVAL : -EPROTO;
}

void
docker_reply_message(const uint8_t *body, size_t len, char out[ENGINE_MESSAGE_MAX])
{
	cJSON *root = parse_object(body, len);
	const char *s = text_of(root, "message");

	if (s[0] == '\0')
		s = text_of(root, "cause");
	if (s[0] != '\0') {
		copy_words(out, ENGINE_MESSAGE_MAX, s);
	} else {
		char raw[120];
		size_t n = len < sizeof(raw) - 1 ? len : sizeof(raw) - 1;

		memcpy(raw, body, n);
		raw[n] = '\0';
		copy_words(out, ENGINE_MESSAGE_MAX, raw);
	}
	cJSON_Delete(root);
}

int
docker_reply_created(const uint8_t *body, size_t len, char ret_id[65])
{
	cJSON *root = parse_object(body, len);
	int r = copy_id(ret_id, text_of(root, "Id"));

	cJSON_Delete(root);
	return r;
}

int
docker_reply_image(const uint8_t *body, size_t len, char ret_id[72])
{
	cJSON *root = parse_object(body, len);
	const char *id = text_of(root, "Id");
	char hex[65];
	int r;

	/* Podman gives the bare number. */
	r = copy_id(hex, strncmp(id, "sha256:", 7) == 0 ? id + 7 : id);
	if (r == 0)
		(void)snprintf(ret_id, 72, "sha256:%s", hex);
	cJSON_Delete(root);
	return r;
}

int
docker_reply_pid(const uint8_t *body, size_t len, uint32_t *ret_pid)
{
	cJSON *root = parse_object(body, len);
	const cJSON *state = get(root, "State");
	uint64_t pid = 0;
	int r = 0;

	if (!cJSON_IsObject(state) || !number_of(state, "Pid", INT32_MAX, &pid))
		r = -EPROTO;
	else
		*ret_pid = flag_of(state, "Running") ? (uint32_t)pid : 0;
	cJSON_Delete(root);
	return r;
}

int
docker_reply_api(const char *text, uint32_t *ret_minor)
{
	uint64_t minor;

	if (strncmp(text, "1.", 2) != 0 || parse_u64(text + 2, 0, 9999, &minor) < 0)
		return -EPROTO;
	*ret_minor = (uint32_t)minor;
	return 0;
}

/* ---- what the engine is ---- */

int
docker_reply_version(const uint8_t *body, size_t len, struct engine_info *info)
{
	cJSON *root = parse_object(body, len);
	const char *platform = text_of(get(root, "Platform"), "Name");
	const char *first = text_of(cJSON_GetArrayItem(get(root, "Components"), 0), "Name");
	const char *version = text_of(root, "Version");
	int r = version[0] != '\0' ? 0 : -EPROTO;

	if (r == 0) {
		/* Docker's own component is called just "Engine". */
		bool docker = first[0] == '\0' || strcmp(first, "Engine") == 0;

		copy_words(info->version, sizeof(info->version), version);
		copy_words(info->name, sizeof(info->name),
			   !docker               ? first
			   : platform[0] != '\0' ? platform
						 : "Docker Engine");
	}
	cJSON_Delete(root);
	return r;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
copy_runtimes(struct engine_info *info, const cJSON *runtimes)
{
	const char *names[RUNTIMES_MAX] = {NULL};
	size_t n = 0, at = 0;

	for (const cJSON *v = runtimes != NULL ? runtimes->child : NULL;
	     v != NULL && n < RUNTIMES_MAX; v = v->next) {
		if (v->string != NULL && docker_name_ok(v->string) && strlen(v->string) < 32)
			names[n++] = v->string;
	}
	qsort(names, n, sizeof(names[0]), by_name);
	info->runtimes[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		int w = snprintf(info->runtimes + at, sizeof(info->runtimes) - at, "%s%s",
				 i > 0 ? "," : "", names[i]);

		if (w < 0 || (size_t)w >= sizeof(info->runtimes) - at) {
			info->runtimes[at] = '\0'; /* whole names only */
			return;
		}
		at += (size_t)w;
	}
}

static void
copy_security(struct engine_info *info, const cJSON *options)
{
	const struct {
		const char *word;
		bool *flag;
	} rows[] = {
		{"name=apparmor", &info->apparmor},
		{"name=seccomp", &info->seccomp},
		{"name=userns", &info->userns},
		{"name=rootless", &info->rootless},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		*rows[i].flag = false;
	for (const cJSON *v = options != NULL ? options->child : NULL; v != NULL; v = v->next) {
		const char *s = cJSON_GetStringValue(v);
		size_t n = s != NULL ? strcspn(s, ",") : 0;

		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			if (n == strlen(rows[i].word) && strncmp(s, rows[i].word, n) == 0)
				*rows[i].flag = true;
		}
	}
}

int
docker_reply_info(const uint8_t *body, size_t len, struct engine_info *info)
{
	cJSON *root = parse_object(body, len);
	uint64_t cpus = 0, memory = 0;
	int r = 0;

	if (root == NULL || !number_of(root, "NCPU", 65536, &cpus) ||
	    !number_of(root, "MemTotal", UINT64_C(1) << 53, &memory)) {
		r = -EPROTO;
	} else {
		info->cpus = (uint32_t)cpus;
		info->memory_bytes = memory;
		/* An engine before 20.10 does not say: it knows v1 only. */
		info->cgroup = strcmp(text_of(root, "CgroupVersion"), "2") == 0 ? 2 : 1;
		info->cgroup_systemd = strcmp(text_of(root, "CgroupDriver"), "systemd") == 0;
		info->cpu_cfs = flag_of(root, "CpuCfsPeriod") && flag_of(root, "CpuCfsQuota");
		info->pids = flag_of(root, "PidsLimit");
		info->memory_limit = flag_of(root, "MemoryLimit");
		info->swap_limit = flag_of(root, "SwapLimit");
		copy_words(info->default_runtime, sizeof(info->default_runtime),
			   text_of(root, "DefaultRuntime"));
		copy_runtimes(info, get(root, "Runtimes"));
		copy_security(info, get(root, "SecurityOptions"));
	}
	cJSON_Delete(root);
	return r;
}

/* ---- our containers, by their labels ---- */

static bool
label_number(const cJSON *labels, const char *key, uint64_t max, uint64_t *ret)
{
	const char *s = text_of(labels, key);

	return s[0] != '\0' && parse_u64(s, 0, max, ret) == 0;
}

static bool
label_text(const cJSON *labels, const char *key, char *out, size_t cap)
{
	const char *s = text_of(labels, key);

	return s[0] != '\0' && docker_name_ok(s) && str_copy(out, cap, s, strlen(s)) == 0;
}

static bool
read_container(const cJSON *o, struct engine_container *c)
{
	const cJSON *labels = get(o, "Labels");
	const char *state = text_of(o, "State");
	const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(get(o, "Names"), 0));
	uint64_t pid;

	*c = (struct engine_container){0};
	if (copy_id(c->id, text_of(o, "Id")) < 0 ||
	    strcmp(text_of(labels, ENGINE_LABEL "product"), ENGINE_PRODUCT) != 0)
		return false;
	c->created_only = strcmp(state, "created") == 0;
	c->running = !c->created_only && strcmp(state, "exited") != 0 && strcmp(state, "dead") != 0;
	if (name != NULL && name[0] == '/')
		name++;
	if (name != NULL && docker_name_ok(name))
		(void)str_copy(c->name, sizeof(c->name), name, strlen(name));
	if (!label_text(labels, ENGINE_LABEL "instance", c->instance, sizeof(c->instance)) ||
	    !label_text(labels, ENGINE_LABEL "boot", c->boot_id, sizeof(c->boot_id)) ||
	    !label_text(labels, ENGINE_LABEL "user", c->user_hash, sizeof(c->user_hash)) ||
	    !label_number(labels, ENGINE_LABEL "tree-pid", INT32_MAX, &pid) ||
	    !label_number(labels, ENGINE_LABEL "tree-start", UINT64_MAX, &c->tree_start) ||
	    !label_number(labels, ENGINE_LABEL "pid-ns", UINT64_MAX, &c->pid_ns) ||
	    !label_number(labels, ENGINE_LABEL "box", UINT64_MAX, &c->box))
		return false;
	c->tree_pid = (uint32_t)pid;
	return true;
}

int
docker_reply_list(const uint8_t *body, size_t len, struct engine_container **ret, size_t *ret_n)
{
	cJSON *root = cJSON_ParseWithLength((const char *)body, len);
	struct engine_container *list;
	size_t n = 0, count;

	if (!cJSON_IsArray(root)) {
		cJSON_Delete(root);
		return -EPROTO;
	}
	count = (size_t)cJSON_GetArraySize(root);
	if (count > LIST_MAX)
		count = LIST_MAX;
	list = calloc(count + 1, sizeof(*list));
	if (list == NULL) {
		cJSON_Delete(root);
		return -ENOMEM;
	}
	for (const cJSON *o = root->child; o != NULL && n < count; o = o->next) {
		if (read_container(o, &list[n]))
			n++;
	}
	cJSON_Delete(root);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* ---- events ---- */

static bool
read_event(const cJSON *o, struct engine_event *ev)
{
	static const struct {
		const char *action;
		enum engine_event_kind kind;
	} rows[] = {
		{"start", ENGINE_EV_START},
		{"oom", ENGINE_EV_OOM},
		{"die", ENGINE_EV_DIE},
		{"destroy", ENGINE_EV_DESTROY},
	};
	const cJSON *actor = get(o, "Actor"), *labels = get(actor, "Attributes");
	const char *action = text_of(o, "Action");
	uint64_t code;
	size_t i = 0;

	while (i < ARRAY_LEN(rows) && strcmp(rows[i].action, action) != 0)
		i++;
	*ev = (struct engine_event){0};
	if (i == ARRAY_LEN(rows) || strcmp(text_of(o, "Type"), "container") != 0 ||
	    strcmp(text_of(labels, ENGINE_LABEL "product"), ENGINE_PRODUCT) != 0 ||
	    copy_id(ev->id, text_of(actor, "ID")) < 0)
		return false;
	ev->kind = rows[i].kind;
	(void)label_number(labels, ENGINE_LABEL "box", UINT64_MAX, &ev->box);
	(void)label_text(labels, ENGINE_LABEL "instance", ev->instance, sizeof(ev->instance));
	if (label_number(labels, "exitCode", 255, &code))
		ev->exit_code = (int)code;
	return true;
}

int
docker_reply_event(const uint8_t *line, size_t len, struct engine_event *ret)
{
	cJSON *root = parse_object(line, len);
	bool ours;

	if (root == NULL)
		return -EPROTO;
	ours = read_event(root, ret);
	cJSON_Delete(root);
	return ours ? 1 : 0;
}
