/*
 * tests/unit/test_guest_beneath.c - what a path may mean, with and without openat2.
 * Runs in: ctest.
 * Input: none.
 * Owns: a temporary directory per test.
 */
#include "test.h"
#include "guest_fakes.h"
#include "guest_dirs.h"

/* Opens it as a read or write would. A descriptor or -errno. */
static int
open_path(const char *path, int flags)
{
	const char *rest;
	int root = beneath_root(path, &rest);
	int fd;

	if (root < 0)
		return root;
	fd = (flags & O_CREAT) != 0 ? beneath_create(root, rest, O_CLOEXEC, 0640)
				    : beneath_open(root, rest, flags | O_CLOEXEC, 0);
	(void)close(root);
	return fd;
}

static void
check(const char *path, int flags, int want)
{
	int fd = open_path(path, flags);

	if (fd >= 0)
		(void)close(fd);
	assert_int_equal(fd < 0 ? -fd : 0, want);
}

static const struct {
	const char *path;
	int err, err_old; /* of a kernel without openat2 */
} reads[] = {
	{"a", 0, 0},
	{"./a", 0, 0},
	{".//d//../a", 0, EXDEV},
	{"/workspace/a", 0, 0},
	{"/workspace//a", 0, 0},
	{"/workspace", 0, 0},
	{"//workspace/a", 0, 0},
	{"/./workspace/.//a", 0, 0},
	{"///.//./workspace", 0, 0},
	{"//tmp/.", 0, 0},
	{"//workspace/../secret", EXDEV, EXDEV},
	{"/./../workspace/a", EXDEV, EXDEV},
	{"/workspace/d/..", 0, EXDEV},
	{"/.workspace/a", EXDEV, EXDEV},
	{"//./", EXDEV, EXDEV},
	{"/workspace/", 0, 0},
	{"/tmp", 0, 0},
	{"a/b", ENOTDIR, ENOTDIR},
	{"missing", ENOENT, ENOENT},
	{"/workspacex/a", EXDEV, EXDEV},
	{"/work", EXDEV, EXDEV},
	{"/", EXDEV, EXDEV},
	{"/etc/passwd", EXDEV, EXDEV},
	{"/proc/self/environ", EXDEV, EXDEV},
	{"..", EXDEV, EXDEV},
	{"../secret", EXDEV, EXDEV},
	{"/workspace/../secret", EXDEV, EXDEV},
	{"d/../../secret", EXDEV, EXDEV},
	{"out", EXDEV, ELOOP}, /* links out of the place … */
	{"up/secret", EXDEV, ENOTDIR},
	{"magic", EXDEV, ELOOP},
	{"link", 0, ELOOP}, /* … and within it */
	{"d/self/self/a", 0, ENOTDIR},
	{"loop", ELOOP, ELOOP},
};

static void
make_things(void)
{
	const char *files[] = {"a", "d/a", "../secret"};

	assert_int_equal(mkdir("d", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int fd = __real_open(files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_int_equal(symlink("/etc/passwd", "out"), 0);
	assert_int_equal(symlink("..", "up"), 0);
	assert_int_equal(symlink("/proc/self/fd/0", "magic"), 0);
	assert_int_equal(symlink("d/a", "link"), 0);
	assert_int_equal(symlink("../d", "d/self"), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
}

static void
test_beneath_open(void **state)
{
	struct fake *f = new_box();

	(void)state;
	make_things();
	for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
		old_kernel = false;
		if (has_openat2())
			check(reads[i].path, O_RDONLY, reads[i].err);
		old_kernel = true;
		check(reads[i].path, O_RDONLY, reads[i].err_old);
	}
	old_kernel = false;
	done(f);
}

static void
check_create(void)
{
	struct fake *f = new_box();
	struct stat st;

	make_things();
	check("n/e/w", O_CREAT, 0);
	assert_int_equal(stat("n/e/w", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(stat("n/e", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	check("n/e/other", O_CREAT, 0);
	check("a/b", O_CREAT, ENOTDIR);
	check("gone/../../secret", O_CREAT, EXDEV);
	check("up/new/file", O_CREAT, old_kernel ? ENOTDIR : EXDEV);
	check("out", O_CREAT, old_kernel ? ELOOP : EXDEV);
	assert_int_equal(access("gone", F_OK), -1); /* nothing was made on the way */
	assert_int_equal(access("../new", F_OK), -1);
	done(f);
}

static void
test_beneath_create(void **state)
{
	(void)state;
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		check_create();
	}
	old_kernel = false;
}

static void
test_beneath_long_names(void **state)
{
	static char path[8192];
	struct fake *f = new_box();

	(void)state;
	memset(path, 'n', 300);
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		check(path, O_RDONLY, ENAMETOOLONG);
		check(path, O_CREAT, ENAMETOOLONG);
	}
	old_kernel = false;
	done(f);
}

static void
test_beneath_closes_what_it_opened(void **state)
{
	struct fake *f = new_box();
	size_t before = test_open_fds();

	(void)state;
	make_things();
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		for (size_t j = 0; j < ARRAY_LEN(reads); j++) {
			check(reads[j].path, O_RDONLY, i == 0 ? reads[j].err : reads[j].err_old);
			(void)open_path(reads[j].path, O_DIRECTORY | O_WRONLY);
		}
		check(i == 0 ? "x/y/z" : "x/y/w", O_CREAT, 0);
	}
	old_kernel = false;
	assert_int_equal(test_open_fds(), before);
	done(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beneath_open),
		cmocka_unit_test(test_beneath_create),
		cmocka_unit_test(test_beneath_long_names),
		cmocka_unit_test(test_beneath_closes_what_it_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
