/*
 * frontend/resources.c - resources/list, templates/list, read, subscribe: resources.def.
 * Runs in: bailey-frontend.
 * Input: untrusted params and URIs; rows of the broker; bytes from sandboxes and runs.
 * Owns: the job of one read or list.
 *
 * A resource is another way to what inspect_logs and container_read_file give, by
 * the same steps; whose it is the broker knows. What is unknown, foreign or no
 * longer there is the same error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"
#ifdef BAILEY_CONFORMANCE
#include "fixtures.h"
#endif

#define LIST_MAX 256
#define TTL_MS 3600000u /* the templates change with the program only */
#define URI_MAX ((size_t)3 * FILE_PATH_MAX + 128)

typedef void (*resource_reader)(struct frontend *fe, const struct reply_to *to, const char *uri,
				const char *rest);

struct reading {
	char *uri, *path;
	struct log_state log;
	bool directory;
	enum run_status status;
};

/* ---- errors ---- */

static void
send_not_found(struct frontend *fe, const struct reply_to *to, const char *uri)
{
	cJSON *data = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(data, "uri", uri);
	rpc_send_error(fe, to, to->rev == REV_2026_07_28 ? RPC_PARAMS : RPC_RESOURCE, data,
		       "Resource not found");
}

/* Anything but an answer: what is gone is not found, the rest is a fault with its words. */
static void
send_fault(const struct call *c, const char *uri, const struct file_fault *fault)
{
	const char *advice = run_status_advice(fault->status);
	cJSON *data;

	if (fault->status == RUN_not_found) {
		send_not_found(c->fe, &c->to, uri);
		return;
	}
	data = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(data, "uri", uri);
	(void)cJSON_AddStringToObject(data, "status", run_status_name(fault->status));
	rpc_send_error(c->fe, &c->to, fault->status == RUN_denied ? RPC_PARAMS : RPC_INTERNAL, data,
		       "%.*s", fault->said.len > 0 ? (int)fault->said.len : (int)strlen(advice),
		       fault->said.len > 0 ? fault->said.data : advice);
}

static void
reading_done(void *job)
{
	struct reading *r = job;

	if (r == NULL)
		return;
	free(r->uri);
	free(r->path);
	logs_done(&r->log);
	free(r);
}

static void
send_busy(struct frontend *fe, const struct reply_to *to)
{
	rpc_send_error(fe, to, RPC_INTERNAL, NULL, "%s", run_status_advice(RUN_busy));
}

/* ---- bailey://runs/ID/STREAM ---- */

static void
run_row(struct call *c, const struct ipc_row *row)
{
	struct reading *r = c->job;

	logs_row(&r->log, row);
}

static void
run_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct reading *r = c->job;
	struct file_fault fault = {result_known(ended->status), {"", 0}};

	if (fault.status == RUN_ok && (r->log.status == RUN_not_found || r->log.run_id[0] == '\0'))
		fault.status = RUN_not_found;
	if (fault.status == RUN_ok)
		contents_send_output(c, r->uri, &r->log);
	else
		send_fault(c, r->uri, &fault);
}

static void
run_again(struct call *c)
{
	struct reading *r = c->job;

	logs_again(&r->log);
}

static const struct step run_steps[] = {
	{.submit = upcalls_log_read, .row = run_row, .again = run_again}};
static const struct plan run_reading = {run_steps, ARRAY_LEN(run_steps), run_answer, reading_done};

