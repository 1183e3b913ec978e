/*
 * cli/bench_files.c - the bench of files: 100 MB into a sandbox and out again by
 * the file tools, beside tar through `docker exec -i` of a plain container.
 * Runs in: bailey bench.
 * Input: answers of our own tree and of the engine.
 * Owns: one sandbox and one plain container, while it runs.
 * What the client itself does with JSON is not in it: requests are made before,
 * answers read to their end and looked at afterwards.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL ((size_t)100 * 1000 * 1000)
#define WRITE_PART ((size_t)4 << 20)
#define READ_PART ((size_t)2 << 20)
#define LINE_MAX_BYTES ((size_t)8 << 20)

#define IN_FLIGHT 2u /* requests; tar's pipes too hold the next block while one is written */

/* ---- ours ---- */

/* The request for a part, whole. data: the bytes to write, NULL reads. */
static int
make_line(struct mcp_client *tree, struct buf *line, const char *sandbox, const uint8_t *data,
	  size_t offset, size_t n)
{
	int r = buf_printf(line,
			   "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"tools/call\",\"params\":{"
			   "\"name\":\"container_%s_file\",\"arguments\":{\"sandbox_id\":\"%s\","
			   "\"path\":\"bench\",\"encoding\":\"base64\",\"offset\":%zu,",
			   (unsigned long long)++tree->next_id, data != NULL ? "write" : "read",
			   sandbox, offset);

	if (r < 0)
		return r;
	if (data == NULL)
		return buf_printf(line, "\"length\":%zu}}}\n", n);
	r = buf_printf(line, "\"content\":\"");
	if (r == 0)
		r = base64_append(line, data, n);
	return r < 0 ? r : buf_printf(line, "\"}}}\n");
}

/* Sends the lines, IN_FLIGHT of them unanswered; every answer has at least so many bytes. */
static int
exchange(struct mcp_client *tree, const struct buf *lines, const size_t *least, size_t n,
	 double *ret_ms)
{
	uint64_t start_us = clock_now_us();
	int r = 0;

	for (size_t sent = 0, answered = 0; r == 0 && answered < n;) {
		size_t len = 0;

		if (sent < n && sent - answered < IN_FLIGHT) {
			r = fd_write_all(tree->to, buf_data(&lines[sent]), buf_len(&lines[sent]));
			sent++;
			continue;
		}
		r = mcp_skip(tree, &len);
		if (r == 0 && len < least[answered]) {
			cli_error("an answer of %zu bytes, not of %zu and more", len,
				  least[answered]);
			r = -EIO;
		}
		answered++;
	}
	*ret_ms += (double)(clock_now_us() - start_us) / 1000.0;
	return r;
}

/* All of the file in parts. data: to be written, NULL: read. */
static int
transfer(struct mcp_client *tree, const char *sandbox, const uint8_t *data, size_t total,
	 double *ret_ms)
{
	size_t part = data != NULL ? WRITE_PART : READ_PART, n = (total + part - 1) / part;
	struct buf *lines = xcalloc(n, sizeof(*lines));
	cleanup_free size_t *least = xcalloc(n, sizeof(*least));
	int r = 0;

	for (size_t i = 0; i < n; i++)
		buf_init(&lines[i], LINE_MAX_BYTES);
	for (size_t i = 0; r == 0 && i < n; i++) {
		size_t at = i * part, len = total - at < part ? total - at : part;

		r = make_line(tree, &lines[i], sandbox, data != NULL ? data + at : NULL, at, len);
		least[i] = data != NULL ? 1 : len / 3 * 4;
	}
	if (r == 0)
		r = exchange(tree, lines, least, n, ret_ms);
	for (size_t i = 0; i < n; i++)
		buf_done(&lines[i]);
	free(lines);
	return r;
}

static int
ours(struct mcp_client *tree, const uint8_t *data, double ret_ms[2])
{
	char id[33] = "";
	int r = bench_sandbox(tree, id, NULL);

	if (r == 0)
		r = transfer(tree, id, data, TOTAL, &ret_ms[0]);
	if (r == 0)
		r = transfer(tree, id, NULL, TOTAL, &ret_ms[1]);
	if (id[0] != '\0')
		(void)bench_sandbox_end(tree, id); /* else the tree's end does it */
	return r;
}

/* ---- the engine's ---- */

static void
octal(uint8_t *to, size_t digits, size_t value)
{
	for (size_t i = digits; i > 0; i--, value /= 8)
		to[i - 1] = (uint8_t)('0' + value % 8);
}

/* The header of one file called "bench" in the form of ustar. */
static void
tar_header(uint8_t header[512], size_t size)
{
	size_t sum = 0;

	memset(header, 0, 512);
	memcpy(header, "bench", 5);
	octal(header + 100, 7, 0644);
	octal(header + 108, 7, 0);
	octal(header + 116, 7, 0);
	octal(header + 124, 11, size);
	octal(header + 136, 11, 0);
	memset(header + 148, ' ', 8);
	header[156] = '0';
	memcpy(header + 257, "ustar\00000", 8);
	for (size_t i = 0; i < 512; i++)
		sum += header[i];
	octal(header + 148, 6, sum);
	header[154] = '\0';
}

static int
engines(const char *image, uint8_t *archive, size_t len, double ret_ms[2])
{
	cleanup_free char *body =
		xasprintf("{\"Image\":\"%s\",\"Entrypoint\":[\"/usr/bin/sleep\",\"1000000\"],"
			  "\"Cmd\":[],\"User\":\"0:0\",\"HostConfig\":{\"AutoRemove\":true}}",
			  image);
	char id[65] = "";
	size_t out = 0;
	int r = raw_sleeper(body, id);
	if (r == 0)
		bench_after_container(id);

	if (r == 0)
		r = raw_exec_io(id, "[\"tar\",\"-x\",\"-C\",\"/tmp\"]", archive, len, &out,
				&ret_ms[0]);
	if (r == 0)
		r = raw_exec_io(id, "[\"tar\",\"-c\",\"-C\",\"/tmp\",\"bench\"]", NULL, 0, &out,
				&ret_ms[1]);
	if (r == 0 && out < TOTAL) {
		cli_error("docker exec tar gave %zu bytes back", out);
		r = -EIO;
	}
	if (id[0] != '\0') {
		cleanup_free char *path = xasprintf("/containers/%s?force=1", id);
		(void)raw_request("DELETE", path, NULL, NULL); /* a leftover is in docker ps */
	}
	return r;
}

int
bench_files(const struct bench_side *s)
{
	size_t len = 512 + (TOTAL + 511) / 512 * 512 + 1024; /* two empty records end it */
	cleanup_free uint8_t *archive = xcalloc(len, 1);
	size_t rounds = s->quick ? 1 : 10;
	double our[2] = {0}, raw[2] = {0};
	int r = 0;

	tar_header(archive, TOTAL);
	random_bytes(archive + 512, TOTAL);
	for (size_t i = 0; r == 0 && i < rounds; i++) {
		r = bench_wait_quiet(s->tree, "shell");
		if (r == 0)
			r = ours(s->tree, archive + 512, our);
		if (r == 0)
			r = engines(s->image, archive, len, raw);
	}
	double n = (double)rounds, both = our[0] + our[1], raws = raw[0] + raw[1];
	report_add(s->report, "100 MB written and read / tar by docker exec -i", "",
		   r == 0 ? both / raws : (double)NAN, 1.0, false,
		   "%.0f + %.0f / %.0f + %.0f ms, n=%zu", our[0] / n, our[1] / n, raw[0] / n,
		   raw[1] / n, rounds);
	return r;
}
