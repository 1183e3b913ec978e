/*
 * tests/unit/test_guest_kept.c - an environment kept for all runs, and another one in its place.
 * Runs in: ctest.
 * Input: none.
 * Owns: a guest without processes.
 */
#include "test.h"
#include "guest_fakes.h"

static const struct ipc_str items[] = {{"A=1", 3}, {"B=2", 3}};

static void
keep(struct fake *f, uint32_t number, uint32_t n)
{
	struct ipc_str env[ARRAY_LEN(items)];
	struct guest_spec spec = {.kind = RUN_ENV, .env = env, .n_env = n};
	struct run *run;
	struct buf b;

	memcpy(env, items, sizeof(items));
	buf_init(&b, 4096);
	assert_int_equal(spec_encode(&spec, &b), 0);
	assert_int_equal(guest_on_h_run(&f->g, number, buf_data(&b), buf_len(&b)), 0);
	buf_done(&b);
	run = run_find(&f->g, number);
	assert_non_null(run);
	assert_int_equal(run->state, STATE_OVER); /* at once, without a process */
	assert_int_equal(run->result.how, EXIT_EXITED);
	assert_int_equal(run->result.exit_code, 0);
}

static void
test_kept_until_another_comes(void **state)
{
	struct fake *f = fake_new();

	(void)state;
	f->g.prestart = PRESTART_DUE;
	assert_int_equal(f->g.kept.what.n_env, 0);
	for (uint32_t n = 0; n <= 2; n++) {
		keep(f, 10 + n, 2 - n);
		assert_int_equal(f->g.prestart, PRESTART_NONE);
		run_tick_all(&f->g, UINT64_MAX); /* its slot is cleared, and what is kept is not */
		assert_null(run_find(&f->g, 10 + n));
		assert_int_equal(f->g.kept.what.n_env, 2 - n);
	}
	keep(f, 20, 1);
	assert_memory_equal(f->g.kept.what.env[0].data, "A=1", 3);
	spec_done(&f->g.kept.what);
	buf_done(&f->g.kept.spec);
	fake_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept_until_another_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
