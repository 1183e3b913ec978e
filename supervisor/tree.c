/*
 * supervisor/tree.c - a private tree from its first process to its last.
 * Runs in: baileyd.
 * Input: checked options; signals.
 * Owns: struct tree, the ledger memfd, the signal descriptor.
 * The frontend is started before anything that takes time, so that a client
 * gets its first answer at once; the engine is not touched from here at all.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <event2/event.h>

#define LEDGER_BYTES ((off_t)2 * 1024 * 1024) /* 4096 boxes; a page counts once it is used */
#define EXIT_NOT_STARTED 1

static int
make_ledger(void)
{
	cleanup_close int fd = memfd_create("bailey-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd == -1)
		return -errno;
	if (ftruncate(fd, LEDGER_BYTES) == -1 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == -1)
		return -errno;
	return TAKE_FD(fd);
}

static int
open_programs(struct tree *t, char *error, size_t cap)
{
	char path[512];

	for (size_t i = 0; i < CHILD_COUNT; i++) {
		const char *name = children_name((enum child_id)i);
		int r = exe_find(name, path, sizeof(path));
		if (r == 0) {
			t->child[i].exe = open(path, O_PATH | O_CLOEXEC);
			r = t->child[i].exe == -1 ? -errno : 0;
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
		else
			children_stop(t, 0); /* asked to end, and it does */
	}
}

static int
open_signals(void)
{
	sigset_t set;

	if (sigemptyset(&set) == -1 || sigaddset(&set, SIGCHLD) == -1 ||
	    sigaddset(&set, SIGTERM) == -1 || sigaddset(&set, SIGINT) == -1 ||
	    sigaddset(&set, SIGHUP) == -1)
		return -errno;
	/* Blocked for good, in children too: they hear "stop" on their link. A terminal's Ctrl-C
	 * reaches the whole group, and only the supervisor may act on it. */
	int r = pthread_sigmask(SIG_SETMASK, &set, NULL);
	if (r != 0)
		return -r;
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd == -1 ? -errno : fd;
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
	t->ledger = make_ledger();
	if (t->ledger < 0) {
		(void)snprintf(error, cap, "ledger: %s", strerrordesc_np(-t->ledger));
		return t->ledger;
	}
	return 0;
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
	int r = total_open("/sys/fs/cgroup", f->host_memory_bytes / 4 * 3, f->cgroup_parent,
			   sizeof(f->cgroup_parent));
	if (r < 0)
		log_debug("no common cgroup: %s", strerrordesc_np(-r));
}

static void
start_all(struct tree *t)
{
	children_start(t, CHILD_FRONTEND);
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
	children_start(t, CHILD_BROKER);
	children_start(t, CHILD_REAPER);
}

static int
run(struct tree *t)
{
	cleanup_close int signals = open_signals();

	t->base = event_base_new();
	if (signals < 0 || t->base == NULL)
		fatal("no event loop");
	struct event *on = event_new(t->base, signals, EV_READ | EV_PERSIST, on_signal, t);
	if (on == NULL || event_add(on, NULL) == -1)
		fatal("no event loop");
	children_init(t);
	start_all(t);
	/* A frontend that could not even be spawned leaves nothing to wait for. */
	if (t->child[CHILD_FRONTEND].state == CHILD_GAVE_UP)
		children_stop(t, EXIT_NOT_STARTED);
	if (!t->over)
		(void)event_base_dispatch(t->base);
	children_done(t);
	event_free(on);
	event_base_free(t->base);
	return t->exit_code;
}

int
tree_run(const struct options *o, const struct engine_target *engine)
{
	struct tree *t = xcalloc(1, sizeof(*t));
	char error[1024] = "";

	t->options = *o;
	t->engine = *engine;
	wiring_init(t);
	for (size_t i = 0; i < CHILD_COUNT; i++)
		t->child[i].exe = -1;
	t->ledger = -1;
	int code = EXIT_NOT_STARTED;
	if (prepare(t, error, sizeof(error)) < 0)
		log_error("%s", error);
	else
		code = run(t);
	wiring_done(t);
	for (size_t i = 0; i < CHILD_COUNT; i++)
		cleanup_closep(&t->child[i].exe);
	cleanup_closep(&t->ledger);
	engine_env_done(&t->engine);
	free(t);
	return code;
}
