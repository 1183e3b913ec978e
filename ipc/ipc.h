/*
 * ipc/ipc.h - host messages (messages.def), guest frames (guest.def), links.
 *
 * Two codecs share the msgpack subset in wire.c: host rows (codec.c) and the
 * run specification (spec.c). guest.c holds guest frames. What guest/ links is wire.c, spec.c,
 * guest.c, crc32c.c and status.c; the rest is the host's.
 */
#ifndef BAILEY_IPC_H
#define BAILEY_IPC_H

#include "base.h"

#define IPC_VERSION 1u
#define IPC_PACKET_MAX 65536u
#define IPC_CHUNK_MAX 32768u

/* ---- figures that two processes must have alike ---- */
#define TOKENS_MAX 256u          /* rows of the token file */
#define STATUS_LEASES_MAX 256u   /* sandboxes that an answer to status_ask names */
#define BOXES_MEMORY_PERCENT 75u /* of the host's memory: what all boxes may have together */
#define DEADMAN_MS 8000u         /* of silence, and a guest ends itself */

/* ---- vocabularies shared by host processes ---- */
enum ipc_role {
	IPC_SUPERVISOR = 1,
	IPC_FRONTEND = 2,
	IPC_BROKER = 4,
	IPC_REAPER = 8,
	IPC_CHILDREN = IPC_FRONTEND | IPC_BROKER | IPC_REAPER,
};
const char *ipc_role_name(enum ipc_role role);

enum owner_kind {
	OWNER_TREE = 1,
	OWNER_UID = 2,
	OWNER_TOKEN = 3, /* of http: nobody until token_check binds the link to a principal */
};
enum engine_known {
	KNOWN_NOT_ASKED,
	KNOWN_ASKED,
	KNOWN_USABLE,
	KNOWN_UNUSABLE
}; /* status_engine */
enum client_kind { CLIENT_STDIO = 1, CLIENT_UNIX = 2, CLIENT_HTTP = 3 };
enum auth_word { AUTH_NO, AUTH_BOUND, AUTH_CROWDED, AUTH_REVOKED }; /* what became of a token */
enum engine_kind { ENGINE_UNIX = 1, ENGINE_TCP = 2, ENGINE_TLS = 3 };
enum engine_pem_kind { PEM_CA = 1, PEM_CERT = 2, PEM_KEY = 3 };
enum settings_flag {
	SETTINGS_REAPER_KILLS = 1, /* the reaper has CAP_KILL */
	SETTINGS_SAME_HOST = 2,    /* unix engine: binds and pids are of this host */
	SETTINGS_NO_POOL = 4,      /* BAILEY_POOL=0: every call starts its own box (bench, tests) */
};
enum box_class {
	BOX_SHELL = 0,
	BOX_PYTHON = 1,
	BOX_NODE = 2,
	BOX_CLASSES = 3,
	BOX_NOTHING = BOX_CLASSES, /* between broker and guest: no interpreter waits */
};
const char *box_class_name(uint32_t box_class); /* "shell"; "unknown" for what is no class */
enum call_flag {
	CALL_LIVE = 1,  /* the waiting interpreter cannot serve it (start-up environment) */
	CALL_STAYS = 2, /* makes a sandbox that stays: no run, ends ok once it is ready */
	CALL_KEEP = 4,  /* with STAYS: it outlives the connection (not a private tree's end) */
	CALL_BACKGROUND =
		8, /* in a sandbox: ended as running once RUN was written; output is kept only */
	CALL_HOLD =
		16, /* with STAYS: of box_class, in no listing: one execute call's several steps */
	CALL_STEP = 32, /* in a sandbox: a step of a tool; its output is not found by the sandbox */
	CALL_TURNS = 64, /* in a sandbox: it waits in the guest for those before it; so does its
			    time limit */
};
enum run_start { START_NONE = 0, START_WARM = 1, START_LIVE = 2, START_COLD = 3 };
enum host_figure { FIG_CPU = 1, FIG_PEAK = 2, FIG_CURRENT = 4, FIG_OOM = 8, FIG_PIDS = 16 };
enum kept_word { KEPT_UNKNOWN, KEPT_ALIVE, KEPT_ENDING }; /* what the ledger says of a box */
enum counter_no { COUNTER_USAGE, COUNTER_PEAK, COUNTER_OOM, COUNTER_PIDS, COUNTER_CPU, COUNTERS };
enum end_cause { /* who ended a box or run */
#define CAUSE(name, word, label, sentence) CAUSE_##name,
#include "causes.def"
#undef CAUSE
};
enum {
#define CAUSE(name, word, label, sentence) CAUSE_PLACE_##name,
#include "causes.def"
#undef CAUSE
	CAUSES /* how many there are */
};
/* Columns of causes.def: for log and counters ("idle"), for a list, for a message about a sandbox.
 * A number that is none is "unknown", and a sandbox ended by itself. */
