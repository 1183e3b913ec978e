/*
 * frontend/jsonrpc.c - JSON-RPC 2.0 messages: read, built, sent, batched.
 * Runs in: bailey-frontend.
 * Input: text that passed jsonlint.c; still untrusted.
 * Owns: the batches whose answers are not all in.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define ID_NUMBER_MAX 9007199254740991.0 /* 2^53 - 1: 2^53 is also what 2^53 + 1 is read as */
#define ERROR_TEXT_MAX 512u

struct rpc_batch {
	uint64_t no;
	size_t open;        /* elements without an answer yet */
	enum mcp_rev rev;   /* its answers are written in */
	struct buf answers; /* joined by commas */
	struct rpc_batch *next;
};

/* ---- read ---- */

struct cJSON *
rpc_parse(const char *text, size_t len)
{
	/* the length counts the NUL that must end the text */
	return cJSON_ParseWithLengthOpts(text, len + 1, NULL, true);
}

int
rpc_read_id(const struct cJSON *item, struct rpc_id *ret)
{
	size_t n;

	if (cJSON_IsString(item)) {
		n = strlen(item->valuestring);
		if (n > RPC_ID_MAX)
			return -EINVAL;
		ret->kind = RPC_ID_STRING;
		memcpy(ret->text, item->valuestring, n + 1);
		return 0;
	}
	if (!cJSON_IsNumber(item) || item->valuedouble > ID_NUMBER_MAX ||
	    item->valuedouble < -ID_NUMBER_MAX ||
	    item->valuedouble != (double)(int64_t)item->valuedouble)
		return -EINVAL;
	ret->kind = RPC_ID_NUMBER;
	ret->number = (int64_t)item->valuedouble;
	return 0;
}

bool
rpc_id_equal(const struct rpc_id *a, const struct rpc_id *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == RPC_ID_STRING)
		return strcmp(a->text, b->text) == 0;
	return a->kind == RPC_ID_NONE || a->number == b->number;
}

struct cJSON *
rpc_id_json(const struct rpc_id *id)
{
	char digits[32];

	if (id->kind == RPC_ID_STRING)
		return cJSON_CreateString(id->text);
	if (id->kind == RPC_ID_NONE)
		return cJSON_CreateNull();
	(void)snprintf(digits, sizeof(digits), "%lld", (long long)id->number);
	return cJSON_CreateRaw(digits);
}

static int
invalid(int *ret_code, int code, const char **ret_why, const char *why)
{
	*ret_code = code;
	*ret_why = why;
	return -EINVAL;
}

int
rpc_read(const struct cJSON *json, struct rpc_message *ret, int *ret_code, const char **ret_why)
{
	const cJSON *id, *version, *method, *params;

	*ret = (struct rpc_message){.kind = RPC_KIND_NOTIFICATION};
	if (!cJSON_IsObject(json))
		return invalid(ret_code, RPC_REQUEST, ret_why, "a message must be an object");
	id = cJSON_GetObjectItemCaseSensitive(json, "id");
	version = cJSON_GetObjectItemCaseSensitive(json, "jsonrpc");
	method = cJSON_GetObjectItemCaseSensitive(json, "method");
	params = cJSON_GetObjectItemCaseSensitive(json, "params");
	if (id != NULL) {
		ret->kind = RPC_KIND_REQUEST;
		if (rpc_read_id(id, &ret->id) < 0 && method != NULL)
			return invalid(ret_code, RPC_REQUEST, ret_why,
				       "id must be a string of at most 128 bytes or a whole number "
				       "below 2^53");
	}
	if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0)
		return invalid(ret_code, RPC_REQUEST, ret_why, "jsonrpc must be \"2.0\"");
	if (method == NULL && (cJSON_GetObjectItemCaseSensitive(json, "result") != NULL ||
			       cJSON_GetObjectItemCaseSensitive(json, "error") != NULL)) {
		ret->kind = RPC_KIND_RESPONSE;
		return 0;
	}
	if (method == NULL || !cJSON_IsString(method))
		return invalid(ret_code, RPC_REQUEST, ret_why, "method must be a string");
	ret->method = method->valuestring;
	if (cJSON_IsNull(params))
		params = NULL;
	if (params != NULL && !cJSON_IsObject(params))
		return invalid(ret_code, RPC_PARAMS, ret_why, "params must be an object");
	ret->params = params;
	return 0;
}

