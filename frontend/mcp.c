/*
 * frontend/mcp.c - MCP methods for all revisions.
 * Runs in: bailey-frontend.
 * Input: untrusted messages.
 * Owns: the negotiated revision (in struct frontend).
 *
 * Which revision a request belongs to is era.c's to say; both eras may come on
 * one connection. A legacy request before initialize is answered as the newest
 * legacy revision has it.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define META_LOG_LEVEL "io.modelcontextprotocol/logLevel"
#define LIST_TTL_MS 3600000         /* lists change with the program only */
#define BIG_TEXT ((size_t)64 << 10) /* a message whose memory is worth giving back */

static const char instructions[] =
	"Runs code and shell commands in locked-down containers without network. execute_code "
	"(Python, Bash, Node) and execute_sandboxed_command start each call in a fresh sandbox: "
	"files and variables of an earlier call are gone. For several steps on the same files or "
	"variables make a sandbox with container_create_sandbox and use its sandbox_id with "
	"container_exec_command, container_read_file, container_write_file, container_list_files "
	"and sandbox_eval; destroy it when done. inspect_logs reads the output of background and "
	"earlier runs. Use check_sandbox_health when calls fail as engine_unavailable, "
	"image_unavailable or busy.";

/* ---- methods ---- */

static void
add_identity(cJSON *result, enum mcp_rev rev)
{
	cJSON *capabilities = cJSON_AddObjectToObject(result, "capabilities");

	(void)cJSON_AddObjectToObject(capabilities, "tools");
	(void)cJSON_AddObjectToObject(capabilities, "resources");
	(void)cJSON_AddObjectToObject(capabilities, "prompts");
	(void)cJSON_AddObjectToObject(capabilities, "logging");
	if (rev >= REV_2025_03_26)
		(void)cJSON_AddObjectToObject(capabilities, "completions");
	(void)cJSON_AddStringToObject(result, "instructions", instructions);
}

static void
on_initialize(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	const cJSON *asked = cJSON_GetObjectItemCaseSensitive(params, "protocolVersion");
	cJSON *result, *server;

	if (!cJSON_IsString(asked)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.protocolVersion must be a string");
		return;
	}
	if (to->batch != 0 && client_has_sessions(fe)) {
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "initialize must come alone");
		return;
	}
	fe->negotiated = mcp_rev_find(asked->valuestring);
	if (fe->negotiated == REV_NONE || fe->negotiated > NEWEST_LEGACY)
		fe->negotiated = NEWEST_LEGACY;
	fe->client_can =
		asks_capabilities(cJSON_GetObjectItemCaseSensitive(params, "capabilities"));
	result = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(result, "protocolVersion", mcp_rev_name(fe->negotiated));
	server = cJSON_AddObjectToObject(result, "serverInfo");
	(void)cJSON_AddStringToObject(server, "name", "bailey");
	if (fe->negotiated >= REV_2025_06_18)
		(void)cJSON_AddStringToObject(server, "title", "Bailey sandboxes");
	(void)cJSON_AddStringToObject(server, "version", BAILEY_VERSION);
	add_identity(result, fe->negotiated);
	client_open_session(fe);
	rpc_send_result(fe, to, result);
}

static void
on_discover(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	cJSON *result = cJSON_CreateObject();
	cJSON *versions = cJSON_AddArrayToObject(result, "supportedVersions");

	(void)params;
	(void)cJSON_AddItemToArray(versions, cJSON_CreateString(mcp_rev_name(REV_2026_07_28)));
	add_identity(result, to->rev);
	result_send_cacheable(fe, to, result, LIST_TTL_MS, false);
}

static void
on_ping(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	(void)params;
	rpc_send_result(fe, to, cJSON_CreateObject()); /* exactly {} */
}

bool
mcp_cursor_refused(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const cJSON *cursor = cJSON_GetObjectItemCaseSensitive(params, "cursor");

	if (cursor == NULL || cJSON_IsNull(cursor))
		return false;
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "invalid cursor"); /* none was ever given out */
	return true;
}

