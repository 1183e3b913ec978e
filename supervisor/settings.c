/*
 * supervisor/settings.c - what a child is told before it does anything.
 * Runs in: baileyd.
 * Input: options (checked), /proc, /etc/machine-id.
 * Owns: nothing.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BOX_ID 10001u /* user and group inside every sandbox */

/* FNV-1a over 128 bits. Not a secret: it only keeps the containers of different users and
 * machines on one engine apart. */
static void
hash_add(unsigned __int128 *h, const void *p, size_t n)
{
	const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
	const uint8_t *at = p;

	for (size_t i = 0; i < n; i++) {
		*h ^= at[i];
		*h *= prime;
	}
}

static void
user_hash(char ret[33])
{
	unsigned __int128 h = ((unsigned __int128)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;
	struct utsname host;
	char machine[64];
	uint32_t uid = getuid();
	uint8_t bytes[16];
	size_t n = 0;

	hash_add(&h, &uid, sizeof(uid));
	/* The machine belongs to it: on an engine used from two hosts, each host's boot id differs
	 * from the other's, and a tree must not take the other's containers for leftovers. */
	if (fd_read_file(AT_FDCWD, "/etc/machine-id", machine, sizeof(machine), &n) == 0)
		hash_add(&h, machine, n);
	if (uname(&host) == 0)
		hash_add(&h, host.nodename, strlen(host.nodename));
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(h >> (8 * (sizeof(bytes) - 1 - i)));
	hex_encode(ret, bytes, sizeof(bytes));
}

static int
read_boot_id(char ret[37])
{
	char text[64];
	size_t len;

	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text), &len);
	if (r < 0)
		return r;
	return str_copy(ret, 37, text, strcspn(text, "\n"));
}

static int
find_share_dir(struct facts *f, const struct options *o)
{
	if (o->share_dir[0] != '\0')
		return str_copy(f->share_dir, sizeof(f->share_dir), o->share_dir,
				strlen(o->share_dir));
	return exe_share_dir(f->share_dir, sizeof(f->share_dir));
}

int
settings_gather(struct facts *ret, const struct options *o, char *error, size_t cap)
{
	struct facts f = {.tree_pid = (uint32_t)getpid()};
	struct sysinfo info;
	struct stat st;
	cpu_set_t cpus;
	uint8_t instance[16];

	random_bytes(instance, sizeof(instance));
	hex_encode(f.instance, instance, sizeof(instance));
	user_hash(f.user_hash);
	int r = find_share_dir(&f, o);
	if (r < 0) {
		(void)snprintf(
			error, cap,
			"Bailey's data files are not where the programs are (share/box/init); "
			"installation incomplete?");
		return r;
	}
	r = read_boot_id(f.boot_id);
	if (r == 0)
		r = fd_read_start_time(AT_FDCWD, "/proc/self/stat", &f.tree_start);
	if (r < 0) {
		(void)snprintf(error, cap, "/proc: %s", strerrordesc_np(-r));
		return r;
	}
	/* 0 = unknown: another tree then judges ours by age alone. */
	f.pid_ns = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
	f.host_cpus =
		sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
	if (sysinfo(&info) == 0)
		f.host_memory_bytes = (uint64_t)info.totalram * info.mem_unit;
	f.flags = o->no_pool ? SETTINGS_NO_POOL : 0;
	*ret = f;
	return 0;
}

static int
send_engine(struct link *l, const struct engine_target *t)
{
	uint32_t parts = 0;

	for (size_t i = 0; i < ARRAY_LEN(t->pem); i++)
		parts += (uint32_t)((buf_len(&t->pem[i]) + IPC_CHUNK_MAX - 1) / IPC_CHUNK_MAX);
	int r = link_send(l, IPC_ROW(engine, .kind = t->kind, .path = IPC_STR(t->path),
				     .host = IPC_STR(t->host), .address = IPC_STR(t->address),
				     .port = t->port, .pem_parts = parts));
	for (size_t i = 0; i < ARRAY_LEN(t->pem) && r == 0; i++) {
		const uint8_t *data = buf_data(&t->pem[i]);
		size_t left = buf_len(&t->pem[i]);
		while (left > 0 && r == 0) {
			size_t n = left < IPC_CHUNK_MAX ? left : IPC_CHUNK_MAX;
			r = link_send(l, IPC_ROW(engine_pem, .which = (uint32_t)i + PEM_CA,
						 .data = {.data = data, .len = n}));
			data += n;
			left -= n;
		}
	}
	return r;
}

static int
send_client(struct link *l, const struct client_facts *c)
{
	return link_send(l, IPC_ROW(client, .kind = c->kind, .hosts = IPC_STR(c->hosts),
				    .origins = IPC_STR(c->origins)));
}

int
settings_send(struct link *l, enum child_id child, const struct settings_source *s)
{
	const struct options *o = s->options;
	const struct facts *f = s->facts;
	int r = link_send(
		l,
		IPC_ROW(settings, .instance = IPC_STR(f->instance), .boot_id = IPC_STR(f->boot_id),
			.user_hash = IPC_STR(f->user_hash), .tree_pid = f->tree_pid,
			.tree_start = f->tree_start, .pid_ns = f->pid_ns, .box_uid = BOX_ID,
			.box_gid = BOX_ID, .share_dir = IPC_STR(f->share_dir),
			.image = IPC_STR(o->image), .max_cpus_milli = o->max_cpus_milli,
			.max_memory_bytes = o->max_memory_bytes, .timeout_ms = o->timeout_ms,
			.host_cpus = f->host_cpus, .host_memory_bytes = f->host_memory_bytes,
			.cgroup_parent = IPC_STR(f->cgroup_parent), .flags = f->flags));
	if (r == 0 && child == CHILD_BROKER)
		r = send_engine(l, s->engine);
	if (r == 0 && child == CHILD_BROKER)
		r = tokens_send(l, s->tokens);
	if (r == 0 && child == CHILD_FRONTEND)
		r = send_client(l, &s->client);
	return r < 0 ? r : link_send(l, IPC_ROW(configured));
}
