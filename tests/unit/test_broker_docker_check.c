/* tests/unit/test_broker_docker_check.c - every field of a create body is compared, every way. */
#include "test.h"

#include "../fakes/box_spec.h"
#include "engine_parts.h"

#include <cjson/cJSON.h>

/* The inspect reply of an engine that did all it was asked to. */
static cJSON *
good_reply(const struct box_spec *spec, const struct engine_info *info)
{
	cJSON *config = docker_body_tree(spec, info);
	cJSON *host = cJSON_DetachItemFromObjectCaseSensitive(config, "HostConfig");
	cJSON *reply = cJSON_CreateObject(), *mounts = cJSON_AddArrayToObject(reply, "Mounts");
	const cJSON *m;

	cJSON_ArrayForEach(m, cJSON_GetObjectItemCaseSensitive(host, "Mounts"))
	{
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "Type", "bind");
		cJSON_AddFalseToObject(o, "RW");
		cJSON_AddItemToArray(mounts, o);
	}
	cJSON_AddItemToObject(reply, "NetworkSettings",
			      cJSON_Parse("{\"Networks\":{\"none\":{\"IPAddress\":\"\"}},"
					  "\"Ports\":{},\"IPAddress\":\"\"}"));
	cJSON_AddStringToObject(reply, "Path", "/.bailey/init");
	cJSON_AddArrayToObject(reply, "Args");
	cJSON_AddStringToObject(reply, "Image", spec->image);
	cJSON_AddItemToObject(reply, "Config", config);
	cJSON_AddItemToObject(reply, "HostConfig", host);
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(config, "Env"),
			     cJSON_CreateString("FROM_IMAGE=1"));
	cJSON_AddStringToObject(cJSON_GetObjectItemCaseSensitive(config, "Labels"), "image.label",
				"x");
	cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(config, "Healthcheck"), "Interval",
				1e9);
	cJSON_AddNullToObject(host, "CapAdd");
	cJSON_AddArrayToObject(host, "Devices");
	cJSON_AddNumberToObject(host, "CpuQuota", 0);
	return reply;
}

static int
check(const cJSON *reply, const struct box_spec *spec, const char **field)
{
	char *text = cJSON_PrintUnformatted(reply);
	int r = docker_check((const uint8_t *)text, strlen(text), spec, &fake_engine_info, field);

	cJSON_free(text);
	return r;
}

static void
test_good(void **state)
{
	const char *field = NULL;
	cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info);

	(void)state;
	assert_int_equal(check(reply, &fake_box_spec, &field), 0);
	cJSON_Delete(reply);
}

/* A value of the same kind that is not v. */
static cJSON *
other_than(const cJSON *v)
{
	if (cJSON_IsBool(v))
		return cJSON_CreateBool(!cJSON_IsTrue(v));
	if (cJSON_IsNumber(v))
		return cJSON_CreateNumber(v->valuedouble + 1);
	if (cJSON_IsString(v))
		return cJSON_CreateString("something else");
	return cJSON_CreateStringReference("not even the kind");
}

static void
must_refuse(cJSON *reply, const char *part, const char *key)
{
	char want[96];
	const char *field = NULL;

	if (check(reply, &fake_box_spec, &field) != -EPERM)
		fail_msg("%s.%s may differ", part, key);
	(void)snprintf(want, sizeof(want), "%s.%s", part, key);
	assert_string_equal(field, want);
}

static void
change_every(const char *part, bool drop)
{
	cJSON *body = docker_body_tree(&fake_box_spec, &fake_engine_info);
	const cJSON *from =
		strcmp(part, "Config") == 0 ? body : cJSON_GetObjectItemCaseSensitive(body, part);
	const cJSON *v;

	cJSON_ArrayForEach(v, from)
	{
		cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info);
		cJSON *o = cJSON_GetObjectItemCaseSensitive(reply, part);
		/* absent is as good as false, 0 or empty */
		bool nothing = cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == 0) ||
			       (cJSON_IsString(v) && v->valuestring[0] == '\0') ||
			       (cJSON_IsArray(v) && v->child == NULL);

		if (strcmp(v->string, "HostConfig") != 0 && !(drop && nothing)) {
			cJSON_DeleteItemFromObjectCaseSensitive(o, v->string);
			if (!drop)
				cJSON_AddItemToObject(o, v->string, other_than(v));
			must_refuse(reply, part, v->string);
		}
		cJSON_Delete(reply);
	}
	cJSON_Delete(body);
}

static void
test_every_field_sent_is_compared(void **state)
{
	(void)state;
	change_every("Config", false);
	change_every("Config", true);
	change_every("HostConfig", false);
	change_every("HostConfig", true);
}

