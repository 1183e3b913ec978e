/*
 * tests/chaos/inject.c - a preloaded library that lets one call of a program fail.
 * Runs in: any of our host processes, in tests only.
 * Input: the file named by BAILEY_INJECT, mapped before main(): who shall fail,
 * at which call, and what was seen (struct control; tests/lib/inject.py).
 * Owns: the mapping; it is shared by all processes of a tree, so a fault that
 * shall come once comes once, however often a process is started again.
 *
 * The supervisor starts its children with an environment of their own. It does so
 * by one execveat(2), which passes here: the two variables are put back. Nothing in
 * the programs themselves knows of this.
 *
 * A call is found by its number, or by its stack: "the first call that is made from
 * here". Stacks are told apart by a hash of return addresses, each relative to its
 * module.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define DEPTH 12
#define SITES 16384
#define MODULES 64

enum op {
#define INJECT_OP(name, error) OP_##name,
#include "inject.def"
#undef INJECT_OP
	OPS
};

static const int errors[OPS] = {
#define INJECT_OP(name, error) [OP_##name] = error,
#include "inject.def"
#undef INJECT_OP
};

struct site {
	_Atomic uint64_t hash;
	uint64_t nth;
	uint32_t op, pad;
	uint64_t stack[DEPTH]; /* relative to the program, 0 in other modules */
};

struct control {
	/* asked for */
	char program[32];
	uint32_t op;
	uint32_t lasting;       /* every later call fails too */
	uint64_t nth;           /* 0: not by number */
	uint64_t hash;          /* 0: not by stack */
	uint32_t record;        /* stacks are written to site[] */
	uint32_t depth;         /* frames that tell a stack from another */
	int64_t clock_jump_s;   /* CLOCK_REALTIME is this much ahead, … */
	uint64_t clock_jump_at; /* … from this reading of any clock on */
	/* seen */
	_Atomic uint64_t calls[32];
	_Atomic uint32_t fired;
	_Atomic uint32_t sites;
	_Atomic uint32_t fired_pid;
	uint32_t pad;
	_Atomic uint64_t clock_reads, realtime_reads;
	uint64_t stack[DEPTH];
	struct site site[SITES];
};

static struct control *control;
static char control_path[256], preload_path[256];
static char program[32];
static pid_t (*real_fork)(void);
static long (*real_syscall)(long, ...);
static int (*real_clock)(clockid_t, struct timespec *);
static __thread bool inside;

static struct {
	uintptr_t start, end;
	bool own;
} module[MODULES];
static size_t modules;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static int
note_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (modules == MODULES)
		return 1;
	uintptr_t end = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD) {
			uintptr_t e = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				      info->dlpi_phdr[i].p_memsz;
			if (e > end)
				end = e;
		}
	module[modules].start = info->dlpi_addr;
	module[modules].end = end;
	module[modules].own = modules == 0; /* the program comes first */
	modules++;
	return 0;
}

/* The number of the module the address is in, or modules. */
static size_t
module_of(uintptr_t address)
{
	size_t i = 0;

	while (i < modules && (address < module[i].start || address >= module[i].end))
		i++;
	return i;
}

static uint64_t
stack_hash(uint64_t ret[DEPTH])
{
	void *frame[DEPTH + 4];
	int n = backtrace(frame, DEPTH + 4);
	uint64_t hash = 1469598103934665603u;
	int used = 0;
	int depth = control->depth == 0 || control->depth > DEPTH ? DEPTH : (int)control->depth;

	memset(ret, 0, DEPTH * sizeof(ret[0]));
	for (int i = 3; i < n && used < depth; i++, used++) {
		uintptr_t address = (uintptr_t)frame[i];
		size_t m = module_of(address);
		uint64_t relative = m < modules ? address - module[m].start : 0;
		ret[used] = m < modules && module[m].own ? relative : 0;
		hash = (hash ^ relative ^ ((uint64_t)m << 48)) * 1099511628211u;
	}
	return hash | 1;
}

static void
record(enum op op, uint64_t hash, uint64_t nth, const uint64_t stack[DEPTH])
{
	size_t at = (size_t)((hash ^ op * 0x9e3779b97f4a7c15u) % SITES);

	for (size_t tries = 0; tries < SITES; tries++, at = (at + 1) % SITES) {
		struct site *s = &control->site[at];
		uint64_t old = 0;
		if (atomic_load(&s->hash) == hash && s->op == op)
			return;
		if (!atomic_compare_exchange_strong(&s->hash, &old, hash)) {
			if (old == hash && s->op == op)
				return;
			continue;
		}
		s->op = op;
		s->nth = nth;
		memcpy(s->stack, stack, sizeof(s->stack));
		atomic_fetch_add(&control->sites, 1);
		return;
	}
}

