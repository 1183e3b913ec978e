/*
 * tests/unit/test_frontend_era.c - the era of a message, and headers that must agree with it.
 * Runs in: ctest.
 * Input: none.
 * Owns: the frontend of frontend_fake.h, per test.
 */
#include "frontend_fake.h"

#define META(version)                                                         \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" version "," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN_META META("\"2026-07-28\"")
#define SESSION "0123456789abcdef0123456789abcdef0123456789abcdef"

static void
test_era_revisions(void **state)
{
	(void)state;
	for (int i = REV_NONE + 1; i < REV_COUNT; i++)
		assert_int_equal(mcp_rev_find(mcp_rev_name((enum mcp_rev)i)), i);
	assert_int_equal(mcp_rev_find("2024-10-07"), REV_NONE);
	assert_int_equal(mcp_rev_find(""), REV_NONE);
	assert_int_equal(era_assumed(&fe), REV_2025_11_25);
	fe.negotiated = REV_2024_11_05;
	assert_int_equal(era_assumed(&fe), REV_2024_11_05);
}

struct header_case {
	const char *text;                    /* the message */
	const char *version, *method, *name; /* headers */
	bool session;
	unsigned era; /* 0: refused … */
	int code;     /* … with this */
};

#define CALL(params) \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{" params "}}"
#define LIST "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"
#define LIST_MODERN \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" MODERN_META "}}"
#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}"
#define INIT "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}"
#define V "2026-07-28"
static const struct header_case cases[] = {
	/* legacy */
	{LIST, NULL, NULL, NULL, true, LEGACY, 0},
	{LIST, "2025-11-25", NULL, NULL, true, LEGACY, 0},
	{LIST, "2024-11-05", "other/method", NULL, true, LEGACY, 0}, /* not looked at there */
	{LIST, NULL, NULL, NULL, false, 0, RPC_REQUEST},
	{LIST, "2025-11-25", NULL, NULL, false, 0, RPC_REQUEST},
	{LIST, "1999-01-01", NULL, NULL, true, 0, RPC_REQUEST},
	{LIST, "", NULL, NULL, true, 0, RPC_REQUEST},
	{NOTE, NULL, NULL, NULL, true, LEGACY, 0},
	{NOTE, NULL, NULL, NULL, false, 0, RPC_REQUEST},
	{INIT, NULL, NULL, NULL, false, LEGACY, 0},
	{INIT, "2025-06-18", NULL, NULL, false, LEGACY, 0},
	{INIT, V, "initialize", NULL, false, 0, RPC_HEADER},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", NULL, NULL, NULL, true, LEGACY, 0},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", NULL, NULL, NULL, false, 0, RPC_REQUEST},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", V, NULL, NULL, false, 0, RPC_HEADER},
	/* modern */
	{LIST_MODERN, V, "tools/list", NULL, false, MODERN, 0},
	{LIST_MODERN, V, "tools/list", "any", false, MODERN, 0}, /* has no name */
	{LIST_MODERN, NULL, "tools/list", NULL, false, 0, RPC_HEADER},
	{LIST_MODERN, "2025-11-25", "tools/list", NULL, true, 0, RPC_HEADER},
	{LIST_MODERN, V, NULL, NULL, false, 0, RPC_HEADER},
	{LIST_MODERN, V, "tools/call", NULL, false, 0, RPC_HEADER},
	{LIST_MODERN, V, "TOOLS/LIST", NULL, false, 0, RPC_HEADER},
	{LIST, V, "tools/list", NULL, false, MODERN, 0}, /* its envelope is missing: found later */
	{NOTE, V, "notifications/x", NULL, false, MODERN, 0},
	{NOTE, V, NULL, NULL, false, 0, RPC_HEADER},
	{CALL("\"name\":\"a\"," MODERN_META), V, "tools/call", "a", false, MODERN, 0},
	{CALL("\"name\":\"a\"," MODERN_META), V, "tools/call", NULL, false, 0, RPC_HEADER},
	{CALL("\"name\":\"a\"," MODERN_META), V, "tools/call", "A", false, 0, RPC_HEADER},
	{CALL("\"name\":\"a\"," MODERN_META), V, "tools/call", "", false, 0, RPC_HEADER},
	{CALL("\"name\":7," MODERN_META), V, "tools/call", NULL, false, MODERN, 0},
	{CALL("\"name\":\"\xc3\xa9\"," MODERN_META), V, "tools/call", "=?base64?w6k=?=", false,
	 MODERN, 0},
	{CALL("\"name\":\"\xc3\xa9\"," MODERN_META), V, "tools/call", "=?base64?w6g=?=", false, 0,
	 RPC_HEADER},
	{CALL("\"name\":\"\xc3\xa9\"," MODERN_META), V, "tools/call", "=?base64?!?=", false, 0,
	 RPC_HEADER},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{"
	 "\"uri\":\"a://b\"," MODERN_META "}}",
	 V, "resources/read", "a://b", false, MODERN, 0},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{"
	 "\"uri\":\"a://b\"," MODERN_META "}}",
	 V, "resources/read", "a://c", false, 0, RPC_HEADER},
	{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META("\"x\"") "}}",
	 "x", "tools/list", NULL, false, MODERN, 0}, /* unknown, but the same: found later */
};

