/*
 * base/base.h - the floor: what every room may use. libc only.
 *
 * Library code here returns 0 or -errno and never logs. A function that takes
 * an out parameter (ret_x) writes it only on success. free and done functions
 * accept NULL and half-built objects.
 */
#ifndef BAILEY_BASE_H
#define BAILEY_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- fixed descriptors of every host process: what is above is closed at its start ---- */
enum base_fd {
	FD_IN = 0,  /* frontend: client; others /dev/null */
	FD_OUT = 1, /* frontend: client; others /dev/null */
	FD_LOG = 2,
	FD_SUPERVISOR = 3, /* this process' end of its supervisor link */
	FD_PEER = 4,       /* frontend, reaper: broker link; broker: reaper link */
	FD_STATE = 5,      /* reaper: ledger memfd; broker: kept output memfd; frontend closed */
	FD_FIRST_FREE = 6,
};

/* ---- cleanup: locals are initialised at declaration, handed over by TAKE ---- */
void cleanup_freep(void *p);  /* p is T**; frees *p */
void cleanup_closep(int *fd); /* closes *fd when >= 0 */
#define cleanup_free __attribute__((cleanup(cleanup_freep)))
#define cleanup_close __attribute__((cleanup(cleanup_closep)))
#define TAKE(p)                                \
	({                                     \
		__typeof__(p) take_tmp_ = (p); \
		(p) = NULL;                    \
		take_tmp_;                     \
	})
