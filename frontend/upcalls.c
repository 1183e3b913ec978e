/*
 * frontend/upcalls.c - everything to and from the broker and the supervisor.
 * Runs in: bailey-frontend.
 * Input: rows of the broker (trusted more than we are, but its figures and frames come from
 *        guests and engines) and of the supervisor (trusted).
 * Owns: the two links.
 *
 * Nothing goes to the broker before the supervisor said configured. When the
 * broker is lost, calls.c is told; the supervisor brings a new link as a peer
 * message, which takes the old one's descriptor number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend.h"

/* All that calls may hold, framed, and room for small rows. */
#define BROKER_QUEUE_MAX (CALLS_BYTES_MAX + ((size_t)4 << 20))
#define SUPERVISOR_QUEUE_MAX ((size_t)64 << 10)

/* ---- from the broker ---- */

static void
frontend_on_call_granted(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct call *c = call_find(ctx, row->u.call_granted.call);

	(void)l;
	if (c != NULL) /* else it was given up meanwhile */
		call_event(c, EV_GRANTED, &row->u.call_granted);
}

static void
frontend_on_run_frame(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct call *c = call_find(ctx, row->u.run_frame.call);

	(void)l;
	if (c != NULL)
		call_event(c, EV_FRAME, &row->u.run_frame);
}

static void
frontend_on_call_ended(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct call *c = call_find(ctx, row->u.call_ended.call);

	(void)l;
	if (c != NULL)
		call_event(c, EV_ENDED, &row->u.call_ended);
}

static void
frontend_on_call_resumed(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct call *c = call_find(ctx, row->u.call_resumed.call);

	(void)l;
	if (c != NULL)
		call_event(c, EV_RESUMED, &row->u.call_resumed);
}

/* Every answer to a question begins with the call's number; its last row ends the exchange. */
static void
frontend_on_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct call *c = call_find(ctx, row->u.health_end.call);
	struct ipc_call_ended ended = {.status = RUN_ok};

	(void)l;
	if (c == NULL || c->state != CALL_SUBMITTED || call_step(c)->row == NULL)
		return;
	call_step(c)->row(c, row);
	if (row->num == IPC_NUM_health_end || row->num == IPC_NUM_list_end ||
	    row->num == IPC_NUM_log_end)
		call_event(c, EV_ENDED, &ended);
}

static void
frontend_on_ask_answered(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_bin *data = &row->u.ask_answered.data;

	(void)l;
	asks_text(ctx, (const char *)data->data, data->len);
}

static void
on_broker_closed(void *ctx, struct link *l, int reason)
{
	struct frontend *fe = ctx;

	log_warn("the broker is gone (%d)", reason);
	link_free(l);
	fe->broker = NULL;
	frontend_alone(fe, true);
	calls_event_all(fe, EV_LINK_DOWN);
}

static const struct link_route broker_routes[] = {
	{.num = IPC_NUM_call_granted, .handler = frontend_on_call_granted},
	{.num = IPC_NUM_run_frame, .handler = frontend_on_run_frame},
	{.num = IPC_NUM_call_ended, .handler = frontend_on_call_ended},
	{.num = IPC_NUM_call_resumed, .handler = frontend_on_call_resumed},
	{.num = IPC_NUM_health_engine, .handler = frontend_on_row},
	{.num = IPC_NUM_health_pool, .handler = frontend_on_row},
	{.num = IPC_NUM_health_usage, .handler = frontend_on_row},
	{.num = IPC_NUM_health_layers, .handler = frontend_on_row},
	{.num = IPC_NUM_health_note, .handler = frontend_on_row},
	{.num = IPC_NUM_health_end, .handler = frontend_on_row},
	{.num = IPC_NUM_sandbox_row, .handler = frontend_on_row},
	{.num = IPC_NUM_list_end, .handler = frontend_on_row},
	{.num = IPC_NUM_log_data, .handler = frontend_on_row},
	{.num = IPC_NUM_log_end, .handler = frontend_on_row},
	{.num = IPC_NUM_auth_end, .handler = frontend_on_auth_end},
	{.num = IPC_NUM_session_row, .handler = frontend_on_session_row},
	{.num = IPC_NUM_ask_answered, .handler = frontend_on_ask_answered},
};

/* ---- from the supervisor ---- */

static struct link_config broker_config = {
	.self = IPC_FRONTEND,
	.peer = IPC_BROKER,
	.routes = broker_routes,
	.n_routes = ARRAY_LEN(broker_routes),
	.queue_max = BROKER_QUEUE_MAX,
	.on_closed = on_broker_closed,
};