static void
test_era_headers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct header_case *c = &cases[i];
		struct message_side side = {c->version, c->method, c->name};
		cJSON *json = cJSON_Parse(c->text), *sent = NULL;
		struct reply_to to = {.rev = REV_NONE};
		struct rpc_message message;
		const char *why, *text;
		unsigned era;
		int code;

		assert_non_null(json);
		assert_int_equal(rpc_read(json, &message, &code, &why), 0);
		to.id = message.id;
		(void)snprintf(fe.client.session, sizeof(fe.client.session), "%s",
			       c->session ? SESSION : "");
		fe.transport->side = &side;
		era = era_of(&fe, &to, &message);
		text = fake_sent();
		code = 0;
		if (text[0] != '\0') {
			sent = cJSON_Parse(text);
			code = (int)cJSON_GetObjectItem(cJSON_GetObjectItem(sent, "error"), "code")
				       ->valuedouble;
		}
		if (era != c->era || code != c->code)
			fail_msg("case %zu: era %u, code %d", i, era, code);
		assert_int_equal(to.refused, era == 0);
		if (era != 0)
			assert_int_equal(to.rev, era == MODERN ? REV_2026_07_28 : REV_2025_11_25);
		cJSON_Delete(sent);
		cJSON_Delete(json);
	}
	fe.transport->side = NULL;
}

/* Without headers nothing but the message counts. */
static void
test_era_without_headers(void **state)
{
	struct reply_to to = {.rev = REV_NONE};
	struct rpc_message message = {.method = "ping"};
	cJSON *json = cJSON_Parse("{" MODERN_META "}");

	(void)state;
	assert_int_equal(era_of(&fe, &to, &message), LEGACY);
	message.params = json;
	assert_int_equal(era_of(&fe, &to, &message), MODERN);
	assert_int_equal(to.rev, REV_2026_07_28);
	assert_string_equal(fake_sent(), "");
	cJSON_Delete(json);
}

static void
test_era_envelope(void **state)
{
	static const struct {
		const char *params;
		int code;
	} envelopes[] = {
		{"{" MODERN_META "}", 0},
		{"{}", RPC_PARAMS},
		{"{" META("7") "}", RPC_PARAMS},
		{"{" META("\"2025-11-25\"") "}", RPC_VERSION},
		{"{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}",
		 RPC_PARAMS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(envelopes); i++) {
		struct reply_to to = {.rev = REV_2026_07_28};
		cJSON *json = cJSON_Parse(envelopes[i].params);
		bool ok = era_envelope_ok(&fe, &to, json);
		char want[32];

		assert_int_equal(ok, envelopes[i].code == 0);
		assert_int_equal(to.refused, !ok);
		(void)snprintf(want, sizeof(want), "\"code\":%d", envelopes[i].code);
		if (!ok)
			assert_non_null(strstr(fake_sent(), want));
		cJSON_Delete(json);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_era_revisions),
		FAKE(test_era_headers),
		FAKE(test_era_without_headers),
		FAKE(test_era_envelope),
	};

	return cmocka_run_group_tests_name("frontend_era", tests, NULL, NULL);
}
