/*
 * frontend/specs.c - what a call is to run: checked arguments become a run specification.
 * Runs in: bailey-frontend.
 * Input: arguments that args.c accepted; still a client's words.
 * Owns: nothing; what is filled belongs to the call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define SCALE_MS 5000u
#define MIB ((uint64_t)1 << 20)

/* Start-up variables: a waiting interpreter is past the point where it reads them. */
static const struct {
	const char *name;
	bool prefix;
} live_env[] = {
	{"PYTHON", true}, {"NODE_", true},   {"LD_", true},    {"LC_", true}, {"LANG", false},
	{"TZ", false},    {"MALLOC_", true}, {"GLIBC_", true}, {"UV_", true},
};

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

/* Fills args, env and the live flag of spec; lists_done frees them. */
static void
lists_fill(struct guest_spec *spec, const cJSON *args, const char *args_name)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(args, args_name);
	const cJSON *env = cJSON_GetObjectItemCaseSensitive(args, "env");
	const cJSON *item;

	spec->args = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*spec->args));
	spec->env = xcalloc((size_t)cJSON_GetArraySize(env) + 1, sizeof(*spec->env));
	cJSON_ArrayForEach(item, list) spec->args[spec->n_args++] = IPC_STR(item->valuestring);
	cJSON_ArrayForEach(item, env)
	{
		char *pair = xasprintf("%s=%s", item->string, item->valuestring);

		spec->env[spec->n_env++] = IPC_STR(pair);
		if (env_is_live(item->string) && spec->kind <= RUN_COMMAND)
			spec->flags |= SPEC_LIVE;
	}
}

static void
lists_done(struct guest_spec *spec)
{
	for (uint32_t i = 0; i < spec->n_env; i++) {
		/* each pair was allocated above */
		char *pair = (char *)(uintptr_t)spec->env[i].data;

		free(pair);
	}
	free(spec->env);
	free(spec->args);
}

static const struct {
	const char *language;
	enum run_kind kind, eval;
	enum box_class box_class;
} languages[] = {
	{"python", RUN_PYTHON, RUN_EVAL_PYTHON, BOX_PYTHON},
	{"bash", RUN_BASH, RUN_EVAL_BASH, BOX_SHELL},
	{"node", RUN_NODE, RUN_EVAL_NODE, BOX_NODE},
};

/* Which program runs what: by tool, then by language. */
static void
program_fill(struct guest_spec *spec, enum tool_no tool, const cJSON *args,
	     enum box_class *ret_class)
{
	const char *language = args_text(args, "language", "python");
	const char *code = args_text(args, "command", NULL);

	*ret_class = BOX_SHELL;
	if (code != NULL) {
		spec->kind = RUN_COMMAND;
	} else if (cJSON_GetObjectItemCaseSensitive(args, "argv") != NULL) {
		spec->kind = RUN_ARGV;
		code = "";
	} else {
		for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
			if (strcmp(language, languages[i].language) != 0)
				continue;
			spec->kind =
				tool == TOOL_sandbox_eval ? languages[i].eval : languages[i].kind;
			*ret_class = languages[i].box_class;
		}
		code = args_text(args, tool == TOOL_execute_python_code ? "code_string" : "code",
				 "");
	}
	spec->code = (struct ipc_bin){(const uint8_t *)code, strlen(code)};
}

void
specs_limits(struct call_limits *ask, const struct cJSON *args)
{
	const char *profile = args_text(args, "profile", ""), *image = args_text(args, "image", "");

	(void)str_copy(ask->profile, sizeof(ask->profile), profile, strlen(profile));
	(void)str_copy(ask->image, sizeof(ask->image), image, strlen(image));
	ask->timeout_ms = (uint32_t)args_milli(args, "timeout_seconds");
	ask->cpus_milli = (uint32_t)args_milli(args, "cpus");
	ask->memory_bytes = args_number(args, "memory_mb", 0) * MIB;
	ask->ttl_s = (uint32_t)args_number(args, "ttl_seconds", 0);
	ask->idle_s = (uint32_t)args_number(args, "idle_timeout_seconds", 0);
}

static char *
absolute(const char *path)
{
	return xasprintf("%s%s", *path == '/' || *path == '\0' ? "" : "/workspace/", path);
}

int
specs_fill(struct call *c, enum tool_no tool, const struct cJSON *args)
{
	const char *input = args_text(args, "stdin", "");
	cleanup_free char *cwd = absolute(args_text(args, "working_dir", ""));
	/* the grant tells the timeout; until then its longest form, so that the size cannot grow */
	struct guest_spec spec = {.timeout_ms = UINT32_MAX, .cwd = IPC_STR(cwd)};
	int r;

	program_fill(&spec, tool, args, &c->box_class);
	lists_fill(&spec, args, spec.kind == RUN_ARGV ? "argv" : "args");
	if (*input != '\0')
		spec.flags |= SPEC_STDIN;
	if ((spec.flags & SPEC_LIVE) != 0 && c->box_class != BOX_SHELL)
		c->flags |= CALL_LIVE;
	r = spec_encode(&spec, &c->spec);
	lists_done(&spec);
	if (r < 0)
		return r;
	r = call_hold(c, buf_len(&c->spec) + strlen(input));
	if (r < 0)
		return r;
	r = buf_append(&c->input, input, strlen(input));
	if (r < 0)
		return r;
	c->input_open = *input != '\0';
	specs_limits(&c->ask, args);
	return 0;
}

int
specs_env(const struct cJSON *args, struct buf *b)
{
	struct guest_spec spec = {.kind = RUN_ENV, .timeout_ms = UINT32_MAX};
	int r;

	lists_fill(&spec, args, "");
	r = spec_encode(&spec, b);
	lists_done(&spec);
	return r;
}

int
specs_file(struct call *c, const struct file_spec *file)
{
	cleanup_free char *path = absolute(file->path);
	struct guest_spec spec = {.kind = file->kind,
				  .flags = file->flags,
				  .timeout_ms = UINT32_MAX,
				  .code = {(const uint8_t *)path, strlen(path)},
				  .offset = file->offset,
				  .length = file->length,
				  .mode = file->mode};

	c->flags |= CALL_STEP;
	return spec_encode(&spec, &c->spec);
}

int
specs_scale(struct call *c, const char *path, size_t max)
{
	cleanup_free char *file = absolute(path), *bytes = xasprintf("%zu", max);
	struct ipc_str args[] = {IPC_STR("/usr/bin/python3"), IPC_STR("-I"),
				 IPC_STR("/.bailey/python/scale.py"), IPC_STR(file),
				 IPC_STR(bytes)};
	struct guest_spec spec = {.kind = RUN_ARGV,
				  .timeout_ms = UINT32_MAX,
				  .args = args,
				  .n_args = ARRAY_LEN(args)};

	c->flags |= CALL_STEP;
	c->ask.timeout_ms = SCALE_MS;
	return spec_encode(&spec, &c->spec);
}

bool
specs_sandbox(struct call *c, const char *id)
{
	if (strlen(id) != SANDBOX_ID_LEN || strspn(id, "0123456789abcdef") != SANDBOX_ID_LEN)
		return false;
	memcpy(c->sandbox, id, SANDBOX_ID_LEN + 1);
	return true;
}
