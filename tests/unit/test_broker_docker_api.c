/* tests/unit/test_broker_docker_api.c - each endpoint: what is asked for, how answers are judged.
 */
#include "test.h"

#include "../fakes/box_spec.h"
#include "../fakes/fake_server.h"
#include "engine_parts.h"

#define HEX "664fb81dfacdfe4d6f8b931d85fe608e7f791f093fe2af59ac45951b553c8747"
#define JSON(status, body) \
	"HTTP/1.1 " status "\r\nApi-Version: 1.41\r\nConnection: close\r\n\r\n" body

static struct {
	struct event_base *base;
	struct fake_server server;
	struct engine *engine;
	bool done, free_in_callback;
	int answers, err, status;
	char message[256], text[256];
	struct engine_info info;
	uint64_t tag;
	uint32_t pid;
	size_t n;
} t;

static int
setup(void **state)
{
	struct engine_config config;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.base = event_base_new();
	fake_server_start(&t.server, t.base);
	fake_server_config(&t.server, &config);
	t.engine = engine_new(t.base, &config);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	engine_free(t.engine);
	fake_server_stop(&t.server);
	event_base_free(t.base);
	return 0;
}

static void
took(const struct engine_result *r)
{
	t.done = true;
	t.answers++;
	t.err = r->err;
	t.status = r->http_status;
	(void)snprintf(t.message, sizeof(t.message), "%s", r->message);
	if (t.free_in_callback)
		engine_free(TAKE(t.engine));
}

static void
on_probe(void *ctx, const struct engine_result *r, const struct engine_info *info)
{
	(void)ctx;
	assert_true((r->err == 0) == (info != NULL));
	if (info != NULL)
		t.info = *info;
	took(r);
}

static void
on_text(void *ctx, const struct engine_result *r, const char *id)
{
	(void)ctx;
	assert_true((r->err == 0) == (id != NULL));
	(void)snprintf(t.text, sizeof(t.text), "%s", id != NULL ? id : "");
	took(r);
}

static void
on_list(void *ctx, const struct engine_result *r, const struct engine_container *list, size_t n)
{
	(void)ctx;
	assert_true(r->err == 0 || (list == NULL && n == 0));
	t.n = n;
	took(r);
}

static void
on_create(void *ctx, uint64_t tag, const struct engine_result *r, const char *id)
{
	t.tag = tag;
	on_text(ctx, r, id);
}

static void
on_check(void *ctx, uint64_t tag, const struct engine_result *r, uint32_t pid)
{
	(void)ctx;
	t.tag = tag;
	t.pid = pid;
	took(r);
}

static void
on_done(void *ctx, uint64_t tag, const struct engine_result *r)
{
	(void)ctx;
	t.tag = tag;
	took(r);
}

static void
wait_done(void)
{
	assert_false(t.done); /* never from inside the starting call */
	fake_loop_until(t.base, &t.done);
	t.done = false;
}

static void
replies(const char *a, const char *b, const char *c)
{
	t.server.next = 0;
	t.server.n_requests = 0;
	fake_server_reply(&t.server, 0, a);
	fake_server_reply(&t.server, 1, b);
	fake_server_reply(&t.server, 2, c);
	for (size_t i = 0; i < 3; i++)
		t.server.replies[i].close = true;
}

static void
asked(size_t i, const char *start)
{
	if (strncmp(t.server.request[i], start, strlen(start)) != 0)
		fail_msg("asked for %.200s", t.server.request[i]);
}

static void
test_probe(void **state)
{
	(void)state;
	replies(JSON("200 OK", "OK"), JSON("200 OK", "{\"Version\":\"20.10\"}"),
		JSON("200 OK", "{\"NCPU\":2,\"MemTotal\":1024,\"DefaultRuntime\":\"crun\"}"));
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	assert_int_equal(t.err, 0);
	assert_string_equal(t.info.api, "1.41");
	assert_string_equal(t.info.version, "20.10");
	assert_string_equal(t.info.default_runtime, "crun");
	asked(0, "GET /_ping HTTP/1.1\r\n");
	asked(1, "GET /v1.41/version HTTP/1.1\r\n");
	asked(2, "GET /v1.41/info HTTP/1.1\r\n");
}

static void
test_probe_fails_at_each_step(void **state)
{
	(void)state;
	replies("HTTP/1.1 200 OK\r\nApi-Version: 1.39\r\n\r\nOK", NULL, NULL);
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	assert_int_equal(t.err, -EPROTONOSUPPORT);
	assert_non_null(strstr(t.message, "1.39"));
	replies("HTTP/1.1 200 OK\r\n\r\nOK", NULL, NULL); /* no version */
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	assert_int_equal(t.err, -EPROTO);
	replies(JSON("200 OK", "OK"), JSON("500 X", "{\"message\":\"sick\"}"), NULL);
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	assert_int_equal(t.err, -EIO);
	assert_string_equal(t.message, "sick");
	replies(JSON("200 OK", "OK"), JSON("200 OK", "{\"Version\":\"1\"}"), JSON("200 OK", "[]"));
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	assert_int_equal(t.err, -EPROTO);
	assert_non_null(strstr(t.message, "makes no sense"));
}

