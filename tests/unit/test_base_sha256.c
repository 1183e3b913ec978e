/* base/sha256.c: the standard's own vectors, and every length around a chunk's end. */
#include "test.h"

#include "base.h"

static void
check(const void *p, size_t n, const char *want)
{
	uint8_t out[32];
	char hex[65];

	sha256(p, n, out);
	hex_encode(hex, out, sizeof(out));
	assert_string_equal(hex, want);
}

static void
test_vectors(void **state)
{
	static const struct {
		const char *text, *digest;
	} rows[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		 "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check(rows[i].text, strlen(rows[i].text), rows[i].digest);
	check(NULL, 0, rows[0].digest);
}

static void
test_a_million(void **state)
{
	char *text = malloc(1000000);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', 1000000);
	check(text, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(text);
}

/* The digest of the digests of all prefixes of 0, 1, 2 …: padding at every place of a chunk. */
static void
test_every_length(void **state)
{
	uint8_t text[200], all[201 * 32];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)i;
	for (size_t n = 0; n <= sizeof(text); n++)
		sha256(text, n, all + 32 * n);
	check(all, sizeof(all), "64ef7c229fce2408b5336b6a542fea0e078c3a87d2da85cb3fc52e2008b65021");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_a_million),
		cmocka_unit_test(test_every_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
