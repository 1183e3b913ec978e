/*
 * tests/fuzz/ipc_decode_fuzz.c - host packets in every direction; what decodes must
 * encode to no more bytes, and that encoding must decode to itself.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed; first byte: from and to, the rest is the packet.
 * Owns: nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t once[IPC_PACKET_MAX];
	static uint8_t twice[IPC_PACKET_MAX];
	struct ipc_row row;
	enum ipc_role from;
	enum ipc_role to;
	size_t n;
	size_t m;
	char text[600];

	if (size == 0)
		return 0;
	from = (enum ipc_role)(1U << (data[0] & 3));
	to = (enum ipc_role)(1U << (data[0] >> 2 & 3));
	if (ipc_decode(data + 1, size - 1, from, to, &row) < 0)
		return 0;
	ipc_format(&row, text, sizeof(text));
	if (ipc_encode(&row, from, to, once, sizeof(once), &n) < 0 || n > size - 1)
		abort();
	if (ipc_decode(once, n, from, to, &row) < 0 ||
	    ipc_encode(&row, from, to, twice, sizeof(twice), &m) < 0)
		abort();
	if (n != m || memcmp(once, twice, n) != 0)
		abort();
	return 0;
}
