/*
 * tests/conformance/fixtures.c - the tools, prompts and resources that the official conformance
 * suite asks a server for: what they answer is the table fixtures.def.
 * Runs in: bailey-frontend of a build with BAILEY_CONFORMANCE; never shipped.
 * Input: untrusted params.
 * Owns: nothing.
 */
#include <string.h>

#include "fixtures.h"

#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define RPC_CAPABILITY (-32021)
#define ROUNDS_MAX 2u

static const struct fixed {
	const char *name;
	bool is_error;
	const char *content;
} fixed[] = {
#define FIXED(name, is_error, content) {#name, is_error, content},
#define ASK(name, round, state, key, method, capability, params)
#define REQUEST(name, capability, method, params)
#define TEXT(uri, type, text)
#define BLOB(uri, type, data)
#include "fixtures.def"
#undef FIXED
#undef ASK
#undef REQUEST
#undef TEXT
#undef BLOB
};

static const struct ask {
	const char *name;
	unsigned round;
	bool state;
	const char *key, *method, *capability, *params;
} asks[] = {
#define FIXED(name, is_error, content)
#define ASK(name, round, state, key, method, capability, params) \
	{#name, round, state, key, method, capability, params},
#define REQUEST(name, capability, method, params)
#define TEXT(uri, type, text)
#define BLOB(uri, type, data)
#include "fixtures.def"
#undef FIXED
#undef ASK
#undef REQUEST
#undef TEXT
#undef BLOB
};

/* ---- answers ---- */

static void
send_content(struct frontend *fe, const struct reply_to *to, cJSON *content, bool is_error)
{
	cJSON *result = cJSON_CreateObject();

	(void)cJSON_AddItemToObject(result, "content", content);
	if (is_error)
		(void)cJSON_AddTrueToObject(result, "isError");
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
}

static cJSON *
text_content(const char *text)
{
	cJSON *content = cJSON_CreateArray();
	cJSON *block = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(block, "type", "text");
	(void)cJSON_AddStringToObject(block, "text", text);
	(void)cJSON_AddItemToArray(content, block);
	return content;
}

void
tool_fixture(const struct tool_request *rq, enum tool_no tool)
{
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		if (strcmp(fixed[i].name, tool_rows[tool].name) == 0) {
			send_content(rq->fe, rq->to, cJSON_Parse(fixed[i].content),
				     fixed[i].is_error);
			return;
		}
	}
	send_content(rq->fe, rq->to, text_content("no such fixture"), true);
}

void
tool_fixture_progress(const struct tool_request *rq, enum tool_no tool)
{
	(void)tool;
	for (int done = 0; rq->token.kind != RPC_ID_NONE && done <= 100; done += 50) {
		cJSON *params = cJSON_CreateObject();

		(void)cJSON_AddItemToObject(params, "progressToken", rpc_id_json(&rq->token));
		(void)cJSON_AddNumberToObject(params, "progress", done);
		(void)cJSON_AddNumberToObject(params, "total", 100);
		rpc_send_notification(rq->fe, rq->to, "notifications/progress", params);
	}
	send_content(rq->fe, rq->to, text_content("three notifications of progress"), false);
}

/* A modern request says itself whether it wants to be told. */
void
tool_fixture_logging(const struct tool_request *rq, enum tool_no tool)
{
	bool wanted = rq->to->rev < REV_2026_07_28 || rq->to->log_level != LOG_NONE;

	(void)tool;
	for (int i = 1; wanted && i <= 3; i++) {
		cJSON *params = cJSON_CreateObject();

		(void)cJSON_AddStringToObject(params, "level", "info");
		(void)cJSON_AddStringToObject(params, "data", "a line of the log");
		rpc_send_notification(rq->fe, rq->to, "notifications/message", params);
	}
	send_content(rq->fe, rq->to, text_content("three lines of the log"), false);
}

/* ---- multi-round-trip requests ---- */

static bool
has_capability(const cJSON *params, const char *name)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(params, "_meta");
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(meta, META_CAPABILITIES);

	return cJSON_GetObjectItemCaseSensitive(all, name) != NULL;
}

void
tool_fixture_capability(const struct tool_request *rq, enum tool_no tool)
{
	struct reply_to to = *rq->to;
	cJSON *data;

	(void)tool;
	if (has_capability(rq->params, "sampling")) {
		send_content(rq->fe, rq->to, text_content("the capability is there"), false);
		return;
	}
	data = cJSON_CreateObject();
	(void)cJSON_AddObjectToObject(cJSON_AddObjectToObject(data, "requiredCapabilities"),
				      "sampling");
	to.refused = true;
	rpc_send_error(rq->fe, &to, RPC_CAPABILITY, data, "this tool needs sampling");
}

