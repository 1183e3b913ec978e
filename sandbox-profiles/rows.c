/*
 * sandbox-profiles/rows.c - the syscall tables: the .def files as arrays.
 * Runs in: every host process; tests/confine.
 * Input: none; everything here is fixed when compiling.
 * Owns: the arrays, built once on first use (calls this processor does not
 *       have are left out).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "confine_parts.h"

/* Only processors with an older history have these. */
#ifndef SYS_epoll_wait
#define SYS_epoll_wait (-1)
#endif
#ifndef SYS_epoll_create
#define SYS_epoll_create (-1)
#endif
#ifndef SYS_poll
#define SYS_poll (-1)
#endif
#ifndef SYS_access
#define SYS_access (-1)
#endif
#ifndef SYS_readlink
#define SYS_readlink (-1)
#endif
#ifndef SYS_mkdir
#define SYS_mkdir (-1)
#endif
#ifndef SYS_arch_prctl
#define SYS_arch_prctl (-1)
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define EXACT UINT64_MAX
#define OPEN_FOR_CHANGE (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

#define ROW(call, what, error, conditional, self, argument, mask_, value_) \
	{.name = #call,                                                    \
	 .nr = SYS_##call,                                                 \
	 .verdict = (what),                                                \
	 .err = (error),                                                   \
	 .has_arg = (conditional),                                         \
	 .own_pid = (self),                                                \
	 .arg = (argument),                                                \
	 .mask = (uint64_t)(mask_),                                        \
	 .value = (uint64_t)(value_)},
#define ALLOW(call) ROW(call, CONFINE_ALLOW, 0, false, false, 0, 0, 0)
#define ALLOW_ARG(call, arg, mask, value) ROW(call, CONFINE_ALLOW, 0, true, false, arg, mask, value)
#define ALLOW_SELF(call, arg) ROW(call, CONFINE_ALLOW, 0, true, true, arg, EXACT, 0)
#define ERRNO(call, err) ROW(call, CONFINE_ERRNO, err, false, false, 0, 0, 0)
#define ERRNO_ARG(call, arg, mask, value, err) \
	ROW(call, CONFINE_ERRNO, err, true, false, arg, mask, value)

static struct confine_row frontend_rows[] = {
#include "frontend.def"
#include "runtime.def"
};
static struct confine_row broker_rows[] = {
#include "broker.def"
#include "runtime.def"
};
static struct confine_row broker_tcp_rows[] = {
#include "broker.def"
#include "broker_tcp.def"
#include "runtime.def"
};
static struct confine_row reaper_rows[] = {
#include "reaper.def"
#include "runtime.def"
};
static struct confine_row supervisor_rows[] = {
#include "supervisor.def"
};

static struct {
	const char *name;
	struct confine_row *rows;
	size_t n;
	bool compacted;
} tables[] = {
	[TABLE_FRONTEND] = {"frontend", frontend_rows, ARRAY_LEN(frontend_rows), false},
	[TABLE_BROKER] = {"broker", broker_rows, ARRAY_LEN(broker_rows), false},
	[TABLE_BROKER_TCP] = {"broker_tcp", broker_tcp_rows, ARRAY_LEN(broker_tcp_rows), false},
	[TABLE_REAPER] = {"reaper", reaper_rows, ARRAY_LEN(reaper_rows), false},
	[TABLE_SUPERVISOR] = {"supervisor", supervisor_rows, ARRAY_LEN(supervisor_rows), false},
};

size_t
confine_rows(enum confine_table table, const struct confine_row **ret)
{
	if (!tables[table].compacted) {
		struct confine_row *rows = tables[table].rows;
		size_t kept = 0;

		for (size_t i = 0; i < tables[table].n; i++) {
			if (rows[i].nr >= 0)
				rows[kept++] = rows[i];
		}
		tables[table].n = kept;
		tables[table].compacted = true;
	}
	*ret = tables[table].rows;
	return tables[table].n;
}

const char *
confine_table_name(enum confine_table table)
{
	return tables[table].name;
}

bool
confine_opens_nothing(enum confine_table table)
{
	return table == TABLE_FRONTEND || table == TABLE_BROKER || table == TABLE_BROKER_TCP;
}