static void
resource_run(struct frontend *fe, const struct reply_to *to, const char *uri, const char *rest)
{
	const char *stream = strchr(rest, '/');
	bool known = stream != NULL &&
		     (strcmp(stream, "/stdout") == 0 || strcmp(stream, "/stderr") == 0);
	cleanup_free char *id = xstrndup(rest, known ? (size_t)(stream - rest) : 0);
	struct call *c = known ? call_new(fe, to, &run_reading) : NULL;
	struct reading *r;

	if (known && c == NULL) {
		send_busy(fe, to);
		return;
	}
	if (c == NULL || !specs_sandbox(c, id)) {
		if (c != NULL)
			call_free(c);
		send_not_found(fe, to, uri);
		return;
	}
	c->job = r = xcalloc(1, sizeof(*r));
	r->uri = xstrdup(uri);
	logs_init(&r->log, LOG_MAX);
	r->log.both = true;
	memcpy(c->log.id, c->sandbox, sizeof(c->log.id));
	c->log.stream = strcmp(stream, "/stderr") == 0 ? STREAM_STDERR : STREAM_STDOUT;
	c->log.limit = (uint32_t)LOG_MAX;
	if (call_hold(c, LOG_MAX) < 0) {
		call_free(c);
		send_busy(fe, to);
		return;
	}
	call_start(c);
}

/* ---- bailey://sandboxes/ID/files/PATH ---- */

void
resources_file_uri(struct buf *b, const char *sandbox, const char *path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "-._~/:@!$&'()*+,;=";

	(void)buf_printf(b, "bailey://sandboxes/%s/files/", sandbox);
	for (; *path != '\0'; path++) {
		if (strchr(plain, *path) != NULL)
			(void)buf_append(b, path, 1);
		else
			(void)buf_printf(b, "%%%02X", (unsigned)(uint8_t)*path);
	}
}

/* The other way: NULL for a % that no two hex digits follow, or a NUL. */
static char *
decode_path(const char *text)
{
	char *path = xstrdup(text), *to = path;

	for (const char *at = text; *at != '\0'; at++) {
		uint8_t byte = (uint8_t)*at;

		if (*at == '%') {
			if (strnlen(at, 3) < 3 || hex_decode(&byte, 1, at + 1, 2) < 0 ||
			    byte == 0) {
				free(path);
				return NULL;
			}
			at += 2;
		}
		*to++ = (char)byte;
	}
	*to = '\0';
	return path;
}

static bool
file_end(struct call *c, const struct ipc_call_ended *ended)
{
	struct reading *r = c->job;

	r->directory = files_errno(ended) == EISDIR;
	return r->directory; /* else it is the answer */
}

static bool
listing_begin(struct call *c)
{
	struct reading *r = c->job;

	output_init_whole(&c->out[0], READ_MAX);
	return specs_file(c, &(struct file_spec){
				     .kind = RUN_FILE_LIST, .path = r->path, .length = 1}) == 0;
}

static bool
listing_end(struct call *c, const struct ipc_call_ended *ended)
{
	(void)c;
	(void)ended;
	return false; /* one listing */
}

static void
send_listing(const struct call *c, const struct reading *r)
{
	struct list_cursor cursor = {.at = buf_data(&c->out[0].head)};
	struct list_entry entry;
	struct buf text;

	cursor.end = cursor.at + buf_len(&c->out[0].head);
	buf_init(&text, READ_MAX);
	while (files_next(&cursor, &entry)) {
		(void)buf_printf(&text, "%c %llu ", entry.type, (unsigned long long)entry.size);
		(void)text_append_visible(&text, (const uint8_t *)entry.path, strlen(entry.path));
		(void)buf_append(&text, "\n", 1);
	}
	contents_send(c, r->uri, buf_data(&text), buf_len(&text));
	buf_done(&text);
}

static void
file_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct reading *r = c->job;
	uint64_t size = 0;
	struct file_fault fault = files_fault(ended, &size);
	const struct output *o = &c->out[0];

	if (fault.status == RUN_ok && !r->directory && size > READ_MAX)
		fault = (struct file_fault){
			RUN_denied, IPC_STR("The file has more than 2 MiB. Read it in parts with "
					    "container_read_file.")};
	if (fault.status != RUN_ok)
		send_fault(c, r->uri, &fault);
	else if (r->directory)
		send_listing(c, r);
	else
		contents_send(c, r->uri, buf_data(&o->head), buf_len(&o->head));
}

