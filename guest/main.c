/*
 * guest/main.c - PID 1 of a sandbox: start, the loop, the clocks that end it.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: descriptors of the container; frames by stream.c.
 * Owns: struct guest, the only one there is.
 *
 * Start: fork the first runner while nothing secret is known, become undumpable,
 * say g_hello, wait for h_hello. One poll loop, no threads, no handlers.
 * The sandbox ends with this process, so ending it is exit after a kill.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define HELLO_WAIT_MS 5000u /* and for the frame after it */
#define POLL_MAX_MS 60000u

static struct guest guest;

void
guest_end(enum guest_end_code code)
{
	tree_kill_all();
	_exit((int)code);
}

int
guest_on_h_hello(struct guest *g, const struct guest_h_hello *hello)
{
	if (hello->version != GUEST_VERSION || hello->box_class > BOX_NOTHING ||
	    hello->deadman_ms == 0 || hello->lifetime_s == 0)
		return -EBADMSG;
	g->hello = *hello;
	for (size_t i = 0; i < sizeof(g->stream.secret); i++)
		g->stream.secret[i] = hello->secret[i];
	secret_wipe(g->hello.secret, sizeof(g->hello.secret)); /* runners wipe the other one */
	g->stream.session = SESSION_OPEN;
	g->lifetime_end_ms = clock_now_ms() + (uint64_t)hello->lifetime_s * 1000;
	if (g->spare.pid > 0)
		runner_affinity(&g->spare, hello->affinity);
	g->prestart = PRESTART_DUE;
	return 0;
}

static void
guest_say_hello(struct guest *g)
{
	const struct guest_g_hello hello = {
		.version = GUEST_VERSION,
		.uid = (uint32_t)getuid(),
		.start_us = clock_now_us(),
	};
	uint8_t payload[16];

	guest_put_g_hello(&hello, payload);
	(void)stream_send(&g->stream, GUEST_g_hello, 0, 0, payload, sizeof(payload));
	stream_flush(&g->stream);
}

/* ---- signals ---- */

static int
guest_signals(void)
{
	sigset_t wanted;
	sigset_t all;
	int fd;

	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return -errno;
	(void)sigfillset(&all);
	(void)sigemptyset(&wanted);
	(void)sigaddset(&wanted, SIGCHLD);
	(void)sigaddset(&wanted, SIGTERM);
	(void)sigaddset(&wanted, SIGINT);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
	if (sigprocmask(SIG_SETMASK, &all, NULL) == -1)
		return -errno;
	fd = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

void
guest_on_signal(struct guest *g, int fd)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			child = true;
		/* A sender outside this pid namespace has no number in it: the engine stops us. A
		 * run that signals PID 1 gets what any container gives it: nothing. (Of a signal
		 * sent by rt_sigqueueinfo the run writes the sender's number itself.) */
		else if (info.ssi_code == SI_USER && info.ssi_pid == 0)
			guest_end(END_ASKED);
	}
	if (child)
		children_reap(g);
}

/* ---- clocks ---- */

/* How long the host may be silent. h_hello may have waited in the engine for our start: only what
 * comes after it says that its sender was still there. */
static uint64_t
guest_patience_ms(const struct guest *g)
{
	uint64_t ms = g->hello.deadman_ms;

	return g->stream.met || ms < HELLO_WAIT_MS ? ms : HELLO_WAIT_MS;
}

static void
guest_sooner(uint64_t *next, uint64_t at_ms)
{
	if (at_ms != 0 && at_ms < *next)
		*next = at_ms;
}

static int
guest_poll_ms(const struct guest *g, uint64_t now)
{
	uint64_t next = now + POLL_MAX_MS;

	if (g->stream.session == SESSION_NONE) {
		guest_sooner(&next, g->started_ms + HELLO_WAIT_MS);
	} else {
		guest_sooner(&next, g->stream.heard_ms + guest_patience_ms(g));
		guest_sooner(&next, g->lifetime_end_ms);
	}
	guest_sooner(&next, run_next_ms(g));
	guest_sooner(&next, g->spare_at_ms);
	if (g->prestart == PRESTART_STARTING)
		guest_sooner(&next, g->waiting_until_ms);
	guest_sooner(&next, g->stream.ack_at_ms);
	return next <= now ? 0 : (int)(next - now);
}

/* poll, to the millisecond; pauses of output are shorter. */
static int
guest_poll(struct guest *g, struct watch *w)
{
	uint64_t now = clock_now_us(), next = g->pause_us > 0 ? run_next_us(g, now) : 0;
	int ms = guest_poll_ms(g, now / 1000);
	struct timespec wait = {0};

	if (next == 0 || next >= now + (uint64_t)ms * 1000)
		return poll(w->p, w->n, ms);
	if (next > now)
		wait = (struct timespec){.tv_sec = (time_t)((next - now) / 1000000),
					 .tv_nsec = (long)((next - now) % 1000000 * 1000)};
	return ppoll(w->p, w->n, &wait, NULL);
}

static bool
guest_is_silent(const struct guest *g)
{
	return clock_now_ms() - g->stream.heard_ms >= guest_patience_ms(g);
}

static void
guest_check_clocks(struct guest *g)
{
	uint64_t now = clock_now_ms();

	if (g->stream.session == SESSION_NONE) {
		if (now - g->started_ms >= HELLO_WAIT_MS)
			guest_end(END_NO_HELLO);
		return;
	}
	if (now >= g->lifetime_end_ms)
		guest_end(END_LIFETIME);
	if (guest_is_silent(g)) {
		stream_read(g); /* we may have been frozen: what has come since counts */
		if (guest_is_silent(g))
			guest_end(END_SILENT);
	}
}

/* ---- the loop ---- */

static void
guest_turn(struct guest *g, const struct watch *w)
{
	watch_serve(w, g);
	prestart_begin(g);
	prestart_tick(g, clock_now_ms());
	run_tick_all(g, clock_now_ms());
	stream_flush(&g->stream);
	children_tick(g, clock_now_ms());
	guest_check_clocks(g);
}

static int
guest_start(struct guest *g)
{
	int r;

	(void)umask(022);
	g->waiting = RUNNER_NONE;
	eval_init(g);
	r = runner_start(&g->spare, &g->stream);
	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) == -1)
		return -errno;
	g->started_ms = clock_now_ms();
	stream_init(&g->stream, STDIN_FILENO, STDOUT_FILENO);
	r = fd_set_nonblock(STDIN_FILENO);
	if (r == 0)
		r = fd_set_nonblock(STDOUT_FILENO);
	return r;
}

int
main(void)
{
	static struct watch watch;
	int signal_fd;
	int r;

	if (getpid() != 1)
		fatal("this is the first process of a sandbox, and nothing else");
	(void)sched_prompt(); /* only faster: a runtime may know no such call */
	signal_fd = guest_signals();
	if (signal_fd < 0)
		fatal("signals: error %d", -signal_fd);
	r = guest_start(&guest);
	if (r < 0)
		fatal("start: error %d", -r);
	guest_say_hello(&guest);
	for (;;) {
		watch_fill(&watch, &guest, signal_fd);
		r = guest_poll(&guest, &watch);
		if (r == -1 && errno != EINTR)
			fatal("poll: error %d", errno);
		if (r >= 0)
			guest_turn(&guest, &watch);
	}
}
