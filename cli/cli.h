/*
 * cli/cli.h - the `bailey` command: one function per subcommand.
 * May use base, cJSON, libcurl-free plain sockets; parses replies of our own
 * tree and of the engine, with the caller's own rights.
 */
#ifndef BAILEY_CLI_H
#define BAILEY_CLI_H

#include "base.h"

#include <cjson/cJSON.h>

/* Exit codes beyond a run's own: those of env(1) and timeout(1). */
enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
	CLI_TIMED_OUT = 124,
	CLI_NOT_RUN = 125, /* Bailey could not run it, or does not know how it ended */
};

/* ---- main.c ---- */
struct cli_command {
	const char *name;
	const char *args;
	const char *help;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand */
};

/* ---- error.c ---- */
void cli_error(const char *fmt, ...) PRINTF_LIKE(1, 2); /* "bailey: …" on stderr */

/* ---- help.c ---- */
const char *cli_help(const char *command); /* its page; NULL: no such command */
/* The page argv asks for: the word behind a command, be it one of two words, is --help or -h. */
const char *cli_help_asked(int argc, char **argv);

/* ---- subcommands ---- */
int cmd_mcp(int argc, char **argv);    /* mcp.c */
int cmd_serve(int argc, char **argv);  /* serve.c */
int cmd_status(int argc, char **argv); /* status.c */
int cmd_config(int argc, char **argv); /* config.c */
int cmd_run(int argc, char **argv);    /* run.c */
int cmd_image(int argc, char **argv);  /* image.c */
int cmd_token(int argc, char **argv);  /* token.c */
int cmd_bench(int argc, char **argv);  /* bench.c */

/* ---- token.c ---- */
/* The file tokens are kept in when none is named; -ENOENT without a home directory. */
int token_file_default(char *ret, size_t cap);

/* ---- mcp.c ---- */
/* argv for the private tree's supervisor; NULL with a message when it is not installed. */
char **mcp_server_argv(void);
/* argv of what joins the daemon where one is installed, else of the above. */
char **mcp_client_argv(void);

/* ---- bridge.c ---- */
int bridge_connect(const char *path); /* the descriptor or -errno */
/* Joins in and out to sock until the daemon's end; in's end is told to it. 0, -ECONNRESET when the
 * daemon ended first, else -errno (-EPIPE: out takes no more). */
int bridge_run(int in, int out, int sock);

/* ---- client.c: a blocking MCP client over stdio of a tree it starts ---- */
struct mcp_client {
	pid_t pid;
	int to, from;
	uint64_t next_id;
	struct buf in;
};
struct mcp_timing {           /* CLOCK_MONOTONIC microseconds */
	uint64_t written_us;  /* before the request's write */
	uint64_t first_us;    /* first progress notification; 0 none */
	uint64_t answered_us; /* answer parsed */
};
/* Starts argv with the caller's environment and does the initialize exchange. 0 or -errno. */
int mcp_open(struct mcp_client *c, char **argv);
/* Says so on stderr, for the error of mcp_open. */
void mcp_open_failed(int r);
/* Closes stdin and waits; returns the wait status. */
int mcp_close(struct mcp_client *c);
/* A JSON-RPC message without an id; takes params, which may be NULL. */
cJSON *mcp_message(const char *method, cJSON *params);
int mcp_notify(struct mcp_client *c, const char *method);
/* Sends a request without waiting; params are consumed. Returns its id, 0 on failure. */
uint64_t mcp_send(struct mcp_client *c, const char *method, cJSON *params);
/* Next message of the server, NULL at EOF or after timeout_ms; the caller deletes it. */
cJSON *mcp_next(struct mcp_client *c, int timeout_ms);
/* Reads the next message's line and forgets it; its length. */
int mcp_skip(struct mcp_client *c, size_t *ret_len);
/* tools/call and its whole answer ("result" object, caller deletes); arguments are consumed. NULL
 * with a message on stderr when the server went away or refused. timing may be NULL; progress asks
 * for notifications. */
cJSON *mcp_call(struct mcp_client *c, const char *tool, cJSON *arguments, bool progress,
		struct mcp_timing *timing);
/* A string of structuredContent, "" when absent; a number, missing when absent. */
const char *mcp_result_str(const cJSON *result, const char *key);
double mcp_result_num(const cJSON *result, const char *key, double missing);

