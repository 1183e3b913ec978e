/*
 * tests/fuzz/reaper_fuzz.c - a reaper whose broker says what it likes, in any order, and comes and
 * goes, as the reaper does. Runs in: ctest (replay), libFuzzer. Input: fuzzed; one act a byte with
 * what it needs. Owns: one reaper, its ledger and the processes, which are pipes.
 *
 * After each act: the ledger holds just what the reaper knows, nothing is overdue, and no box of
 * which a live process is held was forgotten. At the end an honest broker comes: then all boxes
 * end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <event2/event.h>

#include "reaper.h"

#define T0 (1000 * NS_PER_S)
#define SLOTS 8u /* fewer than the boxes that are tried */
#define SLOT_BYTES 512
#define BOXES 12u
#define PROCESSES 48u
#define IDS 4u
#define ACTS_MAX 300u
#define FDS_MAX 1024
#define END_TURNS 120 /* of half a second */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *at, *end;
static struct reaper r;
static uint64_t now_ns;
static char broker_end, supervisor_end; /* never looked into */
#define BROKER ((struct link *)(void *)&broker_end)
#define SUPERVISOR ((struct link *)(void *)&supervisor_end)

static struct process {
	uint32_t pid;
	char container[CONTAINER_ID_LEN + 1];
	int pipe[2]; /* the reading end becomes readable once it is dead */
	bool may_signal, dead;
} process[PROCESSES];
static size_t n_processes;
static struct process *behind[FDS_MAX]; /* a descriptor of the reaper's */

static struct { /* orders of removal that the honest broker carries out */
	uint64_t box;
	char container[CONTAINER_ID_LEN + 1];
} order[4 * BOXES];
static size_t n_orders;

static uint32_t
byte(void)
{
	return at < end ? *at++ : 0;
}

static void
must(bool holds)
{
	if (!holds)
		abort();
}

/* ---- what surrounds a reaper ---- */

uint64_t __wrap_clock_boot_ns(void);
uint64_t
__wrap_clock_boot_ns(void)
{
	return now_ns;
}

void __wrap_fatal(const char *fmt, ...) __attribute__((noreturn));
void
__wrap_fatal(const char *fmt, ...)
{
	log_error("%s", fmt);
	abort();
}

int __wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd);
int
__wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd)
{
	must(l == r.broker && l != NULL && row->num == IPC_NUM_watch_counter && fd >= 0);
	return 0;
}

int __wrap_link_send(struct link *l, const struct ipc_row *row);
int
__wrap_link_send(struct link *l, const struct ipc_row *row)
{
	const struct ipc_order_remove *m = &row->u.order_remove;

	must(l != NULL && (l == SUPERVISOR || l == r.broker));
	if (row->num != IPC_NUM_order_remove || n_orders == ARRAY_LEN(order))
		return 0;
	must(m->name.len > 0 && (m->container.len == 0 || m->container.len == CONTAINER_ID_LEN));
	order[n_orders].box = m->box;
	memcpy(order[n_orders].container, m->container.data, m->container.len);
	order[n_orders].container[m->container.len] = '\0';
	n_orders++;
	return 0;
}

static void
process_die(struct process *p)
{
	if (p->dead)
		return;
	p->dead = true;
	must(write(p->pipe[1], "x", 1) == 1);
}

static struct process *
process_held(int pidfd)
{
	must(pidfd >= 0 && pidfd < FDS_MAX && behind[pidfd] != NULL && fcntl(pidfd, F_GETFD) != -1);
	return behind[pidfd];
}

int __wrap_kill_open(int proc, uint32_t pid, const char *container, int *ret_pidfd);
int
__wrap_kill_open(int proc, uint32_t pid, const char *container, int *ret_pidfd)
{
	(void)proc;
	must(strlen(container) == CONTAINER_ID_LEN);
	for (size_t i = n_processes; i-- > 0;) {
		struct process *p = &process[i];

		if (p->pid != pid || p->dead || strcmp(p->container, container) != 0)
			continue;
		*ret_pidfd = fcntl(p->pipe[0], F_DUPFD_CLOEXEC, 0);
		must(*ret_pidfd >= 0 && *ret_pidfd < FDS_MAX);
		behind[*ret_pidfd] = p;
		return 0;
	}
	return -ESRCH;
}

