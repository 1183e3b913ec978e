/*
 * supervisor/stunnel.c - TLS in front of the http listener: stunnel, with a
 * configuration of our making, kept running by a process of its own.
 * Runs in: baileyd at its start; the keeper, forked before any filter.
 * Input: the command line; how stunnel ends.
 * Owns: in the keeper, one stunnel at a time.
 * The key is stunnel's: only its name passes through here. Started as root,
 * stunnel reads the key and then becomes a user of its own; so that it can be
 * started again the keeper stays root, with four capabilities and no input but
 * signals. It hears of the supervisor's end as SIGTERM.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_MAX ((size_t)4096)
#define LIVED_MS 30000u /* a life this long forgets earlier failures */
#define TOLD_MS 1000u   /* whoever waits for it to listen hears that it ended, and may end it all */
#define GRACE_MS 1000u  /* from SIGTERM to SIGKILL */
#define AWAIT_MS 10     /* between two looks whether it listens */
#define FD_TOLD FD_PEER /* of the keeper: its supervisor hears the first end of a stunnel by it */
#define EXIT_NOT_STARTED 127

/* Fixed places: what runs as root is not looked for along a caller's PATH. */
static const char *const places[] = {"/usr/bin/stunnel4", "/usr/bin/stunnel", "/usr/sbin/stunnel"};

int
stunnel_find(char *ret, size_t cap, char *error, size_t error_cap)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return str_copy(ret, cap, places[i], strlen(places[i]));
	(void)snprintf(error, error_cap,
		       "--tls needs stunnel, which is not installed (package stunnel4)");
	return -ENOENT;
}

/* A name that means the same in stunnel's configuration: one line, no blanks at its ends. */
static int
check_file(const char *path, bool secret, char *error, size_t cap)
{
	struct stat st;
	size_t n = strlen(path);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)path[i] < ' ')
			n = 0;
	if (n == 0 || path[0] != '/' || path[n - 1] == ' ') {
		(void)snprintf(error, cap, "--tls takes the absolute paths of two files");
		return -EINVAL;
	}
	int r = stat(path, &st) == -1 ? -errno : 0;
	if (r == 0 && !S_ISREG(st.st_mode))
		r = -EINVAL;
	if (r < 0) {
		(void)snprintf(error, cap, "--tls: %s: %s", path,
			       r == -EINVAL ? "not a file" : strerrordesc_np(-r));
		return r;
	}
	if (secret && (st.st_mode & 007) != 0) {
		(void)snprintf(error, cap, "--tls: anyone can read %s (chmod o-rwx)", path);
		return -EPERM;
	}
	return 0;
}

static int
config_text(struct buf *b, const struct serve *serve, const struct listen_address *backend,
	    uid_t run_as, gid_t run_gid)
{
	int r = buf_printf(b, "foreground = yes\npid =\nsyslog = no\ndebug = warning\n"
			      "socket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n");

	if (r == 0 && run_as != 0)
		r = buf_printf(b, "setuid = %u\nsetgid = %u\n", run_as, run_gid);
	if (r == 0)
		r = buf_printf(b,
			       "[bailey]\naccept = %s\nconnect = %s:%u\ncert = %s\nkey = %s\n"
			       "sslVersionMin = TLSv1.2\nTIMEOUTbusy = 30\nTIMEOUTclose = 10\n"
			       "TIMEOUTidle = 3600\n",
			       serve->tls_listen, backend->v6 ? "::1" : "127.0.0.1", backend->port,
			       serve->tls_cert, serve->tls_key);
	return r;
}

int
stunnel_config(const struct serve *serve, const struct listen_address *backend, uid_t run_as,
	       gid_t run_gid, char *error, size_t cap)
{
	struct listen_address front;
	struct buf b;

	if (listen_parse(serve->tls_listen, &front) < 0 || front.port == 0) {
		(void)snprintf(error, cap,
			       "--tls-listen: %s is not ADDRESS:PORT, such as 0.0.0.0:8443",
			       serve->tls_listen);
		return -EINVAL;
	}
	int r = check_file(serve->tls_cert, false, error, cap);
	if (r == 0)
		r = check_file(serve->tls_key, true, error, cap);
	if (r < 0)
		return r;
	cleanup_close int fd = memfd_create("bailey-stunnel", MFD_CLOEXEC);
	buf_init(&b, CONFIG_MAX);
	r = config_text(&b, serve, backend, run_as, run_gid);
	if (r == 0)
		r = fd == -1 ? -errno : fd_write_all(fd, buf_data(&b), buf_len(&b));
	buf_done(&b);
	if (r < 0) {
		(void)snprintf(error, cap, "--tls: stunnel's configuration: %s",
			       strerrordesc_np(-r));
		return r;
	}
	return TAKE_FD(fd);
}

/* ---- the keeper ---- */

