/*
 * tests/unit/test_ipc_crc32c.c - CRC-32C: published vectors, every split, every alignment.
 * Runs in: ctest.
 * Input: none.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#define crc32c crc32c_here /* beside the one that is linked */
#include "../ipc/crc32c.c" /* both ways of it are tested */

/* One bit at a time: what the polynomial says. */
static uint32_t
crc_plain(const uint8_t *p, size_t n)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void
test_crc32c_known_values(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	/* RFC 3720 B.4 */
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
	for (size_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
	for (size_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_int_equal(crc32c(0, bytes, 32), 0x113fdb5c);
}

static void
test_crc32c_splits_and_alignments(void **state)
{
	uint8_t bytes[100];
	uint32_t seed = 11;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)test_random(&seed);
	for (size_t from = 0; from < 9; from++) {
		for (size_t len = 0; len + from <= sizeof(bytes); len++) {
			uint32_t whole = crc32c(0, bytes + from, len);

			assert_int_equal(whole, crc_plain(bytes + from, len));
			assert_int_equal(whole, ~crc_by_tables(~0u, bytes + from, len));
			assert_int_equal(whole, crc32c(crc32c(0, bytes + from, len / 3),
						       bytes + from + len / 3, len - len / 3));
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32c_known_values),
		cmocka_unit_test(test_crc32c_splits_and_alignments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
