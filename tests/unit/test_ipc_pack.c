/*
 * tests/unit/test_ipc_pack.c - the writer: shortest forms, overflow, agreement with the reader and
 * msgpack-c. Runs in: ctest. Input: none. Owns: nothing beyond each test.
 */
#include "test.h"

#include <msgpack.h>

#include "ipc.h"

static void
test_wire_put_shortest_forms(void **state)
{
	static const struct {
		uint64_t value;
		size_t len;
	} numbers[] = {{0, 1},     {127, 1},   {128, 2},        {255, 2},        {256, 3},
		       {65535, 3}, {65536, 5}, {UINT32_MAX, 5}, {1ULL << 32, 9}, {UINT64_MAX, 9}};
	static const struct {
		size_t n, head_str, head_bin;
	} lengths[] = {{0, 1, 2},   {31, 1, 2},    {32, 2, 2},   {255, 2, 2},
		       {256, 3, 3}, {65535, 3, 3}, {65536, 5, 5}};
	static uint8_t out[70000];
	static const uint8_t bytes[70000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		struct wire_writer w = {.out = out, .cap = sizeof(out)};
		struct wire_reader r;
		uint64_t back;

		wire_put_u64(&w, numbers[i].value);
		assert_false(w.overflow);
		assert_int_equal(w.len, numbers[i].len);
		r = (struct wire_reader){out, out + w.len};
		assert_int_equal(wire_read_u64(&r, UINT64_MAX, &back), 0);
		assert_int_equal(back, numbers[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct wire_writer w = {.out = out, .cap = sizeof(out)};
		struct wire_reader r;
		struct ipc_str str;
		struct ipc_bin bin;

		wire_put_str(&w, (const char *)bytes, lengths[i].n);
		assert_int_equal(w.len, lengths[i].n + lengths[i].head_str);
		r = (struct wire_reader){out, out + w.len};
		assert_int_equal(wire_read_str(&r, lengths[i].n, &str), 0);
		assert_int_equal(str.len, lengths[i].n);
		w.len = 0;
		wire_put_bin(&w, bytes, lengths[i].n);
		assert_int_equal(w.len, lengths[i].n + lengths[i].head_bin);
		r = (struct wire_reader){out, out + w.len};
		assert_int_equal(wire_read_bin(&r, lengths[i].n, &bin), 0);
		assert_int_equal(bin.len, lengths[i].n);
		w.len = 0;
		wire_put_array(&w, (uint32_t)lengths[i].n);
		r = (struct wire_reader){out, out + w.len};
		assert_int_equal(wire_read_array(&r, &(uint32_t){0}), 0);
		assert_ptr_equal(r.p, r.end);
	}
}

/* However small the room is: never past it, overflow told, nothing more written. */
static void
test_wire_put_overflow_at_every_length(void **state)
{
	uint8_t out[64];

	(void)state;
	for (size_t cap = 0; cap <= 40; cap++) {
		struct wire_writer w = {.out = out, .cap = cap};

		memset(out, 0xee, sizeof(out));
		wire_put_array(&w, 3);
		wire_put_str(&w, "0123456789", 10);
		wire_put_bin(&w, (const uint8_t *)"0123456789", 10);
		wire_put_u64(&w, UINT64_MAX);
		wire_put_u64(&w, 5);
		assert_int_equal(w.overflow, cap < 34);
		assert_true(w.len <= cap);
		for (size_t i = cap; i < sizeof(out); i++)
			assert_int_equal(out[i], 0xee);
	}
}

static struct guest_spec
small_spec(struct ipc_str *args, struct ipc_str *env)
{
	args[0] = IPC_STR("-x");
	args[1] = IPC_STR("");
	env[0] = IPC_STR("A=1");
	return (struct guest_spec){.kind = RUN_PYTHON,
				   .flags = SPEC_STDIN,
				   .timeout_ms = 60000,
				   .output_limit = 1ULL << 40,
				   .cwd = IPC_STR("sub"),
				   .code = {(const uint8_t *)"print(1)\0", 9},
				   .n_args = 2,
				   .args = args,
				   .n_env = 1,
				   .env = env};
}

static void
test_spec_encode_is_one_msgpack_array(void **state)
{
	struct ipc_str args[2];
	struct ipc_str env[1];
	struct guest_spec spec = small_spec(args, env);
	msgpack_unpacked result;
	size_t off = 0;
	struct buf b;

	(void)state;
	buf_init(&b, GUEST_SPEC_MAX);
	assert_int_equal(buf_append(&b, "pre", 3), 0); /* it appends */
	assert_int_equal(spec_encode(&spec, &b), 0);
	msgpack_unpacked_init(&result);
	assert_int_equal(
		msgpack_unpack_next(&result, (const char *)buf_data(&b) + 3, buf_len(&b) - 3, &off),
		MSGPACK_UNPACK_SUCCESS);
	assert_int_equal(off, buf_len(&b) - 3);
	assert_int_equal(result.data.type, MSGPACK_OBJECT_ARRAY);
	assert_int_equal(result.data.via.array.size, SPEC_FIELDS);
	assert_int_equal(result.data.via.array.ptr[5].type, MSGPACK_OBJECT_BIN);
	assert_int_equal(result.data.via.array.ptr[6].via.array.size, 2);
	msgpack_unpacked_destroy(&result);
	buf_done(&b);
}

static void
test_spec_encode_respects_room(void **state)
{
	struct ipc_str args[2];
	struct ipc_str env[1];
	struct guest_spec spec = small_spec(args, env);
	struct buf b;

	(void)state;
	buf_init(&b, 20);
	assert_int_equal(spec_encode(&spec, &b), -E2BIG);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
	buf_init(&b, GUEST_SPEC_MAX);
	spec.kind = 0;
	assert_int_equal(spec_encode(&spec, &b), -EINVAL);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

/* Each part within its maximum, the whole above GUEST_SPEC_MAX. */
static void
test_spec_encode_refuses_a_large_whole(void **state)
{
	cleanup_free char *item = xcalloc(SPEC_ITEM_MAX, 1);
	struct ipc_str args[17];
	struct guest_spec spec = {.kind = RUN_BASH, .n_args = 17, .args = args};
	struct buf b;

	(void)state;
	memset(item, 'a', SPEC_ITEM_MAX);
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		args[i] = (struct ipc_str){item, SPEC_ITEM_MAX};
	buf_init(&b, 2 * (size_t)GUEST_SPEC_MAX);
	assert_int_equal(spec_encode(&spec, &b), -E2BIG);
	assert_int_equal(buf_len(&b), 0);
	spec.n_args = 15;
	assert_int_equal(spec_encode(&spec, &b), 0);
	buf_done(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wire_put_shortest_forms),
		cmocka_unit_test(test_wire_put_overflow_at_every_length),
		cmocka_unit_test(test_spec_encode_is_one_msgpack_array),
		cmocka_unit_test(test_spec_encode_respects_room),
		cmocka_unit_test(test_spec_encode_refuses_a_large_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
