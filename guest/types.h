/*
 * guest/types.h - what guest-init is made of: the structures, grouped by the file
 * that keeps them. Included by guest.h, never by itself.
 */
#ifndef BAILEY_GUEST_TYPES_H
#define BAILEY_GUEST_TYPES_H

#include <poll.h>
#include <time.h>

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
	bool met;            /* one came after h_hello */
	uint64_t ack_at_ms;  /* when g_ack is due, 0 = none */
	uint8_t secret[32];
	bool wide; /* stream_widen was here */
};

/* ---- output.c: what a run writes ---- */
#define GUEST_OUTPUTS 3u /* stdout, stderr, value */
struct output {
	int fd;             /* the runner's; -1: bytes come by output_put alone */
	uint8_t stream;     /* STREAM_STDOUT, STREAM_STDERR, STREAM_VALUE */
	uint32_t run;       /* its number */
	uint64_t head_max;  /* of this many bytes all are sent */
	struct buf pending; /* of the head, not framed yet */
	uint64_t total;     /* all the run wrote */
	uint64_t framed;    /* of it, sent as g_out */
	uint64_t credit;    /* framed may reach this */
	bool tail_sent;
	uint64_t next_us, rest_us; /* h_pace: no piece, and no reading, before that */
	size_t tail_len, tail_at;  /* ring of GUEST_TAIL_MAX: the next byte goes to tail_at */
	uint8_t *tail;             /* NULL until more than the head was written */
};

/* ---- feed.c: a run's stdin ---- */
struct feed {
	int fd;       /* -1 once closed */
	uint32_t run; /* its number */
	bool eof;     /* close when pending is out */
	struct buf pending;
	uint64_t received, consumed, granted;
};

/* ---- launch.c: what is executed; lies in memory shared with the runner ---- */
#define LAUNCH_TEXT_MAX (GUEST_SPEC_MAX + SPEC_KEPT_ENV_MAX + 65536u)
#define LAUNCH_PATH_MAX 4096u
struct launch {
	uint32_t n_argv, n_env;
	uint32_t with_control; /* GUEST_CONTROL_FD is open in it */
	int32_t pid;           /* written by the runner: the last process it started */
	const char *program;   /* what path was last found for */
	char path[LAUNCH_PATH_MAX];
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
/* Held by value, moved by assignment: whoever moves it leaves RUNNER_NONE behind. */
struct runner {
	pid_t pid;      /* 0 = none, or gone */
	int fd;         /* orders out, reports in */
	int control_fd; /* this end of a waiting interpreter's fd 3 */
	int stdin_fd;   /* our ends of its run's pipes, non-blocking */
	int out_fds[2];
	int out_ends[2]; /* the run's ends of stdout and stderr, for their flags only */
	struct launch *launch;
};
#define RUNNER_NONE                           \
	((struct runner){.fd = -1,            \
			 .control_fd = -1,    \
			 .stdin_fd = -1,      \
			 .out_fds = {-1, -1}, \
			 .out_ends = {-1, -1}})

/* ---- prestart.c ---- */
enum prestart {
	PRESTART_NONE,
	PRESTART_DUE, /* as soon as no more input is there: a run may already have come */
	PRESTART_STARTING,
	PRESTART_READY,
	PRESTART_LEAVING, /* killed, and its runner not back yet */
};

/* ---- run.c ---- */
enum run_state {
	STATE_IDLE,    /* its specification is coming */
	STATE_WAITING, /* an evaluation behind another one */
	STATE_GOING,
	STATE_KILLING,  /* everything of the run is being ended */
	STATE_DRAINING, /* all gone, its output is not yet */
	STATE_OVER,     /* g_exit is on its way; the slot is free soon */
};
struct files;
struct run {
	uint32_t number; /* 0 = the slot is free */
	enum run_state state;
	struct buf spec;
	struct guest_spec what; /* borrows from spec */
	struct runner runner;   /* none before the start, and of what needs no process */
	struct files *files;    /* of file kinds while they go on */
	struct output out[GUEST_OUTPUTS];
	struct feed feed;
	bool ended; /* result holds how the process ended */
	uint64_t started_us, deadline_ms;
	uint64_t again_ms, kill_since_ms; /* when run_tick has to look again; killing since */
	uint64_t base_cpu_us;             /* the waiting interpreter's use before the run */
	struct guest_g_exit result;
};

/* ---- eval.c: an interpreter per language that stays ---- */
#define EVAL_LANGUAGES 3u
#define EVAL_WAITING_MAX 8u
struct eval {
	struct runner runner;  /* between evaluations; the one that goes on has it */
	uint32_t going;        /* the run that has it, 0 = none */
	struct timespec began; /* by the clock that files are stamped with */
	size_t n_waiting;
	uint32_t waiting[EVAL_WAITING_MAX]; /* runs whose turn has not come, the first comes next */
	struct buf out;                     /* of the evaluation, not written to the control yet */
	struct buf in;                      /* a record that is not whole yet */
};

/* ---- kept.c: the environment of every program from now on (RUN_ENV) ---- */
struct kept {
	struct buf spec;
	struct guest_spec what; /* borrows from spec; zero: none */
};

struct guest {
	struct stream stream;
	struct run runs[GUEST_RUNS_MAX];
	struct runner spare;       /* the next run's */
	uint64_t spare_at_ms;      /* when one is to be forked, 0 = not by itself */
	uint32_t leaving;          /* runners told to end and not reaped yet */
	struct runner waiting;     /* the prestarted interpreter's */
	uint64_t waiting_cpu_us;   /* what it used until it waited */
	uint64_t waiting_until_ms; /* when it has to wait at last, while STARTING */
	enum prestart prestart;
	struct eval eval[EVAL_LANGUAGES];
	struct kept kept;
	struct guest_h_hello hello;
	uint32_t pause_us; /* of the last h_pace; 0 = none */
	uint64_t started_ms, lifetime_end_ms;
};

/* ---- watch.c: what poll looks at ---- */
enum watch_what {
	WATCH_OUTPUT, /* index: of out */
	WATCH_FEED,
	WATCH_IN,
	WATCH_WIRE,
	WATCH_CONTROL,  /* of the waiting interpreter */
	WATCH_WAITING,  /* its runner */
	WATCH_EVAL,     /* control of an evaluation's interpreter, to read */
	WATCH_EVAL_OUT, /* and to write */
	WATCH_RUNNER,
	WATCH_IDLE, /* runner of a resting one; index: of eval */
	WATCH_SIGNAL,
};
#define WATCH_MAX ((size_t)GUEST_RUNS_MAX * 7 + 16)
struct watch {
	size_t n;
	struct pollfd p[WATCH_MAX];
	struct {
		enum watch_what what;
		uint32_t run, index;
	} of[WATCH_MAX];
};

#endif