static void __attribute__((noreturn)) become_stunnel(const char *program)
{
	static char name[] = "stunnel", option[] = "-fd", number[] = "3";
	char *const argv[] = {name, option, number, NULL};
	char *const none[] = {NULL};
	sigset_t set;

	/* As root this is lost when it becomes its own user; then the keeper ends it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (sigemptyset(&set) == -1 || pthread_sigmask(SIG_SETMASK, &set, NULL) != 0 ||
	    lseek(FD_SUPERVISOR, 0, SEEK_SET) == -1 || confine_foreign() < 0)
		_exit(EXIT_NOT_STARTED);
	(void)execve(program, argv, none);
	_exit(EXIT_NOT_STARTED);
}

/* The next signal of the set, 0 after timeout_ms. */
static int
next_signal(const sigset_t *set, uint64_t timeout_ms)
{
	const struct timespec ts = {.tv_sec = (time_t)(timeout_ms / 1000),
				    .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
	int number = sigtimedwait(set, NULL, &ts);

	return number == -1 ? 0 : number;
}

static void __attribute__((noreturn)) end_both(pid_t pid, const sigset_t *set)
{
	uint64_t until = clock_now_ms() + GRACE_MS;

	if (pid > 0 && kill(pid, SIGTERM) == 0) {
		while (waitpid(pid, NULL, WNOHANG) == 0) {
			uint64_t now = clock_now_ms();
			if (now >= until) {
				(void)kill(pid, SIGKILL);
				break;
			}
			(void)next_signal(set, until - now);
		}
	}
	_exit(0);
}

/* From its start to its end; returns the wait status. */
static int
run_once(const char *program, const sigset_t *set)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == -1)
		return -1;
	if (pid == 0)
		become_stunnel(program);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int number = next_signal(set, UINT32_MAX);
		if (number != 0 && number != SIGCHLD)
			end_both(pid, set);
	}
	return status;
}

static void __attribute__((noreturn)) keep(const char *program, const sigset_t *set)
{
	uint32_t failures = 0;
	bool told = true;

	for (;;) {
		uint64_t before = clock_now_ms();
		int status = run_once(program, set);
		bool lived = clock_now_ms() - before >= LIVED_MS;
		failures = lived ? 1 : failures + 1;
		uint64_t pause = told && !lived ? TOLD_MS : children_delay_ms(failures);
		if (told)
			(void)close(FD_TOLD);
		told = false;
		log_error("stunnel ended (%s %d) and is started again",
			  WIFSIGNALED(status) ? "signal" : "exit code",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		uint64_t until = clock_now_ms() + pause;
		for (uint64_t now = clock_now_ms(); now < until; now = clock_now_ms()) {
			int number = next_signal(set, until - now);
			if (number != 0 && number != SIGCHLD)
				_exit(0);
		}
	}
}

static void __attribute__((noreturn))
become_keeper(const char *program, int config, int told, const struct identity *id, pid_t parent)
{
	sigset_t set;

	log_init("bailey-stunnel-keeper", LOG_L_WARNING);
	(void)setpgid(0, 0); /* the parent does it too */
	if (sigemptyset(&set) == -1 || sigaddset(&set, SIGCHLD) == -1 ||
	    sigaddset(&set, SIGTERM) == -1 || sigaddset(&set, SIGINT) == -1 ||
	    sigaddset(&set, SIGHUP) == -1 || pthread_sigmask(SIG_SETMASK, &set, NULL) != 0)
		fatal("signals");
	/* 3 is /dev/null here; then nothing stays but that, the log, the configuration and, for the
	 * keeper alone, the end by which the supervisor hears. */
	if (dup3(FD_SUPERVISOR, FD_IN, 0) == -1 || dup3(FD_SUPERVISOR, FD_OUT, 0) == -1 ||
	    fd_move(config, FD_SUPERVISOR) < 0 || fd_move(told, FD_TOLD) < 0 ||
	    fd_set_cloexec(FD_TOLD, true) < 0 || fd_close_from(FD_TOLD + 1) < 0)
		fatal("descriptors");
	if (identity_become_keeper(id) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1 ||
	    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == -1)
		fatal("giving up rights");
	if (getppid() != parent)
		_exit(0);
	keep(program, &set);
}

int
stunnel_start(const char *program, int config, const struct identity *id, pid_t *ret_pid,
	      int *ret_told)
{
	cleanup_close int held = config;
	pid_t parent = getpid();
	int told[2];

	if (pipe2(told, O_CLOEXEC) == -1)
		return -errno;
	cleanup_close int ours = told[0], its = told[1];
	pid_t pid = fork();
	if (pid == -1)
		return -errno;
	if (pid == 0)
		become_keeper(program, TAKE_FD(held), TAKE_FD(its), id, parent);
	(void)setpgid(pid, pid); /* whoever is first */
	*ret_pid = pid;
	*ret_told = TAKE_FD(ours);
	return 0;
}

int
stunnel_await(int told, const struct listen_address *front, uint64_t timeout_ms)
{
	uint64_t until = clock_now_ms() + timeout_ms;

	/* Not by connecting: stunnel would log a handshake that failed. */
	while (listen_probe(front) != -EADDRINUSE) {
		struct pollfd p = {.fd = told, .events = POLLIN};
		if (poll(&p, 1, AWAIT_MS) == 1)
			return -ECHILD;
		if (clock_now_ms() >= until)
			return -ETIMEDOUT;
	}
	return 0;
}
