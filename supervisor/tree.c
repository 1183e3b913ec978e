/*
 * supervisor/tree.c - a private tree from its first process to its last.
 * Runs in: baileyd.
 * Input: checked options; signals.
 * Owns: struct tree, the memfds, the signal descriptor.
 * On stdio the frontend is started before anything that takes time, so that a
 * client gets its first answer at once; else the listeners are open before any
 * right is given up, and connections wait in them until the processes run. The
 * engine is not touched from here at all.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <event2/event.h>

/* A page counts once it is used. */
#define LEDGER_BYTES ((off_t)2 * 1024 * 1024) /* 4096 boxes */
/* 64 MiB of output kept, its index, and what the next broker must know of sandboxes */
#define OUTPUT_BYTES ((off_t)75 * 1024 * 1024)
#define FDS_OWN 64u /* what the supervisor has open besides connections, amply */
#define EXIT_NOT_STARTED 1
#define TLS_START_MS 10000u /* from stunnel's start until it listens */
#define TLS_LEFT_MS 2000u   /* what a killed server's stunnel may take to be gone */

/* A limit of files counts for memory that is one as well; up to its ceiling it is ours to set. */
static void
allow_state(struct rlimit *ret)
{
	if (getrlimit(RLIMIT_FSIZE, ret) == -1 || ret->rlim_cur >= (rlim_t)OUTPUT_BYTES)
		return;
	ret->rlim_cur = ret->rlim_max;
	(void)setrlimit(RLIMIT_FSIZE, ret); /* what is refused is told when the memory is made */
}

/* Memory of fixed size that outlives the process that works in it. */
static int
make_state(const char *name, off_t bytes)
{
	cleanup_close int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd == -1)
		return -errno;
	if (ftruncate(fd, bytes) == -1 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == -1)
		return -errno;
	return TAKE_FD(fd);
}

static int
make_states(struct tree *t, char *error, size_t cap)
{
	struct rlimit size = {.rlim_max = RLIM_INFINITY};
	char more[64] = "";

	allow_state(&size);
	t->ledger = make_state("bailey-ledger", LEDGER_BYTES);
	t->output = make_state("bailey-output", OUTPUT_BYTES);
	if (t->ledger >= 0 && t->output >= 0)
		return 0;
	int r = t->ledger < 0 ? t->ledger : t->output;
	if (r == -EFBIG)
		(void)snprintf(more, sizeof(more), "; ulimit -f allows %llu KiB",
			       (unsigned long long)size.rlim_max / 1024);
	(void)snprintf(error, cap, "%u MiB of memory that outlives a process: %s%s",
		       (unsigned)(OUTPUT_BYTES >> 20), strerrordesc_np(-r), more);
	return r;
}

static int
open_programs(struct tree *t, char *error, size_t cap)
{
	char path[512];

	for (size_t i = 0; i < CHILD_COUNT; i++) {
		const char *name = children_name((enum child_id)i);
		int r = exe_find(name, path, sizeof(path));
		if (r == 0) {
			t->exe[i] = open(path, O_PATH | O_CLOEXEC);
			r = t->exe[i] == -1 ? -errno : 0;
		}
		if (r < 0) {
			(void)snprintf(error, cap, "%s is not beside this program: %s", name,
				       strerrordesc_np(-r));
			return r;
		}
	}
	return 0;
}

static void
on_signal(int fd, short what, void *arg)
{
	struct tree *t = arg;
	struct signalfd_siginfo info;

	(void)what;
	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			children_reap(t);
		else if (info.ssi_signo == SIGHUP && t->serve.http != NULL && !t->on_terminal)
			tokens_reread(t);
		else
			children_stop(t, 0); /* asked to end, and it does */
	}
}

/* Blocked for good, in children too: they hear "stop" on their link. A terminal's Ctrl-C reaches
 * the whole group, and only the supervisor may act on it. */
static int
block_signals(sigset_t *ret)
{
	if (sigemptyset(ret) == -1 || sigaddset(ret, SIGCHLD) == -1 ||
	    sigaddset(ret, SIGTERM) == -1 || sigaddset(ret, SIGINT) == -1 ||
	    sigaddset(ret, SIGHUP) == -1)
		return -errno;
	return -pthread_sigmask(SIG_SETMASK, ret, NULL);
}