static void
state_of(const char *name, unsigned round, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%s-round-%u", name, round);
}

/* The round a request answers: 1 without a state; 0 for a state that is none of ours. */
static unsigned
round_of(const char *name, const cJSON *params)
{
	const cJSON *state = cJSON_GetObjectItemCaseSensitive(params, "requestState");
	char known[128];

	if (state == NULL)
		return 1;
	for (unsigned round = 1; cJSON_IsString(state) && round <= ROUNDS_MAX; round++) {
		state_of(name, round, known, sizeof(known));
		if (strcmp(known, state->valuestring) == 0)
			return round;
	}
	return 0;
}

/* An answer of the client's in the form its method has. */
static bool
answered(const struct ask *ask, const cJSON *params)
{
	const cJSON *responses = cJSON_GetObjectItemCaseSensitive(params, "inputResponses");
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(responses, ask->key);

	if (strcmp(ask->method, "elicitation/create") == 0)
		return cJSON_IsString(cJSON_GetObjectItemCaseSensitive(one, "action"));
	return cJSON_IsObject(one);
}

/* What is still to be asked in a round; NULL: nothing. */
static cJSON *
open_questions(const char *name, unsigned round, const cJSON *params, bool *ret_state)
{
	cJSON *requests = NULL;

	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		const struct ask *ask = &asks[i];
		cJSON *one;

		if (strcmp(ask->name, name) != 0 || ask->round != round ||
		    !has_capability(params, ask->capability) || answered(ask, params))
			continue;
		if (requests == NULL)
			requests = cJSON_CreateObject();
		one = cJSON_AddObjectToObject(requests, ask->key);
		(void)cJSON_AddStringToObject(one, "method", ask->method);
		(void)cJSON_AddItemToObject(one, "params", cJSON_Parse(ask->params));
		*ret_state = ask->state;
	}
	return requests;
}

/* true: an answer was sent, a question or a refusal. */
static bool
asked(struct frontend *fe, const struct reply_to *to, const char *name, const cJSON *params)
{
	unsigned round = round_of(name, params);
	cJSON *requests = NULL, *result;
	bool state = false;
	char text[128];

	if (round == 0) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.requestState is not valid");
		return true;
	}
	for (; requests == NULL && round <= ROUNDS_MAX; round++)
		requests = open_questions(name, round, params, &state);
	if (requests == NULL)
		return false;
	result = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(result, "resultType", "input_required");
	(void)cJSON_AddItemToObject(result, "inputRequests", requests);
	if (state) {
		state_of(name, round - 1, text, sizeof(text));
		(void)cJSON_AddStringToObject(result, "requestState", text);
	}
	rpc_send_result(fe, to, result);
	return true;
}

void
tool_fixture_ask(const struct tool_request *rq, enum tool_no tool)
{
	if (!asked(rq->fe, rq->to, tool_rows[tool].name, rq->params))
		send_content(rq->fe, rq->to, text_content("state-ok: all was answered"), false);
}

/* ---- requests of our own to a legacy client ---- */

static const struct {
	const char *name;
	enum client_can capability;
	const char *method, *params;
} requests[] = {
#define FIXED(name, is_error, content)
#define ASK(name, round, state, key, method, capability, params)
#define REQUEST(name, capability, method, params) {#name, capability, method, params},
#define TEXT(uri, type, text)
#define BLOB(uri, type, data)
#include "fixtures.def"
#undef FIXED
#undef ASK
#undef REQUEST
#undef TEXT
#undef BLOB
};

static void
on_answer(struct frontend *fe, const struct reply_to *to, const cJSON *result, void *arg)
{
	char *json = result == NULL ? NULL : cJSON_PrintUnformatted(result);

	(void)arg;
	send_content(fe, to, text_content(json == NULL ? "no answer" : json), json == NULL);
	cJSON_free(json);
}

/* The words that the caller gave go where a row has its question. */
static void
put_words(cJSON *params, const cJSON *args)
{
	cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(params, "messages"), 0);
	cJSON *content = cJSON_GetObjectItemCaseSensitive(first, "content");

	if (content != NULL)
		(void)cJSON_ReplaceItemInObjectCaseSensitive(
			content, "text", cJSON_CreateString(args_text(args, "prompt", "?")));
	else if (args_text(args, "message", NULL) != NULL)
		(void)cJSON_ReplaceItemInObjectCaseSensitive(
			params, "message", cJSON_CreateString(args_text(args, "message", "")));
}

