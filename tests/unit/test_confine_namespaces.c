/*
 * tests/unit/test_confine_namespaces.c - the plain user's layer: an empty read-only root with
 * the planned directories, no network, no way back.
 * Runs in: ctest; where the kernel refuses user namespaces the cases are skipped.
 * Input: none.
 * Owns: a directory below /tmp.
 */
#include "test.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "confine_parts.h"

#define REFUSED 77
#define ENGINE_SOCKET "engine.sock"

static char place[64];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener = -1;

static int
set_up(void **state)
{
	(void)state;
	(void)snprintf(place, sizeof(place), "/tmp/bailey-test-XXXXXX");
	if (mkdtemp(place) == NULL || chmod(place, 0755) != 0)
		return -1;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", place, ENGINE_SOCKET);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener == -1 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -1;
	return chmod(address.sun_path, 0666) == 0 ? listen(listener, 4) : -1;
}

static int
tear_down(void **state)
{
	(void)state;
	(void)close(listener);
	(void)unlink(address.sun_path);
	return rmdir(place);
}

/* As a plain user, whoever runs the tests; REFUSED ends the case. */
static void
enter(const struct confine_plan *plan)
{
	if (geteuid() == 0 &&
	    (setresgid(64999, 64999, 64999) != 0 || setresuid(64999, 64999, 64999) != 0))
		_exit(90);
	int r = confine_namespaces(plan);
	if (r == 0)
		_exit(REFUSED);
	if (r < 0)
		_exit(91);
}

static void
run_case(void (*fn)(void *arg))
{
	int status = test_in_child(fn, NULL);

	if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
		test_skip("namespaces are refused here");
	assert_int_equal(status, 0);
}

static size_t
entries(const char *path)
{
	size_t n = 0;
	DIR *dir = opendir(path);

	if (dir == NULL)
		_exit(92);
	for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	(void)closedir(dir);
	return n;
}

static void
empty_root_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND, .namespaces = true};
	uid_t uid = geteuid() == 0 ? 64999 : geteuid();

	(void)arg;
	enter(&plan);
	if (geteuid() != uid)
		_exit(1);
	if (entries("/") != 0 || entries("..") != 0)
		_exit(2);
	if (mkdir("/x", 0700) != -1 || errno != EROFS)
		_exit(3);
	/* No interface but a loopback that is down. */
	struct if_nameindex *names = if_nameindex();
	if (names == NULL || names[0].if_index == 0 || names[1].if_index != 0 ||
	    strcmp(names[0].if_name, "lo") != 0)
		_exit(4);
	if_freenameindex(names);
	/* Full of rights in the new namespace until they are dropped; then for good. */
	if (confine_caps_drop(false) != 0)
		_exit(5);
	if (mount("tmpfs", "/", "tmpfs", 0, NULL) != -1 || errno != EPERM)
		_exit(6);
	_exit(0);
}

static void
test_namespaces_empty_root(void **state)
{
	(void)state;
	run_case(empty_root_in_child);
}

static void
engine_dir_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_BROKER, .namespaces = true};
	char missing[sizeof(plan.bind_dir[1])] = "/nowhere/at/all";

	(void)arg;
	memcpy(plan.bind_dir[0], place, sizeof(place)); /* below /tmp, which is covered meanwhile */
	memcpy(plan.bind_dir[1], missing, sizeof(missing));
	enter(&plan);
	if (entries("/") != 1 || entries("/tmp") != 1 || entries(place) != 1)
		_exit(1);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s == -1 || connect(s, (struct sockaddr *)&address, sizeof(address)) != 0)
		_exit(2);
	char up[128];
	(void)snprintf(up, sizeof(up), "%s/../../etc", place);
	if (access(up, F_OK) != -1 || errno != ENOENT)
		_exit(3);
	_exit(0);
}

static void
test_namespaces_engine_dir(void **state)
{
	(void)state;
	run_case(engine_dir_in_child);
}

static bool
readable(const char *path)
{
	char text[256];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok = fd != -1 && read(fd, text, sizeof(text)) > 0;

	if (fd != -1)
		(void)close(fd);
	return ok;
}

