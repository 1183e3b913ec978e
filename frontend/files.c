/*
 * frontend/files.c - files of a sandbox that stays: read, written, listed.
 * Runs in: bailey-frontend.
 * Input: checked arguments; bytes, sizes and listings from a sandbox, untrusted in every way.
 * Owns: the job of one such call.
 *
 * A file is moved by a run of its own kind (guest_stream.h): bytes read come on
 * stdout, bytes to write go to stdin, the exit code is 0 or an errno.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define LISTING_MAX ((size_t)2 << 20)
#define ENTRIES_MAX 1000u

struct file_job {
	char *path, *encoding;
	uint64_t offset, length;
};

static void
file_done(void *job)
{
	struct file_job *f = job;

	if (f == NULL)
		return;
	free(f->path);
	free(f->encoding);
	free(f);
}

/* ---- how it ended ---- */

static const struct {
	uint32_t error;
	enum run_status status;
	const char *message;
} faults[] = {
	{ENOENT, RUN_not_found, "There is no such file or directory."},
	{ENOTDIR, RUN_denied, "A part of the path is not a directory."},
	{EISDIR, RUN_denied, "This is a directory. List it with container_list_files."},
	{EACCES, RUN_denied, "The sandbox's user may not do this."},
	{EPERM, RUN_denied, "The sandbox's user may not do this."},
	{EROFS, RUN_denied, "This is outside the writable areas. Use /workspace or /tmp."},
	{EXDEV, RUN_denied,
	 "The path leads outside the writable areas. Use one under /workspace or /tmp."},
	{ELOOP, RUN_denied, "The path leads through a link that is not followed."},
	{EINVAL, RUN_denied, "This is not a regular file."},
	{ENXIO, RUN_denied, "This is not a regular file."},
	{ENODEV, RUN_denied, "This is not a regular file."},
	{ENAMETOOLONG, RUN_denied, "The path, or a name in it, is too long."},
	{ENOSPC, RUN_disk_full, ""},
	{EDQUOT, RUN_disk_full, ""},
	{EFBIG, RUN_disk_full, "The file would be larger than the sandbox allows."},
	{ETXTBSY, RUN_denied, "The file is a program that is running."},
	{EBUSY, RUN_busy, "Too much is going on in this sandbox. Try again later."},
	{EMFILE, RUN_busy, "Too much is going on in this sandbox. Try again later."},
	{ENOMEM, RUN_oom_killed, ""},
};

uint32_t
files_errno(const struct ipc_call_ended *ended)
{
	bool by_itself = ended->status == RUN_ok || ended->status == RUN_nonzero ||
			 ended->status == RUN_disk_full;
	struct guest_g_exit figures;

	if (!result_exit(ended, &figures) || (figures.flags & EXIT_TIMED_OUT) != 0)
		return 0;
	return by_itself || figures.how == EXIT_NOT_STARTED ? figures.exit_code : 0;
}

struct file_fault
files_fault(const struct ipc_call_ended *ended, uint64_t *ret_size)
{
	uint32_t error = files_errno(ended);
	struct guest_g_exit figures;

	if (error == 0) {
		enum run_status status = result_known(ended->status);

		if (status == RUN_ok && !result_exit(ended, &figures))
			status = RUN_internal;
		if (status == RUN_ok && ret_size != NULL)
			*ret_size = figures.size;
		return (struct file_fault){status, ended->message};
	}
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		if (faults[i].error == error)
			return (struct file_fault){faults[i].status, IPC_STR(faults[i].message)};
	}
	return (struct file_fault){RUN_denied, IPC_STR("The sandbox could not do this.")};
}

/* ---- bytes ---- */

bool
files_is_text(const uint8_t *data, size_t len, bool more, size_t *ret_len)
{
	size_t whole = more ? text_floor(data, len) : len;

	if ((whole == 0 && len > 0) || memchr(data, '\0', len) != NULL ||
	    !utf8_valid((const char *)data, whole))
		return false;
	*ret_len = whole;
	return true;
}

