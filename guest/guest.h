/*
 * guest/guest.h - the guest's own header: prototypes grouped by file.
 *
 * guest-init is PID 1 of every sandbox. One loop, one session with the broker,
 * one run. A second process, the runner, is parent and subreaper of the run,
 * so that whatever the run leaves behind is found below it.
 */
#ifndef BAILEY_GUEST_H
#define BAILEY_GUEST_H

#include "ipc.h"

#define GUEST_WORKSPACE "/workspace"
#define GUEST_TMP "/tmp"
#define GUEST_CONTROL_FD 3 /* where a waiting interpreter listens */

/* Exit codes of PID 1: the engine's "die" event shows why a sandbox ended itself. */
enum guest_end_code {
	END_ASKED = 0,     /* SIGTERM from outside */
	END_SILENT = 81,   /* nothing from the host for deadman_ms */
	END_NO_HELLO = 82, /* the first frame did not come in time */
	END_LIFETIME = 83,
	END_STREAM = 84, /* the host broke the stream rules, or showed a wrong secret */
	END_INPUT = 85,  /* stdin at its end or in error: no host can come back */
	END_OUTPUT = 86, /* stdout in error */
	END_RUNNER = 87, /* the runner is gone and no run is on */
};

/* ---- stream.c: frames in and out ---- */
enum session {
	SESSION_NONE, /* before h_hello */
	SESSION_OPEN,
	SESSION_LOST, /* a torn frame came: only padding and SYNC are read */
};
struct stream {
	int in_fd, out_fd;
	enum session session;
	struct buf in;       /* not parsed yet */
	struct buf wire;     /* whole frames on their way out */
	struct buf kept;     /* sequenced frames until acknowledged */
	size_t kept_on_wire; /* bytes of kept already copied to wire */
	uint64_t last_host;  /* highest host sequence received */
	uint64_t last_built; /* highest guest sequence in kept */
	uint64_t acked;      /* highest guest sequence acknowledged */
	uint64_t heard_ms;   /* when the last good frame came */
	uint64_t ack_at_ms;  /* when g_ack is due, 0 = none */
	uint8_t secret[32];
};

/* ---- output.c: what the run writes ---- */
struct output {
	int fd;
	uint8_t stream;     /* STREAM_STDOUT, STREAM_STDERR */
	struct buf pending; /* of the head, not framed yet */
	uint64_t total;     /* all the run wrote */
	uint64_t framed;    /* of it, sent as g_out */
	uint64_t credit;    /* framed may reach this */
	bool tail_sent;
	size_t tail_len, tail_at; /* ring: the next byte goes to tail_at */
	uint8_t tail[GUEST_TAIL_MAX];
};

/* ---- feed.c: the run's stdin ---- */
struct feed {
	int fd;   /* -1 once closed */
	bool eof; /* close when pending is out */
	struct buf pending;
	uint64_t received, consumed, granted;
};

/* ---- launch.c: what is executed; lies in memory shared with the runner ---- */
#define LAUNCH_TEXT_MAX (GUEST_SPEC_MAX + 65536u)
#define LAUNCH_PATH_MAX 4096u
struct launch {
	uint32_t n_argv, n_env;
	uint32_t with_control; /* GUEST_CONTROL_FD is open in it */
	int32_t pid;           /* written by the runner: the last process it started */
	const char *program;   /* what path was last found for */
	char path[64];
	char cwd[LAUNCH_PATH_MAX];
	size_t len;
	char text[LAUNCH_TEXT_MAX]; /* argv, then env, each with its NUL */
};

/* ---- runner.c ---- */
enum report_what {
	REPORT_FAILED = 1, /* nothing was started: status is errno */
	REPORT_ENDED,      /* the process ended: status as wait4 gave it; left: others still live */
	REPORT_EMPTY,      /* after ENDED with left: the others are gone too */
};
struct report {
	uint32_t what;
	int32_t pid, status;
	uint32_t left;
	uint64_t at_us, cpu_us, max_rss_bytes; /* cpu and rss: all processes waited for so far */
};
struct runner {
	pid_t pid;       /* 0 = gone */
	int fd;          /* orders out, reports in */
	int control_fd;  /* this end of a waiting interpreter's fd 3 */
	int out_ends[2]; /* the run's ends of stdout and stderr, for their flags only */
	struct launch *launch;
};

/* ---- prestart.c ---- */
enum prestart {
	PRESTART_NONE,
	PRESTART_DUE, /* as soon as no more input is there: a run may already have come */
	PRESTART_STARTING,
	PRESTART_TOUCHING, /* a shell that ends by itself, to have its files at hand */
	PRESTART_READY,
	PRESTART_USED,     /* handed out to the run */
	PRESTART_DISCARDED /* being killed, the run starts its own process afterwards */
};

/* ---- run.c ---- */
enum run_state {
	STATE_IDLE,
	STATE_CLEARING, /* the unwanted waiting interpreter has to go first */
	STATE_GOING,
	STATE_KILLING,  /* everything of the run is being ended */
	STATE_DRAINING, /* all gone, its output is not yet */
	STATE_OVER,
};
struct run {
	enum run_state state;
	uint32_t number;
	struct buf spec;
	struct guest_spec what; /* borrows from spec */
	bool ended;             /* result holds how the process ended */
	uint64_t started_us, deadline_ms;
	uint64_t kill_again_ms, kill_since_ms;
	uint64_t base_cpu_us; /* the waiting interpreter's use before the run */
	struct guest_g_exit result;
};

