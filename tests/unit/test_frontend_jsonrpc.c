/*
 * tests/unit/test_frontend_jsonrpc.c - messages read, ids echoed, answers built and batched.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static void
test_rpc_read_rows(void **state)
{
	static const struct {
		const char *text;
		int code; /* 0: accepted */
		enum rpc_kind kind;
	} rows[] = {
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", 0, RPC_KIND_REQUEST},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"m\",\"params\":{}}", 0,
		 RPC_KIND_REQUEST},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}", 0,
		 RPC_KIND_REQUEST},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"more\":[]}", 0, RPC_KIND_NOTIFICATION},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0, RPC_KIND_RESPONSE},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", 0, RPC_KIND_RESPONSE},
		{"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"JSONRPC\":\"2.0\",\"id\":1,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":0.5,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":1e60,\"method\":\"m\"}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", RPC_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}", RPC_PARAMS, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":3}", RPC_PARAMS, 0},
		{"3", RPC_REQUEST, 0},
		{"null", RPC_REQUEST, 0},
		{"[]", RPC_REQUEST, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *json = rpc_parse(rows[i].text, strlen(rows[i].text));
		struct rpc_message message;
		const char *why = NULL;
		int code = 0, r = rpc_read(json, &message, &code, &why);

		assert_int_equal(r, rows[i].code == 0 ? 0 : -EINVAL);
		assert_int_equal(code, rows[i].code);
		if (r == 0)
			assert_int_equal(message.kind, rows[i].kind);
		else
			assert_non_null(why);
		cJSON_Delete(json);
	}
}

static void
test_rpc_id_round_trip(void **state)
{
	static const char *const ids[] = {
		"0",    "-1",      "9007199254740991", "-9007199254740991",
		"\"\"", "\"a b\"", "\"\xc3\xa9\""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		cJSON *json = cJSON_Parse(ids[i]), *out;
		struct rpc_id id = {.kind = RPC_ID_NONE}, other = {.kind = RPC_ID_NONE};
		char *text;

		assert_false(rpc_id_equal(&other, &(struct rpc_id){.kind = RPC_ID_NUMBER}));
		assert_int_equal(rpc_read_id(json, &id), 0);
		assert_int_equal(rpc_read_id(json, &other), 0);
		assert_true(rpc_id_equal(&id, &other));
		out = rpc_id_json(&id);
		text = cJSON_PrintUnformatted(out);
		assert_string_equal(text, ids[i]);
		free(text);
		cJSON_Delete(out);
		cJSON_Delete(json);
	}
}

/* What would come back as another number is no id. */
static void
test_rpc_id_that_a_double_does_not_hold(void **state)
{
	static const char *const ids[] = {"9007199254740992", "9007199254740993",
					  "-9007199254740993", "0.5", "1e300"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		cJSON *json = cJSON_Parse(ids[i]);
		struct rpc_id id = {.kind = RPC_ID_NONE};

		assert_int_equal(rpc_read_id(json, &id), -EINVAL);
		cJSON_Delete(json);
	}
}

static void
test_rpc_send_forms(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_STRING, .text = "q\""}, .rev = REV_2025_11_25};

	(void)state;
	rpc_send_result(&fe, &to, cJSON_CreateObject());
	assert_string_equal(fake_sent(), "{\"jsonrpc\":\"2.0\",\"id\":\"q\\\"\",\"result\":{}}\n");
	rpc_send_error(&fe, &to, RPC_METHOD, NULL, "no %s", "x");
	assert_string_equal(fake_sent(), "{\"jsonrpc\":\"2.0\",\"id\":\"q\\\"\",\"error\":"
					 "{\"code\":-32601,\"message\":\"no x\"}}\n");
	to.id.kind = RPC_ID_NONE;
	rpc_send_error(&fe, &to, RPC_PARSE, cJSON_CreateNumber(3), "p");
	assert_string_equal(fake_sent(), "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,"
					 "\"message\":\"p\",\"data\":3}}\n");
	to.rev = REV_2025_06_18;
	rpc_send_error(&fe, &to, RPC_PARSE, NULL, "p");
	assert_string_equal(fake_sent(), "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":"
					 "{\"code\":-32700,\"message\":\"p\"}}\n");
	rpc_send_notification(&fe, NULL, "n", cJSON_CreateObject());
	assert_string_equal(fake_sent(), "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n");
}

static void
test_rpc_send_error_cuts_long_text(void **state)
{
	struct reply_to to = {.rev = REV_2025_11_25};
	char text[2000];
	cJSON *answer;

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[sizeof(text) - 2] = '\0';
	rpc_send_error(&fe, &to, RPC_PARSE, NULL, "x%s", text);
	answer = fake_answer(); /* whole UTF-8 still */
	cJSON_Delete(answer);
}

static void
test_rpc_batch_collects(void **state)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_03_26};

	(void)state;
	to.batch = rpc_batch_open(&fe, 3, to.rev);
	rpc_send_result(&fe, &to, cJSON_CreateObject());
	rpc_send_nothing(&fe, &to);
	assert_string_equal(fake_sent(), "");
	to.id.number = 2;
	rpc_send_result(&fe, &to, cJSON_CreateObject());
	assert_string_equal(fake_sent(), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},"
					 "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]\n");
	assert_null(fe.batches);
	rpc_send_result(&fe, &to, cJSON_CreateObject()); /* a batch that is gone */
	to.batch = 99;
	rpc_send_nothing(&fe, &to);
	assert_string_equal(fake_sent(), "");
	to.batch = rpc_batch_open(&fe, 1, to.rev);
	rpc_send_nothing(&fe, &to);
	assert_string_equal(fake_sent(), ""); /* nothing to say */
	(void)rpc_batch_open(&fe, 5, to.rev); /* freed with the frontend */
}

/* The bytes stand in every hole of the result, alone and in a batch. */
static void
test_rpc_result_filled(void **state)
{
	static const struct {
		const char *data, *sent;
	} rows[] = {
		{"foobar",
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"Zm9vYmFy\",\"b\":\"x\","
		 "\"c\":[\"Zm9vYmFy\"]}}"},
		{"",
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\",\"b\":\"x\",\"c\":[\"\"]}}"},
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		const char *data = rows[i / 2].data;
		struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1},
				      .rev = REV_2025_03_26};
		cJSON *result = cJSON_CreateObject();
		char sent[200];

		(void)cJSON_AddRawToObject(result, "a", "\"" RPC_HOLE "\"");
		(void)cJSON_AddStringToObject(result, "b", "x");
		(void)cJSON_AddItemToArray(cJSON_AddArrayToObject(result, "c"),
					   cJSON_CreateString(RPC_HOLE));
		to.batch = i % 2 == 0 ? 0 : rpc_batch_open(&fe, 1, to.rev);
		rpc_send_result_filled(&fe, &to, result, (const uint8_t *)data, strlen(data));
		(void)snprintf(sent, sizeof(sent), i % 2 == 0 ? "%s\n" : "[%s]\n",
			       rows[i / 2].sent);
		assert_string_equal(fake_sent(), sent);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rpc_read_rows),
		cmocka_unit_test(test_rpc_id_round_trip),
		cmocka_unit_test(test_rpc_id_that_a_double_does_not_hold),
		FAKE(test_rpc_send_forms),
		FAKE(test_rpc_send_error_cuts_long_text),
		FAKE(test_rpc_batch_collects),
		FAKE(test_rpc_result_filled),
	};

	return cmocka_run_group_tests_name("frontend_jsonrpc", tests, NULL, NULL);
}
