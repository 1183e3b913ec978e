/*
 * tests/unit/reaper_world.h - what surrounds action.c and watch.c in their
 * tests: a clock that stands still, a broker that writes down what it is sent,
 * processes that are pipes. Included by one test file each; needs the wraps
 * clock_boot_ns, link_send, kill_open, kill_send, kill_is_dead.
 */
#ifndef BAILEY_TEST_REAPER_WORLD_H
#define BAILEY_TEST_REAPER_WORLD_H

#include "test.h"
#include "reaper.h"

#include <event2/event.h>
#include <signal.h>
#include <sys/mman.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SECRET "0123456789abcdef0123456789abcdef"
#define T0 (1000 * NS_PER_S)

static uint64_t now_ns;
static struct reaper r;
static int idle_calls;

/* ---- what was sent ---- */

struct sent {
	struct link *link;
	struct ipc_row row;
	char container[65], name[65];
};
static struct sent sent[64];
static size_t n_sent;

/* Two ends that are never looked into. */
static char broker_end, supervisor_end;
#define BROKER ((struct link *)(void *)&broker_end)
#define SUPERVISOR ((struct link *)(void *)&supervisor_end)

static void
keep(char *dst, struct ipc_str *s)
{
	assert_int_equal(str_copy(dst, 65, s->data, s->len), 0);
	s->data = dst;
}

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	assert_true(n_sent < ARRAY_LEN(sent));
	struct sent *s = &sent[n_sent++];

	s->link = l;
	s->row = *row;
	if (row->num == IPC_NUM_order_kill)
		keep(s->container, &s->row.u.order_kill.container);
	if (row->num == IPC_NUM_order_remove) {
		keep(s->container, &s->row.u.order_remove.container);
		keep(s->name, &s->row.u.order_remove.name);
	}
	return 0;
}

/* The only row sent since the last look; its number must be num. */
static const struct ipc_row *
only_sent(enum ipc_num num)
{
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].row.num, num);
	n_sent = 0;
	return &sent[0].row;
}

#define nothing_sent() assert_int_equal(n_sent, 0)

/* ---- time and processes ---- */

uint64_t __wrap_clock_boot_ns(void);
uint64_t
__wrap_clock_boot_ns(void)
{
	return now_ns;
}

static struct process {
	uint32_t pid;
	int pipe[2]; /* the reading end becomes readable once it is dead */
	int pidfd;   /* the duplicate of it that the reaper holds */
	bool may_signal, dead, stubborn;
	int signals;
} process[8];
static size_t n_processes;

static struct process *
process_new(uint32_t pid, bool may_signal)
{
	struct process *p = &process[n_processes++];

	*p = (struct process){.pid = pid, .pidfd = -1, .may_signal = may_signal};
	assert_int_equal(pipe2(p->pipe, O_CLOEXEC | O_NONBLOCK), 0);
	return p;
}

static void
process_die(struct process *p)
{
	p->dead = true;
	assert_int_equal(write(p->pipe[1], "x", 1), 1);
}

static struct process *
process_of(int pidfd)
{
	for (size_t i = 0; i < n_processes; i++)
		if (process[i].pidfd == pidfd)
			return &process[i];
	fail_msg("no process behind descriptor %d", pidfd);
	return NULL;
}

int __wrap_kill_open(int proc, uint32_t pid, const char *container, int *ret_pidfd);
int
__wrap_kill_open(int proc, uint32_t pid, const char *container, int *ret_pidfd)
{
	(void)proc;
	assert_int_equal(strlen(container), 64);
	for (size_t i = n_processes; i-- > 0;) {
		if (process[i].pid != pid || process[i].dead)
			continue;
		process[i].pidfd = fcntl(process[i].pipe[0], F_DUPFD_CLOEXEC, 0);
		for (size_t k = 0; k < n_processes; k++)
			if (k != i && process[k].pidfd == process[i].pidfd)
				process[k].pidfd = -1; /* was closed, its number is in use again */
		*ret_pidfd = process[i].pidfd;
		return 0;
	}
	return -ESRCH;
}