static void
broker_up(struct frontend *fe)
{
	if (!upcalls_ready(fe))
		return;
	fe->warmed = false;
	client_link_up(fe);
	if (fe->warm_due)
		upcalls_warm(fe);
	calls_event_all(fe, EV_LINK_UP);
}

static void
frontend_on_settings(void *ctx, struct link *l, const struct ipc_row *row)
{
	/* limits are the broker's to apply; nothing of it is needed here */
	(void)ctx;
	(void)l;
	(void)row;
}

static void
frontend_on_configured(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct frontend *fe = ctx;

	(void)l;
	(void)row;
	fe->configured = true;
	broker_up(fe);
}

static void
on_supervisor_fd(void *ctx, struct link *l, int fd)
{
	struct frontend *fe = ctx;

	(void)l;
	if (fe->peer_fd >= 0)
		fatal("two descriptors with one message");
	fe->peer_fd = fd;
}

static void
frontend_on_peer(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct frontend *fe = ctx;
	int fd = TAKE_FD(fe->peer_fd);

	(void)l;
	if (fd < 0 || row->u.peer.role != IPC_BROKER)
		fatal("a peer message that names no broker link");
	if (fe->broker != NULL) {
		/* the new link came before the old one's end was read, and maybe more */
		link_read_out(fe->broker);
		link_free(fe->broker);
		fe->broker = NULL;
		calls_event_all(fe, EV_LINK_DOWN);
	}
	if (fd_move(fd, FD_PEER) < 0)
		fatal("cannot put the broker link in its place");
	fe->broker = link_new(fe->base, FD_PEER, &broker_config);
	if (fe->broker == NULL)
		fatal("no memory for the broker link");
	frontend_alone(fe, false);
	broker_up(fe);
}

static void
frontend_on_stop(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct frontend *fe = ctx;

	(void)l;
	calls_answer_all(fe, RUN_cancelled);
	frontend_leave(fe, 0, row->u.stop.grace_ms / 2);
}

static void
on_supervisor_closed(void *ctx, struct link *l, int reason)
{
	struct frontend *fe = ctx;

	(void)reason;
	link_free(l);
	fe->supervisor = NULL;
	log_error("the supervisor is gone");
	frontend_leave(fe, 1, 0);
}

static const struct link_route supervisor_routes[] = {
	{.num = IPC_NUM_peer, .handler = frontend_on_peer},
	{.num = IPC_NUM_stop, .handler = frontend_on_stop},
	{.num = IPC_NUM_settings, .handler = frontend_on_settings},
	{.num = IPC_NUM_client, .handler = frontend_on_client, .once = true},
	{.num = IPC_NUM_configured, .handler = frontend_on_configured},
};

static struct link_config supervisor_config = {
	.self = IPC_FRONTEND,
	.peer = IPC_SUPERVISOR,
	.routes = supervisor_routes,
	.n_routes = ARRAY_LEN(supervisor_routes),
	.queue_max = SUPERVISOR_QUEUE_MAX,
	.on_closed = on_supervisor_closed,
	.on_fd = on_supervisor_fd,
};

/* ---- to both ---- */

int
upcalls_open(struct frontend *fe, uint32_t layers)
{
	broker_config.ctx = fe;
	supervisor_config.ctx = fe;
	fe->supervisor = link_new(fe->base, FD_SUPERVISOR, &supervisor_config);
	fe->broker = link_new(fe->base, FD_PEER, &broker_config);
	if (fe->supervisor == NULL || fe->broker == NULL)
		return -ENOMEM;
	return link_send(fe->supervisor, IPC_ROW(ready, .version = IPC_VERSION, .layers = layers));
}

void
upcalls_close(struct frontend *fe)
{
	if (fe->broker != NULL)
		(void)link_flush(fe->broker); /* last words, as far as they go */
	link_free(fe->broker);
	link_free(fe->supervisor);
	fe->broker = NULL;
	fe->supervisor = NULL;
}

bool
upcalls_ready(const struct frontend *fe)
{
	return fe->configured && fe->broker != NULL;
}

void
upcalls_warm(struct frontend *fe)
{
	fe->warm_due = true;
	if (upcalls_ready(fe) && !fe->warmed)
		fe->warmed = link_send(fe->broker, IPC_ROW(warm_hint)) == 0;
}

int
upcalls_answer(struct frontend *fe, const char *id, const char *text, size_t len)
{
	struct ipc_bin data = {.data = (const uint8_t *)text, .len = len};

	if (!upcalls_ready(fe))
		return -ENOTCONN;
	return link_send(fe->broker, IPC_ROW(ask_answer, .id = IPC_STR(id), .data = data));
}

