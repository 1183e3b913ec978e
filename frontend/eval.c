/*
 * frontend/eval.c - sandbox_eval: code for an interpreter that stays, its value, output, figures.
 * Runs in: bailey-frontend.
 * Input: checked arguments; value records that the sandbox's interpreter wrote, untrusted.
 * Owns: the job of one evaluation.
 *
 * Records on the value stream end with a NUL: 'v' and the value's text, 'i' and
 * the path of an image that was saved. Images are read as files afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define RECORDS_MAX ((size_t)1 << 20)
#define VALUE_MAX ((size_t)24576) /* shown */

struct eval {
	struct collect *collect;
	cJSON *result;
	bool is_error;
};

static void
eval_done(void *job)
{
	struct eval *e = job;

	if (e == NULL)
		return;
	collect_free(e->collect);
	cJSON_Delete(e->result);
	free(e);
}

static void
add_value(cJSON *object, const uint8_t *value, size_t n, bool cut)
{
	size_t shown = n;

	if (value == NULL) {
		(void)cJSON_AddNullToObject(object, "value");
		(void)cJSON_AddStringToObject(object, "value_encoding", "utf-8");
		(void)cJSON_AddFalseToObject(object, "value_truncated");
		return;
	}
	if (n > VALUE_MAX || cut)
		shown = text_floor(value, n > VALUE_MAX ? VALUE_MAX : n);
	result_add_text(object, "value", value, shown);
	(void)cJSON_AddBoolToObject(object, "value_truncated", cut || shown < n);
}

/* Walks the records: the last value goes to object, paths to the collection. */
static void
read_records(struct call *c, struct eval *e, cJSON *object)
{
	const uint8_t *at = buf_data(&c->out[STREAM_VALUE - 1].head);
	const uint8_t *end = at + buf_len(&c->out[STREAM_VALUE - 1].head), *value = NULL;
	size_t value_len = 0;
	bool cut = false;

	while (at < end) {
		const uint8_t *nul = memchr(at, '\0', (size_t)(end - at));
		const uint8_t *stop = nul == NULL ? end : nul;

		if (*at == 'v') {
			value = at + 1;
			value_len = (size_t)(stop - value);
			cut = nul == NULL;
		} else if (*at == 'i' && nul != NULL && nul - at > 1) {
			(void)collect_add(e->collect, (const char *)at + 1, c->sandbox);
		}
		at = stop + 1;
	}
	add_value(object, value, value_len, cut);
}

/* What happened to the interpreter, where the status does not say it. */
static void
explain(const struct ipc_call_ended *ended, struct buf *ret)
{
	enum run_status status = result_known(ended->status);
	const char *more = "";
	struct guest_g_exit guest;
	bool ran = result_exit(ended, &guest) && guest.how != EXIT_NOT_STARTED;

	if (ended->message.len > 0)
		(void)buf_printf(ret, "%.*s", (int)ended->message.len, ended->message.data);
	else
		(void)buf_printf(ret, "%s", run_status_advice(status));
	if (ran && (guest.flags & EXIT_INTERPRETER_GONE) != 0)
		more = "The interpreter and its state are gone; the next evaluation starts a new "
		       "one.";
	else if (ran && status == RUN_nonzero)
		more = "The code ended with an error; stderr tells which. The interpreter keeps "
		       "its "
		       "state.";
	(void)buf_printf(ret, "%s%s", buf_len(ret) > 0 && *more != '\0' ? " " : "", more);
}

/* true: figures may follow. */
static bool
eval_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct eval *e = c->job;
	enum run_status status = result_known(ended->status);
	struct guest_g_exit guest = {.how = 0};
	bool known = result_exit(ended, &guest);
	struct ipc_str said;
	struct buf words;

	buf_init(&words, 1024);
	explain(ended, &words);
	said = (struct ipc_str){(const char *)buf_data(&words), buf_len(&words)};
	e->result = result_status(status, &said);
	buf_done(&words);
	read_records(c, e, e->result);
	if (known && guest.how == EXIT_EXITED && status != RUN_timed_out)
		result_add_count(e->result, "exit_code", ended->exit_code);
	else
		(void)cJSON_AddNullToObject(e->result, "exit_code");
	result_add_streams(e->result, c, ended);
	(void)cJSON_AddBoolToObject(e->result, "timed_out", status == RUN_timed_out);
	if (ended->duration_us > 0)
		result_add_milli(e->result, "duration_ms", ended->duration_us);
	else
		(void)cJSON_AddNullToObject(e->result, "duration_ms");
	if (c->grant.run_id[0] != '\0')
		(void)cJSON_AddStringToObject(e->result, "run_id", c->grant.run_id);
	else
		(void)cJSON_AddNullToObject(e->result, "run_id");
	e->is_error = run_status_is_error(status);
	return known;
}

static bool
image_begin(struct call *c)
{
	struct eval *e = c->job;

	return collect_begin(c, e->collect);
}

static bool
image_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct eval *e = c->job;

	collect_end(c, e->collect, ended);
	return true;
}

static void
eval_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct eval *e = c->job;

	if (e->result == NULL) /* it never came to an end of its own */
		(void)eval_end(c, ended);
	(void)cJSON_AddItemToObject(e->result, "images", collect_take_list(e->collect));
	(void)cJSON_AddBoolToObject(e->result, "images_truncated", collect_truncated(e->collect));
	result_send(c->fe, &c->to, TAKE(e->result), collect_take_blocks(e->collect), e->is_error);
}

static const struct step eval_steps[] = {
	{.flags = STEP_RUN | STEP_OUTPUT | STEP_QUEUES, .submit = upcalls_submit, .end = eval_end},
	{.flags = STEP_RUN, .begin = image_begin, .submit = upcalls_submit, .end = image_end},
};
static const struct plan eval_plan = {eval_steps, ARRAY_LEN(eval_steps), eval_answer, eval_done};

void
tool_eval(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c =
		tools_new_call(rq, tool, &eval_plan, args_text(rq->args, "sandbox_id", ""));
	struct eval *e;
	int r;

	if (c == NULL)
		return;
	c->job = e = xcalloc(1, sizeof(*e));
	e->collect = collect_new();
	output_init_whole(&c->out[STREAM_VALUE - 1], RECORDS_MAX);
	r = call_hold(c, RECORDS_MAX);
	c->flags |= CALL_TURNS;
	tools_start(rq, c, r < 0 ? r : specs_fill(c, tool, rq->args));
}
