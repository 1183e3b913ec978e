/*
 * frontend/client.c - how the client is connected and, over http, who it is.
 * Runs in: bailey-frontend.
 * Input: rows of the supervisor (trusted) and of the broker.
 * Owns: the choice of the transport, the connection's token, the question the broker has not
 *       answered yet.
 *
 * Over http nothing is done for a connection before the broker knew its token.
 * The first good one stays the connection's; it is told again to a new broker,
 * before anything else. Sessions of the legacy revisions are the broker's: one
 * is asked for with every request that names it, and made by initialize.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

/* The broker keeps a number with a session: the revision, above it what the client can and how much
 * it wants to be told. */
#define CAN_SHIFT 8u
#define LEVEL_SHIFT 16u
#define BYTE_MASK 0xffu

static uint32_t
session_number(const struct frontend *fe, enum mcp_rev rev)
{
	return (uint32_t)rev | fe->client_can << CAN_SHIFT | (uint32_t)fe->log_level << LEVEL_SHIFT;
}

static void
send_token(struct frontend *fe)
{
	struct client *c = &fe->client;
	struct ipc_bin token = {.data = (const uint8_t *)c->token, .len = strlen(c->token)};

	c->token_no = ++c->last_no;
	(void)link_send(fe->broker, IPC_ROW(token_check, .call = c->token_no, .token = token));
}

/* The question that waits, if the broker can be asked now; else with the next link. */
static void
send_question(struct frontend *fe)
{
	struct client *c = &fe->client;

	if (!upcalls_ready(fe))
		return;
	c->no = ++c->last_no;
	if (c->asks == CLIENT_OPENS)
		(void)link_send(fe->broker, IPC_ROW(session_open, .call = c->no,
						    .rev = session_number(fe, c->opens_rev)));
	else if (c->asks == CLIENT_CHECKS || c->asks == CLIENT_CLOSES)
		(void)link_send(fe->broker,
				IPC_ROW(session_check, .call = c->no, .session = IPC_STR(c->asked),
					.close = c->asks == CLIENT_CLOSES));
}

static void
forget_token(struct client *c)
{
	secret_wipe(c->token, sizeof(c->token));
	c->bound = false;
}

void
client_link_up(struct frontend *fe)
{
	struct client *c = &fe->client;

	if (c->token[0] != '\0')
		send_token(fe);
	send_question(fe);
}

/* ---- a request wants in ---- */

static void
admit(struct frontend *fe, enum admit_word word)
{
	fe->client.asks = CLIENT_ASKS_NOTHING;
	http_admitted(fe->transport, word);
}

/* The token is good. */
static void
admit_session(struct frontend *fe)
{
	struct client *c = &fe->client;

	if (c->asked[0] == '\0') {
		admit(fe, ADMIT_YES);
		return;
	}
	c->asks = CLIENT_CHECKS;
	send_question(fe);
}

void
client_on_admit(void *ctx, const struct admit_ask *ask)
{
	struct frontend *fe = ctx;
	struct client *c = &fe->client;
	const char *session = ask->session == NULL ? "" : ask->session;
	size_t n = strlen(ask->token);

	fe->negotiated = REV_NONE;
	fe->client_can = 0;
	fe->log_level = LOG_NONE;
	c->session[0] = '\0';
	c->closes = ask->close;
	(void)str_copy(c->asked, sizeof(c->asked), session, strlen(session));
	/* http_rules.c saw to its length */
	if (c->token[0] == '\0')
		(void)str_copy(c->token, sizeof(c->token), ask->token, n);
	if (n != strlen(c->token) || !mem_equal_ct(c->token, ask->token, n)) {
		admit(fe, ADMIT_BAD_TOKEN);
	} else if (c->bound) {
		admit_session(fe);
	} else {
		c->asks = CLIENT_TOKEN;
		if (upcalls_ready(fe))
			send_token(fe);
	}
}

void
frontend_on_auth_end(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct frontend *fe = ctx;
	struct client *c = &fe->client;

	(void)l;
	if (row->u.auth_end.ok == AUTH_REVOKED) {
		forget_token(c);
		frontend_leave(fe, 0, 0); /* the connection acts for nobody any more */
		return;
	}
	if (row->u.auth_end.call != c->token_no)
		return;
	c->bound = row->u.auth_end.ok == AUTH_BOUND;
	if (!c->bound)
		forget_token(c);
	if (c->asks == CLIENT_TOKEN && c->bound)
		admit_session(fe);
	else if (c->asks == CLIENT_TOKEN)
		admit(fe, row->u.auth_end.ok == AUTH_CROWDED ? ADMIT_CROWDED : ADMIT_BAD_TOKEN);
}

