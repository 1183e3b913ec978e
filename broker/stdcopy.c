/*
 * broker/stdcopy.c - takes apart the frames in which an engine multiplexes a
 * container's stdout and stderr over one attach connection.
 *
 * Runs in: bailey-broker.
 * Input: untrusted; payload from a container, headers from the engine.
 * Owns: nothing; the state is a struct the caller keeps.
 *
 * A frame is 8 bytes (stream, three zero bytes, length big-endian) and its
 * payload. Payload is handed on piece by piece as it comes, so a length is
 * never a reason to allocate.
 */
#include "engine_parts.h"

#include <errno.h>

static int
read_header(struct stdcopy *s)
{
	const uint8_t *h = s->head;

	if (h[0] > 3 || h[1] != 0 || h[2] != 0 || h[3] != 0)
		return -EPROTO;
	s->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	if (s->left > STDCOPY_FRAME_MAX)
		return -EPROTO;
	s->stream = h[0];
	s->have = 0;
	return 0;
}

int
stdcopy_next(struct stdcopy *s, const uint8_t **p, size_t *n, int *ret_stream,
	     const uint8_t **ret_piece, size_t *ret_len)
{
	while (*n > 0) {
		if (s->left > 0) {
			size_t len = *n < s->left ? *n : s->left;

			*ret_stream = s->stream;
			*ret_piece = *p;
			*ret_len = len;
			*p += len;
			*n -= len;
			s->left -= (uint32_t)len;
			return 1;
		}
		s->head[s->have++] = **p;
		(*p)++;
		(*n)--;
		if (s->have == sizeof(s->head)) {
			int r = read_header(s);

			if (r < 0)
				return r;
		}
	}
	return 0;
}
