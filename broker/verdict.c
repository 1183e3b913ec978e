/*
 * broker/verdict.c - facts about an ended run become its one status (DESIGN §5)
 * and its figures. Pure.
 *
 * Runs in: bailey-broker.
 * Input: the guest's EXIT (not trusted once user code ran), the reaper's figures.
 * Owns: nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker.h"

static bool
rose(const struct run_facts *f, uint32_t bit, uint64_t base, uint64_t final)
{
	if (!f->final || !(f->final->have & bit))
		return false;
	if (f->baseline && (f->baseline->have & bit))
		return final > base;
	return !f->within && final > 0; /* a sandbox's counters hold all its former runs */
}

static bool
oom(const struct run_facts *f)
{
	return f->oom_event || rose(f, FIG_OOM, f->baseline ? f->baseline->oom_kills : 0,
				    f->final ? f->final->oom_kills : 0);
}

static bool
pids(const struct run_facts *f)
{
	return rose(f, FIG_PIDS, f->baseline ? f->baseline->pids_hits : 0,
		    f->final ? f->final->pids_hits : 0);
}

static enum run_status
without_exit(const struct run_facts *f)
{
	switch (f->cause) {
	case CAUSE_DEADLINE:
		return RUN_timed_out;
	case CAUSE_CANCEL:
	case CAUSE_OWNER_GONE:
		return RUN_cancelled;
	case CAUSE_DESTROYED: /* another call's doing: whoever waits for this one is told */
	case CAUSE_NONE:
	case CAUSE_DONE:
	case CAUSE_LIFETIME:
	case CAUSE_BAD_FRAME:
	case CAUSE_SILENT:
	case CAUSE_BROKER_GONE:
	case CAUSE_UNUSED:
	case CAUSE_START:
	case CAUSE_DIED:
	case CAUSE_IDLE:
		break;
	}
	return oom(f) ? RUN_oom_killed : RUN_lost;
}

static enum run_status
not_started(const struct run_facts *f)
{
	if (f->exit->exit_code == ENOMEM || oom(f))
		return RUN_oom_killed;
	if (f->exit->exit_code == EAGAIN || pids(f))
		return RUN_pids_limit;
	if (f->exit->exit_code == ENOSPC)
		return RUN_disk_full;
	if (f->exit->exit_code == EBUSY)
		return RUN_busy;
	return RUN_denied;
}

enum run_status
verdict_status(const struct run_facts *f)
{
	const struct guest_g_exit *e = f->exit;

	if (!e)
		return without_exit(f);
	if (e->flags & EXIT_TIMED_OUT)
		return RUN_timed_out;
	if (e->flags & EXIT_OUTPUT_LIMIT)
		return RUN_output_limit;
	if (e->flags & EXIT_ENDED)
		return RUN_cancelled;
	if (e->how == EXIT_NOT_STARTED || (e->flags & EXIT_FORK_FAILED))
		return not_started(f);
	if (e->how == EXIT_EXITED && e->exit_code == 0)
		return RUN_ok;
	if (oom(f))
		return RUN_oom_killed;
	if (pids(f))
		return RUN_pids_limit;
	if (e->flags & (EXIT_WORKSPACE_FULL | EXIT_TMP_FULL))
		return RUN_disk_full;
	return e->how == EXIT_SIGNALED ? RUN_signaled : RUN_nonzero;
}

const char *
verdict_cause(enum end_cause cause)
{
	switch (cause) {
	case CAUSE_CANCEL:
	case CAUSE_DESTROYED:
		return "it was destroyed";
	case CAUSE_OWNER_GONE:
		return "the connection that created it was closed";
	case CAUSE_DEADLINE:
		return "a run in it went on past its time limit and could not be ended otherwise";
	case CAUSE_LIFETIME:
		return "its lifetime was over";
	case CAUSE_IDLE:
		return "it was idle for as long as it may be";
	case CAUSE_BAD_FRAME:
		return "what runs inside it broke the rules of its control stream";
	case CAUSE_SILENT:
		return "it did not answer any more";
	case CAUSE_BROKER_GONE:
		return "a process of Bailey was started again";
	case CAUSE_UNUSED:
		return "Bailey is stopping";
	case CAUSE_NONE:
	case CAUSE_DONE:
	case CAUSE_START:
	case CAUSE_DIED:
		break;
	}
	return "its container ended by itself";
}

const char *
verdict_message(const struct run_facts *f, enum run_status s, char *out, size_t cap)
{
	const char *words;

	if (f->within && !f->exit && (s == RUN_lost || s == RUN_cancelled)) {
		(void)snprintf(out, cap,
			       "The sandbox ended before the run did, because %s. What the run did "
			       "is unknown and its files are gone; create another sandbox.",
			       verdict_cause(f->cause));
		return out;
	}
	if (f->within && !f->exit) {
		(void)snprintf(out, cap, "%s The sandbox ended with it; create another one.",
			       run_status_advice(s));
		return out;
	}
	if (s == RUN_busy)
		return "As many evaluations as may wait for this interpreter do. Try again when "
		       "one has ended.";
	if (s == RUN_lost && f->cause == CAUSE_BAD_FRAME)
		return "The sandbox was ended because what runs inside it broke the rules of its "
		       "control stream; the result is unknown.";
	if (s == RUN_denied && f->exit) {
		words = strerrordesc_np((int)(f->exit->exit_code & 0xfff));
		(void)snprintf(out, cap,
			       "The command could not be started: %s. Check working_dir, args and "
			       "env.",
			       words ? words : "unknown error");
		return out;
	}
	return run_status_advice(s);
}

void
verdict_figures(const struct run_facts *f, struct ipc_call_ended *out)
{
	const struct ipc_watch_figures *base = f->baseline, *final = f->final;

	/* Of several runs in a sandbox at once none has figures of its own. */
	if (!final || (f->within && !f->alone))
		return;
	/* Without a baseline the counter holds the start of the container too. */
	if ((final->have & FIG_CPU) && base && (base->have & FIG_CPU) &&
	    final->cpu_us >= base->cpu_us) {
		out->have |= FIG_CPU;
		out->cpu_us = final->cpu_us - base->cpu_us;
	}
	if (f->within)
		return; /* its peak may have been a former run's */
	if (final->have & FIG_PEAK) {
		out->have |= FIG_PEAK;
		out->peak_bytes = final->peak_bytes;
	}
	if (base && (base->have & FIG_CURRENT)) {
		out->have |= FIG_CURRENT;
		out->baseline_bytes = base->current_bytes;
	}
}
