/*
 * supervisor/children.c - the life of each child: every state against every
 * event, and what is done then.
 * Runs in: baileyd.
 * Input: rows of the children (bounded, from the message table), exit statuses.
 * Owns: struct child: process, link, timer.
 * Broker and reaper are started again however they end: at once, then after
 * 0.1 s doubling to 5 s, and after ten crashes once a minute. A frontend is
 * never started again: its client's requests live in it. In a tree on stdio its
 * end is the end of the tree; else it is the end of one connection (fronts.c).
 */
#include "supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#define LINK_QUEUE_MAX ((size_t)4 * 1024 * 1024)
#define START_MS 15000u   /* from spawn to ready */
#define FORGIVE_MS 30000u /* a life this long forgets earlier failures */
#define END_MS 500u       /* from a closed link to the exit */
#define GRACE_MS 1500u    /* what children are told */
#define STOP_MS 1900u     /* when whoever is left is killed */
#define MANY_FAILURES 10u
#define FRONT_LINES_PER_10S 20

#define CELL(act, to)                                         \
	{                                                     \
		.action = CHILD_ACT_##act, .next = CHILD_##to \
	}

/* clang-format off */
static const struct child_cell cells[CHILD_STATES][CHILD_EVENTS] = {
	[CHILD_STARTING] = {
		[CHILD_EV_READY] = CELL(NOTE_READY, READY),
		[CHILD_EV_FAULT] = CELL(KILL, STOPPING),
		[CHILD_EV_CLOSED] = CELL(AWAIT_END, STOPPING),
		[CHILD_EV_EXIT] = CELL(AGAIN, BACKOFF),
		[CHILD_EV_END] = CELL(OVER, GAVE_UP),
		[CHILD_EV_TIMER] = CELL(KILL, STOPPING), /* it never got ready */
		[CHILD_EV_STOP] = CELL(TELL_STOP, STOPPING),
	},
	[CHILD_READY] = {
		[CHILD_EV_READY] = CELL(KILL, STOPPING), /* said twice: broken */
		[CHILD_EV_FAULT] = CELL(KILL, STOPPING),
		[CHILD_EV_CLOSED] = CELL(AWAIT_END, STOPPING),
		[CHILD_EV_EXIT] = CELL(AGAIN, BACKOFF),
		[CHILD_EV_END] = CELL(OVER, GAVE_UP),
		[CHILD_EV_TIMER] = CELL(FORGIVE, READY),
		[CHILD_EV_STOP] = CELL(TELL_STOP, STOPPING),
	},
	[CHILD_STOPPING] = {
		[CHILD_EV_READY] = CELL(NONE, STOPPING), /* was on its way */
		[CHILD_EV_FAULT] = CELL(NONE, STOPPING),
		[CHILD_EV_CLOSED] = CELL(NONE, STOPPING),
		[CHILD_EV_EXIT] = CELL(AGAIN, BACKOFF),
		[CHILD_EV_END] = CELL(OVER, GAVE_UP),
		[CHILD_EV_TIMER] = CELL(KILL, STOPPING),
		[CHILD_EV_STOP] = CELL(NONE, STOPPING),
	},
	[CHILD_BACKOFF] = {
		[CHILD_EV_READY] = CELL(NONE, BACKOFF),
		[CHILD_EV_FAULT] = CELL(NONE, BACKOFF),
		[CHILD_EV_CLOSED] = CELL(NONE, BACKOFF),
		[CHILD_EV_EXIT] = CELL(NONE, BACKOFF),
		[CHILD_EV_END] = CELL(OVER, GAVE_UP),
		[CHILD_EV_TIMER] = CELL(START, STARTING),
		[CHILD_EV_STOP] = CELL(OVER, GAVE_UP),
	},
	[CHILD_GAVE_UP] = {
		[CHILD_EV_READY] = CELL(NONE, GAVE_UP),
		[CHILD_EV_FAULT] = CELL(NONE, GAVE_UP),
		[CHILD_EV_CLOSED] = CELL(NONE, GAVE_UP),
		[CHILD_EV_EXIT] = CELL(NONE, GAVE_UP),
		[CHILD_EV_END] = CELL(NONE, GAVE_UP),
		[CHILD_EV_TIMER] = CELL(NONE, GAVE_UP),
		[CHILD_EV_STOP] = CELL(OVER, GAVE_UP),
	},
};
/* clang-format on */

