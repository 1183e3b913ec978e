/*
 * ipc/guest_stream.h - the guest half of ipc.h: frames of guest.def, the run
 * specification, CRC32C. Included by ipc.h; guest/ needs nothing beyond it.
 */
#ifndef BAILEY_GUEST_STREAM_H
#define BAILEY_GUEST_STREAM_H

#define GUEST_VERSION 2u
#define GUEST_HEADER_LEN 16u
#define GUEST_CRC_LEN 4u
#define GUEST_PAYLOAD_MAX 32768u
#define GUEST_FRAME_MAX (GUEST_HEADER_LEN + GUEST_PAYLOAD_MAX + GUEST_CRC_LEN)
/* What streams are cut into: a frame then fills the pieces that engines copy in, and leaves no
 * rest that would wake everybody on its way once more. */
#define GUEST_PIECE (GUEST_PAYLOAD_MAX - GUEST_HEADER_LEN - GUEST_CRC_LEN)
#define GUEST_WINDOW 262144u    /* initial credit of every stream, bytes */
#define GUEST_HEAD_MAX 1048576u /* a stream's first bytes that are sent */
#define GUEST_TAIL_MAX 8192u    /* and its last ones when more was written */
#define GUEST_AT_ONCE 65536u    /* of a stream: what waits for no pace (h_pace) */
#define GUEST_SPEC_MAX 2097152u

enum guest_stream_no {
	STREAM_STDIN = 0,
	STREAM_STDOUT = 1,
	STREAM_STDERR = 2,
	STREAM_VALUE = 3, /* of an evaluation: records ended by NUL, 'v' + text of the value or 'i'
			     + an image's path */
	STREAMS = 4,
};
#define GUEST_RUNS_MAX 16u /* going on at once in one box; numbers from 1, never used twice */
enum exit_how { EXIT_EXITED = 1, EXIT_SIGNALED = 2, EXIT_NOT_STARTED = 3 };
enum exit_flag {
	EXIT_TIMED_OUT = 1,
	EXIT_ENDED = 2,          /* by an h_end frame */
	EXIT_WORKSPACE_FULL = 4, /* no free block or inode at the end */
	EXIT_TMP_FULL = 8,
	EXIT_OUTPUT_LIMIT = 16,
	EXIT_FORK_FAILED = 32,      /* the first process could not be started: exit_code is errno */
	EXIT_INTERPRETER_GONE = 64, /* of an evaluation: it has ended, its state is lost */
};

enum guest_dir { H2G = 0, G2H = 1 };
enum guest_reader { GUEST_READ_BROKER, GUEST_READ_FRONTEND };

enum guest_type {
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) GUEST_##name = (num),
#define GUEST_FIELD(name, type, field, bytes)
#define GUEST_END(name)
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END
};

/* struct guest_g_exit { uint32_t how; … }; raw fields are uint8_t arrays */
#define GUEST_DECL_u32(field, bytes) uint32_t field
#define GUEST_DECL_u64(field, bytes) uint64_t field
#define GUEST_DECL_raw(field, bytes) uint8_t field[bytes]
#define GUEST_FRAME(name, num, dir, min, max, seq, reader) \
	struct guest_##name {                              \
		char unused_;
#define GUEST_FIELD(name, type, field, bytes) GUEST_DECL_##type(field, bytes);
#define GUEST_END(name) \
	}               \
	;
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

/* void guest_put_g_exit(const struct guest_g_exit *in, uint8_t *out) writes the fixed payload;
 * int guest_get_g_exit(const uint8_t *in, size_t len, struct guest_g_exit *ret): -EBADMSG unless
 * len is exact. Rows without fields have neither use. */
#define GUEST_FRAME(name, num, dir, min, max, seq, reader)                  \
	void guest_put_##name(const struct guest_##name *in, uint8_t *out); \
	int guest_get_##name(const uint8_t *in, size_t len, struct guest_##name *ret);
#define GUEST_FIELD(name, type, field, bytes)
#define GUEST_END(name)
#include "guest.def"
#undef GUEST_FRAME
#undef GUEST_FIELD
#undef GUEST_END

struct guest_row {
	const char *name;
	enum guest_type type;
	enum guest_dir dir;
	enum guest_reader reader;
	uint32_t min, max;
	bool sequenced;
};
const struct guest_row *guest_row(uint32_t type); /* NULL when unknown */

struct guest_frame {
	const struct guest_row *row;
	uint8_t stream;
	uint32_t run;
	uint64_t seq;
	const uint8_t *payload; /* borrowed from the parser's buffer */
	size_t len;
};

/* ---- crc32c.c ---- */
uint32_t crc32c(uint32_t crc, const void *p, size_t n); /* Castagnoli, start with 0 */

