/* tests/fuzz/stdcopy_fuzz.c - frames cut in two anywhere give the same bytes as in one piece. */
#include "engine_parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A hash of (stream, byte) in order; -EPROTO ends it. */
static uint64_t
run(struct stdcopy *s, const uint8_t *p, size_t n, uint64_t hash, int *r)
{
	const uint8_t *piece;
	size_t len;
	int stream;

	while (*r == 0 && (*r = stdcopy_next(s, &p, &n, &stream, &piece, &len)) == 1) {
		if (len == 0 || stream < 0 || stream > 3)
			abort();
		for (size_t i = 0; i < len; i++)
			hash = (hash ^ piece[i] ^ (uint64_t)stream << 8) * 1099511628211u;
		*r = 0;
	}
	return hash;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stdcopy whole = {0}, parts = {0};
	size_t cut = size > 0 ? data[0] % (size + 1) : 0;
	int r1 = 0, r2 = 0;
	uint64_t a = run(&whole, data, size, 7, &r1);
	uint64_t b = run(&parts, data, cut, 7, &r2);

	b = run(&parts, data + cut, size - cut, b, &r2);
	if (a != b || r1 != r2)
		abort();
	return 0;
}
