/*
 * tests/unit/test_ipc_codec.c - the message table as a whole, and every row of it:
 * round trips, directions, damage, msgpack-c's opinion, the prose.
 * Runs in: ctest.
 * Input: ipc/PROTOCOL.md of the source tree.
 * Owns: nothing beyond each test.
 */
#include "test.h"

#include <msgpack.h>

#include "ipc.h"

static uint8_t text[IPC_PACKET_MAX]; /* what str and bin fields point into */

/* ---- the table expanded once more, for filling and comparing rows ---- */
#define FILL_u32(at, max) (at) = full ? UINT32_MAX : 0
#define FILL_u64(at, max) (at) = full ? UINT64_MAX : 0
#define FILL_str(at, max)                            \
	(at) = (struct ipc_str)                      \
	{                                            \
		(const char *)text, full ? (max) : 0 \
	}
#define FILL_bin(at, max)              \
	(at) = (struct ipc_bin)        \
	{                              \
		text, full ? (max) : 0 \
	}
#define IPC_MSG(msg, num, from, to, max)                       \
	static void fill_##msg(struct ipc_row *row, bool full) \
	{                                                      \
		(void)row;                                     \
		(void)full;
#define IPC_FIELD(msg, type, field, max) FILL_##type(row->u.msg.field, max);
#define IPC_END(msg) }
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END

static void
same_u32(uint32_t a, uint32_t b)
{
	assert_int_equal(a, b);
}

static void
same_u64(uint64_t a, uint64_t b)
{
	assert_true(a == b);
}

static void
same_str(struct ipc_str a, struct ipc_str b)
{
	assert_int_equal(a.len, b.len);
	if (a.len > 0)
		assert_memory_equal(a.data, b.data, a.len);
}

static void
same_bin(struct ipc_bin a, struct ipc_bin b)
{
	assert_int_equal(a.len, b.len);
	if (a.len > 0)
		assert_memory_equal(a.data, b.data, a.len);
}

#define IPC_MSG(msg, number, from, to, max)                                      \
	static void same_##msg(const struct ipc_row *a, const struct ipc_row *b) \
	{                                                                        \
		(void)b;                                                         \
		assert_int_equal(a->num, b->num);
#define IPC_FIELD(msg, type, field, max) same_##type(a->u.msg.field, b->u.msg.field);
#define IPC_END(msg) }
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END

static const struct {
	const char *name;
	unsigned int num, from, to;
	size_t max;
	void (*fill)(struct ipc_row *row, bool full);
	void (*same)(const struct ipc_row *a, const struct ipc_row *b);
} rows[] = {
#define IPC_MSG(msg, num, from, to, max) {#msg, num, from, to, max, fill_##msg, same_##msg},
#define IPC_FIELD(msg, type, field, max)
#define IPC_END(msg)
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END
};

static const enum ipc_role roles[] = {IPC_SUPERVISOR, IPC_FRONTEND, IPC_BROKER, IPC_REAPER};

/* Some direction the row has. */
static void
direction(size_t i, enum ipc_role *from, enum ipc_role *to)
{
	for (size_t k = 0; k < ARRAY_LEN(roles); k++) {
		if ((rows[i].from & roles[k]) != 0)
			*from = roles[k];
		if ((rows[i].to & roles[k]) != 0)
			*to = roles[k];
	}
}

static struct ipc_row
make_row(size_t i, bool full)
{
	struct ipc_row row = {.num = (enum ipc_num)rows[i].num};

	rows[i].fill(&row, full);
	return row;
}

static void
test_table_sorted_named_bounded(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_true(rows[i].num > 0 && rows[i].num < 256);
		if (i > 0)
			assert_true(rows[i].num > rows[i - 1].num);
		assert_true(rows[i].max <= IPC_PACKET_MAX);
		assert_true(rows[i].from != 0 && rows[i].to != 0);
		assert_int_equal(rows[i].from & rows[i].to, 0);
		assert_string_equal(ipc_name((enum ipc_num)rows[i].num), rows[i].name);
		/* no link joins frontend and reaper */
		assert_false((rows[i].from & IPC_FRONTEND) != 0 && (rows[i].to & IPC_REAPER) != 0);
		assert_false((rows[i].from & IPC_REAPER) != 0 && (rows[i].to & IPC_FRONTEND) != 0);
	}
	assert_string_equal(ipc_name((enum ipc_num)255), "unknown");
	assert_string_equal(ipc_name((enum ipc_num)0), "unknown");
	assert_string_equal(ipc_name((enum ipc_num)70000), "unknown");
}

/* Empty and at every maximum: it fits the packet the row allows and comes back equal. */
static void
test_every_row_round_trips(void **state)
{
	static uint8_t out[IPC_PACKET_MAX];
	static uint8_t again[IPC_PACKET_MAX];

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		struct ipc_row row = make_row(i / 2, i % 2 == 1);
		enum ipc_role from = IPC_SUPERVISOR;
		enum ipc_role to = IPC_SUPERVISOR;
		struct ipc_row back;
		size_t again_len;
		size_t len;

		direction(i / 2, &from, &to);
		assert_int_equal(ipc_encode(&row, from, to, out, sizeof(out), &len), 0);
		assert_true(len <= rows[i / 2].max);
		assert_int_equal(ipc_decode(out, len, from, to, &back), 0);
		rows[i / 2].same(&row, &back);
		assert_int_equal(ipc_encode(&back, from, to, again, sizeof(again), &again_len), 0);
		assert_int_equal(again_len, len);
		assert_memory_equal(again, out, len);
		assert_int_equal(ipc_encode(&row, from, to, again, len - 1, &again_len), -EMSGSIZE);
	}
}

