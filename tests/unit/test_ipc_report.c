/* ipc/report.c: what changed is told once; what could not be sent is told later. */
#include "test.h"

#include "ipc.h"

static struct ipc_row sent[16];
static char text[257];
static size_t n_sent;
static int fails;
static uint64_t now_ms = 5000;

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	static uint8_t packet[IPC_PACKET_MAX];
	size_t len;

	(void)l;
	assert_true(n_sent < ARRAY_LEN(sent));
	if (fails)
		return -ENOBUFS;
	assert_int_equal(ipc_encode(row, IPC_REAPER, IPC_SUPERVISOR, packet, sizeof(packet), &len),
			 0);
	sent[n_sent++] = *row;
	if (row->num == IPC_NUM_trouble)
		(void)str_copy(text, sizeof(text), row->u.trouble.text.data,
			       row->u.trouble.text.len);
	return 0;
}

uint64_t __wrap_clock_now_ms(void);
uint64_t
__wrap_clock_now_ms(void)
{
	return now_ms;
}

static char end;
#define LINK ((struct link *)(void *)&end)

static void
test_counters(void **state)
{
	(void)state;
	report_changes(NULL); /* nobody to tell */
	report_changes(LINK);
	assert_int_equal(n_sent, 0);
	tally_add(TALLY_deadlines);
	tally_add(TALLY_deadlines);
	fails = 1;
	report_changes(LINK);
	fails = 0;
	report_changes(LINK);
	report_changes(LINK);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].u.tally.which, TALLY_deadlines);
	assert_int_equal(sent[0].u.tally.value, 2);
	report_forget();
	report_changes(LINK);
	assert_int_equal(n_sent, 2);
}

static void
test_trouble(void **state)
{
	char line[600];

	(void)state;
	n_sent = 0;
	log_init("tester", LOG_L_ERROR);
	log_warn("not written, so not told");
	report_changes(LINK);
	assert_int_equal(n_sent, 0);
	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	log_error("first");
	log_error("second\n%s", line);
	now_ms += 700;
	report_changes(LINK);
	report_changes(LINK);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].num, IPC_NUM_trouble);
	assert_int_equal(sent[0].u.trouble.ago_ms, 700);
	assert_int_equal(strlen(text), 256);
	assert_memory_equal(text, "second\\x0ayyy", 13);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
