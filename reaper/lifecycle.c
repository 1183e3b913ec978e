/*
 * reaper/lifecycle.c - what happens to a box: every state against every event.
 * Runs in: bailey-reaper.
 * Input: none; a pure table.
 * Owns: nothing.
 * A box enters as INTENDED before it can exist and leaves as GONE after the
 * engine confirmed that it does not; no road skips that last word. action.c
 * carries the cells out.
 */
#include "reaper.h"

#define CELL(act, to)                                     \
	{                                                 \
		.action = BOX_ACT_##act, .next = BOX_##to \
	}

/* clang-format off */
static const struct box_cell cells[BOX_STATES][BOX_EVENTS] = {
	[BOX_FREE] = {
		[BOX_EV_CREATED] = CELL(BUG, FREE),
		[BOX_EV_STARTED] = CELL(BUG, FREE),
		[BOX_EV_KILL] = CELL(BUG, FREE),
		[BOX_EV_DEADLINE] = CELL(BUG, FREE),
		[BOX_EV_LIFETIME] = CELL(BUG, FREE),
		[BOX_EV_DEAD] = CELL(BUG, FREE),
		[BOX_EV_RETRY] = CELL(BUG, FREE),
		[BOX_EV_BROKER_LOST] = CELL(BUG, FREE),
		[BOX_EV_BROKER_NEW] = CELL(BUG, FREE),
		[BOX_EV_GONE] = CELL(BUG, FREE),
		[BOX_EV_GONE_ALIVE] = CELL(BUG, FREE),
	},
	[BOX_INTENDED] = {
		[BOX_EV_CREATED] = CELL(NOTE, CREATED),
		[BOX_EV_STARTED] = CELL(HOLD, ARMED),
		[BOX_EV_KILL] = CELL(DROP, REMOVING),
		[BOX_EV_DEADLINE] = CELL(DROP_TELL, REMOVING),
		[BOX_EV_LIFETIME] = CELL(DROP_TELL, REMOVING),
		[BOX_EV_DEAD] = CELL(BUG, INTENDED),
		[BOX_EV_RETRY] = CELL(IGNORE, INTENDED),
		[BOX_EV_BROKER_LOST] = CELL(DROP, REMOVING),
		[BOX_EV_BROKER_NEW] = CELL(IGNORE, INTENDED),
		[BOX_EV_GONE] = CELL(FORGET, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(BUG, INTENDED),
	},
	[BOX_CREATED] = {
		[BOX_EV_CREATED] = CELL(NOTE, CREATED),
		[BOX_EV_STARTED] = CELL(HOLD, ARMED),
		[BOX_EV_KILL] = CELL(DROP, REMOVING),
		[BOX_EV_DEADLINE] = CELL(DROP_TELL, REMOVING),
		[BOX_EV_LIFETIME] = CELL(DROP_TELL, REMOVING),
		[BOX_EV_DEAD] = CELL(BUG, CREATED),
		[BOX_EV_RETRY] = CELL(IGNORE, CREATED),
		[BOX_EV_BROKER_LOST] = CELL(DROP, REMOVING),
		[BOX_EV_BROKER_NEW] = CELL(IGNORE, CREATED),
		[BOX_EV_GONE] = CELL(FORGET, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(BUG, CREATED),
	},
	[BOX_ARMED] = {
		[BOX_EV_CREATED] = CELL(IGNORE, ARMED),
		[BOX_EV_STARTED] = CELL(HOLD, ARMED), /* a repeat gets its answer again */
		[BOX_EV_KILL] = CELL(KILL, KILLING),
		[BOX_EV_DEADLINE] = CELL(KILL, KILLING),
		[BOX_EV_LIFETIME] = CELL(KILL, KILLING),
		[BOX_EV_DEAD] = CELL(REMOVE_LATER, REMOVING),
		[BOX_EV_RETRY] = CELL(IGNORE, ARMED),
		[BOX_EV_BROKER_LOST] = CELL(KILL, KILLING),
		[BOX_EV_BROKER_NEW] = CELL(IGNORE, ARMED),
		[BOX_EV_GONE] = CELL(FORGET, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(KILL, KILLING),
	},
	[BOX_KILLING] = {
		[BOX_EV_CREATED] = CELL(IGNORE, KILLING),
		[BOX_EV_STARTED] = CELL(IGNORE, KILLING),
		[BOX_EV_KILL] = CELL(IGNORE, KILLING),
		[BOX_EV_DEADLINE] = CELL(IGNORE, KILLING),
		[BOX_EV_LIFETIME] = CELL(IGNORE, KILLING),
		[BOX_EV_DEAD] = CELL(DEAD, REMOVING),
		[BOX_EV_RETRY] = CELL(REMOVE, REMOVING), /* the engine's forced removal kills too */
		[BOX_EV_BROKER_LOST] = CELL(RESIGNAL, KILLING),
		[BOX_EV_BROKER_NEW] = CELL(KILL, KILLING),
		[BOX_EV_GONE] = CELL(FORGET, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(KILL, KILLING),
	},
	[BOX_REMOVING] = {
		[BOX_EV_CREATED] = CELL(NOTE_REMOVE, REMOVING),
		[BOX_EV_STARTED] = CELL(HOLD_KILL, REMOVING),
		[BOX_EV_KILL] = CELL(HURRY, REMOVING),
		[BOX_EV_DEADLINE] = CELL(IGNORE, REMOVING),
		[BOX_EV_LIFETIME] = CELL(IGNORE, REMOVING),
		[BOX_EV_DEAD] = CELL(DEAD_TELL, REMOVING),
		[BOX_EV_RETRY] = CELL(REMOVE, REMOVING),
		[BOX_EV_BROKER_LOST] = CELL(RESIGNAL, REMOVING),
		[BOX_EV_BROKER_NEW] = CELL(REMOVE, REMOVING),
		[BOX_EV_GONE] = CELL(FORGET, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(KILL, KILLING),
	},
	[BOX_GONE] = {
		[BOX_EV_CREATED] = CELL(BUG, GONE),
		[BOX_EV_STARTED] = CELL(BUG, GONE),
		[BOX_EV_KILL] = CELL(BUG, GONE),
		[BOX_EV_DEADLINE] = CELL(BUG, GONE),
		[BOX_EV_LIFETIME] = CELL(BUG, GONE),
		[BOX_EV_DEAD] = CELL(BUG, GONE),
		[BOX_EV_RETRY] = CELL(BUG, GONE),
		[BOX_EV_BROKER_LOST] = CELL(BUG, GONE),
		[BOX_EV_BROKER_NEW] = CELL(BUG, GONE),
		[BOX_EV_GONE] = CELL(BUG, GONE),
		[BOX_EV_GONE_ALIVE] = CELL(BUG, GONE),
	},
};
/* clang-format on */

static const char *const state_names[BOX_STATES] = {
	[BOX_FREE] = "free",   [BOX_INTENDED] = "intended", [BOX_CREATED] = "created",
	[BOX_ARMED] = "armed", [BOX_KILLING] = "killing",   [BOX_REMOVING] = "removing",
	[BOX_GONE] = "gone",
};
static const char *const event_names[BOX_EVENTS] = {
	[BOX_EV_CREATED] = "created",
	[BOX_EV_STARTED] = "started",
	[BOX_EV_KILL] = "kill",
	[BOX_EV_DEADLINE] = "deadline",
	[BOX_EV_LIFETIME] = "lifetime",
	[BOX_EV_DEAD] = "dead",
	[BOX_EV_RETRY] = "retry",
	[BOX_EV_BROKER_LOST] = "broker lost",
	[BOX_EV_BROKER_NEW] = "broker new",
	[BOX_EV_GONE] = "gone",
	[BOX_EV_GONE_ALIVE] = "gone but alive",
};

struct box_cell
lifecycle_cell(enum box_state state, enum box_event event)
{
	if ((unsigned)state >= BOX_STATES || (unsigned)event >= BOX_EVENTS)
		fatal("lifecycle: no cell for state %d, event %d", (int)state, (int)event);
	return cells[state][event];
}

const char *
lifecycle_state_name(enum box_state state)
{
	return (unsigned)state < BOX_STATES ? state_names[state] : "?";
}

const char *
lifecycle_event_name(enum box_event event)
{
	return (unsigned)event < BOX_EVENTS ? event_names[event] : "?";
}