static const char *const state_names[CHILD_STATES] = {
	[CHILD_STARTING] = "starting", [CHILD_READY] = "ready",     [CHILD_STOPPING] = "stopping",
	[CHILD_BACKOFF] = "backoff",   [CHILD_GAVE_UP] = "gave up",
};
static const char *const event_names[CHILD_EVENTS] = {
	[CHILD_EV_READY] = "ready", [CHILD_EV_FAULT] = "fault", [CHILD_EV_CLOSED] = "closed",
	[CHILD_EV_EXIT] = "exit",   [CHILD_EV_END] = "end",     [CHILD_EV_TIMER] = "timer",
	[CHILD_EV_STOP] = "stop",
};
static const char *const action_names[CHILD_ACTIONS] = {
	[CHILD_ACT_NONE] = "nothing",        [CHILD_ACT_NOTE_READY] = "note ready",
	[CHILD_ACT_KILL] = "kill",           [CHILD_ACT_AWAIT_END] = "await end",
	[CHILD_ACT_TELL_STOP] = "tell stop", [CHILD_ACT_AGAIN] = "start again",
	[CHILD_ACT_START] = "start",         [CHILD_ACT_FORGIVE] = "forgive",
	[CHILD_ACT_OVER] = "over",
};

static const struct {
	const char *name;
	enum ipc_role role;
} programs[CHILD_COUNT] = {
	[CHILD_BROKER] = {"bailey-broker", IPC_BROKER},
	[CHILD_REAPER] = {"bailey-reaper", IPC_REAPER},
	[CHILD_FRONTEND] = {"bailey-frontend", IPC_FRONTEND},
};

struct child_cell
children_cell(enum child_state state, enum child_event event)
{
	if ((unsigned)state >= CHILD_STATES || (unsigned)event >= CHILD_EVENTS)
		fatal("children: no cell for state %d, event %d", (int)state, (int)event);
	return cells[state][event];
}

void
children_print(void)
{
	for (size_t s = 0; s < CHILD_STATES; s++)
		for (size_t e = 0; e < CHILD_EVENTS; e++)
			printf("%-9s %-7s %-11s %s\n", state_names[s], event_names[e],
			       action_names[cells[s][e].action], state_names[cells[s][e].next]);
}

const char *
children_name(enum child_id id)
{
	return programs[id].name;
}

enum ipc_role
children_role(enum child_id id)
{
	return programs[id].role;
}

uint64_t
children_delay_ms(uint32_t failures)
{
	if (failures <= 1)
		return 0;
	if (failures > MANY_FAILURES)
		return 60000;
	uint64_t delay = 100ull << (failures - 2);
	return delay > 5000 ? 5000 : delay;
}

