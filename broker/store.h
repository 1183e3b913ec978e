/*
 * broker/store.h - what runs wrote, kept past their end; who may act for a
 * principal. Part of broker.h, included by it alone.
 */
#ifndef BAILEY_STORE_H
#define BAILEY_STORE_H

struct broker;
struct front;
struct owner;

/* ---- store.c: output in memory that outlives this process ----
 * Everything takes a NULL store (nothing is kept) and STORE_NONE (this run is not). */
#define STORE_NONE UINT32_MAX
#define STORE_KEEP_MS (UINT64_C(10) * 60 * 1000)
struct store;
struct store_end {
	enum run_status status;
	enum end_cause cause;
	uint32_t exit_code, signal;
	uint64_t written[2]; /* stdout, stderr: all the run wrote, as its guest says; 0 unknown */
};
/* Reads back what a former broker kept; runs that went on then ended with it. fd is needed no more
 * afterwards and stays the caller's. -EINVAL: too small. */
int store_open(int fd, struct store **ret);
void store_close(struct store *s);
/* A run begins, now. run_id: 32 hex; sandbox: the same, or "" where the run cannot be found by it.
 * STORE_NONE when every place is taken by runs that go on. The number is good until
 * store_run_end. */
uint32_t store_run_new(struct store *s, const char *run_id, const char *sandbox, uint64_t box,
		       const struct owner *o);
/* A run that a former broker began goes on: STORE_NONE where nothing of it is kept. */
uint32_t store_run_resume(struct store *s, const char *run_id, const struct owner *o);
/* Those of its runs that were not resumed, once each: STORE_NONE when there is none any more. */
uint32_t store_next_lost(struct store *s);
struct store_has {
	uint64_t out, tail; /* bytes of g_out and of g_tail that were put */
};
void store_has(const struct store *s, uint32_t run, uint32_t stream, struct store_has *ret);
/* Payload of g_out, or of g_tail (tail). Streams but 1 and 2 are not kept. Evicts ended runs for
 * room, the oldest of the owner that holds most; without room it keeps less. */
void store_put(struct store *s, uint32_t run, uint32_t stream, const void *p, size_t n, bool tail);
void store_run_end(struct store *s, uint32_t run, const struct store_end *end);
void store_tick(struct store *s, uint64_t now_ms); /* what ended STORE_KEEP_MS ago goes */
/* The run of that id, else the newest run of the sandbox of that id; STORE_NONE: none, or another
 * owner's. Good until the next call that changes the store. */
uint32_t store_find(const struct store *s, const char *id, const struct owner *o);
struct store_facts {
	const char *run_id,
		*sandbox; /* views into the store; "" where it has none of its own name */
	uint64_t box;
	bool ended;
	uint64_t started_ms, ended_ms;
	struct store_end end; /* when ended */
};
void store_facts(const struct store *s, uint32_t run, struct store_facts *ret);
struct store_extent {
	uint64_t written, head, tail; /* kept: [0, head) and [tail, written) */
};
void store_extent(const struct store *s, uint32_t run, uint32_t stream, struct store_extent *ret);
/* Kept bytes at offset, or the next kept ones after it: their place in *ret_at and a view of at
 * least one byte. 0 when there are none. */
size_t store_read(const struct store *s, uint32_t run, uint32_t stream, uint64_t offset,
		  uint64_t *ret_at, const uint8_t **ret_p);

/* ---- logs.c ---- */
void broker_on_log_read(void *ctx, struct link *l, const struct ipc_row *row);

/* ---- auth.c: tokens and sessions of http clients, cancels by tag ---- */
#define TOKENS_WRONG_MAX 3u /* of one link, which then closes */
#define SESSIONS_MAX 64u    /* of one principal */
#define SESSION_IDLE_MS (UINT64_C(30) * 60 * 1000)
struct auth_token {
	char principal[65];
	uint8_t hash[32];
};
#define SESSION_CHARS 48u /* 192 random bits, in hex */
struct auth_session {
	TAILQ_ENTRY(auth_session) entry;
	struct owner *owner;
	char id[SESSION_CHARS + 1];
	uint32_t rev;
	uint64_t used_ms;
};
struct auth {
	struct auth_token *rows, *fresh; /* in force; come since the last tokens_end */
	uint32_t n, n_fresh;
	TAILQ_HEAD(auth_session_list, auth_session) sessions; /* the one idle longest first */
};
void auth_init(struct broker *b);
void auth_done(struct broker *b);
void auth_tick(struct broker *b, uint64_t now_ms); /* idle sessions end */
/* Rows of the supervisor. -EINVAL: malformed or too many. */
int auth_on_token(struct broker *b, const struct ipc_token *m);
int auth_on_tokens_end(struct broker *b, const struct ipc_tokens_end *m);
void broker_on_token_check(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_session_open(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_session_check(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_cancel_tag(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_session_note(void *ctx, struct link *l, const struct ipc_row *row);
void broker_on_ask_answer(void *ctx, struct link *l, const struct ipc_row *row);

#endif