static void
test_every_wrong_direction_is_refused(void **state)
{
	static uint8_t out[IPC_PACKET_MAX];
	static uint8_t again[IPC_PACKET_MAX];
	size_t refused = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_row row = make_row(i, true);
		enum ipc_role from = IPC_SUPERVISOR;
		enum ipc_role to = IPC_SUPERVISOR;
		struct ipc_row back;
		size_t len;

		direction(i, &from, &to);
		assert_int_equal(ipc_encode(&row, from, to, out, sizeof(out), &len), 0);
		for (size_t k = 0; k < ARRAY_LEN(roles) * ARRAY_LEN(roles); k++) {
			enum ipc_role f = roles[k / ARRAY_LEN(roles)];
			enum ipc_role t = roles[k % ARRAY_LEN(roles)];
			bool right = (rows[i].from & f) != 0 && (rows[i].to & t) != 0;
			size_t unused;

			assert_int_equal(ipc_decode(out, len, f, t, &back), right ? 0 : -EBADMSG);
			assert_int_equal(ipc_encode(&row, f, t, again, sizeof(again), &unused),
					 right ? 0 : -EINVAL);
			refused += !right;
		}
	}
	assert_true(refused > 10 * ARRAY_LEN(rows));
}

/* Every field of every row over its maximum by one. */
#define OVER_u32(at, max) (void)0
#define OVER_u64(at, max) (void)0
#define OVER_str(at, max)                                                              \
	(at).len = (max) + 1;                                                          \
	assert_int_equal(ipc_encode(&row, from, to, out, sizeof(out), &len), -EINVAL); \
	(at).len = 0