static void step(struct child *c, enum child_event event);
static void child_why(struct child *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Why it is about to end; the first reason counts. */
static void
child_why(struct child *c, const char *fmt, ...)
{
	va_list args;

	if (c->why[0] != '\0')
		return;
	va_start(args, fmt);
	(void)vsnprintf(c->why, sizeof(c->why), fmt, args); /* cut at worst */
	va_end(args);
}

const char *
children_state(const struct child *c)
{
	return state_names[c->state];
}

/* ---- rows from a child ---- */

static void
supervisor_on_ready(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct child *c = ctx;

	(void)l;
	if (row->u.ready.version != IPC_VERSION) {
		log_error("%s speaks version %u, not %u: mixed installation?", children_name(c->id),
			  row->u.ready.version, IPC_VERSION);
		child_why(c, "it speaks another version");
		step(c, CHILD_EV_FAULT);
		return;
	}
	c->layers = row->u.ready.layers;
	step(c, CHILD_EV_READY);
}

static void
supervisor_on_stuck(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct child *c = ctx;

	(void)l;
	log_error("box %llu is not removed after %llu ms: the broker is started again",
		  (unsigned long long)row->u.stuck.box, (unsigned long long)row->u.stuck.since_ms);
	child_why(&c->tree->child[CHILD_BROKER], "it did not confirm a removal");
	step(&c->tree->child[CHILD_BROKER], CHILD_EV_FAULT);
}

static void
supervisor_on_reaper_lost(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct child *broker = ctx;

	(void)l;
	(void)row;
	log_error("the broker lost its link to the reaper, which is started again");
	child_why(&broker->tree->child[CHILD_REAPER], "its link to the broker failed");
	step(&broker->tree->child[CHILD_REAPER], CHILD_EV_FAULT);
}

/* The first is all a frontend may say. */
static const struct link_route routes[] = {
	{.num = IPC_NUM_ready, .handler = supervisor_on_ready},
	{.num = IPC_NUM_stuck, .handler = supervisor_on_stuck},
	{.num = IPC_NUM_reaper_lost, .handler = supervisor_on_reaper_lost},
	{.num = IPC_NUM_tally, .handler = supervisor_on_tally},
	{.num = IPC_NUM_trouble, .handler = supervisor_on_trouble},
	{.num = IPC_NUM_status_engine, .handler = supervisor_on_status_engine},
	{.num = IPC_NUM_status_pool, .handler = supervisor_on_status_pool},
	{.num = IPC_NUM_status_load, .handler = supervisor_on_status_load},
	{.num = IPC_NUM_status_lease, .handler = supervisor_on_status_lease},
	{.num = IPC_NUM_status_watch, .handler = supervisor_on_status_watch},
	{.num = IPC_NUM_status_end, .handler = supervisor_on_status_end},
};

/* Clients can provoke frontends' faults, and must not fill the log. */
static bool
may_tell(struct child *c)
{
	return c->id != CHILD_FRONTEND || log_allowed(&c->tree->front_log, FRONT_LINES_PER_10S);
}

static void
on_closed(void *ctx, struct link *l, int reason)
{
	struct child *c = ctx;

	link_free(l);
	c->link = NULL;
	if (reason < 0)
		child_why(c, "its link failed: %s", strerrordesc_np(-reason));
	if (reason < 0 && may_tell(c))
		log_error("%s: its link failed: %s", children_name(c->id),
			  strerrordesc_np(-reason));
	step(c, reason < 0 ? CHILD_EV_FAULT : CHILD_EV_CLOSED);
}

static void
tell_layers(const struct tree *t, enum ipc_role role, uint32_t layers, const struct child *c)
{
	struct link *broker = t->child[CHILD_BROKER].link;

	if (broker != NULL && t->child[CHILD_BROKER].state == CHILD_READY)
		(void)link_send(broker, IPC_ROW(layers, .role = role, .layers = layers,
						.restarts = c != NULL ? c->restarts : 0,
						.last_end = IPC_STR(c != NULL ? c->last_end : "")));
}

/* A child got ready: the broker, which answers for health, hears it; a fresh broker hears all.
 * Frontends are many and alike: one row speaks for them, sent again when it changes. */
static void
note_ready(const struct child *ready)
{
	struct tree *t = ready->tree;
	bool fresh = ready->id == CHILD_BROKER;

	if (ready->id == CHILD_FRONTEND) {
		if (t->front_layers != ready->layers)
			tell_layers(t, IPC_FRONTEND, ready->layers, NULL);
		t->front_layers = ready->layers;
		return;
	}
	if (fresh)
		tell_layers(t, IPC_SUPERVISOR, t->own_layers, NULL);
	if (fresh && t->front_layers != 0)
		tell_layers(t, IPC_FRONTEND, t->front_layers, NULL);
	for (size_t i = 0; i < CHILD_SINGLES; i++) {
		const struct child *c = &t->child[i];
		if (c->state == CHILD_READY && (c == ready || fresh))
			tell_layers(t, children_role(c->id), c->layers, c);
	}
}

/* ---- the machine ---- */

#define NO_EVENT CHILD_EVENTS
#define HELD_MS 1000u /* a next try as soon as that: what was sent meanwhile waits for it */

/* The event that follows at once, or NO_EVENT. */
static enum child_event
act_start(struct child *c)
{
	int r = launch(c);

	if (r == 0) {
		loop_add_ms(c->timer, START_MS);
		return NO_EVENT;
	}
	const char *hint = spawn_hint(r);
	if (r == -EAGAIN && c->failures == MANY_FAILURES)
		c->failures--; /* room may come any moment: no minute's pause */
	log_error("%s cannot be started: %s%s", children_name(c->id), strerrordesc_np(-r), hint);
	child_why(c, "it could not be started: %s%s", strerrordesc_np(-r), hint);
	if (c->pid != 0)
		return CHILD_EV_FAULT; /* it runs, but cannot be told what it needs */
	if (children_delay_ms(c->failures + 1) > HELD_MS)
		wiring_unstarted(c);
	link_free(TAKE(c->link));
	return c->tree->stopping || c->id == CHILD_FRONTEND ? CHILD_EV_END : CHILD_EV_EXIT;
}

static void
maybe_over(struct tree *t)
{
	const struct child *c = &t->child[0];

	do {
		if (c->state != CHILD_GAVE_UP)
			return;
		c = children_next(c);
	} while (c != NULL);
	t->over = true;
	(void)event_base_loopbreak(t->base);
}

static enum child_event
carry_out(struct child *c, enum child_action action)
{
	switch (action) {
	case CHILD_ACT_NONE:
		break;
	case CHILD_ACT_NOTE_READY:
		loop_add_ms(c->timer, FORGIVE_MS);
		note_ready(c);
		break;
	case CHILD_ACT_KILL:
		if (c->pid != 0 && kill(c->pid, SIGKILL) == -1)
			log_error("%s: kill: %s", children_name(c->id), strerrordesc_np(errno));
		break;
	case CHILD_ACT_AWAIT_END:
		loop_add_ms(c->timer, END_MS);
		break;
	case CHILD_ACT_TELL_STOP:
		(void)event_del(c->timer); /* from here on the tree's own clock counts */
		if (c->link != NULL)
			(void)link_send(c->link, IPC_ROW(stop, .grace_ms = GRACE_MS));
		break;
	case CHILD_ACT_AGAIN:
		c->failures++;
		c->restarts++;
		tally_add(c->id == CHILD_BROKER ? TALLY_broker_restarts : TALLY_reaper_restarts);
		loop_add_ms(c->timer, children_delay_ms(c->failures));
		break;
	case CHILD_ACT_START:
		return act_start(c);
	case CHILD_ACT_FORGIVE:
		c->failures = 0;
		break;
	case CHILD_ACT_OVER:
		(void)event_del(c->timer);
		maybe_over(c->tree);
		break;
	case CHILD_ACTIONS:
		break;
	}
	return NO_EVENT;
}

static void
step(struct child *c, enum child_event event)
{
	while (event != NO_EVENT) {
		struct child_cell cell = children_cell(c->state, event);

		log_debug("%s: %s, %s -> %s", children_name(c->id), event_names[event],
			  state_names[c->state], state_names[cell.next]);
		if (event == CHILD_EV_TIMER && cell.action == CHILD_ACT_KILL)
			child_why(c, "it did not %s in time",
				  c->state == CHILD_STARTING ? "get ready" : "end");
		c->state = cell.next;
		event = carry_out(c, cell.action);
	}
}

static void
on_timer(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	step(arg, CHILD_EV_TIMER);
}

void
child_init(struct child *c, struct tree *t, enum child_id id)
{
	c->tree = t;
	c->id = id;
	c->state = CHILD_BACKOFF;
	c->held[0] = c->held[1] = -1;
	c->client.fd = -1;
	c->link_config = (struct link_config){
		.self = IPC_SUPERVISOR,
		.peer = children_role(id),
		.routes = routes,
		.n_routes = id == CHILD_FRONTEND ? 1 : ARRAY_LEN(routes),
		.ctx = c,
		.queue_max = LINK_QUEUE_MAX,
		.on_closed = on_closed,
	};
	c->timer = event_new(t->base, -1, 0, on_timer, c);
	if (c->timer == NULL)
		fatal("no timer");
}

void
child_start(struct child *c)
{
	step(c, CHILD_EV_TIMER); /* the first start is a restart without a past */
}

void
child_done(struct child *c)
{
	link_free(c->link);
	c->link = NULL;
	wiring_drop(c);
	cleanup_closep(&c->client.fd);
	c->client.fd = -1;
	if (c->timer != NULL)
		event_free(c->timer);
	c->timer = NULL;
}

struct child *
children_next(const struct child *last)
{
	struct tree *t = last->tree;

	if (last->id == CHILD_FRONTEND)
		return TAILQ_NEXT(last, entry);
	return last->id + 1 < CHILD_SINGLES ? &t->child[last->id + 1] : TAILQ_FIRST(&t->fronts);
}

void
children_init(struct tree *t)
{
	TAILQ_INIT(&t->fronts);
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		child_init(&t->child[i], t, (enum child_id)i);
}

static int
exit_code_of(struct child *c, int status)
{
	if (WIFEXITED(status)) {
		int code = WEXITSTATUS(status);
		if (code != 0 || !c->tree->stopping)
			log_debug("%s ended with %d", children_name(c->id), code);
		return code;
	}
	if (may_tell(c))
		log_error("%s ended by signal %d%s", children_name(c->id), WTERMSIG(status),
			  WTERMSIG(status) == SIGSYS ? " (a call its filter does not allow)" : "");
	return 128 + WTERMSIG(status);
}

static void
ended(struct child *c, int status)
{
	struct tree *t = c->tree;
	bool again = !t->stopping && c->id != CHILD_FRONTEND;
	uint64_t pid = (uint64_t)c->pid;

	int code = exit_code_of(c, status);
	if (c->why[0] == '\0')
		child_why(c, WIFSIGNALED(status) ? "signal %d" : "exit code %d",
			  WIFSIGNALED(status) ? WTERMSIG(status) : code);
	memcpy(c->last_end, c->why, sizeof(c->last_end));
	c->why[0] = '\0';
	c->ended_ms = clock_now_ms();
	if (c->id != CHILD_FRONTEND)
		status_child_ended(c);
	c->pid = 0;
	link_free(c->link);
	c->link = NULL;
	if (again)
		LOG_EVENT(child_ended, .process = children_name(c->id), .pid = pid,
			  .why = c->last_end, .restarts = c->restarts + 1);
	step(c, again ? CHILD_EV_EXIT : CHILD_EV_END);
	if (c->id == CHILD_FRONTEND && t->serve.stdio)
		children_stop(t, code);
}

/* The keeper starts stunnel again by itself; that it ended is no fault a client could cause. */
static void
keeper_ended(struct tree *t)
{
	t->tls_keeper = 0;
	if (t->stopping)
		return;
	log_error("the process that keeps stunnel running is gone: ending");
	children_stop(t, 1);
}

static struct child *
child_of(struct tree *t, pid_t pid)
{
	struct child *c = &t->child[0];

	do {
		if (c->pid == pid)
			return c;
		c = children_next(c);
	} while (c != NULL);
	return NULL;
}

void
children_reap(struct tree *t)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct child *c = child_of(t, pid);
		if (c != NULL)
			ended(c, status);
		else if (pid == t->tls_keeper)
			keeper_ended(t);
	}
	fronts_bury(t);
}

