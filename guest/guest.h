/*
 * guest/guest.h - the guest's own header: prototypes grouped by file.
 *
 * guest-init is PID 1 of every sandbox. One loop, one session with the broker,
 * up to GUEST_RUNS_MAX runs at once. Each run of a program has a process of its
 * own besides, the runner: parent and subreaper of the run, so that whatever the
 * run leaves behind is found below it. One runner is forked ahead.
 */
#ifndef BAILEY_GUEST_H
#define BAILEY_GUEST_H

#include <sys/types.h>

#include "types.h"

/* ---- main.c ---- */
void guest_end(enum guest_end_code code) __attribute__((noreturn)); /* kills all, exits */
void guest_on_signal(struct guest *g, int fd);

/* ---- watch.c ---- */
void watch_fill(struct watch *w, struct guest *g, int signal_fd);
void watch_add(struct watch *w, int fd, short events, enum watch_what what, uint32_t run,
	       uint32_t index);
/* Serves what is ready, in the order of the list: output is read before an end is told. */
void watch_serve(const struct watch *w, struct guest *g);

/* ---- stream.c ---- */
void stream_init(struct stream *s, int in_fd, int out_fd);
/* Before much is moved: pipes that hold a window, so that their two sides wake each other less. */
void stream_widen(struct stream *s);
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

/* Handlers: <process>_on_<frame>, called by stream.c. 0, or -EBADMSG: a broken rule. A frame for a
 * run that is not there (any more) is none: it crossed with its end. */
int guest_on_h_hello(struct guest *g, const struct guest_h_hello *hello); /* main.c */
int guest_on_h_credit(struct guest *g, uint32_t run, uint8_t no,
		      const struct guest_h_credit *c);                          /* output.c */
int guest_on_h_spec(struct guest *g, uint32_t run, const uint8_t *p, size_t n); /* run.c */
int guest_on_h_run(struct guest *g, uint32_t run, const uint8_t *p, size_t n);
int guest_on_h_end(struct guest *g, uint32_t run);
int guest_on_h_stdin(struct guest *g, uint32_t run, const uint8_t *p, size_t n); /* feed.c */
int guest_on_h_stdin_eof(struct guest *g, uint32_t run);

/* ---- output.c ---- */
void output_init(struct output *o, uint32_t run, uint8_t no);
void output_done(struct output *o);
bool output_may_read(const struct guest *g, const struct output *o);
void output_put(struct output *o, const uint8_t *p, size_t n); /* as if the run wrote it */
/* Takes what the pipe holds, a bounded amount unless all. True when it is empty now. */
bool output_read(struct output *o, bool all);
void output_rest(struct guest *g, struct output *o); /* after a read: whether the next one waits */
/* When it is to be looked at for its pace alone, 0 = it is not. */
uint64_t output_next_us(struct guest *g, const struct output *o, uint64_t now_us);
void output_pump(struct guest *g, struct output *o); /* frames what credit and room allow */
/* After the last read: frames the rest and the tail. True when all of it is framed. */
bool output_finish(struct guest *g, struct output *o);
uint64_t output_dropped(const struct output *o);

/* ---- feed.c ---- */
void feed_init(struct feed *f, uint32_t run); /* with no pipe yet */
bool feed_wants_write(const struct feed *f);
void feed_pump(struct guest *g, struct feed *f); /* writes what the pipe takes, grants more */
void feed_grant(struct guest *g, struct feed *f);
int feed_tell_all(struct guest *g); /* g_stands of every run, for a new session */
void feed_close(struct feed *f);

/* ---- launch.c ---- */
/* Fills l for this run: argv, environment, directory; kept: RUN_ENV's, or zero. 0, or the errno the
 * run fails with. */
int launch_fill_run(struct launch *l, const struct guest_spec *spec, const struct guest_spec *kept,
		    uint32_t cpus);
uint32_t launch_waiting_kind(uint32_t box_class); /* of the runs its interpreter can wait for */
/* The same as launch_fill_run, for that interpreter. */
int launch_fill_waiting(struct launch *l, uint32_t box_class, uint32_t cpus);
/* Writes the code where the run expects it. 0 or errno. */
int launch_write_code(const struct guest_spec *spec);
/* Variables that count at an interpreter's start only. */
bool launch_is_startup_env(const char *item, size_t len);

/* ---- prestart.c ---- */
void prestart_begin(struct guest *g);          /* once, when DUE and no run has come */
bool prestart_is_shell(const struct guest *g); /* the sandbox waits for no python and no node */
void prestart_on_control(struct guest *g);     /* the control descriptor is readable */
void prestart_on_report(struct guest *g);      /* its runner has something to say, or is gone */
bool prestart_fits(const struct guest *g, const struct guest_spec *spec);
/* Gives the run to the waiting interpreter. 0 or -errno (then it is not usable). */
int prestart_hand_out(struct guest *g, struct run *run);
void prestart_discard(struct guest *g);               /* ends an interpreter that waits or starts */
void prestart_on_gone(struct guest *g);               /* its runner is gone */
void prestart_tick(struct guest *g, uint64_t now_ms); /* gives up one that does not come to wait */