/* ---- batches ---- */

static struct rpc_batch **
batch_slot(struct frontend *fe, uint64_t no)
{
	struct rpc_batch **at = &fe->batches;

	while (*at != NULL && (*at)->no != no)
		at = &(*at)->next;
	return at;
}

uint64_t
rpc_batch_open(struct frontend *fe, size_t elements, enum mcp_rev rev)
{
	struct rpc_batch *batch = xcalloc(1, sizeof(*batch));

	batch->no = ++fe->last_batch;
	batch->open = elements;
	batch->rev = rev;
	buf_init(&batch->answers, SEND_QUEUE_MAX);
	batch->next = fe->batches;
	fe->batches = batch;
	return batch->no;
}

static void
batch_free(struct rpc_batch *batch)
{
	buf_done(&batch->answers);
	free(batch);
}

void
rpc_batches_free(struct frontend *fe)
{
	while (fe->batches != NULL) {
		struct rpc_batch *batch = fe->batches;

		fe->batches = batch->next;
		batch_free(batch);
	}
}

static void
batch_close(struct frontend *fe, struct rpc_batch **at)
{
	struct rpc_batch *batch = *at;
	struct sent as = {.rev = batch->rev};

	*at = batch->next;
	/* the byte after the bracket is the transport's for the line end */
	if (buf_len(&batch->answers) > 0 && buf_append(&batch->answers, "]", 2) == 0)
		(void)transport_send(fe->transport, (char *)batch->answers.data,
				     buf_len(&batch->answers) - 1, &as);
	else
		transport_send_nothing(fe->transport, false);
	batch_free(batch);
}

/* One element has its answer, or has none. */
static void
batch_skip(struct frontend *fe, uint64_t no)
{
	struct rpc_batch **at = batch_slot(fe, no);

	if (*at != NULL && --(*at)->open == 0)
		batch_close(fe, at);
}

/* text[len] is the terminator. Batches together hold what one queue may hold; an answer past that
 * is sent on its own. */
static void
batch_add(struct frontend *fe, uint64_t no, char *text, size_t len)
{
	struct rpc_batch *batch = *batch_slot(fe, no);
	size_t held = len + 8; /* its comma, and the whole's end */
	uint8_t *room;

	if (batch == NULL)
		return;
	for (const struct rpc_batch *b = fe->batches; b != NULL; b = b->next)
		held += buf_len(&b->answers);
	if (held > SEND_QUEUE_MAX || buf_reserve(&batch->answers, len + 1, &room) < 0) {
		struct sent as = {.more = true, .rev = batch->rev};

		(void)transport_send(fe->transport, text, len, &as);
	} else {
		room[0] = buf_len(&batch->answers) == 0 ? '[' : ',';
		memcpy(room + 1, text, len);
		buf_commit(&batch->answers, len + 1);
	}
	batch_skip(fe, no);
}

/* ---- built and sent ---- */

/* Takes message; to is NULL for what belongs to no request. */
static void
send_json(struct frontend *fe, cJSON *message, const struct reply_to *to, const struct sent *as)
{
	cleanup_free char *text = cJSON_PrintUnformatted(message);

	cJSON_Delete(message);
	if (text == NULL) {
		log_error("no memory for an answer");
		if (!as->more)
			rpc_send_nothing(fe, to);
	} else if (!as->more && to->batch != 0) {
		batch_add(fe, to->batch, text, strlen(text));
	} else {
		(void)transport_send(fe->transport, text, strlen(text), as);
	}
}

void
rpc_send_nothing(struct frontend *fe, const struct reply_to *to)
{
	if (to->batch != 0)
		batch_skip(fe, to->batch);
	else
		transport_send_nothing(fe->transport, to->id.kind != RPC_ID_NONE);
}

static cJSON *
envelope(void)
{
	cJSON *message = cJSON_CreateObject();

	(void)cJSON_AddItemToObjectCS(message, "jsonrpc", cJSON_CreateStringReference("2.0"));
	return message;
}

