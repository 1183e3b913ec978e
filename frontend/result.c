/*
 * frontend/result.c - what a tool answers (results.def).
 * Runs in: bailey-frontend.
 * Input: figures from the broker; the guest's own figures and the output, untrusted.
 * Owns: nothing.
 *
 * structuredContent holds everything, because several clients show a model
 * nothing else; the same JSON stands as text for those that know only text.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define STREAM_TEXT_MAX ((size_t)6 << 20) /* what is shown of a stream, in its longest form */
#define JSON_GROWTH 6u                    /* \u001b for one byte */
#define VISIBLE_GROWTH 10u                /* \u{10FFFF} for at least one byte */
#define ANSWER_MAX ((size_t)9 << 20)      /* there are clients whose lines end at 10 MiB */

void
result_add_milli(struct cJSON *object, const char *name, uint64_t thousandths)
{
	char digits[32];
	int n = snprintf(digits, sizeof(digits), "%llu.%03u",
			 (unsigned long long)(thousandths / 1000), (unsigned)(thousandths % 1000));

	while (digits[n - 1] == '0')
		digits[--n] = '\0';
	if (digits[n - 1] == '.')
		digits[--n] = '\0';
	(void)cJSON_AddRawToObject(object, name, digits);
}

/* A whole number, exact where cJSON's double would not be. */
void
result_add_count(struct cJSON *object, const char *name, uint64_t value)
{
	char digits[32];

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	(void)cJSON_AddRawToObject(object, name, digits);
}

static void
add_count_if(cJSON *object, const char *name, bool known, uint64_t value)
{
	if (known)
		result_add_count(object, name, value);
	else
		(void)cJSON_AddNullToObject(object, name);
}

static void
add_milli_if(cJSON *object, const char *name, bool known, uint64_t thousandths)
{
	if (known)
		result_add_milli(object, name, thousandths);
	else
		(void)cJSON_AddNullToObject(object, name);
}

/* ---- streams ---- */

static void
add_part(cJSON *object, const char *name, const uint8_t *s, size_t n, const struct output_view *v)
{
	struct buf text;
	int r;

	buf_init(&text, STREAM_TEXT_MAX);
	if (!v->utf8)
		r = base64_append(&text, s, n);
	else if (v->hidden)
		r = text_append_escaped(&text, s, n);
	else
		r = buf_append(&text, s, n);
	if (r == 0)
		r = buf_append(&text, "", 1);
	(void)cJSON_AddStringToObject(object, name, r == 0 ? (const char *)buf_data(&text) : "");
	buf_done(&text);
}

static void
add_named(cJSON *object, const char *stream, const char *suffix, cJSON *value)
{
	char name[48];

	(void)snprintf(name, sizeof(name), "%s%s", stream, suffix);
	(void)cJSON_AddItemToObject(object, name, value);
}

static const char *
encoding_name(const struct output_view *v)
{
	if (!v->utf8)
		return "base64";
	return v->hidden ? "escaped" : "utf-8";
}

static void
add_stream(cJSON *object, const char *stream, const struct output_view *v)
{
	char name[48];

	add_part(object, stream, v->head, v->head_len, v);
	if (v->omitted > 0) {
		(void)snprintf(name, sizeof(name), "%s_tail", stream);
		add_part(object, name, v->tail, v->tail_len, v);
		(void)snprintf(name, sizeof(name), "%s_omitted_bytes", stream);
		result_add_count(object, name, v->omitted);
	}
	add_named(object, stream, "_encoding", cJSON_CreateString(encoding_name(v)));
	(void)snprintf(name, sizeof(name), "%s_bytes", stream);
	result_add_count(object, name, v->bytes);
	add_named(object, stream, "_truncated", cJSON_CreateBool(v->omitted > 0));
}