int __wrap_kill_send(int pidfd, int sig);
int
__wrap_kill_send(int pidfd, int sig)
{
	struct process *p = process_of(pidfd);

	assert_true(sig == 0 || sig == SIGKILL);
	if (p->dead)
		return -ESRCH;
	if (!p->may_signal)
		return -EPERM;
	if (sig == SIGKILL) {
		p->signals++;
		if (!p->stubborn)
			process_die(p);
	}
	return 0;
}

bool __wrap_kill_is_dead(int pidfd);
bool
__wrap_kill_is_dead(int pidfd)
{
	return process_of(pidfd)->dead;
}

/* ---- one reaper, as after `configured` ---- */

static void
on_idle_call(struct reaper *reaper)
{
	idle_calls += reaper == &r;
}

static void
reaper_open(void)
{
	assert_int_equal(deadline_init(&r.deadline), 0);
	r.base = event_base_new();
	r.boxes = idmap_new(64);
	r.supervisor = SUPERVISOR;
	r.broker = BROKER;
	r.on_idle = on_idle_call;
	r.proc_fd = r.cgroup_fd = r.pending_fd = -1;
}

static void
reaper_close(void)
{
	watch_free(&r);
	idmap_free(r.boxes);
	event_base_free(r.base);
	deadline_done(&r.deadline);
}

static int
world_setup(void **state)
{
	(void)state;
	now_ns = T0;
	n_sent = n_processes = 0;
	idle_calls = 0;
	memset(&r, 0, sizeof(r));
	int fd = memfd_create("ledger", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 32 * 512), 0);
	assert_int_equal(ledger_open(&r.ledger, fd), 0);
	reaper_open();
	return 0;
}

static int
world_teardown(void **state)
{
	(void)state;
	reaper_close();
	assert_int_equal(close(r.ledger.fd), 0);
	ledger_close(&r.ledger);
	for (size_t i = 0; i < n_processes; i++) {
		assert_int_equal(close(process[i].pipe[0]), 0);
		assert_int_equal(close(process[i].pipe[1]), 0);
	}
	return 0;
}

/* Lets the loop handle what is readable: deaths. */
static void
look(void)
{
	assert_true(event_base_loop(r.base, EVLOOP_NONBLOCK) >= 0);
}

/* The timer fires at a later moment. */
static __attribute__((unused)) void
pass(uint64_t ns)
{
	now_ns += ns;
	watch_timer(&r);
	look();
}

static void
say(const struct ipc_row *row)
{
	for (size_t i = 0; i < WATCH_N_ROUTES; i++) {
		if (watch_routes[i].num != row->num)
			continue;
		watch_routes[i].handler(&r, BROKER, row);
		look();
		return;
	}
	fail_msg("no route for %s", ipc_name(row->num));
}

static void
intend(uint64_t box)
{
	say(IPC_ROW(watch_intend, .box = box, .name = IPC_STR("bailey-box"),
		    .end_ns = T0 + 3600 * NS_PER_S,
		    .secret = {.data = (const uint8_t *)SECRET, .len = 32}));
	assert_int_equal(only_sent(IPC_NUM_watch_ok)->u.watch_ok.box, box);
}

static void
created(uint64_t box)
{
	say(IPC_ROW(watch_created, .box = box, .container = IPC_STR(ID)));
	nothing_sent();
}

static void
started(uint64_t box, uint32_t pid, bool own_kill)
{
	say(IPC_ROW(watch_created, .box = box, .container = IPC_STR(ID), .pid = pid));
	const struct ipc_row *row = only_sent(IPC_NUM_watch_held);
	assert_int_equal(row->u.watch_held.box, box);
	assert_int_equal(row->u.watch_held.own_kill, own_kill);
}

static __attribute__((unused)) struct process *
running_box(uint64_t box, uint32_t pid, bool may_signal)
{
	struct process *p = process_new(pid, may_signal);

	intend(box);
	created(box);
	started(box, pid, may_signal);
	return p;
}

static __attribute__((unused)) enum box_state
state_of(uint64_t box)
{
	const struct box *b = idmap_get(r.boxes, box);
	return b == NULL ? BOX_FREE : (enum box_state)b->rec.state;
}

#endif
