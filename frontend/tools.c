/*
 * frontend/tools.c - tools/call: the tool, its arguments against tools.def, and off it goes.
 * Runs in: bailey-frontend.
 * Input: untrusted params, JSON that passed jsonlint.c.
 * Owns: nothing; a call belongs to calls.c.
 *
 * An unknown tool is a protocol error. A bad argument is a tool error whose
 * sentence names the argument, what was wrong and what is allowed, so that the
 * model can correct itself. The broker checks limits and policy again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define MIB ((uint64_t)1 << 20)
#define BUSY_RETRY_MS 1000u
#define SHOWN_MAX 64u /* bytes of a client's own word in a sentence */

/* Start-up variables: a waiting interpreter is past the point where it reads them. */
static const struct {
	const char *name;
	bool prefix;
} live_env[] = {
	{"PYTHON", true}, {"NODE_", true},   {"LD_", true},    {"LC_", true}, {"LANG", false},
	{"TZ", false},    {"MALLOC_", true}, {"GLIBC_", true}, {"UV_", true},
};

/* ---- argument check ---- */

static const char *
json_type(const cJSON *item)
{
	if (cJSON_IsString(item))
		return "a string";
	if (cJSON_IsNumber(item))
		return "a number";
	if (cJSON_IsBool(item))
		return "a boolean";
	if (cJSON_IsNull(item))
		return "null";
	return cJSON_IsArray(item) ? "an array" : "an object";
}

static int
wrong_type(struct buf *why, const char *name, const char *wanted, const cJSON *item)
{
	(void)buf_printf(why, "Argument \"%s\" must be %s, not %s.", name, wanted, json_type(item));
	return -EINVAL;
}

static int
check_string(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	size_t n;

	if (!cJSON_IsString(item))
		return wrong_type(why, row->name, "a string", item);
	n = strlen(item->valuestring);
	if (n >= row->min && n <= row->max)
		return 0;
	if (n < row->min)
		(void)buf_printf(why, "Argument \"%s\" must not be empty.", row->name);
	else
		(void)buf_printf(why, "Argument \"%s\" has %zu bytes; at most %llu are allowed.",
				 row->name, n, (unsigned long long)row->max);
	return -EINVAL;
}

static int
check_choice(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	const char *at = row->choices;

	if (cJSON_IsString(item)) {
		size_t len = strlen(item->valuestring);

		while (*at != '\0') {
			size_t n = strcspn(at, "|");

			if (n == len && memcmp(at, item->valuestring, n) == 0)
				return 0;
			at += n + (at[n] == '|');
		}
	}
	(void)buf_printf(why, "Argument \"%s\" must be one of: ", row->name);
	for (at = row->choices; *at != '\0'; at++) {
		if (*at == '|')
			(void)buf_append(why, ", ", 2);
		else
			(void)buf_append(why, at, 1);
	}
	(void)buf_append(why, ".", 1);
	return -EINVAL;
}

/* Thousandths; the value was range checked. */
static uint64_t
milli(double value)
{
	return (uint64_t)(value * 1000.0 + 0.5);
}

static int
check_number(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	bool whole = row->type == ARG_INTEGER;
	double scale = whole ? 1.0 : 1000.0;
	double value, min = (double)row->min / scale, max = (double)row->max / scale;

	if (!cJSON_IsNumber(item))
		return wrong_type(why, row->name, whole ? "a whole number" : "a number", item);
	value = item->valuedouble;
	if (value >= min && value <= max) {
		if (!whole || value == (double)(uint64_t)value)
			return 0;
		(void)buf_printf(why, "Argument \"%s\" must be a whole number.", row->name);
		return -EINVAL;
	}
	(void)buf_printf(why, "Argument \"%s\" must be between %g and %.9g, not %.9g.", row->name,
			 min, max, value);
	return -EINVAL;
}

static bool
env_name_ok(const char *s)
{
	if (*s == '\0' || (*s >= '0' && *s <= '9'))
		return false;
	for (; *s != '\0'; s++) {
		if (*s != '_' && (*s < '0' || *s > '9') && (*s < 'A' || *s > 'Z') &&
		    (*s < 'a' || *s > 'z'))
			return false;
	}
	return true;
}

