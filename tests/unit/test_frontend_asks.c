/*
 * tests/unit/test_frontend_asks.c - requests of ours: who is asked, whose answer counts.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static unsigned calls;
static char last[64];

static void
done(struct frontend *f, const struct reply_to *to, const struct cJSON *result, void *arg)
{
	const cJSON *word = cJSON_GetObjectItemCaseSensitive(result, "word");

	assert_ptr_equal(f, &fe);
	assert_int_equal(to->id.number, 1);
	assert_string_equal(arg, "mine");
	calls++;
	(void)snprintf(last, sizeof(last), "%s", word == NULL ? "none" : word->valuestring);
}

static int
ask(enum mcp_rev rev, enum client_can need)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = rev};

	return asks_send(&fe, &to, need, "elicitation/create", cJSON_CreateObject(), done,
			 xstrdup("mine"));
}

/* The id of the request that was sent. */
static void
sent_id(char *ret, size_t cap)
{
	cJSON *message = fake_answer();

	assert_string_equal(text_of(message, "method"), "elicitation/create");
	(void)snprintf(ret, cap, "%s", text_of(message, "id"));
	assert_int_equal(strlen(ret), strlen("bailey-") + 24);
	cJSON_Delete(message);
}

static void
say_answer(const char *id, const char *rest)
{
	char text[300];

	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",%s}", id, rest);
	fake_say(text);
}

static void
test_asks_only_who_can(void **state)
{
	static const struct {
		const char *capabilities;
		uint32_t can;
	} rows[] = {{"{}", 0},
		    {"{\"sampling\":{}}", CAN_SAMPLING},
		    {"{\"elicitation\":{},\"roots\":{\"listChanged\":true}}",
		     CAN_ELICITATION | CAN_ROOTS},
		    {"{\"sampling\":true,\"elicitation\":null}", 0}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *json = cJSON_Parse(rows[i].capabilities);

		fe.client_can = asks_capabilities(json);
		assert_int_equal(fe.client_can, rows[i].can);
		assert_int_equal(ask(REV_2025_11_25, CAN_ELICITATION),
				 (rows[i].can & CAN_ELICITATION) != 0 ? 0 : -ENOTSUP);
		cJSON_Delete(json);
	}
	assert_int_equal(asks_capabilities(NULL), 0);
	/* the modern era has no such requests */
	assert_int_equal(ask(REV_2026_07_28, CAN_ELICITATION), -ENOTSUP);
	asks_free_all(&fe);
}

static void
test_asks_answered_once(void **state)
{
	char first[64], second[64];

	(void)state;
	calls = 0;
	fe.client_can = CAN_ELICITATION;
	assert_int_equal(ask(REV_2025_11_25, CAN_ELICITATION), 0);
	sent_id(first, sizeof(first));
	assert_int_equal(ask(REV_2025_11_25, CAN_ELICITATION), 0);
	sent_id(second, sizeof(second));
	assert_string_not_equal(first, second);
	say_answer("bailey-0123", "\"result\":{}"); /* nobody's */
	assert_int_equal(calls, 0);
	say_answer(second, "\"result\":{\"word\":\"yes\"}");
	assert_string_equal(last, "yes");
	say_answer(second, "\"result\":{\"word\":\"again\"}");
	assert_int_equal(calls, 1);
	say_answer(first, "\"error\":{\"code\":-1,\"message\":\"no\"}");
	assert_int_equal(calls, 2);
	assert_string_equal(last, "none");
	assert_null(fe.asks);
	assert_string_equal(fake_sent(), "");
}

/* Over http a response may come on another connection: handed over, and taken from there. */
static void
test_asks_of_other_connections(void **state)
{
	static const char foreign[] = "bailey-000000000000000000000000";
	struct ipc_row row;
	char id[64], text[300];

	(void)state;
	calls = 0;
	say_answer(foreign, "\"result\":{}"); /* one connection is all there is */
	assert_false(fake_broker_row(&row));
	fe.client.kind = CLIENT_HTTP;
	asks_response(&fe, NULL);
	say_answer("x", "\"result\":{}"); /* no id of ours: nobody's */
	assert_false(fake_broker_row(&row));
	say_answer(foreign, "\"result\":{}");
	assert_true(fake_broker_row(&row));
	assert_int_equal(row.num, IPC_NUM_ask_answer);
	assert_memory_equal(row.u.ask_answer.id.data, foreign, sizeof(foreign) - 1);
	fe.client.kind = CLIENT_STDIO;
	fe.client_can = CAN_ELICITATION;
	assert_int_equal(ask(REV_2025_11_25, CAN_ELICITATION), 0);
	sent_id(id, sizeof(id));
	(void)snprintf(text, sizeof(text), "{\"id\":\"%s\",\"result\":{\"word\":\"far\"}", id);
	asks_text(&fe, text, strlen(text)); /* not JSON */
	assert_int_equal(calls, 0);
	(void)snprintf(text, sizeof(text), "{\"id\":\"%s\",\"result\":{\"word\":\"far\"}}", id);
	asks_text(&fe, text, strlen(text));
	assert_int_equal(calls, 1);
	assert_string_equal(last, "far");
}

static void
test_asks_have_a_cap(void **state)
{
	unsigned n = 0;

	(void)state;
	calls = 0;
	fe.client_can = CAN_SAMPLING;
	while (ask(REV_2025_06_18, CAN_SAMPLING) == 0)
		n++;
	assert_int_equal(n, 16);
	assert_int_equal(ask(REV_2025_06_18, CAN_SAMPLING), -ENOBUFS);
	asks_free_all(&fe);
	assert_null(fe.asks);
	assert_int_equal(calls, 0); /* with the connection nobody is left to be told */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_asks_only_who_can),
		FAKE(test_asks_answered_once),
		FAKE(test_asks_of_other_connections),
		FAKE(test_asks_have_a_cap),
	};

	return cmocka_run_group_tests_name("frontend_asks", tests, NULL, NULL);
}