static void
test_image_list_create(void **state)
{
	(void)state;
	replies(JSON("200 OK", "{\"Id\":\"sha256:" HEX "\"}"), JSON("200 OK", "[]"),
		JSON("201 Created", "{\"Id\":\"" HEX "\"}"));
	engine_image(t.engine, "bailey/sandbox:slim", NULL, on_text);
	wait_done();
	assert_string_equal(t.text, "sha256:" HEX);
	asked(0, "GET /v1.40/images/bailey/sandbox:slim/json HTTP/1.1\r\n");
	engine_list(t.engine, "ffee", NULL, on_list);
	wait_done();
	assert_int_equal(t.err, 0);
	asked(1,
	      "GET /v1.40/containers/json?all=1&filters=%7B%22label%22%3A%5B%22io.bailey.product%3D"
	      "bailey%22%2C%22io.bailey.user%3Dffee%22%5D%7D HTTP/1.1\r\n");
	engine_create(t.engine, &fake_box_spec, NULL, 42, on_create);
	wait_done();
	assert_int_equal(t.tag, 42);
	assert_string_equal(t.text, HEX);
	asked(2, "POST /v1.40/containers/create?name=bailey-00112233-7 HTTP/1.1\r\n");
}

static void
test_done_calls(void **state)
{
	(void)state;
	replies(JSON("204 X", ""), JSON("304 X", ""), JSON("404 X", "{\"message\":\"gone\"}"));
	engine_start(t.engine, HEX, NULL, 1, on_done);
	wait_done();
	asked(0, "POST /v1.40/containers/" HEX "/start HTTP/1.1\r\n");
	assert_int_equal(t.err, 0);
	engine_start(t.engine, HEX, NULL, 2, on_done);
	wait_done();
	assert_int_equal(t.err, 0);
	assert_int_equal(t.tag, 2);
	engine_start(t.engine, HEX, NULL, 3, on_done);
	wait_done();
	assert_int_equal(t.err, -ENOENT);
	assert_string_equal(t.message, "gone");

	replies(JSON("404 X", "{}"), JSON("409 X", "{\"message\":\"removal in progress\"}"),
		JSON("204 X", ""));
	engine_remove(t.engine, "bailey-00112233-7", NULL, 4, on_done);
	wait_done();
	asked(0, "DELETE /v1.40/containers/bailey-00112233-7?force=1&v=1 HTTP/1.1\r\n");
	assert_int_equal(t.err, 0);
	engine_remove(t.engine, HEX, NULL, 5, on_done);
	wait_done();
	assert_int_equal(t.err, -EEXIST);
	engine_kill(t.engine, HEX, NULL, 6, on_done);
	wait_done();
	asked(2, "POST /v1.40/containers/" HEX "/kill?signal=KILL HTTP/1.1\r\n");

	/* An update is believed once it was read back. */
	replies(JSON("200 X", "{}"),
		JSON("200 X", "{\"HostConfig\":{\"Memory\":67108864,\"MemorySwap\":67108864,"
			      "\"NanoCpus\":250000000}}"),
		NULL);
	engine_update(t.engine, HEX, 1 << 26, 250, NULL, 7, on_done);
	wait_done();
	assert_int_equal(t.err, 0);
	asked(0, "POST /v1.40/containers/" HEX "/update HTTP/1.1\r\n");
	assert_non_null(strstr(t.server.request[0], "\"NanoCpus\":250000000"));
	asked(1, "GET /v1.40/containers/" HEX "/json HTTP/1.1\r\n");
	replies(JSON("200 X", "{}"),
		JSON("200 X", "{\"HostConfig\":{\"Memory\":67108864,\"MemorySwap\":-1,"
			      "\"NanoCpus\":250000000}}"),
		NULL);
	engine_update(t.engine, HEX, 1 << 26, 250, NULL, 7, on_done);
	wait_done();
	assert_int_equal(t.err, -EPERM);
	assert_non_null(strstr(t.message, "HostConfig.MemorySwap"));
	replies(JSON("200 X", "{}"), JSON("404 X", "{\"message\":\"No such container\"}"), NULL);
	engine_update(t.engine, HEX, 1 << 26, 0, NULL, 7, on_done);
	wait_done();
	assert_int_equal(t.err, -ENOENT);
}

