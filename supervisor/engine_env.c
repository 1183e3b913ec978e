/*
 * supervisor/engine_env.c - finds the engine: DOCKER_HOST and its TLS variables,
 * or the usual sockets.
 * Runs in: baileyd at start.
 * Input: options of the user who starts the tree; the file system.
 * Owns: the engine target with the PEM bytes.
 * Nothing is said to the engine here; the broker is the first to connect.
 */
#include "supervisor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX ((size_t)256 * 1024) /* a file; a bundle of authorities is the largest */
#define PORT_TCP 2375u
#define PORT_TLS 2376u
#define RESOLVE_MS 5000u

static const char default_socket[] = "/var/run/docker.sock";

void
engine_env_places(const char *runtime_dir, uid_t uid, char *room, size_t cap,
		  const char *places[ENGINE_PLACES])
{
	size_t n = 0;
	int len = 0;

	places[n++] = default_socket;
	/* Many clients start their servers without that variable. */
	if (runtime_dir == NULL || runtime_dir[0] == '\0')
		len = snprintf(room, cap, "/run/user/%u/docker.sock", uid);
	else if (runtime_dir[0] == '/')
		len = snprintf(room, cap, "%s/docker.sock", runtime_dir);
	if (len > 0 && (size_t)len < cap)
		places[n++] = room;
	places[n++] = "/run/bailey-engine/docker.sock"; /* packaging/engine's own */
	places[n] = NULL;
}

static bool
is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* A socket we may connect to, else one that is there, else the default. */
static const char *
pick_place(const char *const *places)
{
	const char *found = NULL;

	for (size_t i = 0; places[i] != NULL; i++) {
		if (!is_socket(places[i]))
			continue;
		if (access(places[i], R_OK | W_OK) == 0)
			return places[i];
		if (found == NULL)
			found = places[i];
	}
	return found != NULL ? found : default_socket;
}

/* The path without symbolic links; of a socket that is not there yet, its directory's. */
static int
real_path(const char *path, char ret[PATH_MAX])
{
	char dir[PATH_MAX], real[PATH_MAX];

	if (realpath(path, ret) != NULL)
		return 0;
	const char *slash = strrchr(path, '/');
	if (slash == NULL || slash == path ||
	    str_copy(dir, sizeof(dir), path, (size_t)(slash - path)) < 0)
		return -EINVAL;
	if (realpath(dir, real) == NULL)
		return str_copy(ret, PATH_MAX, path, strlen(path));
	size_t n = strlen(real);
	int r = str_copy(ret, PATH_MAX, real, n);
	return r < 0 ? r : str_copy(ret + n, PATH_MAX - n, slash, strlen(slash));
}

static int
set_unix(struct engine_target *t, const char *path, char *error, size_t cap)
{
	char real[PATH_MAX];
	struct stat st;

	t->kind = ENGINE_UNIX;
	int r = real_path(path, real);
	const char *slash = r == 0 ? strrchr(real, '/') : NULL;
	if (slash == NULL || slash == real ||
	    str_copy(t->dir, sizeof(t->dir), real, (size_t)(slash - real)) < 0 ||
	    str_copy(t->path, sizeof(t->path), real, strlen(real)) < 0) {
		(void)snprintf(
			error, cap,
			"DOCKER_HOST: a socket's path has a directory and at most 107 characters");
		return -EINVAL;
	}
	t->have_gid = stat(t->path, &st) == 0;
	if (t->have_gid)
		t->gid = st.st_gid;
	return 0;
}

static bool
host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == ':';
}

/* "host", "host:port", "[v6]:port"; a trailing slash is forgiven. */
static int
set_tcp(struct engine_target *t, const char *rest, bool tls)
{
	size_t n = strlen(rest);
	const char *host = rest, *port = NULL;
	size_t host_len;

	t->kind = tls ? ENGINE_TLS : ENGINE_TCP;
	t->port = tls ? PORT_TLS : PORT_TCP;
	if (n > 0 && rest[n - 1] == '/')
		n--;
	if (*rest == '[') {
		const char *end = memchr(rest, ']', n);
		if (end == NULL)
			return -EINVAL;
		host = rest + 1;
		host_len = (size_t)(end - host);
		port = end + 1 < rest + n ? end + 1 : NULL;
		if (port != NULL && *port != ':')
			return -EINVAL;
	} else {
		port = memchr(rest, ':', n);
		host_len = port != NULL ? (size_t)(port - rest) : n;
	}
	for (size_t i = 0; i < host_len; i++)
		if (!host_char(host[i]))
			return -EINVAL;
	if (host_len == 0 || str_copy(t->host, sizeof(t->host), host, host_len) < 0)
		return -EINVAL;
	if (port != NULL) {
		char digits[8];
		uint64_t number;
		size_t len = (size_t)(rest + n - port - 1);
		if (str_copy(digits, sizeof(digits), port + 1, len) < 0 ||
		    parse_u64(digits, 1, 65535, &number) < 0)
			return -EINVAL;
		t->port = (uint32_t)number;
	}
	return 0;
}