/* ---- guest.c ---- */
/* Writes one whole frame into out (>= GUEST_HEADER_LEN + len + GUEST_CRC_LEN); returns its length.
 * payload may already stand at out + GUEST_HEADER_LEN. */
size_t guest_frame_write(uint8_t *out, enum guest_type type, uint8_t stream, uint32_t run,
			 uint64_t seq, const void *payload, size_t len);
/* Looks at the first bytes of in. 1: a frame, *ret filled, *ret_used bytes to consume (padding
 * included); 0: more bytes needed, *ret_used bytes of padding may be consumed; -EBADMSG: unknown
 * type, wrong direction, length outside the row's range, sequence rule broken (zero/non-zero);
 * -EILSEQ: the CRC is wrong (*ret_used is set past the frame, nothing in it was looked at). */
int guest_frame_parse(const uint8_t *in, size_t len, enum guest_dir dir, struct guest_frame *ret,
		      size_t *ret_used);

/* ---- spec.c: what a run is; h_spec parts and the final h_run part concatenated ---- */
enum run_kind {
	RUN_PYTHON = 1,
	RUN_NODE = 2,
	RUN_BASH = 3,
	RUN_COMMAND = 4,
	RUN_ARGV = 5, /* args are argv; code is empty */
	/* an interpreter that stays for the box's life: exit_code 0, or 1 when the code raised */
	RUN_EVAL_PYTHON = 6,
	RUN_EVAL_NODE = 7,
	RUN_EVAL_BASH = 8,
	/* code is the path. exit_code is 0 or an errno of Linux; g_exit's size is the file's */
	RUN_FILE_READ = 9,   /* offset, length: the bytes come on stdout */
	RUN_FILE_WRITE = 10, /* the bytes come on stdin; offset (SPEC_APPEND: the end), mode */
	RUN_FILE_LIST =
		11,   /* length: depth. stdout: type mode size mtime path NUL, see guest/files.c */
	RUN_ENV = 12, /* no program: its env is given to every later one, beneath that one's own */
};
enum spec_flag {
	SPEC_STDIN = 1, /* stdin frames follow until h_stdin_eof; else /dev/null-like EOF at once */
	SPEC_LIVE = 2,  /* do not use the waiting interpreter */
	SPEC_APPEND = 4,   /* RUN_FILE_WRITE: at the end of the file */
	SPEC_TRUNCATE = 8, /* RUN_FILE_WRITE: nothing is left of what the file held */
};
#define SPEC_ARGS_MAX 1024u
#define SPEC_ENV_MAX 512u
#define SPEC_ITEM_MAX 131071u     /* one argument or one NAME=value, bytes (execve's own limit) */
#define SPEC_KEPT_ENV_MAX 131072u /* RUN_ENV: all of it, each item with its NUL */
#define SPEC_CODE_MAX 1048576u
#define SPEC_CWD_MAX 4095u
#define SPEC_FIELDS 11u /* elements of its array */
struct guest_spec {
	uint32_t kind;  /* enum run_kind: code is main.py, main.js, main.sh, or bash -c's text */
	uint32_t flags; /* enum spec_flag */
	uint32_t timeout_ms;   /* from the first instruction */
	uint64_t output_limit; /* 0 none: the run ends when it wrote more, both streams together */
	struct ipc_str cwd;    /* "" = /workspace */
	struct ipc_bin code;
	uint32_t n_args, n_env;
	struct ipc_str *args;    /* arrays owned by whoever filled the struct */
	struct ipc_str *env;     /* "NAME=value" */
	uint64_t offset, length; /* of file kinds */
	uint32_t mode;           /* RUN_FILE_WRITE: of a new file, 0 = 0644; 0777 at most */
};
/* The rules both sides apply, by a table of kinds: -E2BIG past a maximum (RUN_COMMAND: code <=
 * SPEC_ITEM_MAX, a path SPEC_CWD_MAX, RUN_ENV: SPEC_KEPT_ENV_MAX); -EINVAL for an unknown kind, for
 * a flag or field its kind does not have, a NUL in args, env, cwd, path or command, or an env item
 * without a name
 * ([A-Za-z_][A-Za-z0-9_]*) and '='. */
int spec_check(const struct guest_spec *spec);
bool spec_env_name_ok(const char *name, size_t n); /* [A-Za-z_][A-Za-z0-9_]* */
/* pack.c; the host only. Appends the encoding to b after spec_check. -E2BIG past b's or
 * GUEST_SPEC_MAX. */
int spec_encode(const struct guest_spec *spec, struct buf *b);
/* Strings borrow from in; args and env are allocated: spec_done. -EBADMSG when the form or
 * spec_check fails, -ENOMEM. */
int spec_decode(const uint8_t *in, size_t len, struct guest_spec *ret);
void spec_done(struct guest_spec *spec);

#endif