static void
test_check(void **state)
{
	static char reply[20000];
	char *body = docker_create_body(&fake_box_spec, &t.engine->info);
	char *host = strstr(body, "\"HostConfig\":") + 13;

	(void)state;
	/* Config and HostConfig are what was sent; the mounts in effect are the five asked for. */
	(void)snprintf(reply, sizeof(reply),
		       JSON("200 OK",
			    "{\"Path\":\"/.bailey/init\",\"Args\":[],\"Image\":\"%s\",\"Mounts\":["
			    "{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":false},"
			    "{\"Type\":\"bind\",\"RW\":false},{\"Type\":\"bind\",\"RW\":false},"
			    "{\"Type\":\"bind\",\"RW\":false}],\"State\":{\"Running\":true,"
			    "\"Pid\":321},\"Config\":%s,\"HostConfig\":%s"),
		       fake_box_spec.image, body, host);
	replies(reply, reply, JSON("200 OK", "{}"));
	engine_check(t.engine, HEX, &fake_box_spec, NULL, 9, on_check);
	wait_done();
	assert_string_equal(t.message, "");
	assert_int_equal(t.err, 0);
	assert_int_equal(t.pid, 321);
	asked(0, "GET /v1.40/containers/" HEX "/json HTTP/1.1\r\n");

	struct box_spec other = fake_box_spec;

	other.pids++;
	engine_check(t.engine, HEX, &other, NULL, 9, on_check);
	other.pids--; /* the call has its own copy */
	wait_done();
	assert_int_equal(t.err, -EPERM);
	assert_int_equal(t.pid, 0);
	assert_non_null(strstr(t.message, "HostConfig.PidsLimit"));
	engine_check(t.engine, HEX, &fake_box_spec, NULL, 9, on_check);
	wait_done();
	assert_int_equal(t.err, -EPROTO);
	free(body);
}

static void
test_names(void **state)
{
	static const char *const bad_ids[] = {"", "abc", (HEX "0"), ("../" HEX)};
	static const char *const bad_names[] = {"", "-a", ".a", "a/b", "a b", "a?b", "a%41", "a\n"};
	struct box_spec spec = fake_box_spec;

	(void)state;
	assert_true(docker_id_ok(HEX));
	for (size_t i = 0; i < ARRAY_LEN(bad_ids); i++) {
		assert_false(docker_id_ok(bad_ids[i]));
		engine_start(t.engine, bad_ids[i], NULL, i, on_done);
		wait_done();
		assert_int_equal(t.err, -EINVAL);
		assert_int_equal(t.tag, i);
		assert_true(strlen(t.message) > 5);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad_names); i++) {
		assert_false(docker_name_ok(bad_names[i]));
		engine_remove(t.engine, bad_names[i], NULL, 0, on_done);
		wait_done();
		assert_int_equal(t.err, -EINVAL);
		(void)snprintf(spec.name, sizeof(spec.name), "%s", bad_names[i]);
		engine_create(t.engine, &spec, NULL, 0, on_create);
		wait_done();
		assert_int_equal(t.err, -EINVAL);
	}
	engine_image(t.engine, "a/../b", NULL, on_text);
	wait_done();
	assert_int_equal(t.err, -EINVAL);
	assert_int_equal(t.server.n_requests, 0);
}

static void
test_statuses(void **state)
{
	(void)state;
	assert_int_equal(docker_status_err(404), -ENOENT);
	assert_int_equal(docker_status_err(409), -EEXIST);
	assert_int_equal(docker_status_err(429), -EBUSY);
	assert_int_equal(docker_status_err(503), -EBUSY);
	assert_int_equal(docker_status_err(500), -EIO);
	assert_int_equal(docker_status_err(400), -EINVAL);
	assert_int_equal(docker_status_err(200), -EPROTO);
	assert_int_equal(docker_status_err(301), -EPROTO);
	assert_int_equal(docker_status_err(0), -EPROTO);
}

static void
test_free_in_a_callback(void **state)
{
	(void)state;
	replies(JSON("204 X", ""), NULL, NULL);
	t.free_in_callback = true;
	engine_start(t.engine, HEX, NULL, 1, on_done);
	engine_probe(t.engine, NULL, on_probe);
	wait_done();
	fake_loop_for(t.base, 50);
	assert_int_equal(t.answers, 1);
}

static void
test_free_in_a_refusal(void **state)
{
	(void)state;
	t.free_in_callback = true;
	engine_start(t.engine, "bad", NULL, 1, on_done);
	engine_start(t.engine, "bad", NULL, 2, on_done);
	wait_done();
	fake_loop_for(t.base, 50);
	assert_int_equal(t.answers, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_probe),
		T(test_probe_fails_at_each_step),
		T(test_image_list_create),
		T(test_done_calls),
		T(test_check),
		T(test_names),
		T(test_statuses),
		T(test_free_in_a_callback),
		T(test_free_in_a_refusal),
	};

	assert_int_equal(engine_global_init(), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
