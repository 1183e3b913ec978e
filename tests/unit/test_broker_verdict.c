/* The status matrix. */
#include "test.h"

#include "broker_world.h"

static struct figures base = {.have = FIG_CPU | FIG_CURRENT | FIG_OOM | FIG_PIDS,
			      .cpu_us = 100,
			      .current_bytes = 7,
			      .oom_kills = 2,
			      .pids_hits = 3};
static struct figures calm = {.have = FIG_CPU | FIG_PEAK | FIG_OOM | FIG_PIDS,
			      .cpu_us = 150,
			      .peak_bytes = 9,
			      .oom_kills = 2,
			      .pids_hits = 3};
static struct figures oom = {.have = FIG_OOM | FIG_PIDS, .oom_kills = 3, .pids_hits = 3};
static struct figures pids = {.have = FIG_OOM | FIG_PIDS, .oom_kills = 2, .pids_hits = 4};
static struct figures both = {.have = FIG_OOM | FIG_PIDS, .oom_kills = 3, .pids_hits = 4};
static struct figures blind = {.have = 0, .oom_kills = 99, .pids_hits = 99};

static void
test_with_exit(void **state)
{
	static const struct {
		struct guest_g_exit e;
		const struct figures *final;
		enum run_status want;
	} rows[] = {
		{{.how = EXIT_EXITED}, &calm, RUN_ok},
		{{.how = EXIT_EXITED}, &both, RUN_ok}, /* never instead of ok */
		{{.how = EXIT_EXITED, .flags = EXIT_WORKSPACE_FULL}, &calm, RUN_ok},
		{{.how = EXIT_EXITED, .exit_code = 3}, &calm, RUN_nonzero},
		{{.how = EXIT_EXITED, .exit_code = 3}, NULL, RUN_nonzero},
		{{.how = EXIT_EXITED, .exit_code = 3}, &blind, RUN_nonzero},
		{{.how = EXIT_EXITED, .exit_code = 3}, &oom, RUN_oom_killed},
		{{.how = EXIT_EXITED, .exit_code = 3}, &pids, RUN_pids_limit},
		{{.how = EXIT_EXITED, .exit_code = 3}, &both, RUN_oom_killed},
		{{.how = EXIT_EXITED, .exit_code = 3, .flags = EXIT_TMP_FULL},
		 &calm,
		 RUN_disk_full},
		{{.how = EXIT_EXITED, .exit_code = 3, .flags = EXIT_WORKSPACE_FULL},
		 &pids,
		 RUN_pids_limit},
		{{.how = EXIT_SIGNALED, .signal = 9}, &calm, RUN_signaled},
		{{.how = EXIT_SIGNALED, .signal = 9}, &oom, RUN_oom_killed},
		{{.how = EXIT_SIGNALED, .signal = 11, .flags = EXIT_TMP_FULL}, NULL, RUN_disk_full},
		{{.how = EXIT_SIGNALED, .signal = 9, .flags = EXIT_TIMED_OUT}, &oom, RUN_timed_out},
		{{.how = EXIT_EXITED, .flags = EXIT_TIMED_OUT}, &calm, RUN_timed_out},
		{{.how = EXIT_SIGNALED, .signal = 9, .flags = EXIT_OUTPUT_LIMIT},
		 &calm,
		 RUN_output_limit},
		{{.how = EXIT_SIGNALED, .signal = 9, .flags = EXIT_ENDED}, &calm, RUN_cancelled},
		{{.how = EXIT_NOT_STARTED, .exit_code = ENOENT}, &calm, RUN_denied},
		{{.how = EXIT_NOT_STARTED, .exit_code = EAGAIN}, &calm, RUN_pids_limit},
		{{.how = EXIT_NOT_STARTED, .exit_code = ENOMEM}, &calm, RUN_oom_killed},
		{{.how = EXIT_NOT_STARTED, .exit_code = ENOSPC}, &calm, RUN_disk_full},
		{{.how = EXIT_NOT_STARTED, .exit_code = E2BIG, .flags = EXIT_FORK_FAILED},
		 NULL,
		 RUN_denied},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct run_facts f = {
			.exit = &rows[i].e, .baseline = &base, .final = rows[i].final};

		assert_int_equal(verdict_status(&f), rows[i].want);
	}
}