/* The reaper's: /proc with all that is mounted below it, and the cgroup tree. */
static void
reaper_dirs_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_REAPER,
				    .namespaces = true,
				    .bind_readonly = true,
				    .bind_dir = {"/proc", "/sys/fs/cgroup"}};
	char path[64];

	(void)arg;
	enter(&plan);
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", getppid());
	if (entries("/") != 2 || entries("/sys") != 1 || !readable(path) ||
	    !readable("/proc/self/cgroup"))
		_exit(1);
	if (entries("/sys/fs/cgroup") == 0)
		_exit(2);
	if (open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC) != -1 || errno != EROFS)
		_exit(3);
	int pidfd = (int)syscall(SYS_pidfd_open, getppid(), 0);
	if (pidfd == -1)
		_exit(4);
	_exit(0);
}

static void
test_namespaces_reaper_dirs(void **state)
{
	(void)state;
	run_case(reaper_dirs_in_child);
}

static void
keep_net_in_child(void *arg)
{
	struct confine_plan plan = {
		.table = TABLE_BROKER_TCP, .namespaces = true, .keep_net = true};
	struct stat before, after;

	(void)arg;
	if (stat("/proc/self/ns/net", &before) != 0)
		_exit(1);
	(void)snprintf(plan.bind_dir[0], sizeof(plan.bind_dir[0]), "/proc");
	enter(&plan);
	_exit(stat("/proc/self/ns/net", &after) == 0 && after.st_ino == before.st_ino ? 0 : 2);
}

static void
test_namespaces_keep_net(void **state)
{
	(void)state;
	run_case(keep_net_in_child);
}

/* Through the front door: the whole lock, filter included, and its self-test. */
static void
whole_lock_in_child(void *arg)
{
	struct confine_plan plan = {.table = TABLE_FRONTEND, .namespaces = true};
	uint32_t layers = 0;

	(void)arg;
	if (geteuid() == 0 &&
	    (setresgid(64999, 64999, 64999) != 0 || setresuid(64999, 64999, 64999) != 0))
		_exit(90);
	plan.parent = getppid();
	if (confine_start(&plan, 2) != 0 || confine_lock(&plan, &layers) != 0)
		_exit(1);
	if ((layers & LAYER_NAMESPACES) == 0)
		_exit(REFUSED);
	_exit(confine_selftest(&plan, layers) == 0 ? 0 : 2);
}

static void
test_namespaces_whole_lock(void **state)
{
	(void)state;
	run_case(whole_lock_in_child);
}

/* As in a container or under a security module: one call is refused. */
static void
refuse(unsigned nr)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(90);
}

static void
refused_in_child(void *arg)
{
	const unsigned *nr = arg;
	struct confine_plan plan = {.table = TABLE_FRONTEND, .namespaces = true};
	uint32_t layers = 0;

	if (geteuid() == 0 &&
	    (setresgid(64999, 64999, 64999) != 0 || setresuid(64999, 64999, 64999) != 0))
		_exit(91);
	refuse(*nr);
	if (confine_lock(&plan, &layers) != 0 || confine_selftest(&plan, layers) != 0)
		_exit(1);
	_exit((layers & LAYER_NAMESPACES) == 0 ? 0 : 2);
}

static void
test_namespaces_refused(void **state)
{
	static unsigned calls[] = {SYS_unshare, SYS_mount};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		assert_int_equal(test_in_child(refused_in_child, &calls[i]), 0);
}

/* Landlock refused from outside is Landlock absent. */
static void
no_landlock_in_child(void *arg)
{
	(void)arg;
	refuse(SYS_landlock_create_ruleset);
	_exit(confine_no_files() == 0 ? 0 : 1);
}

static void
test_namespaces_no_landlock(void **state)
{
	(void)state;
	assert_int_equal(test_in_child(no_landlock_in_child, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_namespaces_empty_root),
		cmocka_unit_test(test_namespaces_engine_dir),
		cmocka_unit_test(test_namespaces_reaper_dirs),
		cmocka_unit_test(test_namespaces_keep_net),
		cmocka_unit_test(test_namespaces_whole_lock),
		cmocka_unit_test(test_namespaces_refused),
		cmocka_unit_test(test_namespaces_no_landlock),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
