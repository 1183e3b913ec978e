/*
 * guest/beneath.c - opens paths that stay beneath the two writable places of a sandbox.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: a path of the caller's; directories and links that untrusted code makes and changes
 *        meanwhile.
 * Owns: nothing.
 *
 * The kernel follows no link and no ".." out of the place (openat2), so that nothing of PID 1's
 * own (/proc/self) can be meant. Where it has no such call, the way is walked component by
 * component and no link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

#define BENEATH_PATH_MAX 4096u
#define BENEATH_TRIES 4u /* openat2 gives up where somebody renames on the way */

/* The kernel's struct open_how; libc may not know it. */
struct beneath_how {
	uint64_t flags, mode, resolve;
};
#define RESOLVE_NO_MAGIC 0x02u
#define RESOLVE_BELOW 0x08u

static const char *const beneath_roots[] = {GUEST_WORKSPACE, GUEST_TMP};

/* Copies the component at *at and moves *at to the next one. False at the end. */
static bool
beneath_component(const char **at, char *ret, size_t cap)
{
	size_t n;

	while (**at == '/')
		(*at)++;
	n = strcspn(*at, "/");
	if (n == 0 || n >= cap)
		return false;
	memcpy(ret, *at, n);
	ret[n] = '\0';
	*at += n;
	while (**at == '/')
		(*at)++;
	return true;
}

/* A ".." goes above where the path begins. Told before anything is made on the way. */
static bool
beneath_leaves(const char *rest)
{
	char name[NAME_MAX + 2];
	int depth = 0;

	while (depth >= 0 && beneath_component(&rest, name, sizeof(name))) {
		if (strcmp(name, "..") == 0)
			depth--;
		else if (strcmp(name, ".") != 0)
			depth++;
	}
	return depth < 0;
}

/* The place an absolute path begins in, whatever of "/" and "/." stands before its name; *path is
 * moved behind that. NULL: none. */
static const char *
beneath_place(const char **path)
{
	char name[NAME_MAX + 2];

	do {
		if (!beneath_component(path, name, sizeof(name)))
			return NULL;
	} while (strcmp(name, ".") == 0);
	for (size_t i = 0; i < ARRAY_LEN(beneath_roots); i++) {
		if (strcmp(name, beneath_roots[i] + 1) == 0)
			return beneath_roots[i];
	}
	return NULL;
}

int
beneath_root(const char *path, const char **ret_rest)
{
	const char *root = beneath_roots[0];
	int fd;

	if (path[0] == '/') {
		root = beneath_place(&path);
		if (root == NULL)
			return -EXDEV;
	}
	while (*path == '/')
		path++;
	if (beneath_leaves(path))
		return -EXDEV;
	*ret_rest = *path == '\0' ? "." : path;
	fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

/* For kernels without openat2: no link is followed, and no "..". */
static int
beneath_walk(int root, const char *rest, int flags, mode_t mode)
{
	char name[NAME_MAX + 2];
	int dir = root;
	int fd = -EINVAL;

	if (strlen(rest) > BENEATH_PATH_MAX)
		return -ENAMETOOLONG;
	while (beneath_component(&rest, name, sizeof(name))) {
		bool last = *rest == '\0';

		if (strcmp(name, "..") == 0)
			fd = -EXDEV;
		else if (last)
			fd = openat(dir, name, flags | O_NOFOLLOW, mode);
		else
			fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd == -1)
			fd = -errno;
		if (dir != root)
			(void)close(dir);
		if (fd < 0 || last)
			return fd;
		dir = fd;
	}
	if (dir != root)
		(void)close(dir);
	return -ENAMETOOLONG; /* of a component */
}

int
beneath_open(int root, const char *rest, int flags, mode_t mode)
{
	const struct beneath_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = (flags & O_CREAT) != 0 ? mode : 0,
		.resolve = RESOLVE_BELOW | RESOLVE_NO_MAGIC,
	};
	long fd = -1;

	for (unsigned i = 0; i < BENEATH_TRIES; i++) {
		fd = syscall(SYS_openat2, root, rest, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	if (errno == ENOSYS)
		return beneath_walk(root, rest, flags, mode);
	return -errno;
}

/* Makes the directories above the file that are missing. */
static int
beneath_make_way(int root, const char *rest)
{
	char prefix[BENEATH_PATH_MAX];
	char name[NAME_MAX + 2];
	const char *at = rest;
	int dir = root;

	while (beneath_component(&at, name, sizeof(name)) && *at != '\0') {
		int fd = str_copy(prefix, sizeof(prefix), rest, (size_t)(at - rest));

		if (fd == 0)
			fd = beneath_open(root, prefix, O_PATH | O_DIRECTORY, 0);
		if (fd == -ENOENT) {
			if (mkdirat(dir, name, 0755) == -1 && errno != EEXIST)
				fd = -errno;
			else
				fd = beneath_open(root, prefix, O_PATH | O_DIRECTORY, 0);
		}
		if (dir != root)
			(void)close(dir);
		if (fd < 0)
			return fd;
		dir = fd;
	}
	if (dir != root)
		(void)close(dir);
	return 0;
}

int
beneath_create(int root, const char *rest, int flags, mode_t mode)
{
	int fd = beneath_make_way(root, rest);
	mode_t was;

	if (fd < 0)
		return fd;
	was = umask(0); /* the mode is as asked for */
	fd = beneath_open(root, rest, O_WRONLY | O_CREAT | flags, mode);
	(void)umask(was);
	return fd;
}
