/*
 * tests/confine/forked.h - runs a function in a child and tells how it ended:
 * what gives up rights cannot be undone, so every case has its own process.
 */
#ifndef BAILEY_TESTS_FORKED_H
#define BAILEY_TESTS_FORKED_H

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seen by parent and child. */
struct forked {
	int stage; /* the child counts up as it gets on */
	long value;
	int err;
};

static inline struct forked *
forked_new(void)
{
	void *p = mmap(NULL, sizeof(struct forked), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* The child's wait status; fn's result is its exit code. -1: no child. */
static inline int
forked_run(struct forked *shared, int (*fn)(struct forked *shared, void *ctx), void *ctx)
{
	int status = 0;

	*shared = (struct forked){0};
	pid_t pid = fork();
	if (pid == 0) {
		/* Not _exit: its name for this call is exit_group on all supported libcs anyway,
		 * and this says so. */
		(void)syscall(SYS_exit_group, fn(shared, ctx));
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* Root gives up all but what baileyd keeps; others have nothing to give up. */
static inline int
forked_supervisor_caps(void)
{
	uint32_t keep = 1U << CAP_SETUID | 1U << CAP_SETGID | 1U << CAP_KILL;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = keep, .permitted = keep}};

	if (geteuid() != 0)
		return 0;
	return syscall(SYS_capset, &head, data) == -1 ? -errno : 0;
}

#endif