void
files_add_bytes(struct cJSON *object, const char *name, const uint8_t *data, size_t len, bool text)
{
	struct buf b;
	int r;

	/* as JSON text, not as a string of cJSON's: there may be much of it */
	buf_init(&b, text ? len * 6 + 3 : (len + 2) / 3 * 4 + 3);
	if (text) {
		r = text_append_json(&b, data, len);
	} else {
		r = buf_append(&b, "\"", 1);
		if (r == 0)
			r = base64_append(&b, data, len);
		if (r == 0)
			r = buf_append(&b, "\"", 1);
	}
	if (r == 0)
		result_add_raw(object, name, &b);
	buf_done(&b);
}

static cJSON *
file_object(const struct file_job *f, const struct file_fault *fault, bool known, uint64_t size,
	    uint64_t bytes)
{
	cJSON *object = result_status(fault->status, &fault->said);

	result_add_visible(object, "path", f->path, strlen(f->path));
	if (known)
		result_add_count(object, "size", size);
	else
		(void)cJSON_AddNullToObject(object, "size");
	result_add_count(object, "bytes", bytes);
	return object;
}

/* ---- read ---- */

static void
read_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct file_job *f = c->job;
	uint64_t size = 0;
	struct file_fault fault = files_fault(ended, &size);
	const uint8_t *data = buf_data(&c->out[0].head);
	size_t len = buf_len(&c->out[0].head), shown = len;
	bool more, text = false;
	cJSON *object;

	if (fault.status == RUN_ok && c->out[0].received > f->length)
		fault = (struct file_fault){RUN_internal,
					    IPC_STR("The sandbox sent more than was asked for.")};
	more = f->offset + len < size;
	if (strcmp(f->encoding, "base64") != 0)
		text = files_is_text(data, len, more, &shown);
	if (fault.status == RUN_ok && !text && strcmp(f->encoding, "utf8") == 0)
		fault = (struct file_fault){
			RUN_denied, IPC_STR("This part of the file is not UTF-8 text. Ask for "
					    "encoding base64.")};
	object = file_object(f, &fault, fault.status == RUN_ok, size,
			     fault.status == RUN_ok ? shown : 0);
	if (fault.status == RUN_ok) {
		result_add_count(object, "offset", f->offset);
		result_add_count(object, "next_offset", f->offset + shown);
		(void)cJSON_AddBoolToObject(object, "eof", f->offset + shown >= size);
		(void)cJSON_AddStringToObject(object, "encoding", text ? "utf8" : "base64");
		if (!text) {
			result_send_bytes(c->fe, &c->to, object, "content", data, shown);
			return;
		}
		files_add_bytes(object, "content", data, shown, text);
	}
	result_send(c->fe, &c->to, object, NULL, run_status_is_error(fault.status));
}

static const struct step file_steps[] = {{.flags = STEP_RUN, .submit = upcalls_submit}};
static const struct plan read_plan = {file_steps, ARRAY_LEN(file_steps), read_answer, file_done};

static struct file_job *
new_job(const struct tool_request *rq, const char *encoding)
{
	struct file_job *f = xcalloc(1, sizeof(*f));

	f->path = xstrdup(args_text(rq->args, "path", "/workspace"));
	f->encoding = xstrdup(args_text(rq->args, "encoding", encoding));
	f->offset = args_number(rq->args, "offset", 0);
	return f;
}

/* All that comes on stdout is wanted, up to max; -ENOBUFS: too much is in flight. */
static int
sink(struct call *c, size_t max)
{
	output_init_whole(&c->out[0], max);
	return call_hold(c, max);
}

void
tool_read_file(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c =
		tools_new_call(rq, tool, &read_plan, args_text(rq->args, "sandbox_id", ""));
	struct file_job *f;
	int r;

	if (c == NULL)
		return;
	c->job = f = new_job(rq, "auto");
	f->length = args_number(rq->args, "length", READ_DEFAULT);
	r = sink(c, f->length);
	if (r == 0)
		r = specs_file(c, &(struct file_spec){.kind = RUN_FILE_READ,
						      .path = f->path,
						      .offset = f->offset,
						      .length = f->length});
	tools_start(rq, c, r);
}

