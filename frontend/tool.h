/*
 * frontend/tool.h - tools, resources, prompts: their tables, argument checks, results. Included by
 * frontend.h.
 */
#ifndef BAILEY_FRONTEND_TOOL_H
#define BAILEY_FRONTEND_TOOL_H

#include "call.h"

#define READ_MAX ((size_t)2 << 20) /* bytes of a file in one answer */
#define READ_DEFAULT ((size_t)256 << 10)
#define WRITE_MAX ((size_t)4 << 20) /* decoded */
#define DEPTH_MAX 8u
#define FILES_MAX 64u     /* files[] of a run */
#define ARTIFACTS_MAX 32u /* paths asked for; with what directories hold: COLLECT_MAX */
#define COLLECT_MAX 64u
#define LOG_MAX ((size_t)1 << 20)
#define LOG_DEFAULT ((size_t)32 << 10)
#define FILE_PATH_MAX 4095u

/* ---- schema.c: tools.def ---- */
enum tool_no {
#define TOOL(name, listed, serve, shape, hints, title, description) TOOL_##name,
#define ARG(tool, name, type, required, min, max, choices, help)
#include "tools.def"
#undef TOOL
#undef ARG
	TOOL_COUNT
};
enum tool_hint { HINT_READ_ONLY = 1, HINT_IDEMPOTENT = 2, HINT_DESTRUCTIVE = 4 };
enum tool_shape { /* of a result */
#define SHAPE(name) SHAPE_##name,
#define OUT(shape, name, type, nested, help)
#include "results.def"
#undef SHAPE
#undef OUT
		  SHAPE_COUNT
};
enum arg_type {
	ARG_STRING,  /* min..max bytes */
	ARG_CHOICE,  /* one word of choices */
	ARG_INTEGER, /* min..max */
	ARG_OFFSET,  /* a whole number, -max..max */
	ARG_NUMBER,  /* min..max thousandths */
	ARG_BOOLEAN,
	ARG_STRINGS, /* min..max strings */
	ARG_STRMAP,  /* object of strings, at most max */
	ARG_FILES,   /* at most max objects {path, content, encoding, mode} */
};
/* What a tool's arguments came with. */
struct tool_request {
	struct frontend *fe;
	const struct reply_to *to;
	const struct cJSON *args;   /* checked; NULL: none */
	const struct cJSON *params; /* of the request, arguments included */
	struct rpc_id token;        /* of progress */
};
struct tool_row {
	const char *name;
	bool listed;
	enum tool_shape shape;
	unsigned hints;
	const char *title, *description;
};
struct arg_row {
	enum tool_no tool;
	const char *name;
	enum arg_type type;
	bool required;
	uint64_t min, max;
	const char *choices; /* "a|b", "" where none */
	const char *help;
};
extern const struct tool_row tool_rows[TOOL_COUNT];
extern const struct arg_row arg_rows[];
extern const size_t arg_row_count;
/* The next argument row of a tool; cursor from 0; NULL at the end. */
const struct arg_row *arg_next(enum tool_no tool, size_t *cursor);
struct cJSON *schema_tool(enum tool_no tool, enum mcp_rev rev); /* one element of tools/list */
struct cJSON *schema_shape(enum tool_shape wanted);

/* ---- args.c: arguments against tools.def, and read once they are checked ---- */
/* -EINVAL with a sentence in why. */
int args_check(enum tool_no tool, const struct cJSON *args, struct buf *why);
const char *args_text(const struct cJSON *args, const char *name, const char *otherwise);
uint64_t args_milli(const struct cJSON *args, const char *name); /* 0 where it is not there */
uint64_t args_number(const struct cJSON *args, const char *name, uint64_t otherwise);
bool args_true(const struct cJSON *args, const char *name);
/* Octal digits, at most 0777. */
int args_mode(const char *text, uint32_t *ret);
/* text as encoding says ("utf8", "base64") appended to b: -EINVAL not base64, -ENOSPC past b. */
int args_content(const char *text, const char *encoding, struct buf *b);

