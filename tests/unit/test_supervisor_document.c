/* supervisor/document.c: what is in it, what a hostile text does to it, and its greatest size. */
#include "test.h"
#include "supervisor.h"

static uint64_t now_ms = 100000;
static struct tree t;
static struct findings f;
static struct buf out;

uint64_t __wrap_clock_now_ms(void);
uint64_t
__wrap_clock_now_ms(void)
{
	return now_ms;
}

static int
setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	memset(&f, 0, sizeof(f));
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		t.child[i] = (struct child){.tree = &t, .id = (enum child_id)i};
	buf_init(&out, DOCUMENT_MAX);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	buf_done(&out);
	return 0;
}

static const char *
written(void)
{
	document_write(&out, &t, &f);
	assert_int_equal(buf_append(&out, "", 1), 0); /* it was not cut */
	return (const char *)buf_data(&out);
}

static void
has(const char *doc, const char *part)
{
	if (strstr(doc, part) == NULL)
		fail_msg("%s is not in %s", part, doc);
}

static void
test_nothing_known(void **state)
{
	(void)state;
	const char *doc = written();
	has(doc, "{\"bailey_status\":1,\"version\":");
	has(doc, "\"name\":\"bailey-broker\",\"state\":\"starting\",\"pid\":0,\"uptime_ms\":0,"
		 "\"restarts\":0,\"last_end\":null,\"last_error\":null,\"answered\":false}");
	has(doc, "\"engine\":null,\"load\":null,\"watch\":null,\"pools\":[],\"sandboxes\":[],");
	has(doc, "\"broker_restarts\":0,");
	has(doc, "\"ended_stopped\":0}}\n");
}

static void
test_restarts_and_errors(void **state)
{
	struct child *broker = &t.child[CHILD_BROKER];

	(void)state;
	broker->restarts = 2;
	(void)snprintf(broker->last_end, sizeof(broker->last_end), "signal 9");
	broker->ended_ms = now_ms - 1500;
	(void)snprintf(t.known[CHILD_BROKER].trouble, 257, "engine \"x\"\xff\n\xc3\xa9");
	t.known[CHILD_BROKER].trouble_ms = now_ms - 10;
	f.answered[CHILD_BROKER] = true;
	const char *doc = written();
	has(doc, "\"restarts\":2,\"last_end\":{\"text\":\"signal 9\",\"ago_ms\":1500},"
		 "\"last_error\":{\"text\":\"engine \\u0022x\\u0022\\ufffd\\u000a\xc3\xa9\","
		 "\"ago_ms\":10},\"answered\":true}");
}

static void
test_counters_are_sums(void **state)
{
	(void)state;
	t.known[CHILD_BROKER].sum[TALLY_pool_refills] = 5;
	t.known[CHILD_BROKER].seen[TALLY_pool_refills] = 2;
	t.known[CHILD_REAPER].seen[TALLY_deadlines] = 1;
	assert_int_equal(document_count(&t, TALLY_pool_refills), 7);
	const char *doc = written();
	has(doc, "\"pool_refills\":7,");
	has(doc, "\"deadlines\":1,");
}

static void
test_owners(void **state)
{
	(void)state;
	f.n_leases = 3;
	f.leases[0].owner_kind = OWNER_UID;
	f.leases[0].owner = 1000;
	f.leases[1].owner_kind = OWNER_TOKEN;
	(void)snprintf(f.leases[1].principal, 65, "ann");
	f.leases[2].owner_kind = OWNER_TREE;
	f.leases[2].owner = 77;
	f.left_out = 4;
	const char *doc = written();
	has(doc, "\"owner\":\"uid 1000\"");
	has(doc, "\"owner\":\"token ann\"");
	has(doc, "\"owner\":\"tree 77\"");
	has(doc, "],\"sandboxes_left_out\":4");
}

/* All that can be in it, each text as long as it may be and each byte of it escaped. */
static void
test_fits(void **state)
{
	(void)state;
	f.have_engine = f.have_load = f.have_watch = true;
	f.engine_state = 99;
	memset(f.engine_error, 1, 256);
	memset(f.engine_name, 1, 64);
	memset(f.engine_version, 1, 64);
	f.n_pools = STATUS_POOLS_MAX;
	for (size_t i = 0; i < STATUS_POOLS_MAX; i++)
		memset(f.pools[i].profile, 'p', 64);
	f.n_leases = STATUS_LEASES_MAX;
	for (size_t i = 0; i < STATUS_LEASES_MAX; i++) {
		struct lease_fact *x = &f.leases[i];
		memset(x->sandbox, 'a', 32);
		memset(x->principal, 'n', 64);
		memset(x->profile, 'p', 64);
		x->owner_kind = OWNER_TOKEN;
		x->age_ms = x->idle_ms = x->idle_limit_ms = x->ttl_ms = UINT64_MAX;
		x->memory_bytes = UINT64_MAX;
	}
	for (size_t i = 0; i < CHILD_SINGLES; i++) {
		memset(t.known[i].trouble, 1, 256);
		memset(t.child[i].last_end, 1, 95);
	}
	const char *doc = written();
	has(doc, "\"ended_stopped\":0}}\n");
	has(doc, "\"engine\":{\"state\":\"unknown\"");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_nothing_known),
		T(test_restarts_and_errors),
		T(test_counters_are_sums),
		T(test_owners),
		T(test_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
