/*
 * ipc/wire.c - reads the msgpack subset: arrays, unsigned numbers, str, bin.
 * Runs in: every process and the guest.
 * Input: untrusted; flat, no allocation, no recursion. Every other msgpack
 * type is refused, so a claimed length costs nothing but a comparison.
 * Owns: nothing; views borrow from the reader's bytes.
 *
 * On failure the reader's position is unspecified: give the whole input up.
 */
#include <errno.h>

#include "ipc.h"

/* A big-endian number of n bytes (1..8). */
static int
wire_take(struct wire_reader *r, size_t n, uint64_t *ret)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->p) < n)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++)
		value = value << 8 | r->p[i];
	r->p += n;
	*ret = value;
	return 0;
}

static int
wire_tag(struct wire_reader *r, uint8_t *ret)
{
	if (r->p == r->end)
		return -EBADMSG;
	*ret = *r->p++;
	return 0;
}

int
wire_read_array(struct wire_reader *r, uint32_t *ret_n)
{
	uint64_t n;
	uint8_t tag;
	int e = wire_tag(r, &tag);

	if (e < 0)
		return e;
	if ((tag & 0xf0) == 0x90) {
		*ret_n = tag & 0x0f;
		return 0;
	}
	if (tag != 0xdc && tag != 0xdd)
		return -EBADMSG;
	e = wire_take(r, tag == 0xdc ? 2 : 4, &n);
	if (e < 0)
		return e;
	*ret_n = (uint32_t)n;
	return 0;
}

int
wire_read_u64(struct wire_reader *r, uint64_t max, uint64_t *ret)
{
	uint64_t value;
	uint8_t tag;
	int e = wire_tag(r, &tag);

	if (e < 0)
		return e;
	if (tag < 0x80) {
		value = tag;
	} else if (tag >= 0xcc && tag <= 0xcf) {
		e = wire_take(r, (size_t)1 << (tag - 0xcc), &value);
		if (e < 0)
			return e;
	} else {
		return -EBADMSG;
	}
	if (value > max)
		return -EBADMSG;
	*ret = value;
	return 0;
}

/* The bytes of a str or bin whose length field has width bytes, or is fixed. */
static int
wire_body(struct wire_reader *r, size_t width, uint64_t fixed, size_t max, const uint8_t **ret,
	  size_t *ret_len)
{
	uint64_t len = fixed;

	if (width > 0) {
		int e = wire_take(r, width, &len);

		if (e < 0)
			return e;
	}
	if (len > max || len > (size_t)(r->end - r->p))
		return -EBADMSG;
	*ret = r->p;
	*ret_len = (size_t)len;
	r->p += len;
	return 0;
}

int
wire_read_str(struct wire_reader *r, size_t max, struct ipc_str *ret)
{
	const uint8_t *data;
	size_t len;
	uint8_t tag;
	int e = wire_tag(r, &tag);

	if (e < 0)
		return e;
	if ((tag & 0xe0) == 0xa0)
		e = wire_body(r, 0, tag & 0x1f, max, &data, &len);
	else if (tag >= 0xd9 && tag <= 0xdb)
		e = wire_body(r, (size_t)1 << (tag - 0xd9), 0, max, &data, &len);
	else
		e = -EBADMSG;
	if (e < 0)
		return e;
	*ret = (struct ipc_str){(const char *)data, len};
	return 0;
}

int
wire_read_bin(struct wire_reader *r, size_t max, struct ipc_bin *ret)
{
	const uint8_t *data;
	size_t len;
	uint8_t tag;
	int e = wire_tag(r, &tag);

	if (e < 0)
		return e;
	if (tag < 0xc4 || tag > 0xc6)
		return -EBADMSG;
	e = wire_body(r, (size_t)1 << (tag - 0xc4), 0, max, &data, &len);
	if (e < 0)
		return e;
	*ret = (struct ipc_bin){data, len};
	return 0;
}
