/*
 * supervisor/tokens.c - the token file: one principal and the SHA-256 of its
 * token in each line, "#" begins a comment.
 * Runs in: baileyd, before it gives up its rights, and after a SIGHUP in a short-lived process
 * that takes them up again; the rows go to every broker.
 * Input: a file of the user who starts the tree, or of root.
 * Owns: nothing.
 * The tokens themselves are nowhere in it. Who can write it can let himself in, and who can read
 * it learns the names: so it has to be its owner's alone.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536u
#define REREAD_MS 2000u

/* What a principal's name may consist of; it begins with a letter or digit. */
static bool
name_valid(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!plain && (i == 0 || c == '\0' || strchr("._@-", c) == NULL))
			return false;
	}
	return n > 0 && n < sizeof(((struct token *)0)->principal);
}

static size_t
word_len(const char *s, const char *end)
{
	const char *at = s;

	while (at < end && *at != ' ' && *at != '\t')
		at++;
	return (size_t)(at - s);
}

static const char *
skip_blanks(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t'))
		s++;
	return s;
}

/* One line without its end; NULL, or what is wrong with it. */
static const char *
read_line(const char *s, const char *end, struct tokens *t)
{
	struct token row = {.principal = ""};

	if (end > s && end[-1] == '\r')
		end--;
	s = skip_blanks(s, end);
	if (s == end || *s == '#')
		return NULL;
	size_t n = word_len(s, end);
	if (!name_valid(s, n))
		return "a name has 1 to 64 letters, digits or . _ @ - and begins with a letter or "
		       "digit";
	memcpy(row.principal, s, n);
	s = skip_blanks(s + n, end);
	n = word_len(s, end);
	if (hex_decode(row.hash, sizeof(row.hash), s, n) < 0)
		return "after the name 64 hex digits are expected, the token's SHA-256";
	if (skip_blanks(s + n, end) != end)
		return "nothing may follow the hash";
	for (uint32_t i = 0; i < t->n; i++)
		if (memcmp(t->row[i].hash, row.hash, sizeof(row.hash)) == 0)
			return "this token is in an earlier line already";
	if (t->n == TOKENS_MAX)
		return "there are more than 256 tokens";
	t->row[t->n++] = row;
	return NULL;
}

/* The file open for reading, or -errno with what is wrong. */
static int
open_own(const char *path, const char **ret_wrong)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	*ret_wrong = NULL;
	if (fd == -1 || fstat(fd, &st) == -1)
		return -errno;
	if (!S_ISREG(st.st_mode))
		*ret_wrong = "is not a regular file";
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		*ret_wrong = "belongs to another user: it must be yours or root's";
	else if ((st.st_mode & 0177) != 0)
		*ret_wrong = "can be used by others: chmod 600 it";
	else if (st.st_size > (off_t)FILE_MAX)
		*ret_wrong = "is larger than 64 KiB";
	return *ret_wrong != NULL ? -EPERM : TAKE_FD(fd);
}

static int
read_all(int fd, char *out, size_t cap, size_t *ret_len)
{
	size_t len = 0;

	while (len < cap) {
		ssize_t n = read(fd, out + len, cap - len);

		if (n == -1)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_len = len;
	return 0;
}

/* The file's rows; there may be none. */
static int
load_any(const char *path, struct tokens *ret, char *error, size_t cap)
{
	cleanup_free char *text = xcalloc(FILE_MAX, 1);
	const char *wrong = NULL;
	char shown[256];
	size_t len = 0;

	(void)log_escape(shown, sizeof(shown), path, strlen(path));
	cleanup_close int fd = open_own(path, &wrong);
	int r = fd < 0 ? fd : read_all(fd, text, FILE_MAX, &len);
	if (r < 0) {
		(void)snprintf(error, cap, "token file %s%s%s", shown, wrong != NULL ? " " : ": ",
			       wrong != NULL ? wrong : strerrordesc_np(-r));
		return r;
	}
	ret->n = 0;
	unsigned line = 1;
	for (const char *s = text, *end = text + len; s < end; line++) {
		const char *eol = memchr(s, '\n', (size_t)(end - s));
		eol = eol != NULL ? eol : end;
		wrong = read_line(s, eol, ret);
		if (wrong != NULL) {
			(void)snprintf(error, cap, "token file %s, line %u: %s", shown, line,
				       wrong);
			return -EINVAL;
		}
		s = eol + (eol < end);
	}
	return 0;
}

int
tokens_load(const char *path, struct tokens *ret, char *error, size_t cap)
{
	char shown[256];
	int r = load_any(path, ret, error, cap);

	if (r < 0 || ret->n > 0)
		return r;
	(void)log_escape(shown, sizeof(shown), path, strlen(path));
	(void)snprintf(error, cap,
		       "token file %s has no token; bailey token add NAME --tokens FILE makes one",
		       shown);
	return -EINVAL;
}

int
tokens_send(struct link *l, const struct tokens *t)
{
	int r = 0;

	for (uint32_t i = 0; i < t->n && r == 0; i++)
		r = link_send(l, IPC_ROW(token, .principal = IPC_STR(t->row[i].principal),
					 .hash = {t->row[i].hash, sizeof(t->row[i].hash)}));
	return r < 0 ? r : link_send(l, IPC_ROW(tokens_end, .count = t->n));
}

/* ---- again, while the tree runs ---- */

struct reread {
	const char *path;
	bool as_root; /* this process gave root up, the file is root's */
};
struct reread_answer {
	int result;
	char error[512];
	struct tokens tokens;
};

static int
ask_file(const void *question, void *answer, size_t cap)
{
	const struct reread *q = question;
	struct reread_answer *a = answer;

	(void)cap;
	if (q->as_root && setresuid(0, 0, 0) == -1)
		return -errno;
	/* Without a token left: whoever took the last one out means it. */
	a->result = load_any(q->path, &a->tokens, a->error, sizeof(a->error));
	return 0;
}

void
tokens_reread(struct tree *t)
{
	const struct reread q = {.path = t->serve.tokens, .as_root = t->identity.switch_ids};
	cleanup_free struct reread_answer *a = xcalloc(1, sizeof(*a));
	struct link *broker = t->child[CHILD_BROKER].link;

	int r = lookup_run(ask_file, &q, a, sizeof(*a), REREAD_MS);
	if (r == 0)
		r = a->result;
	if (r < 0) {
		log_error("the tokens stay as they were: %s",
			  a->error[0] != '\0' ? a->error : strerrordesc_np(-r));
		tally_add(TALLY_tokens_kept);
		return;
	}
	t->tokens = a->tokens;
	tally_add(TALLY_tokens_read);
	LOG_EVENT(tokens_read, .count = t->tokens.n);
	if (t->tokens.n == 0)
		log_warn("the token file has no token: every request over HTTP is refused");
	/* One whose link breaks here is started again, with the new ones. */
	if (broker != NULL)
		(void)tokens_send(broker, &t->tokens);
}
