/*
 * tests/unit/test_ipc_guest.c - the guest frame table and the framing: fixed payloads,
 * growing buffers, padding, damage, the order of judgement, the prose.
 * Runs in: ctest.
 * Input: ipc/PROTOCOL.md of the source tree.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "ipc.h"

/* ---- fixed payloads: every field gets another value and comes back ---- */
static void
fill_bytes(uint8_t *at, size_t n, uint8_t *next)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (*next)++;
}

#define FILL_u32(field, bytes) in.field = 0x01020304U * ++k
#define FILL_u64(field, bytes) in.field = 0x0102030405060708U * ++k
#define FILL_raw(field, bytes) fill_bytes(in.field, bytes, &next)
#define SAME_u32(field, bytes) assert_true(in.field == back.field)
#define SAME_u64(field, bytes) assert_true(in.field == back.field)
#define SAME_raw(field, bytes) assert_memory_equal(in.field, back.field, bytes)
#define WIDE_u32(bytes) 4
#define WIDE_u64(bytes) 8
#define WIDE_raw(bytes) (bytes)

#define GUEST_FRAME(name, num, dir, min, max, seq, reader) \
	static struct guest_##name fill_##name(void)       \
	{                                                  \
		struct guest_##name in = {0};              \
		uint32_t k = 0;                            \
		uint8_t next = 1;                          \
		(void)k;                                   \
		(void)next;
#define GUEST_FIELD(name, type, field, bytes) FILL_##type(field, bytes);
#define GUEST_END(name) \
	return in;      \
	}
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

enum {
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) WIDE_OF_##name = 0
#define GUEST_FIELD(name, type, field, bytes) +WIDE_##type(bytes)
#define GUEST_END(name) ,
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END
};

#define GUEST_FRAME(name, num, dir, min, max, seq, reader)                                      \
	static void round_trip_##name(void)                                                     \
	{                                                                                       \
		struct guest_##name in = fill_##name();                                         \
		struct guest_##name back;                                                       \
		uint8_t bytes[256] = {0};                                                       \
		guest_put_##name(&in, bytes);                                                   \
		for (size_t i = WIDE_OF_##name; i < sizeof(bytes); i++)                         \
			assert_int_equal(bytes[i], 0);                                          \
		assert_int_equal(guest_get_##name(bytes, WIDE_OF_##name, &back), 0);            \
		assert_int_equal(guest_get_##name(bytes, WIDE_OF_##name + 1, &back), -EBADMSG); \
		assert_int_equal(guest_get_##name(bytes, (size_t)WIDE_OF_##name - 1, &back),    \
				 -EBADMSG);
#define GUEST_FIELD(name, type, field, bytes) SAME_##type(field, bytes);
#define GUEST_END(name) }
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

static const struct {
	const char *name;
	unsigned int num;
	enum guest_dir dir;
	size_t min, max;
	int seq;
	enum guest_reader reader;
	size_t wide;
	void (*round_trip)(void);
} rows[] = {
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) \
	{#name, num, dir, min, max, seq, GUEST_READ_##reader, WIDE_OF_##name, round_trip_##name},
#define GUEST_FIELD(name, type, field, bytes)
#define GUEST_END(name)
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END
};

static void
test_table_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct guest_row *row = guest_row(rows[i].num);

		assert_true(rows[i].num > 0 && rows[i].num < 256); /* 0 is padding */
		if (i > 0)
			assert_true(rows[i].num > rows[i - 1].num);
		assert_int_equal(strncmp(rows[i].name, rows[i].dir == H2G ? "h_" : "g_", 2), 0);
		assert_true(rows[i].min <= rows[i].max && rows[i].max <= GUEST_PAYLOAD_MAX);
		if (rows[i].wide > 0) { /* fields: exactly their bytes */
			assert_int_equal(rows[i].min, rows[i].wide);
			assert_int_equal(rows[i].max, rows[i].wide);
		}
		/* what the broker reads has a fixed size */
		if (rows[i].reader == GUEST_READ_BROKER)
			assert_int_equal(rows[i].min, rows[i].max);
		assert_non_null(row);
		assert_string_equal(row->name, rows[i].name);
		assert_int_equal(row->type, rows[i].num);
		assert_int_equal(row->dir, rows[i].dir);
		assert_int_equal(row->min, rows[i].min);
		assert_int_equal(row->max, rows[i].max);
		assert_int_equal(row->sequenced, rows[i].seq);
		assert_int_equal(row->reader, rows[i].reader);
	}
	assert_null(guest_row(0));
	assert_null(guest_row(255));
	assert_null(guest_row(UINT32_MAX));
}

static void
test_every_fixed_payload_round_trips(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i].round_trip();
}

static void
test_exit_is_little_endian_in_order(void **state)
{
	struct guest_g_exit in = {.how = 1, .exit_code = 0x01020304, .cpu_us = 0x1122334455667788};
	uint8_t bytes[104];

	(void)state;
	guest_put_g_exit(&in, bytes);
	assert_memory_equal(bytes, "\x01\x00\x00\x00\x04\x03\x02\x01", 8);
	assert_memory_equal(bytes + 32, "\x88\x77\x66\x55\x44\x33\x22\x11", 8);
}

static size_t
frame_of(uint8_t *out, size_t i, size_t len, uint32_t run, uint64_t seq)
{
	static uint8_t payload[GUEST_PAYLOAD_MAX];

	for (size_t k = 0; k < len; k++)
		payload[k] = (uint8_t)(k * 31 + 7);
	return guest_frame_write(out, (enum guest_type)rows[i].num, 2, run, seq, payload, len);
}

/* A growing buffer: nothing until the last byte, then the frame; also behind padding. */
static void
test_every_frame_in_a_growing_buffer(void **state)
{
	static uint8_t bytes[GUEST_FRAME_MAX + 8];
	struct guest_frame frame;
	size_t used;

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		size_t k = i / 2;
		size_t pad = i % 2 * 5;
		size_t payload = rows[k].max;
		uint64_t seq = rows[k].seq != 0 ? UINT64_MAX - 3 : 0;
		size_t len;

		memset(bytes, 0, sizeof(bytes));
		len = frame_of(bytes + pad, k, payload, 0xfedcba98, seq);
		assert_int_equal(len, GUEST_HEADER_LEN + payload + GUEST_CRC_LEN);
		for (size_t n = 0; n < pad + len; n = n < 200 ? n + 1 : n + 1009) {
			assert_int_equal(guest_frame_parse(bytes, n, rows[k].dir, &frame, &used),
					 0);
			assert_int_equal(used, n < pad ? n : pad);
		}
		assert_int_equal(guest_frame_parse(bytes, pad + len, rows[k].dir, &frame, &used),
				 1);
		assert_int_equal(used, pad + len);
		assert_int_equal(frame.row->type, rows[k].num);
		assert_int_equal(frame.stream, 2);
		assert_int_equal(frame.run, 0xfedcba98);
		assert_true(frame.seq == seq);
		assert_int_equal(frame.len, payload);
		assert_ptr_equal(frame.payload, bytes + pad + GUEST_HEADER_LEN);
		/* bytes behind it are the next one's */
		assert_int_equal(
			guest_frame_parse(bytes, sizeof(bytes), rows[k].dir, &frame, &used), 1);
		assert_int_equal(used, pad + len);
	}
}

