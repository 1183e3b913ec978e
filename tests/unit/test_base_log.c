/*
 * tests/unit/test_base_log.c - log lines, escaping, the rate limit and fatal().
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <sys/socket.h>

#include "base.h"

static uint64_t now_ms = 1000;

uint64_t __wrap_clock_now_ms(void);

uint64_t
__wrap_clock_now_ms(void)
{
	return now_ms;
}

/* What fn wrote to the log descriptor. */
static const char *
log_of(void (*fn)(void))
{
	static char out[4096];
	int saved = fcntl(FD_LOG, F_DUPFD_CLOEXEC, 10);
	int fds[2];
	ssize_t n;

	assert_true(saved >= 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(fds[1], FD_LOG), FD_LOG);
	fn();
	assert_int_equal(dup2(saved, FD_LOG), FD_LOG);
	n = read(fds[0], out, sizeof(out) - 1);
	out[n < 0 ? 0 : n] = '\0';
	assert_int_equal(close(saved), 0);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
	return out;
}

static void
log_one_each(void)
{
	log_error("e%d", 1);
	log_warn("w%s", "2");
	log_info("i");
	log_debug("d");
}

static void
test_log_levels_and_form(void **state)
{
	char wanted[200];
	int pid = (int)getpid();

	(void)state;
	log_init("tester", LOG_L_DEBUG);
	(void)snprintf(wanted, sizeof(wanted),
		       "<3>tester[%d]: e1\n<4>tester[%d]: w2\n<6>tester[%d]: i\n<7>tester[%d]: d\n",
		       pid, pid, pid, pid);
	assert_string_equal(log_of(log_one_each), wanted);
	log_init("tester", LOG_L_WARNING);
	(void)snprintf(wanted, sizeof(wanted), "<3>tester[%d]: e1\n<4>tester[%d]: w2\n", pid, pid);
	assert_string_equal(log_of(log_one_each), wanted);
}

static void
log_long(void)
{
	static char text[3000];

	memset(text, 'x', sizeof(text) - 1);
	log_error("%s", text);
}

static void
test_log_cuts_at_1000_bytes(void **state)
{
	const char *line;

	(void)state;
	log_init("a name that is far longer than any we use", LOG_L_INFO);
	line = log_of(log_long);
	line = strstr(line, ": ");
	assert_non_null(line);
	assert_int_equal(strlen(line + 2), 1001);
	assert_int_equal(line[2 + 1000], '\n');
}

static void
log_errno(void)
{
	errno = ENOENT;
	log_error("a: %m");
	log_error("b: %m"); /* the line before kept it */
}

static void
test_log_error_text(void **state)
{
	const char *lines;

	(void)state;
	log_init("t", LOG_L_INFO);
	lines = log_of(log_errno);
	assert_non_null(strstr(lines, "a: No such file or directory\n"));
	assert_non_null(strstr(lines, "b: No such file or directory\n"));
}

static void
test_log_keeps_errno(void **state)
{
	int r;

	(void)state;
	errno = EDOM;
	log_debug("nothing");
	r = errno;
	assert_int_equal(r, EDOM);
}

/* A reader that does not read: lines are lost, nobody waits. */
static void
test_log_to_a_full_socket_does_not_wait(void **state)
{
	int saved = fcntl(FD_LOG, F_DUPFD_CLOEXEC, 10);
	int fds[2];

	(void)state;
	assert_true(saved >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(dup2(fds[1], FD_LOG), FD_LOG);
	for (int i = 0; i < 20000; i++)
		log_error("line %d of far more than a socket holds, and nobody reads", i);
	assert_int_equal(dup2(saved, FD_LOG), FD_LOG);
	assert_int_equal(close(saved), 0);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

static void
test_log_escape(void **state)
{
	static const struct {
		const char *in;
		size_t len, cap;
		const char *out;
	} cases[] = {
		{"plain ~!", 8, 100, "plain ~!"},
		{"a\nb\x7f\x1b\xc3", 6, 100, "a\\x0ab\\x7f\\x1b\\xc3"},
		{"\\x0a", 4, 100, "\\x5cx0a"}, /* an escape cannot be forged */
		{"a\0b", 3, 100, "a\\x00b"},
		{"", 0, 100, ""},
		{"abcdef", 6, 4, "abc"},
		{"a\nb", 3, 5, "a"}, /* never half an escape */
		{"a\nb", 3, 6, "a\\x0a"},
		{"abc", 3, 1, ""},
	};
	char out[100];
	char big[1000];
	char big_out[1000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_ptr_equal(log_escape(out, cases[i].cap, cases[i].in, cases[i].len), out);
		assert_string_equal(out, cases[i].out);
	}
	memset(big, 'y', sizeof(big));
	assert_int_equal(strlen(log_escape(big_out, sizeof(big_out), big, sizeof(big))), 200);
	memset(big, '\n', sizeof(big));
	assert_int_equal(strlen(log_escape(big_out, sizeof(big_out), big, sizeof(big))), 800);
	out[0] = 'k';
	assert_ptr_equal(log_escape(out, 0, "x", 1), out);
	assert_int_equal(out[0], 'k');
}

static struct log_limit limit;

static void
use_limit(void)
{
	for (int i = 0; i < 5; i++)
		(void)log_allowed(&limit, 2);
}

static void
test_log_allowed_by_window(void **state)
{
	(void)state;
	log_init("t", LOG_L_INFO);
	assert_true(log_allowed(&limit, 2));
	assert_true(log_allowed(&limit, 2));
	assert_false(log_allowed(&limit, 2));
	now_ms += 9999;
	assert_false(log_allowed(&limit, 2));
	now_ms += 1;
	assert_non_null(strstr(log_of(use_limit), "2 more lines of one kind were left out"));
	assert_int_equal(limit.count, 2);
	assert_int_equal(limit.dropped, 3);
	assert_false(log_allowed(&(struct log_limit){0}, 0));
}

static void
log_with_controls(void)
{
	log_error("%s", "a\nb\x1b[2J\x7f\xc2\x9b\xc3\xa9\\");
}

static void
test_control_bytes_never_reach_the_log(void **state)
{
	const char *line;

	(void)state;
	log_init("tester", LOG_L_ERROR);
	uint64_t before = log_last()->seq;
	line = strstr(log_of(log_with_controls), ": ");
	assert_string_equal(line, ": a\\x0ab\\x1b[2J\\x7f\xc2\\x9b\xc3\xa9\\\n");
	/* and it is the latest trouble, as it was written */
	assert_int_equal(log_last()->seq, before + 1);
	assert_int_equal(log_last()->at_ms, now_ms);
	assert_string_equal(log_last()->text, "a\\x0ab\\x1b[2J\\x7f\xc2\\x9b\xc3\xa9\\");
	log_init("tester", LOG_L_DEBUG);
	(void)log_of(log_one_each);
	assert_string_equal(log_last()->text, "w2"); /* what comes after is no trouble */
}

static void
die(void *arg)
{
	(void)arg;
	fatal("the end %d", 1);
}

static void
test_fatal_exits_70(void **state)
{
	(void)state;
	test_is_fatal(die, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_levels_and_form),
		cmocka_unit_test(test_log_cuts_at_1000_bytes),
		cmocka_unit_test(test_log_error_text),
		cmocka_unit_test(test_log_keeps_errno),
		cmocka_unit_test(test_log_to_a_full_socket_does_not_wait),
		cmocka_unit_test(test_log_escape),
		cmocka_unit_test(test_log_allowed_by_window),
		cmocka_unit_test(test_control_bytes_never_reach_the_log),
		cmocka_unit_test(test_fatal_exits_70),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
