/*
 * frontend/logs.c - inspect_logs: what is kept of a run's output, and how it ended.
 * Runs in: bailey-frontend.
 * Input: checked arguments; rows of the broker, whose bytes a run wrote.
 * Owns: the bytes of one answer.
 *
 * Of a run its first part and its last 8 KiB are kept. An answer is one piece:
 * what lies behind the gap is told by next_offset.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

struct log_job {
	struct log_state state;
	uint32_t stream;
	uint64_t asked; /* offset, where it counts from the front */
};

void
logs_init(struct log_state *s, size_t max)
{
	*s = (struct log_state){.status = RUN_internal};
	buf_init(&s->data, max);
}

void
logs_again(struct log_state *s)
{
	size_t max = s->data.max;
	bool both = s->both;

	logs_done(s);
	logs_init(s, max);
	s->both = both;
}

void
logs_done(struct log_state *s)
{
	buf_done(&s->data);
}

static void
on_data(struct log_state *s, const struct ipc_log_data *row)
{
	if (s->gap && !s->both)
		return;
	if (!s->any) {
		s->any = true;
		s->first = s->next = row->offset;
	}
	if (row->offset != s->next && !s->gap && row->offset > s->next) {
		s->gap = true;
		s->gap_at = buf_len(&s->data);
		s->gap_bytes = row->offset - s->next;
		s->next = row->offset;
	}
	if (row->offset != s->next || (s->gap && !s->both))
		return; /* there is one gap: behind the first part */
	if (buf_append(&s->data, row->data.data, row->data.len) == 0)
		s->next += row->data.len;
}

static void
on_end(struct log_state *s, const struct ipc_log_end *row)
{
	s->status = result_known(row->status);
	(void)str_copy(s->run_id, sizeof(s->run_id), row->run_id.data, row->run_id.len);
	(void)str_copy(s->sandbox, sizeof(s->sandbox), row->sandbox.data, row->sandbox.len);
	(void)str_copy(s->message, sizeof(s->message), row->message.data, row->message.len);
	s->exit_code = row->exit_code;
	s->signal = row->signal;
	s->cause = row->cause;
	s->started_ms = row->started_ms;
	s->ended_ms = row->ended_ms;
	s->written = row->written;
	s->head = row->head;
	s->tail = row->tail;
}

void
logs_row(struct log_state *s, const struct ipc_row *row)
{
	if (row->num == IPC_NUM_log_data)
		on_data(s, &row->u.log_data);
	else if (row->num == IPC_NUM_log_end)
		on_end(s, &row->u.log_end);
}

/* ---- the tool ---- */

static void
job_done(void *job)
{
	struct log_job *j = job;

	if (j == NULL)
		return;
	logs_done(&j->state);
	free(j);
}

static void
on_row(struct call *c, const struct ipc_row *row)
{
	struct log_job *j = c->job;

	logs_row(&j->state, row);
}

/* The bytes as text where they are: cut to whole code points at an end that is not the output's. */
static void
add_data(cJSON *object, const struct log_job *j)
{
	const struct log_state *s = &j->state;
	const uint8_t *data = buf_data(&s->data);
	size_t len = buf_len(&s->data), skip, keep;
	uint64_t first = s->any ? s->first : j->asked, next = s->any ? s->next : j->asked;
	bool hidden;

	skip = first > 0 ? text_skip(data, len) : 0;
	keep = skip + text_floor(data + skip, len - skip);
	if (keep > skip && text_scan(data + skip, keep - skip, &hidden)) {
		first += skip;
		if (!s->gap)
			next -= len - keep;
		data += skip;
		len = keep - skip;
	}
	result_add_text(object, "data", data, len);
	result_add_count(object, "offset", first);
	result_add_count(object, "next_offset", next);
	result_add_count(object, "total_bytes", s->written);
	result_add_count(object, "omitted_bytes", s->tail > s->head ? s->tail - s->head : 0);
}

static void
add_word(cJSON *object, const char *name, const char *word)
{
	if (word != NULL && *word != '\0')
		result_add_visible(object, name, word, strlen(word));
	else
		(void)cJSON_AddNullToObject(object, name);
}

static void
add_ending(cJSON *object, const struct log_state *s, bool known)
{
	bool over = known && s->status != RUN_running;
	bool exited = over && (s->status == RUN_ok || s->status == RUN_nonzero);

	if (exited)
		result_add_count(object, "exit_code", s->exit_code);
	else
		(void)cJSON_AddNullToObject(object, "exit_code");
	if (over && s->signal != 0)
		result_add_count(object, "signal", s->signal);
	else
		(void)cJSON_AddNullToObject(object, "signal");
	add_word(object, "end", over ? cause_label(s->cause) : NULL);
	if (known)
		result_add_milli(object, "started_seconds_ago", s->started_ms);
	else
		(void)cJSON_AddNullToObject(object, "started_seconds_ago");
	if (over)
		result_add_milli(object, "ended_seconds_ago", s->ended_ms);
	else
		(void)cJSON_AddNullToObject(object, "ended_seconds_ago");
}

static void
answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct log_job *j = c->job;
	struct log_state *s = &j->state;
	bool asked = ended->status == RUN_ok;
	enum run_status status = asked ? s->status : result_known(ended->status);
	bool known = asked && status != RUN_not_found && status != RUN_internal;
	struct ipc_str said = IPC_STR(s->message);
	cJSON *object = result_status(status, &said);

	add_word(object, "run_id", s->run_id);
	add_word(object, "sandbox_id", s->sandbox);
	(void)cJSON_AddStringToObject(object, "stream",
				      j->stream == STREAM_STDERR ? "stderr" : "stdout");
	add_data(object, j);
	add_ending(object, s, known);
	/* how the run ended is the answer, not this call's failure */
	result_send(c->fe, &c->to, object, NULL, !known);
}

static void
on_again(struct call *c)
{
	struct log_job *j = c->job;

	logs_again(&j->state);
}

static const struct step steps[] = {{.submit = upcalls_log_read, .row = on_row, .again = on_again}};
static const struct plan plan = {steps, ARRAY_LEN(steps), answer, job_done};

void
tool_logs(const struct tool_request *rq, enum tool_no tool)
{
	const cJSON *offset = cJSON_GetObjectItemCaseSensitive(rq->args, "offset");
	const char *run = args_text(rq->args, "run_id", NULL);
	const char *sandbox = args_text(rq->args, "sandbox_id", NULL);
	double at = offset == NULL ? 0 : offset->valuedouble;
	struct log_job *j;
	struct call *c;

	if ((run == NULL) == (sandbox == NULL)) {
		result_send_refusal(rq->fe, rq->to, "Give either run_id or sandbox_id.");
		return;
	}
	c = tools_new_call(rq, tool, &plan, run != NULL ? run : sandbox);
	if (c == NULL)
		return;
	c->job = j = xcalloc(1, sizeof(*j));
	memcpy(c->log.id, c->sandbox, sizeof(c->log.id));
	j->stream = strcmp(args_text(rq->args, "stream", "stdout"), "stderr") == 0 ? STREAM_STDERR
										   : STREAM_STDOUT;
	c->log.stream = j->stream;
	c->log.from_end = at < 0;
	c->log.offset = (uint64_t)(at < 0 ? -at : at);
	c->log.limit = (uint32_t)args_number(rq->args, "limit", LOG_DEFAULT);
	j->asked = at < 0 ? 0 : c->log.offset;
	logs_init(&j->state, c->log.limit);
	tools_start(rq, c, call_hold(c, c->log.limit));
}