static cJSON *
result_message(const struct reply_to *to, cJSON *result)
{
	cJSON *message = envelope();

	(void)cJSON_AddItemToObjectCS(message, "id", rpc_id_json(&to->id));
	(void)cJSON_AddItemToObjectCS(message, "result", result);
	return message;
}

void
rpc_send_result(struct frontend *fe, const struct reply_to *to, struct cJSON *result)
{
	struct sent as = {.rev = to->rev};

	send_json(fe, result_message(to, result), to, &as);
}

/* text with data in each hole: encoded once, then copied. */
static int
fill_holes(struct buf *line, const char *text, const uint8_t *data, size_t n)
{
	size_t digits = (n + 2) / 3 * 4, holes = 0, first = 0;
	uint8_t *room;
	int r;

	for (const char *at = text; (at = strstr(at, RPC_HOLE)) != NULL; at++)
		holes++;
	buf_init(line, strlen(text) + holes * digits + 1);
	r = buf_reserve(line, line->max, &room); /* from here on it does not move */
	while (r == 0 && *text != '\0') {
		size_t part = strcspn(text, RPC_HOLE);

		r = buf_append(line, text, part);
		text += part;
		if (r < 0 || *text == '\0')
			break;
		text++;
		r = first > 0 ? buf_append(line, line->data + first, digits)
			      : base64_append(line, data, n);
		if (first == 0)
			first = buf_len(line) - digits;
	}
	return r < 0 ? r : buf_append(line, "", 1); /* the line end's place */
}

void
rpc_send_result_filled(struct frontend *fe, const struct reply_to *to, struct cJSON *result,
		       const uint8_t *data, size_t n)
{
	cJSON *message = result_message(to, result);
	cleanup_free char *text = cJSON_PrintUnformatted(message);
	struct sent as = {.rev = to->rev};
	struct buf line = {0};

	cJSON_Delete(message);
	if (text == NULL || fill_holes(&line, text, data, n) < 0) {
		log_error("no memory for an answer");
		rpc_send_nothing(fe, to);
	} else if (to->batch != 0) {
		batch_add(fe, to->batch, (char *)line.data, buf_len(&line) - 1);
	} else {
		as.own = &line;
		(void)transport_send(fe->transport, (char *)line.data, buf_len(&line) - 1, &as);
	}
	buf_done(&line);
}

void
rpc_send_error(struct frontend *fe, const struct reply_to *to, int code, struct cJSON *data,
	       const char *fmt, ...)
{
	cJSON *message = envelope(), *error = cJSON_CreateObject();
	struct sent as = {.code = code, .refused = to->refused, .rev = to->rev};
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	/* a long text is cut; clang-tidy 14 does not see va_start.
	 * NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text[text_floor((const uint8_t *)text, strlen(text))] = '\0';
	/* an id that could not be read: none since 2025-11-25, null before */
	if (to->id.kind != RPC_ID_NONE || to->rev < REV_2025_11_25)
		(void)cJSON_AddItemToObjectCS(message, "id", rpc_id_json(&to->id));
	(void)cJSON_AddNumberToObject(error, "code", code);
	(void)cJSON_AddStringToObject(error, "message", text);
	if (data != NULL)
		(void)cJSON_AddItemToObjectCS(error, "data", data);
	(void)cJSON_AddItemToObjectCS(message, "error", error);
	send_json(fe, message, to, &as);
}

void
rpc_send_notification(struct frontend *fe, const struct reply_to *to, const char *method,
		      struct cJSON *params)
{
	cJSON *message = envelope();
	struct sent as = {.more = true, .alone = to == NULL};

	(void)cJSON_AddStringToObject(message, "method", method);
	(void)cJSON_AddItemToObjectCS(message, "params", params);
	send_json(fe, message, to, &as);
}

void
rpc_send_request(struct frontend *fe, const struct reply_to *to, const char *id, const char *method,
		 struct cJSON *params)
{
	cJSON *message = envelope();
	struct sent as = {.more = true};

	(void)cJSON_AddStringToObject(message, "id", id);
	(void)cJSON_AddStringToObject(message, "method", method);
	(void)cJSON_AddItemToObjectCS(message, "params", params);
	send_json(fe, message, to, &as);
}
