/*
 * reaper/main.c - bailey-reaper: start, confinement, links, loop, end.
 * Runs in: bailey-reaper.
 * Input: its command line and descriptors from the supervisor; trusted.
 * Owns: the loop, both links, the ledger's mapping.
 */
#include "reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#define LEDGER_BOXES_MAX 4096u
#define LINK_QUEUE_MAX ((size_t)4 * 1024 * 1024)

static void on_idle(struct reaper *r);

static struct reaper the_reaper = {.pending_fd = -1, .on_idle = on_idle};

static void
on_broker_closed(void *ctx, struct link *l, int reason)
{
	struct reaper *r = ctx;

	/* The supervisor says why a broker ended; where the tree ends, it may be gone before we
	 * hear of it. */
	log_at(r->stopping   ? LOG_L_DEBUG
	       : reason == 0 ? LOG_L_INFO
			     : LOG_L_WARNING,
	       "broker link lost%s%s", reason < 0 ? ": " : "",
	       reason < 0 ? strerrordesc_np(-reason) : "");
	link_free(l);
	r->broker = NULL;
	/* The broker may live, and no other would come: the next reaper has the ledger. */
	if (reason < 0 && !r->stopping)
		fatal("ending for a new broker link");
	watch_broker_lost(r);
}

static const struct link_config broker_config = {
	.self = IPC_REAPER,
	.peer = IPC_BROKER,
	.routes = watch_routes,
	.n_routes = WATCH_N_ROUTES,
	.ctx = &the_reaper,
	.queue_max = LINK_QUEUE_MAX,
	.on_closed = on_broker_closed,
};

static void
start_broker_link(struct reaper *r)
{
	r->broker = link_new(r->base, FD_PEER, &broker_config);
}

static void
on_supervisor_closed(void *ctx, struct link *l, int reason)
{
	struct reaper *r = ctx;

	(void)l;
	log_info("supervisor gone: every box is killed (%s)",
		 reason < 0 ? strerrordesc_np(-reason) : "closed");
	watch_abandoned(r); /* signals what can be signalled, at once */
	(void)event_base_loopbreak(r->base);
}

static void
on_fd(void *ctx, struct link *l, int fd)
{
	struct reaper *r = ctx;

	(void)l;
	cleanup_closep(&r->pending_fd);
	r->pending_fd = fd;
}

static void
reaper_on_peer(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = ctx;

	(void)l;
	if (row->u.peer.role != IPC_BROKER)
		fatal("peer: role %u is none of mine", row->u.peer.role);
	if (r->broker != NULL) {
		/* The end of the old one may not have been read yet. */
		link_free(r->broker);
		r->broker = NULL;
		watch_broker_lost(r);
	}
	int rc = fd_move(TAKE_FD(r->pending_fd), FD_PEER);
	if (rc < 0)
		fatal("peer: %s", strerrordesc_np(-rc));
	(void)fd_set_cloexec(FD_PEER, true); /* nothing is ever executed here; harmless */
	start_broker_link(r);
	watch_broker_new(r);
}

static void
reaper_on_settings(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = ctx;
	const struct ipc_settings *m = &row->u.settings;

	(void)l;
	if (str_copy(r->facts.boot_id, sizeof(r->facts.boot_id), m->boot_id.data, m->boot_id.len) <
	    0)
		fatal("settings: the boot id is not one");
	r->facts.tree_pid = m->tree_pid;
	r->facts.tree_start = m->tree_start;
	r->facts.pid_ns = m->pid_ns;
}

static void
reaper_on_configured(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct reaper *r = ctx;

	(void)l;
	(void)row;
	if (r->facts.boot_id[0] == '\0')
		fatal("configured without settings");
	start_broker_link(r);
	watch_recover(r);
}

static void
reaper_on_stop(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	watch_stop(ctx, row->u.stop.grace_ms);
}

static void
reaper_on_status_ask(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	report_status(ctx, row->u.status_ask.query);
}

static const struct link_route supervisor_routes[] = {
	{.num = IPC_NUM_settings, .handler = reaper_on_settings, .once = true},
	{.num = IPC_NUM_configured, .handler = reaper_on_configured, .once = true},
	{.num = IPC_NUM_peer, .handler = reaper_on_peer},
	{.num = IPC_NUM_status_ask, .handler = reaper_on_status_ask},
	{.num = IPC_NUM_stop, .handler = reaper_on_stop},
};

static const struct link_config supervisor_config = {
	.self = IPC_REAPER,
	.peer = IPC_SUPERVISOR,
	.routes = supervisor_routes,
	.n_routes = ARRAY_LEN(supervisor_routes),
	.ctx = &the_reaper,
	.queue_max = LINK_QUEUE_MAX,
	.on_closed = on_supervisor_closed,
	.on_fd = on_fd,
};

static void
on_timer(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	watch_timer(arg);
}

static void
on_idle(struct reaper *r)
{
	size_t left = idmap_count(r->boxes);

	if (left > 0)
		log_warn("%zu boxes end unconfirmed; their own clocks and the engine finish them",
			 left);
	(void)event_base_loopbreak(r->base);
}

/* Everything that needs a file is opened here, before the confinement. */
static void
open_all(struct reaper *r)
{
	int rc = ledger_open(&r->ledger, FD_STATE);
	if (rc < 0)
		fatal("ledger: %s", strerrordesc_np(-rc));
	r->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->proc_fd == -1)
		fatal("/proc: %s", strerrordesc_np(errno));
	/* Without it there are no counters; boxes still end. */
	r->cgroup_fd = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r->base = loop_new();
	if (r->base == NULL)
		fatal("no event loop");
	rc = deadline_init(&r->deadline);
	if (rc < 0)
		fatal("timer: %s", strerrordesc_np(-rc));
	r->timer_event = event_new(r->base, r->deadline.fd, EV_READ | EV_PERSIST, on_timer, r);
	if (r->timer_event == NULL || event_add(r->timer_event, NULL) == -1)
		fatal("timer: no event");
	r->boxes = idmap_new(LEDGER_BOXES_MAX);
}

static uint32_t
confine(struct confine_plan *plan, struct reaper *r)
{
	uint32_t layers = 0;

	int rc = confine_start(plan, FD_STATE);
	if (rc < 0)
		fatal("start: %s", strerrordesc_np(-rc));
	open_all(r);
	rc = confine_lock(plan, &layers);
	if (rc < 0)
		fatal("confinement: %s", strerrordesc_np(-rc));
	rc = confine_selftest(plan, layers);
	if (rc < 0)
		fatal("self-test: %s", strerrordesc_np(-rc));
	return layers;
}

int
main(int argc, char **argv)
{
	struct reaper *r = &the_reaper;
	struct confine_plan plan = {.table = TABLE_REAPER};

	log_init("bailey-reaper", LOG_L_INFO);
	if (confine_args(argc, argv, &plan) < 0)
		fatal("this program is started by baileyd, not by hand");
	log_init("bailey-reaper", plan.debug    ? LOG_L_DEBUG
				  : plan.events ? LOG_L_INFO
						: LOG_L_WARNING);
	uint32_t layers = confine(&plan, r);
	r->supervisor = link_new(r->base, FD_SUPERVISOR, &supervisor_config);
	(void)link_send(r->supervisor, IPC_ROW(ready, .version = IPC_VERSION, .layers = layers));
	if (report_start(r) < 0)
		fatal("no timer");
	(void)event_base_dispatch(r->base);
	if (r->broker != NULL)
		(void)link_flush(r->broker); /* the last orders */
	return 0;
}
