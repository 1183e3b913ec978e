/*
 * tests/unit/test_ipc_spec.c - the run specification: rules, round trips, damage.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "ipc.h"

static const char *const wrong_env[] = {"", "A", "=x", "1A=x", "A-B=x", "A B=x", " A=x"};
static const char *const right_env[] = {"A=", "_=1", "a_9=x=y", "LONG_name=\xff\x01"};

static struct guest_spec
base_spec(void)
{
	return (struct guest_spec){.kind = RUN_PYTHON, .code = {(const uint8_t *)"1", 1}};
}

/* What each kind may have: flags, then which of its fields. */
static const struct {
	uint32_t kind, flags;
	bool words, env, span, mode, path;
} kinds[] = {
	{RUN_PYTHON, SPEC_STDIN | SPEC_LIVE, true, true, false, false, false},
	{RUN_NODE, SPEC_STDIN | SPEC_LIVE, true, true, false, false, false},
	{RUN_BASH, SPEC_STDIN | SPEC_LIVE, true, true, false, false, false},
	{RUN_COMMAND, SPEC_STDIN | SPEC_LIVE, true, true, false, false, false},
	{RUN_EVAL_PYTHON, 0, false, false, false, false, false},
	{RUN_EVAL_NODE, 0, false, false, false, false, false},
	{RUN_EVAL_BASH, 0, false, false, false, false, false},
	{RUN_FILE_READ, 0, false, false, true, false, true},
	{RUN_FILE_WRITE, SPEC_STDIN | SPEC_APPEND | SPEC_TRUNCATE, false, false, true, true, true},
	{RUN_FILE_LIST, 0, false, false, true, false, true},
	{RUN_ENV, 0, false, true, false, false, false},
};

static void
test_spec_check_flags(void **state)
{
	struct guest_spec spec = base_spec();

	(void)state;
	for (uint32_t kind = 0; kind < 14; kind++) {
		bool known = kind >= RUN_PYTHON && kind <= RUN_ENV && kind != RUN_ARGV;

		spec.kind = kind;
		spec.code.len = kind == RUN_ENV ? 0 : 1;
		assert_int_equal(spec_check(&spec), known ? 0 : -EINVAL);
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		spec = base_spec();
		spec.kind = kinds[i].kind;
		spec.code.len = kinds[i].kind == RUN_ENV ? 0 : 1;
		for (uint32_t bit = 1; bit != 0; bit <<= 1) {
			spec.flags = bit;
			assert_int_equal(spec_check(&spec),
					 (kinds[i].flags & bit) != 0 ? 0 : -EINVAL);
		}
	}
}

static void
test_spec_check_fields_of_kinds(void **state)
{
	struct ipc_str item = IPC_STR("A=1");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const int words = kinds[i].words ? 0 : -EINVAL;
		const int span = kinds[i].span ? 0 : -EINVAL;
		struct guest_spec spec = base_spec();

		spec.kind = kinds[i].kind;
		spec.code.len = kinds[i].kind == RUN_ENV ? 0 : 1;
		spec.cwd = IPC_STR("d");
		assert_int_equal(spec_check(&spec), words);
		spec.cwd = IPC_STR("");
		spec.args = &item;
		spec.n_args = 1;
		assert_int_equal(spec_check(&spec), words);
		spec.n_args = 0;
		spec.env = &item;
		spec.n_env = 1;
		assert_int_equal(spec_check(&spec), kinds[i].env ? 0 : -EINVAL);
		spec.n_env = 0;
		spec.offset = INT64_MAX;
		assert_int_equal(spec_check(&spec), span);
		spec.length = INT64_MAX;
		assert_int_equal(spec_check(&spec), span);
		spec.offset = (uint64_t)INT64_MAX + 1;
		assert_int_equal(spec_check(&spec), -EINVAL);
		spec.offset = 0;
		spec.length = (uint64_t)INT64_MAX + 1;
		assert_int_equal(spec_check(&spec), -EINVAL);
		spec.length = 0;
		spec.mode = 0777;
		assert_int_equal(spec_check(&spec), kinds[i].mode ? 0 : -EINVAL);
		spec.mode = 01000;
		assert_int_equal(spec_check(&spec), -EINVAL);
		spec.mode = 0;
		spec.code.len = 0;
		assert_int_equal(spec_check(&spec), kinds[i].path ? -EINVAL : 0);
	}
}

