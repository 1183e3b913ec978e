/*
 * tests/unit/test_confine_render.c - the rendered container profile as an engine reads it.
 * Runs in: ctest.
 * Input: the generated string.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <cjson/cJSON.h>

#include "container_seccomp.h"

static int
set_up(void **state)
{
	*state = cJSON_Parse(container_seccomp_json);
	return *state == NULL ? -1 : 0;
}

static int
tear_down(void **state)
{
	cJSON_Delete(*state);
	return 0;
}

static const char *
text(const cJSON *object, const char *key)
{
	const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

	return value == NULL ? "" : value;
}

static double
number(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	assert_true(cJSON_IsNumber(item));
	return item->valuedouble;
}

/* The n-th entry that names the call; NULL past the last. */
static const cJSON *
entry_of(const cJSON *profile, const char *call, int n)
{
	const cJSON *entry = NULL, *name = NULL;

	cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(profile, "syscalls"))
	{
		cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(entry, "names"))
		{
			if (strcmp(cJSON_GetStringValue(name), call) == 0 && n-- == 0)
				return entry;
		}
	}
	return NULL;
}

static void
test_render_frame(void **state)
{
	const cJSON *architectures = cJSON_GetObjectItemCaseSensitive(*state, "architectures");

	assert_string_equal(text(*state, "defaultAction"), "SCMP_ACT_ERRNO");
	assert_true(number(*state, "defaultErrnoRet") == EPERM);
	assert_int_equal(cJSON_GetArraySize(architectures), 1);
	assert_null(strchr(container_seccomp_json, '\n'));
}

/* Equality only, each argument once, nothing but allow and errno; names once unless conditional. */
static void
test_render_rules(void **state)
{
	const cJSON *entry = NULL, *condition = NULL, *name = NULL;

	cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(*state, "syscalls"))
	{
		const cJSON *args = cJSON_GetObjectItemCaseSensitive(entry, "args");
		unsigned seen = 0;

		assert_true(strcmp(text(entry, "action"), "SCMP_ACT_ALLOW") == 0 ||
			    strcmp(text(entry, "action"), "SCMP_ACT_ERRNO") == 0);
		assert_true(cJSON_HasObjectItem(entry, "errnoRet") ==
			    (strcmp(text(entry, "action"), "SCMP_ACT_ERRNO") == 0));
		cJSON_ArrayForEach(condition, args)
		{
			unsigned bit = 1U << (unsigned)number(condition, "index");

			assert_int_equal(seen & bit, 0);
			seen |= bit;
			assert_true(strcmp(text(condition, "op"), "SCMP_CMP_EQ") == 0 ||
				    strcmp(text(condition, "op"), "SCMP_CMP_MASKED_EQ") == 0);
		}
		cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(entry, "names"))
		{
			if (args == NULL && entry_of(*state, cJSON_GetStringValue(name), 1) != NULL)
				fail_msg("%s twice", cJSON_GetStringValue(name));
		}
	}
}

static void
test_render_examples(void **state)
{
	static const char *const absent[] = {"ptrace", "mount",       "unshare",    "bpf",
					     "keyctl", "userfaultfd", "setns",      "chroot",
					     "sync",   "syncfs",      "pidfd_getfd"};
	const cJSON *entry = entry_of(*state, "clone", 0);
	const cJSON *condition =
		cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(entry, "args"), 0);

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		assert_null(entry_of(*state, absent[i], 0));
	/* Namespace flags, as mask; none of them, as value. */
	assert_string_equal(text(condition, "op"), "SCMP_CMP_MASKED_EQ");
	assert_true(number(condition, "value") == 0x7e020000);
	assert_true(number(condition, "valueTwo") == 0);
	assert_true(number(entry_of(*state, "clone3", 0), "errnoRet") == ENOSYS);
	assert_true(number(entry_of(*state, "io_uring_setup", 0), "errnoRet") == EPERM);
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(
				 entry_of(*state, "socket", 1), "args")),
			 3);
	assert_non_null(entry_of(*state, "read", 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_render_frame),
		cmocka_unit_test(test_render_rules),
		cmocka_unit_test(test_render_examples),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