/* True when this call shall fail; errno is set then. Not inlined: stack_hash counts frames. */
static bool __attribute__((noinline)) fails(enum op op)
{
	uint64_t stack[DEPTH] = {0}, hash = 0;

	if (control == NULL || inside || strcmp(program, control->program) != 0)
		return false;
	uint64_t nth = atomic_fetch_add(&control->calls[op], 1) + 1;
	bool mine = control->op == op && (control->nth != 0 || control->hash != 0);
	if (!mine && !control->record)
		return false;
	inside = true;
	if (control->hash != 0 || control->record || (mine && nth == control->nth))
		hash = stack_hash(stack);
	if (control->record)
		record(op, hash, nth, stack);
	inside = false;
	if (!mine)
		return false;
	bool now = control->hash != 0 ? hash == control->hash : nth == control->nth;
	bool later = control->lasting && atomic_load(&control->fired) != 0;
	if (!now && !later)
		return false;
	if (atomic_fetch_add(&control->fired, 1) == 0) {
		memcpy(control->stack, stack, sizeof(stack));
		atomic_store(&control->fired_pid, (uint32_t)real_syscall(SYS_getpid));
	} else if (!control->lasting)
		return false;
	errno = errors[op];
	return true;
}

static void __attribute__((constructor)) inject_start(void)
{
	const char *path = getenv("BAILEY_INJECT"), *preload = getenv("LD_PRELOAD");
	char exe[256];
	void *frame[2];

	inside = true;
	real_fork = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
	real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0 && path != NULL && preload != NULL) {
		exe[n] = '\0';
		const char *slash = strrchr(exe, '/');
		(void)snprintf(program, sizeof(program), "%s", slash ? slash + 1 : exe);
		(void)snprintf(control_path, sizeof(control_path), "BAILEY_INJECT=%s", path);
		(void)snprintf(preload_path, sizeof(preload_path), "LD_PRELOAD=%s", preload);
		(void)backtrace(frame, 2); /* loads what it needs */
		(void)dl_iterate_phdr(note_module, NULL);
		int fd = (int)real_syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
		void *at = fd < 0 ? MAP_FAILED
				  : (void *)real_syscall(SYS_mmap, NULL, sizeof(struct control),
							 PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED) {
			static const char what[] = "inject: no control file\n";
			(void)real_syscall(SYS_write, 2, what, sizeof(what) - 1);
			_exit(99);
		}
		(void)real_syscall(SYS_close, fd);
		control = at;
	}
	inside = false;
}

/* ---- memory ---- */

PUBLIC void *
malloc(size_t n)
{
	return fails(OP_malloc) ? NULL : __libc_malloc(n);
}

PUBLIC void *
calloc(size_t n, size_t size)
{
	return fails(OP_malloc) ? NULL : __libc_calloc(n, size);
}

PUBLIC void *
realloc(void *p, size_t n)
{
	return fails(OP_malloc) ? NULL : __libc_realloc(p, n);
}

/* ---- what is read and written ---- */

#define INJECT(op, type, name, params, ...)                                    \
	PUBLIC type name params                                                \
	{                                                                      \
		return fails(op) ? (type)-1 : (type)real_syscall(__VA_ARGS__); \
	}

INJECT(OP_write, ssize_t, write, (int fd, const void *p, size_t n), SYS_write, fd, p, n)
INJECT(OP_write, ssize_t, writev, (int fd, const struct iovec *v, int n), SYS_writev, fd, v, n)
INJECT(OP_write, ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), SYS_pwrite64, fd, p,
       n, at)
INJECT(OP_send, ssize_t, send, (int fd, const void *p, size_t n, int flags), SYS_sendto, fd, p, n,
       flags, NULL, 0)
INJECT(OP_send, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), SYS_sendmsg, fd, m,
       flags)
INJECT(OP_recv, ssize_t, recv, (int fd, void *p, size_t n, int flags), SYS_recvfrom, fd, p, n,
       flags, NULL, NULL)
INJECT(OP_recv, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), SYS_recvmsg, fd, m, flags)
INJECT(OP_read, ssize_t, read, (int fd, void *p, size_t n), SYS_read, fd, p, n)
INJECT(OP_read, ssize_t, pread, (int fd, void *p, size_t n, off_t at), SYS_pread64, fd, p, n, at)
INJECT(OP_read, ssize_t, readv, (int fd, const struct iovec *v, int n), SYS_readv, fd, v, n)
INJECT(OP_read, ssize_t, readlink, (const char *path, char *p, size_t n), SYS_readlink, path, p, n)
INJECT(OP_fsync, int, fsync, (int fd), SYS_fsync, fd)
INJECT(OP_fsync, int, fdatasync, (int fd), SYS_fdatasync, fd)
INJECT(OP_fsync, int, ftruncate, (int fd, off_t n), SYS_ftruncate, fd, n)

/* ---- descriptors ---- */

INJECT(OP_connect, int, connect, (int fd, const struct sockaddr *a, socklen_t n), SYS_connect, fd,
       a, n)
INJECT(OP_socket, int, socket, (int family, int type, int protocol), SYS_socket, family, type,
       protocol)
INJECT(OP_socket, int, socketpair, (int family, int type, int protocol, int fds[2]), SYS_socketpair,
       family, type, protocol, fds)
INJECT(OP_accept, int, accept, (int fd, struct sockaddr *a, socklen_t *n), SYS_accept, fd, a, n)
INJECT(OP_accept, int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), SYS_accept4,
       fd, a, n, flags)
