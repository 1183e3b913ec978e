/*
 * frontend/era.c - which revision a message belongs to, and whether its headers agree.
 * Runs in: bailey-frontend.
 * Input: untrusted messages and, over http, the headers beside them.
 * Owns: nothing.
 *
 * A request whose _meta names a revision is modern and stands alone; any other
 * is legacy and belongs to what initialize opened: the connection, or over http
 * the session. Over http the headers of a modern request repeat parts of it for
 * whatever stands in between; a difference would mean that two readers see two
 * requests, so it is refused.
 */
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define NAME_MAX_BYTES ((size_t)8192) /* of what Mcp-Name repeats; the head has 16 KiB */

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

enum mcp_rev
mcp_rev_find(const char *name)
{
	for (int i = REV_NONE + 1; i < REV_COUNT; i++) {
		if (strcmp(rev_names[i], name) == 0)
			return (enum mcp_rev)i;
	}
	return REV_NONE;
}

enum mcp_rev
era_assumed(const struct frontend *fe)
{
	return fe->negotiated == REV_NONE ? NEWEST_LEGACY : fe->negotiated;
}

static const cJSON *
meta_version(const cJSON *params)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(params, "_meta"),
						META_VERSION);
}

/* ---- the envelope ---- */

static void
send_versions(struct frontend *fe, const struct reply_to *to, const char *asked)
{
	cJSON *data = cJSON_CreateObject();
	cJSON *supported = cJSON_AddArrayToObject(data, "supported");

	(void)cJSON_AddItemToArray(supported, cJSON_CreateString(rev_names[REV_2026_07_28]));
	(void)cJSON_AddStringToObject(data, "requested", asked);
	rpc_send_error(fe, to, RPC_VERSION, data, "unsupported protocol version");
}

bool
era_envelope_ok(struct frontend *fe, struct reply_to *to, const cJSON *params)
{
	const cJSON *version = meta_version(params);
	const cJSON *capabilities = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(params, "_meta"), META_CAPABILITIES);

	to->refused = true;
	if (!cJSON_IsString(version))
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "_meta " META_VERSION " must be a string");
	else if (mcp_rev_find(version->valuestring) != REV_2026_07_28)
		send_versions(fe, to, version->valuestring);
	else if (!cJSON_IsObject(capabilities))
		rpc_send_error(fe, to, RPC_PARAMS, NULL,
			       "_meta " META_CAPABILITIES " must be an object");
	else
		to->refused = false;
	return !to->refused;
}

/* ---- headers ---- */

static const struct {
	const char *method, *param;
} named[] = {
	/* whose parameter Mcp-Name repeats */
	{"prompts/get", "name"},
	{"resources/read", "uri"},
	{"tools/call", "name"},
};

static bool
header_error(struct frontend *fe, const struct reply_to *to, const char *header)
{
	rpc_send_error(fe, to, RPC_HEADER, NULL,
		       "the header %s is missing or differs from the message", header);
	return false;
}

/* header is value, plain or in the form for what a header cannot hold. */
static bool
name_equal(const char *header, const char *value)
{
	size_t n = strlen(value);
	struct buf coded;
	bool equal;

	if (strcmp(header, value) == 0)
		return true;
	if (n > NAME_MAX_BYTES)
		return false;
	buf_init(&coded, NAME_MAX_BYTES * 2);
	equal = buf_append(&coded, "=?base64?", 9) == 0 &&
		base64_append(&coded, (const uint8_t *)value, n) == 0 &&
		buf_append(&coded, "?=", 3) == 0 &&
		strcmp(header, (const char *)buf_data(&coded)) == 0;
	buf_done(&coded);
	return equal;
}

static bool
name_ok(const struct message_side *side, const struct rpc_message *message)
{
	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		const cJSON *value;

		if (strcmp(named[i].method, message->method) != 0)
			continue;
		value = cJSON_GetObjectItemCaseSensitive(message->params, named[i].param);
		if (cJSON_IsString(value)) /* else the method refuses it */
			return side->name != NULL && name_equal(side->name, value->valuestring);
	}
	return true;
}

static bool
modern_headers_ok(struct frontend *fe, const struct reply_to *to, const struct rpc_message *message)
{
	const struct message_side *side = fe->transport->side;
	const cJSON *version = meta_version(message->params);

	if (cJSON_IsString(version) &&
	    (side->version == NULL || strcmp(side->version, version->valuestring) != 0))
		return header_error(fe, to, "MCP-Protocol-Version");
	if (message->method == NULL || side->method == NULL ||
	    strcmp(side->method, message->method) != 0)
		return header_error(fe, to, "Mcp-Method");
	return name_ok(side, message) || header_error(fe, to, "Mcp-Name");
}

static bool
legacy_headers_ok(struct frontend *fe, const struct reply_to *to, bool initialize)
{
	const struct message_side *side = fe->transport->side;
	enum mcp_rev rev = side->version == NULL ? REV_NONE : mcp_rev_find(side->version);

	if (rev > NEWEST_LEGACY)
		return header_error(fe, to, "MCP-Protocol-Version");
	if (side->version != NULL && rev == REV_NONE)
		rpc_send_error(fe, to, RPC_REQUEST, NULL,
			       "MCP-Protocol-Version names no revision this server has");
	else if (!initialize && fe->client.session[0] == '\0')
		rpc_send_error(fe, to, RPC_REQUEST, NULL,
			       "the header Mcp-Session-Id is missing; initialize gives one");
	else
		return true;
	return false;
}

unsigned
era_of(struct frontend *fe, struct reply_to *to, const struct rpc_message *message)
{
	const struct message_side *side = fe->transport->side;
	bool initialize = message->method != NULL && strcmp(message->method, "initialize") == 0;
	bool modern = meta_version(message->params) != NULL;

	/* without an envelope the header says what was meant, and what is missing */
	if (side != NULL && side->version != NULL && !initialize &&
	    mcp_rev_find(side->version) > NEWEST_LEGACY)
		modern = true;
	to->rev = modern ? REV_2026_07_28 : era_assumed(fe);
	if (side != NULL) {
		to->refused = true;
		if (!(modern ? modern_headers_ok(fe, to, message)
			     : legacy_headers_ok(fe, to, initialize)))
			return 0;
		to->refused = false;
	}
	return modern ? MODERN : LEGACY;
}
