/*
 * ipc/crc32c.c - CRC-32C (Castagnoli), eight bytes a step: by the processor's
 * own instruction where it has one, else from tables.
 * Runs in: the broker and the guest.
 * Input: untrusted bytes, only read.
 * Owns: the tables, computed at the first call.
 *
 * Table k holds the remainder of a byte followed by k zero bytes, so the eight
 * bytes of a word are looked up independently and joined by exclusive or.
 */
#include <string.h>

#include "ipc.h"

#define CRC32C_POLY 0x82f63b78u /* bit-reversed 0x1edc6f41 */

static uint32_t crc_table[8][256];

static void
crc_init(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? CRC32C_POLY : 0);
		crc_table[0][byte] = crc;
	}
	for (size_t k = 1; k < 8; k++) {
		for (size_t byte = 0; byte < 256; byte++) {
			uint32_t crc = crc_table[k - 1][byte];

			crc_table[k][byte] = crc >> 8 ^ crc_table[0][crc & 0xff];
		}
	}
}

/* crc is inverted already, as in the next. */
static uint32_t
crc_by_tables(uint32_t crc, const uint8_t *at, size_t n)
{
	if (crc_table[0][1] == 0)
		crc_init();
	for (; n >= 8; n -= 8, at += 8) {
		uint32_t low = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
			       (uint32_t)at[3] << 24;

		low ^= crc;
		crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^
		      crc_table[5][low >> 16 & 0xff] ^ crc_table[4][low >> 24] ^
		      crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
		      crc_table[0][at[7]];
	}
	for (; n > 0; n--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *at++) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
crc_by_processor(uint32_t crc, const uint8_t *at, size_t n)
{
	uint64_t wide = crc, word;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	for (; n > 0; n--)
		crc = __builtin_ia32_crc32qi(crc, *at++);
	return crc;
}

static bool
processor_can(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse4.2") != 0;
}
#else
#define crc_by_processor crc_by_tables
static bool
processor_can(void)
{
	return false;
}
#endif

uint32_t
crc32c(uint32_t crc, const void *p, size_t n)
{
	return ~(processor_can() ? crc_by_processor(~crc, p, n) : crc_by_tables(~crc, p, n));
}
