/* cli/token.c: a token is printed once, its hash lands in a file nobody else can read. */
#include "test.h"

#include "cli.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define LONG_NAME "n1234567890123456789012345678901234567890123456789012345678901234"

static char dir[] = "/tmp/bailey-token-XXXXXX", path[64], out_path[64];

static int
setup(void **state)
{
	(void)state;
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/tokens", dir);
	(void)snprintf(out_path, sizeof(out_path), "%s/out", dir);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(out_path);
	return rmdir(dir);
}

static size_t
read_file(const char *name, char *ret, size_t cap)
{
	size_t n;

	assert_int_equal(fd_read_file(AT_FDCWD, name, ret, cap, &n), 0);
	ret[n] = '\0';
	return n;
}

/* Runs the command; what it printed. */
static int
run(const char *name, const char *file, char *ret_out, size_t cap)
{
	const char *const args[] = {"token", "add", name, "--tokens", file, NULL};
	int saved = dup(STDOUT_FILENO), code;
	int out = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(saved >= 0 && out >= 0);
	(void)fflush(stdout);
	assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	code = cmd_token(5, (char **)(uintptr_t)args);
	(void)fflush(stdout);
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	assert_int_equal(close(saved) | close(out), 0);
	if (ret_out != NULL)
		(void)read_file(out_path, ret_out, cap);
	return code;
}

static void
test_adds(void **state)
{
	char first[200], second[200], text[1000], want[300], hex[65];
	uint8_t hash[32];
	struct stat st;

	(void)state;
	assert_int_equal(run("ann", path, first, sizeof(first)), CLI_OK);
	assert_int_equal(run("bob@x.org", path, second, sizeof(second)), CLI_OK);
	assert_int_equal(strlen(first), 7 + 64 + 1);
	assert_memory_equal(first, "bailey_", 7);
	assert_string_not_equal(first, second);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	(void)read_file(path, text, sizeof(text));
	sha256(first, strlen(first) - 1, hash); /* without the end of the line */
	hex_encode(hex, hash, sizeof(hash));
	(void)snprintf(want, sizeof(want), "ann %s\n", hex);
	assert_memory_equal(text, want, strlen(want));
	assert_memory_equal(text + strlen(want), "bob@x.org ", 10);
	assert_null(strstr(text, "bailey_"));
	assert_int_equal(strlen(text), strlen(want) + 10 + 64 + 1);
}

static void
test_a_last_line_without_end(void **state)
{
	char text[400];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_int_equal(write(fd, "# mine", 6), 6);
	assert_int_equal(close(fd), 0);
	assert_int_equal(run("ann", path, NULL, 0), CLI_OK);
	(void)read_file(path, text, sizeof(text));
	assert_memory_equal(text, "# mine\nann ", 11);
}

static void
test_refuses_what_others_can_use(void **state)
{
	char text[400], target[80];

	(void)state;
	assert_int_equal(run("ann", path, NULL, 0), CLI_OK);
	assert_int_equal(chmod(path, 0644), 0);
	size_t before = read_file(path, text, sizeof(text));
	assert_int_equal(run("bob", path, text, sizeof(text)), CLI_FAILED);
	assert_string_equal(text, "");
	assert_int_equal(read_file(path, text, sizeof(text)), before);
	(void)snprintf(target, sizeof(target), "%s/target", dir);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(run("bob", path, NULL, 0), CLI_FAILED);
	assert_int_equal(unlink(target), 0);
	assert_int_equal(run("bob", dir, NULL, 0), CLI_FAILED);
	assert_int_equal(run("bob", "/nonexistent/tokens", NULL, 0), CLI_FAILED);
}

static void
test_usage(void **state)
{
	static const char *const names[] = {"", ".x", "a b", "a/b", "a\n", LONG_NAME};
	const char *const none[] = {"token", NULL};
	const char *const other[] = {"token", "list", "ann", NULL};
	const char *const option[] = {"token", "add", "ann", "--file", "x", NULL};

	(void)state;
	assert_int_equal(cmd_token(1, (char **)(uintptr_t)none), CLI_USAGE);
	assert_int_equal(cmd_token(3, (char **)(uintptr_t)other), CLI_USAGE);
	assert_int_equal(cmd_token(5, (char **)(uintptr_t)option), CLI_USAGE);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(run(names[i], path, NULL, 0), CLI_USAGE);
	assert_int_equal(access(path, F_OK), -1);
}

static void
add_by_default(void *arg)
{
	const char *const args[] = {"token", "add", "ann", NULL};

	(void)arg;
	if (geteuid() == 0 && setresuid(61500, 61500, 61500) == -1)
		_exit(99);
	_exit(cmd_token(3, (char **)(uintptr_t)args));
}

static void
test_the_default_file(void **state)
{
	char config[100], file[200], below[120];
	struct stat st;

	(void)state;
	(void)snprintf(config, sizeof(config), "%s/config", dir);
	(void)snprintf(below, sizeof(below), "%s/bailey", config);
	(void)snprintf(file, sizeof(file), "%s/tokens", below);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(setenv("XDG_CONFIG_HOME", config, 1), 0);
	assert_int_equal(test_in_child(add_by_default, NULL), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(below, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(unlink(file) | rmdir(below) | rmdir(config), 0);
	assert_int_equal(setenv("XDG_CONFIG_HOME", "relative", 1), 0);
	assert_int_equal(unsetenv("HOME"), 0);
	int status = test_in_child(add_by_default, NULL);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CLI_FAILED);
}

/* Room for half a line only, as on a full disk. */
static void
add_without_room(void *arg)
{
	const struct rlimit limit = {*(const rlim_t *)arg, *(const rlim_t *)arg};
	const char *const args[] = {"token", "add", "bob", "--tokens", path, NULL};

	if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) == -1)
		_exit(99);
	_exit(cmd_token(5, (char **)(uintptr_t)args));
}

/* Half a line would keep every server from starting. */
static void
test_a_line_is_whole_or_not_there(void **state)
{
	char before[1000], after[1000];

	(void)state;
	assert_int_equal(run("ann", path, NULL, 0), CLI_OK);
	rlim_t size = read_file(path, before, sizeof(before));
	for (rlim_t room = 0; room < 69; room += 17) {
		rlim_t limit = size + room;
		int status = test_in_child(add_without_room, &limit);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CLI_FAILED);
		assert_int_equal(read_file(path, after, sizeof(after)), size);
		assert_string_equal(after, before);
	}
	assert_int_equal(run("bob", path, NULL, 0), CLI_OK);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_adds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_last_line_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_line_is_whole_or_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refuses_what_others_can_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_usage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_default_file, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