#define TAKE_FD(fd)                  \
	({                           \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* ---- log.c: one line per event on fd 2 by write(2); vsnprintf only ----
 * Line: "<prio>name[pid]: text"; %m is the error text of errno, which is kept. Text is cut at 1000
 * bytes; control bytes become \xHH, but peer text goes through log_escape, which leaves no doubt
 * where it ends. */
enum log_level { LOG_L_ERROR, LOG_L_WARNING, LOG_L_INFO, LOG_L_DEBUG };
void log_init(const char *process_name, enum log_level max_level);
void log_at(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_error(...) log_at(LOG_L_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_L_WARNING, __VA_ARGS__)
#define log_info(...) log_at(LOG_L_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_L_DEBUG, __VA_ARGS__)
/* Escapes at most 200 bytes of peer text into out (NUL-terminated): bytes
 * outside printable ASCII become \xHH. Returns out. */
const char *log_escape(char *out, size_t cap, const char *text, size_t len);
/* Token bucket for client-provoked lines: true when the caller may log now. */
struct log_limit {
	uint64_t window_start_ms;
	uint32_t count, dropped;
};
bool log_allowed(struct log_limit *limit, uint32_t per_10s);
/* The latest warning or error, as it was written; seq 0: none so far. */
struct log_note {
	uint64_t seq, at_ms; /* CLOCK_MONOTONIC */
	char text[257];
};
const struct log_note *log_last(void);
bool log_shows(enum log_level level); /* a line of it would be written */
/* Start-up failures and our own broken invariants only: logs and _exit(70). */
void fatal(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

/* ---- mem.c: abort by fatal() when memory is out; for small fixed sizes ---- */
void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((malloc, returns_nonnull));
void secret_wipe(void *p, size_t n);

/* ---- buf.c: growable bytes that cannot exist without a maximum ---- */
struct buf {
	uint8_t *data;
	size_t len, cap, max;
	size_t off; /* consumed bytes at the front; live bytes are data+off .. data+len */
};
void buf_init(struct buf *b, size_t max);
/* From here on a buffer that finds no memory below its maximum ends the process by fatal(): for one
 * that builds answers, and would else send one with a part missing. */
void buf_must_grow(void);
void buf_done(struct buf *b);
void buf_clear(struct buf *b);                          /* keeps the allocation */
int buf_append(struct buf *b, const void *p, size_t n); /* -ENOSPC past max, nothing added */
/* Room for n more bytes, good until the buffer is touched again; then buf_commit. -ENOSPC past max,
 * -ENOMEM. */
int buf_reserve(struct buf *b, size_t n, uint8_t **ret_room);
void buf_commit(struct buf *b, size_t n); /* n <= what was reserved */
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
const uint8_t *buf_data(const struct buf *b);
size_t buf_len(const struct buf *b);
void buf_consume(struct buf *b, size_t n); /* n <= buf_len */

/* ---- str.c ---- */
/* Whole string must be a decimal in [min, max], no sign, no blanks: 0, -EINVAL or -ERANGE. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
bool utf8_valid(const char *s, size_t n);
/* Length of the valid UTF-8 sequence at s (1..4), 0 when invalid or cut. */
size_t utf8_step(const char *s, size_t n);
void hex_encode(char *out /* 2n+1 */, const uint8_t *in, size_t n);
int hex_decode(uint8_t *out, size_t n, const char *hex, size_t hex_len); /* -EINVAL */
void hex_escape(char out[4], uint8_t byte);                              /* \xHH, without a NUL */
bool mem_equal_ct(const void *a, const void *b, size_t n);               /* constant time */
int str_copy(char *dst, size_t cap, const char *src, size_t n); /* -ENAMETOOLONG, -EINVAL on NUL */

/* ---- base64.c ---- */
/* RFC 4648 base64 with padding, appended to b. */
int base64_append(struct buf *b, const uint8_t *in, size_t n);
/* The other way, strictly: padded, no blanks, unused bits zero. -EINVAL, or -ENOSPC when b has no
 * room for three bytes per four digits; nothing is added then. */
int base64_decode(struct buf *b, const char *text, size_t n);

/* ---- fd.c ---- */
int fd_set_nonblock(int fd);
int fd_set_cloexec(int fd, bool on);
/* Lets a pipe hold at least that many bytes; one that holds more, what is no pipe and what the
 * system refuses stay as they are (pipe(7), fcntl(2) F_SETPIPE_SZ). */
void fd_widen_pipe(int fd, int bytes);
int fd_move(int fd, int to);  /* dup3 without CLOEXEC, closes fd; to on success */
int fd_close_from(int first); /* close_range(first, ~0U) */
int fd_write_all(int fd, const void *p, size_t n); /* blocking descriptors only */
/* A whole small file as a string; no link is followed, no fifo waited for. -EFBIG unless it is
 * shorter than cap; ret_len may be NULL. */
int fd_read_file(int dirfd, const char *path, char *out, size_t cap, size_t *ret_len);
/* When the process of a /proc/PID/stat started, in clock ticks since the boot (field 22). */
int fd_read_start_time(int dirfd, const char *path, uint64_t *ret);
int fd_seqpacket_pair(int fds[2]); /* SOCK_SEQPACKET|CLOEXEC|NONBLOCK, buffers raised */

/* ---- exe.c: our own files, found from /proc/self/exe, never from PATH ---- */
/* A program of ours: beside this executable, else in ../libexec/bailey/. -ENOENT. */
int exe_find(const char *name, char *ret, size_t cap);
/* The data directory, which holds box/init: ../share/bailey/, ../../share/bailey/ or, in a build
 * tree, ../share/. -ENOENT. */
int exe_share_dir(char *ret, size_t cap);

/* ---- clock.c: the only clock reads; the seam tests wrap ---- */
uint64_t clock_now_ms(void);  /* CLOCK_MONOTONIC */
uint64_t clock_now_us(void);  /* CLOCK_MONOTONIC */
uint64_t clock_boot_ns(void); /* CLOCK_BOOTTIME: absolute deadlines */

/* ---- sched.c ---- */
/* Asks for the shortest time slice (sched_setattr(2), any user, Linux 6.12 and later; before that
 * the kernel ignores it), so that a wake-up does not wait until another process has used up its
 * own. For a process that works for microseconds at a time; what it forks starts without. -EINVAL
 * when it runs under another policy than SCHED_OTHER, -errno when the kernel refuses; nothing is
 * changed then. */
int sched_prompt(void);

/* ---- rand.c ---- */
void random_bytes(void *p, size_t n); /* getrandom(2); fatal when it fails */

/* ---- sha256.c ---- */
void sha256(const void *p, size_t n, uint8_t out[32]);

/* ---- idmap.c: u64 id -> object, capped, open addressing; owns nothing ---- */
struct idmap;
struct idmap *idmap_new(size_t max_entries);
void idmap_free(struct idmap *m);
int idmap_put(struct idmap *m, uint64_t id, void *obj); /* -EEXIST, -ENOSPC; -EINVAL for 0, NULL */
void *idmap_get(const struct idmap *m, uint64_t id);    /* NULL when absent */
void *idmap_take(struct idmap *m, uint64_t id);         /* removes and returns */
size_t idmap_count(const struct idmap *m);
/* cursor starts at 0; false at the end; the current entry may be taken during the walk */
bool idmap_next(const struct idmap *m, size_t *cursor, uint64_t *ret_id, void **ret_obj);

#include "events.h"

#endif