static const struct step file_steps[] = {
	{.flags = STEP_RUN, .submit = upcalls_submit, .end = file_end},
	{.flags = STEP_RUN, .begin = listing_begin, .submit = upcalls_submit, .end = listing_end},
};
static const struct plan file_reading = {file_steps, ARRAY_LEN(file_steps), file_answer,
					 reading_done};

static void
resource_file(struct frontend *fe, const struct reply_to *to, const char *uri, const char *rest)
{
	const char *after = strchr(rest, '/');
	cleanup_free char *id = xstrndup(rest, after == NULL ? 0 : (size_t)(after - rest));
	struct reading *r;
	struct call *c;
	int e;

	if (after == NULL || strncmp(after, "/files/", 7) != 0) {
		send_not_found(fe, to, uri);
		return;
	}
	c = call_new(fe, to, &file_reading);
	if (c == NULL) {
		send_busy(fe, to);
		return;
	}
	c->job = r = xcalloc(1, sizeof(*r));
	r->uri = xstrdup(uri);
	r->path = decode_path(after + 7);
	output_init_whole(&c->out[0], READ_MAX);
	e = r->path == NULL || !specs_sandbox(c, id) ? -ENOENT : call_hold(c, READ_MAX);
	if (e == 0 &&
	    specs_file(c, &(struct file_spec){
				  .kind = RUN_FILE_READ, .path = r->path, .length = READ_MAX}) < 0)
		e = -ENOENT;
	if (e == 0) {
		call_start(c);
		return;
	}
	call_free(c);
	if (e == -ENOENT)
		send_not_found(fe, to, uri);
	else
		send_busy(fe, to);
}

/* ---- the table ---- */