const char *cause_word(uint32_t cause);
const char *cause_label(uint32_t cause);
const char *cause_sentence(uint32_t cause);

enum run_status {
#define STATUS(name, is_error, advice) RUN_##name,
#include "status.def"
#undef STATUS
	RUN_STATUS_COUNT
};
const char *run_status_name(enum run_status s); /* "ok", "nonzero", … */
bool run_status_is_error(enum run_status s);
const char *run_status_advice(enum run_status s); /* "" where none */
/* Said with RUN_cancelled where nobody did: a stop ends what goes on. */
#define STOPPED_WORDS "The call was ended because Bailey is stopping."

/* ---- rows: one struct per message, expanded from the table ---- */
struct ipc_str {
	const char *data; /* borrowed: valid until the handler returns; not NUL-terminated */
	size_t len;
};
struct ipc_bin {
	const uint8_t *data;
	size_t len;
};
#define IPC_STR(s) ((struct ipc_str){(s), strlen(s)})

#define IPC_TYPE_u32 uint32_t
#define IPC_TYPE_u64 uint64_t
#define IPC_TYPE_str struct ipc_str
#define IPC_TYPE_bin struct ipc_bin

enum ipc_num {
#define IPC_MSG(name, num, from, to, max) IPC_NUM_##name = (num),
#define IPC_FIELD(name, type, field, max)
#define IPC_END(name)
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END
};
/* struct ipc_call_submit { uint64_t call; … }; a message without fields has a filler byte */
#define IPC_MSG(name, num, from, to, max) \
	struct ipc_##name {               \
		char unused_;
#define IPC_FIELD(name, type, field, max) IPC_TYPE_##type field;
#define IPC_END(name) \
	}             \
	;
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END

