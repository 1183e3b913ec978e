/*
 * frontend/sandboxes.c - sandboxes that stay: made, run in, listed, destroyed.
 * Runs in: bailey-frontend.
 * Input: checked arguments; the broker's rows.
 * Owns: the list a listing collects.
 *
 * Whose a sandbox is, the broker knows; a malformed id gets the very answer that
 * an unknown or a foreign one gets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define LIST_MAX 256

/* ---- made ---- */

/* The environment a sandbox is given before its client is told its name. */
struct create {
	struct buf env; /* RUN_ENV, encoded */
	struct call_grant made;
	uint32_t flags;
};

static void
create_done(void *job)
{
	struct create *k = job;

	if (k == NULL)
		return;
	buf_done(&k->env);
	free(k);
}

static bool
create_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct create *k = c->job;

	if (ended->status != RUN_ok || c->hold[0] == '\0')
		return false;
	memcpy(c->sandbox, c->hold, sizeof(c->sandbox));
	k->made = c->grant;
	k->flags = c->flags;
	return true;
}

static bool
env_begin(struct call *c)
{
	struct create *k = c->job;

	buf_done(&c->spec);
	c->spec = k->env;
	k->env = (struct buf){.max = 0};
	c->flags = CALL_STEP;
	return true;
}

static bool
env_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct create *k = c->job;

	(void)ended;
	c->grant = k->made;
	c->flags = k->flags; /* what is answered is the sandbox, not this step */
	return false;
}

static void
create_answer(struct call *c, const struct ipc_call_ended *ended)
{
	static const char *const starts[] = {
		[START_WARM] = "warm", [START_LIVE] = "live", [START_COLD] = "cold"};
	enum run_status status = result_known(ended->status);
	cJSON *object;

	if (status == RUN_ok && c->hold[0] == '\0')
		status = RUN_internal;
	object = result_status(status, &ended->message);
	if (status == RUN_ok) {
		uint32_t start = c->grant.start;

		(void)cJSON_AddStringToObject(object, "sandbox_id", c->hold);
		result_add_milli(object, "expires_in_seconds", c->grant.ttl_ms);
		result_add_milli(object, "idle_timeout_seconds", c->grant.idle_ms);
		result_add_count(object, "queue_ms", c->grant.queue_ms);
		if (start < ARRAY_LEN(starts) && starts[start] != NULL)
			(void)cJSON_AddStringToObject(object, "start", starts[start]);
		else
			(void)cJSON_AddNullToObject(object, "start");
		result_add_limits(object, c);
		c->hold[0] = '\0'; /* the client has its name now */
	} else {
		static const char *const names[] = {"sandbox_id",
						    "expires_in_seconds",
						    "idle_timeout_seconds",
						    "queue_ms",
						    "start",
						    "limits"};

		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			(void)cJSON_AddNullToObject(object, names[i]);
	}
	if (ended->retry_ms > 0)
		result_add_count(object, "retry_after_ms", ended->retry_ms);
	result_send(c->fe, &c->to, object, NULL, run_status_is_error(status));
}

static const struct step create_steps[] = {{.flags = STEP_RUN, .submit = upcalls_submit}};
static const struct plan create_plan = {create_steps, ARRAY_LEN(create_steps), create_answer, NULL};
static const struct step create_env_steps[] = {
	{.flags = STEP_RUN, .submit = upcalls_submit, .end = create_end},
	{.flags = STEP_RUN, .begin = env_begin, .submit = upcalls_submit, .end = env_end},
};
static const struct plan create_env_plan = {create_env_steps, ARRAY_LEN(create_env_steps),
					    create_answer, create_done};

/* The second step of a creation with env; false: it was refused. */
static bool
keep_env(const struct tool_request *rq, struct call *c)
{
	struct create *k = xcalloc(1, sizeof(*k));

	c->job = k;
	buf_init(&k->env, GUEST_SPEC_MAX);
	if (specs_env(rq->args, &k->env) == 0)
		return true;
	call_free(c);
	result_send_refusal(rq->fe, rq->to,
			    "env is more than 128 KiB. Write what is large into a file.");
	return false;
}

void
tool_create(const struct tool_request *rq, enum tool_no tool)
{
	bool env = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(rq->args, "env")) > 0;
	struct call *c = tools_new_call(rq, tool, env ? &create_env_plan : &create_plan, NULL);

	if (c == NULL || (env && !keep_env(rq, c)))
		return;
	c->box_class = BOX_SHELL;
	c->flags = CALL_STAYS | (args_true(rq->args, "keep") ? (uint32_t)CALL_KEEP : 0U);
	specs_limits(&c->ask, rq->args);
	tools_start(rq, c, 0);
}

/* ---- run in ---- */

static void
exec_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct ipc_call_ended told = *ended;
	char words[160];

	if (ended->status == RUN_running && ended->message.len == 0) {
		(void)snprintf(words, sizeof(words),
			       "It runs in the background. Its output and its end: inspect_logs "
			       "with run_id %s.",
			       c->grant.run_id);
		told.message = IPC_STR(words);
	}
	result_send_run(c->fe, &c->to, c, &told);
}

