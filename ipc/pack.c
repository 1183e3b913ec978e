/*
 * ipc/pack.c - writes the msgpack subset with msgpack-c's packer; its only user.
 * Runs in: the host processes (the guest reads specifications, it writes none).
 * Input: our own values.
 * Owns: nothing; writes into the caller's bytes and never past them.
 */
#include <errno.h>
#include <string.h>

#include <msgpack/pack.h>

#include "ipc.h"

/* msgpack-c's output callback: a writer that overflowed stays so. */
static int
pack_bytes(void *data, const char *p, size_t n)
{
	struct wire_writer *w = data;

	if (w->overflow || n > w->cap - w->len) {
		w->overflow = true;
		return -1;
	}
	if (n > 0)
		memcpy(w->out + w->len, p, n);
	w->len += n;
	return 0;
}

/* Results are ignored below: w->overflow carries the one failure there is. */
void
wire_put_array(struct wire_writer *w, uint32_t n)
{
	msgpack_packer pk = {.data = w, .callback = pack_bytes};

	(void)msgpack_pack_array(&pk, n);
}

void
wire_put_u64(struct wire_writer *w, uint64_t v)
{
	msgpack_packer pk = {.data = w, .callback = pack_bytes};

	(void)msgpack_pack_uint64(&pk, v);
}

void
wire_put_str(struct wire_writer *w, const char *s, size_t n)
{
	msgpack_packer pk = {.data = w, .callback = pack_bytes};

	(void)msgpack_pack_str(&pk, n);
	(void)msgpack_pack_str_body(&pk, s, n);
}

void
wire_put_bin(struct wire_writer *w, const uint8_t *s, size_t n)
{
	msgpack_packer pk = {.data = w, .callback = pack_bytes};

	(void)msgpack_pack_bin(&pk, n);
	(void)msgpack_pack_bin_body(&pk, s, n);
}

/* Longest head of one item: tag and 32-bit length, or tag and 64-bit number. */
#define ITEM_HEAD ((size_t)9)

/* An upper bound of the encoding; the parts are at their maxima at most, so
 * the sum cannot wrap. */
static size_t
spec_bound(const struct guest_spec *spec)
{
	size_t n = 16 * ITEM_HEAD + spec->cwd.len + spec->code.len;

	for (uint32_t i = 0; i < spec->n_args; i++)
		n += ITEM_HEAD + spec->args[i].len;
	for (uint32_t i = 0; i < spec->n_env; i++)
		n += ITEM_HEAD + spec->env[i].len;
	return n;
}

int
spec_encode(const struct guest_spec *spec, struct buf *b)
{
	struct wire_writer w = {0};
	int r = spec_check(spec);

	if (r < 0)
		return r;
	w.cap = spec_bound(spec);
	r = buf_reserve(b, w.cap, &w.out);
	if (r < 0)
		return r == -ENOSPC ? -E2BIG : r;
	wire_put_array(&w, SPEC_FIELDS);
	wire_put_u64(&w, spec->kind);
	wire_put_u64(&w, spec->flags);
	wire_put_u64(&w, spec->timeout_ms);
	wire_put_u64(&w, spec->output_limit);
	wire_put_str(&w, spec->cwd.data, spec->cwd.len);
	wire_put_bin(&w, spec->code.data, spec->code.len);
	wire_put_array(&w, spec->n_args);
	for (uint32_t i = 0; i < spec->n_args; i++)
		wire_put_str(&w, spec->args[i].data, spec->args[i].len);
	wire_put_array(&w, spec->n_env);
	for (uint32_t i = 0; i < spec->n_env; i++)
		wire_put_str(&w, spec->env[i].data, spec->env[i].len);
	wire_put_u64(&w, spec->offset);
	wire_put_u64(&w, spec->length);
	wire_put_u64(&w, spec->mode);
	if (w.overflow || w.len > GUEST_SPEC_MAX)
		return -E2BIG;
	buf_commit(b, w.len);
	return 0;
}