struct ipc_row {
	enum ipc_num num;
	union {
#define IPC_MSG(name, num, from, to, max) struct ipc_##name name;
#define IPC_FIELD(name, type, field, max)
#define IPC_END(name)
#include "messages.def"
#undef IPC_MSG
#undef IPC_FIELD
#undef IPC_END
	} u;
};
/* IPC_ROW(call_cancel, .call = 7) builds a row that lives to the end of the enclosing block. */
#define IPC_ROW(name, ...) \
	(&(struct ipc_row){.num = IPC_NUM_##name, .u.name = {.unused_ = 0, ##__VA_ARGS__}})

/* ---- codec.c ---- */
const char *ipc_name(enum ipc_num num);
/* Encodes into out (cap bytes). -EMSGSIZE past cap or the row's maximum, -EINVAL for a
 * field over its maximum or a direction the table does not have. */
int ipc_encode(const struct ipc_row *row, enum ipc_role from, enum ipc_role to, uint8_t *out,
	       size_t cap, size_t *ret_len);
/* Accepts what ipc_encode writes, and its numbers in any msgpack width: known number, permitted
 * direction, exact arity, no trailing byte. -EBADMSG otherwise. No allocation. */
int ipc_decode(const uint8_t *in, size_t len, enum ipc_role from, enum ipc_role to,
	       struct ipc_row *ret);
/* "name{field=…}" for trace logs; bytes shown as lengths. */
void ipc_format(const struct ipc_row *row, char *out, size_t cap);

/* ---- link.c: one end of a link; owns fd ---- */
struct event;
struct event_base;
struct timeval;
struct link;
struct link_route {
	enum ipc_num num;
	void (*handler)(void *ctx, struct link *l, const struct ipc_row *row);
	uint32_t states; /* bits of link_set_state values in which it may come; 0 = any */
	bool once;
};
struct link_config {
	enum ipc_role self, peer;
	const struct link_route *routes;
	size_t n_routes;
	void *ctx;
	size_t queue_max; /* bytes queued in memory before the link is closed (-ENOBUFS) */
	/* Called once, from the event loop, after the link stopped; free it there or later.
	 * reason: 0 = peer closed, else -errno (-EPROTO: peer broke the rules). */
	void (*on_closed)(void *ctx, struct link *l, int reason);
	/* Called before the handler of a row that carries an fd (peer, watch_counter).
	 * NULL = no control buffer at all, a packet with an fd is a protocol error. */
	void (*on_fd)(void *ctx, struct link *l, int fd);
	/* From the loop, when packets were queued and all are sent now; may be NULL. A sender
	 * that stopped reading upstream because of link_queued goes on here. */
	void (*on_drained)(void *ctx, struct link *l);
};
/* The loop of a process, by epoll alone: libevent's other methods make calls that no filter has,
 * and the first wait would be the end. NULL when there is no descriptor left. What libevent
 * allocates from here on ends the process where memory is out. */
struct event_base *loop_new(void);
/* event_add() for what would wait for ever without the event: fatal() when refused. */
void loop_add(struct event *event, const struct timeval *wait);
void loop_add_ms(struct event *event, uint64_t ms);

/* Takes fd. config and routes must outlive the link. */
struct link *link_new(struct event_base *base, int fd, const struct link_config *config);
void link_free(struct link *l); /* NULL ok; no callback; safe inside a handler of the same link */
/* Sends now or queues. 0, or -errno; past queue_max the link closes (on_closed later) and
 * -ENOBUFS returns. Rows are encoded at once: views may die afterwards. */
int link_send(struct link *l, const struct ipc_row *row);
int link_send_fd(struct link *l, const struct ipc_row *row, int fd); /* fd stays the caller's */
void link_set_state(struct link *l, uint32_t state_bit); /* for route rows; starts as 1 */
size_t link_queued(const struct link *l);
int link_fd(const struct link *l);
/* Handles what has come and was not read yet; before a link is replaced. l may be gone. */
void link_read_out(struct link *l);
/* Tries to send what is queued without the loop; for the last words of a process. */
int link_flush(struct link *l);

/* ---- counters.c: what watch_counter carries, of one box ---- */
struct counters {
	int fd[COUNTERS]; /* enum counter_no; -1: not available */
};
void counters_init(struct counters *c);
/* Takes fd, -1 being none; another one of that number is closed. */
void counters_take(struct counters *c, uint32_t which, int fd);
void counters_close(struct counters *c);

/* ---- fdpass.c: for link.c alone; whole packets, nothing waits ----
 * fdpass_send: fd -1: none passed. fdpass_recv: the packet's length (0 at the end of the link)
 * or -errno; *ret_fd is the caller's, -1 when none came. Without take there is no room for
 * descriptors at all. -EPROTO: a cut packet, or more descriptors than allowed (closed here). One
 * that could not be taken because this process has no place left is none that came. */
int fdpass_send(int sock, const void *p, size_t n, int fd);
ssize_t fdpass_recv(int sock, void *p, size_t cap, bool take, int *ret_fd);

/* ---- wire.c: the msgpack subset (array, unsigned, str, bin); flat reader, no allocation;
 * a failed read (-EBADMSG) leaves the reader unusable ---- */
struct wire_reader {
	const uint8_t *p, *end;
};
int wire_read_array(struct wire_reader *r, uint32_t *ret_n);
int wire_read_u64(struct wire_reader *r, uint64_t max, uint64_t *ret);
int wire_read_str(struct wire_reader *r, size_t max, struct ipc_str *ret);
int wire_read_bin(struct wire_reader *r, size_t max, struct ipc_bin *ret);

/* ---- pack.c: the same subset written, shortest forms; overflow: nothing more is written ---- */
struct wire_writer {
	uint8_t *out;
	size_t cap, len;
	bool overflow;
};
void wire_put_array(struct wire_writer *w, uint32_t n);
void wire_put_u64(struct wire_writer *w, uint64_t v);
void wire_put_str(struct wire_writer *w, const char *s, size_t n);
void wire_put_bin(struct wire_writer *w, const uint8_t *s, size_t n);

#include "guest_stream.h"
#include "tally.h"

#endif