void
tool_fixture_request(const struct tool_request *rq, enum tool_no tool)
{
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		cJSON *params;

		if (strcmp(requests[i].name, tool_rows[tool].name) != 0)
			continue;
		params = cJSON_Parse(requests[i].params);
		put_words(params, rq->args);
		if (asks_send(rq->fe, rq->to, requests[i].capability, requests[i].method, params,
			      on_answer, NULL) == 0)
			return;
	}
	send_content(rq->fe, rq->to, text_content("this client cannot be asked"), true);
}

/* ---- prompts ---- */

/* A message of the user whose one block is returned. */
static cJSON *
add_message(cJSON *messages, const char *type)
{
	cJSON *message = cJSON_CreateObject(), *content;

	(void)cJSON_AddItemToArray(messages, message);
	(void)cJSON_AddStringToObject(message, "role", "user");
	content = cJSON_AddObjectToObject(message, "content");
	(void)cJSON_AddStringToObject(content, "type", type);
	return content;
}

cJSON *
prompt_fixture_simple(const struct prompt_request *rq)
{
	cJSON *messages = cJSON_CreateArray();

	(void)rq;
	(void)cJSON_AddStringToObject(add_message(messages, "text"), "text",
				      "One simple sentence.");
	return messages;
}

cJSON *
prompt_fixture_arguments(const struct prompt_request *rq)
{
	cJSON *messages = cJSON_CreateArray();
	cleanup_free char *text =
		xasprintf("The words %s and %s.", args_text(rq->arguments, "arg1", ""),
			  args_text(rq->arguments, "arg2", ""));

	(void)cJSON_AddStringToObject(add_message(messages, "text"), "text", text);
	return messages;
}

cJSON *
prompt_fixture_resource(const struct prompt_request *rq)
{
	cJSON *messages = cJSON_CreateArray();
	cJSON *resource = cJSON_AddObjectToObject(add_message(messages, "resource"), "resource");

	(void)cJSON_AddStringToObject(resource, "uri", args_text(rq->arguments, "resourceUri", ""));
	(void)cJSON_AddStringToObject(resource, "mimeType", "text/plain");
	(void)cJSON_AddStringToObject(resource, "text", "Text of an embedded resource.");
	(void)cJSON_AddStringToObject(add_message(messages, "text"), "text", "What does it say?");
	return messages;
}

cJSON *
prompt_fixture_image(const struct prompt_request *rq)
{
	cJSON *messages = cJSON_CreateArray();
	cJSON *image = add_message(messages, "image");

	(void)rq;
	(void)cJSON_AddStringToObject(image, "mimeType", "image/png");
	(void)cJSON_AddStringToObject(image, "data", PNG);
	(void)cJSON_AddStringToObject(add_message(messages, "text"), "text", "What does it show?");
	return messages;
}

cJSON *
prompt_fixture_ask(const struct prompt_request *rq)
{
	cJSON *messages;

	if (asked(rq->fe, rq->to, "test_input_required_result_prompt", rq->params))
		return NULL;
	messages = cJSON_CreateArray();
	(void)cJSON_AddStringToObject(add_message(messages, "text"), "text", "All was answered.");
	return messages;
}

/* ---- resources ---- */

static const struct {
	const char *uri, *type, *kind, *data;
} contents[] = {
#define FIXED(name, is_error, content)
#define ASK(name, round, state, key, method, capability, params)
#define REQUEST(name, capability, method, params)
#define TEXT(uri, type, text) {uri, type, "text", text},
#define BLOB(uri, type, data) {uri, type, "blob", data},
#include "fixtures.def"
#undef FIXED
#undef ASK
#undef REQUEST
#undef TEXT
#undef BLOB
};

static void
send_resource(struct frontend *fe, const struct reply_to *to, const char *uri, const char *type,
	      const char *kind, const char *data)
{
	cJSON *result = cJSON_CreateObject(), *item = cJSON_CreateObject();

	(void)cJSON_AddItemToArray(cJSON_AddArrayToObject(result, "contents"), item);
	(void)cJSON_AddStringToObject(item, "uri", uri);
	(void)cJSON_AddStringToObject(item, "mimeType", type);
	(void)cJSON_AddStringToObject(item, kind, data);
	result_send_cacheable(fe, to, result, 0, true);
}

void
resource_fixture(struct frontend *fe, const struct reply_to *to, const char *uri, const char *rest)
{
	(void)rest;
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		if (strcmp(contents[i].uri, uri) == 0)
			send_resource(fe, to, uri, contents[i].type, contents[i].kind,
				      contents[i].data);
	}
}

void
resource_fixture_template(struct frontend *fe, const struct reply_to *to, const char *uri,
			  const char *rest)
{
	cleanup_free char *text = xasprintf("{\"id\":\"%.*s\"}", (int)strcspn(rest, "/"), rest);

	send_resource(fe, to, uri, "application/json", "text", text);
}
