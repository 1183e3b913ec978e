/*
 * base/str.c - numbers, UTF-8, hex and comparisons of bytes.
 * Runs in: every process and the guest.
 * Input: untrusted text; every function takes its length or a NUL-ended string.
 * Owns: nothing.
 */
#include <errno.h>
#include <string.h>

#include "base.h"

int
parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;
	bool over = false;

	if (*s == '\0')
		return -EINVAL;
	/* To the end even when too large: "9…9x" is malformed, not out of range. */
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		over = over || __builtin_mul_overflow(value, 10U, &value) ||
		       __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value);
	}
	if (over || value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

size_t
utf8_step(const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	uint8_t low = 0x80;  /* bounds of the second byte: no overlong form, */
	uint8_t high = 0xbf; /* no surrogate, nothing above U+10FFFF */
	size_t len;

	if (n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (n < len || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

bool
utf8_valid(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		uint64_t word;
		size_t step;

		/* Code is mostly ASCII: eight bytes at a time while no top bit is set. */
		if (n - i >= sizeof(word)) {
			memcpy(&word, s + i, sizeof(word));
			if ((word & UINT64_C(0x8080808080808080)) == 0) {
				i += sizeof(word);
				continue;
			}
		}
		step = utf8_step(s + i, n - i);
		if (step == 0)
			return false;
		i += step;
	}
	return true;
}

static const char digits[] = "0123456789abcdef";

void
hex_escape(char out[4], uint8_t byte)
{
	out[0] = '\\';
	out[1] = 'x';
	out[2] = digits[byte >> 4];
	out[3] = digits[byte & 15];
}

void
hex_encode(char *out, const uint8_t *in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[in[i] >> 4];
		out[2 * i + 1] = digits[in[i] & 15];
	}
	out[2 * n] = '\0';
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int
hex_decode(uint8_t *out, size_t n, const char *hex, size_t hex_len)
{
	if (hex_len / 2 != n || hex_len % 2 != 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(hex[2 * i]);
		int low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

bool
mem_equal_ct(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a;
	const volatile uint8_t *y = b;
	uint8_t diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= x[i] ^ y[i];
	return diff == 0;
}

int
str_copy(char *dst, size_t cap, const char *src, size_t n)
{
	if (n >= cap)
		return -ENAMETOOLONG;
	if (n > 0 && memchr(src, '\0', n) != NULL)
		return -EINVAL;
	if (n > 0) /* an empty view may have no place */
		memcpy(dst, src, n);
	dst[n] = '\0';
	return 0;
}
