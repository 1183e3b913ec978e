/*
 * tests/unit/test_guest_files.c - reads, writes and lists in two directories that stand for
 * /workspace and /tmp, with and without openat2.
 * Runs in: ctest.
 * Input: none.
 * Owns: a temporary directory per test.
 */
#include "test.h"
#include "guest_fakes.h"
#include "guest_dirs.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static uint32_t numbers;
static struct buf got; /* of the last read or list */

static void
begin(struct fake *f, const struct guest_spec *spec)
{
	struct buf b;

	buf_init(&b, GUEST_SPEC_MAX);
	assert_int_equal(spec_encode(spec, &b), 0);
	assert_int_equal(guest_on_h_run(&f->g, ++numbers, buf_data(&b), buf_len(&b)), 0);
	buf_done(&b);
}

/* Gives credit and room until the run is over. */
static struct guest_g_exit
finish(struct fake *f)
{
	struct run *run = run_find(&f->g, numbers);
	struct guest_g_exit x = {0};
	bool over = false;

	assert_non_null(run);
	buf_done(&got);
	buf_init(&got, (size_t)64 << 20);
	for (int i = 0; i < 100000 && !over; i++) {
		struct guest_h_credit more = {.limit = run->out[0].framed + GUEST_WINDOW};
		struct guest_frame frame;

		if (i % 3 == 0)
			assert_int_equal(guest_on_h_credit(&f->g, numbers, STREAM_STDOUT, &more),
					 0);
		run_tick_all(&f->g, clock_now_ms());
		while (fake_next_frame(&f->g.stream.kept, &frame)) {
			assert_int_equal(frame.run, numbers);
			over = frame.row->type == GUEST_g_exit;
			if (over)
				assert_int_equal(guest_get_g_exit(frame.payload, frame.len, &x), 0);
			else
				assert_int_equal(buf_append(&got, frame.payload, frame.len), 0);
		}
		f->g.stream.kept.off = f->g.stream.kept.len = 0;
	}
	assert_true(over);
	while (run->number == numbers)
		run_tick_all(&f->g, clock_now_ms());
	assert_null(run->files);
	return x;
}

static struct guest_g_exit
run_file(struct fake *f, uint32_t kind, const char *path, uint64_t offset, uint64_t length)
{
	const struct guest_spec spec = {
		.kind = kind,
		.code = {(const uint8_t *)path, strlen(path)},
		.offset = offset,
		.length = length,
	};

	begin(f, &spec);
	return finish(f);
}

static struct guest_g_exit
write_file(struct fake *f, const char *path, const char *text, uint32_t flags, uint32_t mode)
{
	const struct guest_spec spec = {
		.kind = RUN_FILE_WRITE,
		.flags = SPEC_STDIN | flags,
		.code = {(const uint8_t *)path, strlen(path)},
		.mode = mode,
	};

	begin(f, &spec);
	if (*text != '\0')
		assert_int_equal(
			guest_on_h_stdin(&f->g, numbers, (const uint8_t *)text, strlen(text)), 0);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, numbers), 0);
	return finish(f);
}

static void
put_file(const char *path, const void *p, size_t n)
{
	int fd = __real_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, p, n), 0);
	(void)close(fd);
}

static void
assert_file(const char *path, const char *want)
{
	char text[256];
	size_t n = 0;

	assert_int_equal(fd_read_file(AT_FDCWD, path, text, sizeof(text), &n), 0);
	assert_string_equal(text, want);
}

static void
assert_got(const char *want)
{
	assert_int_equal(buf_len(&got), strlen(want));
	if (*want != '\0')
		assert_memory_equal(buf_data(&got), want, strlen(want));
}