/* ---- written ---- */

static void
write_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct file_job *f = c->job;
	uint64_t size = 0;
	struct file_fault fault = files_fault(ended, &size);
	bool ok = fault.status == RUN_ok;

	result_send(c->fe, &c->to, file_object(f, &fault, ok, size, ok ? f->length : 0), NULL,
		    run_status_is_error(fault.status));
}

static const struct plan write_plan = {file_steps, ARRAY_LEN(file_steps), write_answer, file_done};

/* The bytes to write become the call's input: NULL, or what is wrong with the arguments. */
static const char *
take_content(struct call *c, const struct file_job *f, const cJSON *args, uint32_t *ret_mode)
{
	*ret_mode = 0;
	if (args_true(args, "append") && cJSON_GetObjectItemCaseSensitive(args, "offset") != NULL)
		return "Give either offset or append, not both.";
	if (args_text(args, "mode", NULL) != NULL &&
	    args_mode(args_text(args, "mode", ""), ret_mode) < 0)
		return "Argument \"mode\" must be octal digits up to 777, such as 755.";
	/* base64_decode wants room for whole groups */
	buf_done(&c->input);
	buf_init(&c->input, WRITE_MAX + 2);
	switch (args_content(args_text(args, "content", ""), f->encoding, &c->input)) {
	case 0:
		break;
	case -EINVAL:
		return "Argument \"content\" is not base64 (RFC 4648, padded, no line breaks).";
	default:
		return "Argument \"content\" has more than 4 MiB. Write it in parts, with append.";
	}
	if (buf_len(&c->input) > WRITE_MAX)
		return "Argument \"content\" has more than 4 MiB. Write it in parts, with append.";
	return NULL;
}

void
tool_write_file(const struct tool_request *rq, enum tool_no tool)
{
	bool append = args_true(rq->args, "append");
	bool part = cJSON_GetObjectItemCaseSensitive(rq->args, "offset") != NULL;
	struct call *c =
		tools_new_call(rq, tool, &write_plan, args_text(rq->args, "sandbox_id", ""));
	struct file_spec spec = {.kind = RUN_FILE_WRITE};
	struct file_job *f;
	const char *wrong;
	int r;

	if (c == NULL)
		return;
	c->job = f = new_job(rq, "utf8");
	wrong = take_content(c, f, rq->args, &spec.mode);
	if (wrong != NULL) {
		call_free(c);
		result_send_refusal(rq->fe, rq->to, wrong);
		return;
	}
	f->length = buf_len(&c->input);
	c->input_open = f->length > 0;
	spec.path = f->path;
	spec.offset = f->offset;
	spec.flags = (append ? (uint32_t)SPEC_APPEND
		      : part ? 0U
			     : (uint32_t)SPEC_TRUNCATE) |
		     (f->length > 0 ? (uint32_t)SPEC_STDIN : 0U);
	r = call_hold(c, f->length);
	tools_start(rq, c, r < 0 ? r : specs_file(c, &spec));
}

/* ---- listed ---- */

/* Digits of a base up to a space, which is consumed. */
static bool
number(struct list_cursor *cursor, uint64_t base, uint64_t *ret)
{
	const uint8_t *start = cursor->at;
	uint64_t value = 0;

	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at < '0' + base) {
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*cursor->at - '0'), &value))
			return false;
		cursor->at++;
	}
	if (cursor->at == start || cursor->at == cursor->end || *cursor->at != ' ')
		return false;
	cursor->at++;
	*ret = value;
	return true;
}