void
result_add_streams(struct cJSON *object, struct call *c, const struct ipc_call_ended *ended)
{
	struct output_view none = {.head = (const uint8_t *)"", .utf8 = true}, view = none;
	struct guest_g_exit guest = {.how = 0};

	(void)result_exit(ended, &guest);
	if (c != NULL)
		output_view(&c->out[0], guest.stdout_bytes, guest.stdout_dropped, &view);
	add_stream(object, "stdout", &view);
	view = none;
	if (c != NULL)
		output_view(&c->out[1], guest.stderr_bytes, guest.stderr_dropped, &view);
	add_stream(object, "stderr", &view);
}

void
result_add_text(struct cJSON *object, const char *name, const uint8_t *s, size_t n)
{
	struct output_view v = {.head = s, .head_len = n};

	v.utf8 = text_scan(s, n, &v.hidden);
	add_part(object, name, s, n, &v);
	add_named(object, name, "_encoding", cJSON_CreateString(encoding_name(&v)));
}

bool
result_exit(const struct ipc_call_ended *ended, struct guest_g_exit *ret)
{
	return ended->guest.len > 0 &&
	       guest_get_g_exit(ended->guest.data, ended->guest.len, ret) == 0;
}

/* ---- the run ---- */

enum run_status
result_known(uint32_t status)
{
	return status < RUN_STATUS_COUNT ? (enum run_status)status : RUN_internal;
}

void
result_add_visible(struct cJSON *object, const char *name, const char *s, size_t n)
{
	struct buf shown;

	buf_init(&shown, n * VISIBLE_GROWTH + 1);
	(void)text_append_visible(&shown, (const uint8_t *)s, n);
	(void)buf_append(&shown, "", 1);
	(void)cJSON_AddStringToObject(object, name, (const char *)buf_data(&shown));
	buf_done(&shown);
}

static void
add_status(cJSON *object, enum run_status status, const struct ipc_str *said)
{
	(void)cJSON_AddStringToObject(object, "status", run_status_name(status));
	if (said != NULL && said->len > 0)
		result_add_visible(object, "message", said->data, said->len);
	else
		(void)cJSON_AddStringToObject(object, "message", run_status_advice(status));
}

struct cJSON *
result_status(enum run_status status, const struct ipc_str *said)
{
	cJSON *object = cJSON_CreateObject();

	add_status(object, status, said);
	return object;
}

static void
add_exit(cJSON *object, enum run_status status, const struct ipc_call_ended *ended,
	 const struct guest_g_exit *guest)
{
	/* an exit code only where the program exited by itself */
	bool exited = guest != NULL && guest->how == EXIT_EXITED && ended->signal == 0;
	bool signaled = guest != NULL && ended->signal != 0;
	const char *abbrev =
		signaled && ended->signal < 65 ? sigabbrev_np((int)ended->signal) : NULL;
	char name[32];

	add_count_if(object, "exit_code", exited && status != RUN_timed_out, ended->exit_code);
	add_count_if(object, "signal", signaled, ended->signal);
	(void)snprintf(name, sizeof(name), "SIG%s", abbrev == NULL ? "" : abbrev);
	if (abbrev != NULL)
		(void)cJSON_AddStringToObject(object, "signal_name", name);
	else
		(void)cJSON_AddNullToObject(object, "signal_name");
}

static const char *
start_name(const struct call *c, const struct guest_g_exit *guest)
{
	static const char *const names[] = {
		[START_WARM] = "warm", [START_LIVE] = "live", [START_COLD] = "cold"};
	uint32_t start;

	if (c == NULL || c->grant.run_id[0] == '\0')
		return NULL;
	start = c->grant.start;
	/* in a ready box the guest knows whether the waiting interpreter took it */
	if (start != START_COLD && guest != NULL &&
	    (guest->start == START_WARM || guest->start == START_LIVE))
		start = guest->start;
	return start < ARRAY_LEN(names) ? names[start] : NULL;
}

static void
add_guest(cJSON *object, const struct guest_g_exit *guest)
{
	cJSON *item;

	if (guest == NULL) {
		(void)cJSON_AddNullToObject(object, "guest");
		return;
	}
	item = cJSON_AddObjectToObject(object, "guest");
	result_add_milli(item, "cpu_ms", guest->cpu_us);
	result_add_count(item, "max_rss_bytes", guest->max_rss_bytes);
}

