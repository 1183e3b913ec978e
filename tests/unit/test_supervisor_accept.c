/* supervisor/accept.c: who gets a frontend, who is closed, and when accepting waits. */
#include "test.h"
#include "supervisor.h"
#include "fakes/still_clock.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <event2/event.h>

#define MOST 64

static struct tree t;
static struct child fronts[MOST]; /* what fronts_start was asked for, as it would keep it */
static size_t n_fronts;
static int start_result;
static int unix_fd, http_fd;
static struct sockaddr_un unix_at;
static struct sockaddr_in http_at;
static int clients[MOST];
static size_t n_clients;

int __wrap_fronts_start(struct tree *tree, const struct client *client);
int
__wrap_fronts_start(struct tree *tree, const struct client *client)
{
	if (start_result < 0) {
		assert_int_equal(close(client->fd), 0);
		return start_result;
	}
	fronts[n_fronts].client = *client;
	TAILQ_INSERT_TAIL(&tree->fronts, &fronts[n_fronts], entry);
	n_fronts++;
	tree->n_fronts++;
	return 0;
}

static void
front_ends(size_t i)
{
	TAILQ_REMOVE(&t.fronts, &fronts[i], entry);
	assert_int_equal(close(fronts[i].client.fd), 0);
	fronts[i].client.fd = -1;
	t.n_fronts--;
	accept_room(t.acceptor);
}

static int
listener(int family, const struct sockaddr *at, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, at, len), 0);
	assert_int_equal(listen(fd, MOST), 0);
	return fd;
}

static int
setup(void **state)
{
	socklen_t len = sizeof(unix_at), http_len = sizeof(http_at);

	(void)state;
	memset(&t, 0, sizeof(t));
	memset(fronts, 0, sizeof(fronts));
	n_fronts = n_clients = 0;
	start_result = 0;
	TAILQ_INIT(&t.fronts);
	t.base = event_base_new();
	/* without a name it gets an abstract one of its own */
	unix_at = (struct sockaddr_un){.sun_family = AF_UNIX};
	unix_fd = listener(AF_UNIX, (const struct sockaddr *)&unix_at, sizeof(sa_family_t));
	assert_int_equal(getsockname(unix_fd, (struct sockaddr *)&unix_at, &len), 0);
	http_at = (struct sockaddr_in){.sin_family = AF_INET};
	http_at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	http_fd = listener(AF_INET, (const struct sockaddr *)&http_at, sizeof(http_at));
	assert_int_equal(getsockname(http_fd, (struct sockaddr *)&http_at, &http_len), 0);
	unix_at.sun_path[sizeof(unix_at.sun_path) - 1] = (char)len; /* its length, for connect */
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	accept_free(t.acceptor);
	for (size_t i = 0; i < n_fronts; i++)
		cleanup_closep(&fronts[i].client.fd);
	for (size_t i = 0; i < n_clients; i++)
		cleanup_closep(&clients[i]);
	event_base_free(t.base);
	return 0;
}

static void
accepting(uint32_t all, uint32_t of_user, uint32_t burst, uint32_t per_second)
{
	const struct accept_limits limits = {
		.all = all, .of_user = of_user, .burst = burst, .per_second = per_second};

	t.acceptor = accept_new(&t, unix_fd, http_fd, &limits);
}

static int
client(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = unix_at;
	socklen_t len = (socklen_t)at.sun_path[sizeof(at.sun_path) - 1];

	at.sun_path[sizeof(at.sun_path) - 1] = '\0';
	if (family == AF_UNIX)
		assert_int_equal(connect(fd, (const struct sockaddr *)&at, len), 0);
	else
		assert_int_equal(connect(fd, (const struct sockaddr *)&http_at, sizeof(http_at)),
				 0);
	clients[n_clients++] = fd;
	return fd;
}

static void
turn(void)
{
	for (int i = 0; i < 3; i++)
		assert_true(event_base_loop(t.base, EVLOOP_NONBLOCK) >= 0);
}

static bool
closed(int fd)
{
	char c;

	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);
	return n == 0 || (n == -1 && errno != EAGAIN);
}

static void
test_who_it_is(void **state)
{
	(void)state;
	accepting(8, 8, 8, 1);
	(void)client(AF_UNIX);
	(void)client(AF_INET);
	turn();
	assert_int_equal(n_fronts, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct client *c = &fronts[i].client;
		bool http = c->kind == CLIENT_HTTP;
		assert_true(http || c->kind == CLIENT_UNIX);
		assert_int_equal(c->owner_kind, http ? OWNER_TOKEN : OWNER_UID);
		assert_int_equal(c->owner, http ? 0 : geteuid());
		assert_int_equal(fcntl(c->fd, F_GETFD), FD_CLOEXEC);
		assert_true((fcntl(c->fd, F_GETFL) & O_NONBLOCK) != 0);
	}
}