static void
check_read(void)
{
	struct fake *f = new_box();
	struct guest_g_exit x;

	put_file("a", "0123456789", 10);
	put_file("../tmp/t", "tmp", 3);
	x = run_file(f, RUN_FILE_READ, "a", 0, 0);
	assert_int_equal(x.how, EXIT_EXITED);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.size, 10);
	assert_int_equal(x.stdout_bytes, 10);
	assert_got("0123456789");
	x = run_file(f, RUN_FILE_READ, "/workspace/a", 3, 4);
	assert_int_equal(x.size, 10);
	assert_got("3456");
	(void)run_file(f, RUN_FILE_READ, "a", 8, 100);
	assert_got("89");
	x = run_file(f, RUN_FILE_READ, "a", 10, 0);
	assert_int_equal(x.exit_code, 0);
	assert_got("");
	(void)run_file(f, RUN_FILE_READ, "a", INT64_MAX, INT64_MAX);
	assert_got("");
	(void)run_file(f, RUN_FILE_READ, "/tmp/t", 0, 0);
	assert_got("tmp");
	(void)run_file(f, RUN_FILE_READ, ".//a", 0, 0);
	assert_got("0123456789");
	put_file("empty", "", 0);
	assert_int_equal(run_file(f, RUN_FILE_READ, "empty", 0, 0).exit_code, 0);
	assert_got("");
	done(f);
}

/* More than the head of a program's output, with little credit at a time. */
static void
check_read_large(void)
{
	const size_t size = 3 * GUEST_HEAD_MAX + 777;
	struct fake *f = new_box();
	uint8_t *data = xcalloc(size, 1);
	struct guest_g_exit x;

	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	put_file("big", data, size);
	x = run_file(f, RUN_FILE_READ, "big", 0, 0);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.stdout_bytes, size);
	assert_int_equal(x.stdout_dropped, 0);
	assert_int_equal(buf_len(&got), size);
	assert_memory_equal(buf_data(&got), data, size);
	free(data);
	done(f);
}

static void
test_files_read(void **state)
{
	(void)state;
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		check_read();
		check_read_large();
	}
	old_kernel = false;
}

/* Without credit nothing is read ahead, and nothing is polled for. */
static void
test_files_read_waits_for_credit(void **state)
{
	struct fake *f = new_box();
	const struct guest_spec spec = {.kind = RUN_FILE_READ, .code = {(const uint8_t *)"a", 1}};
	uint8_t *data = xcalloc(2 * GUEST_WINDOW, 1);
	struct run *run;

	(void)state;
	put_file("a", data, 2 * GUEST_WINDOW);
	begin(f, &spec);
	run = run_find(&f->g, numbers);
	for (int i = 0; i < 20; i++)
		run_tick_all(&f->g, clock_now_ms());
	assert_int_equal(run->state, STATE_GOING);
	assert_int_equal(run->out[0].framed, GUEST_WINDOW);
	assert_true(run->out[0].total < GUEST_WINDOW + 65536 + 1);
	assert_int_equal(run_next_ms(&f->g), 0);
	assert_int_equal(finish(f).exit_code, 0);
	assert_int_equal(buf_len(&got), 2 * GUEST_WINDOW);
	free(data);
	done(f);
}