static int
open_signals(void)
{
	sigset_t set;

	int r = block_signals(&set);
	if (r < 0)
		return r;
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

/* Where stunnel will listen: of a server that has just ended it may still be there. */
static int
tls_place(const char *text, struct listen_address *ret, char *error, size_t cap)
{
	uint64_t until = clock_now_ms() + TLS_LEFT_MS;
	int r = listen_parse(text, ret);

	while (r == 0 && (r = listen_probe(ret)) == -EADDRINUSE && clock_now_ms() < until) {
		(void)poll(NULL, 0, 20);
		r = 0;
	}
	if (r < 0)
		(void)snprintf(error, cap, "--tls-listen: %s: %s%s", text, strerrordesc_np(-r),
			       r == -EADDRINUSE ? "; stop what listens there or name another port"
						: "");
	return r;
}

/* stunnel and its keeper, while there are rights and no filter that they would inherit. */
static int
start_tls(struct tree *t, const struct listen_address *http, char *error, size_t cap)
{
	const struct identity *id = &t->identity;
	struct listen_address front;
	char program[64];

	int r = stunnel_find(program, sizeof(program), error, cap);
	if (r < 0)
		return r;
	int config = stunnel_config(&t->serve, http, id->switch_ids ? id->tls.uid : 0, id->tls.gid,
				    error, cap);
	if (config < 0)
		return config;
	cleanup_close int unused = config;
	r = tls_place(t->serve.tls_listen, &front, error, cap);
	if (r < 0)
		return r;
	cleanup_close int told = -1;
	r = stunnel_start(program, TAKE_FD(unused), id, &t->tls_keeper, &told);
	if (r == 0)
		r = stunnel_await(told, &front, TLS_START_MS);
	if (r == -ECHILD)
		(void)snprintf(
			error, cap,
			"--tls: stunnel ended, its words are above: %s must be a certificate "
			"chain and %s its key, both PEM",
			t->serve.tls_cert, t->serve.tls_key);
	else if (r < 0)
		(void)snprintf(error, cap, "--tls: stunnel did not start: %s", strerrordesc_np(-r));
	return r;
}

static int
open_http(struct tree *t, char *error, size_t cap)
{
	struct listen_address *http = &t->http_at, tls = {.port = 0};
	struct serve named = t->serve;
	struct utsname self;

	int r = tokens_load(t->serve.tokens, &t->tokens, error, cap);
	if (r < 0)
		return r;
	t->http_fd = listen_http(t->serve.http, http, error, cap);
	if (t->http_fd < 0)
		return t->http_fd;
	if (t->serve.tls_cert != NULL) {
		r = start_tls(t, http, error, cap);
		if (r < 0)
			return r;
		(void)listen_parse(t->serve.tls_listen, &tls); /* was checked */
		if (named.n_hosts == 0 && uname(&self) == 0)
			named.host[named.n_hosts++] = self.nodename;
	}
	return hosts_fill(&t->lists, http->port, &named, tls.port, error, cap);
}

static int
tell_listeners(const struct tree *t)
{
	const struct listen_address *http = &t->http_at;

	if (t->serve.socket != NULL)
		printf("listening on unix:%s\n", t->serve.socket);
	if (t->serve.http != NULL)
		printf("listening on http://%s:%u/mcp\n", http->v6 ? "[::1]" : "127.0.0.1",
		       http->port);
	if (t->serve.tls_cert != NULL)
		printf("listening on https://%s/mcp\n", t->serve.tls_listen);
	return fflush(stdout) == 0 ? 0 : -errno;
}

/* Where the tree is asked for its status: named, or beside the socket clients come in by. */
static int
open_status(struct tree *t, char *error, size_t cap)
{
	static const char word[] = "--status";
	cleanup_free char *path = t->serve.status != NULL ? xstrdup(t->serve.status)
				  : t->serve.socket != NULL
					  ? xasprintf("%s.status", t->serve.socket)
					  : NULL;

	if (path == NULL)
		return 0;
	if (t->serve.status == NULL &&
	    strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		log_warn("no status socket: %s is too long for one; see --status", path);
		return 0;
	}
	t->status_fd = listen_unix(path, error, cap);
	if (t->status_fd >= 0)
		return 0;
	/* The line names the word that was given; both have the same length. */
	if (t->serve.status != NULL && strncmp(error, "--socket", strlen(word)) == 0)
		memcpy(error, word, strlen(word));
	return t->status_fd;
}

/* What whoever started the tree waits for goes to stdout; nothing else ever does. */
static int
open_listeners(struct tree *t, char *error, size_t cap)
{
	/* First, so that what is wrong with the path is said of the one that was typed. */
	if (t->serve.socket != NULL) {
		t->unix_fd = listen_unix(t->serve.socket, error, cap);
		if (t->unix_fd < 0)
			return t->unix_fd;
	}
	int r = open_status(t, error, cap);
	if (r < 0)
		return r;
	if (t->serve.http != NULL)
		r = open_http(t, error, cap);
	if (r < 0)
		return r;
	/* Who is told may send a signal at once; it waits until the loop reads it. Not sooner: a
	 * start that takes long can be interrupted. */
	sigset_t set;
	r = block_signals(&set);
	if (r == 0)
		r = tell_listeners(t);
	if (r < 0)
		(void)snprintf(error, cap, "stdout: %s", strerrordesc_np(-r));
	return r;
}

static int
prepare(struct tree *t, char *error, size_t cap)
{
	int r = settings_gather(&t->facts, &t->options, error, cap);

	if (r == 0)
		r = open_programs(t, error, cap);
	if (r == 0)
		r = identity_find(&t->identity, error, cap);
	if (r < 0)
		return r;
	if (t->engine.kind != ENGINE_UNIX)
		t->identity.have_engine_gid = false;
	else if (t->engine.have_gid) {
		t->identity.have_engine_gid = true;
		t->identity.engine_gid = t->engine.gid;
	}
	if (t->engine.kind == ENGINE_UNIX)
		t->facts.flags |= SETTINGS_SAME_HOST;
	if (t->identity.switch_ids)
		t->facts.flags |= SETTINGS_REAPER_KILLS;
	r = make_states(t, error, cap);
	if (r < 0)
		return r;
	return open_listeners(t, error, cap);
}

/* The client's descriptors belong to the frontend alone: its end must be the end of the stream. */
static int
forget_client(void)
{
	if (dup3(FD_SUPERVISOR, FD_IN, O_CLOEXEC) == -1 ||
	    dup3(FD_SUPERVISOR, FD_OUT, O_CLOEXEC) == -1)
		return -errno;
	return 0;
}

static int
confine_self(struct tree *t)
{
	const struct confine_plan plan = {
		.table = TABLE_SUPERVISOR,
		.expect_uid = t->identity.switch_ids,
		.log_only = t->options.confine_log,
	};
	int r = confine_lock(&plan, &t->own_layers);

	return r < 0 ? r : confine_selftest(&plan, t->own_layers);
}

/* Root on the engine's own host puts a cap over all sandboxes; elsewhere the counted caps stand
 * alone, and check_sandbox_health says so. */
static void
cap_total(struct tree *t)
{
	struct facts *f = &t->facts;

	if (!t->identity.switch_ids || t->engine.kind != ENGINE_UNIX || !total_sees_host())
		return;
	int r = total_open("/sys/fs/cgroup", f->host_memory_bytes / 100 * BOXES_MEMORY_PERCENT,
			   f->cgroup_parent, sizeof(f->cgroup_parent));
	if (r < 0)
		log_debug("no common cgroup: %s", strerrordesc_np(-r));
}

/* Each connection takes a descriptor, and a second one while a new broker is wired to it. */
static uint32_t
room_for(uint32_t connections)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1 ||
	    limit.rlim_cur >= FDS_OWN + 2 * (rlim_t)connections)
		return connections;
	uint32_t room = limit.rlim_cur > FDS_OWN + 2 ? (uint32_t)(limit.rlim_cur - FDS_OWN) / 2 : 1;
	log_warn("%u connections at most, for want of file descriptors (ulimit -n)", room);
	return room;
}

