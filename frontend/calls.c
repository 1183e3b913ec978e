/*
 * frontend/calls.c - calls in flight: a state x event table.
 * Runs in: bailey-frontend.
 * Input: events from upcalls.c (broker), mcp.c (cancel), timers.
 * Owns: the calls, their memory and timers; each ends in exactly one answer, or
 *       in none once it was cancelled.
 *
 * A call that the broker has not granted may be submitted once more after the
 * broker was lost: nothing of it ran. A granted one is never repeated. The
 * timers are a last resort: broker, guest and reaper keep their own limits, and
 * a client is answered even if all of them fail.
 *
 * When an exchange ended well and the plan has more to do, the same call begins
 * the next one under a new number: numbers only rise on a link, so it also goes
 * to the end of the list. A sandbox that the call holds ends with it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend.h"

#define START_WAIT_MS 10000u  /* for the broker link when the tree has just started */
#define GRANT_WAIT_MS 60000u  /* queue (30 s) and start (15 s), with slack */
#define END_SLACK_MS 20000u   /* past the time limit of a granted run */
#define CANCEL_WAIT_MS 10000u /* for the broker's last word on a cancelled call */
#define QUERY_WAIT_MS 5000u   /* for what the broker answers by itself */
#define NO_BROKER                                                                           \
	"Bailey's broker, the process that speaks to the container engine, is not running " \
	"or does not answer. It starts again by itself; if this lasts, Bailey's log says why."
#define QUEUE_FACTOR 9u /* of evaluations that wait for each other, and one's own */

typedef void (*call_action)(struct call *c, const void *arg);

void
call_arm(struct call *c, uint64_t ms)
{
	loop_add_ms(c->timer, ms);
}

void
call_arm_granted(struct call *c)
{
	uint64_t wait_ms = c->grant.timeout_ms;

	if ((call_step(c)->flags & STEP_QUEUES) != 0)
		wait_ms *= QUEUE_FACTOR;
	call_arm(c, wait_ms + END_SLACK_MS);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	call_event(arg, EV_TIMER, NULL);
}

const struct step *
call_step(const struct call *c)
{
	return &c->plan->steps[c->step];
}

static bool
is_run(const struct call *c)
{
	return (call_step(c)->flags & STEP_RUN) != 0;
}

/* ---- an exchange, and the next one ---- */

static void
exchange_init(struct call *c)
{
	buf_init(&c->spec, GUEST_SPEC_MAX);
	buf_init(&c->input, STDIN_MAX);
	for (size_t i = 0; i < ARRAY_LEN(c->out); i++)
		output_init(&c->out[i]);
	c->input_credit = GUEST_WINDOW;
}

static void
exchange_done(struct call *c)
{
	buf_done(&c->spec);
	buf_done(&c->input);
	for (size_t i = 0; i < ARRAY_LEN(c->out); i++)
		output_done(&c->out[i]);
}

/* Oldest first: calls that wait for a broker link are submitted in the order of their numbers, as
 * the broker demands. */
static void
list_append(struct call *c)
{
	struct call **at = &c->fe->call_list;

	while (*at != NULL)
		at = &(*at)->next;
	c->next = NULL;
	*at = c;
}

