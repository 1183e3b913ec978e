/*
 * ipc/guest.c - frames of the guest stream: table, fixed payloads, framing.
 * Runs in: the broker, the frontend and the guest.
 * Input: untrusted on the host side once user code ran in the box.
 * Owns: nothing; a parsed frame borrows from the caller's bytes.
 *
 * A host that took over a stream cut inside a frame first sends zeros: they
 * complete that frame, whose checksum is then wrong, and the rest is padding.
 * So beyond what framing needs (a known type, a length in range) nothing in a
 * frame is judged before its checksum held.
 */
#include <errno.h>
#include <string.h>

#include "ipc.h"

static const struct guest_row guest_rows[] = {
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) \
	[num] = {#name, GUEST_##name, dir, GUEST_READ_##reader, min, max, seq},
#define GUEST_FIELD(name, type, field, bytes)
#define GUEST_END(name)
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END
};

const struct guest_row *
guest_row(uint32_t type)
{
	if (type >= ARRAY_LEN(guest_rows) || guest_rows[type].name == NULL)
		return NULL;
	return &guest_rows[type];
}

/* Little-endian numbers; each moves past what it wrote or read. */
static void
put_le(uint8_t **at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*(*at)++ = (uint8_t)(value >> 8 * i);
}

static uint64_t
get_le(const uint8_t **at, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value |= (uint64_t) * (*at)++ << 8 * i;
	return value;
}

static void
put_raw(uint8_t **at, const uint8_t *in, size_t n)
{
	memcpy(*at, in, n);
	*at += n;
}

static void
get_raw(const uint8_t **at, uint8_t *out, size_t n)
{
	memcpy(out, *at, n);
	*at += n;
}

#define PUT_u32(field, bytes) put_le(&at, in->field, 4)
#define PUT_u64(field, bytes) put_le(&at, in->field, 8)
#define PUT_raw(field, bytes) put_raw(&at, in->field, bytes)
#define GUEST_FRAME(name, num, dir, min, max, seq, reader)                 \
	void guest_put_##name(const struct guest_##name *in, uint8_t *out) \
	{                                                                  \
		uint8_t *at = out;                                         \
		(void)in;
#define GUEST_FIELD(name, type, field, bytes) PUT_##type(field, bytes);
#define GUEST_END(name) \
	(void)at;       \
	}
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

#define SIZE_u32(bytes) 4u
#define SIZE_u64(bytes) 8u
#define SIZE_raw(bytes) (bytes)
/* sizeof(struct fixed_x): payload bytes of the fields of row x */
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) struct fixed_##name {
#define GUEST_FIELD(name, type, field, bytes) uint8_t field[SIZE_##type(bytes)];
#define GUEST_END(name) \
	}               \
	;
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

#define GET_u32(field, bytes) value.field = (uint32_t)get_le(&in, 4)
#define GET_u64(field, bytes) value.field = get_le(&in, 8)
#define GET_raw(field, bytes) get_raw(&in, value.field, bytes)
#define GUEST_FRAME(name, num, dir, min, max, seq, reader)                            \
	int guest_get_##name(const uint8_t *in, size_t len, struct guest_##name *ret) \
	{                                                                             \
		struct guest_##name value = {0};                                      \
		if (len != sizeof(struct fixed_##name))                               \
			return -EBADMSG;
#define GUEST_FIELD(name, type, field, bytes) GET_##type(field, bytes);
#define GUEST_END(name) \
	(void)in;       \
	*ret = value;   \
	return 0;       \
	}
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

size_t
guest_frame_write(uint8_t *out, enum guest_type type, uint8_t stream, uint32_t run, uint64_t seq,
		  const void *payload, size_t len)
{
	uint8_t *at = out;

	if (len > GUEST_PAYLOAD_MAX)
		fatal("guest frame of %zu bytes", len);
	put_le(&at, (uint64_t)type, 1);
	put_le(&at, stream, 1);
	put_le(&at, len, 2);
	put_le(&at, run, 4);
	put_le(&at, seq, 8);
	if (len > 0)
		memmove(at, payload, len); /* it may stand in its place already */
	at += len;
	put_le(&at, crc32c(0, out, (size_t)(at - out)), GUEST_CRC_LEN);
	return (size_t)(at - out);
}

/* What the row says about a frame whose checksum held. */
static int
frame_check(const struct guest_frame *frame)
{
	const struct guest_row *row = frame->row;

	if (frame->len < row->min || frame->len > row->max)
		return -EBADMSG;
	return row->sequenced == (frame->seq != 0) ? 0 : -EBADMSG;
}

int
guest_frame_parse(const uint8_t *in, size_t len, enum guest_dir dir, struct guest_frame *ret,
		  size_t *ret_used)
{
	struct guest_frame frame = {0};
	const uint8_t *at;
	size_t pad = 0;
	size_t body;
	uint32_t sum;
	int r;

	while (pad < len && in[pad] == 0)
		pad++;
	*ret_used = pad;
	if (pad == len)
		return 0;
	frame.row = guest_row(in[pad]);
	if (frame.row == NULL || frame.row->dir != dir)
		return -EBADMSG;
	if (len - pad < GUEST_HEADER_LEN)
		return 0;
	at = in + pad + 1;
	frame.stream = (uint8_t)get_le(&at, 1);
	frame.len = (size_t)get_le(&at, 2);
	frame.run = (uint32_t)get_le(&at, 4);
	frame.seq = get_le(&at, 8);
	if (frame.len > GUEST_PAYLOAD_MAX)
		return -EBADMSG;
	body = GUEST_HEADER_LEN + frame.len;
	if (len - pad < body + GUEST_CRC_LEN)
		return 0;
	frame.payload = at;
	at += frame.len;
	sum = (uint32_t)get_le(&at, GUEST_CRC_LEN);
	*ret_used = pad + body + GUEST_CRC_LEN;
	if (crc32c(0, in + pad, body) != sum)
		return -EILSEQ;
	r = frame_check(&frame);
	if (r < 0)
		return r;
	*ret = frame;
	return 1;
}
