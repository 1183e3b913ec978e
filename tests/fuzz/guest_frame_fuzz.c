/*
 * tests/fuzz/guest_frame_fuzz.c - a guest stream cut up by the parser; a frame that
 * parsed must be what guest_frame_write makes of its parts, and no prefix of it a frame.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed; first byte: direction, and whether checksums are put right first
 * (else no fuzzer gets behind them).
 * Owns: nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes the next frame's checksum right where the whole frame is there. */
static void
repair(uint8_t *at, size_t size)
{
	size_t pad = 0;
	size_t body;
	uint32_t sum;

	while (pad < size && at[pad] == 0)
		pad++;
	if (size - pad < GUEST_HEADER_LEN)
		return;
	body = GUEST_HEADER_LEN + at[pad + 2] + 256U * at[pad + 3];
	if (size - pad < body + GUEST_CRC_LEN)
		return;
	sum = crc32c(0, at + pad, body);
	for (size_t i = 0; i < GUEST_CRC_LEN; i++)
		at[pad + body + i] = (uint8_t)(sum >> 8 * i);
}

static void
check(const uint8_t *at, size_t used, enum guest_dir dir, const struct guest_frame *frame)
{
	static uint8_t again[GUEST_FRAME_MAX];
	struct guest_frame cut;
	size_t cut_used;
	size_t n = guest_frame_write(again, frame->row->type, frame->stream, frame->run, frame->seq,
				     frame->payload, frame->len);

	if (n > used || memcmp(again, at + used - n, n) != 0)
		abort();
	if (guest_frame_parse(at, used - 1, dir, &cut, &cut_used) != 0 || cut_used != used - n)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum guest_dir dir = size > 0 && (data[0] & 1) != 0 ? G2H : H2G;
	bool mend = size > 0 && (data[0] & 2) != 0;
	uint8_t *copy = malloc(size + 1);
	size_t at = 1;

	if (copy == NULL)
		return 0;
	if (size > 0)
		memcpy(copy, data, size);
	while (at < size) {
		struct guest_frame frame;
		size_t used;
		int r;

		if (mend)
			repair(copy + at, size - at);
		r = guest_frame_parse(copy + at, size - at, dir, &frame, &used);
		if (used > size - at)
			abort();
		if (r == 1)
			check(copy + at, used, dir, &frame);
		else if (r != -EILSEQ)
			break;
		at += used;
	}
	free(copy);
	return 0;
}