/* An array of strings, or an object of them whose keys are environment names. */
static int
check_many(const struct arg_row *row, const cJSON *list, struct buf *why)
{
	bool map = row->type == ARG_STRMAP;
	const cJSON *item;
	uint64_t count = 0;

	if (map ? !cJSON_IsObject(list) : !cJSON_IsArray(list))
		return wrong_type(why, row->name,
				  map ? "an object of strings" : "an array of strings", list);
	cJSON_ArrayForEach(item, list)
	{
		size_t n;

		if (map && !env_name_ok(item->string)) {
			(void)buf_printf(why, "Argument \"%s\" has the name \"", row->name);
			n = strlen(item->string);
			n = text_floor((const uint8_t *)item->string,
				       n < SHOWN_MAX ? n : SHOWN_MAX);
			(void)text_append_visible(why, (const uint8_t *)item->string, n);
			(void)buf_printf(why, "\"; names must match [A-Za-z_][A-Za-z0-9_]*.");
			return -EINVAL;
		}
		if (!cJSON_IsString(item)) {
			(void)buf_printf(why, "Every value in \"%s\" must be a string, not %s.",
					 row->name, json_type(item));
			return -EINVAL;
		}
		n = strlen(item->valuestring) + (map ? strlen(item->string) + 1 : 0);
		if (n > SPEC_ITEM_MAX) {
			(void)buf_printf(why, "A value in \"%s\" has more than %u bytes.",
					 row->name, SPEC_ITEM_MAX);
			return -EINVAL;
		}
		count++;
	}
	if (count <= row->max)
		return 0;
	(void)buf_printf(why, "Argument \"%s\" has %llu entries; at most %llu are allowed.",
			 row->name, (unsigned long long)count, (unsigned long long)row->max);
	return -EINVAL;
}

static int
check_one(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	switch (row->type) {
	case ARG_STRING:
		return check_string(row, item, why);
	case ARG_CHOICE:
		return check_choice(row, item, why);
	case ARG_INTEGER:
	case ARG_NUMBER:
		return check_number(row, item, why);
	case ARG_STRINGS:
	case ARG_STRMAP:
	default:
		return check_many(row, item, why);
	}
}

static int
unknown_argument(enum tool_no tool, const char *name, struct buf *why)
{
	const struct arg_row *row;
	size_t cursor = 0, n = strlen(name);
	const char *sep = "";

	(void)buf_printf(why, "Unknown argument \"");
	n = text_floor((const uint8_t *)name, n < SHOWN_MAX ? n : SHOWN_MAX);
	(void)text_append_visible(why, (const uint8_t *)name, n);
	(void)buf_printf(why, "\". %s takes ", tool_rows[tool].name);
	while ((row = arg_next(tool, &cursor)) != NULL) {
		(void)buf_printf(why, "%s%s", sep, row->name);
		sep = ", ";
	}
	(void)buf_printf(why, "%s.", *sep == '\0' ? "no arguments" : "");
	return -EINVAL;
}

int
tools_check(enum tool_no tool, const struct cJSON *args, struct buf *why)
{
	const struct arg_row *row;
	const cJSON *item;
	size_t cursor = 0;
	int r;

	cJSON_ArrayForEach(item, args)
	{
		cursor = 0;
		while ((row = arg_next(tool, &cursor)) != NULL &&
		       strcmp(row->name, item->string) != 0)
			;
		if (row == NULL)
			return unknown_argument(tool, item->string, why);
		r = check_one(row, item, why);
		if (r < 0)
			return r;
	}
	cursor = 0;
	while ((row = arg_next(tool, &cursor)) != NULL) {
		if (row->required && cJSON_GetObjectItemCaseSensitive(args, row->name) == NULL) {
			(void)buf_printf(why, "Argument \"%s\" is missing. %s", row->name,
					 row->help);
			return -EINVAL;
		}
	}
	return 0;
}

/* ---- a checked request becomes a call ---- */

static const char *
arg_text(const cJSON *args, const char *name, const char *otherwise)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(args, name);

	return item == NULL ? otherwise : item->valuestring;
}

