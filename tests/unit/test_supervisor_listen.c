/* supervisor/listen.c: where a socket may stand, what it replaces, and which addresses are taken.
 */
#include "test.h"
#include "supervisor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/un.h>

static char dir[64], path[128], error[1024];

static int
setup(void **state)
{
	(void)state;
	assert_int_equal(str_copy(dir, sizeof(dir), "/tmp/bailey-listen.XXXXXX", 25), 0);
	assert_non_null(mkdtemp(dir));
	assert_true(snprintf(path, sizeof(path), "%s/mcp.sock", dir) > 0);
	error[0] = '\0';
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

static bool
answers(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(str_copy(at.sun_path, sizeof(at.sun_path), path, strlen(path)), 0);
	return connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
}

static void
refused(const char *at, int r, const char *words)
{
	error[0] = '\0';
	assert_int_equal(listen_unix(at, error, sizeof(error)), r);
	assert_non_null(strstr(error, words));
	assert_null(strchr(error, '\n'));
}

static void
test_unix_is_ours_alone(void **state)
{
	struct stat st;
	mode_t before = umask(0);

	(void)state;
	cleanup_close int fd = listen_unix(path, error, sizeof(error));
	assert_true(fd >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(umask(before), 0); /* as it was found */
	assert_true(answers());
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static void
test_unix_socket_of_a_dead_tree_is_replaced(void **state)
{
	int fd = listen_unix(path, error, sizeof(error));

	(void)state;
	assert_true(fd >= 0);
	refused(path, -EADDRINUSE, "a running program serves");
	assert_true(answers());
	assert_int_equal(close(fd), 0);
	assert_false(answers());
	fd = listen_unix(path, error, sizeof(error));
	assert_true(fd >= 0);
	assert_true(answers());
	assert_int_equal(close(fd), 0);
}

static void
test_unix_never_replaces_another_thing(void **state)
{
	(void)state;
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	refused(path, -EEXIST, "is no socket");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/tmp/elsewhere", path), 0);
	refused(path, -EEXIST, "is no socket");
}

static void
test_unix_directory_that_others_can_write(void **state)
{
	(void)state;
	assert_int_equal(chmod(dir, 0777), 0);
	refused(path, -EPERM, "other users can write");
	assert_int_equal(chmod(dir, 0770), 0);
	refused(path, -EPERM, "other users can write");
	/* sticky: they cannot take ours away */
	assert_int_equal(chmod(dir, 01777), 0);
	cleanup_close int fd = listen_unix(path, error, sizeof(error));
	assert_true(fd >= 0);
}

static void
test_unix_directory_of_another(void **state)
{
	(void)state;
	if (geteuid() != 0)
		test_skip("needs root");
	assert_int_equal(chown(dir, 61500, 61500), 0);
	refused(path, -EPERM, "belongs to another user (61500)");
	assert_int_equal(chown(dir, 0, 0), 0);
	int fd = listen_unix(path, error, sizeof(error));
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(chown(path, 61500, 61500), 0);
	refused(path, -EPERM, "belongs to another user");
}

static void
test_unix_paths_that_are_none(void **state)
{
	char longest[PATH_MAX];

	(void)state;
	refused("mcp.sock", -EINVAL, "absolute path");
	refused("/", -EINVAL, "absolute path");
	refused("/tmp/", -EINVAL, "absolute path");
	refused("/tmp/bailey-none/x", -ENOENT, "/tmp/bailey-none");
	assert_true(snprintf(longest, sizeof(longest), "%s/%0120d", dir, 1) > 0);
	refused(longest, -ENAMETOOLONG, "at most 107 bytes");
}

/* One that starts at the same time is between its look and its bind. */
static void
test_unix_two_at_once(void **state)
{
	(void)state;
	cleanup_close int held = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
	refused(path, -EWOULDBLOCK, "another program is starting");
}

static const struct {
	const char *text;
	bool ok, loopback;
	uint32_t port;
} addresses[] = {
	{"127.0.0.1:8900", true, true, 8900},
	{"127.1.2.3:0", true, true, 0},
	{"localhost:1", true, true, 1},
	{"[::1]:65535", true, true, 65535},
	{"0.0.0.0:80", true, false, 80},
	{"192.0.2.1:80", true, false, 80},
	{"[::]:80", true, false, 80},
	{"[2001:db8::1]:80", true, false, 80},
	{"8900", false, false, 0},
	{":8900", false, false, 0},
	{"127.0.0.1", false, false, 0},
	{"127.0.0.1:", false, false, 0},
	{"127.0.0.1:65536", false, false, 0},
	{"127.0.0.1:-1", false, false, 0},
	{"127.1:80", false, false, 0},
	{"example.org:80", false, false, 0},
	{"::1:80", false, false, 0},
	{"[::1:80", false, false, 0},
	{"", false, false, 0},
	{"[]:1", false, false, 0},
};

static void
test_parse(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		struct listen_address a;
		assert_int_equal(listen_parse(addresses[i].text, &a),
				 addresses[i].ok ? 0 : -EINVAL);
		if (!addresses[i].ok)
			continue;
		assert_int_equal(a.loopback, addresses[i].loopback);
		assert_int_equal(a.port, addresses[i].port);
	}
}

static void
test_http(void **state)
{
	struct listen_address a, b;
	int value = 0;
	socklen_t len = sizeof(value);

	(void)state;
	cleanup_close int fd = listen_http("127.0.0.1:0", &a, error, sizeof(error));
	assert_true(fd >= 0);
	assert_int_not_equal(a.port, 0);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
	assert_int_not_equal(value, 0);
	assert_true(snprintf(path, sizeof(path), "127.0.0.1:%u", a.port) > 0);
	assert_int_equal(listen_http(path, &b, error, sizeof(error)), -EADDRINUSE);
	assert_non_null(strstr(error, "--http"));
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		if (addresses[i].loopback)
			continue;
		assert_int_equal(listen_http(addresses[i].text, &b, error, sizeof(error)), -EINVAL);
		assert_non_null(strstr(error, addresses[i].ok ? "--tls" : "ADDRESS:PORT"));
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_unix_is_ours_alone),
		T(test_unix_socket_of_a_dead_tree_is_replaced),
		T(test_unix_never_replaces_another_thing),
		T(test_unix_directory_that_others_can_write),
		T(test_unix_directory_of_another),
		T(test_unix_paths_that_are_none),
		T(test_unix_two_at_once),
		cmocka_unit_test(test_parse),
		T(test_http),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