/* ---- tools.c ---- */
void tools_call(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
/* A call about a sandbox (NULL: about none); NULL: it was answered already. */
struct call *tools_new_call(const struct tool_request *rq, enum tool_no tool,
			    const struct plan *plan, const char *sandbox);
/* Starts c, or answers why not where filling it failed (r < 0). */
void tools_start(const struct tool_request *rq, struct call *c, int r);
/* The words of tools.def's column `serve`. */
typedef void (*tool_server)(const struct tool_request *rq, enum tool_no tool);
void tool_health(const struct tool_request *rq, enum tool_no tool);
void tool_run(const struct tool_request *rq, enum tool_no tool);        /* execute.c */
void tool_exec(const struct tool_request *rq, enum tool_no tool);       /* sandboxes.c */
void tool_create(const struct tool_request *rq, enum tool_no tool);     /* … */
void tool_list(const struct tool_request *rq, enum tool_no tool);       /* … */
void tool_destroy(const struct tool_request *rq, enum tool_no tool);    /* … */
void tool_read_file(const struct tool_request *rq, enum tool_no tool);  /* files.c */
void tool_write_file(const struct tool_request *rq, enum tool_no tool); /* … */
void tool_list_files(const struct tool_request *rq, enum tool_no tool); /* … */
void tool_eval(const struct tool_request *rq, enum tool_no tool);       /* eval.c */
void tool_logs(const struct tool_request *rq, enum tool_no tool);       /* logs.c */

/* ---- specs.c: what a call is to run ---- */
/* Fills c's specification, limits and stdin from the arguments of a tool that runs something.
 * -E2BIG: the parts are too much together; -ENOBUFS: too much is in flight. */
int specs_fill(struct call *c, enum tool_no tool, const struct cJSON *args);
/* What gives args' env to all later runs of a sandbox, appended to b. -E2BIG. */
int specs_env(const struct cJSON *args, struct buf *b);
/* The same for a file of c->sandbox; path as the client gave it. */
struct file_spec {
	enum run_kind kind;
	const char *path;
	uint64_t offset, length;
	uint32_t mode, flags;
};
int specs_file(struct call *c, const struct file_spec *file);
/* An image of c's sandbox, made smaller by what the sandbox has for that: at most max bytes of
 * stdout. */
int specs_scale(struct call *c, const char *path, size_t max);
void specs_limits(struct call_limits *ask, const struct cJSON *args);
/* The sandbox an exchange is about; false when it is not even an id. */
bool specs_sandbox(struct call *c, const char *id);

/* ---- execute.c, sandboxes.c ---- */
extern const struct plan run_plan; /* one run, in whatever box c asks for */
/* Of a plan that lists sandboxes, its job an array of theirs. */
void sandboxes_list_done(void *job);
void sandboxes_list_again(struct call *c);

/* ---- files.c ---- */
struct file_fault {
	enum run_status status;
	struct ipc_str said; /* "" where the status says it all */
};
/* What became of a file's run: status ok, or what to tell. ret_size: the file's; may be NULL. */
struct file_fault files_fault(const struct ipc_call_ended *ended, uint64_t *ret_size);
/* The errno it ended with; 0: none is known. */
uint32_t files_errno(const struct ipc_call_ended *ended);
/* true: text without NUL. A sequence cut at the end is left out where more follows: *ret_len. */
bool files_is_text(const uint8_t *data, size_t len, bool more, size_t *ret_len);
/* Adds bytes as base64, or as the text they are. */
void
files_add_bytes(struct cJSON *object, const char *name, const uint8_t *data, size_t len, bool text);
struct list_cursor {
	const uint8_t *at, *end;
};
struct list_entry {
	char type;
	uint32_t mode;
	uint64_t size;
	int64_t mtime;
	const char *path; /* NUL-terminated, any bytes */
};
/* The next record of a listing; false at its end or at the first that breaks the form. */
bool files_next(struct list_cursor *cursor, struct list_entry *ret);

/* ---- collect.c: files a run left, as content blocks and artifacts[] ---- */
struct collect;
struct collect *collect_new(void);
void collect_free(struct collect *k);
/* A path to be read; sandbox: where it stays readable afterwards, "" nowhere. -ENOSPC past
 * COLLECT_MAX. */
int collect_add(struct collect *k, const char *path, const char *sandbox);
/* A step's begin and end. */
bool collect_begin(struct call *c, struct collect *k);
void collect_end(struct call *c, struct collect *k, const struct ipc_call_ended *ended);
/* Both are handed over, the list first; either may be empty. What was not read is in the list, and
 * that it was not. */
struct cJSON *collect_take_list(struct collect *k);
struct cJSON *collect_take_blocks(struct collect *k);
bool collect_truncated(const struct collect *k);
/* "image/png" and the like by the first bytes; NULL: no image that is shown. */
const char *collect_image_type(const uint8_t *data, size_t len);

/* ---- logs.c: kept output ---- */
struct log_state { /* what the answer to a log_read came to */
	struct buf data;
	uint64_t first, next; /* of data, in all the run wrote */
	bool any, gap;        /* more of it lies behind what was not kept */
	bool both;            /* which is wanted too: from gap_at on, gap_bytes are missing there */
	size_t gap_at;
	uint64_t gap_bytes;
	enum run_status status;
	char run_id[33], sandbox[SANDBOX_ID_LEN + 1];
	uint32_t exit_code, signal, cause;
	uint64_t started_ms, ended_ms, written, head, tail;
	char message[513];
};
void logs_init(struct log_state *s, size_t max);
void logs_again(struct log_state *s); /* as logs_init left it */
void logs_done(struct log_state *s);
void logs_row(struct log_state *s, const struct ipc_row *row);

/* ---- result.c ---- */
/* structuredContent of a run: ended as the broker said; c is NULL where there was no call. */
struct cJSON *result_run(struct call *c, const struct ipc_call_ended *ended);
void result_send_run(struct frontend *fe, const struct reply_to *to, struct call *c,
		     const struct ipc_call_ended *ended);
/* status and message, the first two of every shape. said NULL or empty: the status' advice. */
struct cJSON *result_status(enum run_status status, const struct ipc_str *said);
void result_add_streams(struct cJSON *object, struct call *c, const struct ipc_call_ended *ended);
/* One text as runs show it: name, and name_encoding when suffixed. */
void result_add_text(struct cJSON *object, const char *name, const uint8_t *s, size_t n);
void result_add_limits(struct cJSON *object, const struct call *c);
/* true: ended holds the guest's own report. */
bool result_exit(const struct ipc_call_ended *ended, struct guest_g_exit *ret);
enum run_status result_known(uint32_t status); /* an unknown number is internal */
/* Sends structured (taken) as a tool's result, with more content blocks (taken, NULL: none). */
void result_send(struct frontend *fe, const struct reply_to *to, struct cJSON *structured,
		 struct cJSON *blocks, bool is_error);
/* The same of what went well, with data as a string of base64 under that name. */
void result_send_bytes(struct frontend *fe, const struct reply_to *to, struct cJSON *structured,
		       const char *name, const uint8_t *data, size_t n);
void result_send_refusal(struct frontend *fe, const struct reply_to *to, const char *why);
/* Adds what b holds, JSON text, without a copy: b is empty afterwards. */
void result_add_raw(struct cJSON *object, const char *name, struct buf *b);
/* Adds resultType and serverInfo where the revision has them. */
void result_finish(struct cJSON *result, enum mcp_rev rev);
/* The same for a result a client may keep for ttl_ms; own: as long as it is the same caller. */
void result_send_cacheable(struct frontend *fe, const struct reply_to *to, struct cJSON *result,
			   uint64_t ttl_ms, bool own);
void result_add_milli(struct cJSON *object, const char *name, uint64_t thousandths); /* exact */
void result_add_count(struct cJSON *object, const char *name, uint64_t value);       /* exact */
void result_add_visible(struct cJSON *object, const char *name, const char *s, size_t n);

/* ---- health.c ---- */
void health_row(struct cJSON *health, const struct ipc_row *row);
struct cJSON *health_new(void);
extern const struct plan health_plan;

/* ---- notify.c: notifications/message, for those who asked ---- */
enum log_word {
	LOG_NONE,
	LOG_DEBUG,
	LOG_INFO,
	LOG_NOTICE,
	LOG_WARNING,
	LOG_ERROR,
	LOG_CRITICAL,
	LOG_ALERT,
	LOG_EMERGENCY,
	LOG_WORDS,
};
int notify_level(const struct cJSON *item, uint8_t *ret); /* -EINVAL: none of the eight words */
void notify_set_level(struct frontend *fe, const struct reply_to *to, const struct cJSON *params);
/* About a call: a line of text, sent when its request or connection asked for that level. */
void notify_call(const struct call *c, enum log_word level, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* ---- asks.c: requests of ours to a legacy client ---- */
enum client_can { CAN_SAMPLING = 1, CAN_ELICITATION = 2, CAN_ROOTS = 4 };
/* result NULL: the client answered with an error, or not in time. arg is free()d afterwards. */
typedef void (*ask_done)(struct frontend *fe, const struct reply_to *to, const struct cJSON *result,
			 void *arg);
uint32_t asks_capabilities(const struct cJSON *capabilities); /* enum client_can bits */
/* Takes params and arg. -ENOTSUP: the client did not say that it can, or the revision has no such
 * requests; -ENOBUFS: too many wait. done is not called then. */
int asks_send(struct frontend *fe, const struct reply_to *to, enum client_can need,
	      const char *method, struct cJSON *params, ask_done done, void *arg);
/* A response that came; one to another connection's request goes there. */
void asks_response(struct frontend *fe, const struct cJSON *json);
/* The same from another connection; untrusted text. */
void asks_text(struct frontend *fe, const char *text, size_t len);
void asks_free_all(struct frontend *fe);

#endif
