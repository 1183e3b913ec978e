/*
 * base/exe.c - where our own programs and data are.
 * Runs in: supervisor, cli.
 * Input: /proc/self/exe; trusted.
 * Owns: nothing.
 * PATH is never consulted: a caller-controlled PATH must not choose what runs
 * with the engine socket.
 */
#include "base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
exe_dir(char *ret, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", ret, cap - 1);

	if (n == -1)
		return -errno;
	if ((size_t)n >= cap - 1)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	char *slash = strrchr(ret, '/');
	if (slash == NULL)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* ret becomes dir + relative when probe exists below it. */
static int
try_path(const char *dir, const char *relative, const char *probe, int mode, char *ret, size_t cap)
{
	char path[PATH_MAX];

	int n = snprintf(path, sizeof(path), "%s/%s%s", dir, relative, probe);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, mode) == -1)
		return -errno;
	path[(size_t)n - strlen(probe)] = '\0';
	return str_copy(ret, cap, path, strlen(path));
}

int
exe_find(const char *name, char *ret, size_t cap)
{
	char dir[PATH_MAX];

	int r = exe_dir(dir, sizeof(dir));
	if (r < 0)
		return r;
	if (try_path(dir, name, "", X_OK, ret, cap) == 0)
		return 0;
	char relative[NAME_MAX];
	int n = snprintf(relative, sizeof(relative), "../libexec/bailey/%s", name);
	if (n < 0 || (size_t)n >= sizeof(relative))
		return -ENAMETOOLONG;
	return try_path(dir, relative, "", X_OK, ret, cap) == 0 ? 0 : -ENOENT;
}

int
exe_share_dir(char *ret, size_t cap)
{
	/* From bin/, from libexec/bailey/, from a build tree. */
	static const char *const places[] = {"../share/bailey", "../../share/bailey", "../share"};
	char dir[PATH_MAX];
	char found[PATH_MAX];

	int r = exe_dir(dir, sizeof(dir));
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (try_path(dir, places[i], "/box/init", R_OK, found, sizeof(found)) < 0)
			continue;
		/* The engine is given this path: no ".." and no symbolic link in it. */
		char real[PATH_MAX];
		if (realpath(found, real) == NULL)
			return -errno;
		return str_copy(ret, cap, real, strlen(real));
	}
	return -ENOENT;
}