void
frontend_on_session_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_session_row *m = &row->u.session_row;
	struct frontend *fe = ctx;
	struct client *c = &fe->client;
	uint32_t rev = m->rev & BYTE_MASK;
	bool ok;

	(void)l;
	if (m->call != c->no)
		return;
	ok = m->ok != 0 && rev > REV_NONE && rev < REV_2026_07_28 &&
	     str_copy(c->session, sizeof(c->session), m->session.data, m->session.len) == 0;
	if (c->asks == CLIENT_OPENS) {
		c->asks = CLIENT_ASKS_NOTHING;
		http_session(fe->transport, ok ? c->session : NULL);
	} else if (c->asks == CLIENT_CLOSES) {
		c->session[0] = '\0';
		admit(fe, ADMIT_YES); /* whoever asked first has ended it */
	} else if (c->asks == CLIENT_CHECKS && ok && c->closes) {
		c->asks = CLIENT_CLOSES;
		send_question(fe);
	} else if (c->asks == CLIENT_CHECKS) {
		fe->negotiated = ok ? (enum mcp_rev)rev : REV_NONE;
		fe->client_can = ok ? m->rev >> CAN_SHIFT & BYTE_MASK : 0;
		fe->log_level = (uint8_t)(ok ? m->rev >> LEVEL_SHIFT & BYTE_MASK : LOG_NONE);
		admit(fe, ok ? ADMIT_YES : ADMIT_NO_SESSION);
	}
}

/* ---- sessions ---- */

bool
client_has_sessions(const struct frontend *fe)
{
	return fe->client.kind == CLIENT_HTTP;
}

void
client_open_session(struct frontend *fe)
{
	if (!client_has_sessions(fe))
		return;
	http_hold(fe->transport);
	fe->client.asks = CLIENT_OPENS;
	fe->client.opens_rev = fe->negotiated;
	send_question(fe);
}

void
client_note_level(struct frontend *fe)
{
	const char *session = fe->client.session;

	if (session[0] != '\0' && upcalls_ready(fe))
		(void)link_send(fe->broker, IPC_ROW(session_note, .session = IPC_STR(session),
						    .rev = session_number(fe, fe->negotiated)));
}

/* "SESSION:ID", or "" where it has no session or is too long: then nobody else can cancel it. */
void
client_tag(const struct frontend *fe, const struct rpc_id *id, char ret[RPC_TAG_MAX + 1])
{
	struct cJSON *json = NULL;
	char *text = NULL;
	int n = -1;

	if (fe->client.session[0] != '\0' && id->kind != RPC_ID_NONE) {
		json = rpc_id_json(id);
		text = cJSON_PrintUnformatted(json);
		cJSON_Delete(json);
	}
	if (text != NULL)
		n = snprintf(ret, RPC_TAG_MAX + 1, "%s:%s", fe->client.session, text);
	if (n < 0 || n > (int)RPC_TAG_MAX)
		ret[0] = '\0';
	free(text);
}

void
client_cancel(struct frontend *fe, const struct rpc_id *id)
{
	char tag[RPC_TAG_MAX + 1];

	client_tag(fe, id, tag);
	if (tag[0] != '\0' && upcalls_ready(fe))
		(void)link_send(fe->broker, IPC_ROW(cancel_tag, .tag = IPC_STR(tag)));
}

/* ---- the connection ---- */

void
frontend_on_client(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_client *m = &row->u.client;
	struct frontend *fe = ctx;
	struct client *c = &fe->client;
	struct http_client *names = &c->names;
	int r = 0;

	(void)l;
	if (str_copy(names->hosts, sizeof(names->hosts), m->hosts.data, m->hosts.len) < 0 ||
	    str_copy(names->origins, sizeof(names->origins), m->origins.data, m->origins.len) < 0 ||
	    m->kind < CLIENT_STDIO || m->kind > CLIENT_HTTP)
		fatal("a client message that names no client");
	c->kind = (enum client_kind)m->kind;
	if (c->kind == CLIENT_HTTP) {
		transport_free(fe->transport); /* first: it puts the socket's flags back */
		r = http_new(fe->base, FD_IN, &frontend_events, fe, names, &http_times_default,
			     &fe->transport);
		if (r < 0)
			fatal("cannot use the client's socket (%d)", r);
	}
	if (transport_start(fe->transport) < 0)
		fatal("cannot read from the client");
}
