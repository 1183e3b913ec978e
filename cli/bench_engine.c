/*
 * cli/bench_engine.c - the raw engine without Bailey: a blocking HTTP/1.1 client
 * on the engine's unix socket, one connection a request.
 * Runs in: bailey bench.
 * Input: the engine's replies, read with the caller's own rights.
 * Owns: nothing between calls.
 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define API "/v1.41"
#define REPLY_MAX ((size_t)16 << 20)

static const char *
socket_path(void)
{
	const char *host = getenv("DOCKER_HOST");

	if (host == NULL)
		return "/var/run/docker.sock";
	return strncmp(host, "unix://", 7) == 0 ? host + 7 : "";
}

static int
raw_connect(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const struct timeval patience = {.tv_sec = 30};
	const char *path = socket_path();

	int r = str_copy(sa.sun_path, sizeof(sa.sun_path), path, strlen(path));
	if (r < 0)
		return r;
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd == -1)
		return -errno;
	/* No silence of the engine may hang the bench. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == -1 ||
	    connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == -1)
		return -errno;
	return TAKE_FD(fd);
}

/* Sends the request and reads to the end of the reply's header. *ret_at: its length in in. */
static int
exchange(int fd, const char *method, const char *path, const char *extra, const char *body,
	 struct buf *in, size_t *ret_at)
{
	cleanup_free char *head = xasprintf("%s " API "%s HTTP/1.1\r\nHost: engine\r\n%s"
					    "Content-Type: application/json\r\n"
					    "Content-Length: %zu\r\n\r\n%s",
					    method, path, extra, body == NULL ? 0 : strlen(body),
					    body == NULL ? "" : body);

	int r = fd_write_all(fd, head, strlen(head));
	while (r == 0) {
		uint8_t chunk[8192];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n <= 0)
			return n == 0 ? -EPIPE : -errno;
		r = buf_append(in, chunk, (size_t)n);
		const uint8_t *end = memmem(buf_data(in), buf_len(in), "\r\n\r\n", 4);
		if (end == NULL)
			continue;
		*ret_at = (size_t)(end - buf_data(in)) + 4;
		if (memcmp(buf_data(in), "HTTP/1.1 ", 9) != 0)
			return -EPROTO;
		char digits[4] = "";
		uint64_t status = 0;
		memcpy(digits, buf_data(in) + 9, 3);
		return parse_u64(digits, 100, 599, &status) < 0 ? -EPROTO : (int)status;
	}
	return r;
}

