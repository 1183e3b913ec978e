/*
 * tests/unit/test_frontend_health.c - health rows become the report of results.def.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_fake.h"

static struct call *
open_report(void)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct call *c;

	fake_open(true);
	c = call_new(&fe, &to, &health_plan);
	c->job = health_new();
	return c;
}

static const cJSON *
report_of(const cJSON *answer)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(answer, "result"),
						"structuredContent");
}

static void
test_health_full_report_matches_its_table(void **state)
{
	struct call *c = open_report();
	cJSON *schema = schema_shape(SHAPE_HEALTH), *answer;
	const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
	static const char *const nested[] = {"engine", "image", "usage", "limits"};
	static const char *const lists[] = {"pool", "processes"};

	(void)state;
	health_row(c->job, IPC_ROW(health_engine, .status = RUN_ok, .engine = IPC_STR("e"),
				   .version = IPC_STR(""), .api = IPC_STR(""), .image = IPC_STR(""),
				   .image_id = IPC_STR(""), .runtimes = IPC_STR(""),
				   .message = IPC_STR("")));
	health_row(c->job, IPC_ROW(health_pool, .box_class = BOX_NODE));
	health_row(c->job, IPC_ROW(health_usage, .boxes = 1));
	health_row(c->job, IPC_ROW(health_layers, .role = IPC_REAPER, .layers = ~0u));
	health_row(c->job, IPC_ROW(health_note, .text = IPC_STR("careful")));
	health_row(c->job, IPC_ROW(health_end));
	health_row(c->job, IPC_ROW(call_ended)); /* not a health row: nothing happens */
	call_answer(c, RUN_ok);
	answer = fake_answer();
	fake_matches(report_of(answer), schema);
	for (size_t i = 0; i < ARRAY_LEN(nested); i++)
		fake_matches(cJSON_GetObjectItemCaseSensitive(report_of(answer), nested[i]),
			     cJSON_GetObjectItemCaseSensitive(properties, nested[i]));
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		fake_matches(
			cJSON_GetArrayItem(
				cJSON_GetObjectItemCaseSensitive(report_of(answer), lists[i]), 0),
			cJSON_GetObjectItemCaseSensitive(
				cJSON_GetObjectItemCaseSensitive(properties, lists[i]), "items"));
	cJSON_Delete(answer);
	cJSON_Delete(schema);
	fake_close();
}

/* The broker dies in the middle of a report: the next one's is told, and nothing twice. */
static void
test_health_asked_again(void **state)
{
	struct call *c = open_report();
	cJSON *answer;

	(void)state;
	c->state = CALL_SUBMITTED;
	health_row(c->job, IPC_ROW(health_pool, .box_class = BOX_NODE));
	call_event(c, EV_LINK_DOWN, NULL);
	health_row(c->job, IPC_ROW(health_pool, .box_class = BOX_NODE));
	call_answer(c, RUN_ok);
	answer = fake_answer();
	assert_int_equal(
		cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(report_of(answer), "pool")), 1);
	cJSON_Delete(answer);
	fake_close();
}

static void
test_health_empty_report(void **state)
{
	static const struct {
		enum run_status given;
		const char *told;
	} rows[] = {{RUN_ok, "internal"}, {RUN_engine_unavailable, "engine_unavailable"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct call *c = open_report();
		cJSON *schema = schema_shape(SHAPE_HEALTH), *answer;

		call_answer(c, rows[i].given);
		answer = fake_answer();
		fake_matches(report_of(answer), schema);
		assert_string_equal(
			cJSON_GetObjectItemCaseSensitive(report_of(answer), "status")->valuestring,
			rows[i].told);
		cJSON_Delete(answer);
		cJSON_Delete(schema);
		fake_close();
	}
}

static void
test_health_lists_are_bounded(void **state)
{
	struct call *c = open_report();

	(void)state;
	for (int i = 0; i < 500; i++) {
		health_row(c->job, IPC_ROW(health_note, .text = IPC_STR("x")));
		health_row(c->job, IPC_ROW(health_pool, .box_class = BOX_SHELL));
		health_row(c->job, IPC_ROW(health_pool, .box_class = 77));
		health_row(c->job, IPC_ROW(health_layers, .role = IPC_BROKER));
		health_row(c->job, IPC_ROW(health_layers, .role = 77));
	}
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(c->job, "warnings")), 64);
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(c->job, "pool")), 64);
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(c->job, "processes")), 64);
	fake_close();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_health_full_report_matches_its_table),
		cmocka_unit_test(test_health_asked_again),
		cmocka_unit_test(test_health_empty_report),
		cmocka_unit_test(test_health_lists_are_bounded),
	};

	return cmocka_run_group_tests_name("frontend_health", tests, NULL, NULL);
}
