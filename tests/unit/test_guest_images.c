/*
 * tests/unit/test_guest_images.c - which files of a directory are told as images.
 * Runs in: ctest.
 * Input: none.
 * Owns: a directory below /tmp.
 */
#include "test.h"
#include "guest_fakes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64];
static const struct timespec since = {.tv_sec = 1000000000, .tv_nsec = 500};

static void
make(const char *name, time_t sec, long nsec)
{
	const struct timespec times[2] = {{sec, nsec}, {sec, nsec}};
	char path[512];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, times), 0);
	(void)close(fd);
}

/* What is told, NULs as '|' and without the directory. */
static const char *
told(const char *path)
{
	static char text[16384];
	struct output o;
	size_t n = 0;
	size_t at = 0;

	output_init(&o, 1, STREAM_VALUE);
	images_put(&o, path, &since);
	while (at < buf_len(&o.pending)) {
		const char *record = (const char *)buf_data(&o.pending) + at;

		assert_int_equal(record[0], 'i');
		assert_memory_equal(record + 1, path, strlen(path));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s|", record + 2 + strlen(path));
		at += strlen(record) + 1;
	}
	text[n] = '\0';
	output_done(&o);
	return text;
}

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/bailey-images-XXXXXX");
	return mkdtemp(dir) == NULL ? -1 : 0;
}

static int
teardown(void **state)
{
	char command[512];
	pid_t pid = fork();
	int status = 1;

	(void)state;
	(void)snprintf(command, sizeof(command), "%s", dir);
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", command, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static void
test_images_by_name_and_time(void **state)
{
	(void)state;
	make("b.png", since.tv_sec + 1, 0);
	make("a.JPG", since.tv_sec, since.tv_nsec);
	make("c d.webp", since.tv_sec, since.tv_nsec + 1);
	make("e.jpeg", since.tv_sec + 9, 9);
	make("f.gif", since.tv_sec + 9, 9);
	make("old.png", since.tv_sec, since.tv_nsec - 1);
	make("older.png", since.tv_sec - 1, 999);
	make("text.txt", since.tv_sec + 1, 0);
	make(".png", since.tv_sec + 1, 0);
	make("png", since.tv_sec + 1, 0);
	assert_string_equal(told(dir), "a.JPG|b.png|c d.webp|e.jpeg|f.gif|");
}

static void
test_images_what_is_no_file(void **state)
{
	char path[128];
	char link[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/dir.png", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/fifo.png", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)snprintf(path, sizeof(path), "%s/link.png", dir);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_string_equal(told(dir), "");
	/* Nor in the directory's place. */
	make("x.png", since.tv_sec + 1, 0);
	(void)snprintf(path, sizeof(path), "%s/fifo.png", dir);
	assert_string_equal(told(path), "");
	(void)snprintf(link, sizeof(link), "%s/elsewhere", dir);
	assert_int_equal(symlink(dir, link), 0);
	assert_string_equal(told(link), "");
	(void)snprintf(path, sizeof(path), "%s/none", dir);
	assert_string_equal(told(path), "");
	assert_string_equal(told(dir), "x.png|");
}

static void
test_images_not_more_than_anyone_looks_at(void **state)
{
	char name[16];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		(void)snprintf(name, sizeof(name), "%d.png", i);
		make(name, since.tv_sec + 1, 0);
	}
	for (const char *at = told(dir); *at != '\0'; at++)
		n += *at == '|' ? 1 : 0;
	assert_int_equal(n, 32);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_images_by_name_and_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_images_what_is_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_images_not_more_than_anyone_looks_at, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