void
result_add_limits(struct cJSON *object, const struct call *c)
{
	cJSON *item = cJSON_AddObjectToObject(object, "limits");

	if ((c->flags & CALL_STAYS) == 0)
		result_add_count(item, "timeout_ms", c->grant.timeout_ms);
	result_add_count(item, "memory_bytes", c->grant.memory_bytes);
	result_add_milli(item, "cpus", c->grant.cpus_milli);
	result_add_count(item, "pids", c->grant.pids);
	result_add_count(item, "workspace_bytes", c->grant.workspace_bytes);
	result_add_count(item, "tmp_bytes", c->grant.tmp_bytes);
}

static void
add_grant(cJSON *object, const struct call *c)
{
	if (c == NULL || c->grant.run_id[0] == '\0') {
		(void)cJSON_AddNullToObject(object, "limits");
		(void)cJSON_AddNullToObject(object, "run_id");
		return;
	}
	result_add_limits(object, c);
	(void)cJSON_AddStringToObject(object, "run_id", c->grant.run_id);
}

struct cJSON *
result_run(struct call *c, const struct ipc_call_ended *ended)
{
	enum run_status status = result_known(ended->status);
	struct guest_g_exit exit_figures, *guest = NULL;
	cJSON *object = result_status(status, &ended->message);
	const char *start;

	if (result_exit(ended, &exit_figures))
		guest = &exit_figures;
	add_exit(object, status, ended, guest);
	result_add_streams(object, c, ended);
	(void)cJSON_AddBoolToObject(object, "timed_out", status == RUN_timed_out);
	add_milli_if(object, "duration_ms", ended->duration_us > 0, ended->duration_us);
	add_count_if(object, "queue_ms", c != NULL && c->grant.run_id[0] != '\0',
		     c == NULL ? 0 : c->grant.queue_ms);
	start = start_name(c, guest);
	if (start != NULL)
		(void)cJSON_AddStringToObject(object, "start", start);
	else
		(void)cJSON_AddNullToObject(object, "start");
	add_milli_if(object, "cpu_ms", (ended->have & FIG_CPU) != 0, ended->cpu_us);
	add_count_if(object, "peak_memory_bytes", (ended->have & FIG_PEAK) != 0, ended->peak_bytes);
	add_count_if(object, "baseline_bytes", (ended->have & FIG_CURRENT) != 0,
		     ended->baseline_bytes);
	add_guest(object, guest);
	add_grant(object, c);
	if (ended->retry_ms > 0)
		result_add_count(object, "retry_after_ms", ended->retry_ms);
	return object;
}

void
result_send_run(struct frontend *fe, const struct reply_to *to, struct call *c,
		const struct ipc_call_ended *ended)
{
	result_send(fe, to, result_run(c, ended), NULL,
		    run_status_is_error(result_known(ended->status)));
}

/* ---- the tool result around it ---- */

void
result_finish(struct cJSON *result, enum mcp_rev rev)
{
	cJSON *meta, *server;

	if (rev != REV_2026_07_28)
		return;
	(void)cJSON_AddStringToObject(result, "resultType", "complete");
	meta = cJSON_AddObjectToObject(result, "_meta");
	server = cJSON_AddObjectToObject(meta, "io.modelcontextprotocol/serverInfo");
	(void)cJSON_AddStringToObject(server, "name", "bailey");
	(void)cJSON_AddStringToObject(server, "version", BAILEY_VERSION);
}

void
result_add_raw(struct cJSON *object, const char *name, struct buf *b)
{
	cJSON *item = cJSON_CreateNull();

	if (item == NULL || buf_append(b, "", 1) < 0) {
		cJSON_Delete(item);
		buf_done(b);
		return;
	}
	item->type = cJSON_Raw;
	item->valuestring = (char *)b->data; /* cJSON frees it: both use malloc */
	*b = (struct buf){.max = b->max};
	(void)cJSON_AddItemToObject(object, name, item);
}

