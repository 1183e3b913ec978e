/*
 * sandbox-profiles/namespaces.c - the layer a plain user can add: user, mount,
 * net and ipc namespaces of its own and an empty, read-only root in which only
 * the planned directories appear.
 * Runs in: frontend, broker and reaper of a tree started by a plain user.
 * Input: the plan; trusted.
 * Owns: nothing afterwards; the old root is detached.
 *
 * Refused (no namespaces here, or a security module that grants them without
 * rights) shows at unshare or at the first mount call; until then nothing is
 * changed that anything depends on. From there on a failure is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine_parts.h"

/* Covered by the new root while it is put together; any directory would do. */
#define STAGE "/tmp"

static bool
refusal(int err)
{
	return err == EPERM || err == EACCES || err == ENOSYS || err == EINVAL || err == ENOSPC ||
	       err == EUSERS;
}

static int
write_file(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd == -1)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

static int
write_map(const char *path, unsigned int id)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %u 1\n", id, id);

	if (n < 0 || (size_t)n >= sizeof(text))
		return -EINVAL;
	return write_file(path, text);
}

/* Only our own ids exist inside. Other groups keep working: the kernel goes on
 * comparing the real ones (the engine socket's group). */
static int
map_ids(uid_t uid, gid_t gid)
{
	/* A program its user may not read starts undumpable, and then these files are root's.
	 * confine_lock takes it back. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == -1)
		return -errno;
	int r = write_file("/proc/self/setgroups", "deny");
	if (r < 0)
		return r;
	r = write_map("/proc/self/uid_map", uid);
	if (r < 0)
		return r;
	return write_map("/proc/self/gid_map", gid);
}

/* Makes path (absolute, checked by confine_args) below the current directory. */
static int
make_dirs(const char *path)
{
	char part[sizeof(((struct confine_plan *)0)->bind_dir[0])];

	for (size_t i = 1;; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		int r = str_copy(part, sizeof(part), path + 1, i - 1);
		if (r < 0)
			return r;
		if (mkdir(part, 0755) == -1 && errno != EEXIST)
			return -errno;
		if (path[i] == '\0')
			return 0;
	}
}

/* The source is a descriptor because the staging mount may cover its path. */
static int
bind_into_root(int source, const char *path, bool readonly)
{
	struct mount_attr attr = {.attr_set =
					  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	char from[64];

	int r = make_dirs(path);
	if (r < 0)
		return r;
	int n = snprintf(from, sizeof(from), "/proc/self/fd/%d", source);
	if (n < 0 || (size_t)n >= sizeof(from))
		return -EINVAL;
	/* Recursive, or the kernel refuses: what a mount of ours covers must stay covered. */
	if (mount(from, path + 1, NULL, MS_BIND | MS_REC, NULL) == -1)
		return -errno;
	if (readonly)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (mount_setattr(AT_FDCWD, path + 1, AT_RECURSIVE, &attr, sizeof(attr)) == -1)
		return -errno;
	return 0;
}

static int
swap_root(void)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	/* The old root lands on top of the new one and is taken off again. */
	if (syscall(SYS_pivot_root, ".", ".") == -1)
		return -errno;
	if (umount2(".", MNT_DETACH) == -1)
		return -errno;
	if (chdir("/") == -1)
		return -errno;
	return mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) == -1 ? -errno : 0;
}

static int
build_root(const struct confine_plan *plan, const int sources[2])
{
	if (mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "size=64k,nr_inodes=64,mode=0755") == -1)
		return -errno;
	if (chdir(STAGE) == -1)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(plan->bind_dir); i++) {
		if (sources[i] == -1)
			continue;
		int r = bind_into_root(sources[i], plan->bind_dir[i], plan->bind_readonly);
		if (r < 0)
			return r;
	}
	return swap_root();
}

/* A directory that is not there is left out: an engine that is absent is for
 * the broker to report, not a reason to run without the layer. */
static int
open_source(const char *path, int *ret)
{
	if (path[0] == '\0')
		return 0;
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1)
		return errno == ENOENT ? 0 : -errno;
	*ret = fd;
	return 0;
}

int
confine_namespaces(const struct confine_plan *plan)
{
	int flags =
		CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | (plan->keep_net ? 0 : CLONE_NEWNET);
	uid_t uid = geteuid();
	gid_t gid = getegid();

	/* Without this call (before 5.12) submounts could not be made read-only. */
	if (mount_setattr(-1, "", 0, NULL, 0) == -1 && errno == ENOSYS)
		return 0;
	if (unshare(flags) == -1)
		return refusal(errno) ? 0 : -errno;
	int r = map_ids(uid, gid);
	if (r < 0)
		return r;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1)
		return refusal(errno) ? 0 : -errno;

	int sources[2] = {-1, -1};
	r = open_source(plan->bind_dir[0], &sources[0]);
	if (r == 0)
		r = open_source(plan->bind_dir[1], &sources[1]);
	if (r == 0)
		r = build_root(plan, sources);
	cleanup_closep(&sources[0]);
	cleanup_closep(&sources[1]);
	return r < 0 ? r : 1;
}
