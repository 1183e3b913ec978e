/* supervisor/tokens.c: what a token file may be, whose, and what the broker gets of it. */
#include "test.h"
#include "supervisor.h"

#include <sys/stat.h>

static struct tokens t;
static char dir[] = "/tmp/bailey-tokens-XXXXXX", path[64], error[512];

static size_t n_sent;
static struct ipc_row sent[8];

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	uint8_t packet[512];
	size_t len;

	(void)l;
	assert_true(n_sent < ARRAY_LEN(sent));
	assert_int_equal(ipc_encode(row, IPC_SUPERVISOR, IPC_BROKER, packet, sizeof(packet), &len),
			 0);
	sent[n_sent++] = *row;
	return 0;
}

static int
group_setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/tokens", dir);
	return 0;
}

static int
group_teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

static void
write_file(const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(write(fd, text, n), n);
	assert_int_equal(close(fd), 0);
}

static int
load(const char *text)
{
	write_file(text, strlen(text));
	error[0] = '\0';
	return tokens_load(path, &t, error, sizeof(error));
}

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define NAME64 "n123456789012345678901234567890123456789012345678901234567890123"

static void
test_good_files(void **state)
{
	(void)state;
	assert_int_equal(load("# who may connect\n\nann " A "\n  bob@x.org\t" B "  \r\n"), 0);
	assert_int_equal(t.n, 2);
	assert_string_equal(t.row[0].principal, "ann");
	assert_string_equal(t.row[1].principal, "bob@x.org");
	assert_int_equal(t.row[0].hash[0], 0xaa);
	assert_int_equal(t.row[1].hash[31], 0xbb);
	assert_int_equal(load("ann " A "\nann " B), 0); /* two tokens of one; no end of line */
	assert_int_equal(t.n, 2);
	assert_int_equal(load(NAME64 " " A), 0);
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), 0);
}

static void
test_bad_lines(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{"", "has no token; bailey token add"},
		{"# ann " A "\n", "has no token"},
		{"ann\n", "line 1: after the name 64 hex digits"},
		{"\n\nann " A "0\n", "line 3: after the name 64 hex digits"},
		{"ann g" A "\n", "line 1: after the name"},
		{"ann " A " x\n", "line 1: nothing may follow"},
		{"ann " A "\nbob " A "\n", "line 2: this token is in an earlier line"},
		{".ann " A "\n", "line 1: a name has 1 to 64"},
		{"a/b " A "\n", "line 1: a name has"},
		{"a\x1b[0m " A "\n", "line 1: a name has"},
		{NAME64 "4 " A "\n", "line 1: a name has"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(load(rows[i].text), -EINVAL);
		if (strstr(error, rows[i].says) == NULL)
			fail_msg("%s: %s", rows[i].text, error);
	}
	write_file("a\0b " A, 67);
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -EINVAL);
}

static void
test_number_and_size(void **state)
{
	static char text[300 * 80];
	char line[80];
	size_t len = 0;

	(void)state;
	for (unsigned i = 0; i < 257; i++) {
		int n = snprintf(line, sizeof(line), "u%u %064x\n", i, i);
		memcpy(text + len, line, (size_t)n + 1);
		len += (size_t)n;
		if (i == 255) {
			assert_int_equal(load(text), 0);
			assert_int_equal(t.n, 256);
		}
	}
	assert_int_equal(load(text), -EINVAL);
	assert_non_null(strstr(error, "line 257: there are more than 256"));
	assert_int_equal(truncate(path, 65537), 0);
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, "larger than 64 KiB"));
}

static void
test_whose_and_what(void **state)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0666, 0700};

	(void)state;
	assert_int_equal(load("ann " A "\n"), 0);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -EPERM);
		assert_non_null(strstr(error, "chmod 600"));
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, path));
	assert_int_equal(tokens_load(dir, &t, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, "not a regular file"));
	assert_int_equal(mkfifo(path, 0600), 0); /* and it is not waited for */
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -EPERM);
	assert_int_equal(unlink(path), 0);
	if (geteuid() != 0)
		test_skip("another owner needs root");
	assert_int_equal(load("ann " A "\n"), 0);
	assert_int_equal(chown(path, 61500, 61500), 0);
	assert_int_equal(tokens_load(path, &t, error, sizeof(error)), -EPERM);
	assert_non_null(strstr(error, "another user"));
	assert_int_equal(unlink(path), 0);
}

