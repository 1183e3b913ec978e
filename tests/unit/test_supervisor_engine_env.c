/* supervisor/engine_env.c: where the engine is, with the files it may need. */
#include "test.h"
#include "supervisor.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char root[64];
static int listener = -1;
static char path[256];

static const char *
at(const char *name)
{
	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void
put(const char *name, const char *text, size_t n)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, n), 0);
	assert_int_equal(close(fd), 0);
}

static int
setup(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/bailey-engine.XXXXXX");
	assert_non_null(mkdtemp(root));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/docker.sock", root);
	return bind(listener, (const struct sockaddr *)&address, sizeof(address));
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	assert_int_equal(close(listener), 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command); // a test's own directory
}

static int
find(const char *host, bool tls, const char *const *places, struct engine_target *t)
{
	struct options o = {.tls = tls};
	char error[1024];

	assert_int_equal(str_copy(o.docker_host, sizeof(o.docker_host), host, strlen(host)), 0);
	int r = engine_env_find(&o, places, root, t, error, sizeof(error));
	assert_int_equal(r < 0, error[0] != '\0');
	assert_null(strchr(error, '\n'));
	return r;
}

static void
test_places(void **state)
{
	const char *places[ENGINE_PLACES];
	char room[128];

	(void)state;
	engine_env_places("/run/user/5", 7, room, sizeof(room), places);
	assert_string_equal(places[0], "/var/run/docker.sock");
	assert_string_equal(places[1], "/run/user/5/docker.sock");
	assert_string_equal(places[2], "/run/bailey-engine/docker.sock");
	assert_null(places[3]);
	engine_env_places(NULL, 7, room, sizeof(room), places);
	assert_string_equal(places[1], "/run/user/7/docker.sock");
	assert_string_equal(places[2], "/run/bailey-engine/docker.sock");
	assert_null(places[3]);
	engine_env_places("relative", 7, room, sizeof(room), places);
	assert_null(places[2]);
}

static void
test_first_usable_place(void **state)
{
	struct engine_target t;
	char sock[128];
	const char *places[] = {"/nowhere/docker.sock", "/etc/passwd", sock, NULL};

	(void)state;
	(void)snprintf(sock, sizeof(sock), "%s/docker.sock", root);
	assert_int_equal(find("", false, places, &t), 0);
	assert_int_equal(t.kind, ENGINE_UNIX);
	assert_string_equal(t.path, sock);
	assert_string_equal(t.dir, root);
	assert_true(t.have_gid);
	assert_int_equal(t.gid, getegid());
	/* none there: the default, for when it appears */
	places[2] = NULL;
	assert_int_equal(find("", false, places, &t), 0);
	assert_non_null(strstr(t.path, "/run/docker.sock"));
}

static void
test_unix(void **state)
{
	struct engine_target t;
	char url[256];

	(void)state;
	(void)snprintf(url, sizeof(url), "unix://%s/docker.sock", root);
	assert_int_equal(find(url, false, NULL, &t), 0);
	assert_string_equal(t.dir, root);
	/* symbolic links are followed, of the socket and of its directory */
	assert_int_equal(symlink("docker.sock", at("link.sock")), 0);
	(void)snprintf(url, sizeof(url), "unix://%s/link.sock", root);
	assert_int_equal(find(url, false, NULL, &t), 0);
	assert_string_equal(t.path, at("docker.sock"));
	assert_int_equal(symlink(".", at("dir")), 0);
	(void)snprintf(url, sizeof(url), "unix://%s/dir/absent.sock", root);
	assert_int_equal(find(url, false, NULL, &t), 0);
	assert_string_equal(t.path, at("absent.sock"));
	assert_false(t.have_gid);
	/* no directory, or longer than a socket address can be */
	assert_int_equal(find("unix:///docker.sock", false, NULL, &t), -EINVAL);
	memset(url, 'x', 200);
	memcpy(url, "unix:///a/", 10);
	url[200] = '\0';
	assert_int_equal(find(url, false, NULL, &t), -EINVAL);
}