/* ---- bench_report.c: figures of one run ---- */
struct series { /* milliseconds */
	double *v;
	size_t n, cap;
	bool sorted;
};
void series_add(struct series *s, double ms);
double series_p(struct series *s, double percent); /* NaN when empty */
void series_done(struct series *s);
struct report_row {
	const char *figure, *unit; /* unit "" = a ratio */
	double value, reach;
	bool at_least; /* reach is a minimum, else a maximum */
	char detail[160];
};
struct report {
	struct report_row rows[24];
	size_t n;
	char machine[512], baseline[256];
};
void report_add(struct report *r, const char *figure, const char *unit, double value, double reach,
		bool at_least, const char *detail, ...) PRINTF_LIKE(7, 8);
void report_machine(struct report *r);
void report_print(const struct report *r, bool json);

/* ---- bench_host.c: the same snippet without a sandbox ---- */
enum bench_lang { BENCH_PYTHON, BENCH_NODE, BENCH_BASH, BENCH_LANGS };
struct bench_snippet {
	const char *language, *interpreter, *file, *code;
};
extern const struct bench_snippet bench_snippets[BENCH_LANGS];
struct host_root {
	char dir[256]; /* the image's root, extracted; "" = the host's own interpreters */
};
/* Needs root for chroot; without it, *h names the host's own and report says so. */
int host_root_open(struct host_root *h, const char *image);
void host_root_close(struct host_root *h);
/* vfork+exec with a clean environment, to exit; times in ms from before the vfork. */
int host_run(const struct host_root *h, enum bench_lang lang, double *ret_exit, double *ret_first);

/* ---- bench_engine.c: the raw engine, by a blocking HTTP client on its unix socket ---- */
/* A request on its own connection; body NULL = none. Returns the status, or -errno; the reply's
 * body goes to reply (may be NULL). */
int raw_request(const char *method, const char *path, const char *body, struct buf *reply);
/* GET whose body is copied to fd as it comes. */
int raw_download(const char *path, int fd);
/* POST that the engine upgrades; the connection after its header, or -errno. */
int raw_upgrade(const char *path, const char *body);
/* {"Id": "…"} of a reply to a create request. */
int raw_create(const char *path, const char *body, char id[65]);
/* create, attach, start, read to the end, wait until it is removed; body is a create body with
 * AutoRemove. ret_ms: from before create to the end of its output; NULL ok. */
int raw_cycle(const char *body, double *ret_ms);
/* exec of argv_json in a running container, to the end of its output. */
int raw_exec(const char *container, const char *argv_json, double *ret_ms);
/* The same with n bytes for its stdin (NULL: none). Adds to ret_ms; ret_out: bytes it wrote, their
 * framing included. */
int raw_exec_io(const char *container, const char *argv_json, const void *in, size_t n,
		size_t *ret_out, double *ret_ms);
/* A long-lived container of the same create body running `sleep`. */
int raw_sleeper(const char *body, char id[65]);
/* The create body a box of Bailey's default profile has, its entry point replaced. */
char *raw_box_body(const char *image, const char *const *entrypoint);

/* ---- bench_after.c: what removes the rest when a bench is interrupted ---- */
/* From here on what is told is removed at the bench's end, whatever ends it. */
int bench_after_start(void);
void bench_after_dir(const char *dir);
void bench_after_container(const char *id);
void bench_after_end(void); /* waits until all of it is gone */

/* ---- parts of the bench in files of their own; each adds its rows to the report ---- */
struct bench_side {
	struct mcp_client *tree;
	const struct host_root *root;
	struct report *report;
	const char *image;
	bool quick;
};
int bench_wait_quiet(struct mcp_client *tree, const char *class); /* bench.c */
/* bench_stays.c: a sandbox, and its end. */
int bench_sandbox(struct mcp_client *tree, char id[33], double *ret_ms);
int bench_sandbox_end(struct mcp_client *tree, const char *id);
int bench_creations(const struct bench_side *s);
int bench_stays(const struct bench_side *s);
int bench_files(const struct bench_side *s);
int bench_clients(const struct bench_side *s);

/* ---- bench_http.c: clients of a tree that serves HTTP ---- */
struct http_tree {
	pid_t pid;
	uint32_t port;
	char dir[64], token[65];
};
int http_tree_open(struct http_tree *t);
void http_tree_close(struct http_tree *t);
struct http_client { /* one connection and one session on it */
	int fd;
	const struct http_tree *tree;
	char session[65];
	struct buf in;
	uint64_t next_id;
};
int http_open(struct http_client *c, const struct http_tree *t);
void http_close(struct http_client *c);
/* arguments are consumed. The answer is waited for by http_wait: the result, which the caller
 * deletes, or NULL after a message. */
int http_send(struct http_client *c, const char *tool, cJSON *arguments);
cJSON *http_wait(struct http_client *c);

#endif