static void
test_spec_check_paths(void **state)
{
	cleanup_free char *text = xcalloc(SPEC_CWD_MAX + 2, 1);
	struct guest_spec spec = base_spec();

	(void)state;
	memset(text, 'a', SPEC_CWD_MAX + 1);
	for (spec.kind = RUN_FILE_READ; spec.kind <= RUN_FILE_LIST; spec.kind++) {
		spec.code = (struct ipc_bin){(const uint8_t *)text, SPEC_CWD_MAX};
		assert_int_equal(spec_check(&spec), 0);
		spec.code.len++;
		assert_int_equal(spec_check(&spec), -E2BIG);
		spec.code = (struct ipc_bin){(const uint8_t *)"a\0b", 3};
		assert_int_equal(spec_check(&spec), -EINVAL);
	}
	spec = base_spec();
	spec.kind = RUN_FILE_WRITE;
	spec.flags = SPEC_APPEND;
	assert_int_equal(spec_check(&spec), 0);
	spec.offset = 1; /* which of both? */
	assert_int_equal(spec_check(&spec), -EINVAL);
}

static void
test_spec_check_kept_env(void **state)
{
	cleanup_free char *text = xcalloc(SPEC_KEPT_ENV_MAX, 1);
	struct ipc_str items[2] = {IPC_STR("B="), {text, SPEC_KEPT_ENV_MAX - 4}};
	struct guest_spec spec = {.kind = RUN_ENV, .env = items, .n_env = 2};

	(void)state;
	memset(text, 'a', SPEC_KEPT_ENV_MAX);
	text[1] = '=';
	assert_int_equal(spec_check(&spec), 0);
	items[1].len++; /* with the NULs behind both */
	assert_int_equal(spec_check(&spec), -E2BIG);
	items[1] = IPC_STR("=");
	assert_int_equal(spec_check(&spec), -EINVAL);
	spec.n_env = 0; /* nothing is kept from now on */
	assert_int_equal(spec_check(&spec), 0);
	spec.code = (struct ipc_bin){(const uint8_t *)"x", 1};
	assert_int_equal(spec_check(&spec), -E2BIG);
}

static void
test_spec_check_argv(void **state)
{
	struct ipc_str item = IPC_STR("ls");
	struct guest_spec spec = {.kind = RUN_ARGV, .args = &item, .n_args = 1};

	(void)state;
	assert_int_equal(spec_check(&spec), 0);
	spec.flags = SPEC_STDIN | SPEC_LIVE;
	spec.cwd = IPC_STR("/tmp");
	assert_int_equal(spec_check(&spec), 0);
	spec.n_args = 0;
	assert_int_equal(spec_check(&spec), -EINVAL);
	spec.n_args = 1;
	spec.code = (struct ipc_bin){(const uint8_t *)"x", 1};
	assert_int_equal(spec_check(&spec), -E2BIG);
}

static void
test_spec_check_env_names(void **state)
{
	struct guest_spec spec = base_spec();
	struct ipc_str item;

	(void)state;
	spec.env = &item;
	spec.n_env = 1;
	for (size_t i = 0; i < ARRAY_LEN(wrong_env); i++) {
		item = IPC_STR(wrong_env[i]);
		assert_int_equal(spec_check(&spec), -EINVAL);
	}
	for (size_t i = 0; i < ARRAY_LEN(right_env); i++) {
		item = IPC_STR(right_env[i]);
		assert_int_equal(spec_check(&spec), 0);
	}
}