static void
test_tcp(void **state)
{
	static const struct {
		const char *url, *host;
		bool tls;
		uint32_t port;
	} good[] = {
		{"tcp://engine.example", "engine.example", false, 2375},
		{"tcp://engine.example:99", "engine.example", false, 99},
		{"tcp://10.0.0.1:65535/", "10.0.0.1", false, 65535},
		{"tcp://[::1]:7", "::1", false, 7},
		{"tcp://[fe80::1]", "fe80::1", false, 2375},
	};
	static const char *const bad[] = {
		"tcp://",        "tcp:///",   "tcp://:1",     "tcp://h:",          "tcp://h:0",
		"tcp://h:65536", "tcp://h:x", "tcp://h/path", "tcp://u@h",         "tcp://[::1",
		"tcp://[::1]x",  "tcp://[]",  "tcp://h:1:2",  "tcp://h:000000001", "tcp://a\nb",
	};
	struct engine_target t;
	char url[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(find(good[i].url, good[i].tls, NULL, &t), 0);
		assert_int_equal(t.kind, ENGINE_TCP);
		assert_string_equal(t.host, good[i].host);
		assert_int_equal(t.port, good[i].port);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(find(bad[i], false, NULL, &t), -EINVAL);
	memset(url, 'h', 300);
	memcpy(url, "tcp://", 6);
	url[300] = '\0';
	assert_int_equal(find(url, false, NULL, &t), -EINVAL);
}

static void
test_tls_needs_its_files(void **state)
{
	struct engine_target t;
	static char large[300000];

	(void)state;
	assert_int_equal(find("tcp://h", true, NULL, &t), -ENOENT);
	assert_int_equal(mkdir(at(".docker"), 0700), 0);
	put(".docker/ca.pem", "ca", 2);
	put(".docker/cert.pem", "cert", 4);
	assert_int_equal(find("tcp://h", true, NULL, &t), -ENOENT);
	put(".docker/real-key", "secret", 6);
	assert_int_equal(symlink("real-key", at(".docker/key.pem")), 0);
	assert_int_equal(find("tcp://h", true, NULL, &t), 0);
	assert_int_equal(t.kind, ENGINE_TLS);
	assert_int_equal(t.port, 2376);
	assert_int_equal(buf_len(&t.pem[PEM_KEY - 1]), 6);
	assert_memory_equal(buf_data(&t.pem[PEM_CA - 1]), "ca", 2);
	engine_env_done(&t);
	engine_env_done(&t);
	/* empty and oversized ones are refused */
	put(".docker/cert.pem", "", 0);
	assert_int_equal(find("tcp://h", true, NULL, &t), -ENODATA);
	put(".docker/cert.pem", large, sizeof(large));
	assert_int_equal(find("tcp://h", true, NULL, &t), -EFBIG);
}

static void
test_resolve(void **state)
{
	static const char *const numeric[] = {"127.0.0.1", "::1"};
	struct engine_target t = {.kind = ENGINE_TCP};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numeric); i++) {
		assert_int_equal(str_copy(t.host, sizeof(t.host), numeric[i], strlen(numeric[i])),
				 0);
		assert_int_equal(engine_env_resolve(&t), 0);
		assert_string_equal(t.address, numeric[i]);
	}
	assert_int_equal(str_copy(t.host, sizeof(t.host), "localhost", 9), 0);
	assert_int_equal(engine_env_resolve(&t), 0);
	assert_true(strcmp(t.address, "127.0.0.1") == 0 || strcmp(t.address, "::1") == 0);
	t.address[0] = '\0';
	assert_int_equal(str_copy(t.host, sizeof(t.host), "no..such..name", 14), 0);
	assert_true(engine_env_resolve(&t) < 0);
	assert_string_equal(t.address, "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_places), T(test_first_usable_place),  T(test_unix),
		T(test_tcp),    T(test_tls_needs_its_files), T(test_resolve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
