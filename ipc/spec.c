/*
 * ipc/spec.c - the run specification: what is allowed in it, and its decoder.
 * Runs in: the frontend (check before encoding) and the guest (decoding).
 * Input: untrusted on the guest's side of the stream; the same rules bind both.
 * Owns: the two string arrays of a decoded specification (spec_done).
 *
 * Form: [kind, flags, timeout_ms, output_limit, cwd, code, [args…], [env…], offset, length, mode].
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

/* What a kind may carry; anything else in its specification is a mistake of whoever wrote it. */
struct spec_rule {
	uint32_t kind, flags;
	uint32_t code_min, code_max;
	bool code_text; /* holds no NUL */
	bool words;     /* has arguments and directory */
	bool env;
	bool span; /* has offset and length */
};
static const struct spec_rule spec_rules[] = {
	{RUN_PYTHON, SPEC_STDIN | SPEC_LIVE, 0, SPEC_CODE_MAX, false, true, true, false},
	{RUN_NODE, SPEC_STDIN | SPEC_LIVE, 0, SPEC_CODE_MAX, false, true, true, false},
	{RUN_BASH, SPEC_STDIN | SPEC_LIVE, 0, SPEC_CODE_MAX, false, true, true, false},
	/* bash -c takes its code as one argument */
	{RUN_COMMAND, SPEC_STDIN | SPEC_LIVE, 0, SPEC_ITEM_MAX, true, true, true, false},
	{RUN_ARGV, SPEC_STDIN | SPEC_LIVE, 0, 0, true, true, true, false},
	{RUN_EVAL_PYTHON, 0, 0, SPEC_CODE_MAX, false, false, false, false},
	{RUN_EVAL_NODE, 0, 0, SPEC_CODE_MAX, false, false, false, false},
	{RUN_EVAL_BASH, 0, 0, SPEC_CODE_MAX, false, false, false, false},
	{RUN_FILE_READ, 0, 1, SPEC_CWD_MAX, true, false, false, true},
	{RUN_FILE_WRITE, SPEC_STDIN | SPEC_APPEND | SPEC_TRUNCATE, 1, SPEC_CWD_MAX, true, false,
	 false, true},
	{RUN_FILE_LIST, 0, 1, SPEC_CWD_MAX, true, false, false, true},
	{RUN_ENV, 0, 0, 0, true, false, true, false},
};

static const struct spec_rule *
spec_rule(uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_LEN(spec_rules); i++) {
		if (spec_rules[i].kind == kind)
			return &spec_rules[i];
	}
	return NULL;
}

static bool
has_nul(const void *p, size_t n)
{
	return n > 0 && memchr(p, '\0', n) != NULL;
}

bool
spec_env_name_ok(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		if (c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') &&
		    (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return n > 0;
}

/* "NAME=value" */
static bool
env_item_ok(const struct ipc_str *item)
{
	const char *equals = item->len > 0 ? memchr(item->data, '=', item->len) : NULL;

	return equals != NULL && spec_env_name_ok(item->data, (size_t)(equals - item->data));
}

static int
items_check(const struct ipc_str *items, uint32_t n, bool env)
{
	for (uint32_t i = 0; i < n; i++) {
		if (items[i].len > SPEC_ITEM_MAX)
			return -E2BIG;
		if (has_nul(items[i].data, items[i].len))
			return -EINVAL;
		if (env && !env_item_ok(&items[i]))
			return -EINVAL;
	}
	return 0;
}

static int
code_check(const struct guest_spec *spec, const struct spec_rule *rule)
{
	if (spec->code.len > rule->code_max)
		return -E2BIG;
	if (spec->code.len < rule->code_min)
		return -EINVAL;
	return rule->code_text && has_nul(spec->code.data, spec->code.len) ? -EINVAL : 0;
}

/* Files are at most as long as the kernel can count; only a new one has a mode. */
static int
span_check(const struct guest_spec *spec, const struct spec_rule *rule)
{
	bool write = spec->kind == RUN_FILE_WRITE;

	if (!rule->span && (spec->offset != 0 || spec->length != 0))
		return -EINVAL;
	if (spec->offset > INT64_MAX || spec->length > INT64_MAX)
		return -EINVAL;
	if ((spec->flags & SPEC_APPEND) != 0 && spec->offset != 0)
		return -EINVAL;
	return spec->mode > (write ? 0777U : 0U) ? -EINVAL : 0;
}

/* It takes its place in every later run, which may be as large as a run can be by itself. */
static int
kept_check(const struct guest_spec *spec)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < spec->n_env; i++)
		sum += spec->env[i].len + 1;
	return sum > SPEC_KEPT_ENV_MAX ? -E2BIG : 0;
}

