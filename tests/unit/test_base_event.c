/* base/event.c: the form of a line, what a hostile text does to it, levels and rates; the table. */
#include "test.h"

#include "base.h"

static uint64_t now_ms = 1000;

uint64_t __wrap_clock_now_ms(void);
uint64_t
__wrap_clock_now_ms(void)
{
	return now_ms;
}

static char out[65536];

static const char *
log_of(void (*fn)(void))
{
	int saved = fcntl(FD_LOG, F_DUPFD_CLOEXEC, 10), fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(fds[1], FD_LOG), FD_LOG);
	fn();
	assert_int_equal(dup2(saved, FD_LOG), FD_LOG);
	ssize_t n = read(fds[0], out, sizeof(out) - 1);
	out[n < 0 ? 0 : n] = '\0';
	assert_int_equal(close(saved) | close(fds[0]) | close(fds[1]), 0);
	return out;
}

/* What follows the line's head. */
static const char *
text_of(void (*fn)(void))
{
	const char *at = strstr(log_of(fn), "]: ");

	return at != NULL ? at + 3 : "";
}

static void
plain(void)
{
	LOG_EVENT(box_gone, .box = 7, .cause = "done", .age_ms = UINT64_MAX);
}

static void
without_text(void)
{
	LOG_EVENT(run_ended, .run = "00ff", .box = 1, .status = "ok");
}

static void
hostile(void)
{
	LOG_EVENT(box_failed, .box = 1, .step = "", .error = 5,
		  .why = "a b\" event=run_ended\n<3>x\\\x1b\xc3\xa9");
}

static void
test_form(void **state)
{
	(void)state;
	log_init("tester", LOG_L_INFO);
	assert_string_equal(text_of(plain),
			    "event=box_gone box=7 cause=done age_ms=18446744073709551615\n");
	assert_string_equal(text_of(without_text),
			    "event=run_ended run=00ff box=1 status=ok start=0 queue_ms=0 run_us=0 "
			    "paced=0\n");
	assert_string_equal(
		text_of(hostile),
		"event=box_failed box=1 step=\"\" error=5 why=\"a b\\x22 event=run_ended"
		"\\x0a<3>x\\x5c\\x1b\\xc3\\xa9\"\n");
}

static char long_text[5000];

static void
long_one(void)
{
	LOG_EVENT(child_ended, .process = long_text, .why = long_text, .restarts = 3);
}

static void
test_long_texts_are_cut(void **state)
{
	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	const char *line = text_of(long_one);
	assert_true(strlen(line) < 600);
	assert_non_null(strstr(line, "xx\" restarts=3\n"));
	memset(long_text, '\n', sizeof(long_text) - 1);
	line = text_of(long_one);
	assert_true(strlen(line) <= 1001);
	assert_int_equal(line[strlen(line) - 1], '\n');
}

static void
test_levels(void **state)
{
	(void)state;
	log_init("tester", LOG_L_WARNING);
	assert_false(log_shows(LOG_L_INFO));
	assert_string_equal(log_of(plain), "");
	assert_int_equal(strncmp(log_of(hostile), "<4>tester[", 10), 0);
}

static void
flood(void)
{
	for (int i = 0; i < 50; i++)
		LOG_EVENT(connection_refused, .uid = 1, .why = "too many");
}

static void
test_floods_are_cut(void **state)
{
	int lines = 0;

	(void)state;
	log_init("tester", LOG_L_INFO);
	for (const char *at = log_of(flood); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	assert_int_equal(lines, 5);
	now_ms += 10000;
	assert_non_null(strstr(log_of(flood), "45 more lines of one kind were left out"));
}

static void
test_table(void **state)
{
	(void)state;
	for (int i = 0; i < EVENTS; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(event_name((enum event_no)i),
						event_name((enum event_no)k));
	assert_string_equal(event_name(EVENTS), "unknown");
	log_event(EVENTS, NULL); /* none */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_form),   cmocka_unit_test(test_long_texts_are_cut),
		cmocka_unit_test(test_levels), cmocka_unit_test(test_floods_are_cut),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
