/* supervisor/options.c: the variables of baileyd, good and bad. */
#include "test.h"
#include "supervisor.h"

static const char *const names[] = {
#define OPTION(name, parser, fallback, allowed, help) #name,
#include "options.def"
#undef OPTION
};

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(unsetenv(names[i]), 0);
	return 0;
}

static int
with(const char *name, const char *value, struct options *o, char *error, size_t cap)
{
	*o = (struct options){.debug = false};
	assert_int_equal(setenv(name, value, 1), 0);
	int r = options_from_env(o, error, cap);
	assert_int_equal(unsetenv(name), 0);
	return r;
}

static void
test_defaults(void **state)
{
	struct options o = {.debug = true};
	char error[256];

	(void)state;
	assert_int_equal(options_from_env(&o, error, sizeof(error)), 0);
	assert_string_equal(o.image, "bailey/sandbox:slim");
	assert_int_equal(o.max_cpus_milli, 2000);
	assert_int_equal(o.max_memory_bytes, 2048ull << 20);
	assert_int_equal(o.timeout_ms, 10000);
	assert_string_equal(o.docker_host, "");
	assert_int_equal(o.connections, 1024);
	assert_int_equal(o.connections_user, 64);
	assert_false(o.tls || o.no_pool || o.confine_log);
	assert_true(o.debug); /* -v stays */
}

static void
test_good_values(void **state)
{
	struct options o;
	char error[256];

	(void)state;
#define GOOD(name, value) assert_int_equal(with(name, value, &o, error, sizeof(error)), 0)
	GOOD("SANDBOX_IMAGE", "registry.example:5000/a/b@sha256:0123");
	assert_string_equal(o.image, "registry.example:5000/a/b@sha256:0123");
	GOOD("MAX_CPU_CORES", "0.1");
	assert_int_equal(o.max_cpus_milli, 100);
	GOOD("MAX_CPU_CORES", "1.25");
	assert_int_equal(o.max_cpus_milli, 1250);
	GOOD("MAX_CPU_CORES", "64");
	assert_int_equal(o.max_cpus_milli, 64000);
	GOOD("MAX_MEMORY_MB", "32");
	assert_int_equal(o.max_memory_bytes, 32ull << 20);
	GOOD("MAX_MEMORY_MB", "4194304");
	assert_int_equal(o.max_memory_bytes, 4194304ull << 20);
	GOOD("EXEC_TIMEOUT_SEC", "300");
	assert_int_equal(o.timeout_ms, 300000);
	GOOD("DOCKER_HOST", "tcp://host:1");
	assert_string_equal(o.docker_host, "tcp://host:1");
	GOOD("DOCKER_TLS_VERIFY", "0"); /* as for the engine's own tools: any text */
	assert_true(o.tls);
	GOOD("DOCKER_CERT_PATH", "/certs");
	assert_string_equal(o.cert_path, "/certs");
	GOOD("BAILEY_POOL", "0");
	assert_true(o.no_pool);
	GOOD("BAILEY_DEBUG", "1");
	assert_true(o.debug);
	GOOD("BAILEY_CONNECTIONS", "1536");
	assert_int_equal(o.connections, 1536);
	GOOD("BAILEY_CONNECTIONS_USER", "1");
	assert_int_equal(o.connections_user, 1);
	GOOD("BAILEY_SHARE_DIR", "/s");
	assert_string_equal(o.share_dir, "/s");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		GOOD(names[i], "");
}

/* What is shipped, and preset asan, are built without: nobody's environment takes a filter away. */
static void
test_filters_only_log_where_built_for_it(void **state)
{
	struct options o;
	char error[256];

	(void)state;
	int r = with("BAILEY_CONFINE", "log", &o, error, sizeof(error));
#ifdef BAILEY_CONFINE_LOG
	assert_int_equal(r, 0);
	assert_true(o.confine_log);
#else
	assert_int_equal(r, -EINVAL);
	assert_ptr_equal(strstr(error, "BAILEY_CONFINE=log: must be empty"), error);
#endif
}

static void
test_bad_values_name_the_variable(void **state)
{
	static const char *const rows[][2] = {
		{"SANDBOX_IMAGE", "-v"},       {"SANDBOX_IMAGE", "a\nb"},
		{"SANDBOX_IMAGE", "a$b"},      {"SANDBOX_IMAGE", "/abs"},
		{"MAX_CPU_CORES", "0.099"},    {"MAX_CPU_CORES", "64.001"},
		{"MAX_CPU_CORES", "1."},       {"MAX_CPU_CORES", ".5"},
		{"MAX_CPU_CORES", "1.5.5"},    {"MAX_CPU_CORES", "1,5"},
		{"MAX_CPU_CORES", "1.-5"},     {"MAX_CPU_CORES", "18446744073709551617"},
		{"MAX_MEMORY_MB", "31"},       {"MAX_MEMORY_MB", "4194305"},
		{"MAX_MEMORY_MB", " 64"},      {"MAX_MEMORY_MB", "0x40"},
		{"EXEC_TIMEOUT_SEC", "0"},     {"EXEC_TIMEOUT_SEC", "301"},
		{"EXEC_TIMEOUT_SEC", "-1"},    {"DOCKER_HOST", "npipe:////./pipe/docker"},
		{"DOCKER_HOST", "/var/run/x"}, {"DOCKER_CERT_PATH", "certs"},
		{"BAILEY_POOL", "2"},          {"BAILEY_SHARE_DIR", "share"},
		{"BAILEY_CONNECTIONS", "0"},   {"BAILEY_CONNECTIONS_USER", "1537"},
		{"BAILEY_DEBUG", "on"},        {"BAILEY_CONFINE", "off"},
	};
	struct options o;
	char error[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(with(rows[i][0], rows[i][1], &o, error, sizeof(error)), -EINVAL);
		assert_ptr_equal(strstr(error, rows[i][0]), error);
		assert_non_null(strstr(error, "must be"));
		assert_null(strchr(error, '\n'));
	}
}

static void
test_long_values(void **state)
{
	struct options o;
	char error[256];
	char value[1001];

	(void)state;
	memset(value, 'a', 1000);
	value[1000] = '\0';
	value[0] = '/';
	static const char *const paths[] = {"DOCKER_CERT_PATH", "BAILEY_SHARE_DIR"};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_int_equal(with(paths[i], value, &o, error, sizeof(error)), -EINVAL);
	value[0] = 'a';
	assert_int_equal(with("SANDBOX_IMAGE", value, &o, error, sizeof(error)), -EINVAL);
	assert_true(strlen(error) < 200); /* shown in part only */
	value[256] = '\0';
	assert_int_equal(with("SANDBOX_IMAGE", value, &o, error, sizeof(error)), 0);
	memcpy(value, "tcp://", 6);
	value[256] = 'a';
	assert_int_equal(with("DOCKER_HOST", value, &o, error, sizeof(error)), -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_defaults, setup),
		cmocka_unit_test_setup(test_good_values, setup),
		cmocka_unit_test_setup(test_filters_only_log_where_built_for_it, setup),
		cmocka_unit_test_setup(test_bad_values_name_the_variable, setup),
		cmocka_unit_test_setup(test_long_values, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