static void
test_without_exit(void **state)
{
	static const struct {
		enum end_cause cause;
		bool event;
		const struct figures *final;
		enum run_status want;
	} rows[] = {
		{CAUSE_DIED, false, &calm, RUN_lost},
		{CAUSE_DIED, false, NULL, RUN_lost},
		{CAUSE_DIED, false, &oom, RUN_oom_killed},
		{CAUSE_DIED, true, NULL, RUN_oom_killed},
		{CAUSE_DEADLINE, false, NULL, RUN_timed_out},
		{CAUSE_DEADLINE, true, &oom, RUN_timed_out},
		{CAUSE_CANCEL, false, NULL, RUN_cancelled},
		{CAUSE_OWNER_GONE, false, NULL, RUN_cancelled},
		{CAUSE_BAD_FRAME, false, &calm, RUN_lost},
		{CAUSE_LIFETIME, false, &calm, RUN_lost},
		/* ended by order: what ran out of memory before was another run of the sandbox */
		{CAUSE_LIFETIME, false, &oom, RUN_lost},
		{CAUSE_DESTROYED, true, &oom, RUN_lost},
		{CAUSE_UNUSED, true, NULL, RUN_lost},
		{CAUSE_STOPPED, true, &oom, RUN_lost},
		{CAUSE_SILENT, false, &calm, RUN_lost},
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct run_facts f = {.cause = rows[i].cause,
				      .oom_event = rows[i].event,
				      .baseline = &base,
				      .final = rows[i].final};
		enum run_status s = verdict_status(&f);

		assert_int_equal(s, rows[i].want);
		assert_true(strlen(verdict_message(&f, s, text, sizeof(text))) > 10);
	}
}

static void
test_no_baseline_counts_from_zero(void **state)
{
	struct guest_g_exit e = {.how = EXIT_SIGNALED, .signal = 9};
	struct run_facts f = {.exit = &e, .final = &oom};
	struct ipc_call_ended out = {0};

	(void)state;
	assert_int_equal(verdict_status(&f), RUN_oom_killed);
	f.final = &calm;
	verdict_figures(&f, &out); /* processor time would hold the container's start */
	assert_int_equal(out.have, FIG_PEAK);
	f.baseline = &base;
	verdict_figures(&f, &out);
	assert_int_equal(out.have, FIG_PEAK | FIG_CPU | FIG_CURRENT);
	assert_int_equal(out.cpu_us, 50);
	assert_int_equal(out.baseline_bytes, 7);
	out = (struct ipc_call_ended){0};
	f.final = NULL;
	verdict_figures(&f, &out);
	assert_int_equal(out.have, 0);
}

static void
test_a_command_that_cannot_start_is_told_why(void **state)
{
	struct guest_g_exit e = {.how = EXIT_NOT_STARTED, .exit_code = ENOENT};
	struct run_facts f = {.exit = &e};
	char text[300];

	(void)state;
	assert_non_null(
		strstr(verdict_message(&f, RUN_denied, text, sizeof(text)), "No such file"));
	assert_non_null(strstr(text, "image has the program"));
	e.exit_code = UINT32_MAX;
	assert_non_null(strstr(verdict_message(&f, RUN_denied, text, sizeof(text)), "unknown"));
}

/* In a sandbox: counters count from the run's own start, figures are its own or none. */
static void
test_within_a_sandbox(void **state)
{
	struct guest_g_exit e = {.how = EXIT_SIGNALED, .signal = 9};
	struct run_facts f = {.exit = &e, .final = &oom, .within = true};
	struct ipc_call_ended out = {0};
	char text[400];

	(void)state;
	assert_int_equal(verdict_status(&f), RUN_signaled); /* it may have been a former run's */
	f.baseline = &base;
	f.alone = true;
	assert_int_equal(verdict_status(&f), RUN_oom_killed);
	f.final = &calm;
	f.alone = false;
	verdict_figures(&f, &out);
	assert_int_equal(out.have, 0); /* of several at once */
	f.alone = true;
	verdict_figures(&f, &out);
	assert_int_equal(out.have, FIG_CPU); /* the peak may be a former run's */
	assert_int_equal(out.cpu_us, 50);
	e = (struct guest_g_exit){.how = EXIT_NOT_STARTED, .exit_code = EBUSY};
	assert_int_equal(verdict_status(&f), RUN_busy);
	assert_non_null(strstr(verdict_message(&f, RUN_busy, text, sizeof(text)), "evaluations"));
	f.exit = NULL;
	f.cause = CAUSE_DESTROYED;
	assert_int_equal(verdict_status(&f), RUN_lost); /* nobody cancelled it */
	assert_non_null(strstr(verdict_message(&f, RUN_lost, text, sizeof(text)), "destroyed"));
	f.cause = CAUSE_LIFETIME;
	assert_int_equal(verdict_status(&f), RUN_lost);
	assert_non_null(strstr(verdict_message(&f, RUN_lost, text, sizeof(text)), "lifetime"));
	f.cause = CAUSE_DEADLINE;
	assert_int_equal(verdict_status(&f), RUN_timed_out);
	assert_non_null(strstr(verdict_message(&f, RUN_timed_out, text, sizeof(text)),
			       "sandbox ended with it"));
	f.unheard = true; /* it may never have begun */
	assert_int_equal(verdict_status(&f), RUN_lost);
	assert_non_null(strstr(verdict_message(&f, RUN_lost, text, sizeof(text)), "confirm"));
}