static void
test_header_bytes(void **state)
{
	static const uint8_t wanted[] = {0x50, 1, 3, 0, 4, 3, 2,   1,   8,  7,
					 6,    5, 4, 3, 2, 1, 'a', 'b', 'c'};
	uint8_t bytes[64];
	uint32_t sum = crc32c(0, wanted, sizeof(wanted));
	size_t len =
		guest_frame_write(bytes, GUEST_g_out, 1, 0x01020304, 0x0102030405060708, "abc", 3);

	(void)state;
	assert_int_equal(len, sizeof(wanted) + 4);
	assert_memory_equal(bytes, wanted, sizeof(wanted));
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(bytes[sizeof(wanted) + i], sum >> 8 * i & 0xff);
	/* the payload may stand in its place already */
	memcpy(bytes + GUEST_HEADER_LEN, "xyz", 3);
	(void)guest_frame_write(bytes, GUEST_g_out, 1, 1, 1, bytes + GUEST_HEADER_LEN, 3);
	assert_memory_equal(bytes + GUEST_HEADER_LEN, "xyz", 3);
}

/* Whatever single byte is changed: no frame comes of it. */
static void
test_every_changed_byte_is_noticed(void **state)
{
	uint8_t bytes[300];
	struct guest_frame frame;
	size_t used;
	size_t len = guest_frame_write(bytes, GUEST_g_out, 1, 7, 9, "hello, world", 12);

	(void)state;
	memset(bytes + len, 0, sizeof(bytes) - len);
	for (size_t i = 0; i < len; i++) {
		for (unsigned int flip = 1; flip < 256; flip++) {
			int r;

			bytes[i] ^= (uint8_t)flip;
			r = guest_frame_parse(bytes, sizeof(bytes), G2H, &frame, &used);
			assert_int_not_equal(r, 1);
			if (i >= 4) {
				assert_int_equal(r, -EILSEQ);
				assert_int_equal(used, len);
			}
			bytes[i] ^= (uint8_t)flip;
		}
	}
}

static void
test_type_and_direction_at_the_first_byte(void **state)
{
	struct guest_frame frame;
	size_t used;

	(void)state;
	for (unsigned int type = 1; type < 256; type++) {
		uint8_t first = (uint8_t)type;
		const struct guest_row *row = guest_row(type);

		assert_int_equal(guest_frame_parse(&first, 1, H2G, &frame, &used),
				 row != NULL && row->dir == H2G ? 0 : -EBADMSG);
		assert_int_equal(guest_frame_parse(&first, 1, G2H, &frame, &used),
				 row != NULL && row->dir == G2H ? 0 : -EBADMSG);
	}
}