static cJSON *
text_content(cJSON *result, const char *text)
{
	cJSON *content = cJSON_AddArrayToObject(result, "content");
	cJSON *block = cJSON_CreateObject();
	size_t n = strlen(text);
	struct buf json;

	(void)cJSON_AddStringToObject(block, "type", "text");
	buf_init(&json, n * JSON_GROWTH + 3);
	if (text_append_json(&json, (const uint8_t *)text, n) == 0)
		result_add_raw(block, "text", &json);
	buf_done(&json);
	(void)cJSON_AddItemToArray(content, block);
	return content;
}

/* Blocks younger than the revision are left out; what they say also stands in the structure. */
static void
add_blocks(cJSON *content, cJSON *blocks, enum mcp_rev rev)
{
	cJSON *block;

	while ((block = cJSON_DetachItemFromArray(blocks, 0)) != NULL) {
		const cJSON *type = cJSON_GetObjectItemCaseSensitive(block, "type");

		if (rev < REV_2025_06_18 && strcmp(type->valuestring, "resource_link") == 0)
			cJSON_Delete(block);
		else
			(void)cJSON_AddItemToArray(content, block);
	}
	cJSON_Delete(blocks);
}

static cJSON *
refusal(const struct reply_to *to, const char *why)
{
	cJSON *result = cJSON_CreateObject();

	(void)text_content(result, why);
	(void)cJSON_AddTrueToObject(result, "isError");
	result_finish(result, to->rev);
	return result;
}

/* JSON text, and the same as a string in JSON. */
static size_t
said_twice(const char *text)
{
	size_t n = 0, more = 0;

	for (; text[n] != '\0'; n++)
		more += text[n] == '"' || text[n] == '\\';
	return 2 * n + more;
}

/* Takes structured and blocks. */
static cJSON *
tool_result(const struct reply_to *to, cJSON *structured, cJSON *blocks, bool is_error)
{
	char *text = cJSON_PrintUnformatted(structured);
	cJSON *result, *content;
	struct buf raw = {.max = SIZE_MAX};

	cJSON_Delete(structured);
	/* what was asked for is within its limits, but hostile bytes are many once visible */
	if (text != NULL && said_twice(text) > ANSWER_MAX) {
		free(text);
		cJSON_Delete(blocks);
		return refusal(to, "The answer would be longer than clients take. Ask for less at "
				   "once: a smaller length or limit, a part of the directory.");
	}
	result = cJSON_CreateObject();
	content = text_content(result, text == NULL ? "" : text);
	if (blocks != NULL)
		add_blocks(content, blocks, to->rev);
	/* printed once: a file's bytes may be many */
	if (text != NULL) {
		raw.data = (uint8_t *)text;
		raw.len = strlen(text);
		raw.cap = raw.len + 1;
	}
	if (to->rev >= REV_2025_06_18 && text != NULL)
		result_add_raw(result, "structuredContent", &raw);
	buf_done(&raw);
	(void)cJSON_AddBoolToObject(result, "isError", is_error);
	result_finish(result, to->rev);
	return result;
}

void
result_send(struct frontend *fe, const struct reply_to *to, struct cJSON *structured,
	    struct cJSON *blocks, bool is_error)
{
	rpc_send_result(fe, to, tool_result(to, structured, blocks, is_error));
}

void
result_send_bytes(struct frontend *fe, const struct reply_to *to, struct cJSON *structured,
		  const char *name, const uint8_t *data, size_t n)
{
	(void)cJSON_AddRawToObject(structured, name, "\"" RPC_HOLE "\"");
	rpc_send_result_filled(fe, to, tool_result(to, structured, NULL, false), data, n);
}

void
result_send_cacheable(struct frontend *fe, const struct reply_to *to, struct cJSON *result,
		      uint64_t ttl_ms, bool own)
{
	if (to->rev == REV_2026_07_28) {
		result_add_count(result, "ttlMs", ttl_ms);
		(void)cJSON_AddStringToObject(result, "cacheScope", own ? "private" : "public");
	}
	result_finish(result, to->rev);
	rpc_send_result(fe, to, result);
}

void
result_send_refusal(struct frontend *fe, const struct reply_to *to, const char *why)
{
	rpc_send_result(fe, to, refusal(to, why));
}
