/*
 * ipc/spec.c - the run specification: what is allowed in it, and its decoder.
 * Runs in: the frontend (check before encoding) and the guest (decoding).
 * Input: untrusted on the guest's side of the stream; the same rules bind both.
 * Owns: the two string arrays of a decoded specification (spec_done).
 *
 * Form: [kind, flags, timeout_ms, output_limit, cwd, code, [args…], [env…]].
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

#define SPEC_FLAGS (SPEC_STDIN | SPEC_LIVE)

static bool
has_nul(const void *p, size_t n)
{
	return n > 0 && memchr(p, '\0', n) != NULL;
}

static bool
env_name_valid(const struct ipc_str *item)
{
	for (size_t i = 0; i < item->len; i++) {
		char c = item->data[i];

		if (c == '=')
			return i > 0;
		if (c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') &&
		    (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return false; /* no '=' at all */
}

static int
items_check(const struct ipc_str *items, uint32_t n, bool env)
{
	for (uint32_t i = 0; i < n; i++) {
		if (items[i].len > SPEC_ITEM_MAX)
			return -E2BIG;
		if (has_nul(items[i].data, items[i].len))
			return -EINVAL;
		if (env && !env_name_valid(&items[i]))
			return -EINVAL;
	}
	return 0;
}

int
spec_check(const struct guest_spec *spec)
{
	/* bash -c takes its code as one argument; files take the rest. */
	bool command = spec->kind == RUN_COMMAND;
	int r;

	if (spec->kind < RUN_PYTHON || spec->kind > RUN_COMMAND ||
	    (spec->flags & ~(uint32_t)SPEC_FLAGS) != 0)
		return -EINVAL;
	if (spec->cwd.len > SPEC_CWD_MAX || spec->n_args > SPEC_ARGS_MAX ||
	    spec->n_env > SPEC_ENV_MAX ||
	    spec->code.len > (command ? SPEC_ITEM_MAX : SPEC_CODE_MAX))
		return -E2BIG;
	if (has_nul(spec->cwd.data, spec->cwd.len) ||
	    (command && has_nul(spec->code.data, spec->code.len)))
		return -EINVAL;
	r = items_check(spec->args, spec->n_args, false);
	return r < 0 ? r : items_check(spec->env, spec->n_env, true);
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