static void
test_rows_rules_after_the_checksum(void **state)
{
	static uint8_t bytes[GUEST_FRAME_MAX];
	struct guest_frame frame;
	size_t used;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t seq = rows[i].seq != 0 ? 1 : 0;
		size_t len;

		if (rows[i].min > 0) {
			len = frame_of(bytes, i, rows[i].min - 1, 1, seq);
			assert_int_equal(guest_frame_parse(bytes, len, rows[i].dir, &frame, &used),
					 -EBADMSG);
			bytes[len - 1] ^= 1; /* a wrong sum is told first */
			assert_int_equal(guest_frame_parse(bytes, len, rows[i].dir, &frame, &used),
					 -EILSEQ);
			assert_int_equal(used, len);
		}
		if (rows[i].max < GUEST_PAYLOAD_MAX) {
			len = frame_of(bytes, i, rows[i].max + 1, 1, seq);
			assert_int_equal(guest_frame_parse(bytes, len, rows[i].dir, &frame, &used),
					 -EBADMSG);
		}
		len = frame_of(bytes, i, rows[i].min, 1, seq ^ 1); /* the sequence rule broken */
		assert_int_equal(guest_frame_parse(bytes, len, rows[i].dir, &frame, &used),
				 -EBADMSG);
	}
}

static void
test_length_above_the_maximum_at_the_header(void **state)
{
	uint8_t bytes[GUEST_HEADER_LEN] = {GUEST_g_out, 1, 0x01, 0x80}; /* 32769 */
	struct guest_frame frame;
	size_t used;

	(void)state;
	assert_int_equal(guest_frame_parse(bytes, sizeof(bytes), G2H, &frame, &used), -EBADMSG);
	bytes[2] = 0; /* 32768 waits for the rest */
	assert_int_equal(guest_frame_parse(bytes, sizeof(bytes), G2H, &frame, &used), 0);
}

/* A stream cut at any byte of a frame, then one maximum frame of zeros, then another frame:
 * one wrong checksum, padding, and that frame. */
static void
test_cut_frame_completed_by_zeros(void **state)
{
	static uint8_t bytes[2 * GUEST_FRAME_MAX + 100];
	uint8_t whole[200];
	size_t whole_len = guest_frame_write(whole, GUEST_h_stdin, 0, 3, 77, "some input", 10);

	(void)state;
	for (size_t cut = 1; cut < whole_len; cut++) {
		struct guest_frame frame;
		size_t used;
		size_t end;
		size_t at;

		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, whole, cut);
		end = cut + GUEST_FRAME_MAX;
		end += guest_frame_write(bytes + end, GUEST_h_ping, 0, 0, 0, NULL, 0);
		assert_int_equal(guest_frame_parse(bytes, end, H2G, &frame, &used), -EILSEQ);
		at = used;
		assert_int_equal(guest_frame_parse(bytes + at, end - at, H2G, &frame, &used), 1);
		assert_int_equal(frame.row->type, GUEST_h_ping);
		assert_int_equal(at + used, end);
	}
}

static void
write_too_much(void *arg)
{
	(void)guest_frame_write(arg, GUEST_g_out, 1, 1, 1, arg, GUEST_PAYLOAD_MAX + 1);
}

static void
test_write_above_the_maximum_is_fatal(void **state)
{
	static uint8_t bytes[2 * GUEST_FRAME_MAX];

	(void)state;
	test_is_fatal(write_too_much, bytes);
}

/* One heading "### 0x50 g_out (guest to host)" per row, and no other. */
static void
test_every_row_is_documented(void **state)
{
	cleanup_free char *page = xcalloc(200000, 1);
	size_t headings = 0;
	size_t len;

	(void)state;
	assert_int_equal(
		fd_read_file(AT_FDCWD, BAILEY_SOURCE "/ipc/PROTOCOL.md", page, 200000, &len), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char heading[200];

		(void)snprintf(heading, sizeof(heading), "\n### 0x%02x %s (%s)\n", rows[i].num,
			       rows[i].name,
			       rows[i].dir == H2G ? "host to guest" : "guest to host");
		if (strstr(page, heading) == NULL)
			fail_msg("PROTOCOL.md lacks: %s", heading);
	}
	for (char *at = page; (at = strstr(at, "\n### 0x")) != NULL; at++) {
		const char *end = strchr(at + 1, '\n');
		const char *guest = strstr(at, "guest");

		headings += end != NULL && guest != NULL && guest < end;
	}
	assert_int_equal(headings, ARRAY_LEN(rows));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_rules),
		cmocka_unit_test(test_every_fixed_payload_round_trips),
		cmocka_unit_test(test_exit_is_little_endian_in_order),
		cmocka_unit_test(test_every_frame_in_a_growing_buffer),
		cmocka_unit_test(test_header_bytes),
		cmocka_unit_test(test_every_changed_byte_is_noticed),
		cmocka_unit_test(test_type_and_direction_at_the_first_byte),
		cmocka_unit_test(test_rows_rules_after_the_checksum),
		cmocka_unit_test(test_length_above_the_maximum_at_the_header),
		cmocka_unit_test(test_cut_frame_completed_by_zeros),
		cmocka_unit_test(test_write_above_the_maximum_is_fatal),
		cmocka_unit_test(test_every_row_is_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
