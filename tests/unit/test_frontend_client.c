/*
 * tests/unit/test_frontend_client.c - token and session of an HTTP connection, asked of the
 * broker; tags and cancels. The client's socket is descriptor 0.
 * Runs in: ctest.
 * Input: none.
 * Owns: the frontend of frontend_fake.h, per test.
 */
#include "frontend_fake.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEADERS(token)                                                                       \
	"Host: h:1\r\nAuthorization: Bearer " token "\r\nContent-Type: application/json\r\n" \
	"Accept: application/json, text/event-stream\r\n"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define INITIALIZE                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{" \
	"\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{}}}"

static int peer = -1;
static const struct ipc_client http_row = {
	.kind = CLIENT_HTTP, .hosts = {"h:1", 3}, .origins = {"http://h:1", 10}};

static void
open_http(bool configured)
{
	struct ipc_row row = {.num = IPC_NUM_client, .u.client = http_row};
	int fds[2];

	fake_open(false);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	peer = fds[0];
	assert_int_equal(dup2(fds[1], FD_IN), FD_IN);
	(void)close(fds[1]);
	fake_tell(supervisor_end, IPC_SUPERVISOR, &row);
	if (configured)
		fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(configured));
}

static void
close_http(void)
{
	fake_close();
	(void)close(peer);
}

static void
say(const char *head, const char *body)
{
	char text[4096];
	int n = snprintf(text, sizeof(text), "%sContent-Length: %zu\r\n\r\n%s", head, strlen(body),
			 body);

	assert_int_equal(send(peer, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL), n);
	fake_spin();
}

static const char *
got(void)
{
	static char text[8192];
	ssize_t n;

	fake_spin();
	n = recv(peer, text, sizeof(text) - 1, MSG_DONTWAIT);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void
expect_row(struct ipc_row *row, enum ipc_num num)
{
	assert_true(fake_broker_row(row));
	assert_int_equal(row->num, num);
}

static void
no_row(void)
{
	struct ipc_row row;

	assert_false(fake_broker_row(&row));
}

static void
auth(uint64_t call, uint32_t ok)
{
	fake_broker_tell(IPC_ROW(auth_end, .call = call, .ok = ok, .principal = IPC_STR("p")));
}

static void
session(uint64_t call, bool ok, uint32_t rev)
{
	fake_broker_tell(
		IPC_ROW(session_row, .call = call, .ok = ok, .session = IPC_STR(ID), .rev = rev));
}

/* A request that binds the connection, answered. */
static void
bind_token(void)
{
	struct ipc_row row;

	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_token_check);
	assert_int_equal(row.u.token_check.token.len, 4);
	assert_memory_equal(row.u.token_check.token.data, "good", 4);
	assert_string_equal(got(), "");
	auth(row.u.token_check.call, AUTH_BOUND);
	expect_row(&row, IPC_NUM_session_check);
	assert_memory_equal(row.u.session_check.session.data, ID, HTTP_SESSION_LEN);
	assert_int_equal(row.u.session_check.close, 0);
	session(row.u.session_check.call, true, REV_2025_06_18);
	assert_non_null(strstr(got(), "\"result\":{}"));
	assert_int_equal(fe.negotiated, REV_2025_06_18);
	assert_string_equal(fe.client.session, ID);
}

static void
test_client_token_then_session(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	/* the token is asked for once, the session each time */
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call + 1, true, REV_2025_06_18); /* another question's */
	assert_string_equal(got(), "");
	session(row.u.session_check.call, false, REV_NONE);
	assert_int_equal(strncmp(got(), "HTTP/1.1 404 ", 13), 0);
	assert_string_equal(fe.client.session, "");
	assert_int_equal(fe.negotiated, REV_NONE);
	close_http();
}

static void
test_client_bad_token(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("bad"), PING);
	expect_row(&row, IPC_NUM_token_check);
	auth(row.u.token_check.call, AUTH_NO);
	assert_int_equal(strncmp(got(), "HTTP/1.1 401 ", 13), 0);
	assert_string_equal(fe.client.token, "");
	assert_false(fe.client.bound);
	close_http();
	/* a good one of somebody who has enough connections */
	open_http(true);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"), PING);
	expect_row(&row, IPC_NUM_token_check);
	auth(row.u.token_check.call, AUTH_CROWDED);
	assert_int_equal(strncmp(got(), "HTTP/1.1 503 ", 13), 0);
	assert_string_equal(fe.client.token, "");
	assert_false(fe.client.bound);
	close_http();
}

static void
test_client_other_token(void **state)
{
	static const char *const heads[] = {"POST /mcp HTTP/1.1\r\n" HEADERS("goof"),
					    "POST /mcp HTTP/1.1\r\n" HEADERS("goo"),
					    "POST /mcp HTTP/1.1\r\n" HEADERS("goods")};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		const char *text;

		open_http(true);
		bind_token();
		say(heads[i], PING);
		text = got();
		assert_int_equal(strncmp(text, "HTTP/1.1 401 ", 13), 0);
		assert_non_null(strstr(text, "Connection: close"));
		no_row(); /* it is not even asked */
		close_http();
	}
}

