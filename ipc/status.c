/*
 * ipc/status.c - names of run statuses, causes, process roles and box classes.
 * Runs in: every host process; linked into the guest for its numbers only.
 * Input: numbers that may come from a peer; an unknown one has a name too.
 * Owns: nothing.
 */
#include "ipc.h"

static const struct {
	const char *name;
	bool is_error;
	const char *advice;
} status_table[RUN_STATUS_COUNT] = {
#define STATUS(name, is_error, advice) [RUN_##name] = {#name, is_error, advice},
#include "status.def"
#undef STATUS
};

/* An unknown number is a fault of ours: it reads and counts as internal. */
static enum run_status
known(enum run_status s)
{
	return (unsigned int)s < RUN_STATUS_COUNT ? s : RUN_internal;
}

const char *
run_status_name(enum run_status s)
{
	return status_table[known(s)].name;
}

bool
run_status_is_error(enum run_status s)
{
	return status_table[known(s)].is_error;
}

const char *
run_status_advice(enum run_status s)
{
	return status_table[known(s)].advice;
}

static const struct {
	const char *word, *label, *sentence;
} cause_table[CAUSES] = {
#define CAUSE(name, word, label, sentence) [CAUSE_##name] = {word, label, sentence},
#include "causes.def"
#undef CAUSE
};

const char *
cause_word(uint32_t cause)
{
	return cause < CAUSES ? cause_table[cause].word : "unknown";
}

const char *
cause_label(uint32_t cause)
{
	return cause < CAUSES ? cause_table[cause].label : "unknown";
}

const char *
cause_sentence(uint32_t cause)
{
	return cause_table[cause < CAUSES ? cause : (uint32_t)CAUSE_DIED].sentence;
}

const char *
ipc_role_name(enum ipc_role role)
{
	switch (role) {
	case IPC_SUPERVISOR:
		return "supervisor";
	case IPC_FRONTEND:
		return "frontend";
	case IPC_BROKER:
		return "broker";
	case IPC_REAPER:
		return "reaper";
	case IPC_CHILDREN:
		break;
	}
	return "unknown";
}

const char *
box_class_name(uint32_t box_class)
{
	static const char *const names[BOX_CLASSES] = {
		[BOX_SHELL] = "shell", [BOX_PYTHON] = "python", [BOX_NODE] = "node"};

	return box_class < BOX_CLASSES ? names[box_class] : "unknown";
}
