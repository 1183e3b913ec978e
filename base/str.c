/*
 * base/str.c - numbers, UTF-8, hex, base64 and comparisons of bytes.
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

void
hex_encode(char *out, const uint8_t *in, size_t n)
{
	static const char digits[] = "0123456789abcdef";

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
	if (memchr(src, '\0', n) != NULL)
		return -EINVAL;
	memcpy(dst, src, n);
	dst[n] = '\0';
	return 0;
}

int
base64_append(struct buf *b, const uint8_t *in, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t groups = n / 3 + (n % 3 != 0);
	size_t total;
	uint8_t *out;
	int r;

	if (n == 0)
		return 0;
	if (__builtin_mul_overflow(groups, 4U, &total))
		return -ENOSPC;
	r = buf_reserve(b, total, &out);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0U) |
			     (left > 2 ? in[i + 2] : 0U);

		*out++ = (uint8_t)digits[v >> 18];
		*out++ = (uint8_t)digits[v >> 12 & 63];
		*out++ = left > 1 ? (uint8_t)digits[v >> 6 & 63] : '=';
		*out++ = left > 2 ? (uint8_t)digits[v & 63] : '=';
	}
	buf_commit(b, total);
	return 0;
}

/* The value of a digit plus one; 0 for any other byte. */
static const uint8_t base64_values[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,
	['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14,
	['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21,
	['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28,
	['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35,
	['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
	['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49,
	['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
	['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
	['/'] = 64};

/* One group of four; the bytes it stands for, 0 when it is none. */
static size_t
base64_group(const uint8_t *in, bool last, uint8_t *out)
{
	size_t pad = !last || in[3] != '=' ? 0U : in[2] == '=' ? 2U : 1U;
	uint32_t v = 0;

	for (size_t i = 0; i < 4; i++) {
		uint32_t digit = i >= 4 - pad ? 1U : base64_values[in[i]];

		if (digit == 0)
			return 0;
		v = v << 6 | (digit - 1);
	}
	/* bits that stand for nothing must be zero: one text for one content */
	if ((pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0))
		return 0;
	out[0] = (uint8_t)(v >> 16);
	out[1] = (uint8_t)(v >> 8);
	out[2] = (uint8_t)v;
	return 3 - pad;
}

int
base64_decode(struct buf *b, const char *text, size_t n)
{
	const uint8_t *in = (const uint8_t *)text;
	size_t used = 0;
	uint8_t *out;
	int r;

	if (n % 4 != 0)
		return -EINVAL;
	if (n == 0)
		return 0;
	r = buf_reserve(b, n / 4 * 3, &out);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i += 4) {
		size_t got = base64_group(in + i, i + 4 == n, out + used);

		if (got == 0)
			return -EINVAL;
		used += got;
	}
	buf_commit(b, used);
	return 0;
}