int
upcalls_cancel(const struct call *c)
{
	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker, IPC_ROW(call_cancel, .call = c->no));
}

int
upcalls_health(struct call *c)
{
	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker, IPC_ROW(health_query, .call = c->no));
}

int
upcalls_list(struct call *c)
{
	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker, IPC_ROW(sandbox_list, .call = c->no));
}

int
upcalls_destroy(struct call *c)
{
	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker,
			 IPC_ROW(sandbox_destroy, .call = c->no, .sandbox = IPC_STR(c->sandbox)));
}

int
upcalls_log_read(struct call *c)
{
	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker,
			 IPC_ROW(log_read, .call = c->no, .id = IPC_STR(c->log.id),
				 .stream = c->log.stream, .from_end = c->log.from_end,
				 .offset = c->log.offset, .limit = c->log.limit));
}

void
upcalls_discard(struct frontend *fe, const char *sandbox)
{
	/* its answer finds no call; with the link its sandboxes end anyway */
	if (fe->broker != NULL)
		(void)link_send(fe->broker, IPC_ROW(sandbox_destroy, .call = ++fe->last_call,
						    .sandbox = IPC_STR(sandbox)));
}

static int
send_frame(const struct call *c, enum guest_type type, unsigned stream, const uint8_t *data,
	   size_t len)
{
	struct ipc_bin bin = {.data = data, .len = len};

	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker, IPC_ROW(call_frame, .call = c->no, .type = type,
						.stream = stream, .data = bin));
}

static int
send_spec(const struct call *c, struct buf *spec)
{
	int r = 0;

	while (r == 0 && buf_len(spec) > GUEST_PAYLOAD_MAX) {
		r = send_frame(c, GUEST_h_spec, 0, buf_data(spec), GUEST_PAYLOAD_MAX);
		buf_consume(spec, GUEST_PAYLOAD_MAX);
	}
	return r < 0 ? r : send_frame(c, GUEST_h_run, 0, buf_data(spec), buf_len(spec));
}

/* The specification with what was not known when it was encoded; never longer than that. */
static int
finish_spec(const struct call *c, uint32_t timeout_ms, uint32_t more_flags, struct buf *ret)
{
	struct guest_spec spec;
	int r;

	r = spec_decode(buf_data(&c->spec), buf_len(&c->spec), &spec);
	if (r < 0)
		return r;
	spec.timeout_ms = timeout_ms;
	if (spec.kind <= RUN_COMMAND) /* the others have no waiting interpreter to do without */
		spec.flags |= more_flags | c->spec_flags;
	r = spec_encode(&spec, ret);
	spec_done(&spec);
	return r;
}

/* The timeout the broker will grant where none was asked for; 0: not known yet. */
static uint32_t
known_timeout(const struct call *c)
{
	const struct frontend *fe = c->fe;

	if ((c->flags & CALL_BACKGROUND) != 0)
		return 0; /* it has none by default */
	if (c->sandbox[0] != '\0')
		return strcmp(c->sandbox, fe->last_sandbox.id) == 0 ? fe->last_sandbox.timeout_ms
								    : 0;
	return c->ask.profile[0] == '\0' && c->ask.image[0] == '\0' ? fe->default_timeout_ms : 0;
}

/* Learns it from a grant. */
static void
note_timeout(const struct call *c)
{
	struct frontend *fe = c->fe;
	const char *sandbox = c->sandbox[0] != '\0' ? c->sandbox : c->grant.sandbox;

	if (c->ask.timeout_ms != 0 || (c->flags & CALL_BACKGROUND) != 0)
		return;
	if (sandbox[0] != '\0') {
		memcpy(fe->last_sandbox.id, sandbox, sizeof(fe->last_sandbox.id));
		fe->last_sandbox.timeout_ms = c->grant.timeout_ms;
	} else if (c->ask.profile[0] == '\0' && c->ask.image[0] == '\0') {
		fe->default_timeout_ms = c->grant.timeout_ms;
	}
}

/* A short specification that needs nothing of the grant goes with the submission, which saves a
 * round trip; the broker keeps it until it grants the call. Left empty where it cannot. */
