/*
 * tests/unit/test_base_exe.c - programs and data are found beside the executable, nowhere else.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <limits.h>
#include <sys/stat.h>

#include "base.h"

/* A tree of its own: the test program is copied into it and asks from there. */
static char top[] = "/tmp/bailey-exe-XXXXXX";

static void
path_in_top(char *out, const char *relative)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", top, relative);

	assert_true(n > 0 && n < PATH_MAX);
}

static void
make_dir(const char *relative)
{
	char path[PATH_MAX];

	path_in_top(path, relative);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void
make_file(const char *relative, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	path_in_top(path, relative);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static void
copy_self(const char *relative)
{
	static char bytes[65536];
	char path[PATH_MAX];
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int out;
	ssize_t n;

	path_in_top(path, relative);
	out = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		assert_int_equal(fd_write_all(out, bytes, (size_t)n), 0);
	assert_int_equal(close(in), 0);
	assert_int_equal(close(out), 0);
}

/* What the copy answers to "find NAME" or "share". */
static void
ask(const char *verb, const char *name, char *out, size_t cap)
{
	char program[PATH_MAX];
	int fds[2];
	ssize_t n;
	int status;
	pid_t pid;

	path_in_top(program, "bin/program");
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)execl(program, program, verb, name, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	(void)close(fds[1]);
	n = read(fds[0], out, cap - 1);
	assert_true(n >= 0);
	out[n] = '\0';
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
expect(const char *verb, const char *name, const char *relative)
{
	char answer[PATH_MAX + 8];
	char wanted[PATH_MAX];

	path_in_top(wanted, relative);
	ask(verb, name, answer, sizeof(answer));
	/* ret may hold ".." for programs: compare what it leads to */
	if (answer[0] == '/') {
		char real[PATH_MAX];

		assert_non_null(realpath(answer, real));
		assert_string_equal(real, wanted);
	} else {
		assert_string_equal(answer, relative);
	}
}

static void
test_exe_find_beside_then_libexec(void **state)
{
	(void)state;
	expect("find", "absent", "-2");
	make_file("libexec/bailey/worker", 0755);
	expect("find", "worker", "libexec/bailey/worker");
	make_file("bin/worker", 0755);
	expect("find", "worker", "bin/worker");
	make_file("bin/plain", 0644);
	if (geteuid() != 0)
		expect("find", "plain", "-2"); /* not executable */
}

static void
test_exe_share_dir_installed_before_build_tree(void **state)
{
	(void)state;
	expect("share", "", "-2");
	make_file("share/box/init", 0755);
	expect("share", "", "share");
	make_file("share/bailey/box/init", 0755);
	expect("share", "", "share/bailey");
}

static int
make_tree(void **state)
{
	static const char *const dirs[] = {"bin",       "libexec",      "libexec/bailey",  "share",
					   "share/box", "share/bailey", "share/bailey/box"};

	(void)state;
	if (mkdtemp(top) == NULL)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		make_dir(dirs[i]);
	copy_self("bin/program");
	return 0;
}

static int
remove_tree(void **state)
{
	static const char *const names[] = {"share/bailey/box/init",
					    "share/bailey/box",
					    "share/bailey",
					    "share/box/init",
					    "share/box",
					    "share",
					    "bin/plain",
					    "bin/worker",
					    "bin/program",
					    "bin",
					    "libexec/bailey/worker",
					    "libexec/bailey",
					    "libexec",
					    "."};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i + 1 < ARRAY_LEN(names); i++) {
		path_in_top(path, names[i]);
		(void)remove(path);
	}
	return rmdir(top);
}

/* The copy's own part. */
static int
answer(const char *verb, const char *name)
{
	char found[PATH_MAX];
	int r = strcmp(verb, "find") == 0 ? exe_find(name, found, sizeof(found))
					  : exe_share_dir(found, sizeof(found));

	if (r < 0)
		(void)printf("%d", r);
	else
		(void)printf("%s", found);
	return 0;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exe_find_beside_then_libexec),
		cmocka_unit_test(test_exe_share_dir_installed_before_build_tree),
	};

	if (argc == 3)
		return answer(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
