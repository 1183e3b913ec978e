/*
 * frontend/resume.c - calls whose run goes on in a sandbox while there is no broker.
 * Runs in: bailey-frontend.
 * Input: the next broker's word, which holds what a guest said.
 * Owns: nothing.
 *
 * The next broker hears how much of the output came; it says how much of the input
 * its guest has, and that is sent from there on. So all of it is kept meanwhile. A
 * run whose start never came to its guest is submitted anew: nothing of it happened.
 */
#include "frontend.h"

bool
call_is_kept(const struct call *c)
{
	return (call_step(c)->flags & STEP_RUN) != 0 && c->sandbox[0] != '\0' &&
	       c->hold[0] == '\0' && (c->flags & CALL_STAYS) == 0;
}

uint64_t
resume_wait_ms(const struct call *c)
{
	return c->sandbox[0] != '\0' ? RESUME_WAIT_MS : LOST_WAIT_MS;
}

void
resume_cut(struct call *c)
{
	if (!call_is_kept(c)) {
		call_answer(c, RUN_lost);
		return;
	}
	c->state = CALL_RESUMING;
	call_arm(c, RESUME_WAIT_MS);
}

static void
begin_anew(struct call *c)
{
	c->grant = (struct call_grant){.start = START_NONE};
	c->spec_sent = false;
	c->input_sent = 0;
	c->input_credit = GUEST_WINDOW;
	c->input_open = c->input_given;
	call_renumber(c);
	call_start(c);
}

void
resume_answered(struct call *c, const struct ipc_call_resumed *row)
{
	if (row->again != 0) {
		begin_anew(c);
		return;
	}
	if (row->received > c->input_sent || row->granted < row->received ||
	    (row->closed != 0 && row->received < buf_len(&c->input))) {
		/* its guest lies: it has what was never sent, or an end that was not */
		(void)upcalls_cancel(c);
		call_answer(c, RUN_lost);
		return;
	}
	c->input_sent = row->received;
	c->input_credit = row->granted;
	c->input_open = c->input_given && row->closed == 0;
	c->state = CALL_GRANTED;
	notify_call(c, LOG_WARNING, "run %s goes on after the broker was lost", c->grant.run_id);
	call_arm_granted(c);
	(void)upcalls_stdin(c);
}
