/*
 * tests/unit/test_frontend_specs.c - what a tool's arguments become.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static void
test_specs_fill_programs(void **state)
{
	static const struct {
		enum tool_no tool;
		const char *args;
		enum run_kind kind;
		enum box_class box_class;
		const char *code, *cwd;
	} rows[] = {
		{TOOL_execute_code, "{\"language\":\"python\",\"code\":\"c\"}", RUN_PYTHON,
		 BOX_PYTHON, "c", ""},
		{TOOL_execute_code, "{\"language\":\"node\",\"code\":\"c\"}", RUN_NODE, BOX_NODE,
		 "c", ""},
		{TOOL_execute_code, "{\"language\":\"bash\",\"code\":\"c\"}", RUN_BASH, BOX_SHELL,
		 "c", ""},
		{TOOL_execute_python_code, "{\"code_string\":\"c\"}", RUN_PYTHON, BOX_PYTHON, "c",
		 ""},
		{TOOL_execute_sandboxed_command, "{\"command\":\"c\",\"working_dir\":\"d\"}",
		 RUN_COMMAND, BOX_SHELL, "c", "/workspace/d"},
		{TOOL_docker_run, "{\"command\":\"c\"}", RUN_COMMAND, BOX_SHELL, "c", ""},
		{TOOL_container_exec_command, "{\"argv\":[\"a\",\"\"],\"working_dir\":\"/tmp\"}",
		 RUN_ARGV, BOX_SHELL, "", "/tmp"},
		{TOOL_sandbox_eval, "{\"language\":\"python\",\"code\":\"c\"}", RUN_EVAL_PYTHON,
		 BOX_PYTHON, "c", ""},
		{TOOL_sandbox_eval, "{\"language\":\"bash\",\"code\":\"c\"}", RUN_EVAL_BASH,
		 BOX_SHELL, "c", ""},
		{TOOL_sandbox_eval, "{\"language\":\"node\",\"code\":\"c\"}", RUN_EVAL_NODE,
		 BOX_NODE, "c", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reply_to to = {.rev = REV_2025_11_25};
		struct call *c = call_new(&fe, &to, &run_plan);
		cJSON *args = cJSON_Parse(rows[i].args);
		struct guest_spec spec;

		assert_int_equal(specs_fill(c, rows[i].tool, args), 0);
		assert_int_equal(spec_decode(buf_data(&c->spec), buf_len(&c->spec), &spec), 0);
		assert_int_equal(spec.kind, rows[i].kind);
		assert_int_equal(c->box_class, rows[i].box_class);
		assert_int_equal(spec.code.len, strlen(rows[i].code));
		assert_memory_equal(spec.code.data, rows[i].code, spec.code.len);
		assert_int_equal(spec.cwd.len, strlen(rows[i].cwd));
		assert_memory_equal(spec.cwd.data, rows[i].cwd, spec.cwd.len);
		assert_int_equal(spec.n_args, rows[i].kind == RUN_ARGV ? 2 : 0);
		spec_done(&spec);
		cJSON_Delete(args);
		call_free(c);
	}
}

/* Start-up variables keep the waiting interpreter from being used; an evaluation has none. */
static void
test_specs_fill_live_environment(void **state)
{
	static const struct {
		const char *name;
		bool live;
	} names[] = {{"PYTHONPATH", true}, {"NODE_OPTIONS", true}, {"LD_PRELOAD", true},
		     {"TZ", true},         {"TZDIR", false},       {"LANG", true},
		     {"LANGUAGE", false},  {"HOME", false},        {"XPYTHON", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct reply_to to = {.rev = REV_2025_11_25};
		struct call *c = call_new(&fe, &to, &run_plan);
		struct guest_spec spec;
		char text[128];
		cJSON *args;

		(void)snprintf(text, sizeof(text),
			       "{\"language\":\"python\",\"code\":\"\",\"env\":{\"%s\":\"v\"}}",
			       names[i].name);
		args = cJSON_Parse(text);
		assert_int_equal(specs_fill(c, TOOL_execute_code, args), 0);
		assert_int_equal(spec_decode(buf_data(&c->spec), buf_len(&c->spec), &spec), 0);
		assert_int_equal(spec.flags, names[i].live ? SPEC_LIVE : 0);
		assert_int_equal(c->flags, names[i].live ? CALL_LIVE : 0);
		spec_done(&spec);
		cJSON_Delete(args);
		call_free(c);
	}
}

static void
test_specs_file_paths(void **state)
{
	static const struct {
		const char *path, *sent;
	} rows[] = {{"a", "/workspace/a"}, {"/tmp/a", "/tmp/a"}, {"../a", "/workspace/../a"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reply_to to = {.rev = REV_2025_11_25};
		struct call *c = call_new(&fe, &to, &run_plan);
		struct guest_spec spec;

		assert_int_equal(specs_file(c, &(struct file_spec){.kind = RUN_FILE_WRITE,
								   .path = rows[i].path,
								   .offset = 5,
								   .mode = 0755,
								   .flags = SPEC_STDIN}),
				 0);
		assert_int_equal(c->flags, CALL_STEP);
		assert_int_equal(spec_decode(buf_data(&c->spec), buf_len(&c->spec), &spec), 0);
		assert_int_equal(spec.code.len, strlen(rows[i].sent));
		assert_memory_equal(spec.code.data, rows[i].sent, spec.code.len);
		assert_int_equal(spec.offset, 5);
		assert_int_equal(spec.mode, 0755);
		spec_done(&spec);
		call_free(c);
	}
}

static void
test_specs_sandbox_ids(void **state)
{
	static const struct {
		const char *id;
		bool good;
	} rows[] = {{BOX_ID, true},
		    {"", false},
		    {"0123456789abcdef0123456789abcde", false},
		    {"0123456789abcdef0123456789abcdef0", false},
		    {"0123456789ABCDEF0123456789abcdef", false},
		    {"0123456789abcdef0123456789abcde/", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct call c = {.sandbox = ""};

		assert_int_equal(specs_sandbox(&c, rows[i].id), rows[i].good);
		assert_string_equal(c.sandbox, rows[i].good ? BOX_ID : "");
	}
}

static void
test_specs_limits_units(void **state)
{
	cJSON *args =
		cJSON_Parse("{\"timeout_seconds\":1.5,\"cpus\":0.25,\"memory_mb\":64,"
			    "\"ttl_seconds\":7,\"idle_timeout_seconds\":8,\"profile\":\"p\"}");
	struct call_limits ask = {.timeout_ms = 0};

	(void)state;
	specs_limits(&ask, args);
	assert_int_equal(ask.timeout_ms, 1500);
	assert_int_equal(ask.cpus_milli, 250);
	assert_int_equal(ask.memory_bytes, 64 << 20);
	assert_int_equal(ask.ttl_s, 7);
	assert_int_equal(ask.idle_s, 8);
	assert_string_equal(ask.profile, "p");
	cJSON_Delete(args);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_specs_fill_programs),
		FAKE(test_specs_fill_live_environment),
		FAKE(test_specs_file_paths),
		cmocka_unit_test(test_specs_sandbox_ids),
		cmocka_unit_test(test_specs_limits_units),
	};

	return cmocka_run_group_tests_name("frontend_specs", tests, NULL, NULL);
}