/* A user's editor and agents open a handful of connections, a build server's more; both settle in
 * seconds. What comes faster for longer is a fault. */
static void
start_accepting(struct tree *t)
{
	const struct accept_limits limits = {
		.all = room_for(t->options.connections),
		.of_user = t->options.connections_user,
		.burst = 256,
		.per_second = 100,
	};

	t->acceptor = accept_new(t, TAKE_FD(t->unix_fd), TAKE_FD(t->http_fd), &limits);
	if (t->status_fd != -1)
		t->status = status_new(t, TAKE_FD(t->status_fd), t->uid);
}

static void
start_all(struct tree *t)
{
	const struct client on_stdio = {
		.kind = CLIENT_STDIO,
		.owner_kind = OWNER_TREE,
		.owner = t->facts.tree_pid,
		.fd = -1,
	};

	/* One that could not even be spawned leaves nothing to wait for. */
	if (t->serve.stdio && fronts_start(t, &on_stdio) < 0)
		children_stop(t, EXIT_NOT_STARTED);
	cap_total(t);
	int r = forget_client();
	if (r == 0)
		r = identity_become_self(&t->identity);
	if (r < 0)
		fatal("giving up rights: %s", strerrordesc_np(-r));
	if (t->engine.kind != ENGINE_UNIX) {
		r = engine_env_resolve(&t->engine);
		if (r < 0)
			log_error("DOCKER_HOST: %s has no address: %s", t->engine.host,
				  strerrordesc_np(-r));
	}
	r = confine_self(t);
	if (r < 0)
		fatal("confinement: %s", strerrordesc_np(-r));
	if (t->stopping)
		return;
	child_start(&t->child[CHILD_BROKER]);
	child_start(&t->child[CHILD_REAPER]);
	if (!t->serve.stdio)
		start_accepting(t);
}