static void
test_spec_check_maxima(void **state)
{
	cleanup_free char *text = xcalloc(SPEC_CODE_MAX + 1, 1);
	cleanup_free struct ipc_str *many = xcalloc(SPEC_ARGS_MAX + 1, sizeof(*many));
	struct guest_spec spec = base_spec();

	(void)state;
	memset(text, 'a', SPEC_CODE_MAX + 1);
	for (size_t i = 0; i <= SPEC_ARGS_MAX; i++)
		many[i] = IPC_STR("A=1");
	spec.code = (struct ipc_bin){(const uint8_t *)text, SPEC_CODE_MAX};
	assert_int_equal(spec_check(&spec), 0);
	spec.code.len++;
	assert_int_equal(spec_check(&spec), -E2BIG);
	spec = base_spec();
	spec.kind = RUN_COMMAND; /* its code becomes one argument */
	spec.code = (struct ipc_bin){(const uint8_t *)text, SPEC_ITEM_MAX};
	assert_int_equal(spec_check(&spec), 0);
	spec.code.len++;
	assert_int_equal(spec_check(&spec), -E2BIG);
	spec = base_spec();
	spec.cwd = (struct ipc_str){text, SPEC_CWD_MAX};
	assert_int_equal(spec_check(&spec), 0);
	spec.cwd.len++;
	assert_int_equal(spec_check(&spec), -E2BIG);
	spec = base_spec();
	spec.args = many;
	spec.n_args = SPEC_ARGS_MAX;
	spec.env = many;
	spec.n_env = SPEC_ENV_MAX;
	assert_int_equal(spec_check(&spec), 0);
	spec.n_args++;
	assert_int_equal(spec_check(&spec), -E2BIG);
	spec.n_args--;
	spec.n_env++;
	assert_int_equal(spec_check(&spec), -E2BIG);
	spec.n_env = 0;
	many[0] = (struct ipc_str){text, SPEC_ITEM_MAX};
	assert_int_equal(spec_check(&spec), 0);
	many[0].len++;
	assert_int_equal(spec_check(&spec), -E2BIG);
}

static void
test_spec_check_nul(void **state)
{
	struct ipc_str item = {"A=b\0c", 5};
	struct guest_spec spec = base_spec();

	(void)state;
	spec.code = (struct ipc_bin){(const uint8_t *)"a\0b", 3};
	assert_int_equal(spec_check(&spec), 0); /* a file may hold one */
	spec.kind = RUN_COMMAND;
	assert_int_equal(spec_check(&spec), -EINVAL);
	spec = base_spec();
	spec.cwd = (struct ipc_str){"a\0b", 3};
	assert_int_equal(spec_check(&spec), -EINVAL);
	spec = base_spec();
	spec.args = &item;
	spec.n_args = 1;
	assert_int_equal(spec_check(&spec), -EINVAL);
	spec.env = TAKE(spec.args);
	spec.n_env = 1;
	spec.n_args = 0;
	assert_int_equal(spec_check(&spec), -EINVAL);
}

static void
assert_str_equal(struct ipc_str a, struct ipc_str b)
{
	assert_int_equal(a.len, b.len);
	if (a.len > 0)
		assert_memory_equal(a.data, b.data, a.len);
}

static void
test_spec_round_trip(void **state)
{
	struct ipc_str args[] = {IPC_STR("one"), IPC_STR(""), IPC_STR("three \xff")};
	struct ipc_str env[] = {IPC_STR("A=1"), IPC_STR("B_2=")};
	struct guest_spec in = {.kind = RUN_NODE,
				.flags = SPEC_LIVE,
				.timeout_ms = UINT32_MAX,
				.output_limit = UINT64_MAX,
				.cwd = IPC_STR("dir/sub"),
				.code = {(const uint8_t *)"\0\xff", 2},
				.n_args = 3,
				.args = args,
				.n_env = 2,
				.env = env};
	struct guest_spec out;
	struct buf b;

	(void)state;
	buf_init(&b, GUEST_SPEC_MAX);
	assert_int_equal(spec_encode(&in, &b), 0);
	assert_int_equal(spec_decode(buf_data(&b), buf_len(&b), &out), 0);
	assert_int_equal(out.offset, 0);
	assert_int_equal(out.length, 0);
	assert_int_equal(out.mode, 0);
	assert_int_equal(out.kind, in.kind);
	assert_int_equal(out.flags, in.flags);
	assert_int_equal(out.timeout_ms, in.timeout_ms);
	assert_int_equal(out.output_limit, in.output_limit);
	assert_str_equal(out.cwd, in.cwd);
	assert_int_equal(out.code.len, 2);
	assert_memory_equal(out.code.data, in.code.data, 2);
	assert_int_equal(out.n_args, 3);
	assert_int_equal(out.n_env, 2);
	for (size_t i = 0; i < 3; i++)
		assert_str_equal(out.args[i], args[i]);
	for (size_t i = 0; i < 2; i++)
		assert_str_equal(out.env[i], env[i]);
	spec_done(&out);
	spec_done(&out);
	spec_done(NULL);
	buf_done(&b);
}

