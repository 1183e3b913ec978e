/*
 * tests/unit/link_ends.h - two ends of a link over a real socket pair in a real event
 * loop, for test_ipc_link.c and test_ipc_link_rules.c.
 */
#ifndef BAILEY_LINK_ENDS_H
#define BAILEY_LINK_ENDS_H

#include "test.h"

#include <event2/event.h>
#include <sys/socket.h>

#include "ipc.h"

#define BIG 32768

/* What happened to one end, in words separated by blanks. */
struct end {
	char seen[4096];
	struct link *link;
	int fd;           /* last descriptor received */
	uint64_t calls;   /* run_frame rows counted */
	const char *free; /* at which event the handler frees the link */
};

static struct event_base *base;
static struct end broker, frontend; /* the ends of most tests: broker sends, frontend reads */
static int pair[2];
static size_t fds_before;
static uint8_t big[BIG];

static void
note(struct end *e, const char *word)
{
	size_t used = strlen(e->seen);

	if (used > sizeof(e->seen) - 100) /* only the last ones matter then */
		used = 0;
	(void)snprintf(e->seen + used, sizeof(e->seen) - used, "%s%s", used > 0 ? " " : "", word);
	if (e->free != NULL && strcmp(e->free, word) == 0) {
		link_free(e->link);
		e->link = NULL;
	}
}

static void
on_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct end *e = ctx;
	char word[64];

	assert_ptr_equal(l, e->link);
	if (row->num == IPC_NUM_run_frame) {
		assert_true(row->u.run_frame.call == ++e->calls); /* in order, none missing */
		assert_int_equal(row->u.run_frame.data.len, BIG);
		return;
	}
	(void)snprintf(word, sizeof(word), "%s", ipc_name(row->num));
	note(e, word);
}

static void
on_closed(void *ctx, struct link *l, int reason)
{
	struct end *e = ctx;
	char word[64];

	assert_ptr_equal(l, e->link);
	(void)snprintf(word, sizeof(word), "closed:%d", reason);
	note(e, word);
}

static void
on_fd(void *ctx, struct link *l, int fd)
{
	struct end *e = ctx;

	assert_ptr_equal(l, e->link);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	e->fd = fd;
	note(e, "fd");
}

static void
on_drained(void *ctx, struct link *l)
{
	struct end *e = ctx;

	assert_ptr_equal(l, e->link);
	assert_int_equal(link_queued(l), 0);
	note(e, "drained");
}

static const struct link_route frontend_routes[] = {
	{IPC_NUM_call_granted, on_row, 1 | 4, false},
	{IPC_NUM_run_frame, on_row, 0, false},
	{IPC_NUM_health_end, on_row, 0, true},
	{IPC_NUM_call_ended, on_row, 2, false},
};
static const struct link_route broker_routes[] = {
	{IPC_NUM_call_submit, on_row, 0, false},
};
static const struct link_route child_routes[] = {
	{IPC_NUM_peer, on_row, 0, false},
	{IPC_NUM_stop, on_row, 0, false},
};

static struct link_config frontend_config = {
	.self = IPC_FRONTEND,
	.peer = IPC_BROKER,
	.routes = frontend_routes,
	.n_routes = ARRAY_LEN(frontend_routes),
	.ctx = &frontend,
	.queue_max = 1 << 20,
	.on_closed = on_closed,
};
static struct link_config broker_config = {
	.self = IPC_BROKER,
	.peer = IPC_FRONTEND,
	.routes = broker_routes,
	.n_routes = ARRAY_LEN(broker_routes),
	.ctx = &broker,
	.queue_max = 64 << 20,
	.on_closed = on_closed,
	.on_drained = on_drained,
};
/* The same two ends, as supervisor (sends) and reaper (reads). */
static struct link_config parent_config = {
	.self = IPC_SUPERVISOR,
	.peer = IPC_REAPER,
	.ctx = &broker,
	.queue_max = 64 << 20,
	.on_closed = on_closed,
};
static struct link_config child_config = {
	.self = IPC_REAPER,
	.peer = IPC_SUPERVISOR,
	.routes = child_routes,
	.n_routes = ARRAY_LEN(child_routes),
	.ctx = &frontend,
	.queue_max = 1 << 20,
	.on_closed = on_closed,
	.on_fd = on_fd,
};

static int
set_up(void **state)
{
	(void)state;
	fds_before = test_open_fds();
	base = event_base_new();
	broker = (struct end){.fd = -1};
	frontend = (struct end){.fd = -1};
	return base == NULL ? -1 : fd_seqpacket_pair(pair);
}

/* Everything is freed; what is still open was leaked. */
static int
tear_down(void **state)
{
	(void)state;
	link_free(broker.link);
	link_free(frontend.link);
	event_base_free(base);
	return test_open_fds() == fds_before ? 0 : -1;
}

static void
open_calls(void)
{
	broker.link = link_new(base, pair[0], &broker_config);
	frontend.link = link_new(base, pair[1], &frontend_config);
}

static inline void
open_child(void)
{
	broker.link = link_new(base, pair[0], &parent_config);
	frontend.link = link_new(base, pair[1], &child_config);
}

static void
spin(void)
{
	for (int i = 0; i < 50; i++)
		assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

static inline void
send_big(uint64_t call, int wanted)
{
	assert_int_equal(link_send(broker.link, IPC_ROW(run_frame, .call = call, .type = 0x50,
							.stream = 1, .data = {big, BIG})),
			 wanted);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
