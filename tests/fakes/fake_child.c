/*
 * tests/fakes/fake_child.c - stands in for frontend and broker in tests of the
 * process tree; what it is follows from the name it is started under.
 * Runs in: tests only.
 * Input: as the program it stands in for; a frontend takes commands on stdin.
 * Owns: its links.
 *
 * Frontend: "ping" -> "pong"; "ask N" -> "answered N" once the broker heard it,
 * the reaper answered the broker, and the word came back; "exit N"; EOF ends.
 * "peer" is printed when a link was replaced. With uid 0 or too many rights,
 * confinement fails as in the real programs.
 * Broker: tells on the log what it was given; passes questions on.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base.h"
#include "confine.h"
#include "ipc.h"

static struct event_base *base;
static struct link *supervisor, *frontend, *reaper;
static int passed_fd = -1;
static bool stopping;

static void say(const char *fmt, ...) PRINTF_LIKE(1, 2);

static void
say(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0 && write(FD_OUT, line, (size_t)n) == -1)
		_exit(3);
}

static void
on_end(void *ctx, struct link *l, int reason)
{
	(void)ctx;
	log_info("link ended: %d", reason);
	if (l == supervisor)
		_exit(0);
	if (l == frontend)
		frontend = NULL;
	if (l == reaper) {
		reaper = NULL;
		if (stopping)
			_exit(0);
	}
	link_free(l);
}

/* ---- frontend: its only peer is the broker, kept in `frontend` too ---- */

static void
on_answer(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	say("answered %" PRIu64 "\n", row->u.health_end.call);
}

static const struct link_route from_broker[] = {{.num = IPC_NUM_health_end, .handler = on_answer}};
static const struct link_config frontend_side = {.self = IPC_FRONTEND,
						 .peer = IPC_BROKER,
						 .routes = from_broker,
						 .n_routes = 1,
						 .queue_max = 65536,
						 .on_closed = on_end};

static void
command(const char *line)
{
	uint64_t n = 0;

	if (strcmp(line, "ping") == 0)
		say("pong\n");
	else if (strncmp(line, "exit ", 5) == 0 && parse_u64(line + 5, 0, 255, &n) == 0)
		_exit((int)n);
	else if (strncmp(line, "ask ", 4) == 0 && parse_u64(line + 4, 1, UINT64_MAX, &n) == 0 &&
		 frontend != NULL)
		(void)link_send(frontend, IPC_ROW(health_query, .call = n));
	else
		say("error\n");
}

static void
on_stdin(int fd, short what, void *arg)
{
	char text[256];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	(void)what;
	(void)arg;
	if (n <= 0)
		_exit(0);
	text[n] = '\0';
	for (char *line = text; *line != '\0';) {
		char *end = strchr(line, '\n');
		if (end == NULL)
			break;
		*end = '\0';
		command(line);
		line = end + 1;
	}
}

/* ---- broker ---- */

static void
on_query(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	frontend = l; /* whoever asked last hears the answer */
	if (reaper != NULL)
		(void)link_send(reaper, IPC_ROW(watch_claim, .box = row->u.health_query.call));
}

static void
on_kept(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	if (frontend != NULL)
		(void)link_send(frontend, IPC_ROW(health_end, .call = row->u.watch_kept.box));
}

static const struct link_route from_frontend[] = {
	{.num = IPC_NUM_health_query, .handler = on_query}};
static const struct link_route from_reaper[] = {{.num = IPC_NUM_watch_kept, .handler = on_kept}};
static const struct link_config broker_side = {.self = IPC_BROKER,
					       .peer = IPC_FRONTEND,
					       .routes = from_frontend,
					       .n_routes = 1,
					       .queue_max = 65536,
					       .on_closed = on_end};
static const struct link_config reaper_side = {.self = IPC_BROKER,
					       .peer = IPC_REAPER,
					       .routes = from_reaper,
					       .n_routes = 1,
					       .queue_max = 65536,
					       .on_closed = on_end};

/* ---- both: what the supervisor says ---- */

static bool is_broker;

static void
on_settings(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_settings *m = &row->u.settings;

	(void)ctx;
	(void)l;
	log_info("settings image=%.*s cpus=%u memory=%" PRIu64 " timeout=%u flags=%u user=%.*s",
		 (int)m->image.len, m->image.data, m->max_cpus_milli, m->max_memory_bytes,
		 m->timeout_ms, m->flags, (int)m->user_hash.len, m->user_hash.data);
}

static void
on_engine(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_engine *m = &row->u.engine;

	(void)ctx;
	(void)l;
	log_info("engine kind=%u path=%.*s host=%.*s address=%.*s port=%u pem=%u", m->kind,
		 (int)m->path.len, m->path.data, (int)m->host.len, m->host.data,
		 (int)m->address.len, m->address.data, m->port, m->pem_parts);
}