static void
test_spec_round_trip_of_a_file(void **state)
{
	const struct guest_spec in = {.kind = RUN_FILE_WRITE,
				      .flags = SPEC_STDIN | SPEC_TRUNCATE,
				      .code = {(const uint8_t *)"a/b", 3},
				      .offset = INT64_MAX,
				      .length = 12345678901,
				      .mode = 0640};
	struct guest_spec out;
	struct buf b;

	(void)state;
	buf_init(&b, GUEST_SPEC_MAX);
	assert_int_equal(spec_encode(&in, &b), 0);
	assert_int_equal(spec_decode(buf_data(&b), buf_len(&b), &out), 0);
	assert_int_equal(out.flags, in.flags);
	assert_memory_equal(out.code.data, "a/b", 3);
	assert_true(out.offset == in.offset && out.length == in.length);
	assert_int_equal(out.mode, 0640);
	spec_done(&out);
	buf_done(&b);
}

/* Every truncation, one byte more, and every changed byte: refused, or still a valid one. */
static void
test_spec_decode_damage(void **state)
{
	struct ipc_str args[] = {IPC_STR("one")};
	struct ipc_str env[] = {IPC_STR("A=1")};
	struct guest_spec in = {.kind = RUN_BASH,
				.cwd = IPC_STR("d"),
				.code = {(const uint8_t *)"ls", 2},
				.n_args = 1,
				.args = args,
				.n_env = 1,
				.env = env};
	struct guest_spec out = {.kind = 99};
	struct buf b;

	(void)state;
	buf_init(&b, GUEST_SPEC_MAX);
	assert_int_equal(spec_encode(&in, &b), 0);
	for (size_t len = 0; len < buf_len(&b); len++) {
		cleanup_free uint8_t *cut = xcalloc(len, 1);

		memcpy(cut, buf_data(&b), len);
		assert_int_equal(spec_decode(cut, len, &out), -EBADMSG);
		assert_int_equal(out.kind, 99);
	}
	for (size_t i = 0; i < buf_len(&b); i++) {
		for (unsigned int value = 0; value < 256; value++) {
			cleanup_free uint8_t *bad = xcalloc(buf_len(&b), 1);

			memcpy(bad, buf_data(&b), buf_len(&b));
			bad[i] = (uint8_t)value;
			if (spec_decode(bad, buf_len(&b), &out) == 0) {
				assert_int_equal(spec_check(&out), 0);
				spec_done(&out);
			}
		}
	}
	assert_int_equal(buf_append(&b, "", 1), 0);
	assert_int_equal(spec_decode(buf_data(&b), buf_len(&b), &out), -EBADMSG);
	buf_done(&b);
}

static void
test_spec_decode_claims_cost_nothing(void **state)
{
	/* [1, 0, 0, 0, "", bin 0, array32 of 2^32 - 1 */
	static const uint8_t args[] = "\x9b\x01\x00\x00\x00\xa0\xc4\x00\xdd\xff\xff\xff\xff";
	struct guest_spec out;
	static const uint8_t large[GUEST_SPEC_MAX + 1];

	(void)state;
	assert_int_equal(spec_decode(args, sizeof(args) - 1, &out), -EBADMSG);
	assert_int_equal(spec_decode(large, sizeof(large), &out), -EBADMSG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spec_check_flags),
		cmocka_unit_test(test_spec_check_fields_of_kinds),
		cmocka_unit_test(test_spec_check_paths),
		cmocka_unit_test(test_spec_check_kept_env),
		cmocka_unit_test(test_spec_check_argv),
		cmocka_unit_test(test_spec_check_env_names),
		cmocka_unit_test(test_spec_check_maxima),
		cmocka_unit_test(test_spec_check_nul),
		cmocka_unit_test(test_spec_round_trip),
		cmocka_unit_test(test_spec_round_trip_of_a_file),
		cmocka_unit_test(test_spec_decode_damage),
		cmocka_unit_test(test_spec_decode_claims_cost_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
