/*
 * tests/unit/test_cli_bench_body.c - the raw body is the broker's with another entry point and no
 * label. Runs in: ctest. Input: none. Owns: nothing beyond each test.
 */
#include "test.h"

#include "cli.h"

int __wrap_raw_request(const char *method, const char *path, const char *body, struct buf *reply);
int
__wrap_raw_request(const char *method, const char *path, const char *body, struct buf *reply)
{
	(void)method;
	(void)path;
	(void)body;
	return buf_printf(reply, "{\"CgroupVersion\":\"2\",\"DefaultRuntime\":\"crun\"}") == 0
		       ? 200
		       : 500;
}

int __wrap_exe_share_dir(char *ret, size_t cap);
int
__wrap_exe_share_dir(char *ret, size_t cap)
{
	return str_copy(ret, cap, "/usr/share/bailey", 17);
}

static void
test_body(void **state)
{
	static const char *const entry[] = {"/bin/bash", "-c", ":", NULL};
	cleanup_free char *text = raw_box_body("img", entry);
	cJSON *o = cJSON_Parse(text);

	(void)state;
	assert_non_null(o);
	const cJSON *argv = cJSON_GetObjectItemCaseSensitive(o, "Entrypoint");
	assert_int_equal(cJSON_GetArraySize(argv), 3);
	assert_string_equal(cJSON_GetArrayItem(argv, 0)->valuestring, "/bin/bash");
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(o, "Labels")), 0);
	const cJSON *host = cJSON_GetObjectItemCaseSensitive(o, "HostConfig");
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(host, "ReadonlyRootfs")));
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(host, "AutoRemove")));
	cJSON_Delete(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_body)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