int __wrap_kill_send(int pidfd, int sig);
int
__wrap_kill_send(int pidfd, int sig)
{
	struct process *p = process_held(pidfd);

	must(sig == 0 || sig == SIGKILL);
	if (p->dead)
		return -ESRCH;
	if (!p->may_signal)
		return -EPERM;
	if (sig == SIGKILL)
		process_die(p);
	return 0;
}

bool __wrap_kill_is_dead(int pidfd);
bool
__wrap_kill_is_dead(int pidfd)
{
	return process_held(pidfd)->dead;
}

static void
on_idle(struct reaper *reaper)
{
	must(reaper->stopping);
}

static void
reaper_open(int ledger_fd)
{
	memset(&r, 0, sizeof(r));
	must(ledger_open(&r.ledger, ledger_fd) == 0);
	must(deadline_init(&r.deadline) == 0);
	r.base = event_base_new();
	r.boxes = idmap_new(BOXES);
	r.supervisor = SUPERVISOR;
	r.broker = BROKER;
	r.on_idle = on_idle;
	r.proc_fd = r.cgroup_fd = r.pending_fd = -1;
}

static void
reaper_close(void)
{
	watch_free(&r);
	idmap_free(r.boxes);
	event_base_free(r.base);
	deadline_done(&r.deadline);
	ledger_close(&r.ledger);
}

/* ---- acts ---- */

static const char *
container(uint32_t n)
{
	static char text[CONTAINER_ID_LEN + 1];

	memset(text, (char)('a' + n % IDS), CONTAINER_ID_LEN);
	return text;
}

static void
say(const struct ipc_row *row)
{
	for (size_t i = 0; r.broker != NULL && i < WATCH_N_ROUTES; i++)
		if (watch_routes[i].num == row->num)
			watch_routes[i].handler(&r, r.broker, row);
}

static void
act_intend(uint64_t box)
{
	static const char *const names[] = {"bailey-a", "bailey-b", "a/b", ""};
	static const uint8_t secret[32] = {1};
	uint32_t how = byte();

	say(IPC_ROW(watch_intend, .box = box, .name = IPC_STR(names[how % 16 < 13 ? 0 : how % 4]),
		    .end_ns = how & 128 ? 0 : T0 + byte() * NS_PER_S,
		    .secret = {secret, how % 64 == 9 ? 31 : sizeof(secret)}));
}

static void
act_created(uint64_t box)
{
	uint32_t how = byte(), pid = how % 8, which = how / 8 % IDS;

	if (pid != 0 && how & 32 && n_processes < PROCESSES) {
		struct process *p = &process[n_processes++];

		*p = (struct process){.pid = pid, .may_signal = how & 64};
		memcpy(p->container, container(which), sizeof(p->container));
		must(pipe2(p->pipe, O_CLOEXEC | O_NONBLOCK) == 0);
	}
	say(IPC_ROW(watch_created, .box = box,
		    .container = IPC_STR(how == 255 ? "not an id" : container(which)), .pid = pid));
}

static void
act_row(uint64_t box)
{
	uint32_t what = byte(), more = byte();

	if (what % 8 < 2)
		say(IPC_ROW(watch_deadline, .box = box,
			    .at_ns = more == 255 ? UINT64_MAX
				     : more == 0 ? 0
						 : now_ns + (more - 20) * NS_PER_S));
	else if (what % 8 == 2)
		say(IPC_ROW(watch_kill, .box = box, .cause = more));
	else if (what % 8 == 3)
		say(IPC_ROW(watch_gone, .box = box));
	else if (what % 8 == 4)
		say(IPC_ROW(watch_stays, .box = box));
	else
		say(IPC_ROW(watch_claim, .box = box));
}

static void
act_broker(uint32_t how)
{
	if (r.broker != NULL) {
		r.broker = NULL;
		watch_broker_lost(&r);
	}
	if (how & 1) {
		r.broker = BROKER;
		watch_broker_new(&r);
	}
}

static void
act_restart(uint32_t how)
{
	int fd = r.ledger.fd;

	reaper_close();
	reaper_open(fd);
	if (how & 1)
		r.broker = NULL;
	watch_recover(&r);
}

static void
look(void)
{
	must(event_base_loop(r.base, EVLOOP_NONBLOCK) >= 0);
}