static int
run(struct tree *t)
{
	cleanup_close int signals = open_signals();

	t->base = loop_new();
	if (signals < 0 || t->base == NULL)
		fatal("no event loop");
	struct event *on = event_new(t->base, signals, EV_READ | EV_PERSIST, on_signal, t);
	if (on == NULL || event_add(on, NULL) == -1)
		fatal("no event loop");
	children_init(t);
	start_all(t);
	if (!t->over)
		(void)event_base_dispatch(t->base);
	status_free(t->status);
	t->status = NULL;
	children_done(t);
	event_free(on);
	event_base_free(t->base);
	return t->exit_code;
}

static struct tree *
tree_new(const struct options *o, const struct engine_target *engine, const struct serve *serve)
{
	struct tree *t = xcalloc(1, sizeof(*t));

	t->options = *o;
	t->engine = *engine;
	t->serve = *serve;
	TAILQ_INIT(&t->fronts);
	for (size_t i = 0; i < CHILD_COUNT; i++)
		t->exe[i] = -1;
	t->ledger = t->output = t->unix_fd = t->http_fd = t->status_fd = -1;
	t->uid = getuid();
	t->on_terminal = isatty(FD_LOG) == 1;
	t->started_ms = clock_now_ms();
	return t;
}

int
tree_run(const struct options *o, const struct engine_target *engine, const struct serve *serve)
{
	struct tree *t = tree_new(o, engine, serve);
	char error[1024] = "";
	int code = EXIT_NOT_STARTED;

	if (prepare(t, error, sizeof(error)) < 0)
		log_error("%s", error);
	else
		code = run(t);
	if (t->tls_keeper != 0)
		(void)kill(-t->tls_keeper, SIGTERM);
	cleanup_closep(&t->unix_fd);
	cleanup_closep(&t->http_fd);
	cleanup_closep(&t->status_fd);
	for (size_t i = 0; i < CHILD_COUNT; i++)
		cleanup_closep(&t->exe[i]);
	cleanup_closep(&t->ledger);
	cleanup_closep(&t->output);
	engine_env_done(&t->engine);
	free(t);
	return code;
}