static void
list_remove(struct call *c)
{
	struct call **at = &c->fe->call_list;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

/* Numbers only rise on a link. */
void
call_renumber(struct call *c)
{
	list_remove(c);
	(void)idmap_take(c->fe->calls, c->no);
	c->no = ++c->fe->last_call;
	if (idmap_put(c->fe->calls, c->no, c) < 0)
		fatal("no room for a call");
	list_append(c);
	c->state = CALL_WAITING;
}

/* As new, but for what belongs to the whole call. */
static void
exchange_renew(struct call *c)
{
	exchange_done(c);
	exchange_init(c);
	c->flags = 0;
	c->ask = (struct call_limits){.timeout_ms = 0};
	c->grant = (struct call_grant){.start = START_NONE};
	c->spec_flags = 0;
	c->spec_sent = false;
	c->input_sent = 0;
	c->input_open = c->input_given = false;
	c->resubmitted = true; /* what went before is not done twice */
	call_renumber(c);
}

static void
finish(struct call *c, const struct ipc_call_ended *ended)
{
	c->plan->answer(c, ended);
	call_free(c);
}

/* The plan goes on behind the step that ended, or with more of it. */
static void
advance(struct call *c, const struct ipc_call_ended *ended)
{
	size_t last = c->step;

	if (last + 1 == c->plan->n && call_step(c)->begin == NULL) {
		finish(c, ended);
		return;
	}
	exchange_renew(c);
	for (; c->step < c->plan->n; c->step++) {
		const struct step *step = call_step(c);

		if (step->begin == NULL ? c->step != last : step->begin(c)) {
			call_start(c);
			return;
		}
	}
	c->step = c->plan->n - 1;
	finish(c, ended);
}

/* ---- the table's actions ---- */

static void
act_none(struct call *c, const void *arg)
{
	(void)c;
	(void)arg;
}

/* The broker sent something it should not have, or handed on a guest's: noted, nothing else. */
static void
act_odd(struct call *c, const void *arg)
{
	(void)arg;
	if (!log_allowed(&c->fe->broker_log, LOG_LINES_PER_10S))
		return;
	log_warn("call %llu: unexpected message from the broker", (unsigned long long)c->no);
}

static void
act_free(struct call *c, const void *arg)
{
	(void)arg;
	call_free(c);
}

static void
act_unavailable(struct call *c, const void *arg)
{
	(void)arg;
	call_answer(c, RUN_engine_unavailable);
}

static void
act_cut(struct call *c, const void *arg)
{
	(void)arg;
	resume_cut(c);
}

static void
act_resume(struct call *c, const void *arg)
{
	(void)arg;
	(void)upcalls_resume(c); /* a failure is the link's end, which is reported */
}

static void
act_resumed(struct call *c, const void *arg)
{
	resume_answered(c, arg);
}

static void
act_submit(struct call *c, const void *arg)
{
	(void)arg;
	if (call_step(c)->submit(c) < 0) {
		call_arm(c, resume_wait_ms(c)); /* the link is going; a new one may come */
		return;
	}
	c->state = CALL_SUBMITTED;
	call_arm(c, is_run(c) ? GRANT_WAIT_MS : QUERY_WAIT_MS);
}

static void
act_again(struct call *c, const void *arg)
{
	(void)arg;
	if (c->resubmitted) {
		call_answer(c, RUN_engine_unavailable);
		return;
	}
	if (call_step(c)->again != NULL)
		call_step(c)->again(c);
	c->resubmitted = true;
	c->state = CALL_WAITING;
	notify_call(c, LOG_WARNING, "the broker was lost; the call is submitted again");
	call_arm(c, resume_wait_ms(c));
}

/* A sandbox that was made for this call: it ends with it unless the client is told its name. */
static void
hold(struct call *c, const struct ipc_call_granted *row)
{
	if (str_copy(c->hold, sizeof(c->hold), row->sandbox.data, row->sandbox.len) < 0)
		c->hold[0] = '\0';
}

/* Too late: what was made goes again when the call does. */
static void
act_grant_late(struct call *c, const void *arg)
{
	if ((c->flags & CALL_STAYS) != 0)
		hold(c, arg);
}

static void
act_grant(struct call *c, const void *arg)
{
	const struct ipc_call_granted *row = arg;
	int r;

	c->grant = (struct call_grant){
		.start = row->start,
		.queue_ms = row->queue_ms,
		.timeout_ms = row->timeout_ms,
		.cpus_milli = row->cpus_milli,
		.pids = row->pids,
		.memory_bytes = row->memory_bytes,
		.workspace_bytes = row->workspace_bytes,
		.tmp_bytes = row->tmp_bytes,
		.ttl_ms = row->ttl_ms,
		.idle_ms = row->idle_ms,
	};
	if (str_copy(c->grant.run_id, sizeof(c->grant.run_id), row->run_id.data, row->run_id.len) <
	    0)
		c->grant.run_id[0] = '\0';
	if (str_copy(c->grant.sandbox, sizeof(c->grant.sandbox), row->sandbox.data,
		     row->sandbox.len) < 0)
		c->grant.sandbox[0] = '\0';
	c->state = CALL_GRANTED;
	notify_call(c, LOG_INFO, "%s %s starts after %u ms",
		    (c->flags & CALL_STAYS) != 0 ? "a sandbox" : "run", c->grant.run_id,
		    c->grant.queue_ms);
	call_arm_granted(c);
	if ((c->flags & CALL_STAYS) != 0)
		hold(c, row);
	r = upcalls_run(c);
	if (r == -ENOMEM || r == -E2BIG || r == -EBADMSG) {
		(void)upcalls_cancel(c);
		call_answer(c, RUN_internal);
	} /* else a failure is the link's end, which is reported */
}

static void
act_frame(struct call *c, const void *arg)
{
	const struct ipc_run_frame *row = arg;
	unsigned stream = row->stream;
	struct guest_g_credit credit;
	uint64_t limit;

	if (row->type == GUEST_g_credit) {
		if (guest_get_g_credit(row->data.data, row->data.len, &credit) < 0 ||
		    credit.limit < c->input_credit) {
			act_odd(c, arg);
			return;
		}
		c->input_credit = credit.limit;
		(void)upcalls_stdin(c);
		return;
	}
	if ((row->type != GUEST_g_out && row->type != GUEST_g_tail) || stream < STREAM_STDOUT ||
	    stream > STREAM_VALUE) {
		act_odd(c, arg);
		return;
	}
	output_add(&c->out[stream - STREAM_STDOUT], row->data.data, row->data.len,
		   row->type == GUEST_g_tail);
	if (output_credit(&c->out[stream - STREAM_STDOUT], &limit))
		(void)upcalls_credit(c, stream, limit);
	if (stream != STREAM_VALUE && (call_step(c)->flags & STEP_OUTPUT) != 0)
		progress_output(c, row->data.data, row->data.len);
}

static void
act_end(struct call *c, const void *arg)
{
	const struct ipc_call_ended *ended = arg;
	const struct step *step = call_step(c);
	enum run_status status = result_known(ended->status);

	if (is_run(c))
		notify_call(c, run_status_is_error(status) ? LOG_WARNING : LOG_INFO,
			    "%s %s ended: %s",
			    (c->flags & CALL_STAYS) != 0 ? "making a sandbox" : "run",
			    c->grant.run_id, run_status_name(status));
	if (step->end == NULL || step->end(c, arg))
		advance(c, arg);
	else
		finish(c, arg);
}

/* The broker's word. A call cancelled from another connection of its session has no answer, as one
 * cancelled from its own has none. */
static void
act_ended(struct call *c, const void *arg)
{
	const struct ipc_call_ended *ended = arg;

	if (ended->status == RUN_cancelled && c->to.tag[0] != '\0') {
		rpc_send_nothing(c->fe, &c->to);
		call_free(c);
	} else {
		act_end(c, arg);
	}
}

/* Nothing is answered any more. */
static void
act_drop(struct call *c, const void *arg)
{
	(void)arg;
	rpc_send_nothing(c->fe, &c->to);
	call_free(c);
}

/* The same while the broker has it: the broker ends the run and says so. */
static void
act_cancel(struct call *c, const void *arg)
{
	if (!is_run(c) || upcalls_cancel(c) < 0) {
		act_drop(c, arg);
		return;
	}
	rpc_send_nothing(c->fe, &c->to);
	c->state = CALL_CANCELLED;
	progress_done(&c->progress);
	call_arm(c, CANCEL_WAIT_MS);
}

/* Nobody ended it in time: the client is answered, the broker told. */
static void
act_expire(struct call *c, const void *arg)
{
	(void)arg;
	log_error("call %llu: no end from the broker in time", (unsigned long long)c->no);
	if (is_run(c))
		(void)upcalls_cancel(c);
	call_answer(c, c->state >= CALL_GRANTED ? RUN_lost : RUN_engine_unavailable);
}

static const call_action actions[CALL_STATES][CALL_EVENTS] = {
	[CALL_WAITING] = {[EV_LINK_UP] = act_submit,
			  [EV_LINK_DOWN] = act_none,
			  [EV_GRANTED] = act_odd,
			  [EV_FRAME] = act_odd,
			  [EV_ENDED] = act_odd,
			  [EV_CANCEL] = act_drop,
			  [EV_TIMER] = act_unavailable,
			  [EV_RESUMED] = act_odd},
	[CALL_SUBMITTED] = {[EV_LINK_UP] = act_none,
			    [EV_LINK_DOWN] = act_again,
			    [EV_GRANTED] = act_grant,
			    [EV_FRAME] = act_odd,
			    [EV_ENDED] = act_ended,
			    [EV_CANCEL] = act_cancel,
			    [EV_TIMER] = act_expire,
			    [EV_RESUMED] = act_odd},
	[CALL_GRANTED] = {[EV_LINK_UP] = act_none,
			  [EV_LINK_DOWN] = act_cut,
			  [EV_GRANTED] = act_odd,
			  [EV_FRAME] = act_frame,
			  [EV_ENDED] = act_ended,
			  [EV_CANCEL] = act_cancel,
			  [EV_TIMER] = act_expire,
			  [EV_RESUMED] = act_odd},
	[CALL_RESUMING] = {[EV_LINK_UP] = act_resume,
			   [EV_LINK_DOWN] = act_none,
			   [EV_GRANTED] = act_odd,
			   [EV_FRAME] = act_frame,
			   [EV_ENDED] = act_ended,
			   [EV_CANCEL] = act_cancel,
			   [EV_TIMER] = act_expire,
			   [EV_RESUMED] = act_resumed},
	[CALL_CANCELLED] = {[EV_LINK_UP] = act_none,
			    [EV_LINK_DOWN] = act_free,
			    [EV_GRANTED] = act_grant_late,
			    [EV_FRAME] = act_none,
			    [EV_ENDED] = act_free,
			    [EV_CANCEL] = act_none,
			    [EV_TIMER] = act_free,
			    [EV_RESUMED] = act_none},
};

void
call_event(struct call *c, enum call_event ev, const void *arg)
{
	actions[c->state][ev](c, arg);
}

void
calls_event_all(struct frontend *fe, enum call_event ev)
{
	struct call *next;

	for (struct call *c = fe->call_list; c != NULL; c = next) {
		next = c->next; /* an event ends at most its own call */
		call_event(c, ev, NULL);
	}
}

/* ---- life ---- */

struct call *
call_new(struct frontend *fe, const struct reply_to *to, const struct plan *plan)
{
	struct call *c;

	if (idmap_count(fe->calls) >= CALLS_MAX)
		return NULL;
	c = xcalloc(1, sizeof(*c));
	c->fe = fe;
	c->no = ++fe->last_call;
	c->to = *to;
	c->plan = plan;
	c->state = CALL_WAITING;
	exchange_init(c);
	c->timer = event_new(fe->base, -1, 0, on_timer, c);
	if (c->timer == NULL || idmap_put(fe->calls, c->no, c) < 0)
		fatal("no room for a call");
	list_append(c);
	return c;
}

void
call_free(struct call *c)
{
	struct frontend *fe = c->fe;

	list_remove(c);
	(void)idmap_take(fe->calls, c->no);
	fe->held_bytes -= c->held_bytes;
	if (c->hold[0] != '\0')
		upcalls_discard(fe, c->hold);
	event_free(c->timer);
	progress_done(&c->progress);
	exchange_done(c);
	if (c->plan->done != NULL)
		c->plan->done(c->job);
	else
		free(c->job);
	free(c);
	memory_used(fe);
	frontend_idle(fe);
}

struct call *
call_find(struct frontend *fe, uint64_t no)
{
	return no == 0 ? NULL : idmap_get(fe->calls, no);
}

struct call *
call_find_id(struct frontend *fe, const struct rpc_id *id)
{
	for (struct call *c = fe->call_list; c != NULL; c = c->next) {
		if (c->state != CALL_CANCELLED && rpc_id_equal(&c->to.id, id))
			return c;
	}
	return NULL;
}

int
call_hold(struct call *c, size_t bytes)
{
	/* What the client has yet to read still takes its place, or a client that asks for much at
	 * once would be cut for answers it had no time to read. */
	size_t unread = transport_queued(c->fe->transport) / ANSWER_GROWTH;

	_Static_assert(CALLS_BYTES_MAX * ANSWER_GROWTH <= SEND_QUEUE_MAX,
		       "the answers to all that is held fit in the queue");
	if (unread > CALLS_BYTES_MAX - c->fe->held_bytes ||
	    bytes > CALLS_BYTES_MAX - c->fe->held_bytes - unread)
		return -ENOBUFS;
	c->fe->held_bytes += bytes;
	c->held_bytes += bytes;
	return 0;
}

void
call_start(struct call *c)
{
	if (upcalls_ready(c->fe))
		call_event(c, EV_LINK_UP, NULL);
	else
		call_arm(c, c->fe->configured ? resume_wait_ms(c) : START_WAIT_MS);
}

void
call_answer(struct call *c, enum run_status status)
{
	struct ipc_call_ended ended = {.status = status};

	/* Of the engine itself only the broker can speak, and that one is missing. */
	if (status == RUN_engine_unavailable)
		ended.message = IPC_STR(NO_BROKER);
	if (status == RUN_cancelled) /* what the client withdraws is not answered */
		ended.message = IPC_STR(STOPPED_WORDS);
	if (c->state == CALL_CANCELLED)
		call_free(c);
	else
		finish(c, &ended);
}

void
calls_answer_all(struct frontend *fe, enum run_status status)
{
	struct call *next;

	for (struct call *c = fe->call_list; c != NULL; c = next) {
		next = c->next;
		if (is_run(c) && c->state != CALL_WAITING && c->state != CALL_CANCELLED)
			(void)upcalls_cancel(c);
		call_answer(c, status);
	}
}

void
calls_free_all(struct frontend *fe)
{
	struct call *next;

	for (struct call *c = fe->call_list; c != NULL; c = next) {
		next = c->next;
		call_free(c);
	}
}
