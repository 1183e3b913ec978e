/*
 * frontend/execute.c - execute_code and its kin: one run in a sandbox of its own, with files before
 * and artifacts after it.
 * Runs in: bailey-frontend.
 * Input: checked arguments; what the sandbox says of files.
 * Owns: the job of a run with files: contents not yet written, the run kept until then, its result.
 *
 * Without files and artifacts a run is one exchange: a box is taken, used, gone.
 * With them the call holds a sandbox for its steps: create, write each file, run,
 * read what is asked for. The sandbox ends with the call, however that ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

struct given_file {
	char *path;
	uint32_t mode;
	struct buf content;
};
struct execute {
	/* the run, put aside while the sandbox is made ready */
	struct buf spec, input;
	uint32_t flags;
	struct call_limits ask;
	bool ran;
	struct given_file *files;
	size_t n_files, written;
	struct collect *collect;
	struct call_grant made; /* the sandbox */
	enum run_status fault;  /* of a file: with words */
	char *words;
	cJSON *result; /* once the run ended */
	bool is_error;
};

static void
execute_done(void *job)
{
	struct execute *e = job;

	if (e == NULL)
		return;
	for (size_t i = 0; i < e->n_files; i++) {
		free(e->files[i].path);
		buf_done(&e->files[i].content);
	}
	free(e->files);
	buf_done(&e->spec);
	buf_done(&e->input);
	collect_free(e->collect);
	cJSON_Delete(e->result);
	free(e->words);
	free(e);
}

/* ---- the steps ---- */

static bool
create_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct execute *e = c->job;

	if (ended->status != RUN_ok || c->hold[0] == '\0')
		return false;
	memcpy(c->sandbox, c->hold, sizeof(c->sandbox));
	e->made = c->grant;
	return true;
}

static bool
write_begin(struct call *c)
{
	struct execute *e = c->job;
	struct given_file *file;

	if (e->written == e->n_files)
		return false;
	file = &e->files[e->written];
	c->input = file->content;
	c->input_open = buf_len(&c->input) > 0;
	file->content = (struct buf){.max = 0};
	return specs_file(c, &(struct file_spec){.kind = RUN_FILE_WRITE,
						 .path = file->path,
						 .mode = file->mode,
						 .flags = SPEC_TRUNCATE |
							  (c->input_open ? SPEC_STDIN : 0U)}) == 0;
}

static bool
write_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct execute *e = c->job;
	struct file_fault fault = files_fault(ended, NULL);

	if (fault.status == RUN_ok) {
		e->written++;
		return true;
	}
	e->fault = fault.status;
	if (fault.said.len == 0)
		fault.said = IPC_STR(run_status_advice(fault.status));
	e->words = xasprintf("files[%zu] (%s) could not be written: %.*s", e->written,
			     e->files[e->written].path, (int)fault.said.len, fault.said.data);
	return false;
}

static bool
run_begin(struct call *c)
{
	struct execute *e = c->job;

	if (e->ran)
		return false;
	e->ran = true;
	c->spec = e->spec;
	c->input = e->input;
	c->input_open = buf_len(&c->input) > 0;
	e->spec = e->input = (struct buf){.max = 0};
	c->flags = e->flags;
	c->ask.timeout_ms = e->ask.timeout_ms;
	/* where the box is not as it was made ready, its waiting interpreter is of no use */
	c->spec_flags = e->made.start == START_WARM ? 0U : (uint32_t)SPEC_LIVE;
	return true;
}

static bool
run_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct execute *e = c->job;
	struct guest_g_exit guest;

	if (e->made.start == START_COLD)
		c->grant.start = START_COLD;
	c->grant.queue_ms += e->made.queue_ms;
	e->result = result_run(c, ended);
	e->is_error = run_status_is_error(result_known(ended->status));
	return result_exit(ended, &guest); /* without it the sandbox is gone */
}

static bool
collect_next(struct call *c)
{
	struct execute *e = c->job;

	return collect_begin(c, e->collect);
}

static bool
collected(struct call *c, const struct ipc_call_ended *ended)
{
	struct execute *e = c->job;

	collect_end(c, e->collect, ended);
	return true;
}

static void
execute_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct execute *e = c->job;
	struct ipc_call_ended fault = {.status = e->fault};

	if (e->result == NULL) {
		if (e->words != NULL)
			fault.message = IPC_STR(e->words);
		result_send_run(c->fe, &c->to, NULL, e->words != NULL ? &fault : ended);
		return;
	}
	(void)cJSON_AddItemToObject(e->result, "artifacts", collect_take_list(e->collect));
	(void)cJSON_AddBoolToObject(e->result, "artifacts_truncated",
				    collect_truncated(e->collect));
	result_send(c->fe, &c->to, TAKE(e->result), collect_take_blocks(e->collect), e->is_error);
}