static uint64_t
arg_milli(const cJSON *args, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(args, name);

	return item == NULL ? 0 : milli(item->valuedouble);
}

static bool
env_is_live(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(live_env); i++) {
		size_t n = strlen(live_env[i].name);

		if (strncmp(name, live_env[i].name, n) == 0 &&
		    (live_env[i].prefix || name[n] == '\0'))
			return true;
	}
	return false;
}

/* Fills args, env and the live flag of spec; spec_lists_done frees them. */
static void
spec_lists(struct guest_spec *spec, const cJSON *args)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(args, "args");
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(args, "env");
	const cJSON *item;

	spec->args = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*spec->args));
	spec->env = xcalloc((size_t)cJSON_GetArraySize(env) + 1, sizeof(*spec->env));
	cJSON_ArrayForEach(item, list) spec->args[spec->n_args++] = IPC_STR(item->valuestring);
	cJSON_ArrayForEach(item, env)
	{
		char *pair = xasprintf("%s=%s", item->string, item->valuestring);

		spec->env[spec->n_env++] = IPC_STR(pair);
		if (env_is_live(item->string))
			spec->flags |= SPEC_LIVE;
	}
}

static void
spec_lists_done(struct guest_spec *spec)
{
	for (uint32_t i = 0; i < spec->n_env; i++) {
		/* each pair was allocated above */
		char *pair = (char *)(uintptr_t)spec->env[i].data;

		free(pair);
	}
	free(spec->env);
	free(spec->args);
}

/* Which program runs what: by tool, then by language. */
static void
spec_program(struct guest_spec *spec, enum tool_no tool, const cJSON *args,
	     enum box_class *ret_class)
{
	static const struct {
		const char *language;
		enum run_kind kind;
		enum box_class box_class;
	} languages[] = {
		{"python", RUN_PYTHON, BOX_PYTHON},
		{"bash", RUN_BASH, BOX_SHELL},
		{"node", RUN_NODE, BOX_NODE},
	};
	const char *language = arg_text(args, "language", "python");
	const char *code;

	*ret_class = BOX_SHELL;
	if (tool == TOOL_execute_sandboxed_command || tool == TOOL_docker_run) {
		spec->kind = RUN_COMMAND;
		code = arg_text(args, "command", "");
	} else {
		for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
			if (strcmp(language, languages[i].language) == 0) {
				spec->kind = languages[i].kind;
				*ret_class = languages[i].box_class;
			}
		}
		code = arg_text(args, tool == TOOL_execute_python_code ? "code_string" : "code",
				"");
	}
	spec->code = (struct ipc_bin){(const uint8_t *)code, strlen(code)};
}

/* -E2BIG: the parts are too much together; -ENOBUFS: too much is in flight. */
static int
fill_call(struct call *c, enum tool_no tool, const cJSON *args)
{
	const char *dir = arg_text(args, "working_dir", "");
	const char *input = arg_text(args, "stdin", "");
	const cJSON *memory = cJSON_GetObjectItemCaseSensitive(args, "memory_mb");
	cleanup_free char *cwd =
		xasprintf("%s%s", *dir == '/' || *dir == '\0' ? "" : "/workspace/", dir);
	/* the grant tells the timeout; until then its longest form, so that the size cannot grow */
	struct guest_spec spec = {
		.kind = RUN_COMMAND, .timeout_ms = UINT32_MAX, .cwd = IPC_STR(cwd)};
	int r;

	spec_program(&spec, tool, args, &c->box_class);
	spec_lists(&spec, args);
	if (*input != '\0')
		spec.flags |= SPEC_STDIN;
	if ((spec.flags & SPEC_LIVE) != 0 && c->box_class != BOX_SHELL)
		c->flags |= CALL_LIVE;
	r = spec_encode(&spec, &c->spec);
	spec_lists_done(&spec);
	if (r < 0)
		return r;
	r = call_hold(c, buf_len(&c->spec) + strlen(input));
	if (r < 0)
		return r;
	r = buf_append(&c->input, input, strlen(input));
	if (r < 0)
		return r;
	c->input_open = *input != '\0';
	(void)str_copy(c->ask.profile, sizeof(c->ask.profile), arg_text(args, "profile", ""),
		       strlen(arg_text(args, "profile", "")));
	(void)str_copy(c->ask.image, sizeof(c->ask.image), arg_text(args, "image", ""),
		       strlen(arg_text(args, "image", "")));
	c->ask.timeout_ms = (uint32_t)arg_milli(args, "timeout_seconds");
	c->ask.cpus_milli = (uint32_t)arg_milli(args, "cpus");
	c->ask.memory_bytes = memory == NULL ? 0 : (uint64_t)memory->valuedouble * MIB;
	return 0;
}

