/* supervisor/hosts.c: the names an HTTP request may use. */
#include "test.h"
#include "supervisor.h"

static struct host_lists lists;
static char error[256];

static void
test_loopback(void **state)
{
	const struct serve serve = {.http = "127.0.0.1:0"};

	(void)state;
	assert_int_equal(hosts_fill(&lists, 8900, &serve, 0, error, sizeof(error)), 0);
	assert_string_equal(lists.hosts, "127.0.0.1:8900,localhost:8900,[::1]:8900");
	assert_string_equal(lists.origins,
			    "http://127.0.0.1:8900,http://localhost:8900,http://[::1]:8900");
}

static void
test_names_behind_tls(void **state)
{
	const struct serve serve = {.host = {"Build.Example.org"}, .n_hosts = 1};

	(void)state;
	assert_int_equal(hosts_fill(&lists, 1, &serve, 8443, error, sizeof(error)), 0);
	assert_non_null(strstr(lists.hosts, ",localhost:8443,"));
	assert_non_null(strstr(lists.hosts, ",build.example.org,build.example.org:8443"));
	assert_non_null(
		strstr(lists.origins, ",https://build.example.org,https://build.example.org:8443"));
	assert_null(strstr(lists.origins, "http://b"));
}

/* A proxy of somebody else's has the certificate, and perhaps a port of its own. */
static void
test_names_behind_a_proxy(void **state)
{
	const struct serve serve = {.host = {"a.example.org", "b.example.org:444"}, .n_hosts = 2};

	(void)state;
	assert_int_equal(hosts_fill(&lists, 1, &serve, 0, error, sizeof(error)), 0);
	assert_string_equal(lists.hosts,
			    "127.0.0.1:1,localhost:1,[::1]:1,a.example.org,b.example.org:444");
	assert_non_null(strstr(lists.origins, ",https://b.example.org:444"));
}

static void
test_names_that_are_none(void **state)
{
	static const char *const bad[] = {"", "a b", "a,b", "http://a", "a/", "a\n", "*"};
	char longest[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct serve serve = {.host = {bad[i]}, .n_hosts = 1};
		assert_int_equal(hosts_fill(&lists, 1, &serve, 2, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, "--host"));
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	const struct serve serve = {.host = {longest}, .n_hosts = 1};
	assert_int_equal(hosts_fill(&lists, 1, &serve, 2, error, sizeof(error)), -EINVAL);
}

static void
test_too_many_long_names(void **state)
{
	static char name[250];
	struct serve serve = {.n_hosts = SERVE_HOSTS};

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	for (size_t i = 0; i < SERVE_HOSTS; i++)
		serve.host[i] = name;
	assert_int_equal(hosts_fill(&lists, 1, &serve, 2, error, sizeof(error)), -ENAMETOOLONG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_names_behind_tls),
		cmocka_unit_test(test_names_behind_a_proxy),
		cmocka_unit_test(test_names_that_are_none),
		cmocka_unit_test(test_too_many_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
