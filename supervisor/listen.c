/*
 * supervisor/listen.c - the sockets clients come in by.
 * Runs in: baileyd at its start, with the rights of whoever started it.
 * Input: the command line; the file system around the socket, which others may
 *	have prepared.
 * Owns: nothing; the caller gets the descriptors.
 * The unix socket is its user's alone. Its directory, and each one above, must
 * be one that only that user or root can change entries of (or sticky, where
 * others cannot change ours): else someone else could put a socket of theirs
 * in its place, and clients would talk to that.
 */
#include "supervisor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128

static int failed(char *error, size_t cap, int r, const char *fmt, ...) PRINTF_LIKE(4, 5);

static int
failed(char *error, size_t cap, int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(error, cap, fmt, ap); /* cut at worst */
	va_end(ap);
	return r;
}

/* ---- unix ---- */

/* dir is absolute and free of links; cut off part by part up to the root. */
static int
check_directories(const char *dir, char *error, size_t cap)
{
	char at[PATH_MAX];
	struct stat st;

	int r = str_copy(at, sizeof(at), dir, strlen(dir));
	if (r < 0)
		return r;
	for (;;) {
		const char *shown = at[0] == '\0' ? "/" : at;
		if (stat(shown, &st) == -1)
			return failed(error, cap, -errno, "%s: %s", shown, strerrordesc_np(errno));
		if (st.st_uid != 0 && st.st_uid != geteuid())
			return failed(
				error, cap, -EPERM,
				"--socket: %s belongs to another user (%u), who could replace "
				"the socket; use a directory of your own",
				shown, st.st_uid);
		if ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0)
			return failed(error, cap, -EPERM,
				      "--socket: other users can write to %s; take that from them "
				      "(chmod go-w) or use a directory of your own",
				      shown);
		char *slash = strrchr(at, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0';
	}
}

/* What stands at the path: nothing, a dead tree's socket (taken away), or a reason to stop. */
static int
clear_place(const char *path, const struct sockaddr_un *at, char *error, size_t cap)
{
	cleanup_close int fd = -1;
	struct stat st;

	if (lstat(path, &st) == -1)
		return errno == ENOENT ? 0
				       : failed(error, cap, -errno, "--socket: %s: %s", path,
						strerrordesc_np(errno));
	if (!S_ISSOCK(st.st_mode))
		return failed(error, cap, -EEXIST,
			      "--socket: %s is there and is no socket; name another path", path);
	if (st.st_uid != geteuid())
		return failed(error, cap, -EPERM, "--socket: %s belongs to another user (%u)", path,
			      st.st_uid);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd == -1)
		return failed(error, cap, -errno, "--socket: %s", strerrordesc_np(errno));
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 || errno == EAGAIN)
		return failed(error, cap, -EADDRINUSE,
			      "--socket: a running program serves %s; stop it or name another path",
			      path);
	if (errno != ECONNREFUSED)
		return failed(error, cap, -errno, "--socket: %s: %s", path, strerrordesc_np(errno));
	return unlink(path) == 0 ? 0
				 : failed(error, cap, -errno, "--socket: %s cannot be replaced: %s",
					  path, strerrordesc_np(errno));
}

/* path without links in its directory, in at; the directory's descriptor is returned. */
static int
resolve(const char *path, struct sockaddr_un *at, char *error, size_t cap)
{
	char dir[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (path[0] != '/' || slash == NULL || slash[1] == '\0')
		return failed(error, cap, -EINVAL,
			      "--socket: %s is not the absolute path of a file", path);
	size_t n = slash == path ? 1 : (size_t)(slash - path);
	if (str_copy(dir, sizeof(dir), path, n) < 0)
		return failed(error, cap, -ENAMETOOLONG, "--socket: the path is too long");
	if (realpath(dir, real) == NULL)
		return failed(error, cap, -errno, "--socket: %s: %s", dir, strerrordesc_np(errno));
	int r = check_directories(strcmp(real, "/") == 0 ? "" : real, error, cap);
	if (r < 0)
		return r;
	cleanup_free char *whole = xasprintf("%s%s", strcmp(real, "/") == 0 ? "" : real, slash);
	if (str_copy(at->sun_path, sizeof(at->sun_path), whole, strlen(whole)) < 0)
		return failed(error, cap, -ENAMETOOLONG,
			      "--socket: %s: a socket's path has at most %zu bytes", path,
			      sizeof(at->sun_path) - 1);
	int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd != -1 ? fd
			: failed(error, cap, -errno, "--socket: %s: %s", real,
				 strerrordesc_np(errno));
}

int
listen_unix(const char *path, char *error, size_t cap)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	cleanup_close int dir = resolve(path, &at, error, cap);

	if (dir < 0)
		return dir;
	/* Two that start at once: the second must not take the first one's socket for a dead one.
	 */
	if (flock(dir, LOCK_EX | LOCK_NB) == -1)
		return failed(error, cap, -errno,
			      "--socket: another program is starting in that directory; try again");
	int r = clear_place(at.sun_path, &at, error, cap);
	if (r < 0)
		return r;
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t before = umask(0177); /* 0600 from its first moment */
	bool bound = fd != -1 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
	int err = errno;
	(void)umask(before); /* cannot fail */
	if (!bound)
		return failed(error, cap, -err, "--socket: %s: %s", path, strerrordesc_np(err));
	if (listen(fd, BACKLOG) == -1)
		return failed(error, cap, -errno, "--socket: %s: %s", path, strerrordesc_np(errno));
	return TAKE_FD(fd);
}

