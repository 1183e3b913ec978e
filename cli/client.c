/*
 * cli/client.c - a small blocking MCP client over the stdio of a tree it starts.
 * Runs in: bailey run, bailey bench.
 * Input: answers of our own server; trusted to be ours, still bounded.
 * Owns: the child and the two pipe ends.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES ((size_t)64 << 20)
#define START_TIMEOUT_MS 10000
#define CALL_TIMEOUT_MS 400000 /* above the longest timeout, queue and start allowed */

static int
spawn_server(struct mcp_client *c, char **argv)
{
	int in[2] = {-1, -1};
	int out[2] = {-1, -1};

	if (pipe2(in, O_CLOEXEC) == -1)
		return -errno;
	if (pipe2(out, O_CLOEXEC) == -1) {
		int err = errno;
		close(in[0]);
		close(in[1]);
		return -err;
	}
	c->pid = fork();
	if (c->pid == 0) {
		if (dup2(in[0], STDIN_FILENO) == -1 || dup2(out[1], STDOUT_FILENO) == -1)
			_exit(127);
		execv(argv[0], argv);
		_exit(127);
	}
	int err = c->pid == -1 ? errno : 0;
	close(in[0]);
	close(out[1]);
	if (err != 0) {
		close(in[1]);
		close(out[0]);
		return -err;
	}
	c->to = in[1];
	c->from = out[0];
	return 0;
}

static int
send_message(struct mcp_client *c, cJSON *message)
{
	cleanup_free char *text = cJSON_PrintUnformatted(message);

	cJSON_Delete(message);
	if (text == NULL)
		return -ENOMEM;
	size_t len = strlen(text);
	text[len] = '\n'; /* one write: the NUL's place takes the newline */
	return fd_write_all(c->to, text, len + 1);
}

cJSON *
mcp_message(const char *method, cJSON *params)
{
	cJSON *m = cJSON_CreateObject();

	cJSON_AddStringToObject(m, "jsonrpc", "2.0");
	cJSON_AddStringToObject(m, "method", method);
	if (params != NULL)
		cJSON_AddItemToObject(m, "params", params);
	return m;
}

int
mcp_notify(struct mcp_client *c, const char *method)
{
	return send_message(c, mcp_message(method, NULL));
}

uint64_t
mcp_send(struct mcp_client *c, const char *method, cJSON *params)
{
	cJSON *m = mcp_message(method, params);
	uint64_t id = ++c->next_id;

	cJSON_AddNumberToObject(m, "id", (double)id);
	return send_message(c, m) < 0 ? 0 : id;
}

/* Reads until a whole line is buffered; 0, or -errno (-EPIPE at EOF, -ETIMEDOUT). */
static int
fill_line(struct mcp_client *c, uint64_t until_ms, size_t *ret_len)
{
	size_t seen = 0;

	for (;;) {
		const uint8_t *data = buf_data(&c->in);
		size_t len = buf_len(&c->in);
		const uint8_t *nl = len > seen ? memchr(data + seen, '\n', len - seen) : NULL;
		if (nl != NULL) {
			*ret_len = (size_t)(nl - data);
			return 0;
		}
		seen = len;
		uint64_t now = clock_now_ms();
		if (now >= until_ms)
			return -ETIMEDOUT;
		struct pollfd p = {.fd = c->from, .events = POLLIN};
		int r = poll(&p, 1, (int)(until_ms - now));
		if (r == -1 && errno != EINTR)
			return -errno;
		if (r <= 0)
			continue;
		uint8_t *room;
		r = buf_reserve(&c->in, 65536, &room);
		if (r < 0)
			return r;
		ssize_t n = read(c->from, room, 65536);
		if (n == -1)
			return -errno;
		if (n == 0)
			return -EPIPE;
		buf_commit(&c->in, (size_t)n);
	}
}

cJSON *
mcp_next(struct mcp_client *c, int timeout_ms)
{
	size_t len = 0;

	int r = fill_line(c, clock_now_ms() + (uint64_t)timeout_ms, &len);
	if (r < 0) {
		errno = -r;
		return NULL;
	}
	cJSON *m = cJSON_ParseWithLength((const char *)buf_data(&c->in), len);
	buf_consume(&c->in, len + 1);
	if (m == NULL)
		errno = EBADMSG;
	return m;
}

int
mcp_skip(struct mcp_client *c, size_t *ret_len)
{
	int r = fill_line(c, clock_now_ms() + CALL_TIMEOUT_MS, ret_len);

	if (r == 0)
		buf_consume(&c->in, *ret_len + 1);
	return r;
}