static bool
is_live(const struct box *b)
{
	return b->rec.state >= BOX_INTENDED && b->rec.state <= BOX_ARMED;
}

static void
pass(uint64_t ns)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	now_ns += ns;
	watch_timer(&r);
	if (r.stopping && now_ns >= r.stop_ns)
		return; /* its loop has ended */
	while (idmap_next(r.boxes, &cursor, &id, &obj)) {
		const struct box *b = obj;
		uint64_t due = action_deadline(b);

		must(!is_live(b) || ((b->rec.end_ns == 0 || b->rec.end_ns > now_ns) &&
				     (due == 0 || due > now_ns)));
	}
}

static void
act(void)
{
	uint32_t what = byte();
	uint64_t box = what / 16 % (BOXES + 1);

	switch (what % 16) {
	case 0:
	case 1:
	case 2:
		act_intend(box);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
		act_created(box);
		break;
	case 11:
		pass(byte() * (NS_PER_S / 4));
		break;
	case 12:
		if (n_processes > 0)
			process_die(&process[byte() % n_processes]);
		break;
	case 13:
		act_broker(what / 16);
		break;
	case 14:
		act_restart(what / 16);
		break;
	case 15:
		if (what == 255)
			watch_stop(&r, byte() * 100);
		break;
	default:
		act_row(box);
		break;
	}
	look();
}

/* ---- what has to hold ---- */

static void
ledger_holds(void)
{
	struct ledger other;
	struct record rec;
	uint32_t cursor = 0, slot;
	size_t n = 0;

	must(ledger_open(&other, r.ledger.fd) == 0);
	while (ledger_recover(&other, &cursor, &slot, &rec)) {
		const struct box *b = idmap_get(r.boxes, rec.box);

		must(b != NULL && b->slot == slot && b->rec.state == rec.state &&
		     b->rec.cause == rec.cause && b->rec.pid == rec.pid &&
		     b->rec.end_ns == rec.end_ns && b->rec.deadline_ns == rec.deadline_ns &&
		     b->rec.stays == rec.stays && strcmp(b->rec.container, rec.container) == 0);
		n++;
	}
	must(n == idmap_count(r.boxes) && memcmp(other.used, r.ledger.used, other.slots) == 0);
	ledger_close(&other);
}

static void
act_and_look(void)
{
	struct {
		uint64_t box;
		struct process *p;
	} held[BOXES];
	size_t n = 0, cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(r.boxes, &cursor, &id, &obj)) {
		const struct box *b = obj;

		if (b->pidfd == -1)
			continue;
		held[n].box = id;
		held[n++].p = process_held(b->pidfd);
	}
	act();
	for (size_t i = 0; i < n; i++)
		must(idmap_get(r.boxes, held[i].box) != NULL || held[i].p->dead);
	ledger_holds();
}

/* An engine that removes what it is told to, by force. */
static void
obey(void)
{
	size_t n = n_orders;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n_processes; k++)
			if (strcmp(process[k].container, order[i].container) == 0)
				process_die(&process[k]);
		look();
		say(IPC_ROW(watch_gone, .box = order[i].box));
	}
	n_orders = 0;
}

static void
all_end(void)
{
	r.stopping = false;
	act_broker(0);
	r.broker = BROKER;
	n_orders = 0;
	watch_broker_new(&r);
	for (int i = 0; i < END_TURNS && idmap_count(r.boxes) > 0; i++) {
		obey();
		pass(NS_PER_S / 2);
		look();
	}
	must(idmap_count(r.boxes) == 0);
	ledger_holds();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("ledger", MFD_CLOEXEC);

	at = data;
	end = data + size;
	log_init("fuzz", LOG_L_ERROR);
	now_ns = T0;
	n_processes = n_orders = 0;
	must(fd != -1 && ftruncate(fd, SLOTS * SLOT_BYTES) == 0);
	reaper_open(fd);
	for (uint32_t n = 0; at < end && n < ACTS_MAX; n++) {
		act_and_look();
		n_orders = 0;
	}
	all_end();
	reaper_close();
	(void)close(fd);
	for (size_t i = 0; i < n_processes; i++) {
		(void)close(process[i].pipe[0]);
		(void)close(process[i].pipe[1]);
	}
	return 0;
}