static const struct {
	const char *uri, *name, *title, *description, *mime;
	resource_reader read;
} resource_rows[] = {
	{NULL, NULL, NULL, NULL, NULL, NULL}, /* fixtures may follow */
#define RESOURCE(uri, name, title, description, mime, read) \
	{uri, name, title, description, mime, resource_##read},
#define TEMPLATE(template, prefix, name, title, description, mime, read)
#include "resources.def"
#undef RESOURCE
#undef TEMPLATE
};

static const struct {
	const char *template, *prefix, *name, *title, *description, *mime;
	resource_reader read;
} template_rows[] = {
#define RESOURCE(uri, name, title, description, mime, read)
#define TEMPLATE(template, prefix, name, title, description, mime, read) \
	{template, prefix, name, title, description, mime, resource_##read},
#include "resources.def"
#undef RESOURCE
#undef TEMPLATE
};

static cJSON *
describe(const char *kind, const char *uri, const char *name, const char *title,
	 const char *description, const char *mime, enum mcp_rev rev)
{
	cJSON *item = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(item, kind, uri);
	(void)cJSON_AddStringToObject(item, "name", name);
	if (rev >= REV_2025_06_18)
		(void)cJSON_AddStringToObject(item, "title", title);
	(void)cJSON_AddStringToObject(item, "description", description);
	(void)cJSON_AddStringToObject(item, "mimeType", mime);
	return item;
}

void
resources_templates(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	cJSON *result, *list;

	if (mcp_cursor_refused(fe, to, params))
		return;
	result = cJSON_CreateObject();
	list = cJSON_AddArrayToObject(result, "resourceTemplates");
	for (size_t i = 0; i < ARRAY_LEN(template_rows); i++)
		(void)cJSON_AddItemToArray(list,
					   describe("uriTemplate", template_rows[i].template,
						    template_rows[i].name, template_rows[i].title,
						    template_rows[i].description,
						    template_rows[i].mime, to->rev));
	result_send_cacheable(fe, to, result, TTL_MS, false);
}

/* NULL: there was an error, and it was sent. */
static const char *
uri_of(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const cJSON *uri = cJSON_GetObjectItemCaseSensitive(params, "uri");

	if (cJSON_IsString(uri) && strlen(uri->valuestring) <= URI_MAX)
		return uri->valuestring;
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.uri must be a string of at most %zu bytes",
		       URI_MAX);
	return NULL;
}

void
resources_read(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const char *uri = uri_of(fe, to, params);

	if (uri == NULL)
		return;
	if (call_find_id(fe, &to->id) != NULL) {
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "a request with this id is in flight");
		return;
	}
	for (size_t i = 1; i < ARRAY_LEN(resource_rows); i++) {
		if (strcmp(resource_rows[i].uri, uri) == 0) {
			resource_rows[i].read(fe, to, uri, "");
			return;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(template_rows); i++) {
		size_t n = strlen(template_rows[i].prefix);

		if (strncmp(uri, template_rows[i].prefix, n) == 0) {
			template_rows[i].read(fe, to, uri, uri + n);
			return;
		}
	}
	send_not_found(fe, to, uri);
}

/* Taken note of; nothing of ours tells that it changed, and no capability says so. */
void
resources_subscribe(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	if (uri_of(fe, to, params) != NULL)
		rpc_send_result(fe, to, cJSON_CreateObject());
}

/* ---- the list: what the caller's sandboxes offer ---- */

static void
add_entry(cJSON *list, const struct call *c, const char *sandbox, const char *stream)
{
	cleanup_free char *uri = xasprintf("bailey://runs/%s/%s", sandbox, stream);
	cleanup_free char *name = xasprintf("%s of %s", stream, sandbox);
	cleanup_free char *title = xasprintf("%s of the newest run in sandbox %s", stream, sandbox);

	(void)cJSON_AddItemToArray(
		list, describe("uri", uri, name, title, title, "text/plain", c->to.rev));
}

static void
list_row(struct call *c, const struct ipc_row *row)
{
	const struct ipc_sandbox_row *r = &row->u.sandbox_row;
	char id[SANDBOX_ID_LEN + 1];
	struct buf uri;

	if (row->num != IPC_NUM_sandbox_row || cJSON_GetArraySize(c->job) >= LIST_MAX ||
	    str_copy(id, sizeof(id), r->sandbox.data, r->sandbox.len) < 0)
		return;
	add_entry(c->job, c, id, "stdout");
	add_entry(c->job, c, id, "stderr");
	if (r->alive == 0)
		return;
	buf_init(&uri, 256);
	resources_file_uri(&uri, id, "/workspace");
	(void)buf_append(&uri, "", 1);
	(void)cJSON_AddItemToArray(c->job,
				   describe("uri", (const char *)buf_data(&uri), "workspace",
					    "Files of a sandbox", "What is in /workspace",
					    "text/plain", c->to.rev));
	buf_done(&uri);
}

/* What cannot be asked now is an empty list: many clients list before they need anything. */
static void
list_answer(struct call *c, const struct ipc_call_ended *ended)
{
	cJSON *result = cJSON_CreateObject();

	(void)ended;
	(void)cJSON_AddItemToObject(result, "resources", TAKE(c->job));
	result_send_cacheable(c->fe, &c->to, result, 0, true);
}

static const struct step list_steps[] = {
	{.submit = upcalls_list, .row = list_row, .again = sandboxes_list_again}};
static const struct plan list_plan = {list_steps, ARRAY_LEN(list_steps), list_answer,
				      sandboxes_list_done};

void
resources_list(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	struct call *c;

	if (mcp_cursor_refused(fe, to, params))
		return;
	if (call_find_id(fe, &to->id) != NULL) {
		rpc_send_error(fe, to, RPC_REQUEST, NULL, "a request with this id is in flight");
		return;
	}
	c = call_new(fe, to, &list_plan);
	if (c == NULL) {
		send_busy(fe, to);
		return;
	}
	c->job = cJSON_CreateArray();
	for (size_t i = 1; i < ARRAY_LEN(resource_rows); i++)
		(void)cJSON_AddItemToArray(
			c->job, describe("uri", resource_rows[i].uri, resource_rows[i].name,
					 resource_rows[i].title, resource_rows[i].description,
					 resource_rows[i].mime, to->rev));
	call_start(c);
}
