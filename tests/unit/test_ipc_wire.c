/*
 * tests/unit/test_ipc_wire.c - the flat msgpack reader: widths, limits, refusals.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include "ipc.h"

enum kind { ARRAY, NUMBER, STR, BIN };

static const struct {
	enum kind kind;
	const char *in;
	size_t len;
	uint64_t max;
	int r;
	uint64_t value; /* number, element count or length */
} cases[] = {
	{ARRAY, "\x90", 1, 0, 0, 0},
	{ARRAY, "\x9f", 1, 0, 0, 15},
	{ARRAY, "\xdc\x01\x02", 3, 0, 0, 258},
	{ARRAY, "\xdc\x00\x01", 3, 0, 0, 1}, /* wider than needed is fine */
	{ARRAY, "\xdd\xff\xff\xff\xff", 5, 0, 0, 4294967295},
	{ARRAY, "\xdc\x01", 2, 0, -EBADMSG, 0},
	{ARRAY, "\xdd\x00\x00\x00", 4, 0, -EBADMSG, 0},
	{ARRAY, "", 0, 0, -EBADMSG, 0},
	{ARRAY, "\x80", 1, 0, -EBADMSG, 0}, /* map */
	{ARRAY, "\x01", 1, 0, -EBADMSG, 0},
	{NUMBER, "\x00", 1, 0, 0, 0},
	{NUMBER, "\x7f", 1, 127, 0, 127},
	{NUMBER, "\x7f", 1, 126, -EBADMSG, 0},
	{NUMBER, "\xcc\xff", 2, 255, 0, 255},
	{NUMBER, "\xcd\x01\x00", 3, 256, 0, 256},
	{NUMBER, "\xce\xff\xff\xff\xff", 5, UINT32_MAX, 0, UINT32_MAX},
	{NUMBER, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, UINT64_MAX, 0, UINT64_MAX},
	{NUMBER, "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9, UINT32_MAX, -EBADMSG, 0},
	{NUMBER, "\xcf\x00\x00\x00\x00\x00\x00\x00\x07", 9, 7, 0, 7},
	{NUMBER, "\xcc", 1, 255, -EBADMSG, 0},
	{NUMBER, "\xcf\xff\xff\xff\xff\xff\xff\xff", 8, UINT64_MAX, -EBADMSG, 0},
	{NUMBER, "", 0, 1, -EBADMSG, 0},
	{NUMBER, "\xff", 1, UINT64_MAX, -EBADMSG, 0},     /* -1 */
	{NUMBER, "\xd0\x01", 2, UINT64_MAX, -EBADMSG, 0}, /* signed 1 */
	{NUMBER, "\xc0", 1, UINT64_MAX, -EBADMSG, 0},     /* nil */
	{NUMBER, "\xc3", 1, UINT64_MAX, -EBADMSG, 0},     /* true */
	{NUMBER, "\xca\x00\x00\x00\x00", 5, UINT64_MAX, -EBADMSG, 0},
	{NUMBER, "\xa1\x31", 2, UINT64_MAX, -EBADMSG, 0},
	{STR, "\xa0", 1, 0, 0, 0},
	{STR, "\xa3xyz", 4, 3, 0, 3},
	{STR, "\xa3xyz", 4, 2, -EBADMSG, 0},
	{STR, "\xa3xy", 3, 9, -EBADMSG, 0},
	{STR, "\xd9\x03xyz", 5, 3, 0, 3},
	{STR, "\xda\x00\x03xyz", 6, 3, 0, 3},
	{STR, "\xdb\x00\x00\x00\x03xyz", 8, 3, 0, 3},
	{STR, "\xdb\xff\xff\xff\xffxyz", 8, UINT64_MAX, -EBADMSG, 0},
	{STR, "\xd9", 1, 9, -EBADMSG, 0},
	{STR, "\xc4\x03xyz", 5, 9, -EBADMSG, 0}, /* bin */
	{STR, "", 0, 9, -EBADMSG, 0},
	{BIN, "\xc4\x00", 2, 0, 0, 0},
	{BIN, "\xc4\x03xyz", 5, 3, 0, 3},
	{BIN, "\xc5\x00\x03xyz", 6, 3, 0, 3},
	{BIN, "\xc6\x00\x00\x00\x03xyz", 8, 3, 0, 3},
	{BIN, "\xc6\x00\x00\x00\x03xy", 7, 3, -EBADMSG, 0},
	{BIN, "\xc4\x03xyz", 5, 2, -EBADMSG, 0},
	{BIN, "\xc6\x00\x00", 3, 9, -EBADMSG, 0},
	{BIN, "\xa3xyz", 4, 9, -EBADMSG, 0},       /* str */
	{BIN, "\xc7\x01\x01z", 4, 9, -EBADMSG, 0}, /* ext */
	{BIN, "", 0, 9, -EBADMSG, 0},
};

static void
test_wire_read_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* an allocation of the exact size, so that reading on is seen */
		cleanup_free uint8_t *in = xcalloc(cases[i].len, 1);
		struct wire_reader r = {in, in + cases[i].len};
		struct ipc_str str = {NULL, 0};
		struct ipc_bin bin = {NULL, 0};
		uint64_t value = 0;
		uint32_t n = 0;
		int e = -1;

		memcpy(in, cases[i].in, cases[i].len);
		switch (cases[i].kind) {
		case ARRAY:
			e = wire_read_array(&r, &n);
			value = n;
			break;
		case NUMBER:
			e = wire_read_u64(&r, cases[i].max, &value);
			break;
		case STR:
			e = wire_read_str(&r, cases[i].max, &str);
			value = str.len;
			break;
		case BIN:
			e = wire_read_bin(&r, cases[i].max, &bin);
			value = bin.len;
			break;
		}
		assert_int_equal(e, cases[i].r);
		assert_int_equal(value, cases[i].value);
		if (e == 0)
			assert_ptr_equal(r.p, r.end);
		if (value == 3 && str.data != NULL)
			assert_memory_equal(str.data, "xyz", 3);
		if (value == 3 && bin.data != NULL)
			assert_memory_equal(bin.data, "xyz", 3);
	}
}

/* No first byte makes a reader look behind the end, and none takes foreign types. */
static void
test_wire_every_first_byte(void **state)
{
	(void)state;
	for (unsigned int tag = 0; tag < 256; tag++) {
		cleanup_free uint8_t *in = xcalloc(1, 1);
		struct ipc_str str;
		struct ipc_bin bin;
		uint64_t value;
		uint32_t n;
		int taken = 0;

		in[0] = (uint8_t)tag;
		taken += wire_read_array(&(struct wire_reader){in, in + 1}, &n) == 0;
		taken += wire_read_u64(&(struct wire_reader){in, in + 1}, 255, &value) == 0;
		taken += wire_read_str(&(struct wire_reader){in, in + 1}, 99, &str) == 0;
		taken += wire_read_bin(&(struct wire_reader){in, in + 1}, 99, &bin) == 0;
		assert_int_equal(taken, tag < 0x80 || (tag & 0xf0) == 0x90 || tag == 0xa0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_read_cases),
		cmocka_unit_test(test_wire_every_first_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