bool
files_next(struct list_cursor *cursor, struct list_entry *ret)
{
	const uint8_t *nul = cursor->at == cursor->end
				     ? NULL
				     : memchr(cursor->at, '\0', (size_t)(cursor->end - cursor->at));
	uint64_t mode, mtime;
	struct list_entry entry;
	bool negative;

	if (nul == NULL || nul - cursor->at < 2 || cursor->at[1] != ' ' ||
	    strchr("fdlo", cursor->at[0]) == NULL)
		return false;
	entry.type = (char)cursor->at[0];
	cursor->at += 2;
	if (!number(cursor, 8, &mode) || mode > 07777 || !number(cursor, 10, &entry.size))
		return false;
	negative = *cursor->at == '-';
	cursor->at += negative ? 1 : 0;
	if (!number(cursor, 10, &mtime) || mtime > INT64_MAX || cursor->at >= nul)
		return false;
	entry.mode = (uint32_t)mode;
	entry.mtime = negative ? -(int64_t)mtime : (int64_t)mtime;
	entry.path = (const char *)cursor->at;
	cursor->at = nul + 1;
	*ret = entry;
	return true;
}

/* Entries of a listing as JSON; true when there is more than they tell. */
static bool
add_entries(cJSON *list, struct call *c)
{
	struct list_cursor cursor = {.at = buf_data(&c->out[0].head)};
	struct list_entry entry;
	unsigned n = 0;

	cursor.end = cursor.at + buf_len(&c->out[0].head);
	for (; n < ENTRIES_MAX && files_next(&cursor, &entry); n++) {
		cJSON *item = cJSON_CreateObject();
		char text[32];

		(void)cJSON_AddItemToArray(list, item);
		result_add_visible(item, "path", entry.path, strlen(entry.path));
		(void)cJSON_AddStringToObject(item, "type",
					      entry.type == 'f'   ? "file"
					      : entry.type == 'd' ? "directory"
					      : entry.type == 'l' ? "symlink"
								  : "other");
		result_add_count(item, "size", entry.size);
		(void)snprintf(text, sizeof(text), "%o", entry.mode);
		(void)cJSON_AddStringToObject(item, "mode", text);
		(void)snprintf(text, sizeof(text), "%lld", (long long)entry.mtime);
		(void)cJSON_AddRawToObject(item, "modified", text);
	}
	return cursor.at != cursor.end || c->out[0].received > buf_len(&c->out[0].head);
}

static void
list_answer(struct call *c, const struct ipc_call_ended *ended)
{
	struct file_job *f = c->job;
	uint64_t found = 0;
	struct file_fault fault = files_fault(ended, &found);
	cJSON *list = cJSON_CreateArray(), *object;
	bool truncated = false;
	char words[120];

	if (fault.status == RUN_ok)
		truncated = add_entries(list, c);
	if (truncated) {
		(void)snprintf(words, sizeof(words),
			       "Only the first %d entries are shown. List a subdirectory, or less "
			       "depth.",
			       cJSON_GetArraySize(list));
		fault.said = IPC_STR(words);
	}
	object = result_status(fault.status, &fault.said);
	result_add_visible(object, "path", f->path, strlen(f->path));
	(void)cJSON_AddItemToObject(object, "entries", list);
	(void)cJSON_AddBoolToObject(object, "truncated", truncated);
	result_send(c->fe, &c->to, object, NULL, run_status_is_error(fault.status));
}

static const struct plan list_plan = {file_steps, ARRAY_LEN(file_steps), list_answer, file_done};

void
tool_list_files(const struct tool_request *rq, enum tool_no tool)
{
	struct call *c =
		tools_new_call(rq, tool, &list_plan, args_text(rq->args, "sandbox_id", ""));
	struct file_job *f;
	int r;

	if (c == NULL)
		return;
	c->job = f = new_job(rq, "");
	r = sink(c, LISTING_MAX);
	if (r == 0)
		r = specs_file(c, &(struct file_spec){.kind = RUN_FILE_LIST,
						      .path = f->path,
						      .length = args_number(rq->args, "depth", 1)});
	tools_start(rq, c, r);
}
