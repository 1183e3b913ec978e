/*
 * guest/kept.c - the environment that is given to every program from now on.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: the decoded specification of a run of kind RUN_ENV.
 * Owns: that environment (struct kept), until another one comes in its place.
 */
#include "guest.h"

void
kept_start(struct guest *g, struct run *run)
{
	prestart_discard(g); /* it was started without */
	spec_done(&g->kept.what);
	buf_done(&g->kept.spec);
	g->kept = (struct kept){.spec = run->spec, .what = run->what};
	buf_init(&run->spec, GUEST_SPEC_MAX);
	run->what = (struct guest_spec){.kind = RUN_ENV};
	run->result.how = EXIT_EXITED;
	run->ended = true;
	run_drain(g, run);
}
