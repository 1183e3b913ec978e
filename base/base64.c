/*
 * base/base64.c - base64 (RFC 4648) both ways, strictly.
 * Runs in: every process that links it; files of megabytes pass here.
 * Input: untrusted text; bytes of any origin.
 * Owns: its tables, made at the first call.
 *
 * Whole groups go by tables, and where the processor has AVX2 most of them 32 digits a step. The
 * last group, the only one that may be padded, always goes by table.
 */
#include <errno.h>
#include <string.h>

#include "base.h"

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

#ifdef __x86_64__
#include <immintrin.h>

#define WIDE __attribute__((target("avx2")))
#define WIDE_DIGITS 32u
#define WIDE_BYTES 24u
#define WIDE_READ 28u /* bytes that a step of encoding looks at */
#define WIDE_LEFT 48u /* digits that must be there: a step of decoding writes 32 bytes of room */

static bool
processor_can(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") != 0;
}

/* Where the condition holds, the number. */
WIDE static __m256i
where(__m256i condition, int number)
{
	return _mm256_and_si256(condition, _mm256_set1_epi8((char)number));
}

WIDE static __m256i
above(__m256i v, int number)
{
	return _mm256_cmpgt_epi8(v, _mm256_set1_epi8((char)number));
}

WIDE static __m256i
between(__m256i v, char first, char last)
{
	return _mm256_andnot_si256(above(v, last), above(v, first - 1));
}

/* As many bytes as whole steps take; the number of them. */
WIDE static size_t
encode_wide(uint8_t *out, const uint8_t *in, size_t n)
{
	/* three bytes a b c become b a c b: two words that hold two digits each */
	const __m128i order = _mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
	size_t done = 0;

	for (; n - done >= WIDE_READ; done += WIDE_BYTES, out += WIDE_DIGITS) {
		__m128i low, high;
		__m256i v, odd, even, shift;

		memcpy(&low, in + done, sizeof(low));
		memcpy(&high, in + done + WIDE_BYTES / 2, sizeof(high));
		v = _mm256_set_m128i(_mm_shuffle_epi8(high, order), _mm_shuffle_epi8(low, order));
		/* shifts by multiplying, because the two words need different ones */
		odd = _mm256_mulhi_epu16(_mm256_and_si256(v, _mm256_set1_epi32(0x0fc0fc00)),
					 _mm256_set1_epi32(0x04000040));
		even = _mm256_mullo_epi16(_mm256_and_si256(v, _mm256_set1_epi32(0x003f03f0)),
					  _mm256_set1_epi32(0x01000010));
		v = _mm256_or_si256(odd, even);
		/* from number to digit: A, then a, 0, + and / */
		shift = _mm256_set1_epi8('A');
		shift = _mm256_add_epi8(shift, where(above(v, 25), 'a' - 26 - 'A'));
		shift = _mm256_sub_epi8(shift, where(above(v, 51), 'a' - 26 - ('0' - 52)));
		shift = _mm256_sub_epi8(shift, where(above(v, 61), '0' - 52 - ('+' - 62)));
		shift = _mm256_add_epi8(shift, where(above(v, 62), '/' - 63 - ('+' - 62)));
		v = _mm256_add_epi8(v, shift);
		memcpy(out, &v, sizeof(v));
	}
	return done;
}

/* As many digits as whole steps take; the number of them, all of them checked: *ret_bad. */
WIDE static size_t
decode_wide(uint8_t *out, const uint8_t *in, size_t n, bool *ret_bad)
{
	const __m256i order =
		_mm256_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1, 2, 1, 0, 6,
				 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
	const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
	__m256i good = _mm256_set1_epi8(-1);
	size_t done = 0;

	for (; n - done >= WIDE_LEFT; done += WIDE_DIGITS, out += WIDE_BYTES) {
		__m256i c, upper, lower, digit, plus, slash, shift;

		memcpy(&c, in + done, sizeof(c));
		upper = between(c, 'A', 'Z');
		lower = between(c, 'a', 'z');
		digit = between(c, '0', '9');
		plus = _mm256_cmpeq_epi8(c, _mm256_set1_epi8('+'));
		slash = _mm256_cmpeq_epi8(c, _mm256_set1_epi8('/'));
		good = _mm256_and_si256(
			good,
			_mm256_or_si256(_mm256_or_si256(upper, lower),
					_mm256_or_si256(digit, _mm256_or_si256(plus, slash))));
		shift = _mm256_or_si256(where(upper, -'A'), where(lower, 26 - 'a'));
		shift = _mm256_or_si256(shift, where(digit, 52 - '0'));
		shift = _mm256_or_si256(shift, where(plus, 62 - '+'));
		shift = _mm256_or_si256(shift, where(slash, 63 - '/'));
		c = _mm256_add_epi8(c, shift);
		/* two digits to twelve bits, two of those to 24, and these in their order */
		c = _mm256_maddubs_epi16(c, _mm256_set1_epi32(0x01400140));
		c = _mm256_madd_epi16(c, _mm256_set1_epi32(0x00011000));
		c = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(c, order), join);
		memcpy(out, &c, sizeof(c));
	}
	*ret_bad = _mm256_movemask_epi8(good) != -1;
	return done;
}
#else
static bool
processor_can(void)
{
	return false;
}

static size_t
encode_wide(uint8_t *out, const uint8_t *in, size_t n)
{
	(void)out;
	(void)in;
	(void)n;
	return 0;
}

static size_t
decode_wide(uint8_t *out, const uint8_t *in, size_t n, bool *ret_bad)
{
	(void)out;
	(void)in;
	(void)n;
	*ret_bad = false;
	return 0;
}
#endif

int
base64_append(struct buf *b, const uint8_t *in, size_t n)
{
	size_t groups = n / 3 + (n % 3 != 0);
	size_t total, done;
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
	done = processor_can() ? encode_wide(out, in, n) : 0;
	in += done;
	out += done / 3 * 4;
	n -= done;
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
	bool wide_bad = false;
	size_t done, whole;
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
	done = processor_can() ? decode_wide(out, in, n, &wide_bad) : 0;
	in += done;
	out += done / 4 * 3;
	whole = n / 4 - 1;
	for (size_t i = done / 4; i < whole; i++, in += 4, out += 3) {
		uint32_t v = base64_bits(in);

		bad |= v;
		base64_put(out, v);
	}
	size_t rest = base64_last(in, out);
	if (wide_bad || (bad & NO_DIGIT) != 0 || rest == 0)
		return -EINVAL;
	buf_commit(b, whole * 3 + rest);
	return 0;
}