/* Counters of several runs at once: a limit is a run's own only where its ending shows it. */
static void
test_runs_at_once_share_the_counters(void **state)
{
	static const struct {
		struct guest_g_exit e;
		const struct figures *final;
		enum run_status want;
		const char *word;
	} rows[] = {
		{{.how = EXIT_EXITED, .exit_code = 3}, &oom, RUN_nonzero, "memory"},
		{{.how = EXIT_EXITED, .exit_code = 3}, &pids, RUN_nonzero, "processes"},
		{{.how = EXIT_SIGNALED, .signal = 11}, &oom, RUN_signaled, "memory"},
		{{.how = EXIT_SIGNALED, .signal = 9}, &oom, RUN_oom_killed, "memory_mb"},
		{{.how = EXIT_SIGNALED, .signal = 9}, &pids, RUN_signaled, "processes"},
		{{.how = EXIT_NOT_STARTED, .exit_code = EAGAIN}, &pids, RUN_pids_limit, "63"},
		{{.how = EXIT_EXITED}, &both, RUN_ok, ""},
		{{.how = EXIT_EXITED, .exit_code = 3}, &calm, RUN_nonzero, ""},
	};
	const struct limits limits = {.memory_bytes = 1 << 20, .pids = 63};
	char text[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct run_facts f = {.exit = &rows[i].e,
				      .baseline = &base,
				      .final = rows[i].final,
				      .limits = &limits,
				      .within = true};
		enum run_status s = verdict_status(&f);

		assert_int_equal(s, rows[i].want);
		assert_non_null(strstr(verdict_message(&f, s, text, sizeof(text)), rows[i].word));
	}
}

/* The engine's word may come late, or tell of a former run: the counter knows better. */
static void
test_the_counter_goes_before_the_engines_word(void **state)
{
	struct guest_g_exit e = {.how = EXIT_EXITED, .exit_code = 3};
	struct run_facts f = {.exit = &e, .oom_event = true, .baseline = &base, .final = &calm};

	(void)state;
	assert_int_equal(verdict_status(&f), RUN_nonzero);
	f.within = f.alone = true;
	assert_int_equal(verdict_status(&f), RUN_nonzero);
	f.final = &blind;
	assert_int_equal(verdict_status(&f), RUN_oom_killed);
	f.final = NULL;
	assert_int_equal(verdict_status(&f), RUN_oom_killed);
}

static void
test_the_limit_is_named(void **state)
{
	static const struct {
		enum run_status s;
		struct guest_g_exit e;
		const char *words;
	} rows[] = {
		{RUN_oom_killed,
		 {.how = EXIT_SIGNALED, .signal = 9},
		 "limit of 160 MiB (peak 158 MiB)"},
		{RUN_pids_limit, {.exit_code = 1}, "limit of 64 processes"},
		{RUN_disk_full,
		 {.flags = EXIT_WORKSPACE_FULL},
		 "/workspace is full: its limit is 192 MiB"},
		{RUN_disk_full, {.flags = EXIT_TMP_FULL}, "/tmp is full: its limit is 64 MiB"},
		{RUN_disk_full,
		 {.flags = EXIT_TMP_FULL, .tmp_free = 4096},
		 "/tmp holds as many files as it may, 77"},
		{RUN_timed_out, {.flags = EXIT_TIMED_OUT}, "time limit of 1.5 s"},
	};
	const struct limits limits = {.memory_bytes = UINT64_C(160) << 20,
				      .pids = 64,
				      .timeout_ms = 1500,
				      .workspace_bytes = UINT64_C(192) << 20,
				      .tmp_bytes = UINT64_C(64) << 20,
				      .tmp_inodes = 77};
	const struct figures peak = {.have = FIG_PEAK, .peak_bytes = UINT64_C(158) << 20};
	char text[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct run_facts f = {.exit = &rows[i].e, .final = &peak, .limits = &limits};

		assert_non_null(
			strstr(verdict_message(&f, rows[i].s, text, sizeof(text)), rows[i].words));
		f.limits = NULL;
		assert_string_equal(verdict_message(&f, rows[i].s, text, sizeof(text)),
				    run_status_advice(rows[i].s));
	}
}

static void
test_a_silent_broker_is_named(void **state)
{
	struct run_facts f = {.within = true, .cause = CAUSE_BROKER_GONE, .away_s = 9};
	char text[400];

	(void)state;
	assert_non_null(strstr(verdict_message(&f, RUN_lost, text, sizeof(text)),
			       "because the broker was silent for 9 s"));
	f.within = false;
	assert_non_null(strstr(verdict_message(&f, RUN_lost, text, sizeof(text)),
			       "because the broker was silent for 9 s"));
	assert_string_equal(verdict_why(CAUSE_BROKER_GONE, 0, text, sizeof(text)),
			    cause_sentence(CAUSE_BROKER_GONE));
	assert_string_equal(verdict_why(CAUSE_IDLE, 9, text, sizeof(text)),
			    cause_sentence(CAUSE_IDLE));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_exit),
		cmocka_unit_test(test_without_exit),
		cmocka_unit_test(test_no_baseline_counts_from_zero),
		cmocka_unit_test(test_a_command_that_cannot_start_is_told_why),
		cmocka_unit_test(test_within_a_sandbox),
		cmocka_unit_test(test_runs_at_once_share_the_counters),
		cmocka_unit_test(test_the_counter_goes_before_the_engines_word),
		cmocka_unit_test(test_the_limit_is_named),
		cmocka_unit_test(test_a_silent_broker_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