static void
test_every_row_refuses_a_surprise(void **state)
{
	(void)state;
	for (size_t i = 0; docker_check_field(i) != NULL; i++) {
		const char *name = docker_check_field(i), *dot = strchr(name, '.'), *field = NULL;
		cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info), *o = reply;
		char part[16];

		/* any, where the spec names none; test_lists knows what networks must not be */
		if (strcmp(name, "AppArmorProfile") == 0 || strcmp(name, "NetworkSettings") == 0) {
			cJSON_Delete(reply);
			continue;
		}
		if (dot != NULL) {
			assert_int_equal(str_copy(part, sizeof(part), name, (size_t)(dot - name)),
					 0);
			o = cJSON_GetObjectItemCaseSensitive(reply, part);
			name = dot + 1;
		}
		cJSON_DeleteItemFromObjectCaseSensitive(o, name);
		cJSON_AddItemToObject(o, name, cJSON_Parse("{\"surprise\":[\"x\"]}"));
		assert_int_equal(check(reply, &fake_box_spec, &field), -EPERM);
		assert_string_equal(field, docker_check_field(i));
		cJSON_Delete(reply);
	}
}

static void
test_lists(void **state)
{
	static const struct {
		const char *field, *json;
	} rows[] = {
		{"Mounts", "[{\"Type\":\"volume\",\"RW\":false}]"},
		{"Mounts", "null"},
		{"Mounts", "{}"},
		{"Mounts",
		 "[{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":false},{\"Type\":"
		 "\"bind\","
		 "\"RW\":false},{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":true}]"},
		{"Mounts",
		 "[{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":false},{\"Type\":"
		 "\"bind\","
		 "\"RW\":false},{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":false},"
		 "{\"Type\":\"bind\",\"RW\":false}]"},
		{"NetworkSettings", "{\"Networks\":{\"none\":{},\"bridge\":{}}}"},
		{"NetworkSettings", "{\"Networks\":[\"none\"]}"},
		{"NetworkSettings", "{\"Ports\":{\"80/tcp\":[]}}"},
		{"NetworkSettings", "{\"IPAddress\":\"172.17.0.2\"}"},
		{"NetworkSettings", "[1]"},
		{"HostConfig.Ulimits", "[{\"Name\":\"nofile\",\"Soft\":1024,\"Hard\":2048}]"},
		{"HostConfig.RestartPolicy", "{\"Name\":\"no\",\"MaximumRetryCount\":3}"},
		{"HostConfig.LogConfig", "{\"Type\":\"none\",\"Config\":{\"x\":\"y\"}}"},
		{"HostConfig.CapDrop", "[\"ALL\",\"X\"]"},
		{"Config.Env", "[\"HOME=/workspace\",\"PATH=/usr/local/bin:/usr/bin:/bin\"]"},
		{"Config.Labels", "{\"io.bailey.product\":\"bailey\"}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info), *o = reply;
		const char *name = rows[i].field, *dot = strchr(name, '.'), *field = NULL;

		if (dot != NULL) {
			char part[16];

			assert_int_equal(str_copy(part, sizeof(part), name, (size_t)(dot - name)),
					 0);
			o = cJSON_GetObjectItemCaseSensitive(reply, part);
			name = dot + 1;
		}
		cJSON_DeleteItemFromObjectCaseSensitive(o, name);
		cJSON_AddItemToObject(o, name, cJSON_Parse(rows[i].json));
		assert_int_equal(check(reply, &fake_box_spec, &field), -EPERM);
		assert_string_equal(field, rows[i].field);
		cJSON_Delete(reply);
	}
}

static void
test_a_later_twin_does_not_hide_a_value(void **state)
{
	const char *field = NULL;
	cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info);
	cJSON *host = cJSON_GetObjectItemCaseSensitive(reply, "HostConfig");

	(void)state;
	/* case matters: this is another key, and not one we know */
	cJSON_DeleteItemFromObjectCaseSensitive(host, "ReadonlyRootfs");
	cJSON_AddTrueToObject(host, "readonlyrootfs");
	assert_int_equal(check(reply, &fake_box_spec, &field), -EPERM);
	assert_string_equal(field, "HostConfig.ReadonlyRootfs");
	cJSON_Delete(reply);
}

