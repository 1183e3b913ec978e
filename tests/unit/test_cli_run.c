/*
 * tests/unit/test_cli_run.c - options, code intake and exit codes of bailey run.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "../cli/run.c" /* its statics are what is tested */

static void
test_language_of_suffix(void **state)
{
	static const struct {
		const char *file, *language;
	} cases[] = {{"a.py", "python"},   {"a.js", "node"},     {"a.mjs", "node"},
		     {"a.cjs", "node"},    {"b.sh", "bash"},     {"-", "python"},
		     {"noext", "python"},  {"a.b.bash", "bash"}, {".profile", "python"},
		     {"d.rb/x", "python"}, {"end.", "python"}};
	static const char *const others[] = {"a.rb", "a.ts", "d.py/a.pl", "a.py.txt"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(language_of(cases[i].file), cases[i].language);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_null(language_of(others[i]));
}

static void
test_parse_options(void **state)
{
	struct run_options o;
	const char *const good[] = {"run", "-l",   "bash", "-t", "5", "-m",
				    "64",  "f.py", "-x",   "y",  NULL};
	const char *const zero[] = {"run", "-t", "0", NULL};
	const char *const word[] = {"run", "-m", "lots", NULL};
	const char *const unknown[] = {"run", "-q", NULL};
	const char *const long_one[] = {"run", "--timeout", "5", NULL};
	const char *const valueless[] = {"run", "-t", NULL};
	const char *const ruby[] = {"run", "x.rb", NULL};
	const char *const named[] = {"run", "-l", "python", "x.rb", NULL};

	(void)state;
	assert_int_equal(parse_options(10, (char **)(uintptr_t)good, &o), 0);
	assert_string_equal(o.language, "bash");
	assert_string_equal(o.file, "f.py");
	assert_int_equal(o.timeout_s, 5);
	assert_int_equal(o.memory_mb, 64);
	assert_int_equal(o.n_args, 2);
	assert_string_equal(o.args[0], "-x");
	assert_int_equal(parse_options(1, (char **)(uintptr_t)good, &o), 0);
	assert_string_equal(o.file, "-");
	assert_int_equal(o.n_args, 0);
	assert_int_equal(parse_options(3, (char **)(uintptr_t)zero, &o), -EINVAL);
	assert_int_equal(parse_options(3, (char **)(uintptr_t)word, &o), -EINVAL);
	assert_int_equal(parse_options(2, (char **)(uintptr_t)unknown, &o), -EINVAL);
	assert_int_equal(parse_options(3, (char **)(uintptr_t)long_one, &o), -EINVAL);
	assert_int_equal(parse_options(2, (char **)(uintptr_t)valueless, &o), -EINVAL);
	assert_int_equal(parse_options(2, (char **)(uintptr_t)ruby, &o), -EINVAL);
	assert_int_equal(parse_options(4, (char **)(uintptr_t)named, &o), 0);
}

static cJSON *
result_of(const char *structured)
{
	cleanup_free char *text = xasprintf("{\"structuredContent\":%s}", structured);
	cJSON *r = cJSON_Parse(text);

	assert_non_null(r);
	return r;
}

static void
test_exit_codes(void **state)
{
	static const struct {
		const char *structured;
		int code;
	} cases[] = {
		{"{\"status\":\"ok\",\"exit_code\":0}", 0},
		{"{\"status\":\"nonzero\",\"exit_code\":7}", 7},
		{"{\"status\":\"signaled\",\"signal\":9}", 137},
		{"{\"status\":\"timed_out\"}", CLI_TIMED_OUT},
		{"{\"status\":\"timed_out\",\"exit_code\":3}", CLI_TIMED_OUT},
		{"{\"status\":\"disk_full\",\"exit_code\":3,\"signal\":null}", 3},
		{"{\"status\":\"pids_limit\",\"exit_code\":254}", 254},
		{"{\"status\":\"oom_killed\",\"exit_code\":null,\"signal\":9}", 137},
		{"{\"status\":\"lost\",\"exit_code\":null,\"signal\":null}", CLI_NOT_RUN},
		{"{\"status\":\"engine_unavailable\",\"message\":\"no engine\"}", CLI_NOT_RUN},
		{"{\"status\":\"ok\"}", CLI_NOT_RUN}, /* no code reported: never an invented 0 */
		{"{}", CLI_NOT_RUN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cJSON *r = result_of(cases[i].structured);
		assert_int_equal(exit_code_of(r), cases[i].code);
		cJSON_Delete(r);
	}
}

static void
test_output_comes_as_it_was_written(void **state)
{
	static const struct {
		const char *text, *encoding, *pipe;
		size_t len;
	} cases[] = {
		{"a\\n", "utf-8", "a\\n", 3},
		{"a\\\\n\\u{1B}[1m", "escaped", "a\\n\033[1m", 7},
		{"\\u{0}\\u{202E}\\u{E0041}\\u{E9}", "escaped",
		 "\0\xe2\x80\xae\xf3\xa0\x81\x81\xc3\xa9", 10},
		{"\\u{}\\u{110000}\\u{1\\", "escaped", "\\u{}\\u{110000}\\u{1\\", 19},
		{"AP8K", "base64", "\0\xff\n", 3},
		{"no", "base64", "no", 2}, /* never what it is not */
		{"", "utf-8", "", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int terminal = 0; terminal < 2; terminal++) {
			cleanup_free char *text = xstrdup(cases[i].text);
			char out[64];
			FILE *f = fmemopen(out, sizeof(out), "w");
			size_t n = terminal ? strlen(text) : cases[i].len;

			assert_non_null(f);
			print_part(text, cases[i].encoding, terminal == 1, f);
			assert_int_equal(ftell(f), n);
			(void)fclose(f);
			assert_memory_equal(out, terminal ? cases[i].text : cases[i].pipe, n);
		}
	}
}

static void
test_code_must_be_text_of_at_most_a_mebibyte(void **state)
{
	char path[] = "/tmp/bailey-run-XXXXXX";
	int fd = mkstemp(path);
	cJSON *o = cJSON_CreateObject();
	cleanup_free char *big = xcalloc(1, CODE_MAX + 1);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(add_code(o, path), 0);
	assert_string_equal(cJSON_GetObjectItem(o, "code")->valuestring, "");
	assert_int_equal(write(fd, "a\xff", 2), 2);
	assert_int_equal(add_code(o, path), -EILSEQ);
	memset(big, 'x', CODE_MAX + 1);
	assert_int_equal(pwrite(fd, big, CODE_MAX, 0), CODE_MAX);
	cJSON_Delete(o);
	o = cJSON_CreateObject();
	assert_int_equal(add_code(o, path), 0);
	assert_int_equal(pwrite(fd, big, CODE_MAX + 1, 0), CODE_MAX + 1);
	assert_true(add_code(o, path) < 0);
	assert_int_equal(add_code(o, "/nonexistent/file.py"), -ENOENT);
	cJSON_Delete(o);
	close(fd);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_language_of_suffix),
		cmocka_unit_test(test_parse_options),
		cmocka_unit_test(test_exit_codes),
		cmocka_unit_test(test_output_comes_as_it_was_written),
		cmocka_unit_test(test_code_must_be_text_of_at_most_a_mebibyte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
