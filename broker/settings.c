/*
 * broker/settings.c - what the supervisor configured, copied into typed structs.
 *
 * Runs in: bailey-broker.
 * Input: settings, engine and engine_pem rows (trusted, bounds still checked).
 * Owns: nothing.
 */
#include <errno.h>
#include <string.h>

#include "broker.h"

static int
copy(char *dst, size_t cap, const struct ipc_str *s)
{
	return str_copy(dst, cap, s->data, s->len);
}

int
settings_copy(const struct ipc_settings *in, struct settings *ret)
{
	struct settings s = {.tree_pid = in->tree_pid,
			     .box_uid = in->box_uid,
			     .box_gid = in->box_gid,
			     .host_cpus = in->host_cpus,
			     .max_cpus_milli = in->max_cpus_milli,
			     .timeout_ms = in->timeout_ms,
			     .flags = in->flags,
			     .tree_start = in->tree_start,
			     .pid_ns = in->pid_ns,
			     .max_memory_bytes = in->max_memory_bytes,
			     .host_memory_bytes = in->host_memory_bytes};

	if (copy(s.instance, sizeof(s.instance), &in->instance) < 0 ||
	    copy(s.boot_id, sizeof(s.boot_id), &in->boot_id) < 0 ||
	    copy(s.user_hash, sizeof(s.user_hash), &in->user_hash) < 0 ||
	    copy(s.share_dir, sizeof(s.share_dir), &in->share_dir) < 0 ||
	    copy(s.image, sizeof(s.image), &in->image) < 0 ||
	    copy(s.cgroup_parent, sizeof(s.cgroup_parent), &in->cgroup_parent) < 0)
		return -EINVAL;
	if (strlen(s.instance) != 32 || !s.image[0] || s.box_uid == 0 || s.box_gid == 0 ||
	    s.host_memory_bytes == 0)
		return -EINVAL;
	*ret = s;
	return 0;
}

int
settings_engine(const struct ipc_engine *in, struct engine_config *ret)
{
	struct engine_config c = {.kind = (enum engine_kind)in->kind, .port = in->port};

	if (in->kind < ENGINE_UNIX || in->kind > ENGINE_TLS || in->port > 65535 ||
	    copy(c.path, sizeof(c.path), &in->path) < 0 ||
	    copy(c.host, sizeof(c.host), &in->host) < 0 ||
	    copy(c.address, sizeof(c.address), &in->address) < 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(c.pem); i++)
		buf_init(&c.pem[i], (size_t)256 * 1024);
	*ret = c;
	return 0;
}

int
settings_pem(const struct ipc_engine_pem *in, struct engine_config *config)
{
	if (in->which < PEM_CA || in->which > PEM_KEY)
		return -EINVAL;
	return buf_append(&config->pem[in->which], in->data.data, in->data.len);
}