static void
on_stop_timer(int fd, short what, void *arg)
{
	struct tree *t = arg;

	(void)fd;
	(void)what;
	for (struct child *c = &t->child[0]; c != NULL; c = children_next(c)) {
		if (c->pid == 0)
			continue;
		log_warn("%s outstays its grace", children_name(c->id));
		step(c, CHILD_EV_TIMER);
	}
}

void
children_stop(struct tree *t, int exit_code)
{
	if (t->stopping)
		return;
	t->stopping = true;
	t->exit_code = exit_code;
	accept_free(t->acceptor);
	t->acceptor = NULL;
	if (t->tls_keeper != 0)
		(void)kill(-t->tls_keeper, SIGTERM); /* it tells stunnel, and ends */
	t->stop_timer = event_new(t->base, -1, 0, on_stop_timer, t);
	if (t->stop_timer == NULL)
		fatal("no timer");
	loop_add_ms(t->stop_timer, STOP_MS);
	/* The broker first: it serves the reaper as before, and knows why its boxes end. */
	step(&t->child[CHILD_BROKER], CHILD_EV_STOP);
	step(&t->child[CHILD_REAPER], CHILD_EV_STOP);
	for (struct child *c = TAILQ_FIRST(&t->fronts); c != NULL; c = TAILQ_NEXT(c, entry))
		step(c, CHILD_EV_STOP);
}

void
children_done(struct tree *t)
{
	fronts_done(t);
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		child_done(&t->child[i]);
	if (t->stop_timer != NULL)
		event_free(t->stop_timer);
	t->stop_timer = NULL;
}
