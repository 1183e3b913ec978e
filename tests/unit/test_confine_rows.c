/*
 * tests/unit/test_confine_rows.c - the tables: no row twice or in two minds, nothing
 * dangerous in any of them, and the supervisor's covers its children's.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "confine.h"

static const enum confine_table every[] = {TABLE_FRONTEND, TABLE_BROKER, TABLE_BROKER_TCP,
					   TABLE_REAPER, TABLE_SUPERVISOR};

static const struct confine_row *
find(enum confine_table table, long nr)
{
	const struct confine_row *rows = NULL;
	size_t n = confine_rows(table, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].nr == nr)
			return &rows[i];
	}
	return NULL;
}

/* A plain row is the call's only one; conditional ones differ in what they compare. */
static void
test_rows_are_unambiguous(void **state)
{
	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(every); t++) {
		const struct confine_row *rows = NULL;
		size_t n = confine_rows(every[t], &rows);

		assert_true(n > 20);
		for (size_t i = 0; i < n; i++) {
			assert_true(rows[i].nr >= 0);
			assert_true(rows[i].arg < 6);
			assert_true((rows[i].value & ~rows[i].mask) == 0 || rows[i].own_pid);
			assert_true((rows[i].verdict == CONFINE_ERRNO) == (rows[i].err != 0));
			for (size_t j = i + 1; j < n; j++) {
				if (rows[j].nr != rows[i].nr)
					continue;
				assert_true(rows[i].has_arg && rows[j].has_arg);
				assert_int_equal(rows[i].arg, rows[j].arg);
				assert_true(rows[i].mask == rows[j].mask);
				assert_true(rows[i].value != rows[j].value);
			}
		}
	}
}

/* clang-format off */
/* Past any need of ours, root or not. */
static const long never[] = {
	SYS_execve, SYS_bind, SYS_listen, SYS_accept, SYS_ptrace, SYS_process_vm_readv,
	SYS_process_vm_writev, SYS_bpf, SYS_kexec_load, SYS_init_module, SYS_finit_module,
	SYS_delete_module, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_userfaultfd,
	SYS_perf_event_open, SYS_io_uring_setup, SYS_io_uring_enter, SYS_reboot, SYS_swapon,
	SYS_swapoff, SYS_clock_settime, SYS_settimeofday, SYS_clock_adjtime,
	SYS_open_by_handle_at, SYS_setns, SYS_pidfd_getfd, SYS_process_madvise, SYS_kcmp,
	SYS_quotactl, SYS_acct, SYS_syslog, SYS_sethostname, SYS_personality, SYS_memfd_secret,
	SYS_vmsplice,
};
/* Of children, these too. */
static const long never_children[] = {
	SYS_execveat, SYS_clone, SYS_kill, SYS_unshare, SYS_mount, SYS_fchmod, SYS_capset,
	SYS_setresuid, SYS_seccomp, SYS_accept4,
};
/* clang-format on */

static void
test_nothing_dangerous_is_listed(void **state)
{
	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(every); t++) {
		for (size_t i = 0; i < ARRAY_LEN(never); i++)
			assert_null(find(every[t], never[i]));
		for (size_t i = 0; i < ARRAY_LEN(never_children); i++) {
			if (every[t] != TABLE_SUPERVISOR)
				assert_null(find(every[t], never_children[i]));
		}
	}
	assert_null(find(TABLE_FRONTEND, SYS_socket));
	assert_null(find(TABLE_FRONTEND, SYS_connect));
	assert_null(find(TABLE_REAPER, SYS_socket));
	assert_null(find(TABLE_REAPER, SYS_connect));
	assert_int_equal(find(TABLE_FRONTEND, SYS_openat)->verdict, CONFINE_ERRNO);
	assert_int_equal(find(TABLE_BROKER, SYS_openat)->verdict, CONFINE_ERRNO);
}

/* Is everything the row lets through let through, or refused softly, by the table? */
static bool
covered(const struct confine_row *row, enum confine_table table)
{
	const struct confine_row *rows = NULL;
	size_t n = confine_rows(table, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].nr != row->nr)
			continue;
		if (!rows[i].has_arg)
			return true;
		if (row->has_arg && rows[i].arg == row->arg && rows[i].mask == row->mask &&
		    rows[i].value == row->value)
			return true;
	}
	return false;
}

/* The strictest of all loaded filters decides, and KILL is stricter than ERRNO. */
static void
test_supervisor_covers_children(void **state)
{
	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(every); t++) {
		const struct confine_row *rows = NULL;
		size_t n = confine_rows(every[t], &rows);

		for (size_t i = 0; i < n; i++) {
			if (!covered(&rows[i], TABLE_SUPERVISOR))
				fail_msg("%s: %s", confine_table_name(every[t]), rows[i].name);
		}
	}
}

static bool
allows(enum confine_table table, long nr, uint64_t value)
{
	const struct confine_row *rows = NULL;
	size_t n = confine_rows(table, &rows);

	for (size_t i = 0; i < n; i++) {
		if (rows[i].nr == nr && rows[i].verdict == CONFINE_ALLOW &&
		    (!rows[i].has_arg || (value & rows[i].mask) == rows[i].value))
			return true;
	}
	return false;
}

static void
test_arguments(void **state)
{
	(void)state;
	assert_true(allows(TABLE_BROKER, SYS_socket, AF_UNIX));
	assert_false(allows(TABLE_BROKER, SYS_socket, AF_INET));
	assert_true(allows(TABLE_BROKER_TCP, SYS_socket, AF_INET6));
	assert_false(allows(TABLE_SUPERVISOR, SYS_socket, AF_NETLINK));
	assert_false(allows(TABLE_SUPERVISOR, SYS_socket, AF_VSOCK));
	assert_true(allows(TABLE_REAPER, SYS_pidfd_send_signal, SIGKILL));
	assert_false(allows(TABLE_REAPER, SYS_pidfd_send_signal, SIGTERM));
	assert_true(allows(TABLE_REAPER, SYS_openat, O_RDONLY | O_CLOEXEC | O_DIRECTORY));
	assert_false(allows(TABLE_REAPER, SYS_openat, O_WRONLY));
	assert_false(allows(TABLE_REAPER, SYS_openat, O_RDWR));
	assert_false(allows(TABLE_REAPER, SYS_openat, O_RDONLY | O_CREAT));
	assert_false(allows(TABLE_REAPER, SYS_openat, O_TMPFILE | O_RDWR));
	assert_true(allows(TABLE_FRONTEND, SYS_mmap, 3));
	assert_false(allows(TABLE_FRONTEND, SYS_mmap, 7));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_unambiguous),
		cmocka_unit_test(test_nothing_dangerous_is_listed),
		cmocka_unit_test(test_supervisor_covers_children),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