static void
test_client_initialize_opens(void **state)
{
	struct ipc_row row;
	const char *text;

	(void)state;
	open_http(true);
	bind_token();
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"), INITIALIZE);
	expect_row(&row, IPC_NUM_session_open);
	assert_int_equal(row.u.session_open.rev, REV_2025_06_18);
	assert_string_equal(got(), "");
	session(row.u.session_open.call, true, REV_2025_06_18);
	text = got();
	assert_non_null(strstr(text, "Mcp-Session-Id: " ID "\r\n"));
	assert_non_null(strstr(text, "\"protocolVersion\":\"2025-06-18\""));
	/* none is to be had */
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"), INITIALIZE);
	expect_row(&row, IPC_NUM_session_open);
	session(row.u.session_open.call, false, REV_NONE);
	assert_int_equal(strncmp(got(), "HTTP/1.1 503 ", 13), 0);
	close_http();
}

static void
test_client_delete(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	say("DELETE /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", "");
	expect_row(&row, IPC_NUM_session_check);
	assert_int_equal(row.u.session_check.close, 0);
	session(row.u.session_check.call, true, REV_2025_06_18);
	expect_row(&row, IPC_NUM_session_check);
	assert_int_equal(row.u.session_check.close, 1);
	assert_string_equal(got(), "");
	session(row.u.session_check.call, false, REV_NONE);
	assert_int_equal(strncmp(got(), "HTTP/1.1 200 ", 13), 0);
	/* one that is gone */
	say("DELETE /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", "");
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call, false, REV_NONE);
	assert_int_equal(strncmp(got(), "HTTP/1.1 404 ", 13), 0);
	no_row();
	close_http();
}

/* A new broker is told the token first, then what waits is asked again. */
static void
test_client_new_broker(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_session_check);
	client_link_up(&fe);
	expect_row(&row, IPC_NUM_token_check);
	auth(row.u.token_check.call, AUTH_BOUND);
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call, true, REV_2025_11_25);
	assert_non_null(strstr(got(), "\"result\":{}"));
	no_row();
	/* it does not know the token: the next request asks anew */
	client_link_up(&fe);
	expect_row(&row, IPC_NUM_token_check);
	auth(row.u.token_check.call, AUTH_NO);
	assert_string_equal(fe.client.token, "");
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"), PING);
	expect_row(&row, IPC_NUM_token_check);
	close_http();
}

static void
test_client_waits_for_the_broker(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(false);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"), PING);
	no_row();
	fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(configured));
	expect_row(&row, IPC_NUM_token_check);
	auth(row.u.token_check.call, AUTH_BOUND);
	/* no session was named: the message says what is missing */
	assert_int_equal(strncmp(got(), "HTTP/1.1 400 ", 13), 0);
	close_http();
}

static void
test_client_tag(void **state)
{
	struct rpc_id id = {.kind = RPC_ID_NUMBER, .number = -7};
	char tag[RPC_TAG_MAX + 1];
	struct ipc_row row;

	(void)state;
	open_http(true);
	client_tag(&fe, &id, tag);
	assert_string_equal(tag, ""); /* no session */
	client_cancel(&fe, &id);
	no_row();
	bind_token();
	client_tag(&fe, &id, tag);
	assert_string_equal(tag, ID ":-7");
	client_cancel(&fe, &id);
	expect_row(&row, IPC_NUM_cancel_tag);
	assert_int_equal(row.u.cancel_tag.tag.len, HTTP_SESSION_LEN + 3);
	id = (struct rpc_id){.kind = RPC_ID_STRING, .text = "a\"b"};
	client_tag(&fe, &id, tag);
	assert_string_equal(tag, ID ":\"a\\\"b\"");
	memset(id.text, 'x', RPC_ID_MAX);
	client_tag(&fe, &id, tag);
	assert_string_equal(tag, ""); /* too long to be told */
	id.kind = RPC_ID_NONE;
	client_tag(&fe, &id, tag);
	assert_string_equal(tag, "");
	close_http();
}

/* notifications/cancelled on this connection, for a request on another. */
static void
test_client_cancel_by_notification(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n",
	    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
	    "\"params\":{\"requestId\":5}}");
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call, true, REV_2025_11_25);
	expect_row(&row, IPC_NUM_cancel_tag);
	assert_memory_equal(row.u.cancel_tag.tag.data, ID ":5", HTTP_SESSION_LEN + 2);
	assert_int_equal(strncmp(got(), "HTTP/1.1 202 ", 13), 0);
	close_http();
}

