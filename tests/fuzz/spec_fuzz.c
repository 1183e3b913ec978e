/*
 * tests/fuzz/spec_fuzz.c - run specifications; what decodes keeps the rules, encodes to
 * no more bytes, and that encoding decodes and encodes to itself.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed.
 * Owns: nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guest_spec spec;
	struct guest_spec back;
	struct buf once;
	struct buf twice;

	if (spec_decode(data, size, &spec) < 0)
		return 0;
	buf_init(&once, 2 * (size_t)GUEST_SPEC_MAX);
	buf_init(&twice, 2 * (size_t)GUEST_SPEC_MAX);
	if (spec_check(&spec) < 0 || spec_encode(&spec, &once) < 0 || buf_len(&once) > size)
		abort();
	if (spec_decode(buf_data(&once), buf_len(&once), &back) < 0 ||
	    spec_encode(&back, &twice) < 0)
		abort();
	if (buf_len(&once) != buf_len(&twice) ||
	    memcmp(buf_data(&once), buf_data(&twice), buf_len(&once)) != 0)
		abort();
	buf_done(&once);
	buf_done(&twice);
	spec_done(&spec);
	spec_done(&back);
	return 0;
}