static const struct step file_steps[] = {
	{.flags = STEP_RUN, .submit = upcalls_submit, .end = create_end},
	{.flags = STEP_RUN, .begin = write_begin, .submit = upcalls_submit, .end = write_end},
	{.flags = STEP_RUN | STEP_OUTPUT,
	 .begin = run_begin,
	 .submit = upcalls_submit,
	 .end = run_end},
	{.flags = STEP_RUN, .begin = collect_next, .submit = upcalls_submit, .end = collected},
};
static const struct plan file_plan = {file_steps, ARRAY_LEN(file_steps), execute_answer,
				      execute_done};

static void
run_answer(struct call *c, const struct ipc_call_ended *ended)
{
	result_send_run(c->fe, &c->to, c, ended);
}

static const struct step run_steps[] = {
	{.flags = STEP_RUN | STEP_OUTPUT, .submit = upcalls_submit}};
const struct plan run_plan = {run_steps, ARRAY_LEN(run_steps), run_answer, NULL};

/* ---- the start ---- */

/* Copies files[]: -EINVAL with a sentence in why; -ENOBUFS: too much is in flight. */
static int
take_files(struct call *c, struct execute *e, const cJSON *list, struct buf *why)
{
	const cJSON *item;

	e->files = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*e->files));
	cJSON_ArrayForEach(item, list)
	{
		struct given_file *file = &e->files[e->n_files];
		const char *content = args_text(item, "content", "");

		e->n_files++;
		file->path = xstrdup(args_text(item, "path", ""));
		(void)args_mode(args_text(item, "mode", "644"), &file->mode);
		buf_init(&file->content, WRITE_MAX + 2);
		if (args_content(content, args_text(item, "encoding", "utf8"), &file->content) <
			    0 ||
		    buf_len(&file->content) > WRITE_MAX) {
			(void)buf_printf(why,
					 "files[%zu].content is not base64, or more than 4 MiB.",
					 e->n_files - 1);
			return -EINVAL;
		}
		if (call_hold(c, buf_len(&file->content)) < 0)
			return -ENOBUFS;
	}
	return 0;
}

/* What specs_fill made of c goes aside; c becomes the making of a sandbox to hold. */
static void
put_aside(struct call *c, struct execute *e)
{
	e->spec = c->spec;
	e->input = c->input;
	e->flags = c->flags;
	e->ask = c->ask;
	buf_init(&c->spec, GUEST_SPEC_MAX);
	buf_init(&c->input, STDIN_MAX);
	c->input_open = false;
	c->flags = CALL_STAYS | CALL_HOLD;
	c->ask.timeout_ms = 0;
}

static void
run_with_files(const struct tool_request *rq, enum tool_no tool, struct call *c)
{
	const cJSON *files = cJSON_GetObjectItemCaseSensitive(rq->args, "files");
	const cJSON *artifacts = cJSON_GetObjectItemCaseSensitive(rq->args, "artifacts"), *item;
	struct execute *e = xcalloc(1, sizeof(*e));
	struct buf why;
	int r;

	c->job = e;
	e->collect = collect_new();
	cJSON_ArrayForEach(item, artifacts)(void)
		collect_add(e->collect, item->valuestring, ""); /* fewer than it takes */
	buf_init(&why, 512);
	r = take_files(c, e, files, &why);
	if (r == 0 && artifacts != NULL)
		r = call_hold(c, 2 * LOG_MAX); /* what is read at once, and what is returned */
	(void)buf_append(&why, "", 1);
	if (r == 0)
		r = specs_fill(c, tool, rq->args);
	if (r == 0)
		put_aside(c, e);
	if (r == -EINVAL && buf_len(&why) > 1) {
		call_free(c);
		result_send_refusal(rq->fe, rq->to, (const char *)buf_data(&why));
	} else {
		tools_start(rq, c, r);
	}
	buf_done(&why);
}

void
tool_run(const struct tool_request *rq, enum tool_no tool)
{
	bool files =
		cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(rq->args, "files")) > 0 ||
		cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(rq->args, "artifacts")) > 0;
	struct call *c = tools_new_call(rq, tool, files ? &file_plan : &run_plan, NULL);

	if (c == NULL)
		return;
	if (files)
		run_with_files(rq, tool, c);
	else
		tools_start(rq, c, specs_fill(c, tool, rq->args));
}
