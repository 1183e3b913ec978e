/*
 * cli/bench_body.c - the create body of a box of the default profile, for the
 * raw engine's side of the bench: the broker's own function makes it, only the
 * entry point is replaced.
 * Runs in: bailey bench.
 * Input: the engine's /info, read with the caller's own rights.
 * Owns: nothing.
 */
#include "cli.h"
#include "engine.h"
#include "container_seccomp.h"
#include "profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
ask_info(struct engine_info *info)
{
	struct buf reply;

	buf_init(&reply, 1u << 20);
	info->cgroup = 1;
	if (raw_request("GET", "/info", NULL, &reply) == 200) {
		cJSON *o = cJSON_ParseWithLength((const char *)buf_data(&reply), buf_len(&reply));
		const cJSON *version = cJSON_GetObjectItemCaseSensitive(o, "CgroupVersion");
		const cJSON *runtime = cJSON_GetObjectItemCaseSensitive(o, "DefaultRuntime");
		if (cJSON_IsString(version) && strcmp(version->valuestring, "2") == 0)
			info->cgroup = 2;
		if (cJSON_IsString(runtime))
			(void)str_copy(info->default_runtime, sizeof(info->default_runtime),
				       runtime->valuestring, strlen(runtime->valuestring));
		cJSON_Delete(o);
	}
	buf_done(&reply);
}

static void
fill_spec(struct box_spec *s, const char *image)
{
	const struct profile *p = profile_find("", 0);
	static unsigned number;

	*s = (struct box_spec){
		.box_class = BOX_SHELL,
		.uid = 10001,
		.gid = 10001,
		.memory_bytes = p->memory_bytes,
		.cpus_milli = p->cpus_milli,
		.cpu_shares = p->cpu_shares,
		.pids = p->pids,
		.workspace_bytes = p->workspace_bytes,
		.tmp_bytes = p->tmp_bytes,
		.workspace_inodes = p->workspace_inodes,
		.tmp_inodes = p->tmp_inodes,
		.cpus_shown = (p->cpus_milli + 999) / 1000,
		.bind_guest = true,
		.seccomp_json = container_seccomp_json,
	};
	(void)snprintf(s->name, sizeof(s->name), "bench-%u", number++);
	(void)snprintf(s->image, sizeof(s->image), "%s", image);
	if (exe_share_dir(s->share_dir, sizeof(s->share_dir)) < 0)
		fatal("bench: the data directory went away");
}

/* The body as the broker sends it, with entrypoint in place of guest-init and not labelled as a
 * box: no tree may take it for one of its own. */
char *
raw_box_body(const char *image, const char *const *entrypoint)
{
	struct box_spec spec;
	struct engine_info info = {0};

	ask_info(&info);
	fill_spec(&spec, image);
	cleanup_free char *text = docker_create_body(&spec, &info);
	cJSON *o = text == NULL ? NULL : cJSON_Parse(text);
	if (o == NULL)
		fatal("bench: no create body");
	cJSON *argv = cJSON_CreateArray();
	for (size_t i = 0; entrypoint[i] != NULL; i++)
		cJSON_AddItemToArray(argv, cJSON_CreateString(entrypoint[i]));
	cJSON_ReplaceItemInObjectCaseSensitive(o, "Entrypoint", argv);
	cJSON_ReplaceItemInObjectCaseSensitive(o, "Labels", cJSON_CreateObject());
	char *body = cJSON_PrintUnformatted(o);
	cJSON_Delete(o);
	if (body == NULL)
		fatal("bench: out of memory");
	return body;
}
