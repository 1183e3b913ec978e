/*
 * frontend/tools.c - tools/call: the tool, its arguments against tools.def, and off it goes.
 * Runs in: bailey-frontend.
 * Input: untrusted params, JSON that passed jsonlint.c.
 * Owns: nothing; a call belongs to calls.c.
 *
 * An unknown tool is a protocol error. A bad argument is a tool error with a
 * sentence (args.c). The broker checks limits and policy again.
 */
#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"
#ifdef BAILEY_CONFORMANCE
#include "fixtures.h"
#endif

#define BUSY_RETRY_MS 1000u
#define SHOWN_MAX 64u /* bytes of a client's own word in a sentence */

static const tool_server servers[TOOL_COUNT] = {
#define TOOL(name, listed, serve, shape, hints, title, description) [TOOL_##name] = tool_##serve,
#define ARG(tool, name, type, required, min, max, choices, help)
#include "tools.def"
#undef TOOL
#undef ARG
};

static const char busy_words[] =
	"As much is under way on this connection as may be. Try again when "
	"some of it has ended.";

/* No sandbox was asked for: it is this connection that is full. */
static struct ipc_call_ended
busy_end(void)
{
	return (struct ipc_call_ended){
		.status = RUN_busy, .retry_ms = BUSY_RETRY_MS, .message = IPC_STR(busy_words)};
}

/* No call could be made of it. Only a run has a form for that: part of another shape would be
 * none. */
static void
send_busy(const struct tool_request *rq, enum tool_no tool)
{
	struct ipc_call_ended ended = busy_end();

	if (tool_rows[tool].shape == SHAPE_RUN)
		result_send_run(rq->fe, rq->to, NULL, &ended);
	else
		result_send_refusal(rq->fe, rq->to, busy_words);
}

struct call *
tools_new_call(const struct tool_request *rq, enum tool_no tool, const struct plan *plan,
	       const char *sandbox)
{
	struct call *c = call_new(rq->fe, rq->to, plan);

	if (c == NULL) {
		send_busy(rq, tool);
		return NULL;
	}
	c->nowhere = sandbox != NULL && !specs_sandbox(c, sandbox);
	if (progress_init(c, &rq->token) < 0) {
		call_free(c);
		send_busy(rq, tool);
		return NULL;
	}
	return c;
}

/* Ended before it began: the answer has the form that any end of it has. */
static void
answer_now(struct call *c, struct ipc_call_ended ended)
{
	c->plan->answer(c, &ended);
	call_free(c);
}

void
tools_start(const struct tool_request *rq, struct call *c, int r)
{
	const char *why = NULL;

	if (r == -EINVAL)
		why = "These arguments make no run: check code, command, args, env and "
		      "working_dir for bytes they may not have.";
	else if (r == -E2BIG)
		why = "Code, args and env are more than 2 MiB together.";
	if (why != NULL) {
		call_free(c);
		result_send_refusal(rq->fe, rq->to, why);
	} else if (r != 0) {
		answer_now(c, busy_end());
	} else if (c->nowhere) {
		answer_now(c, (struct ipc_call_ended){.status = RUN_not_found});
	} else {
		call_start(c);
	}
}

static bool
tool_find(const char *name, enum tool_no *ret)
{
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (strcmp(tool_rows[i].name, name) == 0) {
			*ret = (enum tool_no)i;
			return true;
		}
	}
	return false;
}

static void
send_unknown_tool(struct frontend *fe, const struct reply_to *to, const char *name)
{
	struct buf shown;
	size_t n = strlen(name);

	buf_init(&shown, 1024);
	n = text_floor((const uint8_t *)name, n < SHOWN_MAX ? n : SHOWN_MAX);
	(void)text_append_visible(&shown, (const uint8_t *)name, n);
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "Unknown tool: %.*s", (int)buf_len(&shown),
		       (const char *)buf_data(&shown));
	buf_done(&shown);
}

static void
refuse_arguments(const struct tool_request *rq, struct buf *why)
{
	if (buf_append(why, "", 1) == 0)
		result_send_refusal(rq->fe, rq->to, (const char *)buf_data(why));
	else
		result_send_refusal(rq->fe, rq->to, "Bad arguments.");
}

/* The parts of a tools/call that have a wrong type are protocol errors: false, one was sent. */
static bool
params_ok(struct tool_request *rq)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(rq->params, "name");
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(rq->params, "_meta");
	const cJSON *asked = cJSON_GetObjectItemCaseSensitive(meta, "progressToken");

	rq->args = cJSON_GetObjectItemCaseSensitive(rq->params, "arguments");
	if (cJSON_IsNull(rq->args))
		rq->args = NULL;
	if (!cJSON_IsString(name))
		rpc_send_error(rq->fe, rq->to, RPC_PARAMS, NULL, "params.name must be a string");
	else if (rq->args != NULL && !cJSON_IsObject(rq->args))
		rpc_send_error(rq->fe, rq->to, RPC_PARAMS, NULL,
			       "params.arguments must be an object");
	else if (asked != NULL && rpc_read_id(asked, &rq->token) < 0)
		rpc_send_error(
			rq->fe, rq->to, RPC_PARAMS, NULL,
			"progressToken must be a string of at most 128 bytes or a whole number");
	else
		return true;
	return false;
}

void
tools_call(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	struct tool_request rq = {.fe = fe, .to = to, .params = params};
	const char *name;
	enum tool_no tool;
	struct buf why;

	if (!params_ok(&rq))
		return;
	name = cJSON_GetObjectItemCaseSensitive(params, "name")->valuestring;
	if (!tool_find(name, &tool)) {
		send_unknown_tool(fe, to, name);
		return;
	}
	upcalls_warm(fe);
	buf_init(&why, 4096);
	if (args_check(tool, rq.args, &why) < 0)
		refuse_arguments(&rq, &why);
	else
		servers[tool](&rq, tool);
	buf_done(&why);
}
