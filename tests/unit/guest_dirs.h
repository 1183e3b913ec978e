/*
 * tests/unit/guest_dirs.h - for tests of guest/ that open files: two directories stand for
 * /workspace and /tmp, and openat2 can be taken away. They link with wrapped open and syscall.
 */
#ifndef BAILEY_GUEST_DIRS_H
#define BAILEY_GUEST_DIRS_H

#include <ftw.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "guest_fakes.h"

static char base[64];
static bool old_kernel; /* which has no openat2 */

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

int
__wrap_open(const char *path, int flags, ...)
{
	char there[128];
	int mode = 0;

	if ((flags & O_CREAT) != 0) {
		va_list ap;

		va_start(ap, flags);
		mode = va_arg(ap, int);
		va_end(ap);
	}
	if (strcmp(path, GUEST_WORKSPACE) != 0 && strcmp(path, GUEST_TMP) != 0)
		return __real_open(path, flags, mode);
	(void)snprintf(there, sizeof(there), "%s%s", base, path);
	return __real_open(there, flags, mode);
}

long
__wrap_syscall(long number, ...)
{
	long a[4];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && old_kernel) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3]);
}

/* Not on a kernel before 5.6, nor under valgrind. */
static inline bool
has_openat2(void)
{
	return __real_syscall(SYS_openat2, -1, NULL, NULL, 0) == -1 && errno != ENOSYS;
}

static inline int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static inline struct fake *
new_box(void)
{
	(void)snprintf(base, sizeof(base), "/tmp/bailey-files-XXXXXX");
	assert_non_null(mkdtemp(base));
	assert_int_equal(chdir(base), 0);
	assert_int_equal(mkdir("workspace", 0755), 0);
	assert_int_equal(mkdir("tmp", 0755), 0);
	assert_int_equal(chdir("workspace"), 0);
	(void)umask(022);
	if (!has_openat2())
		old_kernel = true;
	return fake_new();
}

static inline void
done(struct fake *f)
{
	fake_free(f);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