static int
read_pem(const char *dir, const char *name, struct buf *ret, char *error, size_t cap)
{
	char path[PATH_MAX], real[PATH_MAX];
	uint8_t *room = NULL;
	size_t len = 0;

	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	buf_init(ret, PEM_MAX);
	int r = realpath(path, real) == NULL ? -errno : buf_reserve(ret, PEM_MAX, &room);
	if (r == 0)
		r = fd_read_file(AT_FDCWD, real, (char *)room, PEM_MAX, &len);
	if (r == 0 && len == 0)
		r = -ENODATA;
	if (r < 0) {
		(void)snprintf(error, cap, "DOCKER_CERT_PATH: %.300s: %s", path,
			       strerrordesc_np(-r));
		return r;
	}
	buf_commit(ret, len);
	return 0;
}

static int
read_pems(const struct options *o, const char *home, struct engine_target *t, char *error,
	  size_t cap)
{
	static const char *const names[] = {
		[PEM_CA - 1] = "ca.pem", [PEM_CERT - 1] = "cert.pem", [PEM_KEY - 1] = "key.pem"};
	char dir[512];

	int n = o->cert_path[0] != '\0'
			? snprintf(dir, sizeof(dir), "%s", o->cert_path)
			: snprintf(dir, sizeof(dir), "%s/.docker", home != NULL ? home : "");
	if (n < 0 || (size_t)n >= sizeof(dir))
		return -ENAMETOOLONG;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int r = read_pem(dir, names[i], &t->pem[i], error, cap);
		if (r < 0)
			return r;
	}
	return 0;
}

int
engine_env_find(const struct options *o, const char *const *places, const char *home,
		struct engine_target *ret, char *error, size_t cap)
{
	static const char unix_scheme[] = "unix://", tcp_scheme[] = "tcp://";
	struct engine_target t = {.kind = ENGINE_UNIX};
	int r;

	(void)snprintf(error, cap,
		       "DOCKER_HOST: must be unix:///absolute/path or tcp://host[:port]");
	if (o->docker_host[0] == '\0') {
		r = set_unix(&t, pick_place(places), error, cap);
	} else if (strncmp(o->docker_host, unix_scheme, sizeof(unix_scheme) - 1) == 0) {
		r = set_unix(&t, o->docker_host + sizeof(unix_scheme) - 1, error, cap);
	} else {
		r = set_tcp(&t, o->docker_host + sizeof(tcp_scheme) - 1, o->tls);
		if (r == 0 && o->tls)
			r = read_pems(o, home, &t, error, cap);
	}
	if (r < 0) {
		engine_env_done(&t);
		return r;
	}
	error[0] = '\0';
	*ret = t;
	return 0;
}

/* For lookup_run: the first address of the name, as text. */
static int
ask_address(const void *question, void *answer, size_t cap)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;

	memset(answer, 0, cap);
	if (getaddrinfo(question, NULL, &hints, &list) != 0 || list == NULL)
		return -ENOENT;
	int r = getnameinfo(list->ai_addr, list->ai_addrlen, answer, (socklen_t)cap, NULL, 0,
			    NI_NUMERICHOST);
	freeaddrinfo(list);
	return r == 0 ? 0 : -EIO;
}

int
engine_env_resolve(struct engine_target *t)
{
	struct in6_addr v6;
	struct in_addr v4;
	char answer[sizeof(t->address)];

	if (inet_pton(AF_INET, t->host, &v4) == 1 || inet_pton(AF_INET6, t->host, &v6) == 1)
		return str_copy(t->address, sizeof(t->address), t->host, strlen(t->host));
	int r = lookup_run(ask_address, t->host, answer, sizeof(answer), RESOLVE_MS);
	if (r < 0)
		return r;
	answer[sizeof(answer) - 1] = '\0';
	return str_copy(t->address, sizeof(t->address), answer, strlen(answer));
}

void
engine_env_done(struct engine_target *t)
{
	for (size_t i = 0; i < ARRAY_LEN(t->pem); i++) {
		if (t->pem[i].data != NULL)
			secret_wipe(t->pem[i].data, t->pem[i].cap);
		buf_done(&t->pem[i]);
	}
}