#define OVER_bin(at, max) OVER_str(at, max)
#define IPC_MSG(msg, num, from_roles, to_roles, max)     \
	static void over_##msg(size_t i)                 \
	{                                                \
		static uint8_t out[IPC_PACKET_MAX];      \
		struct ipc_row row = make_row(i, false); \
		enum ipc_role from = IPC_SUPERVISOR;     \
		enum ipc_role to = IPC_SUPERVISOR;       \
		size_t len;                              \
		direction(i, &from, &to);                \
		assert_int_equal(ipc_encode(&row, from, to, out, sizeof(out), &len), 0);
#define IPC_FIELD(msg, type, field, max) OVER_##type(row.u.msg.field, max);
#define IPC_END(msg) }
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END

static void
test_every_field_over_its_maximum(void **state)
{
	size_t i = 0;

	(void)state;
#define IPC_MSG(msg, num, from, to, max) over_##msg(i++);
#define IPC_FIELD(msg, type, field, max)
#define IPC_END(msg)
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END
	assert_int_equal(i, ARRAY_LEN(rows));
}

/* msgpack-c reads what we write as one array of the same number, to the last byte. */
static bool
msgpack_agrees(const uint8_t *in, size_t len, uint64_t num)
{
	msgpack_unpacked result;
	size_t off = 0;
	bool same;

	msgpack_unpacked_init(&result);
	same = msgpack_unpack_next(&result, (const char *)in, len, &off) ==
		       MSGPACK_UNPACK_SUCCESS &&
	       off == len && result.data.type == MSGPACK_OBJECT_ARRAY &&
	       result.data.via.array.size > 0 &&
	       result.data.via.array.ptr[0].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
	       result.data.via.array.ptr[0].via.u64 == num;
	msgpack_unpacked_destroy(&result);
	return same;
}

/* Cuts, additions and random damage of every row: refused, or a packet msgpack-c takes too. */
static void
test_every_row_damaged(void **state)
{
	static uint8_t out[IPC_PACKET_MAX];
	uint32_t seed = 5;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_row row = make_row(i, true);
		enum ipc_role from = IPC_SUPERVISOR;
		enum ipc_role to = IPC_SUPERVISOR;
		struct ipc_row back;
		size_t len;

		direction(i, &from, &to);
		assert_int_equal(ipc_encode(&row, from, to, out, sizeof(out) - 1, &len), 0);
		assert_true(msgpack_agrees(out, len, rows[i].num));
		out[len] = 0;
		assert_int_equal(ipc_decode(out, len + 1, from, to, &back), -EBADMSG);
		for (size_t cut = 0; cut < len; cut = cut < 300 ? cut + 1 : cut + 997) {
			cleanup_free uint8_t *bytes = xcalloc(cut, 1);

			memcpy(bytes, out, cut);
			assert_int_equal(ipc_decode(bytes, cut, from, to, &back), -EBADMSG);
		}
		for (int round = 0; round < 300; round++) {
			size_t at = test_random(&seed) % (len < 40 ? len : 40);
			uint8_t old = out[at];

			out[at] = (uint8_t)test_random(&seed);
			if (ipc_decode(out, len, from, to, &back) == 0)
				assert_true(msgpack_agrees(out, len, back.num));
			out[at] = old;
		}
	}
}

static void
test_decode_odd_packets(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		int r;
	} cases[] = {
		/* stop: [3, grace_ms], supervisor to a child, 32 bytes at most */
		{"\x92\x03\x05", 3, 0},
		{"\xdc\x00\x02\xcd\x00\x03\xce\x00\x00\x00\x05", 11, 0}, /* wider than needed */
		{"\x91\x03", 2, -EBADMSG},                               /* a field missing */
		{"\x93\x03\x05\x05", 4, -EBADMSG},                       /* one too many */
		{"\x92\x03\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 11, -EBADMSG}, /* above u32 */
		{"\x92\x03\xa1\x35", 4, -EBADMSG}, /* a string for a number */
		{"\x92\x03\xd0\x05", 4, -EBADMSG}, /* signed */
		{"\x92\x00\x05", 3, -EBADMSG},     /* no such message */
		{"\x92\x7f\x05", 3, -EBADMSG},
		{"\x92\xcd\x01\x03\x05", 5, -EBADMSG}, /* 0x103 is not 3 */
		{"\x92\xcf\x00\x00\x00\x01\x00\x00\x00\x03\x05", 11, -EBADMSG},
		{"\x90", 1, -EBADMSG},
		{"\x82\x03\x05\x03\x05", 5, -EBADMSG},     /* a map */
		{"\xdd\xff\xff\xff\xff\x03", 6, -EBADMSG}, /* a claim of 2^32 - 1 */
		{"", 0, -EBADMSG},
	};
	struct ipc_row row = {.num = (enum ipc_num)250};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ipc_row back = row;

		assert_int_equal(ipc_decode((const uint8_t *)cases[i].in, cases[i].len,
					    IPC_SUPERVISOR, IPC_BROKER, &back),
				 cases[i].r);
		if (cases[i].r == 0)
			assert_int_equal(back.u.stop.grace_ms, 5);
		else
			assert_int_equal(back.num, 250); /* untouched */
	}
	assert_int_equal(
		ipc_encode(&row, IPC_SUPERVISOR, IPC_BROKER, (uint8_t[8]){0}, 8, &(size_t){0}),
		-EINVAL);
}