static void
on_tools_list(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	cJSON *result, *list;

	upcalls_warm(fe);
	if (mcp_cursor_refused(fe, to, params))
		return;
	result = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(result, "tools");
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (tool_rows[i].listed)
			(void)cJSON_AddItemToArray(list, schema_tool((enum tool_no)i, to->rev));
	}
	result_send_cacheable(fe, to, result, LIST_TTL_MS, false);
}

static void
on_tools_call(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	if (call_find_id(fe, &to->id) != NULL)
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "a request with this id is in flight");
	else
		tools_call(fe, to, params);
}

static const struct {
	const char *method;
	enum era eras;
	method_handler handler;
} methods[] = {
	{"completion/complete", BOTH, prompts_complete},
	{"initialize", LEGACY, on_initialize},
	{"logging/setLevel", LEGACY, notify_set_level},
	{"ping", LEGACY, on_ping},
	{"prompts/get", BOTH, prompts_get},
	{"prompts/list", BOTH, prompts_list},
	{"resources/list", BOTH, resources_list},
	{"resources/read", BOTH, resources_read},
	{"resources/subscribe", LEGACY, resources_subscribe},
	{"resources/templates/list", BOTH, resources_templates},
	{"resources/unsubscribe", LEGACY, resources_subscribe},
	{"server/discover", MODERN, on_discover},
	{"tools/call", BOTH, on_tools_call},
	{"tools/list", BOTH, on_tools_list},
};

/* ---- messages ---- */

/* A modern request says for itself what it wants logged; false: an error was sent. */
static bool
log_level_ok(struct frontend *fe, struct reply_to *to, const cJSON *params)
{
	const cJSON *level = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(params, "_meta"), META_LOG_LEVEL);

	if (level == NULL || notify_level(level, &to->log_level) == 0)
		return true;
	to->refused = true; /* as for the rest of the envelope */
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "_meta " META_LOG_LEVEL " must be a log level");
	return false;
}

static void
on_request(struct frontend *fe, struct reply_to *to, const struct rpc_message *message)
{
	unsigned era = era_of(fe, to, message);

	if (era == 0)
		return;
	if (era == LEGACY)
		client_tag(fe, &to->id, to->tag);
	if (era == MODERN && to->batch != 0) {
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "this protocol version has no batches");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (((unsigned)methods[i].eras & era) == 0 ||
		    strcmp(methods[i].method, message->method) != 0)
			continue;
		if (era == LEGACY || (era_envelope_ok(fe, to, message->params) &&
				      log_level_ok(fe, to, message->params)))
			methods[i].handler(fe, to, message->params);
		return;
	}
	rpc_send_error(fe, to, RPC_METHOD, NULL, "Method not found");
}

static void
on_notification(struct frontend *fe, const struct rpc_message *message)
{
	struct rpc_id id = {.kind = RPC_ID_NONE};
	struct call *c;

	if (strcmp(message->method, "notifications/cancelled") != 0)
		return; /* initialized, roots/list_changed and what else may come: nothing to do */
	if (rpc_read_id(cJSON_GetObjectItemCaseSensitive(message->params, "requestId"), &id) < 0)
		return;
	c = call_find_id(fe, &id);
	if (c != NULL)
		call_event(c, EV_CANCEL, NULL);
	else
		client_cancel(fe, &id); /* on another connection of the session, perhaps */
}

/* One message; batch 0 when it came alone. */
static void
on_json(struct frontend *fe, const cJSON *json, uint64_t batch)
{
	struct reply_to to = {.rev = era_assumed(fe), .batch = batch};
	struct rpc_message message;
	const char *why;
	int code;

	if (rpc_read(json, &message, &code, &why) < 0) {
		to.id = message.id;
		to.refused = true;
		rpc_send_error(fe, &to, code, NULL, "Invalid request: %s", why);
		return;
	}
	if (message.kind == RPC_KIND_REQUEST) {
		to.id = message.id;
		on_request(fe, &to, &message);
		return;
	}
	/* a notification is refused only where a transport has a status for it */
	if (fe->transport->side != NULL && era_of(fe, &to, &message) == 0)
		return;
	if (message.kind == RPC_KIND_NOTIFICATION)
		on_notification(fe, &message);
	else
		asks_response(fe, json);
	rpc_send_nothing(fe, &to);
}