/* ---- runner.c ---- */
/* Forks a runner; the copy of s in it is wiped. 0 or -errno. */
int runner_start(struct runner *r, struct stream *s);
int runner_order(struct runner *r); /* start what launch says */
/* Binds the runner, and so all it starts, to these processors, and PID 1 to the others where there
 * are any: it passes output on while the run goes on. 0 = leave both. */
void runner_affinity(const struct runner *r, uint64_t mask);
void runner_block_output(struct runner *r); /* takes back O_NONBLOCK a waiting node has set */
/* Kills what it started last; that may end on PID 1's processors. False: it has not said its number
 * yet, which it may do later than that one speaks. */
bool runner_put_away(const struct runner *r);
/* Wakes what it started last, where somebody stopped that. */
void runner_continue(const struct runner *r);
void runner_discard_output(struct runner *r); /* what its pipes and control hold was not a run's */
uint64_t runner_cpu_us(const struct runner *r);          /* of the process it started last */
int runner_report(struct runner *r, struct report *ret); /* 1, 0 = none now, -errno = gone */
void runner_close(struct runner *r); /* its descriptors and memory; leaves RUNNER_NONE */

/* ---- children.c: who PID 1 is the parent of ---- */
/* The spare runner, else a new one. 0 or -errno. */
int children_take(struct guest *g, struct runner *ret);
void children_drop(struct guest *g, struct runner *r); /* ends it */
void children_reap(struct guest *g);
/* Kills what is PID 1's child, or below one, and not known. How many there were. */
uint32_t children_kill_strangers(struct guest *g);
void children_tick(struct guest *g, uint64_t now_ms); /* forks the spare when it is due */

/* ---- run.c ---- */
struct run *run_find(struct guest *g, uint32_t number); /* NULL when it is not there */
void run_adopt(struct run *run, struct runner *r);      /* moves r into it, with its pipes */
void run_lend_back(struct run *run, struct runner *r);  /* and out of it */
/* Starts its program in a runner of its own, in another one where that was dead: 0 or an errno. */
int run_launch(struct guest *g, struct run *run);
void run_begin(struct guest *g, struct run *run);         /* its time starts to count */
void run_fail(struct guest *g, struct run *run, int err); /* it could not be started */
void run_kill(struct guest *g, struct run *run);          /* ends whatever lives of it */
void run_drain(struct guest *g, struct run *run);         /* nothing lives of it any more */
void run_on_report(struct guest *g, struct run *run, const struct report *report);
void run_on_runner_gone(struct guest *g, struct run *run);
void run_on_orphans_gone(struct guest *g);              /* PID 1 has no child it does not know */
void run_tick_all(struct guest *g, uint64_t now_ms);    /* timeouts, limits, kill again, exits */
uint64_t run_next_us(struct guest *g, uint64_t now_us); /* the same for their pace (h_pace) */
uint64_t run_next_ms(const struct guest *g); /* when run_tick_all must be called, 0 = any time */

/* ---- kept.c ---- */
void kept_start(struct guest *g, struct run *run); /* and the run's end */

/* ---- eval.c ---- */
void eval_init(struct guest *g);
/* The run is an evaluation's: it goes on, or waits for its turn. 0, or the errno to fail with. */
int eval_start(struct guest *g, struct run *run);
void eval_forget(struct guest *g, const struct run *run); /* it waits no longer */
bool eval_wants_write(const struct guest *g, const struct run *run);
void eval_on_control_out(struct guest *g, struct run *run); /* the control can be written */
void eval_on_control(struct guest *g, struct run *run);     /* and read */
void eval_over(struct guest *g, const struct run *run); /* nothing of it lives: the next's turn */
void eval_on_idle(struct guest *g, uint32_t index);     /* a resting interpreter's runner speaks */
void eval_on_runner_gone(struct guest *g);              /* the pid of a resting one is 0 now */

/* ---- images.c ---- */
/* A value record for each image in the directory that was written since then. */
void images_put(struct output *value, const char *path, const struct timespec *since);

/* ---- beneath.c ---- */
/* Opens the place that path lies in, a relative one in the workspace; *ret_rest is the way from
 * there. -EXDEV: it leaves it, or lies in none. */
int beneath_root(const char *path, const char **ret_rest);
int beneath_open(int root, const char *rest, int flags, mode_t mode); /* a descriptor or -errno */
/* Makes a file to write, with this very mode, and the directories on the way to it. */
int beneath_create(int root, const char *rest, int flags, mode_t mode);

/* ---- files.c ---- */
void files_start(struct guest *g, struct run *run);
void files_step(struct guest *g, struct run *run); /* the next piece of a read or list */
bool files_may_step(const struct guest *g, const struct run *run);
void files_take(struct guest *g, struct run *run, const uint8_t *p, size_t n); /* of a write */
void files_end(struct guest *g, struct run *run, int err); /* done, or failed with errno */

/* ---- tree.c ---- */
/* Stops every process below root, root excluded, until a walk finds no new one, then kills them.
 * Returns how many. Where /proc cannot be walked: kills all but PID 1. */
uint32_t tree_kill(pid_t root);
/* The same below PID 1, without these children and what is below them. */
uint32_t tree_kill_others(const pid_t *known, size_t n);
void tree_kill_all(void);

#endif