static void
test_format(void **state)
{
	char out[300];

	(void)state;
	ipc_format(IPC_ROW(stop, .grace_ms = 7), out, sizeof(out));
	assert_string_equal(out, "stop{grace_ms=7}");
	ipc_format(IPC_ROW(configured), out, sizeof(out));
	assert_string_equal(out, "configured{}");
	ipc_format(IPC_ROW(watch_intend, .box = 9, .name = IPC_STR("a\nb"),
			   .secret = {(const uint8_t *)"secret", 6}),
		   out, sizeof(out));
	assert_string_equal(out, "watch_intend{box=9 name=\"a\\x0ab\" end_ns=0 secret=<6 bytes>}");
	ipc_format(&(struct ipc_row){.num = (enum ipc_num)99}, out, sizeof(out));
	assert_string_equal(out, "unknown(99)");
	for (size_t cap = 0; cap < 40; cap++) {
		memset(out, '#', sizeof(out));
		ipc_format(IPC_ROW(watch_gone, .box = 123456789), out, cap);
		if (cap > 0)
			assert_true(strlen(out) < cap);
		assert_int_equal(out[cap], '#');
	}
}

static void
roles_text(unsigned int bits, char *out, size_t cap)
{
	out[0] = '\0';
	if (bits == IPC_CHILDREN) {
		(void)snprintf(out, cap, "every child");
		return;
	}
	for (size_t k = 0; k < ARRAY_LEN(roles); k++) {
		size_t used = strlen(out);

		if ((bits & roles[k]) != 0)
			(void)snprintf(out + used, cap - used, "%s%s", used > 0 ? ", " : "",
				       ipc_role_name(roles[k]));
	}
}

/* One heading "### 0x20 call_submit (frontend to broker)" per row, and no other. */
static void
test_every_row_is_documented(void **state)
{
	cleanup_free char *page = xcalloc(200000, 1);
	size_t headings = 0;
	size_t len;

	(void)state;
	assert_int_equal(
		fd_read_file(AT_FDCWD, BAILEY_SOURCE "/ipc/PROTOCOL.md", page, 200000, &len), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char heading[200];
		char from[80];
		char to[80];

		roles_text(rows[i].from, from, sizeof(from));
		roles_text(rows[i].to, to, sizeof(to));
		(void)snprintf(heading, sizeof(heading), "\n### 0x%02x %s (%s to %s)\n",
			       rows[i].num, rows[i].name, from, to);
		if (strstr(page, heading) == NULL)
			fail_msg("PROTOCOL.md lacks: %s", heading);
	}
	for (char *at = page; (at = strstr(at, "\n### 0x")) != NULL; at++) {
		const char *end = strchr(at + 1, '\n');
		const char *guest = strstr(at, "guest");

		headings += end != NULL && (guest == NULL || guest > end);
	}
	assert_int_equal(headings, ARRAY_LEN(rows));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_sorted_named_bounded),
		cmocka_unit_test(test_every_row_round_trips),
		cmocka_unit_test(test_every_wrong_direction_is_refused),
		cmocka_unit_test(test_every_field_over_its_maximum),
		cmocka_unit_test(test_every_row_damaged),
		cmocka_unit_test(test_decode_odd_packets),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_every_row_is_documented),
	};

	memset(text, 't', sizeof(text));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
