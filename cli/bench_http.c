/*
 * cli/bench_http.c - a tree that serves HTTP, and blocking clients of it.
 * Runs in: bailey bench.
 * Input: answers of our own tree.
 * Owns: the tree, its token file, the connections.
 */
#include "cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define REVISION "2025-11-25"

/* ---- the tree ---- */

static int
make_tokens(struct http_tree *t, char *path, size_t cap)
{
	uint8_t secret[32], hash[32];
	char hex[65], line[80];

	random_bytes(secret, sizeof(secret));
	hex_encode(t->token, secret, sizeof(secret));
	sha256(t->token, strlen(t->token), hash);
	hex_encode(hex, hash, sizeof(hash));
	(void)snprintf(t->dir, sizeof(t->dir), "/tmp/bailey-bench-XXXXXX");
	if (mkdtemp(t->dir) == NULL) {
		t->dir[0] = '\0';
		return -errno;
	}
	bench_after_dir(t->dir);
	(void)snprintf(path, cap, "%s/tokens", t->dir);
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int n = snprintf(line, sizeof(line), "bench %s\n", hex);
	return fd == -1 ? -errno : fd_write_all(fd, line, (size_t)n);
}

/* "listening on http://127.0.0.1:PORT/mcp": the port, 0 in any other line. */
static uint32_t
port_of(const char *line)
{
	static const char start[] = "listening on http://127.0.0.1:";
	char digits[6] = "";
	uint64_t port = 0;

	if (strncmp(line, start, sizeof(start) - 1) != 0)
		return 0;
	const char *from = line + sizeof(start) - 1;
	size_t n = strspn(from, "0123456789");
	if (n >= sizeof(digits))
		return 0;
	memcpy(digits, from, n);
	return parse_u64(digits, 1, 65535, &port) < 0 ? 0 : (uint32_t)port;
}

static int
read_port(struct http_tree *t, int from)
{
	char line[256];
	FILE *f = fdopen(from, "r");

	if (f == NULL) {
		(void)close(from);
		return -ENOMEM;
	}
	while (t->port == 0 && fgets(line, sizeof(line), f) != NULL)
		t->port = port_of(line);
	(void)fclose(f);
	return t->port == 0 ? -EPIPE : 0;
}

int
http_tree_open(struct http_tree *t)
{
	static char private_word[] = "--private", http[] = "--http", at[] = "127.0.0.1:0",
		    tokens[] = "--tokens";
	char **server = mcp_server_argv();
	char path[80];
	int out[2] = {-1, -1};

	*t = (struct http_tree){.pid = -1};
	int r = server == NULL ? -ENOENT : make_tokens(t, path, sizeof(path));
	if (r == 0 && pipe2(out, O_CLOEXEC) == -1)
		r = -errno;
	if (r < 0)
		return r;
	char *const argv[] = {server[0], private_word, http, at, tokens, path, NULL};
	t->pid = fork();
	if (t->pid == 0) {
		if (dup2(out[1], STDOUT_FILENO) == -1 ||
		    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == -1)
			_exit(127);
		execv(argv[0], argv);
		_exit(127);
	}
	(void)close(out[1]);
	r = read_port(t, out[0]);
	if (t->pid == -1)
		r = -EAGAIN;
	return r;
}

void
http_tree_close(struct http_tree *t)
{
	if (t->pid > 0) {
		(void)kill(t->pid, SIGTERM);
		while (waitpid(t->pid, NULL, 0) == -1 && errno == EINTR)
			;
	}
	t->pid = -1;
	if (t->dir[0] == '\0')
		return;
	cleanup_free char *path = xasprintf("%s/tokens", t->dir);
	(void)unlink(path);
	if (rmdir(t->dir) == -1)
		cli_error("could not remove %s", t->dir);
	t->dir[0] = '\0';
}

/* ---- a client ---- */

/* The value of a header in a whole head, or "" with length 0. */
static const char *
header_of(const char *head, size_t len, const char *name, size_t *ret_len)
{
	size_t n = strlen(name);

	*ret_len = 0;
	for (const char *at = head, *end = head + len; at < end;) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		if (eol == NULL)
			break;
		if ((size_t)(eol - at) > n + 1 && strncasecmp(at, name, n) == 0 && at[n] == ':') {
			const char *value = at + n + 1 + strspn(at + n + 1, " ");
			*ret_len = strcspn(value, "\r\n");
			return value;
		}
		at = eol + 1;
	}
	return "";
}

static int
more(struct http_client *c)
{
	uint8_t *room;
	int r = buf_reserve(&c->in, 65536, &room);

	if (r < 0)
		return r;
	ssize_t n = read(c->fd, room, 65536);
	if (n <= 0)
		return n == 0 ? -EPIPE : -errno;
	buf_commit(&c->in, (size_t)n);
	return 0;
}

