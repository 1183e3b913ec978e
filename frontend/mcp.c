/*
 * frontend/mcp.c - MCP methods for all revisions, the era told by each message.
 * Runs in: bailey-frontend.
 * Input: untrusted messages.
 * Owns: the negotiated revision (in struct frontend).
 *
 * A request whose _meta names a revision is modern and stands alone; any other
 * belongs to the connection that initialize opened. Both may come on one
 * connection. A legacy request before initialize is answered as the newest
 * legacy revision has it.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define NEWEST_LEGACY REV_2025_11_25
#define LIST_TTL_MS 3600000 /* lists change with the program only */
#define SHOWN_MAX 64u

enum era { LEGACY = 1, MODERN = 2, BOTH = 3 };

static const char instructions[] =
	"Runs code and shell commands in throw-away containers without network. Each call starts "
	"in a fresh sandbox: files and variables of an earlier call are gone. Put all steps that "
	"belong together into one call. Use execute_code for Python, Bash or Node programs, "
	"execute_sandboxed_command for one shell command, check_sandbox_health when calls fail as "
	"engine_unavailable, image_unavailable or busy.";

static const char *const rev_names[REV_COUNT] = {
	[REV_NONE] = "",
	[REV_2024_11_05] = "2024-11-05",
	[REV_2025_03_26] = "2025-03-26",
	[REV_2025_06_18] = "2025-06-18",
	[REV_2025_11_25] = "2025-11-25",
	[REV_2026_07_28] = "2026-07-28",
};

const char *
mcp_rev_name(enum mcp_rev rev)
{
	return rev_names[rev];
}

static enum mcp_rev
rev_find(const char *name)
{
	for (int i = REV_NONE + 1; i < REV_COUNT; i++) {
		if (strcmp(rev_names[i], name) == 0)
			return (enum mcp_rev)i;
	}
	return REV_NONE;
}

/* What this connection speaks where a message does not say. */
static enum mcp_rev
rev_assumed(const struct frontend *fe)
{
	return fe->negotiated == REV_NONE ? NEWEST_LEGACY : fe->negotiated;
}

/* ---- methods ---- */

static void
add_identity(cJSON *result, enum mcp_rev rev)
{
	cJSON *capabilities = cJSON_AddObjectToObject(result, "capabilities");

	(void)cJSON_AddObjectToObject(capabilities, "tools");
	(void)cJSON_AddStringToObject(result, "instructions", instructions);
	(void)rev;
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
	fe->negotiated = rev_find(asked->valuestring);
	if (fe->negotiated == REV_NONE || fe->negotiated > NEWEST_LEGACY)
		fe->negotiated = NEWEST_LEGACY;
	result = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(result, "protocolVersion", rev_names[fe->negotiated]);
	server = cJSON_AddObjectToObject(result, "serverInfo");
	(void)cJSON_AddStringToObject(server, "name", "bailey");
	if (fe->negotiated >= REV_2025_06_18)
		(void)cJSON_AddStringToObject(server, "title", "Bailey sandboxes");
	(void)cJSON_AddStringToObject(server, "version", BAILEY_VERSION);
	add_identity(result, fe->negotiated);
	rpc_send_result(fe, to, result);
}

/* Results that a client may keep: what says for how long. */
static void
send_cacheable(struct frontend *fe, const struct reply_to *to, cJSON *result)
{
	if (to->rev == REV_2026_07_28) {
		(void)cJSON_AddNumberToObject(result, "ttlMs", LIST_TTL_MS);
		(void)cJSON_AddStringToObject(result, "cacheScope", "public");
	}
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
}

static void
on_discover(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	cJSON *result = cJSON_CreateObject();
	cJSON *versions = cJSON_AddArrayToObject(result, "supportedVersions");

	(void)params;
	(void)cJSON_AddItemToArray(versions, cJSON_CreateString(rev_names[REV_2026_07_28]));
	add_identity(result, to->rev);
	send_cacheable(fe, to, result);
}

/* ping, logging/setLevel: the answer is exactly {} */
static void
send_empty(struct frontend *fe, const struct reply_to *to)
{
	rpc_send_result(fe, to, cJSON_CreateObject());
}

static void
on_ping(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	(void)params;
	send_empty(fe, to);
}

static void
on_set_level(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	static const char *const levels[] = {"debug", "info",     "notice", "warning",
					     "error", "critical", "alert",  "emergency"};
	const cJSON *level = cJSON_GetObjectItemCaseSensitive(params, "level");

	for (size_t i = 0; cJSON_IsString(level) && i < ARRAY_LEN(levels); i++) {
		if (strcmp(level->valuestring, levels[i]) == 0) {
			send_empty(fe, to); /* nothing is logged to clients */
			return;
		}
	}
	rpc_send_error(
		fe, to, RPC_PARAMS, NULL,
		"params.level must be one of: debug, info, notice, warning, error, critical, "
		"alert, emergency");
}

/* Lists have one page: no cursor was ever given out. */
static bool
cursor_refused(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	const cJSON *cursor = cJSON_GetObjectItemCaseSensitive(params, "cursor");

	if (cursor == NULL || cJSON_IsNull(cursor))
		return false;
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "invalid cursor");
	return true;
}