INJECT(OP_memfd, int, memfd_create, (const char *name, unsigned int flags), SYS_memfd_create, name,
       flags)
INJECT(OP_dup, int, dup2, (int from, int to), SYS_dup2, from, to)
INJECT(OP_dup, int, dup3, (int from, int to, int flags), SYS_dup3, from, to, flags)
INJECT(OP_pipe, int, pipe2, (int fds[2], int flags), SYS_pipe2, fds, flags)
INJECT(OP_pipe, int, timerfd_create, (int clock, int flags), SYS_timerfd_create, clock, flags)
INJECT(OP_timer, int, timerfd_settime,
       (int fd, int flags, const struct itimerspec *t, struct itimerspec *old), SYS_timerfd_settime,
       fd, flags, t, old)
INJECT(OP_epoll, int, epoll_create1, (int flags), SYS_epoll_create1, flags)
INJECT(OP_epoll, int, epoll_ctl, (int ep, int what, int fd, struct epoll_event *e), SYS_epoll_ctl,
       ep, what, fd, e)
INJECT(OP_pipe, int, eventfd, (unsigned int start, int flags), SYS_eventfd2, start, flags)
INJECT(OP_pipe, int, signalfd, (int fd, const sigset_t *set, int flags), SYS_signalfd4, fd, set, 8,
       flags)

PUBLIC void *
mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return fails(OP_mmap) ? MAP_FAILED
			      : (void *)real_syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

static mode_t
mode_of(int flags, va_list args)
{
	return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t)
									  : 0;
}

PUBLIC int
openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = mode_of(flags, args);
	va_end(args);
	return fails(OP_open) ? -1 : (int)real_syscall(SYS_openat, dir, path, flags, mode);
}

PUBLIC int
open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = mode_of(flags, args);
	va_end(args);
	return fails(OP_open) ? -1 : (int)real_syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

PUBLIC int
fcntl(int fd, int what, ...)
{
	va_list args;

	va_start(args, what);
	void *arg = va_arg(args, void *);
	va_end(args);
	if ((what == F_DUPFD || what == F_DUPFD_CLOEXEC || what == F_ADD_SEALS) && fails(OP_dup))
		return -1;
	return (int)real_syscall(SYS_fcntl, fd, what, arg);
}

/* ---- processes ---- */

PUBLIC pid_t
fork(void)
{
	return fails(OP_fork) ? -1 : real_fork();
}

/* The supervisor's children get an environment without ours. */
static char **
environment_with_ours(char *const *old)
{
	static char *with[64];
	size_t n = 0;

	with[n++] = control_path;
	with[n++] = preload_path;
	for (; *old != NULL && n < 63; old++)
		with[n++] = *old;
	with[n] = NULL;
	return with;
}

PUBLIC long
syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_execveat && control != NULL)
		a[3] = (long)environment_with_ours((char *const *)a[3]);
	/* What a self-test tries must be answered by the filter. */
	if ((number == SYS_pidfd_open || number == SYS_openat2 || number == SYS_pidfd_send_signal ||
	     number == SYS_close_range || number == SYS_execveat) &&
	    fails(OP_syscall))
		return -1;
	return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- libseccomp ---- */

/* It does not survive a failing allocation, and confine.c reserves memory before it calls it
 * (test_filters: "little memory"). So what it allocates does not fail here. */
#define SHELTER(type, name, params, args)                                     \
	PUBLIC type name params                                               \
	{                                                                     \
		type(*real) params = (type(*) params)dlsym(RTLD_NEXT, #name); \
		bool was = inside;                                            \
                                                                              \
		inside = true;                                                \
		type r = real args;                                           \
		inside = was;                                                 \
		return r;                                                     \
	}

SHELTER(void *, seccomp_init, (uint32_t action), (action))
SHELTER(int, seccomp_attr_set, (void *f, int attr, uint32_t value), (f, attr, value))
SHELTER(int, seccomp_rule_add_array,
	(void *f, uint32_t action, int nr, unsigned int n, const void *args),
	(f, action, nr, n, args))
SHELTER(int, seccomp_load, (void *f), (f))

/* ---- time ---- */

/* How far the wall clock of this process is off at this reading; every reading is counted. */
static int64_t
clock_off(bool wall)
{
	if (control == NULL || strcmp(program, control->program) != 0)
		return 0;
	uint64_t nth = atomic_fetch_add(&control->clock_reads, 1) + 1;
	if (wall)
		atomic_fetch_add(&control->realtime_reads, 1);
	return wall && nth >= control->clock_jump_at ? control->clock_jump_s : 0;
}

PUBLIC int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = real_clock(clock, t);

	if (r == 0)
		t->tv_sec += clock_off(clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE);
	return r;
}

PUBLIC int
gettimeofday(struct timeval *t, void *zone)
{
	struct timespec now;

	(void)zone;
	int r = clock_gettime(CLOCK_REALTIME, &now);
	*t = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
	return r;
}

PUBLIC time_t
time(time_t *at)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) == -1)
		return (time_t)-1;
	if (at != NULL)
		*at = now.tv_sec;
	return now.tv_sec;
}