static const struct step exec_steps[] = {
	{.flags = STEP_RUN | STEP_OUTPUT, .submit = upcalls_submit}};
static const struct plan exec_plan = {exec_steps, ARRAY_LEN(exec_steps), exec_answer, NULL};

void
tool_exec(const struct tool_request *rq, enum tool_no tool)
{
	const char *id =
		args_text(rq->args, tool == TOOL_docker_exec ? "container" : "sandbox_id", "");
	bool command = cJSON_GetObjectItemCaseSensitive(rq->args, "command") != NULL;
	bool argv = cJSON_GetObjectItemCaseSensitive(rq->args, "argv") != NULL;
	bool background = args_true(rq->args, "background");
	struct call *c;

	if (command == argv) {
		result_send_refusal(rq->fe, rq->to,
				    command ? "Give either command or argv, not both."
					    : "Give command (for bash) or argv (program and "
					      "arguments).");
		return;
	}
	if (background && *args_text(rq->args, "stdin", "") != '\0') {
		result_send_refusal(rq->fe, rq->to,
				    "A background run has no stdin. Write a file with "
				    "container_write_file and redirect it.");
		return;
	}
	c = tools_new_call(rq, tool, &exec_plan, id);
	if (c == NULL)
		return;
	if (background)
		c->flags |= CALL_BACKGROUND;
	tools_start(rq, c, specs_fill(c, tool, rq->args));
}

/* ---- listed ---- */

static void
list_row(struct call *c, const struct ipc_row *row)
{
	const struct ipc_sandbox_row *r = &row->u.sandbox_row;
	cJSON *item;

	if (row->num != IPC_NUM_sandbox_row || cJSON_GetArraySize(c->job) >= LIST_MAX)
		return;
	item = cJSON_CreateObject();
	(void)cJSON_AddItemToArray(c->job, item);
	result_add_visible(item, "sandbox_id", r->sandbox.data, r->sandbox.len);
	result_add_visible(item, "profile", r->profile.data, r->profile.len);
	(void)cJSON_AddStringToObject(item, "status", r->alive != 0 ? "running" : "ended");
	if (r->alive != 0) {
		(void)cJSON_AddNullToObject(item, "end");
		(void)cJSON_AddNullToObject(item, "ended_seconds_ago");
	} else {
		(void)cJSON_AddStringToObject(item, "end", cause_label(r->cause));
		result_add_milli(item, "ended_seconds_ago", r->ended_ms);
	}
	result_add_milli(item, "age_seconds", r->age_ms);
	result_add_milli(item, "idle_seconds", r->idle_ms);
	result_add_milli(item, "idle_timeout_seconds", r->idle_limit_ms);
	result_add_milli(item, "expires_in_seconds", r->ttl_ms);
	(void)cJSON_AddBoolToObject(item, "keep", r->keep != 0);
	result_add_count(item, "runs", r->runs);
	result_add_count(item, "memory_bytes", r->memory_bytes);
	result_add_milli(item, "cpus", r->cpus_milli);
}

static void
list_answer(struct call *c, const struct ipc_call_ended *ended)
{
	enum run_status status = result_known(ended->status);
	struct ipc_str said = ended->message;
	cJSON *object;

	if (cJSON_GetArraySize(c->job) == LIST_MAX)
		said = IPC_STR("Of the sandboxes that ended, some may not be listed.");
	object = result_status(status, &said);
	(void)cJSON_AddItemToObject(object, "sandboxes", TAKE(c->job));
	result_send(c->fe, &c->to, object, NULL, run_status_is_error(status));
}

void
sandboxes_list_done(void *job)
{
	cJSON_Delete(job);
}

void
sandboxes_list_again(struct call *c)
{
	cJSON_Delete(c->job);
	c->job = cJSON_CreateArray();
}

static const struct step list_steps[] = {
	{.submit = upcalls_list, .row = list_row, .again = sandboxes_list_again}};
static const struct plan list_plan = {list_steps, ARRAY_LEN(list_steps), list_answer,
				      sandboxes_list_done};

void
tool_list(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c = tools_new_call(rq, tool, &list_plan, NULL);

	if (c == NULL)
		return;
	c->job = cJSON_CreateArray();
	tools_start(rq, c, 0);
}

/* ---- destroyed ---- */

static void
destroy_answer(struct call *c, const struct ipc_call_ended *ended)
{
	enum run_status status = result_known(ended->status);

	result_send(c->fe, &c->to, result_status(status, &ended->message), NULL,
		    run_status_is_error(status));
}

static const struct step destroy_steps[] = {{.submit = upcalls_destroy}};
static const struct plan destroy_plan = {destroy_steps, ARRAY_LEN(destroy_steps), destroy_answer,
					 NULL};

void
tool_destroy(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c =
		tools_new_call(rq, tool, &destroy_plan, args_text(rq->args, "sandbox_id", ""));

	if (c != NULL)
		tools_start(rq, c, 0);
}
