/*
 * cli/bridge.c - joins stdin and stdout to a daemon's unix socket.
 * Runs in: bailey mcp, beside a daemon.
 * Input: bytes of the client and of the daemon, neither looked at.
 * Owns: two buffers; no descriptor.
 * Each direction ends by itself: the client's end of input becomes the end of
 * our sending, and what the daemon still answers is passed on. The client's
 * descriptors keep their flags, since the client may share them: what is
 * written to them is at most what a pipe that says it has room takes without
 * waiting.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ROOM ((size_t)65536)

struct lane {
	int from, to;
	size_t piece; /* written in one go */
	bool to_daemon;
	bool ended; /* nothing more will be read */
	size_t at, len;
	char bytes[ROOM];
};

int
bridge_connect(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (str_copy(at.sun_path, sizeof(at.sun_path), path, strlen(path)) < 0)
		return -ENAMETOOLONG;
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) == -1)
		return -errno;
	return TAKE_FD(fd);
}

static bool
passes(int err)
{
	return err == EINTR || err == EAGAIN;
}

static int
take_in(struct lane *l)
{
	ssize_t n = read(l->from, l->bytes, sizeof(l->bytes));

	if (n > 0) {
		l->at = 0;
		l->len = (size_t)n;
		return 0;
	}
	if (n == -1 && passes(errno))
		return 0;
	/* A peer that is gone is an end like any other. */
	if (n == -1 && errno != ECONNRESET && errno != EIO)
		return -errno;
	l->ended = true;
	return 0;
}

static int
put_out(struct lane *l)
{
	size_t left = l->len - l->at;
	ssize_t n = write(l->to, l->bytes + l->at, left < l->piece ? left : l->piece);

	if (n == -1 && l->to_daemon && (errno == EPIPE || errno == ECONNRESET)) {
		/* It takes no more; what it said before may still be in the socket. */
		l->ended = true;
		l->at = l->len;
		return 0;
	}
	if (n == -1)
		return passes(errno) ? 0 : -errno;
	l->at += (size_t)n;
	return 0;
}

static bool
holds(const struct lane *l)
{
	return l->at < l->len;
}

/* One end of a lane: what poll is to wait for there. */
static struct pollfd
wait_for(const struct lane *l, bool source)
{
	bool wanted = source ? !l->ended && !holds(l) : holds(l);

	return (struct pollfd){.fd = wanted ? (source ? l->from : l->to) : -1,
			       .events = source ? POLLIN : POLLOUT};
}

/* Moves what can be moved; 0 or -errno. */
static int
turn(struct lane *up, struct lane *down)
{
	struct pollfd p[] = {wait_for(up, true), wait_for(up, false), wait_for(down, true),
			     wait_for(down, false)};
	struct lane *const of[] = {up, up, down, down};
	int r = 0;

	if (poll(p, ARRAY_LEN(p), -1) == -1)
		return errno == EINTR ? 0 : -errno;
	for (size_t i = 0; i < ARRAY_LEN(p) && r == 0; i++)
		if (p[i].fd != -1 && p[i].revents != 0)
			r = i % 2 == 0 ? take_in(of[i]) : put_out(of[i]);
	return r;
}

/* Field by field: a whole value would pass its room over the stack. */
static void
lane_open(struct lane *l, int from, int to, size_t piece, bool to_daemon)
{
	l->from = from;
	l->to = to;
	l->piece = piece;
	l->to_daemon = to_daemon;
	l->at = l->len = 0;
	l->ended = false;
}

int
bridge_run(int in, int out, int sock)
{
	static struct lane up, down;
	bool told = false;

	lane_open(&up, in, sock, ROOM, true);
	lane_open(&down, sock, out, PIPE_BUF, false);
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || fd_set_nonblock(sock) < 0)
		return -errno;
	while (!down.ended || holds(&down)) {
		int r = turn(&up, &down);
		if (r < 0)
			return r;
		if (up.ended && !holds(&up) && !told) {
			told = true;
			(void)shutdown(sock, SHUT_WR); /* it may be gone */
		}
	}
	return told ? 0 : -ECONNRESET;
}
