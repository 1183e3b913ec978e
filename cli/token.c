/*
 * cli/token.c - `bailey token add`: a token for an http client, its hash into
 * the token file that `bailey serve --http` reads.
 * Runs in: the calling user's terminal.
 * Input: argv, trusted like the user; the token file's state.
 * Owns: nothing. The token is printed once and kept nowhere.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES 32u

static bool
name_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-");

	return n > 0 && n <= 64 && s[n] == '\0' && strchr("._@-", s[0]) == NULL;
}

int
token_file_default(char *ret, size_t cap)
{
	/* Single-threaded, and nothing here changes the environment. */
	const char *config = getenv("XDG_CONFIG_HOME"); // NOLINT(concurrency-mt-unsafe)
	const char *home = getenv("HOME");              // NOLINT(concurrency-mt-unsafe)
	int n;

	if (geteuid() == 0)
		n = snprintf(ret, cap, "/etc/bailey/tokens");
	else if (config != NULL && config[0] == '/')
		n = snprintf(ret, cap, "%s/bailey/tokens", config);
	else if (home != NULL && home[0] == '/')
		n = snprintf(ret, cap, "%s/.config/bailey/tokens", home);
	else
		return -ENOENT;
	return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

/* The directories above path that are missing; others may look into none of them. */
static int
make_parents(const char *path)
{
	char at[PATH_MAX];
	int r = str_copy(at, sizeof(at), path, strlen(path));

	for (char *slash = strchr(at + 1, '/'); r == 0 && slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(at, 0700) == -1 && errno != EEXIST)
			r = -errno;
		*slash = '/';
	}
	return r;
}

/* The file open for appending, or -errno after a message. */
static int
open_file(const char *path)
{
	struct stat st;
	cleanup_close int fd = open(
		path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
		0600);

	if (fd == -1 || fstat(fd, &st) == -1) {
		int r = -errno;
		cli_error("%s: %s", path, strerrordesc_np(-r));
		return r;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_error("%s is not a regular file", path);
		return -EINVAL;
	}
	if (st.st_uid != geteuid() || (st.st_mode & 0177) != 0) {
		cli_error("%s must be yours and of mode 0600: chown and chmod it, then try again",
			  path);
		return -EPERM;
	}
	return TAKE_FD(fd);
}

/* All of the line is on the disk, or nothing of it: a server refuses a file with half a line. */
static int
write_line(int fd, off_t size, const char *line, size_t n)
{
	int r = fd_write_all(fd, line, n);

	if (r == 0 && fsync(fd) == -1)
		r = -errno;
	if (r < 0 && ftruncate(fd, size) == -1)
		cli_error("half a line is left at the end of the file: %s", strerrordesc_np(errno));
	return r;
}

/* A line of its own; the lock, which goes with the descriptor, is against this command run twice.
 */
static int
append_line(int fd, const char *name, const char *token)
{
	uint8_t hash[32];
	char hex[65], last = '\n', line[160];

	if (flock(fd, LOCK_EX) == -1)
		return -errno;
	off_t size = lseek(fd, 0, SEEK_END);
	if (size == -1 || (size > 0 && pread(fd, &last, 1, size - 1) != 1))
		return -errno;
	sha256(token, strlen(token), hash);
	hex_encode(hex, hash, sizeof(hash));
	int n = snprintf(line, sizeof(line), "%s%s %s\n", last == '\n' ? "" : "\n", name, hex);
	return n < 0 ? -EINVAL : write_line(fd, size, line, (size_t)n);
}

static int
add(const char *name, const char *path)
{
	char token[7 + 2 * SECRET_BYTES + 1] = "bailey_";
	uint8_t secret[SECRET_BYTES];
	cleanup_close int fd = open_file(path);

	if (fd < 0)
		return CLI_FAILED;
	random_bytes(secret, sizeof(secret));
	hex_encode(token + 7, secret, sizeof(secret));
	secret_wipe(secret, sizeof(secret));
	int r = append_line(fd, name, token);
	if (r < 0) {
		cli_error("%s: %s", path, strerrordesc_np(-r));
		return CLI_FAILED;
	}
	printf("%s\n", token);
	secret_wipe(token, sizeof(token));
	fprintf(stderr,
		"This token of %s is shown only now; %s holds its hash.\n"
		"A server that runs already reads the file when it gets SIGHUP.\n",
		name, path);
	return fflush(stdout) == 0 ? CLI_OK : CLI_FAILED;
}

int
cmd_token(int argc, char **argv)
{
	char path[PATH_MAX];
	bool given = argc == 5 && strcmp(argv[3], "--tokens") == 0;

	if ((argc != 3 && !given) || strcmp(argv[1], "add") != 0) {
		cli_error("usage: bailey token add NAME [--tokens FILE]");
		return CLI_USAGE;
	}
	if (!name_valid(argv[2])) {
		cli_error("a name has 1 to 64 letters, digits or . _ @ - and begins with a letter "
			  "or digit");
		return CLI_USAGE;
	}
	if (given)
		return add(argv[2], argv[4]);
	int r = token_file_default(path, sizeof(path));
	if (r == 0)
		r = make_parents(path);
	if (r < 0) {
		cli_error("no place for the token file (%s): name one by --tokens FILE",
			  strerrordesc_np(-r));
		return CLI_FAILED;
	}
	return add(argv[2], path);
}
