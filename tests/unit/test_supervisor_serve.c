/* supervisor/serve.c: the command line, and which words go together. */
#include "test.h"
#include "supervisor.h"

#define WORDS 16

static struct arguments a;
static char error[512];

/* line is split at blanks. */
static int
parse(const char *line)
{
	static char text[256];
	char *argv[WORDS + 1] = {NULL};
	int argc = 1;

	assert_int_equal(str_copy(text, sizeof(text), line, strlen(line)), 0);
	for (char *at = text; *at != '\0' && argc < WORDS; argc++) {
		argv[argc] = at;
		at += strcspn(at, " ");
		if (*at == ' ')
			*at++ = '\0';
	}
	error[0] = '\0';
	return serve_parse(argc, argv, &a, error, sizeof(error));
}

static const struct {
	const char *line, *words; /* words: of the refusal, NULL where it is taken */
} rows[] = {
	{"--private --stdio", NULL},
	{"--private --stdio -v", NULL},
	{"--version", NULL},
	{"-T", NULL},
	{"--private --socket /run/x", NULL},
	{"--private --http 127.0.0.1:1 --tokens /t", NULL},
	{"--private --socket /x --http 127.0.0.1:1 --tokens /t --tls /c /k --host a --host b",
	 NULL},
	{"", "--private is missing"},
	{"--stdio", "--private is missing"},
	{"--private", "nothing to serve"},
	{"--private --stdio --socket /x", "neither"},
	{"--private --stdio --status /x", "--status goes with"},
	{"--private --stdio --http 127.0.0.1:1 --tokens /t", "neither"},
	{"--private --http 127.0.0.1:1", "--http needs --tokens"},
	{"--private --socket /x --tokens /t", "go with --http"},
	{"--private --socket /x --tls /c /k", "go with --http"},
	{"--private --http 127.0.0.1:1 --tokens /t --host a", NULL},
	{"--private --socket /x --host a", "go with --http"},
	{"--private --http 127.0.0.1:1 --tokens /t --tls-listen 0.0.0.0:1", "goes with --tls"},
	{"--private --socket", "--socket needs a value"},
	{"--private --socket --http", "--socket needs a value"},
	{"--private --http 127.0.0.1:1 --tokens /t --tls /c", "two values"},
	{"--private --stdio --verbose", "unknown argument --verbose"},
	{"--private --stdio \x1b[31m", "unknown argument \\x1b[31m"},
	{"--private --http 127.0.0.1:1 --tokens /t --tls /c /k --host", "unknown argument --host"},
};

static void
test_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r = parse(rows[i].line);
		if (r != (rows[i].words == NULL ? 0 : -EINVAL))
			fail_msg("%s: %d, %s", rows[i].line, r, error);
		if (rows[i].words != NULL && strstr(error, rows[i].words) == NULL)
			fail_msg("%s: said %s", rows[i].line, error);
	}
}

static void
test_values(void **state)
{
	(void)state;
	assert_int_equal(parse("--private --socket /s --http [::1]:2 --tokens /t --tls /c /k "
			       "--host a --host b"),
			 0);
	assert_true(a.private_tree && !a.serve.stdio && !a.debug);
	assert_string_equal(a.serve.socket, "/s");
	assert_string_equal(a.serve.http, "[::1]:2");
	assert_string_equal(a.serve.tokens, "/t");
	assert_string_equal(a.serve.tls_cert, "/c");
	assert_string_equal(a.serve.tls_key, "/k");
	assert_string_equal(a.serve.tls_listen, "0.0.0.0:8443");
	assert_int_equal(a.serve.n_hosts, 2);
	assert_string_equal(a.serve.host[1], "b");
	assert_int_equal(parse("--private --http [::1]:2 --tokens /t --tls /c /k --tls-listen x:1"),
			 0);
	assert_string_equal(a.serve.tls_listen, "x:1");
}

static void
test_too_many_names(void **state)
{
	(void)state;
	struct arguments before = a;
	char text[] = "--host", name[] = "n";
	char *argv[2 * SERVE_HOSTS + 3] = {NULL};
	int argc = 1;
	for (size_t i = 0; i <= SERVE_HOSTS; i++) {
		argv[argc++] = text;
		argv[argc++] = name;
	}
	a = before;
	assert_int_equal(serve_parse(argc, argv, &a, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "at most eight"));
	assert_memory_equal(&a, &before, sizeof(a)); /* written only on success */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_too_many_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
