/* supervisor/stunnel.c: the configuration, and a keeper that starts a stand-in again and ends it.
 */
#include "test.h"
#include "supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char dir[64], cert[96], key[96], error[512];
static struct serve serve;
static const struct listen_address backend = {.port = 4711, .loopback = true};

static void
write_file(const char *path, const char *text, mode_t mode)
{
	cleanup_close int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static int
setup(void **state)
{
	(void)state;
	assert_int_equal(str_copy(dir, sizeof(dir), "/tmp/bailey-stunnel.XXXXXX", 26), 0);
	assert_non_null(mkdtemp(dir));
	assert_true(snprintf(cert, sizeof(cert), "%s/cert.pem", dir) > 0);
	assert_true(snprintf(key, sizeof(key), "%s/key.pem", dir) > 0);
	write_file(cert, "c", 0644);
	write_file(key, "k", 0600);
	serve = (struct serve){.tls_cert = cert, .tls_key = key, .tls_listen = "0.0.0.0:8443"};
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(unlink(cert), 0);
	assert_int_equal(unlink(key), 0);
	return rmdir(dir);
}

static void
test_configuration(void **state)
{
	char text[4096], wanted[512];

	(void)state;
	cleanup_close int fd = stunnel_config(&serve, &backend, 61001, 61002, error, sizeof(error));
	assert_true(fd >= 0);
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	assert_true(snprintf(wanted, sizeof(wanted),
			     "\naccept = 0.0.0.0:8443\nconnect = 127.0.0.1:4711\ncert = %s\n"
			     "key = %s\n",
			     cert, key) > 0);
	assert_non_null(strstr(text, wanted));
	assert_non_null(strstr(text, "foreground = yes\n"));
	assert_non_null(strstr(text, "\nsetuid = 61001\nsetgid = 61002\n"));
	assert_non_null(strstr(text, "\nsslVersionMin = TLSv1.2\n"));
	cleanup_close int plain = stunnel_config(&serve, &backend, 0, 0, error, sizeof(error));
	n = pread(plain, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	assert_null(strstr(text, "setuid"));
}

static void
refused(int r, const char *words)
{
	error[0] = '\0';
	assert_int_equal(stunnel_config(&serve, &backend, 0, 0, error, sizeof(error)), r);
	if (strstr(error, words) == NULL)
		fail_msg("said: %s", error);
}

static void
test_bad_files_and_addresses(void **state)
{
	static const char *const listens[] = {"8443", "0.0.0.0", "0.0.0.0:0", "name:1"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(listens); i++) {
		serve.tls_listen = listens[i];
		refused(-EINVAL, "--tls-listen");
	}
	serve.tls_listen = "[::]:8443";
	assert_int_equal(chmod(key, 0604), 0);
	refused(-EPERM, "anyone can read");
	assert_int_equal(chmod(key, 0640), 0); /* a group of those who may */
	cleanup_close int fd = stunnel_config(&serve, &backend, 0, 0, error, sizeof(error));
	assert_true(fd >= 0);
	serve.tls_cert = "cert.pem";
	refused(-EINVAL, "absolute");
	serve.tls_cert = "/tmp/a\nsetuid = 0";
	refused(-EINVAL, "absolute");
	serve.tls_cert = "/tmp/bailey-none/cert.pem";
	refused(-ENOENT, "/tmp/bailey-none/cert.pem");
	serve.tls_cert = dir;
	refused(-EINVAL, "not a file");
}

/* A program in stunnel's place: tells its pid and what it got in a file beside it, and fails
 * unless it is to stay. */
static const char stand_in[] = "#!/bin/sh\n"
			       "echo \"$$ $1 $2 $(cat <&3)\" >>\"${0%/*}/said\"\n"
			       "[ -e \"${0%/*}/stay\" ] && exec sleep 30\n"
			       "exit 3\n";

static size_t
said(char *text, size_t cap)
{
	char path[96];
	size_t len = 0;

	assert_true(snprintf(path, sizeof(path), "%s/said", dir) > 0);
	return fd_read_file(AT_FDCWD, path, text, cap, &len) == 0 ? len : 0;
}

static size_t
lines(const char *text)
{
	size_t n = 0;

	for (; *text != '\0'; text++)
		n += *text == '\n';
	return n;
}

static void
wait_for_lines(size_t n, char *text, size_t cap)
{
	uint64_t until = clock_now_ms() + 30000;

	while (said(text, cap) == 0 || lines(text) < n) {
		assert_true(clock_now_ms() < until);
		(void)poll(NULL, 0, 10);
	}
}

static void
test_keeper(void **state)
{
	const struct identity id = {.switch_ids = false};
	struct listen_address nowhere;
	char program[96], stay[96], path[96], text[1024];
	uint64_t child = 0;
	int status;
	pid_t keeper;
	int told = -1;

	(void)state;
	assert_true(snprintf(program, sizeof(program), "%s/program", dir) > 0);
	assert_true(snprintf(stay, sizeof(stay), "%s/stay", dir) > 0);
	assert_true(snprintf(path, sizeof(path), "%s/said", dir) > 0);
	write_file(program, stand_in, 0700);
	assert_int_equal(listen_parse("127.0.0.1:1", &nowhere), 0);
	int config = memfd_create("config", MFD_CLOEXEC);
	assert_int_equal(fd_write_all(config, "text", 4), 0);
	/* 3 is what the supervisor reserved */
	int three = fcntl(3, F_GETFD) == -1 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
	assert_int_equal(stunnel_start(program, config, &id, &keeper, &told), 0);
	assert_int_equal(fcntl(config, F_GETFD), -1); /* taken */
	wait_for_lines(1, text, sizeof(text));
	assert_int_equal(stunnel_await(told, &nowhere, 30000), -ECHILD); /* so it has ended once */
	(void)poll(NULL, 0, 200);
	assert_true(said(text, sizeof(text)) > 0);
	assert_int_equal(lines(text), 1); /* whoever is told has time to end it all */
	wait_for_lines(2, text, sizeof(text));
	cleanup_closep(&told);
	write_file(stay, "", 0600);
	size_t before = lines(text);
	wait_for_lines(before + 1, text, sizeof(text));
	char *last = strrchr(text, '\n');
	*last = '\0';
	last = strrchr(text, '\n') + 1;
	assert_non_null(strstr(last, " -fd 3 text")); /* the configuration, from its start */
	last[strcspn(last, " ")] = '\0';
	assert_int_equal(parse_u64(last, 1, INT32_MAX, &child), 0);
	assert_int_equal(getpgid((pid_t)child), keeper);
	assert_int_equal(kill(keeper, SIGTERM), 0);
	assert_int_equal(waitpid(keeper, &status, 0), keeper);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(kill((pid_t)child, 0), -1); /* it was ended and waited for */
	cleanup_closep(&three);
	assert_int_equal(unlink(program), 0);
	assert_int_equal(unlink(stay), 0);
	assert_int_equal(unlink(path), 0);
}

/* Told to listen only when somebody does; else not waited for for ever. */
static void
test_await(void **state)
{
	struct listen_address at, free_one;
	int told[2];

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	cleanup_close int fd = listen_http("127.0.0.1:0", &at, error, sizeof(error));
	assert_true(fd >= 0);
	char text[32];
	assert_true(snprintf(text, sizeof(text), "127.0.0.1:%u", at.port) > 0);
	assert_int_equal(listen_parse(text, &free_one), 0);
	assert_int_equal(listen_probe(&free_one), -EADDRINUSE);
	assert_int_equal(stunnel_await(told[0], &free_one, 30000), 0);
	cleanup_closep(&fd);
	assert_int_equal(listen_probe(&free_one), 0);
	assert_int_equal(listen_probe(&free_one), 0); /* it left nothing there */
	assert_int_equal(stunnel_await(told[0], &free_one, 30), -ETIMEDOUT);
	assert_int_equal(close(told[1]), 0);
	assert_int_equal(stunnel_await(told[0], &free_one, 30000), -ECHILD);
	assert_int_equal(close(told[0]), 0);
}

static void
test_find(void **state)
{
	char program[64];

	(void)state;
	int r = stunnel_find(program, sizeof(program), error, sizeof(error));
	if (r == 0)
		assert_int_equal(access(program, X_OK), 0);
	else
		assert_non_null(strstr(error, "package stunnel4"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_configuration),        T(test_bad_files_and_addresses), T(test_keeper),
		cmocka_unit_test(test_await), cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