static void
check_refused(void)
{
	static const struct {
		const char *path;
		int read, write, list;
	} cases[] = {
		{"/etc/passwd", EXDEV, EXDEV, EXDEV},
		{"/workspacex", EXDEV, EXDEV, EXDEV},
		{"/", EXDEV, EXDEV, EXDEV},
		{"../secret", EXDEV, EXDEV, EXDEV},
		{"/workspace/../secret", EXDEV, EXDEV, EXDEV},
		{"d/../../secret", EXDEV, EXDEV, EXDEV},
		{"new/../../secret", EXDEV, EXDEV, EXDEV},
		{"d/./../../secret", EXDEV, EXDEV, EXDEV},
		{"out", EXDEV, EXDEV, EXDEV}, /* links */
		{"up/secret", EXDEV, EXDEV, EXDEV},
		{"d", EISDIR, EISDIR, 0},
		{"", EISDIR, EISDIR, 0},
		{"fifo", EINVAL, EINVAL, ENOTDIR},
		{"socket", EINVAL, EINVAL, ENOTDIR},
		{"a", 0, 0, ENOTDIR},
		{"a/b", ENOTDIR, ENOTDIR, ENOTDIR},
		{"missing", ENOENT, 0, ENOTDIR}, /* written by then */
	};
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
	struct fake *f = new_box();
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	put_file("../secret", "secret", 6);
	put_file("a", "text", 4);
	assert_int_equal(mkdir("d", 0755), 0);
	assert_int_equal(symlink("/etc/passwd", "out"), 0);
	assert_int_equal(symlink("..", "up"), 0);
	assert_int_equal(mkfifo("fifo", 0644), 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *path = cases[i].path;
		const char *used = *path == '\0' ? "/workspace/" : path;
		bool link = strcmp(path, "out") == 0 || strcmp(path, "up/secret") == 0;
		int want[] = {cases[i].read, cases[i].write, cases[i].list};

		if (link && old_kernel) /* follows none */
			want[0] = want[1] = want[2] = *path == 'o' ? ELOOP : ENOTDIR;
		if (*path == 'o' && old_kernel)
			want[2] = ENOTDIR;
		assert_int_equal(run_file(f, RUN_FILE_READ, used, 0, 0).exit_code, want[0]);
		assert_int_equal(write_file(f, used, "x", 0, 0).exit_code, want[1]);
		assert_int_equal(run_file(f, RUN_FILE_LIST, used, 0, 0).exit_code, want[2]);
	}
	assert_file("../secret", "secret");
	assert_int_equal(access("new", F_OK), -1); /* nothing was made on the way */
	(void)close(sock);
	done(f);
}

static void
test_files_refuse(void **state)
{
	(void)state;
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		check_refused();
	}
	old_kernel = false;
}

static void
test_files_follow_links_beneath(void **state)
{
	struct fake *f;

	(void)state;
	if (!has_openat2()) {
		test_skip("there is no openat2");
		return;
	}
	f = new_box();
	assert_int_equal(mkdir("d", 0755), 0);
	put_file("d/a", "inside", 6);
	assert_int_equal(symlink("d/a", "link"), 0);
	assert_int_equal(symlink("../d", "d/self"), 0);
	assert_int_equal(run_file(f, RUN_FILE_READ, "link", 0, 0).exit_code, 0);
	assert_got("inside");
	assert_int_equal(run_file(f, RUN_FILE_READ, "d/self/self/../d/a", 0, 0).exit_code, 0);
	assert_got("inside");
	assert_int_equal(write_file(f, "d/self/new/b", "b", 0, 0).exit_code, 0);
	assert_file("d/new/b", "b");
	done(f);
}

