/*
 * tests/unit/test_frontend_transport.c - every function reaches its row of the kind's table.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing.
 */
#include "test.h"

#include "message.h"

static char seen[128];

static void
note(const char *word)
{
	(void)strcat(seen, word);
}

static int
fake_start(struct transport *t)
{
	(void)t;
	note("start ");
	return -EIO;
}

static int
fake_send(struct transport *t, char *text, size_t len, const struct sent *as)
{
	(void)t;
	assert_int_equal(len, 2);
	assert_int_equal(as->code, 7);
	note(text);
	note(" ");
	return -ENOBUFS;
}

static void
fake_nothing(struct transport *t, bool request)
{
	(void)t;
	note(request ? "nothing-request " : "nothing ");
}

static size_t
fake_queued(const struct transport *t)
{
	(void)t;
	return 42;
}

static void
fake_stop(struct transport *t)
{
	(void)t;
	note("stop ");
}

static void
fake_free(struct transport *t)
{
	(void)t;
	note("free");
}

static void
test_transport_each_function(void **state)
{
	static const struct transport_ops ops = {fake_start,  fake_send, fake_nothing,
						 fake_queued, fake_stop, fake_free};
	struct transport t = {.ops = &ops};
	struct sent as = {.code = 7};
	char text[] = "hi";

	(void)state;
	assert_int_equal(transport_start(&t), -EIO);
	assert_int_equal(transport_send(&t, text, 2, &as), -ENOBUFS);
	transport_send_nothing(&t, true);
	transport_send_nothing(&t, false);
	assert_int_equal(transport_queued(&t), 42);
	transport_stop_reading(&t);
	transport_free(&t);
	transport_free(NULL);
	assert_string_equal(seen, "start hi nothing-request nothing stop free");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transport_each_function),
	};

	return cmocka_run_group_tests_name("frontend_transport", tests, NULL, NULL);
}
