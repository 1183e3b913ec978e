/*
 * cli/bench_stays.c - the bench of sandboxes that stay: creating one, a command
 * in it beside the same on the host, an evaluation.
 * Runs in: bailey bench.
 * Input: answers of our own tree.
 * Owns: the sandboxes it makes, while it runs.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static double
took_ms(const struct mcp_timing *t)
{
	return (double)(t->answered_us - t->written_us) / 1000.0;
}

/* A call that must end as ok; the result is the caller's, NULL after a message. */
static cJSON *
call_ok(struct mcp_client *tree, const char *tool, cJSON *arguments, struct mcp_timing *t)
{
	cJSON *result = mcp_call(tree, tool, arguments, false, t);
	const char *status = mcp_result_str(result, "status");

	if (result == NULL || strcmp(status, "ok") == 0)
		return result;
	cli_error("%s ended as %s: %s", tool, status, mcp_result_str(result, "message"));
	cJSON_Delete(result);
	return NULL;
}

static int
done(cJSON *result)
{
	cJSON_Delete(result);
	return result == NULL ? -EIO : 0;
}

static cJSON *
named(const char *sandbox)
{
	cJSON *a = cJSON_CreateObject();

	cJSON_AddStringToObject(a, "sandbox_id", sandbox);
	return a;
}

int
bench_sandbox(struct mcp_client *tree, char id[33], double *ret_ms)
{
	struct mcp_timing t = {0};
	cJSON *result = call_ok(tree, "container_create_sandbox", cJSON_CreateObject(), &t);
	const char *text = mcp_result_str(result, "sandbox_id");
	int r = result == NULL ? -EIO : str_copy(id, 33, text, strlen(text));

	if (ret_ms != NULL)
		*ret_ms = took_ms(&t);
	cJSON_Delete(result);
	return r;
}

int
bench_sandbox_end(struct mcp_client *tree, const char *id)
{
	return done(call_ok(tree, "container_destroy_sandbox", named(id), NULL));
}

static int
creations(const struct bench_side *s, struct series *took)
{
	size_t n = s->quick ? 20 : 1000;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		char id[33] = "";
		double ms = 0;

		r = bench_wait_quiet(s->tree, "shell");
		if (r == 0)
			r = bench_sandbox(s->tree, id, &ms);
		if (r == 0)
			r = bench_sandbox_end(s->tree, id);
		series_add(took, ms);
	}
	return r;
}

static int
command(const struct bench_side *s, const char *sandbox, double *ret_ms)
{
	static const char *const argv[] = {"python3", "-c", "print('hello')"};
	struct mcp_timing t = {0};
	cJSON *a = named(sandbox);

	cJSON_AddItemToObject(a, "argv", cJSON_CreateStringArray(argv, (int)ARRAY_LEN(argv)));
	int r = done(call_ok(s->tree, "container_exec_command", a, &t));
	*ret_ms = took_ms(&t);
	return r;
}

static int
evaluation(const struct bench_side *s, const char *sandbox, double *ret_ms)
{
	struct mcp_timing t = {0};
	cJSON *a = named(sandbox);

	cJSON_AddStringToObject(a, "language", "python");
	cJSON_AddStringToObject(a, "code", "1+1");
	int r = done(call_ok(s->tree, "sandbox_eval", a, &t));
	*ret_ms = took_ms(&t);
	return r;
}

/* Interleaved, so that what else the machine does hits all of them. */
static int
inside(const struct bench_side *s, const char *sandbox, struct series took[3])
{
	size_t n = s->quick ? 40 : 1000;
	double ms[3] = {0}, first = 0;
	int r = bench_wait_quiet(s->tree, "shell");

	if (r == 0)
		r = evaluation(s, sandbox, &ms[2]); /* the first one starts the interpreter */
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = host_run(s->root, BENCH_PYTHON, &ms[0], &first);
		if (r == 0)
			r = command(s, sandbox, &ms[1]);
		if (r == 0)
			r = evaluation(s, sandbox, &ms[2]);
		for (size_t k = 0; r == 0 && k < 3; k++)
			series_add(&took[k], ms[k]);
	}
	return r;
}

int
bench_creations(const struct bench_side *s)
{
	struct series took = {0};
	int r = creations(s, &took);

	report_add(s->report, "container_create_sandbox, warm, p50", "ms", series_p(&took, 50), 5,
		   false, "p99 %.2f ms, n=%zu", series_p(&took, 99), took.n);
	series_done(&took);
	return r;
}

int
bench_stays(const struct bench_side *s)
{
	struct series took[3] = {{0}};
	char id[33] = "";
	int r = bench_sandbox(s->tree, id, NULL);

	if (r == 0)
		r = inside(s, id, took);
	if (id[0] != '\0')
		(void)bench_sandbox_end(s->tree, id); /* else the tree's end does it */
	double host = series_p(&took[0], 50), command_ms = series_p(&took[1], 50);
	report_add(s->report, "container_exec_command python3 -c / host", "", command_ms / host,
		   1.15, false, "%.2f / %.2f ms, n=%zu", command_ms, host, took[1].n);
	report_add(s->report, "sandbox_eval python 1+1, p50", "ms", series_p(&took[2], 50), 1.5,
		   false, "p99 %.2f ms, n=%zu", series_p(&took[2], 99), took[2].n);
	for (size_t k = 0; k < ARRAY_LEN(took); k++)
		series_done(&took[k]);
	return r;
}