static void
check_write(void)
{
	struct fake *f = new_box();
	struct guest_g_exit x;
	struct stat st;

	x = write_file(f, "n/e/w/file", "hello", 0, 0666);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.size, 5);
	assert_int_equal(x.stdout_bytes, 5);
	assert_file("n/e/w/file", "hello");
	assert_int_equal(stat("n/e/w/file", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666); /* as asked for, whatever the umask */
	assert_int_equal(stat("n/e", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(write_file(f, "plain", "", 0, 0).exit_code, 0);
	assert_int_equal(stat("plain", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	x = write_file(f, "n/e/w/file", "J", 0, 0600); /* over what is there */
	assert_int_equal(x.size, 5);
	assert_int_equal(x.stdout_bytes, 1);
	assert_file("n/e/w/file", "Jello");
	assert_int_equal(stat("n/e/w/file", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666); /* the mode is for a new one */
	x = write_file(f, "n/e/w/file", " there", SPEC_APPEND, 0);
	assert_int_equal(x.size, 11);
	assert_file("n/e/w/file", "Jello there");
	x = write_file(f, "n/e/w/file", "new", SPEC_TRUNCATE, 0);
	assert_int_equal(x.size, 3);
	assert_file("n/e/w/file", "new");
	x = write_file(f, "n/e/w/file", "er", SPEC_TRUNCATE | SPEC_APPEND, 0);
	assert_file("n/e/w/file", "er");
	x = write_file(f, "/tmp/t", "in tmp", 0, 0);
	assert_int_equal(x.exit_code, 0);
	assert_file("../tmp/t", "in tmp");
	done(f);
}

static void
test_files_write(void **state)
{
	(void)state;
	for (int i = has_openat2() ? 0 : 1; i < 2; i++) {
		old_kernel = i == 1;
		check_write();
	}
	old_kernel = false;
}

static void
test_files_write_at(void **state)
{
	const struct guest_spec spec = {
		.kind = RUN_FILE_WRITE,
		.flags = SPEC_STDIN,
		.code = {(const uint8_t *)"a", 1},
		.offset = 2,
	};
	struct fake *f = new_box();
	struct guest_frame frame;
	uint64_t sent = 0;

	(void)state;
	put_file("a", "0123456789", 10);
	begin(f, &spec);
	assert_int_equal(guest_on_h_stdin(&f->g, numbers, (const uint8_t *)"ab", 2), 0);
	assert_int_equal(guest_on_h_stdin(&f->g, numbers, (const uint8_t *)"c", 1), 0);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, numbers), 0);
	assert_int_equal(finish(f).size, 10);
	assert_file("a", "01abc56789");
	/* A window is granted again and again: the file takes any length. */
	begin(f, &spec);
	while (!fake_next_frame(&f->g.stream.wire, &frame)) {
		static uint8_t chunk[GUEST_PAYLOAD_MAX];

		assert_true(sent < GUEST_WINDOW);
		assert_int_equal(guest_on_h_stdin(&f->g, numbers, chunk, sizeof(chunk)), 0);
		sent += sizeof(chunk);
	}
	assert_int_equal(frame.row->type, GUEST_g_credit);
	assert_int_equal(frame.run, numbers);
	assert_int_equal(guest_on_h_end(&f->g, numbers), 0);
	assert_int_equal(finish(f).flags, EXIT_ENDED);
	done(f);
}

/* No input is announced: the file is made, or emptied, and that is all. */
static void
test_files_write_nothing(void **state)
{
	const struct guest_spec spec = {
		.kind = RUN_FILE_WRITE, .flags = SPEC_TRUNCATE, .code = {(const uint8_t *)"a", 1}};
	struct fake *f = new_box();

	(void)state;
	put_file("a", "text", 4);
	begin(f, &spec);
	assert_int_equal(finish(f).exit_code, 0);
	assert_file("a", "");
	done(f);
}

/* A full disk: what was written is told, and what still comes is nobody's. */
static void
test_files_write_fails(void **state)
{
	const struct guest_spec spec = {
		.kind = RUN_FILE_WRITE, .flags = SPEC_STDIN, .code = {(const uint8_t *)"a", 1}};
	static uint8_t chunk[GUEST_PAYLOAD_MAX];
	struct fake *f = new_box();
	struct guest_g_exit x;
	struct run *run;
	int full;

	(void)state;
	begin(f, &spec);
	run = run_find(&f->g, numbers);
	assert_int_equal(guest_on_h_stdin(&f->g, numbers, chunk, 1000), 0);
	full = __real_open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(full >= 0);
	for (int fd = 3; fd < 64; fd++) { /* under the run's feet */
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 1000)
			assert_int_equal(dup2(full, fd), fd);
	}
	(void)close(full);
	assert_int_equal(guest_on_h_stdin(&f->g, numbers, chunk, sizeof(chunk)), 0);
	assert_true(run->state >= STATE_DRAINING);
	assert_int_equal(guest_on_h_stdin(&f->g, numbers, chunk, sizeof(chunk)), 0);
	assert_int_equal(guest_on_h_stdin_eof(&f->g, numbers), 0);
	x = finish(f);
	assert_int_equal(x.how, EXIT_EXITED);
	assert_int_equal(x.exit_code, ENOSPC);
	assert_int_equal(x.stdout_bytes, 1000);
	done(f);
}

static void
test_files_timeout(void **state)
{
	const struct guest_spec spec = {.kind = RUN_FILE_WRITE,
					.flags = SPEC_STDIN,
					.timeout_ms = 1,
					.code = {(const uint8_t *)"a", 1}};
	struct fake *f = new_box();

	(void)state;
	begin(f, &spec);
	(void)usleep(3000);
	assert_int_equal(finish(f).flags, EXIT_TIMED_OUT);
	done(f);
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The entries listed last, sorted; their times as a T. */
static const char *
listed(void)
{
	static char text[4096];
	static char copy[65536];
	char *entries[64];
	size_t n = 0;
	size_t len = 0;

	assert_true(buf_len(&got) <= sizeof(copy));
	if (buf_len(&got) > 0)
		memcpy(copy, buf_data(&got), buf_len(&got));
	for (char *at = copy; at < copy + buf_len(&got); at += strlen(at) + 1)
		entries[n++] = at;
	qsort(entries, n, sizeof(*entries), compare_texts);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		char type;
		char path[256];
		unsigned mode;
		long long size;
		long long when;

		assert_int_equal(sscanf(entries[i], "%c %o %lld %lld %255[^\n]", &type, &mode,
					&size, &when, path),
				 5);
		assert_true(when > 1600000000);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%c %o %lld %s;", type,
					mode, type == 'd' ? 0 : size, path);
	}
	return text;
}

static void
test_files_list(void **state)
{
	struct fake *f = new_box();
	struct guest_g_exit x;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	assert_int_equal(mkdir("d/e", 0700), 0);
	put_file("d/e/deep", "x", 1);
	put_file("d/a b", "text", 4);
	put_file("exe", "", 0);
	assert_int_equal(chmod("exe", 0755), 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(symlink("d", "link"), 0);
	x = run_file(f, RUN_FILE_LIST, "/workspace", 0, 0);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.size, 4);
	assert_string_equal(listed(), "d 755 0 d;f 755 0 exe;l 777 1 link;o 600 0 fifo;");
	x = run_file(f, RUN_FILE_LIST, ".", 0, 2);
	assert_int_equal(x.size, 6);
	assert_string_equal(listed(), "d 700 0 d/e;d 755 0 d;f 644 4 d/a b;f 755 0 exe;"
				      "l 777 1 link;o 600 0 fifo;");
	(void)run_file(f, RUN_FILE_LIST, "d", 0, 1000);
	assert_string_equal(listed(), "d 700 0 e;f 644 1 e/deep;f 644 4 a b;");
	(void)run_file(f, RUN_FILE_LIST, "/tmp", 0, 0);
	assert_string_equal(listed(), "");
	done(f);
}

static void
test_files_list_is_bounded(void **state)
{
	struct fake *f = new_box();
	struct guest_g_exit x;

	(void)state;
	for (int i = 0; i < 10020; i++) {
		char name[32];
		int fd;

		(void)snprintf(name, sizeof(name), "f%d", i);
		fd = __real_open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	x = run_file(f, RUN_FILE_LIST, ".", 0, 1);
	assert_int_equal(x.exit_code, 0);
	assert_int_equal(x.size, 10000);
	done(f);
}

/* Deeper than is gone down to, and descriptors closed behind. */
static void
test_files_list_deep(void **state)
{
	struct fake *f = new_box();
	size_t before = test_open_fds();

	(void)state;
	for (int i = 0; i < 40; i++) {
		assert_int_equal(mkdir("d", 0755), 0);
		assert_int_equal(chdir("d"), 0);
	}
	assert_int_equal(run_file(f, RUN_FILE_LIST, ".", 0, 40).size, 32);
	assert_int_equal(chdir(base), 0);
	assert_int_equal(test_open_fds(), before);
	done(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_read),
		cmocka_unit_test(test_files_read_waits_for_credit),
		cmocka_unit_test(test_files_refuse),
		cmocka_unit_test(test_files_follow_links_beneath),
		cmocka_unit_test(test_files_write),
		cmocka_unit_test(test_files_write_at),
		cmocka_unit_test(test_files_write_nothing),
		cmocka_unit_test(test_files_write_fails),
		cmocka_unit_test(test_files_timeout),
		cmocka_unit_test(test_files_list),
		cmocka_unit_test(test_files_list_is_bounded),
		cmocka_unit_test(test_files_list_deep),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&got);
	return r;
}