static void
on_batch(struct frontend *fe, const cJSON *json)
{
	struct reply_to to = {.rev = era_assumed(fe), .refused = true};
	int n = cJSON_GetArraySize(json);
	const cJSON *item;
	uint64_t batch;

	if (fe->negotiated == REV_NONE || fe->negotiated > REV_2025_03_26) {
		rpc_send_error(fe, &to, RPC_REQUEST, NULL,
			       "Invalid request: this protocol version has no batches");
		return;
	}
	if (n == 0 || (unsigned)n > BATCH_MAX) {
		rpc_send_error(fe, &to, RPC_REQUEST, NULL,
			       "Invalid request: a batch has 1 to %u elements", BATCH_MAX);
		return;
	}
	batch = rpc_batch_open(fe, (size_t)n, to.rev);
	cJSON_ArrayForEach(item, json) on_json(fe, item, batch);
}

/* What the gate refused: answered with its id where that could be read. */
static void
on_refused(struct frontend *fe, const char *text, const struct json_lint *lint)
{
	struct reply_to to = {.rev = era_assumed(fe), .refused = true};
	char id_text[RPC_ID_MAX * 6 + 3];
	cJSON *id = NULL;

	if (!lint->grammar && lint->id_len > 0 && lint->id_len < sizeof(id_text)) {
		memcpy(id_text, text + lint->id_at, lint->id_len);
		id_text[lint->id_len] = '\0';
		id = rpc_parse(id_text, lint->id_len);
	}
	if (id != NULL && rpc_read_id(id, &to.id) == 0)
		rpc_send_error(fe, &to, RPC_PARAMS, NULL, "Invalid params: %s (byte %zu)",
			       lint->why, lint->at);
	else
		rpc_send_error(fe, &to, RPC_PARSE, NULL, "Parse error: %s (byte %zu)", lint->why,
			       lint->at);
	cJSON_Delete(id);
	if (log_allowed(&fe->client_log, LOG_LINES_PER_10S))
		log_info("refused a message: %s", lint->why);
}

void
mcp_on_message(void *ctx, char *text, size_t len)
{
	struct frontend *fe = ctx;
	struct json_lint lint;
	cJSON *json;

	if (len >= BIG_TEXT)
		memory_used(fe);
	if (jsonlint(text, len, &lint) < 0) {
		on_refused(fe, text, &lint);
		return;
	}
	json = rpc_parse_long(text, len, &lint, JSON_LONG_BYTES);
	if (json == NULL) {
		struct reply_to to = {.rev = era_assumed(fe)};

		rpc_send_error(fe, &to, RPC_INTERNAL, NULL, "no memory for this message");
		return;
	}
	if (cJSON_IsArray(json))
		on_batch(fe, json);
	else
		on_json(fe, json, 0);
	cJSON_Delete(json);
}

void
mcp_on_oversize(void *ctx)
{
	struct frontend *fe = ctx;
	struct reply_to to = {.rev = era_assumed(fe)};

	memory_used(fe);
	rpc_send_error(fe, &to, RPC_PARSE, NULL, "Parse error: a message has more than %zu bytes",
		       MESSAGE_MAX);
	if (log_allowed(&fe->client_log, LOG_LINES_PER_10S))
		log_info("refused a message of more than %zu bytes", MESSAGE_MAX);
}

void
mcp_send_progress(struct frontend *fe, const struct reply_to *to, const struct rpc_id *token,
		  uint64_t progress, const char *message)
{
	cJSON *params = cJSON_CreateObject();

	(void)cJSON_AddItemToObject(params, "progressToken", rpc_id_json(token));
	(void)cJSON_AddNumberToObject(params, "progress", (double)progress);
	if (to->rev >= REV_2025_03_26)
		(void)cJSON_AddStringToObject(params, "message", message);
	rpc_send_notification(fe, to, "notifications/progress", params);
}
