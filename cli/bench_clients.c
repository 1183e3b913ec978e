/*
 * cli/bench_clients.c - the bench of clients: what HTTP costs beside stdio, and
 * what one client's flood of output costs another.
 * Runs in: bailey bench.
 * Input: answers of our own trees.
 * Owns: a tree that serves HTTP, its clients, a sandbox for each, while it runs.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>

static cJSON *
command_in(const char *sandbox, const char *command)
{
	cJSON *a = cJSON_CreateObject();

	cJSON_AddStringToObject(a, "sandbox_id", sandbox);
	cJSON_AddStringToObject(a, "command", command);
	return a;
}

static int
check_ok(cJSON *result)
{
	const char *status = mcp_result_str(result, "status");
	int r = result != NULL && strcmp(status, "ok") == 0 ? 0 : -EIO;

	if (r < 0)
		cli_error("a call ended as %s: %s", status, mcp_result_str(result, "message"));
	cJSON_Delete(result);
	return r;
}

static int
http_sandbox(struct http_client *c, char id[33])
{
	cJSON *result = http_send(c, "container_create_sandbox", cJSON_CreateObject()) < 0
				? NULL
				: http_wait(c);
	const char *text = mcp_result_str(result, "sandbox_id");
	int r = strlen(text) == 32 ? str_copy(id, 33, text, 32) : -EIO;

	cJSON_Delete(result);
	return r;
}

static int
http_command(struct http_client *c, const char *sandbox, double *ret_ms)
{
	uint64_t start_us = clock_now_us();
	int r = http_send(c, "container_exec_command", command_in(sandbox, ":"));
	cJSON *result = r < 0 ? NULL : http_wait(c);

	*ret_ms = (double)(clock_now_us() - start_us) / 1000.0;
	return check_ok(result);
}

static int
stdio_command(struct mcp_client *tree, const char *sandbox, double *ret_ms)
{
	struct mcp_timing t = {0};
	cJSON *result =
		mcp_call(tree, "container_exec_command", command_in(sandbox, ":"), false, &t);

	*ret_ms = (double)(t.answered_us - t.written_us) / 1000.0;
	return check_ok(result);
}

/* The same command in a sandbox of each tree, turn by turn. */
static int
compare(const struct bench_side *s, struct http_client *c, const char *by_http)
{
	struct series http = {0}, stdio = {0};
	size_t n = s->quick ? 60 : 1000;
	char by_stdio[33] = "";
	double ms[2] = {0};
	int r = bench_sandbox(s->tree, by_stdio, NULL);

	if (r == 0)
		r = bench_wait_quiet(s->tree, "shell");
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = stdio_command(s->tree, by_stdio, &ms[0]);
		if (r == 0)
			r = http_command(c, by_http, &ms[1]);
		series_add(&stdio, ms[0]);
		series_add(&http, ms[1]);
	}
	if (by_stdio[0] != '\0')
		(void)bench_sandbox_end(s->tree, by_stdio); /* else the tree's end does it */
	double a = series_p(&http, 50), b = series_p(&stdio, 50);
	report_add(s->report, "HTTP call - stdio call, p50", "ms", r == 0 ? a - b : (double)NAN,
		   0.5, false, "%.2f - %.2f ms, n=%zu", a, b, http.n);
	series_done(&http);
	series_done(&stdio);
	return r;
}

static bool
answer_waits(const struct http_client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Calls of one client while another one's command writes 100 MB, again and again. */
static int
beside_flood(struct http_client *c, const char *sandbox, struct http_client *flooder,
	     const char *floods, size_t n, struct series *took)
{
	double ms = 0;
	int r = 0;

	while (r == 0 && took->n < n) {
		r = http_send(flooder, "container_exec_command",
			      command_in(floods, "head -c 100000000 /dev/zero"));
		while (r == 0 && !answer_waits(flooder)) {
			r = http_command(c, sandbox, &ms);
			series_add(took, ms);
		}
		if (r == 0)
			r = check_ok(http_wait(flooder));
	}
	return r;
}

static int
flood(const struct bench_side *s, const struct http_tree *t, struct http_client *c,
      const char *sandbox)
{
	struct series quiet = {0}, flooded = {0};
	size_t n = s->quick ? 100 : 1000;
	struct http_client flooder;
	char floods[33] = "";
	double ms = 0;
	int r = http_open(&flooder, t);

	if (r < 0)
		return r;
	r = http_sandbox(&flooder, floods);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = http_command(c, sandbox, &ms);
		series_add(&quiet, ms);
	}
	if (r == 0)
		r = beside_flood(c, sandbox, &flooder, floods, n, &flooded);
	http_close(&flooder);
	double a = series_p(&flooded, 99), b = series_p(&quiet, 99);
	report_add(s->report, "p99 beside a flood of 100 MB / quiet", "",
		   r == 0 ? a / b : (double)NAN, 2, false,
		   "%.2f / %.2f ms (p50 %.2f / %.2f), n=%zu", a, b, series_p(&flooded, 50),
		   series_p(&quiet, 50), flooded.n);
	series_done(&quiet);
	series_done(&flooded);
	return r;
}

int
bench_clients(const struct bench_side *s)
{
	struct http_tree t;
	struct http_client c;
	char sandbox[33] = "";
	int r = http_tree_open(&t);

	if (r == 0)
		r = http_open(&c, &t);
	if (r == 0) {
		r = http_sandbox(&c, sandbox);
		if (r == 0)
			r = compare(s, &c, sandbox);
		if (r == 0)
			r = flood(s, &t, &c, sandbox);
		http_close(&c);
	}
	http_tree_close(&t);
	return r;
}
