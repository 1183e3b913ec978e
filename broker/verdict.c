/*
 * broker/verdict.c - facts about an ended run become its one status and its
 * figures. Pure.
 *
 * Memory and processes are the kernel's word: a counter of the box's cgroup that
 * rose since the run began. Runs at once in a sandbox share these counters: there
 * only SIGKILL, or that the run could not start, makes a limit its own ending. The
 * state of the file systems is the guest's word, and so are exit code and signal.
 *
 * Runs in: bailey-broker.
 * Input: the guest's EXIT (not trusted once user code ran), the kernel's counters.
 * Owns: nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
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
	if (f->final && (f->final->have & FIG_OOM) &&
	    (!f->within || (f->baseline && (f->baseline->have & FIG_OOM))))
		return rose(f, FIG_OOM, f->baseline ? f->baseline->oom_kills : 0,
			    f->final->oom_kills);
	return f->oom_event;
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
	case CAUSE_DEADLINE: /* what never reached its guest had no time to use up */
		return f->unheard ? RUN_lost : RUN_timed_out;
	case CAUSE_CANCEL:
	case CAUSE_OWNER_GONE:
		return RUN_cancelled;
	case CAUSE_DESTROYED: /* another call's doing: whoever waits for this one is told */
	case CAUSE_LIFETIME:
	case CAUSE_UNUSED:
	case CAUSE_IDLE:
	case CAUSE_STOPPED:
		return RUN_lost; /* by order, whatever memory ran out in the box before */
	case CAUSE_NONE:
	case CAUSE_DONE:
	case CAUSE_BAD_FRAME:
	case CAUSE_SILENT:
	case CAUSE_BROKER_GONE:
	case CAUSE_START:
	case CAUSE_DIED:
		break;
	}
	/* Its end is the last thing told of a box. */
	return f->oom_event || oom(f) ? RUN_oom_killed : RUN_lost;
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

/* Whether the counters are also those of other runs. */
static bool
shared(const struct run_facts *f)
{
	return f->within && !f->alone;
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
	if (oom(f) && (!shared(f) || (e->how == EXIT_SIGNALED && e->signal == SIGKILL)))
		return RUN_oom_killed;
	if (pids(f) && !shared(f))
		return RUN_pids_limit;
	if (e->flags & (EXIT_WORKSPACE_FULL | EXIT_TMP_FULL))
		return RUN_disk_full;
	return e->how == EXIT_SIGNALED ? RUN_signaled : RUN_nonzero;
}

/* ---- words ---- */

static void
say_memory(const struct run_facts *f, char *out, size_t cap)
{
	bool peak = f->final && (f->final->have & FIG_PEAK) && !f->within;
	char most[64] = "";

	if (peak)
		(void)snprintf(most, sizeof(most), " (peak %" PRIu64 " MiB)",
			       f->final->peak_bytes >> 20);
	(void)snprintf(out, cap,
		       "The run needed more memory than its limit of %" PRIu64
		       " MiB%s. Use less memory or ask for a larger memory_mb.",
		       f->limits->memory_bytes >> 20, most);
}

static void
say_pids(const struct run_facts *f, char *out, size_t cap)
{
	if (f->within && f->exit && f->exit->how == EXIT_NOT_STARTED)
		(void)snprintf(out, cap,
			       "The run could not start: what goes on in this sandbox already has "
			       "all of its %u processes and threads. End some of it first.",
			       f->limits->pids);
	else
		(void)snprintf(out, cap,
			       "The run hit its limit of %u processes and threads. Start fewer of "
			       "them.",
			       f->limits->pids);
}

static void
say_disk(const struct run_facts *f, char *out, size_t cap)
{
	bool tmp = f->exit && !(f->exit->flags & EXIT_WORKSPACE_FULL) &&
		   (f->exit->flags & EXIT_TMP_FULL);
	uint64_t free_bytes = !f->exit ? 0 : tmp ? f->exit->tmp_free : f->exit->workspace_free;
	const struct limits *l = f->limits;

	if (free_bytes)
		(void)snprintf(out, cap,
			       "%s holds as many files as it may, %" PRIu64
			       ". Write fewer, or delete files no longer needed.",
			       tmp ? "/tmp" : "/workspace",
			       tmp ? l->tmp_inodes : l->workspace_inodes);
	else
		(void)snprintf(out, cap,
			       "%s is full: its limit is %" PRIu64
			       " MiB. Write less, or delete files no longer needed.",
			       tmp ? "/tmp" : "/workspace",
			       (tmp ? l->tmp_bytes : l->workspace_bytes) >> 20);
}