static void
test_at_the_cap_of_all_accepting_waits(void **state)
{
	(void)state;
	accepting(2, 8, 8, 1);
	int fd[4] = {client(AF_UNIX), client(AF_UNIX), client(AF_UNIX), client(AF_INET)};
	turn();
	assert_int_equal(n_fronts, 2);
	/* nobody was turned away: they wait */
	assert_false(closed(fd[2]) || closed(fd[3]));
	front_ends(0);
	turn();
	assert_int_equal(n_fronts, 3);
	front_ends(1);
	turn();
	assert_int_equal(n_fronts, 4);
}

/* Whoever reaches the port, known or not, cannot take the room of the socket's users. */
static void
test_http_leaves_room_for_the_socket(void **state)
{
	(void)state;
	accepting(4, 8, 8, 1);
	int fd[4] = {client(AF_INET), client(AF_INET), client(AF_INET), client(AF_INET)};
	turn();
	assert_int_equal(n_fronts, 3);
	assert_false(closed(fd[3])); /* it waits */
	(void)client(AF_UNIX);
	turn();
	assert_int_equal(n_fronts, 4);
	assert_int_equal(fronts[3].client.kind, CLIENT_UNIX);
	front_ends(3);
	turn();
	assert_int_equal(n_fronts, 4);
	front_ends(0);
	turn();
	assert_int_equal(n_fronts, 5);
	assert_int_equal(fronts[4].client.kind, CLIENT_HTTP);
}

/* Without a socket nobody else needs it. */
static void
test_http_alone_has_all(void **state)
{
	(void)state;
	assert_int_equal(close(unix_fd), 0);
	unix_fd = -1;
	accepting(4, 8, 8, 1);
	for (int i = 0; i < 5; i++)
		(void)client(AF_INET);
	turn();
	assert_int_equal(n_fronts, 4);
}

static void
test_too_many_of_one_user(void **state)
{
	(void)state;
	accepting(8, 2, 8, 1);
	int fd[3] = {client(AF_UNIX), client(AF_UNIX), client(AF_UNIX)};
	turn();
	assert_int_equal(n_fronts, 2);
	assert_false(closed(fd[0]) || closed(fd[1]));
	assert_true(closed(fd[2]));
	/* http is nobody's yet */
	(void)client(AF_INET);
	turn();
	assert_int_equal(n_fronts, 3);
	front_ends(0);
	assert_false(closed(client(AF_UNIX)));
	turn();
	assert_int_equal(n_fronts, 4);
}

static void
test_one_user_too_fast(void **state)
{
	(void)state;
	accepting(32, 32, 2, 10);
	int fd[3] = {client(AF_UNIX), client(AF_UNIX), client(AF_UNIX)};
	turn();
	assert_int_equal(n_fronts, 2);
	assert_true(closed(fd[2]));
	clock_pass(99);
	assert_int_equal(n_fronts, 2);
	int early = client(AF_UNIX);
	turn();
	assert_true(closed(early));
	clock_pass(1); /* one more each 100 ms */
	int due = client(AF_UNIX);
	turn();
	assert_false(closed(due));
	assert_int_equal(n_fronts, 3);
	clock_pass(3600 * 1000); /* saved up no further than the burst */
	for (int i = 0; i < 3; i++)
		(void)client(AF_UNIX);
	turn();
	assert_int_equal(n_fronts, 5);
}

static void
test_http_too_fast_waits(void **state)
{
	(void)state;
	accepting(32, 32, 2, 10);
	int fd[3] = {client(AF_INET), client(AF_INET), client(AF_INET)};
	turn();
	assert_int_equal(n_fronts, 2);
	assert_false(closed(fd[2]));
	/* the unix door stays open meanwhile */
	(void)client(AF_UNIX);
	turn();
	assert_int_equal(n_fronts, 3);
	clock_pass_in(t.base, 90);
	assert_int_equal(n_fronts, 3);
	clock_pass_in(t.base, 60);
	assert_int_equal(n_fronts, 4);
	assert_int_equal(fronts[3].client.kind, CLIENT_HTTP);
}

static void
test_a_wake_without_a_connection_costs_nothing(void **state)
{
	(void)state;
	accepting(32, 32, 3, 0);
	for (int i = 0; i < 3; i++) {
		(void)client(AF_INET);
		turn();
	}
	assert_int_equal(n_fronts, 3);
}

static void
test_frontend_that_cannot_be_started(void **state)
{
	(void)state;
	accepting(8, 8, 8, 1);
	start_result = -EAGAIN;
	int first = client(AF_UNIX), second = client(AF_UNIX);
	turn();
	assert_true(closed(first)); /* its process could not be made */
	assert_false(closed(second));
	start_result = 0;
	accept_room(t.acceptor); /* does not end the pause */
	turn();
	assert_int_equal(n_fronts, 0);
	clock_pass_in(t.base, 150);
	assert_int_equal(n_fronts, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_who_it_is),
		T(test_at_the_cap_of_all_accepting_waits),
		T(test_http_leaves_room_for_the_socket),
		T(test_http_alone_has_all),
		T(test_too_many_of_one_user),
		T(test_one_user_too_fast),
		T(test_http_too_fast_waits),
		T(test_a_wake_without_a_connection_costs_nothing),
		T(test_frontend_that_cannot_be_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