/* A host setting of a newer engine: nothing may hide behind it. */
static void
test_settings_nobody_knows(void **state)
{
	static const char *const harmless[] = {"null", "false", "0", "\"\"", "[]", "{}", "[0,0]"};
	static const char *const strange[] = {"true",  "1",         "\"x\"",       "[1]",
					      "[0,1]", "{\"a\":0}", "[\"\",\"x\"]"};
	const char *field;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(harmless) + ARRAY_LEN(strange); i++) {
		bool bad = i >= ARRAY_LEN(harmless);
		cJSON *reply = good_reply(&fake_box_spec, &fake_engine_info);
		cJSON *host = cJSON_GetObjectItemCaseSensitive(reply, "HostConfig");

		cJSON_AddItemToObject(
			host, "NewOfTheEngine",
			cJSON_Parse(bad ? strange[i - ARRAY_LEN(harmless)] : harmless[i]));
		field = "";
		assert_int_equal(check(reply, &fake_box_spec, &field), bad ? -EPERM : 0);
		assert_int_equal(strncmp(field, "HostConfig (", 12) == 0, bad);
		cJSON_Delete(reply);
	}
}

static void
test_an_update_read_back(void **state)
{
	static const struct {
		const char *host, *field; /* field NULL: as it should be */
		uint64_t memory;
		uint32_t cpus;
	} rows[] = {
		{"{\"Memory\":64,\"MemorySwap\":64,\"NanoCpus\":500000000}", NULL, 64, 500},
		{"{\"Memory\":64,\"MemorySwap\":64,\"NanoCpus\":1}", NULL, 64, 0},
		{"{\"Memory\":1,\"NanoCpus\":500000000}", NULL, 0, 500},
		{"{\"Memory\":65,\"MemorySwap\":64}", "HostConfig.Memory", 64, 0},
		{"{\"Memory\":64,\"MemorySwap\":128}", "HostConfig.MemorySwap", 64, 0},
		{"{\"Memory\":64}", "HostConfig.MemorySwap", 64, 0},
		{"{\"NanoCpus\":500000001}", "HostConfig.NanoCpus", 0, 500},
		{"{\"NanoCpus\":\"500000000\"}", "HostConfig.NanoCpus", 0, 500},
		{"{}", "HostConfig.NanoCpus", 0, 500},
	};
	const char *field;
	char text[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int n = snprintf(text, sizeof(text), "{\"HostConfig\":%s}", rows[i].host);
		int r = docker_check_update((const uint8_t *)text, (size_t)n, rows[i].memory,
					    rows[i].cpus, &field);
		assert_int_equal(r, rows[i].field != NULL ? -EPERM : 0);
		if (rows[i].field != NULL)
			assert_string_equal(field, rows[i].field);
	}
	assert_int_equal(docker_check_update((const uint8_t *)"{}", 2, 64, 0, &field), -EPROTO);
	assert_int_equal(docker_check_update((const uint8_t *)"x", 1, 64, 0, &field), -EPROTO);
}

static void
test_profile_and_image(void **state)
{
	struct box_spec spec = fake_box_spec;
	const char *field = NULL;
	cJSON *reply;

	(void)state;
	spec.apparmor = "bailey-box";
	reply = good_reply(&spec, &fake_engine_info);
	assert_int_equal(check(reply, &spec, &field), -EPERM);
	assert_string_equal(field, "AppArmorProfile");
	cJSON_AddStringToObject(reply, "AppArmorProfile", "bailey-box");
	assert_int_equal(check(reply, &spec, &field), 0);
	cJSON_Delete(reply);

	spec = fake_box_spec;
	(void)snprintf(spec.image, sizeof(spec.image), "bailey/sandbox:slim");
	reply = good_reply(&spec, &fake_engine_info);
	cJSON_ReplaceItemInObjectCaseSensitive(reply, "Image", cJSON_CreateString("sha256:any"));
	assert_int_equal(check(reply, &spec, &field), 0); /* only an id pins */
	cJSON_Delete(reply);
}

static void
test_no_reply_at_all(void **state)
{
	static const char *const bad[] = {"",
					  "[]",
					  "{}",
					  "null",
					  "{\"Config\":{}}",
					  "{\"Config\":[],\"HostConfig\":[]}",
					  "{\"Config\":"};
	const char *field = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(docker_check((const uint8_t *)bad[i], strlen(bad[i]),
					      &fake_box_spec, &fake_engine_info, &field),
				 -EPROTO);
	assert_null(field);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_every_field_sent_is_compared),
		cmocka_unit_test(test_every_row_refuses_a_surprise),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_a_later_twin_does_not_hide_a_value),
		cmocka_unit_test(test_settings_nobody_knows),
		cmocka_unit_test(test_an_update_read_back),
		cmocka_unit_test(test_profile_and_image),
		cmocka_unit_test(test_no_reply_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
