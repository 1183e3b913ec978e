/*
 * ipc/codec.c - rows of messages.def to packets and back.
 * Runs in: every host process.
 * Input: decode takes untrusted packets; nothing is copied or allocated.
 * Owns: the expanded message table.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ipc.h"

enum field_type { FIELD_u32, FIELD_u64, FIELD_str, FIELD_bin };

struct field {
	const char *name; /* NULL ends a list */
	enum field_type type;
	size_t offset; /* in struct ipc_row */
	size_t max;
};

struct message {
	const char *name;
	unsigned int from, to; /* enum ipc_role bits */
	size_t max;
	const struct field *fields;
};

#define IPC_MSG(msg, num, from, to, max) static const struct field fields_##msg[] = {
#define IPC_FIELD(msg, type, field, max) \
	{#field, FIELD_##type, offsetof(struct ipc_row, u.msg.field), max},
#define IPC_END(msg)                  \
	{                             \
		NULL, FIELD_u32, 0, 0 \
	}                             \
	}                             \
	;
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END

static const struct message messages[] = {
#define IPC_MSG(name, num, from, to, max) [num] = {#name, from, to, max, fields_##name},
#define IPC_FIELD(msg, type, field, max)
#define IPC_END(name)
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END
};

static const struct message *
message_find(uint64_t num)
{
	if (num >= ARRAY_LEN(messages) || messages[num].name == NULL)
		return NULL;
	return &messages[num];
}

static bool
message_allowed(const struct message *m, enum ipc_role from, enum ipc_role to)
{
	return (m->from & (unsigned int)from) != 0 && (m->to & (unsigned int)to) != 0;
}

static uint32_t
message_arity(const struct message *m)
{
	uint32_t n = 1; /* the number */

	for (const struct field *f = m->fields; f->name != NULL; f++)
		n++;
	return n;
}

/* Fields live at their offset in the row; the table says with which type. */
static const void *
field_at(const struct ipc_row *row, const struct field *f)
{
	return (const char *)row + f->offset;
}

const char *
ipc_name(enum ipc_num num)
{
	const struct message *m = message_find(num);

	return m == NULL ? "unknown" : m->name;
}

static int
field_encode(struct wire_writer *w, const struct ipc_row *row, const struct field *f)
{
	const void *at = field_at(row, f);
	const struct ipc_str *str = at;
	const struct ipc_bin *bin = at;

	switch (f->type) {
	case FIELD_u32:
		wire_put_u64(w, *(const uint32_t *)at);
		return 0;
	case FIELD_u64:
		wire_put_u64(w, *(const uint64_t *)at);
		return 0;
	case FIELD_str:
		if (str->len > f->max)
			return -EINVAL;
		wire_put_str(w, str->data, str->len);
		return 0;
	case FIELD_bin:
		if (bin->len > f->max)
			return -EINVAL;
		wire_put_bin(w, bin->data, bin->len);
		return 0;
	}
	return -EINVAL;
}

int
ipc_encode(const struct ipc_row *row, enum ipc_role from, enum ipc_role to, uint8_t *out,
	   size_t cap, size_t *ret_len)
{
	const struct message *m = message_find(row->num);
	struct wire_writer w = {.out = out, .cap = cap};

	if (m == NULL || !message_allowed(m, from, to))
		return -EINVAL;
	if (w.cap > m->max)
		w.cap = m->max;
	wire_put_array(&w, message_arity(m));
	wire_put_u64(&w, row->num);
	for (const struct field *f = m->fields; f->name != NULL; f++) {
		int r = field_encode(&w, row, f);

		if (r < 0)
			return r;
	}
	if (w.overflow)
		return -EMSGSIZE;
	*ret_len = w.len;
	return 0;
}

static int
field_decode(struct wire_reader *r, struct ipc_row *row, const struct field *f)
{
	void *at = (char *)row + f->offset;
	uint64_t value;
	int e;

	switch (f->type) {
	case FIELD_u32:
		e = wire_read_u64(r, UINT32_MAX, &value);
		if (e == 0)
			*(uint32_t *)at = (uint32_t)value;
		return e;
	case FIELD_u64:
		return wire_read_u64(r, UINT64_MAX, at);
	case FIELD_str:
		return wire_read_str(r, f->max, at);
	case FIELD_bin:
		return wire_read_bin(r, f->max, at);
	}
	return -EBADMSG;
}

int
ipc_decode(const uint8_t *in, size_t len, enum ipc_role from, enum ipc_role to, struct ipc_row *ret)
{
	struct wire_reader r = {in, in + len};
	const struct message *m;
	struct ipc_row row;
	uint32_t arity;
	uint64_t num;

	if (wire_read_array(&r, &arity) < 0 || wire_read_u64(&r, UINT32_MAX, &num) < 0)
		return -EBADMSG;
	m = message_find(num);
	if (m == NULL || !message_allowed(m, from, to) || len > m->max || arity != message_arity(m))
		return -EBADMSG;
	memset(&row, 0, sizeof(row));
	row.num = (enum ipc_num)num;
	for (const struct field *f = m->fields; f->name != NULL; f++) {
		if (field_decode(&r, &row, f) < 0)
			return -EBADMSG;
	}
	if (r.p != r.end)
		return -EBADMSG;
	*ret = row;
	return 0;
}

static void PRINTF_LIKE(4, 5) append(char *out, size_t cap, size_t *len, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(out + *len, cap - *len, fmt, args);
	va_end(args);
	if (n > 0)
		*len += (size_t)n < cap - *len ? (size_t)n : cap - *len - 1;
}

void
ipc_format(const struct ipc_row *row, char *out, size_t cap)
{
	const struct message *m = message_find(row->num);
	const char *comma = "";
	size_t len = 0;

	if (cap == 0)
		return;
	out[0] = '\0';
	if (m == NULL) {
		append(out, cap, &len, "unknown(%u)", (unsigned int)row->num);
		return;
	}
	append(out, cap, &len, "%s{", m->name);
	for (const struct field *f = m->fields; f->name != NULL; f++) {
		const void *at = field_at(row, f);
		const struct ipc_str *str = at;
		char text[256];

		append(out, cap, &len, "%s%s=", comma, f->name);
		comma = " ";
		if (f->type == FIELD_u32)
			append(out, cap, &len, "%" PRIu32, *(const uint32_t *)at);
		else if (f->type == FIELD_u64)
			append(out, cap, &len, "%" PRIu64, *(const uint64_t *)at);
		else if (f->type == FIELD_str)
			append(out, cap, &len, "\"%s\"",
			       log_escape(text, sizeof(text), str->data, str->len));
		else
			append(out, cap, &len, "<%zu bytes>", ((const struct ipc_bin *)at)->len);
	}
	append(out, cap, &len, "}");
}