static void
test_sent(void **state)
{
	(void)state;
	assert_int_equal(load("ann " A "\nbob " B "\n"), 0);
	n_sent = 0;
	assert_int_equal(tokens_send(NULL, &t), 0);
	assert_int_equal(n_sent, 3);
	assert_int_equal(sent[0].num, IPC_NUM_token);
	assert_memory_equal(sent[1].u.token.principal.data, "bob", 3);
	assert_int_equal(sent[1].u.token.hash.len, 32);
	assert_int_equal(sent[1].u.token.hash.data[0], 0xbb);
	assert_int_equal(sent[2].num, IPC_NUM_tokens_end);
	assert_int_equal(sent[2].u.tokens_end.count, 2);
}

static void
test_read_again(void **state)
{
	static struct tree tree;
	static char broker;

	(void)state;
	tree.serve.tokens = path;
	n_sent = 0;
	write_file("ann " A "\n", strlen("ann " A "\n"));
	tokens_reread(&tree); /* no broker: the next one gets them */
	assert_int_equal(tree.tokens.n, 1);
	assert_int_equal(n_sent, 0);
	tree.child[CHILD_BROKER].link = (struct link *)(void *)&broker;
	write_file("ann " A "\nbob " B "\n", strlen("ann " A "\nbob " B "\n"));
	tokens_reread(&tree);
	assert_int_equal(tree.tokens.n, 2);
	assert_string_equal(tree.tokens.row[1].principal, "bob");
	assert_int_equal(n_sent, 3);
	assert_int_equal(tally_value(TALLY_tokens_read), 2);
}

/* The last token was taken out: nothing is good any more. */
static void
test_no_token_is_left(void **state)
{
	static struct tree tree;
	static char broker;

	(void)state;
	tree.serve.tokens = path;
	tree.child[CHILD_BROKER].link = (struct link *)(void *)&broker;
	for (int i = 0; i < 2; i++) {
		const char *text = i == 0 ? "" : "# ann " A "\n";

		tree.tokens.n = 1;
		n_sent = 0;
		write_file(text, strlen(text));
		tokens_reread(&tree);
		assert_int_equal(tree.tokens.n, 0);
		assert_int_equal(n_sent, 1);
		assert_int_equal(sent[0].num, IPC_NUM_tokens_end);
		assert_int_equal(sent[0].u.tokens_end.count, 0);
	}
}

static void
test_bad_file_changes_nothing(void **state)
{
	static const char *const bad[] = {"ann\n", "ann " A "\nbob x\n"};
	static struct tree tree;
	static char broker;
	uint64_t kept = tally_value(TALLY_tokens_kept);

	(void)state;
	tree.serve.tokens = path;
	tree.tokens.n = 1;
	(void)str_copy(tree.tokens.row[0].principal, 65, "old", 3);
	tree.child[CHILD_BROKER].link = (struct link *)(void *)&broker;
	n_sent = 0;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_file(bad[i], strlen(bad[i]));
		tokens_reread(&tree);
	}
	assert_int_equal(unlink(path), 0);
	tokens_reread(&tree);
	assert_int_equal(n_sent, 0);
	assert_int_equal(tree.tokens.n, 1);
	assert_string_equal(tree.tokens.row[0].principal, "old");
	assert_int_equal(tally_value(TALLY_tokens_kept), kept + 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_files),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_number_and_size),
		cmocka_unit_test(test_whose_and_what),
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_read_again),
		cmocka_unit_test(test_no_token_is_left),
		cmocka_unit_test(test_bad_file_changes_nothing),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