/* What the client can travels with its session, and is another session's no more. */
static void
test_client_capabilities(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	assert_int_equal(fe.client_can, 0);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good"),
	    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
	    "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"elicitation\":{}}}}");
	expect_row(&row, IPC_NUM_session_open);
	assert_int_equal(row.u.session_open.rev, REV_2025_06_18 | CAN_ELICITATION << 8);
	session(row.u.session_open.call, true, row.u.session_open.rev);
	assert_int_equal(strncmp(got(), "HTTP/1.1 200 ", 13), 0);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_session_check);
	assert_int_equal(fe.client_can, 0);
	session(row.u.session_check.call, true, REV_2025_03_26 | (unsigned)CAN_SAMPLING << 8);
	assert_int_equal(fe.client_can, CAN_SAMPLING);
	assert_int_equal(fe.negotiated, REV_2025_03_26);
	close_http();
}

/* The level a client sets is its session's, on whatever connection the next request comes. */
static void
test_client_log_level(void **state)
{
	struct ipc_row row;

	(void)state;
	open_http(true);
	bind_token();
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n",
	    "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"logging/"
	    "setLevel\",\"params\":{\"level\":\"error\"}}");
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call, true, REV_2025_06_18 | (unsigned)CAN_ROOTS << 8);
	expect_row(&row, IPC_NUM_session_note);
	assert_memory_equal(row.u.session_note.session.data, ID, HTTP_SESSION_LEN);
	assert_int_equal(row.u.session_note.rev,
			 REV_2025_06_18 | (unsigned)CAN_ROOTS << 8 | (unsigned)LOG_ERROR << 16);
	assert_int_equal(strncmp(got(), "HTTP/1.1 200 ", 13), 0);
	/* another session's request on this connection, and that one's later */
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_session_check);
	assert_int_equal(fe.log_level, LOG_NONE);
	session(row.u.session_check.call, true, REV_2025_06_18);
	assert_int_equal(fe.log_level, LOG_NONE);
	assert_int_equal(strncmp(got(), "HTTP/1.1 200 ", 13), 0);
	say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", PING);
	expect_row(&row, IPC_NUM_session_check);
	session(row.u.session_check.call, true, REV_2025_06_18 | (unsigned)LOG_ERROR << 16);
	assert_int_equal(fe.log_level, LOG_ERROR);
	assert_int_equal(fe.client_can, 0);
	close_http();
}

/* A response to what another connection asked goes there by the broker; others are dropped. */
static void
test_client_relays_answers(void **state)
{
	static const struct {
		const char *id;
		bool relayed;
	} cases[] = {
		{"\"bailey-0123456789abcdef01234567\"", true},
		{"\"bailey-0\"", false},
		{"7", false},
	};
	struct ipc_row row;
	char text[128];

	(void)state;
	open_http(true);
	bind_token();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}",
			       cases[i].id);
		say("POST /mcp HTTP/1.1\r\n" HEADERS("good") "Mcp-Session-Id: " ID "\r\n", text);
		expect_row(&row, IPC_NUM_session_check);
		session(row.u.session_check.call, true, REV_2025_11_25);
		if (cases[i].relayed) {
			expect_row(&row, IPC_NUM_ask_answer);
			assert_int_equal(row.u.ask_answer.data.len, strlen(text));
		}
		no_row();
		assert_int_equal(strncmp(got(), "HTTP/1.1 202 ", 13), 0);
	}
	close_http();
}

static void
no_kind(void *arg)
{
	struct ipc_row row = {.num = IPC_NUM_client,
			      .u.client = {.kind = 9, .hosts = {"", 0}, .origins = {"", 0}}};

	(void)arg;
	frontend_on_client(&fe, NULL, &row);
}

static void
test_client_unknown_kind_is_fatal(void **state)
{
	(void)state;
	fake_open(false);
	test_is_fatal(no_kind, NULL);
	fake_close();
}

static void
test_client_stdio(void **state)
{
	(void)state;
	fake_open(false);
	fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(client, .kind = CLIENT_STDIO));
	assert_int_equal(write(client_in, PING "\n", strlen(PING) + 1), strlen(PING) + 1);
	assert_non_null(strstr(fake_sent(), "\"result\":{}"));
	assert_false(client_has_sessions(&fe));
	fake_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_client_token_then_session),
		cmocka_unit_test(test_client_bad_token),
		cmocka_unit_test(test_client_other_token),
		cmocka_unit_test(test_client_initialize_opens),
		cmocka_unit_test(test_client_delete),
		cmocka_unit_test(test_client_new_broker),
		cmocka_unit_test(test_client_waits_for_the_broker),
		cmocka_unit_test(test_client_tag),
		cmocka_unit_test(test_client_cancel_by_notification),
		cmocka_unit_test(test_client_capabilities),
		cmocka_unit_test(test_client_log_level),
		cmocka_unit_test(test_client_relays_answers),
		cmocka_unit_test(test_client_unknown_kind_is_fatal),
		cmocka_unit_test(test_client_stdio),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("frontend_client", tests, NULL, NULL);
}