static void
early_spec(const struct call *c, struct buf *ret)
{
	uint32_t timeout_ms = c->ask.timeout_ms;
	/* other limits may mean that the waiting interpreter is not used: the grant tells */
	bool same_limits = c->ask.memory_bytes == 0 && c->ask.cpus_milli == 0;

	if (timeout_ms == 0)
		timeout_ms = known_timeout(c);
	if (timeout_ms == 0 || (!same_limits && c->box_class != BOX_SHELL) ||
	    buf_len(&c->spec) > GUEST_PAYLOAD_MAX || buf_len(&c->spec) == 0)
		return;
	if (finish_spec(c, timeout_ms, 0, ret) < 0)
		buf_clear(ret);
}

int
upcalls_submit(struct call *c)
{
	struct link *l = c->fe->broker;
	struct buf spec;
	int r;

	if (l == NULL)
		return -ENOTCONN;
	buf_init(&spec, GUEST_SPEC_MAX);
	early_spec(c, &spec);
	r = link_send(l,
		      IPC_ROW(call_submit, .call = c->no, .box_class = c->box_class,
			      .profile = IPC_STR(c->ask.profile), .image = IPC_STR(c->ask.image),
			      .timeout_ms = c->ask.timeout_ms, .memory_bytes = c->ask.memory_bytes,
			      .cpus_milli = c->ask.cpus_milli, .flags = c->flags,
			      .spec = {buf_data(&spec), buf_len(&spec)},
			      .sandbox = IPC_STR(c->sandbox), .ttl_s = c->ask.ttl_s,
			      .idle_s = c->ask.idle_s, .tag = IPC_STR(c->to.tag)));
	c->spec_sent = r == 0 && buf_len(&spec) > 0;
	buf_done(&spec);
	return r;
}

static uint64_t
plain(const struct output *o)
{
	return o->received - o->tail_received;
}

int
upcalls_resume(struct call *c)
{
	const struct output *o = c->out;

	if (c->fe->broker == NULL)
		return -ENOTCONN;
	return link_send(c->fe->broker,
			 IPC_ROW(call_resume, .call = c->no, .run_id = IPC_STR(c->grant.run_id),
				 .sandbox = IPC_STR(c->sandbox), .out1 = plain(&o[0]),
				 .out2 = plain(&o[1]), .out3 = plain(&o[2]),
				 .tail1 = o[0].tail_received, .tail2 = o[1].tail_received,
				 .tail3 = o[2].tail_received, .credit1 = o[0].credit,
				 .credit2 = o[1].credit, .credit3 = o[2].credit));
}

int
upcalls_run(struct call *c)
{
	struct buf spec;
	int r = 0;

	note_timeout(c);
	if ((c->flags & CALL_STAYS) != 0)
		return 0; /* nothing runs */
	if (!c->spec_sent) {
		buf_init(&spec, GUEST_SPEC_MAX);
		r = finish_spec(c, c->grant.timeout_ms,
				c->grant.start == START_WARM ? 0 : (uint32_t)SPEC_LIVE, &spec);
		if (r == 0)
			r = send_spec(c, &spec);
		buf_done(&spec);
	}
	if (!call_is_kept(c))
		buf_done(&c->spec);
	c->input_given = c->input_open;
	return r < 0 ? r : upcalls_stdin(c);
}

int
upcalls_stdin(struct call *c)
{
	bool kept = call_is_kept(c);
	int r = 0;

	for (;;) {
		size_t skip = kept ? (size_t)c->input_sent : 0, n = buf_len(&c->input) - skip;

		if (r < 0 || n == 0 || c->input_sent >= c->input_credit)
			break;

		if (n > GUEST_PIECE)
			n = GUEST_PIECE;
		if (n > c->input_credit - c->input_sent)
			n = (size_t)(c->input_credit - c->input_sent);
		if (n < GUEST_PIECE && n < buf_len(&c->input) - skip)
			break; /* more credit comes before what was granted is used up */
		r = send_frame(c, GUEST_h_stdin, STREAM_STDIN, buf_data(&c->input) + skip, n);
		if (!kept)
			buf_consume(&c->input, n);
		c->input_sent += n;
	}
	if (r == 0 && c->input_open && buf_len(&c->input) == (kept ? c->input_sent : 0)) {
		c->input_open = false;
		if (!kept)
			buf_done(&c->input);
		r = send_frame(c, GUEST_h_stdin_eof, STREAM_STDIN, NULL, 0);
	}
	return r;
}

int
upcalls_credit(const struct call *c, unsigned stream, uint64_t limit)
{
	struct guest_h_credit credit = {.limit = limit};
	uint8_t payload[8];

	guest_put_h_credit(&credit, payload);
	return send_frame(c, GUEST_h_credit, stream, payload, sizeof(payload));
}
