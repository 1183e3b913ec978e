/*
 * broker/engine.h - what the broker asks of a container engine. Its core reaches it by broker.h,
 * what implements it by engine_parts.h, and the bench for the create body alone.
 *
 * Everything Docker-specific sits behind it (docker_api.c, docker_body.c,
 * docker_reply.c, http.c, attach.c). Every operation is asynchronous on its own
 * connection with its own deadline, and answers exactly once through its
 * callback, never from inside the starting call. Results are borrowed until
 * the callback returns. A caller finds its object again by tag, never by pointer.
 */
#ifndef BAILEY_ENGINE_H
#define BAILEY_ENGINE_H

#include "ipc.h"

struct event_base;
struct engine;
struct attach;

struct engine_config {
	enum engine_kind kind;
	char path[108];              /* unix socket */
	char host[254], address[65]; /* tcp: name and resolved address */
	uint32_t port;
	struct buf pem[4]; /* by enum engine_pem_kind, owned */
};

/* What of a container may vary. Everything else in the create body is constant. */
struct box_spec {
	char name[64];   /* bailey-<8 hex of instance>-<box> */
	char image[256]; /* reference or sha256 id */
	enum box_class box_class;
	uint32_t uid, gid;
	uint64_t memory_bytes; /* = swap limit */
	uint32_t cpus_milli, cpu_shares, pids;
	uint64_t workspace_bytes, tmp_bytes;
	uint64_t workspace_inodes, tmp_inodes;
	uint32_t cpus_shown;      /* whole processors: which generated cpu files are bound */
	bool bind_guest;          /* false on a remote engine: image carries /.bailey itself */
	char share_dir[512];      /* holds box/ (bound at /.bailey), passwd, group, cpu/ */
	char cgroup_parent[64];   /* "" none */
	char runtime[32];         /* "" = the engine's default */
	const char *seccomp_json; /* the container profile, inline */
	const char *apparmor;     /* NULL where the engine has none */
	struct {                  /* labels */
		char instance[33], boot_id[37], user_hash[33];
		uint32_t tree_pid;
		uint64_t tree_start, pid_ns, box;
	} label;
};

/* Outcome of an operation. err: 0, -ENOENT (404), -EEXIST (409), -ETIMEDOUT (our deadline),
 * -ENOTCONN (whatever connect or TLS failed with), -ECONNRESET (the
 * connection ended before the answer: the engine may have acted), -EPROTO (an answer that is not
 * what the API promises), -EIO (5xx), -EINVAL (other 4xx, or a name refused here), -EBUSY (423,
 * 429, 503). message: the engine's words or ours, printable, <= 400 bytes. */
struct engine_result {
	int err;
	int http_status; /* 0 when there was no answer */
	const char *message;
};

struct engine_info {
	char name[65], version[65], api[17]; /* negotiated, 1.40 … what we know */
	char runtimes[257];                  /* comma separated, sorted */
	char default_runtime[33];
	uint32_t cgroup; /* 1 or 2 */
	bool cgroup_systemd;
	bool apparmor, seccomp, userns, rootless;
	bool cpu_cfs, pids, memory_limit, swap_limit;
	uint32_t cpus;
	uint64_t memory_bytes;
};
struct engine_container { /* one of the list, by our product label */
	char id[65];
	bool running, created_only;
	char name[64];
	char instance[33], boot_id[37], user_hash[33];
	uint32_t tree_pid;
	uint64_t tree_start, pid_ns, box;
};
enum engine_event_kind { ENGINE_EV_START, ENGINE_EV_OOM, ENGINE_EV_DIE, ENGINE_EV_DESTROY };
struct engine_event {
	enum engine_event_kind kind;
	char id[65];
	uint64_t box; /* from our label, 0 when absent */
	char instance[33];
	int exit_code;
};

/* Once per process, before it is confined: what libcurl and TLS read from files, and the one
 * socket pair they make. */
int engine_global_init(void);
/* The JSON body engine_create sends, to be freed; NULL when a figure is out of range. info: of
 * engine_probe, or NULL for cgroup v1 and the engine's default runtime unnamed. For the bench. */
char *docker_create_body(const struct box_spec *spec, const struct engine_info *info);

/* Takes config's buffers. Touches nothing until the first operation. */
struct engine *engine_new(struct event_base *base, struct engine_config *config);
void engine_free(struct engine *e); /* pending operations get no callback */

/* Ping, negotiate the API version (below 1.40: -EPROTONOSUPPORT with a message that says so), info.
 */
void engine_probe(struct engine *e, void *ctx,
		  void (*done)(void *ctx, const struct engine_result *r,
			       const struct engine_info *info));
void engine_image(struct engine *e, const char *image, void *ctx,
		  void (*done)(void *ctx, const struct engine_result *r, const char *image_id));
/* All containers, running or not, with the product label and this user hash. */
void engine_list(struct engine *e, const char *user_hash, void *ctx,
		 void (*done)(void *ctx, const struct engine_result *r,
			      const struct engine_container *list, size_t n));
void engine_create(struct engine *e, const struct box_spec *spec, void *ctx, uint64_t tag,
		   void (*done)(void *ctx, uint64_t tag, const struct engine_result *r,
				const char *container_id));
/* spec is copied; seccomp_json and apparmor must stay while a check is under way.
 * Reads the container back and compares every security field with spec (docker_check.c's table).
 * -EPERM with the field's name in message when one differs. pid is 0 while it is not running. */
void
engine_check(struct engine *e, const char *id, const struct box_spec *spec, void *ctx, uint64_t tag,
	     void (*done)(void *ctx, uint64_t tag, const struct engine_result *r, uint32_t pid));
typedef void (*engine_done)(void *ctx, uint64_t tag, const struct engine_result *r);
void engine_start(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done);
/* Sets limits (0: as it is) and reads them back: -EPERM where the engine has others. */
void engine_update(struct engine *e, const char *id, uint64_t memory_bytes, uint32_t cpus_milli,
		   void *ctx, uint64_t tag, engine_done done);
void engine_kill(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done);
/* DELETE force. 404 is reported as success; 409 "already in progress" as -EEXIST. id may be a name.
 */
void engine_remove(struct engine *e, const char *id, void *ctx, uint64_t tag, engine_done done);
/* One label-filtered stream, re-opened by the engine layer with backoff; gap is called after each
 * re-opening because events may be missing. Started once. */
void engine_events(struct engine *e, void *ctx,
		   void (*event)(void *ctx, const struct engine_event *ev), void (*gap)(void *ctx));

/* ---- attach: the hijacked connection of one container, demultiplexed ---- */
struct attach_handler {
	void (*opened)(void *ctx, uint64_t tag,
		       const struct engine_result *r); /* once; on err the attach is dead */
	void (*data)(void *ctx, uint64_t tag, int stream /* 1, 2 */, const uint8_t *p, size_t n);
	void (*closed)(void *ctx, uint64_t tag, int err /* 0 EOF, -EPROTO bad stdcopy frame, … */);
};
/* stdin, stdout, stderr, stream; reads always, never stalls: attach.c says why. */
struct attach *engine_attach(struct engine *e, const char *id, const struct attach_handler *h,
			     void *ctx, uint64_t tag);
/* Writes now or queues; -ENOBUFS past 4 MiB queued. May be called before opened. -EPIPE when
 * nothing can be sent any more, for want of memory too: what the box said before that is still
 * read, and closed follows it. */
int attach_send(struct attach *a, const void *p, size_t n);
void attach_free(struct attach *a); /* closes; no callback; safe inside its own callbacks */

#endif