/* The answer to id; notifications go to timing's first_us, other answers are an error. */
static cJSON *
wait_answer(struct mcp_client *c, uint64_t id, int timeout_ms, struct mcp_timing *timing)
{
	uint64_t until = clock_now_ms() + (uint64_t)timeout_ms;

	for (;;) {
		uint64_t now = clock_now_ms();
		cJSON *m = now < until ? mcp_next(c, (int)(until - now)) : NULL;
		if (m == NULL) {
			errno = now < until ? errno : ETIMEDOUT;
			return NULL;
		}
		const cJSON *mid = cJSON_GetObjectItemCaseSensitive(m, "id");
		if (cJSON_IsNumber(mid) && (uint64_t)mid->valuedouble == id)
			return m;
		if (timing != NULL && timing->first_us == 0)
			timing->first_us = clock_now_us();
		cJSON_Delete(m);
	}
}

int
mcp_open(struct mcp_client *c, char **argv)
{
	*c = (struct mcp_client){.pid = -1, .to = -1, .from = -1};
	buf_init(&c->in, LINE_MAX_BYTES);
	signal(SIGPIPE, SIG_IGN); /* a dead server is an error of write, not of ours */
	int r = spawn_server(c, argv);
	if (r < 0)
		return r;

	cJSON *params = cJSON_CreateObject();
	cJSON_AddStringToObject(params, "protocolVersion", "2025-11-25");
	cJSON_AddItemToObject(params, "capabilities", cJSON_CreateObject());
	cJSON *info = cJSON_AddObjectToObject(params, "clientInfo");
	cJSON_AddStringToObject(info, "name", "bailey");
	cJSON_AddStringToObject(info, "version", BAILEY_VERSION);
	uint64_t id = mcp_send(c, "initialize", params);
	cJSON *answer = id == 0 ? NULL : wait_answer(c, id, START_TIMEOUT_MS, NULL);
	if (answer == NULL) {
		r = id == 0 ? -EPIPE : -errno;
		(void)mcp_close(c);
		return r;
	}
	cJSON_Delete(answer);
	return mcp_notify(c, "notifications/initialized");
}

void
mcp_open_failed(int r)
{
	if (r == -EPIPE) /* it ended, and said why */
		cli_error("the sandbox server did not start; its words are above");
	else if (r == -ETIMEDOUT)
		cli_error("the sandbox server gave no answer in %d s; BAILEY_DEBUG=1 shows what it "
			  "does",
			  START_TIMEOUT_MS / 1000);
	else
		cli_error("the sandbox server did not start: %s", strerror(-r));
}

int
mcp_close(struct mcp_client *c)
{
	int status = 0;

	cleanup_closep(&c->to);
	if (c->pid > 0)
		while (waitpid(c->pid, &status, 0) == -1 && errno == EINTR)
			;
	cleanup_closep(&c->from);
	c->to = c->from = -1;
	c->pid = -1;
	buf_done(&c->in);
	return status;
}

cJSON *
mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
	 struct mcp_timing *timing)
{
	struct mcp_timing unused;
	cJSON *params = cJSON_CreateObject();

	if (timing == NULL)
		timing = &unused;
	cJSON_AddStringToObject(params, "name", tool);
	cJSON_AddItemToObject(params, "arguments", arguments);
	if (progress)
		cJSON_AddStringToObject(cJSON_AddObjectToObject(params, "_meta"), "progressToken",
					"bailey");
	*timing = (struct mcp_timing){.written_us = clock_now_us()};
	uint64_t id = mcp_send(c, "tools/call", params);
	cJSON *answer = id == 0 ? NULL : wait_answer(c, id, CALL_TIMEOUT_MS, timing);
	timing->answered_us = clock_now_us();
	if (answer == NULL) {
		cli_error("the server went away: %s", strerror(errno));
		return NULL;
	}
	cJSON *result = cJSON_DetachItemFromObjectCaseSensitive(answer, "result");
	if (result == NULL) {
		const cJSON *error = cJSON_GetObjectItemCaseSensitive(answer, "error");
		const cJSON *text = cJSON_GetObjectItemCaseSensitive(error, "message");
		cli_error("the server refused: %s",
			  cJSON_IsString(text) ? text->valuestring : "no reason given");
	}
	cJSON_Delete(answer);
	return result;
}

static const cJSON *
result_item(const cJSON *result, const char *key)
{
	const cJSON *structured = cJSON_GetObjectItemCaseSensitive(result, "structuredContent");

	return cJSON_GetObjectItemCaseSensitive(structured, key);
}

const char *
mcp_result_str(const cJSON *result, const char *key)
{
	const cJSON *item = result_item(result, key);

	return cJSON_IsString(item) ? item->valuestring : "";
}

double
mcp_result_num(const cJSON *result, const char *key, double missing)
{
	const cJSON *item = result_item(result, key);

	return cJSON_IsNumber(item) ? item->valuedouble : missing;
}
