/*
 * frontend/prompts.c - prompts/list, prompts/get, completion/complete: prompts.def.
 * Runs in: bailey-frontend.
 * Input: untrusted params.
 * Owns: the table.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"
#ifdef BAILEY_CONFORMANCE
#include "fixtures.h"
#endif

#define TTL_MS 3600000u /* the table changes with the program only */

static const char use_sandbox_text[] =
	"You can run code and shell commands in locked-down sandboxes without network.\n"
	"- One program, nothing to keep: execute_code (python, bash, node), or "
	"execute_sandboxed_command for a shell command. Each starts in a fresh sandbox; give it "
	"input with files and get results with artifacts.\n"
	"- Several steps on the same files: container_create_sandbox once, then "
	"container_exec_command, container_write_file, container_read_file and "
	"container_list_files with its sandbox_id. Write under /workspace or /tmp. Destroy it with "
	"container_destroy_sandbox when you are done; it also ends when idle.\n"
	"- Interactive work on data: sandbox_eval keeps variables and imports between calls, "
	"returns the value of the last expression, and matplotlib figures as images.\n"
	"- Long runs: container_exec_command with background true, then inspect_logs with the "
	"run_id.\n"
	"- Print little: only the first 24 KiB and the last 8 KiB of an output are returned. Write "
	"large results to a file and read the part you need.\n"
	"- Read status first: ok is exit code 0, nonzero any other. Anything else comes with a "
	"message that says what to do next. After not_found create a new sandbox.";

static cJSON *
prompt_use_sandbox(const struct prompt_request *rq)
{
	const char *task = args_text(rq->arguments, "task", "");
	cleanup_free char *text =
		xasprintf("%s%s%s", use_sandbox_text, *task == '\0' ? "" : "\n\nThe task: ", task);
	cJSON *messages = cJSON_CreateArray(), *message = cJSON_CreateObject(), *content;

	(void)cJSON_AddItemToArray(messages, message);
	(void)cJSON_AddStringToObject(message, "role", "user");
	content = cJSON_AddObjectToObject(message, "content");
	(void)cJSON_AddStringToObject(content, "type", "text");
	(void)cJSON_AddStringToObject(content, "text", text);
	return messages;
}

static const struct {
	const char *name, *title, *description;
	cJSON *(*build)(const struct prompt_request *rq);
} prompt_rows[] = {
#define PROMPT(name, title, description, build) {#name, title, description, prompt_##build},
#define PROMPT_ARG(prompt, name, required, description)
#include "prompts.def"
#undef PROMPT
#undef PROMPT_ARG
};

static const struct {
	const char *prompt, *name;
	bool required;
	const char *description;
} prompt_args[] = {
#define PROMPT(name, title, description, build)
#define PROMPT_ARG(prompt, name, required, description) {#prompt, #name, required, description},
#include "prompts.def"
#undef PROMPT
#undef PROMPT_ARG
};

void
prompts_list(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	cJSON *result, *list;

	if (mcp_cursor_refused(fe, to, params))
		return;
	result = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(result, "prompts");
	for (size_t i = 0; i < ARRAY_LEN(prompt_rows); i++) {
		cJSON *item = cJSON_CreateObject(), *args;

		(void)cJSON_AddItemToArray(list, item);
		(void)cJSON_AddStringToObject(item, "name", prompt_rows[i].name);
		if (to->rev >= REV_2025_06_18)
			(void)cJSON_AddStringToObject(item, "title", prompt_rows[i].title);
		(void)cJSON_AddStringToObject(item, "description", prompt_rows[i].description);
		args = cJSON_AddArrayToObject(item, "arguments");
		for (size_t j = 0; j < ARRAY_LEN(prompt_args); j++) {
			cJSON *arg;

			if (strcmp(prompt_args[j].prompt, prompt_rows[i].name) != 0)
				continue;
			arg = cJSON_CreateObject();
			(void)cJSON_AddItemToArray(args, arg);
			(void)cJSON_AddStringToObject(arg, "name", prompt_args[j].name);
			(void)cJSON_AddStringToObject(arg, "description",
						      prompt_args[j].description);
			(void)cJSON_AddBoolToObject(arg, "required", prompt_args[j].required);
		}
	}
	result_send_cacheable(fe, to, result, TTL_MS, false);
}

/* NULL, or what is wrong with a prompt's arguments: strings, and all the required ones. */
static const char *
arguments_wrong(const char *prompt, const cJSON *arguments)
{
	const cJSON *item;

	if (arguments != NULL && !cJSON_IsObject(arguments))
		return "params.arguments must be an object of strings";
	cJSON_ArrayForEach(item, arguments)
	{
		if (!cJSON_IsString(item))
			return "params.arguments must be an object of strings";
	}
	for (size_t i = 0; i < ARRAY_LEN(prompt_args); i++) {
		if (prompt_args[i].required && strcmp(prompt_args[i].prompt, prompt) == 0 &&
		    args_text(arguments, prompt_args[i].name, NULL) == NULL)
			return "a required argument of this prompt is missing";
	}
	return NULL;
}

void
prompts_get(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(params, "name");
	const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(params, "arguments");
	struct prompt_request rq = {.fe = fe, .to = to, .params = params};
	cJSON *result, *messages;
	const char *wrong;
	size_t i = 0;

	if (!cJSON_IsString(name)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.name must be a string");
		return;
	}
	while (i < ARRAY_LEN(prompt_rows) && strcmp(prompt_rows[i].name, name->valuestring) != 0)
		i++;
	if (i == ARRAY_LEN(prompt_rows)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "no such prompt; see prompts/list");
		return;
	}
	if (cJSON_IsNull(arguments))
		arguments = NULL;
	wrong = arguments_wrong(prompt_rows[i].name, arguments);
	if (wrong != NULL) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "%s", wrong);
		return;
	}
	rq.arguments = arguments;
	messages = prompt_rows[i].build(&rq);
	if (messages == NULL)
		return;
	result = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(result, "description", prompt_rows[i].description);
	(void)cJSON_AddItemToObject(result, "messages", messages);
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
}

/* Nothing is completed; the request must be one, though. */
void
prompts_complete(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const cJSON *ref = cJSON_GetObjectItemCaseSensitive(params, "ref");
	const cJSON *argument = cJSON_GetObjectItemCaseSensitive(params, "argument");
	const cJSON *type = cJSON_GetObjectItemCaseSensitive(ref, "type");
	cJSON *result, *completion;

	if (!cJSON_IsString(type) || (strcmp(type->valuestring, "ref/prompt") != 0 &&
				      strcmp(type->valuestring, "ref/resource") != 0)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL,
			       "params.ref.type must be ref/prompt or ref/resource");
		return;
	}
	if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(argument, "name")) ||
	    !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(argument, "value"))) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL,
			       "params.argument must have the strings name and value");
		return;
	}
	result = cJSON_CreateObject();
	completion = cJSON_AddObjectToObject(result, "completion");
	(void)cJSON_AddArrayToObject(completion, "values");
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
}