/* Reads one answer; its body is the caller's to parse until the next read. */
static int
read_answer(struct http_client *c, const char **ret_body, size_t *ret_len)
{
	const uint8_t *end = NULL;
	char digits[12] = "";
	uint64_t length = 0;
	size_t n = 0;

	while ((end = memmem(buf_data(&c->in), buf_len(&c->in), "\r\n\r\n", 4)) == NULL) {
		int r = more(c);
		if (r < 0)
			return r;
	}
	const char *head = (const char *)buf_data(&c->in);
	size_t head_len = (size_t)(end - buf_data(&c->in)) + 4;
	if (strncmp(head, "HTTP/1.1 20", 11) != 0) {
		cli_error("the server answered %.12s", head);
		return -EPROTO;
	}
	const char *value = header_of(head, head_len, "Mcp-Session-Id", &n);
	if (n > 0 && str_copy(c->session, sizeof(c->session), value, n) < 0)
		return -EPROTO;
	value = header_of(head, head_len, "Content-Length", &n);
	if (n == 0 || n >= sizeof(digits))
		return -EPROTO;
	memcpy(digits, value, n);
	if (parse_u64(digits, 0, ANSWER_MAX, &length) < 0)
		return -EPROTO;
	while (buf_len(&c->in) < head_len + length) {
		int r = more(c);
		if (r < 0)
			return r;
	}
	*ret_body = (const char *)buf_data(&c->in) + head_len;
	*ret_len = length;
	buf_consume(&c->in, head_len + length);
	return 0;
}

static int
post(struct http_client *c, cJSON *message)
{
	cleanup_free char *body = cJSON_PrintUnformatted(message);
	char session[128] = "";

	cJSON_Delete(message);
	if (body == NULL)
		return -ENOMEM;
	if (c->session[0] != '\0')
		(void)snprintf(session, sizeof(session),
			       "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: " REVISION "\r\n",
			       c->session);
	cleanup_free char *text = xasprintf(
		"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n"
		"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
		"%sContent-Length: %zu\r\n\r\n%s",
		c->tree->port, c->tree->token, session, strlen(body), body);
	return fd_write_all(c->fd, text, strlen(text));
}

static int
connect_to(uint32_t port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = 120};
	const int on = 1;
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) == -1 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == -1 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == -1)
		return -errno;
	return TAKE_FD(fd);
}

static int
initialize(struct http_client *c)
{
	cJSON *params = cJSON_CreateObject(), *info = NULL;
	const char *body = NULL;
	size_t len = 0;

	cJSON_AddStringToObject(params, "protocolVersion", REVISION);
	cJSON_AddItemToObject(params, "capabilities", cJSON_CreateObject());
	info = cJSON_AddObjectToObject(params, "clientInfo");
	cJSON_AddStringToObject(info, "name", "bailey");
	cJSON_AddStringToObject(info, "version", BAILEY_VERSION);
	cJSON *m = mcp_message("initialize", params);
	cJSON_AddNumberToObject(m, "id", (double)++c->next_id);
	int r = post(c, m);
	if (r == 0)
		r = read_answer(c, &body, &len);
	if (r == 0)
		r = post(c, mcp_message("notifications/initialized", NULL));
	return r < 0 ? r : read_answer(c, &body, &len);
}

int
http_open(struct http_client *c, const struct http_tree *t)
{
	*c = (struct http_client){.tree = t};
	buf_init(&c->in, ANSWER_MAX + 65536);
	c->fd = connect_to(t->port);
	int r = c->fd < 0 ? c->fd : initialize(c);
	if (r < 0)
		http_close(c);
	return r;
}

void
http_close(struct http_client *c)
{
	cleanup_closep(&c->fd);
	c->fd = -1;
	buf_done(&c->in);
}

int
http_send(struct http_client *c, const char *tool, cJSON *arguments)
{
	cJSON *params = cJSON_CreateObject();

	cJSON_AddStringToObject(params, "name", tool);
	cJSON_AddItemToObject(params, "arguments", arguments);
	cJSON *m = mcp_message("tools/call", params);
	cJSON_AddNumberToObject(m, "id", (double)++c->next_id);
	return post(c, m);
}

cJSON *
http_wait(struct http_client *c)
{
	const char *body = NULL;
	size_t len = 0;
	int r = read_answer(c, &body, &len);
	cJSON *answer = r < 0 ? NULL : cJSON_ParseWithLength(body, len);
	cJSON *result = cJSON_DetachItemFromObjectCaseSensitive(answer, "result");

	if (result == NULL)
		cli_error("no result by HTTP: %s", r < 0 ? strerror(-r) : "an error");
	cJSON_Delete(answer);
	return result;
}