struct guest {
	struct stream stream;
	struct output out[2];
	struct feed feed;
	struct runner runner;
	enum prestart prestart;
	struct run run;
	struct guest_h_hello hello;
	uint64_t started_ms, lifetime_end_ms;
};

/* ---- main.c ---- */
void guest_end(enum guest_end_code code) __attribute__((noreturn)); /* kills all, exits */

/* ---- stream.c ---- */
void stream_init(struct stream *s, int in_fd, int out_fd);
/* Reads all that has come and handles whole frames. Ends the guest on a broken rule. */
void stream_read(struct guest *g);
/* Handles the whole frames in stream.in. 0, or the enum guest_end_code to end with. */
int stream_intake(struct guest *g);
/* Unsequenced frame; -ENOSPC when the host does not read. */
int stream_send(struct stream *s, enum guest_type type, uint8_t no, uint32_t run,
		const void *payload, size_t len);
/* Sequenced frame, kept until acknowledged. -ENOSPC. */
int stream_send_kept(struct stream *s, enum guest_type type, uint8_t no, uint32_t run,
		     const void *payload, size_t len);
bool stream_has_room(const struct stream *s); /* for one more g_out frame */
bool stream_wants_write(const struct stream *s);
void stream_flush(struct stream *s); /* writes what it can */

/* Handlers: <process>_on_<frame>, called by stream.c. 0, or -EBADMSG: a broken rule. */
int guest_on_h_hello(struct guest *g, const struct guest_h_hello *hello);           /* main.c */
int guest_on_h_credit(struct guest *g, uint8_t no, const struct guest_h_credit *c); /* output.c */
int guest_on_h_spec(struct guest *g, uint32_t run, const uint8_t *p, size_t n);     /* run.c */
int guest_on_h_run(struct guest *g, uint32_t run, const uint8_t *p, size_t n);
int guest_on_h_end(struct guest *g, uint32_t run);
int guest_on_h_stdin(struct guest *g, uint32_t run, const uint8_t *p, size_t n); /* feed.c */
int guest_on_h_stdin_eof(struct guest *g, uint32_t run);

/* ---- output.c ---- */
void output_init(struct output *o, int fd, uint8_t no);
void output_discard(struct output *o); /* what the pipe holds was not the run's */
bool output_may_read(const struct guest *g, const struct output *o);
/* Takes what the pipe holds, a bounded amount unless all. True when it is empty now. */
bool output_read(struct output *o, bool all);
void output_pump(struct guest *g, struct output *o); /* frames what credit and room allow */
/* After the last read: frames the rest and the tail. True when all of it is framed. */
bool output_finish(struct guest *g, struct output *o);
uint64_t output_dropped(const struct output *o);

/* ---- feed.c ---- */
void feed_init(struct feed *f, int fd);
bool feed_wants_write(const struct feed *f);
void feed_pump(struct guest *g); /* writes what the pipe takes, grants more */
void feed_close(struct feed *f);

/* ---- launch.c ---- */
/* Fills l for this run: argv, environment, directory. 0, or the errno the run fails with. */
int launch_fill_run(struct launch *l, const struct guest_spec *spec, uint32_t cpus);
/* The same for an interpreter that will wait, or a shell that ends at once. */
int launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus);
/* Writes the code where the run expects it. 0 or errno. */
int launch_write_code(const struct guest_spec *spec);
/* Variables that count at an interpreter's start only. */
bool launch_is_startup_env(const char *item, size_t len);

/* ---- prestart.c ---- */
void prestart_begin(struct guest *g);      /* once, when DUE and no run has come */
void prestart_on_control(struct guest *g); /* the control descriptor is readable */
bool prestart_fits(const struct guest *g, const struct guest_spec *spec);
/* Gives the run to the waiting interpreter. 0 or -errno (then it is not usable). */
int prestart_hand_out(struct guest *g, const struct guest_spec *spec);
void prestart_on_gone(struct guest *g); /* the waiting interpreter ended without a run */

/* ---- runner.c ---- */
struct runner_fds {
	int stdin_fd, stdout_fd, stderr_fd; /* our ends, non-blocking */
};
/* Forks the runner. Before dumpable is cleared and before any frame was read. 0 or -errno. */
int runner_start(struct runner *r, struct runner_fds *ret);
int runner_order(struct runner *r); /* start what launch says */
/* Binds the runner, and so all it starts, to these processors, and PID 1 to the others where there
 * are any: it passes output on while the run goes on. 0 = leave both. */
void runner_affinity(const struct runner *r, uint64_t mask);
void runner_block_output(struct runner *r); /* takes back O_NONBLOCK a waiting node has set */
int runner_report(struct runner *r, struct report *ret); /* 1, 0 = none now, -errno = gone */

/* ---- run.c ---- */
void run_on_report(struct guest *g, const struct report *report);
void run_on_runner_gone(struct guest *g);
void run_on_orphans_gone(struct guest *g);       /* PID 1 has no child any more */
void run_tick(struct guest *g, uint64_t now_ms); /* timeout, limits, kill again, exit */
uint64_t run_next_ms(const struct guest *g);     /* when run_tick must be called, 0 = any time */

/* ---- tree.c ---- */
/* Stops every process below root, root excluded, until a walk finds no new one, then kills them.
 * Returns how many. Where /proc cannot be walked: kills all but PID 1. */
uint32_t tree_kill(pid_t root);
void tree_kill_all(void);

#endif
