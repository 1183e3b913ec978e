/* Settings, engine address and certificates: copied whole or not at all. */
#include "test.h"

#include "broker_world.h"

static struct ipc_settings
good(void)
{
	return (struct ipc_settings){.instance = IPC_STR("0123456789abcdef0123456789abcdef"),
				     .boot_id = IPC_STR("b"),
				     .user_hash = IPC_STR("u"),
				     .box_uid = 10001,
				     .box_gid = 10001,
				     .share_dir = IPC_STR("/share"),
				     .image = IPC_STR("img"),
				     .host_memory_bytes = 1,
				     .cgroup_parent = IPC_STR("")};
}

static void
test_settings(void **state)
{
	struct ipc_settings m = good();
	struct settings s = {0};

	(void)state;
	assert_int_equal(settings_copy(&m, &s), 0);
	assert_string_equal(s.image, "img");
	assert_int_equal(s.box_uid, 10001);
	m.box_uid = 0; /* never as root */
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	m = good();
	m.box_gid = 0;
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	m = good();
	m.instance = IPC_STR("short");
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	m = good();
	m.image = IPC_STR("");
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	m = good();
	m.host_memory_bytes = 0;
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	m = good();
	m.share_dir = (struct ipc_str){"a\0b", 3};
	assert_int_equal(settings_copy(&m, &s), -EINVAL);
	assert_string_equal(s.image, "img"); /* the good copy stands */
}

static void
test_engine_and_pem(void **state)
{
	struct ipc_engine m = {.kind = ENGINE_TLS,
			       .path = IPC_STR(""),
			       .host = IPC_STR("h"),
			       .address = IPC_STR("1.2.3.4"),
			       .port = 2376};
	struct engine_config c;
	struct ipc_engine_pem pem = {.which = PEM_KEY, .data = {(const uint8_t *)"abc", 3}};

	(void)state;
	assert_int_equal(settings_engine(&m, &c), 0);
	assert_string_equal(c.address, "1.2.3.4");
	assert_int_equal(settings_pem(&pem, &c), 0);
	assert_int_equal(settings_pem(&pem, &c), 0);
	assert_int_equal(buf_len(&c.pem[PEM_KEY]), 6);
	pem.which = 0;
	assert_int_equal(settings_pem(&pem, &c), -EINVAL);
	pem.which = 4;
	assert_int_equal(settings_pem(&pem, &c), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(c.pem); i++)
		buf_done(&c.pem[i]);
	m.kind = 9;
	assert_int_equal(settings_engine(&m, &c), -EINVAL);
	m.kind = ENGINE_TCP;
	m.port = 65536;
	assert_int_equal(settings_engine(&m, &c), -EINVAL);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_engine_and_pem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
