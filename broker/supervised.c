/*
 * broker/supervised.c - the supervisor's link: settings, new links, the end.
 *
 * Runs in: bailey-broker.
 * Input: rows of the supervisor (trusted).
 * Owns: the link, and a passed descriptor between its arrival and its peer row.
 */
#include <errno.h>
#include <unistd.h>

#include "broker.h"

#define SUPERVISOR_QUEUE_MAX ((size_t)512 << 10) /* a status with all its leases is 100 KiB */

static void
broker_on_settings(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;

	(void)l;
	if (settings_copy(&row->u.settings, &b->settings) < 0)
		fatal("settings the broker cannot use");
	admission_caps(b);
	b->have_settings = true;
}

static void
broker_on_engine(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;

	(void)l;
	if (settings_engine(&row->u.engine, &b->engine_config) < 0)
		fatal("an engine address the broker cannot use");
	b->pem_due = row->u.engine.pem_parts;
	b->have_engine = true;
}

static void
broker_on_engine_pem(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;

	(void)l;
	if (b->pem_due == 0 || settings_pem(&row->u.engine_pem, &b->engine_config) < 0)
		fatal("a certificate or key the broker cannot hold");
	b->pem_due--;
}

static void
broker_on_configured(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;

	(void)l;
	(void)row;
	if (!b->have_settings || !b->have_engine || b->pem_due > 0)
		fatal("configured without settings");
	b->engine = engine_new(b->base, &b->engine_config);
	if (!b->engine)
		fatal("no engine client");
	adopt_all(b);
}

static void
broker_on_token(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	if (auth_on_token(ctx, &row->u.token) < 0)
		fatal("a token the broker cannot use");
}

static void
broker_on_tokens_end(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	if (auth_on_tokens_end(ctx, &row->u.tokens_end) < 0)
		fatal("tokens the broker cannot use");
}

void
broker_on_fd(void *ctx, struct link *l, int fd)
{
	struct broker *b = ctx;

	(void)l;
	cleanup_closep(&b->passed_fd);
	b->passed_fd = fd;
}

static void
broker_on_peer(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct broker *b = ctx;
	const struct ipc_peer *m = &row->u.peer;
	cleanup_close int fd = TAKE_FD(b->passed_fd);
	int r = -EINVAL;

	(void)l;
	if (fd < 0)
		return;
	if (m->role == IPC_FRONTEND)
		r = front_open(b, m, TAKE_FD(fd));
	else if (m->role == IPC_REAPER)
		r = orders_open(b, TAKE_FD(fd));
	if (r < 0)
		log_warn("a link from the supervisor was not taken, error %d", r);
}

static void
broker_on_layers(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	health_layers(ctx, &row->u.layers);
}

static void
broker_on_stop(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	broker_stop(ctx, row->u.stop.grace_ms);
}

static void
broker_on_status_ask(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)l;
	report_status(ctx, row->u.status_ask.query);
}

static const struct link_route routes[] = {
	{.num = IPC_NUM_settings, .handler = broker_on_settings, .once = true},
	{.num = IPC_NUM_engine, .handler = broker_on_engine, .once = true},
	{.num = IPC_NUM_engine_pem, .handler = broker_on_engine_pem},
	{.num = IPC_NUM_configured, .handler = broker_on_configured, .once = true},
	{.num = IPC_NUM_token, .handler = broker_on_token},
	{.num = IPC_NUM_tokens_end, .handler = broker_on_tokens_end},
	{.num = IPC_NUM_peer, .handler = broker_on_peer},
	{.num = IPC_NUM_layers, .handler = broker_on_layers},
	{.num = IPC_NUM_status_ask, .handler = broker_on_status_ask},
	{.num = IPC_NUM_stop, .handler = broker_on_stop},
};

/* Nobody is left to work for, and nobody to restart what dies: the guests end
 * themselves when the pings stop. */
static void
on_closed(void *ctx, struct link *l, int reason)
{
	(void)ctx;
	(void)l;
	log_warn("supervisor link closed, error %d: ending", reason);
	_exit(0);
}

int
supervised_open(struct broker *b, int fd)
{
	b->supervisor_config = (struct link_config){.self = IPC_BROKER,
						    .peer = IPC_SUPERVISOR,
						    .routes = routes,
						    .n_routes = ARRAY_LEN(routes),
						    .ctx = b,
						    .queue_max = SUPERVISOR_QUEUE_MAX,
						    .on_closed = on_closed,
						    .on_fd = broker_on_fd};
	b->supervisor = link_new(b->base, fd, &b->supervisor_config);
	return b->supervisor ? 0 : -ENOMEM;
}