static void
on_pem(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	log_info("pem which=%u bytes=%zu", row->u.engine_pem.which, row->u.engine_pem.data.len);
}

static void
on_configured(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	(void)row;
	if (is_broker)
		reaper = link_new(base, FD_PEER, &reaper_side);
	else
		frontend = link_new(base, FD_PEER, &frontend_side);
}

static void
on_fd(void *ctx, struct link *l, int fd)
{
	(void)ctx;
	(void)l;
	passed_fd = fd;
}

static void
on_peer(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	if (row->u.peer.role == IPC_FRONTEND) {
		log_info("peer frontend id=%" PRIu64 " owner=%u:%" PRIu64, row->u.peer.peer_id,
			 row->u.peer.owner_kind, row->u.peer.owner);
		/* the one before stays: its end frees it */
		frontend = link_new(base, TAKE_FD(passed_fd), &broker_side);
		return;
	}
	struct link **slot = is_broker ? &reaper : &frontend;
	link_free(*slot);
	*slot = NULL;
	if (fd_move(TAKE_FD(passed_fd), FD_PEER) < 0)
		_exit(4);
	*slot = link_new(base, FD_PEER, is_broker ? &reaper_side : &frontend_side);
	if (!is_broker)
		say("peer\n");
}

static void
on_stop(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	(void)row;
	stopping = true;
	if (!is_broker || reaper == NULL)
		_exit(0);
}

static void
on_layers(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	log_info("layers role=%u bits=%u restarts=%u", row->u.layers.role, row->u.layers.layers,
		 row->u.layers.restarts);
}

static void
on_client(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_client *m = &row->u.client;

	(void)ctx;
	(void)l;
	log_info("client kind=%u hosts=%.*s origins=%.*s", m->kind, (int)m->hosts.len,
		 m->hosts.data, (int)m->origins.len, m->origins.data);
}

static void
on_token(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	log_info("token of %.*s", (int)row->u.token.principal.len, row->u.token.principal.data);
}

static void
on_tokens_end(void *ctx, struct link *l, const struct ipc_row *row)
{
	(void)ctx;
	(void)l;
	log_info("tokens %u", row->u.tokens_end.count);
}

static const struct link_route to_frontend[] = {
	{.num = IPC_NUM_settings, .handler = on_settings},
	{.num = IPC_NUM_configured, .handler = on_configured},
	{.num = IPC_NUM_peer, .handler = on_peer},
	{.num = IPC_NUM_stop, .handler = on_stop},
	{.num = IPC_NUM_client, .handler = on_client},
};
static const struct link_route to_broker[] = {
	{.num = IPC_NUM_settings, .handler = on_settings},
	{.num = IPC_NUM_configured, .handler = on_configured},
	{.num = IPC_NUM_peer, .handler = on_peer},
	{.num = IPC_NUM_stop, .handler = on_stop},
	{.num = IPC_NUM_engine, .handler = on_engine},
	{.num = IPC_NUM_engine_pem, .handler = on_pem},
	{.num = IPC_NUM_layers, .handler = on_layers},
	{.num = IPC_NUM_token, .handler = on_token},
	{.num = IPC_NUM_tokens_end, .handler = on_tokens_end},
};
static struct link_config supervisor_side = {
	.peer = IPC_SUPERVISOR, .queue_max = 65536, .on_closed = on_end, .on_fd = on_fd};

int
main(int argc, char **argv)
{
	is_broker = strcmp(argv[0], "bailey-broker") == 0;
	struct confine_plan plan = {.table = is_broker ? TABLE_BROKER : TABLE_FRONTEND};
	uint32_t layers = 0;

	log_init(is_broker ? "fake-broker" : "fake-frontend", LOG_L_INFO);
	if (confine_args(argc, argv, &plan) < 0)
		fatal("arguments");
	int r = confine_start(&plan, FD_PEER);
	if (r < 0)
		fatal("start: %s", strerror(-r));
	base = event_base_new();
	r = confine_lock(&plan, &layers);
	if (r < 0)
		fatal("lock: %s", strerror(-r));
	r = confine_selftest(&plan, layers);
	if (r < 0)
		fatal("self-test: %s", strerror(-r));
	supervisor_side.self = is_broker ? IPC_BROKER : IPC_FRONTEND;
	supervisor_side.routes = is_broker ? to_broker : to_frontend;
	supervisor_side.n_routes = is_broker ? ARRAY_LEN(to_broker) : ARRAY_LEN(to_frontend);
	supervisor = link_new(base, FD_SUPERVISOR, &supervisor_side);
	if (!is_broker) {
		struct event *in = event_new(base, FD_IN, EV_READ | EV_PERSIST, on_stdin, NULL);
		if (in == NULL || event_add(in, NULL) == -1)
			fatal("no event");
	}
	(void)link_send(supervisor, IPC_ROW(ready, .version = IPC_VERSION, .layers = layers));
	return event_base_dispatch(base) == -1;
}
