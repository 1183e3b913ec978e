/*
 * ipc/crc32c.c - CRC-32C (Castagnoli), eight bytes a step from tables.
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

uint32_t
crc32c(uint32_t crc, const void *p, size_t n)
{
	const uint8_t *at = p;

	if (crc_table[0][1] == 0)
		crc_init();
	crc = ~crc;
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
	return ~crc;
}
