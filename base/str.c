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
	if (n > 0 && memchr(src, '\0', n) != NULL)
		return -EINVAL;
	if (n > 0) /* an empty view may have no place */
		memcpy(dst, src, n);
	dst[n] = '\0';
	return 0;
}

/* ---- base64: whole groups by tables that are made at the first call ---- */

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
#define NO_DIGIT UINT32_C(0x80000000)

static uint8_t base64_pairs[4096][2];  /* twelve bits as two digits */
static uint32_t base64_values[4][256]; /* a digit's bits in its place of the group */

static void
base64_init(void)
{
	if (base64_pairs[0][0] != 0)
		return;
	for (size_t k = 0; k < 4; k++)
		for (size_t c = 0; c < 256; c++)
			base64_values[k][c] = NO_DIGIT;
	for (uint32_t i = 0; i < 64; i++) {
		for (uint32_t k = 0; k < 4; k++)
			base64_values[k][(uint8_t)base64_digits[i]] = i << (18 - 6 * k);
		for (uint32_t low = 0; low < 64; low++) {
			base64_pairs[i << 6 | low][1] = (uint8_t)base64_digits[low];
			base64_pairs[i << 6 | low][0] = (uint8_t)base64_digits[i];
		}
	}
}

int
base64_append(struct buf *b, const uint8_t *in, size_t n)
{
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
	base64_init();
	for (; n >= 3; n -= 3, in += 3, out += 4) {
		uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

		memcpy(out, base64_pairs[v >> 12], 2);
		memcpy(out + 2, base64_pairs[v & 0xfff], 2);
	}
	if (n > 0) {
		uint32_t v = (uint32_t)in[0] << 16 | (n > 1 ? (uint32_t)in[1] << 8 : 0U);

		memcpy(out, base64_pairs[v >> 12], 2);
		out[2] = n > 1 ? (uint8_t)base64_digits[v >> 6 & 63] : '=';
		out[3] = '=';
	}
	buf_commit(b, total);
	return 0;
}

static uint32_t
base64_bits(const uint8_t *in)
{
	return base64_values[0][in[0]] | base64_values[1][in[1]] | base64_values[2][in[2]] |
	       base64_values[3][in[3]];
}

static void
base64_put(uint8_t *out, uint32_t bits)
{
	out[0] = (uint8_t)(bits >> 16);
	out[1] = (uint8_t)(bits >> 8);
	out[2] = (uint8_t)bits;
}

/* The last group, which may be padded; the bytes it stands for, 0 when it is none. */
static size_t
base64_last(const uint8_t *in, uint8_t *out)
{
	size_t pad = in[3] != '=' ? 0U : in[2] == '=' ? 2U : 1U;
	const uint8_t filled[4] = {in[0], in[1], pad == 2 ? 'A' : in[2], pad > 0 ? 'A' : in[3]};
	uint32_t v = base64_bits(filled);

	/* bits that stand for nothing must be zero: one text for one content */
	if ((v & NO_DIGIT) != 0 || (pad == 1 && (v & 0xff) != 0) || (pad == 2 && (v & 0xffff) != 0))
		return 0;
	base64_put(out, v);
	return 3 - pad;
}

int
base64_decode(struct buf *b, const char *text, size_t n)
{
	const uint8_t *in = (const uint8_t *)text;
	uint32_t bad = 0;
	uint8_t *out;
	int r;

	if (n % 4 != 0)
		return -EINVAL;
	if (n == 0)
		return 0;
	r = buf_reserve(b, n / 4 * 3, &out);
	if (r < 0)
		return r;
	base64_init();
	size_t whole = n / 4 - 1;
	for (size_t i = 0; i < whole; i++, in += 4, out += 3) {
		uint32_t v = base64_bits(in);

		bad |= v;
		base64_put(out, v);
	}
	size_t rest = base64_last(in, out);
	if ((bad & NO_DIGIT) != 0 || rest == 0)
		return -EINVAL;
	buf_commit(b, whole * 3 + rest);
	return 0;
}