static void
on_tools_list(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	cJSON *result, *list;

	upcalls_warm(fe);
	if (cursor_refused(fe, to, params))
		return;
	result = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(result, "tools");
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (tool_rows[i].listed)
			(void)cJSON_AddItemToArray(list, schema_tool((enum tool_no)i, to->rev));
	}
	send_cacheable(fe, to, result);
}

static void
empty_list(struct frontend *fe, const struct reply_to *to, const cJSON *params, const char *name)
{
	cJSON *result;

	if (cursor_refused(fe, to, params))
		return;
	result = cJSON_CreateObject();
	(void)cJSON_AddArrayToObject(result, name);
	send_cacheable(fe, to, result);
}

static void
on_resources_list(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	empty_list(fe, to, params, "resources");
}

static void
on_templates_list(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	empty_list(fe, to, params, "resourceTemplates");
}

static void
on_prompts_list(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	empty_list(fe, to, params, "prompts");
}

static void
on_complete(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	cJSON *result = cJSON_CreateObject();
	cJSON *completion = cJSON_AddObjectToObject(result, "completion");

	(void)params;
	(void)cJSON_AddArrayToObject(completion, "values");
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
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
	void (*handler)(struct frontend *fe, const struct reply_to *to, const cJSON *params);
} methods[] = {
	{"completion/complete", BOTH, on_complete},
	{"initialize", LEGACY, on_initialize},
	{"logging/setLevel", LEGACY, on_set_level},
	{"ping", LEGACY, on_ping},
	{"prompts/list", BOTH, on_prompts_list},
	{"resources/list", BOTH, on_resources_list},
	{"resources/templates/list", BOTH, on_templates_list},
	{"server/discover", MODERN, on_discover},
	{"tools/call", BOTH, on_tools_call},
	{"tools/list", BOTH, on_tools_list},
};

/* ---- era ---- */

static void
send_versions(struct frontend *fe, const struct reply_to *to, const char *asked)
{
	cJSON *data = cJSON_CreateObject();
	cJSON *supported = cJSON_AddArrayToObject(data, "supported");

	(void)cJSON_AddItemToArray(supported, cJSON_CreateString(rev_names[REV_2026_07_28]));
	(void)cJSON_AddStringToObject(data, "requested", asked);
	rpc_send_error(fe, to, RPC_VERSION, data, "unsupported protocol version");
}

static const cJSON *
meta_version(const cJSON *params)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(params, "_meta"),
						META_VERSION);
}

/* true when the envelope is whole; else the error was sent. */
static bool
envelope_ok(struct frontend *fe, const struct reply_to *to, const cJSON *params)
{
	const cJSON *version = meta_version(params);
	const cJSON *capabilities = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(params, "_meta"), META_CAPABILITIES);

	if (!cJSON_IsString(version))
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "_meta " META_VERSION " must be a string");
	else if (rev_find(version->valuestring) != REV_2026_07_28)
		send_versions(fe, to, version->valuestring);
	else if (!cJSON_IsObject(capabilities))
		rpc_send_error(fe, to, RPC_PARAMS, NULL,
			       "_meta " META_CAPABILITIES " must be an object");
	else
		return true;
	return false;
}

static void
on_request(struct frontend *fe, struct reply_to *to, const struct rpc_message *message)
{
	enum era era = meta_version(message->params) != NULL ? MODERN : LEGACY;

	to->rev = era == MODERN ? REV_2026_07_28 : rev_assumed(fe);
	if (era == MODERN && to->batch != 0) {
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "this protocol version has no batches");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if ((methods[i].eras & era) == 0 || strcmp(methods[i].method, message->method) != 0)
			continue;
		if (era == LEGACY || envelope_ok(fe, to, message->params))
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
}

/* ---- messages ---- */

/* One message; batch 0 when it came alone. */
static void
on_json(struct frontend *fe, const cJSON *json, uint64_t batch)
{
	struct reply_to to = {.rev = rev_assumed(fe), .batch = batch};
	struct rpc_message message;
	const char *why;
	int code;

	if (rpc_read(json, &message, &code, &why) < 0) {
		to.id = message.id;
		rpc_send_error(fe, &to, code, NULL, "Invalid request: %s", why);
		return;
	}
	if (message.kind == RPC_KIND_REQUEST) {
		to.id = message.id;
		on_request(fe, &to, &message);
		return;
	}
	/* a response: we asked nothing */
	if (message.kind == RPC_KIND_NOTIFICATION)
		on_notification(fe, &message);
	if (batch != 0)
		rpc_batch_skip(fe, batch);
}

static void
on_batch(struct frontend *fe, const cJSON *json)
{
	struct reply_to to = {.rev = rev_assumed(fe)};
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
	batch = rpc_batch_open(fe, (size_t)n);
	cJSON_ArrayForEach(item, json) on_json(fe, item, batch);
}

/* What the gate refused: answered with its id where that could be read. */
static void
on_refused(struct frontend *fe, const char *text, const struct json_lint *lint)
{
	struct reply_to to = {.rev = rev_assumed(fe)};
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

	if (jsonlint(text, len, &lint) < 0) {
		on_refused(fe, text, &lint);
		return;
	}
	json = rpc_parse(text, len);
	if (json == NULL) {
		struct reply_to to = {.rev = rev_assumed(fe)};

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
	struct reply_to to = {.rev = rev_assumed(fe)};

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
