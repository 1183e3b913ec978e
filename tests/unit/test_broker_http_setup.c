/* tests/unit/test_broker_http_setup.c - addresses, and failures in words. */
#include "test.h"

#include "http_parts.h"

static struct engine_config
tcp(enum engine_kind kind, const char *host, const char *address)
{
	struct engine_config c = {.kind = kind, .port = 2376};

	(void)snprintf(c.host, sizeof(c.host), "%s", host);
	(void)snprintf(c.address, sizeof(c.address), "%s", address);
	return c;
}

static void
test_target(void **state)
{
	static const struct {
		enum engine_kind kind;
		const char *host, *address, *origin, *header, *where, *resolve;
	} rows[] = {
		{ENGINE_TCP, "10.1.2.3", "10.1.2.3", "http://10.1.2.3:2376", "10.1.2.3:2376",
		 "tcp://10.1.2.3:2376", NULL},
		{ENGINE_TLS, "box.example", "10.1.2.3", "https://box.example:2376",
		 "box.example:2376", "tcp://box.example:2376", "box.example:2376:10.1.2.3"},
		{ENGINE_TLS, "box.example", "fe80::1", "https://box.example:2376",
		 "box.example:2376", "tcp://box.example:2376", "box.example:2376:[fe80::1]"},
		{ENGINE_TCP, "::1", "::1",
		 ("http:"
		  "//[::1]:2376"),
		 "[::1]:2376",
		 ("tcp:"
		  "//[::1]:2376"),
		 NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct engine_config c = tcp(rows[i].kind, rows[i].host, rows[i].address);
		struct http_target to = {0};

		assert_int_equal(http_target_init(&to, &c), 0);
		assert_string_equal(to.origin, rows[i].origin);
		assert_string_equal(to.host, rows[i].header);
		assert_string_equal(to.where, rows[i].where);
		if (rows[i].resolve == NULL)
			assert_null(to.resolve);
		else
			assert_string_equal(to.resolve->data, rows[i].resolve);
		http_target_done(&to);
	}
}

static void
test_longest_names(void **state)
{
	char host[254];
	struct engine_config c = {.kind = ENGINE_UNIX};
	struct http_target to = {0};

	(void)state;
	memset(host, 'h', 253);
	host[253] = '\0';
	memset(c.path, 'p', sizeof(c.path) - 1);
	assert_int_equal(http_target_init(&to, &c), 0);
	assert_int_equal(strlen(to.where), 5 + 107);
	http_target_done(&to);

	c = tcp(ENGINE_TLS, host, "10.0.0.1");
	memset(&to, 0, sizeof(to));
	assert_int_equal(http_target_init(&to, &c), 0);
	assert_int_equal(strlen(to.origin), 8 + 253 + 5);
	http_target_done(&to);
}

static void
test_explain(void **state)
{
	static const struct {
		CURLcode code;
		int err;
		const char *words;
	} rows[] = {
		{CURLE_COULDNT_CONNECT, -ENOTCONN,
		 "cannot connect to the engine at unix:/run/x.sock"},
		{CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, "gave no answer in time"},
		{CURLE_GOT_NOTHING, -ECONNRESET, "without an answer"},
		{CURLE_PEER_FAILED_VERIFICATION, -ENOTCONN, "does not verify"},
		{CURLE_OUT_OF_MEMORY, -ENOMEM, "out of memory"},
		{CURLE_SETOPT_OPTION_SYNTAX, -ENOTCONN, "has no address"},
		{CURLE_WEIRD_SERVER_REPLY, -EPROTO, "does not speak HTTP as expected"},
		{CURLE_UNSUPPORTED_PROTOCOL, -EPROTO, "does not speak HTTP as expected"},
	};
	struct engine_config c = {.kind = ENGINE_UNIX, .path = "/run/x.sock"};
	struct http_target to = {0};

	(void)state;
	assert_int_equal(http_target_init(&to, &c), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[ENGINE_MESSAGE_MAX];

		assert_int_equal(http_explain(&to, NULL, rows[i].code, text, sizeof(text)),
				 rows[i].err);
		assert_non_null(strstr(text, rows[i].words));
	}
	http_target_done(&to);
}

static void
test_setup(void **state)
{
	struct engine_config c = tcp(ENGINE_TLS, "box.example", "10.1.2.3");
	struct http_target to = {0};
	CURL *curl = curl_easy_init();
	char *private = NULL;
	char longest[1400];

	(void)state;
	buf_init(&c.pem[PEM_CA], 100);
	assert_int_equal(buf_append(&c.pem[PEM_CA], "pem", 3), 0);
	assert_int_equal(http_target_init(&to, &c), 0);
	assert_int_equal(http_setup(&to, curl, "/v1.41/info", &to), CURLE_OK);
	assert_int_equal(curl_easy_getinfo(curl, CURLINFO_PRIVATE, &private), CURLE_OK);
	assert_ptr_equal(private, &to);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(http_setup(&to, curl, longest, &to), CURLE_URL_MALFORMAT);
	curl_easy_cleanup(curl);
	http_target_done(&to);
	buf_done(&c.pem[PEM_CA]);
}

static bool memory_out;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
	return memory_out ? NULL : __real_calloc(n, size);
}

static void
a_handle_without_memory(void *arg)
{
	(void)arg;
	memory_out = true;
	(void)curl_easy_init();
}

static void
test_no_memory_is_the_end(void **state)
{
	(void)state;
	test_is_fatal(a_handle_without_memory, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory_is_the_end),
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_longest_names),
		cmocka_unit_test(test_explain),
		cmocka_unit_test(test_setup),
	};

	assert_int_equal(http_global_init(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