static int
read_rest(int fd, struct buf *in)
{
	for (;;) {
		uint8_t chunk[8192];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n <= 0)
			return n == 0 ? 0 : -errno;
		int r = buf_append(in, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

/* The JSON part of a reply: chunked framing is cut off by looking for the braces. */
static void
trim_json(struct buf *in)
{
	const uint8_t *data = buf_data(in);
	const uint8_t *open = memchr(data, '{', buf_len(in));
	const uint8_t *close = memrchr(data, '}', buf_len(in));

	if (open == NULL || close == NULL || close < open)
		return;
	in->len = in->off + (size_t)(close - data) + 1;
	buf_consume(in, (size_t)(open - data));
}

int
raw_request(const char *method, const char *path, const char *body, struct buf *reply)
{
	struct buf in;
	size_t at = 0;
	cleanup_close int fd = raw_connect();

	if (fd < 0)
		return fd;
	buf_init(&in, REPLY_MAX);
	int status = exchange(fd, method, path, "Connection: close\r\n", body, &in, &at);
	int r = status < 0 ? status : read_rest(fd, &in);
	if (r == 0 && reply != NULL) {
		buf_consume(&in, at);
		trim_json(&in);
		r = buf_append(reply, buf_data(&in), buf_len(&in));
	}
	buf_done(&in);
	return r < 0 ? r : status;
}

/* The size line of a chunk: hexadecimal digits, then anything. */
static size_t
chunk_size(const char *line)
{
	static const char digits[] = "0123456789abcdef";
	size_t size = 0;

	for (const char *d; *line != '\0' && (d = strchr(digits, *line)) != NULL; line++)
		size = size * 16 + (size_t)(d - digits);
	return size;
}

/* Undoes chunked framing while copying; HTTP/1.0 would do, but the engine insists on 1.1. */
static int
copy_chunks(FILE *from, int to)
{
	char line[64];

	while (fgets(line, sizeof(line), from) != NULL) {
		size_t left = chunk_size(line);
		if (left == 0)
			return 0;
		while (left > 0) {
			char chunk[8192];
			size_t n =
				fread(chunk, 1, left < sizeof(chunk) ? left : sizeof(chunk), from);
			if (n == 0)
				return -EPIPE;
			int r = fd_write_all(to, chunk, n);
			if (r < 0)
				return r;
			left -= n;
		}
		if (fgets(line, sizeof(line), from) == NULL)
			break;
	}
	return -EPIPE;
}

int
raw_download(const char *path, int fd)
{
	char line[1024];
	int engine_fd = raw_connect();

	if (engine_fd < 0)
		return engine_fd;
	FILE *f = fdopen(engine_fd, "r+");
	if (f == NULL) {
		close(engine_fd);
		return -ENOMEM;
	}
	fprintf(f, "GET " API "%s HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n", path);
	fflush(f);
	int r = fgets(line, sizeof(line), f) != NULL && strstr(line, " 200 ") != NULL ? 0 : -EPROTO;
	while (r == 0 && fgets(line, sizeof(line), f) != NULL && strcmp(line, "\r\n") != 0)
		;
	if (r == 0)
		r = copy_chunks(f, fd);
	fclose(f);
	return r;
}

int
raw_upgrade(const char *path, const char *body)
{
	struct buf in;
	size_t at = 0;
	cleanup_close int fd = raw_connect();

	if (fd < 0)
		return fd;
	buf_init(&in, 65536);
	int status = exchange(fd, "POST", path, "Connection: Upgrade\r\nUpgrade: tcp\r\n", body,
			      &in, &at);
	buf_done(&in);
	if (status != 101 && status != 200)
		return status < 0 ? status : -EPROTO;
	return TAKE_FD(fd);
}

int
raw_create(const char *path, const char *body, char id[65])
{
	struct buf reply;

	buf_init(&reply, REPLY_MAX);
	int status = raw_request("POST", path, body, &reply);
	cJSON *o = status == 201
			   ? cJSON_ParseWithLength((const char *)buf_data(&reply), buf_len(&reply))
			   : NULL;
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, "Id");
	int r = cJSON_IsString(item)
			? str_copy(id, 65, item->valuestring, strlen(item->valuestring))
			: -EPROTO;
	if (r < 0)
		cli_error("the engine answered %d to %s: %.*s", status, path, (int)buf_len(&reply),
			  (const char *)buf_data(&reply));
	cJSON_Delete(o);
	buf_done(&reply);
	return r;
}

static int
drain(int fd)
{
	char chunk[8192];
	ssize_t n;

	do
		n = read(fd, chunk, sizeof(chunk));
	while (n > 0);
	return n == 0 ? 0 : -errno;
}

/* As drain, and how much came. */
static int
drain_counted(int fd, size_t *ret_n)
{
	static char chunk[65536];
	ssize_t n;

	*ret_n = 0;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		*ret_n += (size_t)n;
	return n == 0 ? 0 : -errno;
}

/* Gone from the engine: by the DELETE, or by AutoRemove that was first (409: under way). The wait
 * endpoint's condition "removed" is not used: on 20.10 it sometimes never answers here. */
static int
wait_removed(const char *id)
{
	cleanup_free char *gone = xasprintf("/containers/%s?force=1", id);
	cleanup_free char *look = xasprintf("/containers/%s/json", id);
	const struct timespec pause = {.tv_nsec = 10000000};

	int status = raw_request("DELETE", gone, NULL, NULL);
	for (int tries = 0; status != 204 && status != 404 && tries < 1000; tries++) {
		(void)nanosleep(&pause, NULL); /* a shorter pause only asks sooner */
		status = raw_request("GET", look, NULL, NULL);
		if (status < 0)
			return status;
	}
	return status == 204 || status == 404 ? 0 : -ETIMEDOUT;
}

int
raw_cycle(const char *body, double *ret_ms)
{
	char id[65];
	uint64_t start_us = clock_now_us();

	int r = raw_create("/containers/create", body, id);
	if (r < 0)
		return r;
	cleanup_free char *attach =
		xasprintf("/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", id);
	cleanup_free char *start = xasprintf("/containers/%s/start", id);
	cleanup_close int fd = raw_upgrade(attach, NULL);
	int status = fd < 0 ? fd : raw_request("POST", start, NULL, NULL);
	r = status == 204 ? drain(fd) : -EPROTO;
	if (ret_ms != NULL)
		*ret_ms = (double)(clock_now_us() - start_us) / 1000.0;
	int r2 = wait_removed(id);
	return r < 0 ? r : r2;
}

int
raw_exec(const char *container, const char *argv_json, double *ret_ms)
{
	char id[65];
	cleanup_free char *path = xasprintf("/containers/%s/exec", container);
	cleanup_free char *body =
		xasprintf("{\"AttachStdout\":true,\"AttachStderr\":true,\"Cmd\":%s}", argv_json);
	uint64_t start_us = clock_now_us();

	int r = raw_create(path, body, id);
	if (r < 0)
		return r;
	cleanup_free char *start = xasprintf("/exec/%s/start", id);
	cleanup_close int fd = raw_upgrade(start, "{\"Detach\":false,\"Tty\":false}");
	r = fd < 0 ? fd : drain(fd);
	*ret_ms = (double)(clock_now_us() - start_us) / 1000.0;
	return r;
}

int
raw_exec_io(const char *container, const char *argv_json, const void *in, size_t n, size_t *ret_out,
	    double *ret_ms)
{
	char id[65];
	cleanup_free char *path = xasprintf("/containers/%s/exec", container);
	cleanup_free char *body = xasprintf("{\"AttachStdin\":%s,\"AttachStdout\":true,"
					    "\"AttachStderr\":true,\"Cmd\":%s}",
					    in != NULL ? "true" : "false", argv_json);
	uint64_t start_us = clock_now_us();

	int r = raw_create(path, body, id);
	if (r < 0)
		return r;
	cleanup_free char *start = xasprintf("/exec/%s/start", id);
	cleanup_close int fd = raw_upgrade(start, "{\"Detach\":false,\"Tty\":false}");
	r = fd < 0 ? fd : 0;
	if (r == 0 && in != NULL)
		r = fd_write_all(fd, in, n);
	if (r == 0 && in != NULL && shutdown(fd, SHUT_WR) == -1)
		r = -errno;
	if (r == 0)
		r = drain_counted(fd, ret_out);
	*ret_ms += (double)(clock_now_us() - start_us) / 1000.0;
	return r;
}

int
raw_sleeper(const char *body, char id[65])
{
	int r = raw_create("/containers/create", body, id);

	if (r < 0)
		return r;
	cleanup_free char *start = xasprintf("/containers/%s/start", id);
	return raw_request("POST", start, NULL, NULL) == 204 ? 0 : -EPROTO;
}