static void
send_busy(struct frontend *fe, const struct reply_to *to)
{
	struct ipc_call_ended ended = {.status = RUN_busy, .retry_ms = BUSY_RETRY_MS};

	result_send_run(fe, to, NULL, &ended);
}

static void
tool_run(struct frontend *fe, const struct reply_to *to, enum tool_no tool, const cJSON *args,
	 const struct rpc_id *token)
{
	struct call *c = call_new(fe, to, CALL_RUN);
	int r;

	if (c == NULL) {
		send_busy(fe, to);
		return;
	}
	r = fill_call(c, tool, args);
	if (r == 0)
		r = progress_init(c, token);
	if (r == 0) {
		call_start(c);
		return;
	}
	call_free(c);
	if (r == -E2BIG)
		result_send_refusal(fe, to, "Code, args and env are more than 2 MiB together.");
	else
		send_busy(fe, to);
}

static void
tool_health(struct frontend *fe, const struct reply_to *to)
{
	struct call *c = call_new(fe, to, CALL_HEALTH);

	if (c == NULL) {
		result_send_refusal(fe, to, "Too many calls are in flight. Try again later.");
		return;
	}
	c->health = health_new();
	call_start(c);
}

/* ---- tools/call ---- */

static bool
tool_find(const char *name, enum tool_no *ret)
{
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (strcmp(tool_rows[i].name, name) == 0) {
			*ret = (enum tool_no)i;
			return true;
		}
	}
	return false;
}

static void
send_unknown_tool(struct frontend *fe, const struct reply_to *to, const char *name)
{
	struct buf shown;
	size_t n = strlen(name);

	buf_init(&shown, 1024);
	n = text_floor((const uint8_t *)name, n < SHOWN_MAX ? n : SHOWN_MAX);
	(void)text_append_visible(&shown, (const uint8_t *)name, n);
	rpc_send_error(fe, to, RPC_PARAMS, NULL, "Unknown tool: %.*s", (int)buf_len(&shown),
		       (const char *)buf_data(&shown));
	buf_done(&shown);
}

static void
refuse_arguments(struct frontend *fe, const struct reply_to *to, struct buf *why)
{
	if (buf_append(why, "", 1) == 0)
		result_send_refusal(fe, to, (const char *)buf_data(why));
	else
		result_send_refusal(fe, to, "Bad arguments.");
}

void
tools_call(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(params, "name");
	const cJSON *args = cJSON_GetObjectItemCaseSensitive(params, "arguments");
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(params, "_meta");
	const cJSON *asked = cJSON_GetObjectItemCaseSensitive(meta, "progressToken");
	struct rpc_id token = {.kind = RPC_ID_NONE};
	struct buf why;
	enum tool_no tool;

	if (!cJSON_IsString(name)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.name must be a string");
		return;
	}
	if (cJSON_IsNull(args))
		args = NULL;
	if (args != NULL && !cJSON_IsObject(args)) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL, "params.arguments must be an object");
		return;
	}
	if (asked != NULL && rpc_read_id(asked, &token) < 0) {
		rpc_send_error(
			fe, to, RPC_PARAMS, NULL,
			"progressToken must be a string of at most 128 bytes or a whole number");
		return;
	}
	if (!tool_find(name->valuestring, &tool)) {
		send_unknown_tool(fe, to, name->valuestring);
		return;
	}
	upcalls_warm(fe);
	buf_init(&why, 4096);
	if (tools_check(tool, args, &why) < 0)
		refuse_arguments(fe, to, &why);
	else if (tool == TOOL_check_sandbox_health)
		tool_health(fe, to);
	else
		tool_run(fe, to, tool, args, &token);
	buf_done(&why);
}