static void
say_time(const struct run_facts *f, char *out, size_t cap)
{
	uint32_t ms = f->limits->timeout_ms;
	char text[16];
	int n = snprintf(text, sizeof(text), "%u.%03u", ms / 1000, ms % 1000);

	while (n > 0 && text[n - 1] == '0')
		text[--n] = '\0';
	if (n > 0 && text[n - 1] == '.')
		text[n - 1] = '\0';
	(void)snprintf(out, cap,
		       "The run was stopped at its time limit of %s s. Ask for a larger "
		       "timeout_seconds or do less in one run.",
		       text);
}

/* The limit that was met, in figures where they are known. */
static const char *
say_limit(const struct run_facts *f, enum run_status s, char *out, size_t cap)
{
	if (f->limits && s == RUN_oom_killed)
		say_memory(f, out, cap);
	else if (f->limits && s == RUN_pids_limit)
		say_pids(f, out, cap);
	else if (f->limits && s == RUN_disk_full)
		say_disk(f, out, cap);
	else if (f->limits && f->limits->timeout_ms && s == RUN_timed_out)
		say_time(f, out, cap);
	else
		(void)snprintf(out, cap, "%s", run_status_advice(s));
	return out;
}

const char *
verdict_why(enum end_cause cause, uint32_t away_s, char *out, size_t cap)
{
	if (cause != CAUSE_BROKER_GONE || !away_s)
		return cause_sentence(cause);
	(void)snprintf(out, cap, "the broker was silent for %u s", away_s);
	return out;
}

/* How a run ended whose box ended before it. */
static const char *
say_box_ended(const struct run_facts *f, enum run_status s, char *out, size_t cap)
{
	char limit[300], why[80];

	if (s == RUN_lost || s == RUN_cancelled)
		(void)snprintf(out, cap,
			       "The sandbox ended before the run did, because %s. What the run did "
			       "is unknown and its files are gone; create another sandbox.",
			       verdict_why(f->cause, f->away_s, why, sizeof(why)));
	else
		(void)snprintf(out, cap, "%s The sandbox ended with it; create another one.",
			       say_limit(f, s, limit, sizeof(limit)));
	return out;
}

const char *
verdict_message(const struct run_facts *f, enum run_status s, char *out, size_t cap)
{
	const char *words;
	char why[80];

	if (s == RUN_lost && f->cause == CAUSE_DEADLINE)
		return "The sandbox did not confirm within its time limit that the code had "
		       "reached "
		       "it, and was ended: the engine may be stuck. Whether it ran is unknown.";
	if (f->within && !f->exit)
		return say_box_ended(f, s, out, cap);
	if (s == RUN_busy)
		return "As many evaluations as may wait for this interpreter do. Try again when "
		       "one has ended.";
	if (s == RUN_lost && f->cause == CAUSE_BROKER_GONE) {
		(void)snprintf(out, cap, "The sandbox ended because %s; the result is unknown.",
			       verdict_why(f->cause, f->away_s, why, sizeof(why)));
		return out;
	}
	if (s == RUN_lost && f->cause == CAUSE_BAD_FRAME)
		return "The sandbox was ended because what runs inside it broke the rules of its "
		       "control stream; the result is unknown.";
	if (s == RUN_denied && f->exit) {
		words = strerrordesc_np((int)(f->exit->exit_code & 0xfff));
		(void)snprintf(out, cap,
			       "The command could not be started: %s. Check working_dir, args and "
			       "env, and that the sandbox's image has the program.",
			       words ? words : "unknown error");
		return out;
	}
	if ((s == RUN_nonzero || s == RUN_signaled) && shared(f) && oom(f))
		return "While it went on a process of this sandbox was killed because memory was "
		       "out; with several runs at once it is not known whose.";
	if ((s == RUN_nonzero || s == RUN_signaled) && shared(f) && pids(f))
		return "While it went on this sandbox hit its limit of processes and threads; with "
		       "several runs at once it is not known which.";
	return say_limit(f, s, out, cap);
}

void
verdict_figures(const struct run_facts *f, struct ipc_call_ended *out)
{
	const struct figures *base = f->baseline, *final = f->final;

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
