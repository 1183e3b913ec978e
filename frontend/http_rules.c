/*
 * frontend/http_rules.c - who may ask what: a table of rules for a request's head.
 * Runs in: bailey-frontend.
 * Input: an untrusted head that http_head.c parsed; the permitted names from the supervisor.
 * Owns: nothing.
 *
 * A page in a browser of the same machine can reach a loopback port, under a
 * name of its own that it made point there. So the names of Host and Origin are
 * looked at first, for every method and address. The token is the broker's to
 * judge; here only its form is.
 */
#include <string.h>
#include <strings.h>

#include "http.h"

#define ENDPOINT "/mcp"
#define JSON_TYPE "application/json"

/* value, in any case, is one of the comma separated names. */
static bool
in_list(const char *list, const char *value)
{
	size_t n = strlen(value);

	while (n > 0 && *list != '\0') {
		size_t len = strcspn(list, ",");

		if (len == n && strncasecmp(list, value, n) == 0)
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

static bool
host_ok(const struct http_head *head, const struct http_client *client)
{
	return in_list(client->hosts, head->value[HTTP_H_HOST]);
}

static bool
origin_ok(const struct http_head *head, const struct http_client *client)
{
	const char *origin = head->value[HTTP_H_ORIGIN];

	return origin == NULL || in_list(client->origins, origin);
}

static bool
target_ok(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return strcmp(head->target, ENDPOINT) == 0;
}

/* The answer to any other may have no body: nothing can follow it. */
static bool
method_known(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return head->method != HTTP_OTHER;
}

static bool
method_ok(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return head->method == HTTP_POST ||
	       (head->method == HTTP_DELETE && !http_rules_modern(head));
}

static bool
expect_ok(const struct http_head *head, const struct http_client *client)
{
	const char *expect = head->value[HTTP_H_EXPECT];

	(void)client;
	return expect == NULL || strcasecmp(expect, "100-continue") == 0;
}

static bool
type_ok(const struct http_head *head, const struct http_client *client)
{
	const char *type = head->value[HTTP_H_CONTENT_TYPE];
	size_t n = strlen(JSON_TYPE);

	(void)client;
	if (head->method != HTTP_POST)
		return true;
	return type != NULL && strncasecmp(type, JSON_TYPE, n) == 0 &&
	       (type[n] == '\0' || type[n] == ';' || type[n] == ' ' || type[n] == '\t');
}

static bool
encoding_ok(const struct http_head *head, const struct http_client *client)
{
	const char *encoding = head->value[HTTP_H_CONTENT_ENCODING];

	(void)client;
	return encoding == NULL || strcasecmp(encoding, "identity") == 0;
}

static bool
accept_ok(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return head->method != HTTP_POST || (head->accepts_json && head->accepts_stream);
}

static bool
token_ok(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return http_rules_token(head) != NULL;
}

static bool
session_named(const struct http_head *head, const struct http_client *client)
{
	(void)client;
	return head->method != HTTP_DELETE || head->value[HTTP_H_MCP_SESSION_ID] != NULL;
}

/* The broker makes ids of this form alone. */
static bool
session_ok(const struct http_head *head, const struct http_client *client)
{
	const char *session = head->value[HTTP_H_MCP_SESSION_ID];

	(void)client;
	return session == NULL || http_rules_modern(head) ||
	       (strlen(session) == HTTP_SESSION_LEN &&
		strspn(session, "0123456789abcdef") == HTTP_SESSION_LEN);
}

static const struct {
	bool (*ok)(const struct http_head *head, const struct http_client *client);
	struct http_refusal refusal;
} rules[] = {
	/* in this order: a stranger learns as little as possible */
	{host_ok,
	 {403, "This Host is not served; use the address the server printed at its start", true}},
	{origin_ok, {403, "Requests of this Origin are not served", true}},
	{method_known, {405, "Send MCP messages by POST", true}},
	{target_ok, {404, "Nothing is here; the MCP endpoint is /mcp", false}},
	{method_ok, {405, "Send MCP messages by POST; no event stream is offered for GET", false}},
	{token_ok,
	 {401, "Send the header Authorization: Bearer TOKEN with a token of this server", true}},
	{expect_ok, {417, "Only Expect: 100-continue is known", false}},
	{type_ok, {415, "Content-Type must be application/json", false}},
	{encoding_ok, {415, "Bodies are not taken with a Content-Encoding", false}},
	{accept_ok, {406, "Accept must list application/json and text/event-stream", false}},
	{session_named, {400, "DELETE needs the header Mcp-Session-Id", false}},
	{session_ok, {404, "No such session; send initialize again", false}},
};

const struct http_refusal *
http_rules_check(const struct http_head *head, const struct http_client *client)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		if (!rules[i].ok(head, client))
			return &rules[i].refusal;
	}
	return NULL;
}

const char *
http_rules_token(const struct http_head *head)
{
	static const char form[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				   "0123456789-._~+/=";
	const char *value = head->value[HTTP_H_AUTHORIZATION];
	size_t n;

	if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0)
		return NULL;
	value += 7 + strspn(value + 7, " ");
	n = strspn(value, form);
	return n == 0 || n > HTTP_TOKEN_MAX || value[n] != '\0' ? NULL : value;
}

bool
http_rules_modern(const struct http_head *head)
{
	const char *version = head->value[HTTP_H_MCP_PROTOCOL_VERSION];

	return version != NULL && mcp_rev_find(version) >= REV_2026_07_28;
}