/* ---- http ---- */

int
listen_parse(const char *text, struct listen_address *ret)
{
	struct listen_address a = {.len = 0};
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	const char *colon = strrchr(text, ':');
	char host[64];
	uint64_t port;

	if (colon == NULL || parse_u64(colon + 1, 0, 65535, &port) < 0 ||
	    str_copy(host, sizeof(host), text, (size_t)(colon - text)) < 0)
		return -EINVAL;
	size_t n = strlen(host);
	a.port = (uint32_t)port;
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
			return -EINVAL;
		v6.sin6_port = htons((uint16_t)port);
		a.loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
		a.v6 = true;
		a.len = sizeof(v6);
		memcpy(&a.at, &v6, sizeof(v6));
	} else {
		if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
			      &v4.sin_addr) != 1)
			return -EINVAL;
		v4.sin_port = htons((uint16_t)port);
		a.loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
		a.len = sizeof(v4);
		memcpy(&a.at, &v4, sizeof(v4));
	}
	*ret = a;
	return 0;
}

static int
port_of(int fd, struct listen_address *a)
{
	struct sockaddr_storage at;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	socklen_t len = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &len) == -1)
		return -errno;
	memcpy(&v4, &at, sizeof(v4));
	memcpy(&v6, &at, sizeof(v6));
	a->port = ntohs(a->v6 ? v6.sin6_port : v4.sin_port);
	return 0;
}

/* What is accepted inherits them: answers are whole when they are written, and a peer that is gone
 * without a word is found out. */
static int
set_options(int fd)
{
	static const struct {
		int level, name, value;
	} rows[] = {
		{SOL_SOCKET, SO_REUSEADDR, 1},          {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_NODELAY, 1},          {IPPROTO_TCP, TCP_KEEPIDLE, 30},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (setsockopt(fd, rows[i].level, rows[i].name, &rows[i].value,
			       sizeof(rows[i].value)) == -1)
			return -errno;
	return 0;
}

int
listen_probe(const struct listen_address *a)
{
	cleanup_close int fd = socket(a->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || set_options(fd) < 0 ||
	    bind(fd, (const struct sockaddr *)&a->at, a->len) == -1)
		return -errno;
	return 0;
}

int
listen_http(const char *text, struct listen_address *ret, char *error, size_t cap)
{
	struct listen_address a;

	if (listen_parse(text, &a) < 0)
		return failed(
			error, cap, -EINVAL,
			"--http: %s is not ADDRESS:PORT, such as 127.0.0.1:8900 or [::1]:8900",
			text);
	if (!a.loopback)
		return failed(
			error, cap, -EINVAL,
			"--http: %s is not a loopback address; plain HTTP would show tokens and "
			"code to the network: listen on 127.0.0.1 and put --tls or a TLS proxy "
			"in front",
			text);
	cleanup_close int fd =
		socket(a.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd == -1 || set_options(fd) < 0 ||
	    bind(fd, (const struct sockaddr *)&a.at, a.len) == -1 || listen(fd, BACKLOG) == -1)
		return failed(error, cap, -errno, "--http: %s: %s%s", text, strerrordesc_np(errno),
			      errno == EADDRINUSE ? "; stop what listens there or name another port"
						  : "");
	int r = port_of(fd, &a);
	if (r < 0)
		return failed(error, cap, r, "--http: %s: %s", text, strerrordesc_np(-r));
	*ret = a;
	return TAKE_FD(fd);
}