int
spec_check(const struct guest_spec *spec)
{
	const struct spec_rule *rule = spec_rule(spec->kind);
	int r;

	if (rule == NULL || (spec->flags & ~rule->flags) != 0)
		return -EINVAL;
	if (spec->cwd.len > SPEC_CWD_MAX || spec->n_args > SPEC_ARGS_MAX ||
	    spec->n_env > SPEC_ENV_MAX)
		return -E2BIG;
	if (!rule->words && (spec->cwd.len > 0 || spec->n_args > 0))
		return -EINVAL;
	if (!rule->env && spec->n_env > 0)
		return -EINVAL;
	if (has_nul(spec->cwd.data, spec->cwd.len) || (spec->kind == RUN_ARGV && spec->n_args == 0))
		return -EINVAL;
	r = code_check(spec, rule);
	if (r == 0)
		r = span_check(spec, rule);
	if (r == 0)
		r = items_check(spec->args, spec->n_args, false);
	if (r == 0)
		r = items_check(spec->env, spec->n_env, true);
	return r == 0 && spec->kind == RUN_ENV ? kept_check(spec) : r;
}

static int
read_u32(struct wire_reader *r, uint32_t *ret)
{
	uint64_t value;
	int e = wire_read_u64(r, UINT32_MAX, &value);

	if (e == 0)
		*ret = (uint32_t)value;
	return e;
}

static int
read_items(struct wire_reader *r, uint32_t max, struct ipc_str **ret, uint32_t *ret_n)
{
	struct ipc_str *items;
	uint32_t n;

	if (wire_read_array(r, &n) < 0 || n > max)
		return -EBADMSG;
	items = calloc(n == 0 ? 1 : n, sizeof(*items));
	if (items == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		if (wire_read_str(r, SPEC_ITEM_MAX, &items[i]) < 0) {
			free(items);
			return -EBADMSG;
		}
	}
	*ret = items;
	*ret_n = n;
	return 0;
}

static int
read_spec(struct wire_reader *r, struct guest_spec *spec)
{
	uint32_t n;
	int e;

	if (wire_read_array(r, &n) < 0 || n != SPEC_FIELDS || read_u32(r, &spec->kind) < 0 ||
	    read_u32(r, &spec->flags) < 0 || read_u32(r, &spec->timeout_ms) < 0 ||
	    wire_read_u64(r, UINT64_MAX, &spec->output_limit) < 0 ||
	    wire_read_str(r, SPEC_CWD_MAX, &spec->cwd) < 0 ||
	    wire_read_bin(r, SPEC_CODE_MAX, &spec->code) < 0)
		return -EBADMSG;
	e = read_items(r, SPEC_ARGS_MAX, &spec->args, &spec->n_args);
	if (e < 0)
		return e;
	e = read_items(r, SPEC_ENV_MAX, &spec->env, &spec->n_env);
	if (e < 0)
		return e;
	if (wire_read_u64(r, UINT64_MAX, &spec->offset) < 0 ||
	    wire_read_u64(r, UINT64_MAX, &spec->length) < 0 || read_u32(r, &spec->mode) < 0)
		return -EBADMSG;
	return r->p == r->end && spec_check(spec) == 0 ? 0 : -EBADMSG;
}

int
spec_decode(const uint8_t *in, size_t len, struct guest_spec *ret)
{
	struct wire_reader r = {in, in + len};
	struct guest_spec spec = {0};
	int e;

	if (len > GUEST_SPEC_MAX)
		return -EBADMSG;
	e = read_spec(&r, &spec);
	if (e < 0) {
		spec_done(&spec);
		return e;
	}
	*ret = spec;
	return 0;
}

void
spec_done(struct guest_spec *spec)
{
	if (spec == NULL)
		return;
	free(spec->args);
	free(spec->env);
	*spec = (struct guest_spec){0};
}
