/*
 * supervisor/serve.h - what a tree serves besides a client on stdio: listeners,
 * the names http is reached by, TLS. Part of supervisor.h, included by it alone.
 */
#ifndef BAILEY_SERVE_H
#define BAILEY_SERVE_H

/* ---- serve.c: the command line ---- */
#define SERVE_HOSTS 8
struct serve {
	bool stdio;                /* one client on 0 and 1, and nothing else */
	const char *socket, *http; /* NULL: none */
	const char *status;        /* its socket; NULL: beside --socket, with .status behind */
	const char *tokens;        /* the token file; with http */
	const char *tls_cert, *tls_key, *tls_listen;
	const char *host[SERVE_HOSTS]; /* names the machine is reached by, through TLS */
	size_t n_hosts;
};
struct arguments {
	struct serve serve;
	bool private_tree, debug, tables, version, help;
};
/* -EINVAL: error holds one line that says what is wrong. */
int serve_parse(int argc, char **argv, struct arguments *ret, char *error, size_t cap);

/* ---- listen.c: the sockets clients come in by, made while there are rights ---- */
struct listen_address {
	struct sockaddr_storage at;
	socklen_t len;
	uint32_t port;
	bool loopback, v6;
};
/* "127.0.0.1:8080", "localhost:0", "[::1]:8080": -EINVAL where it is none of these forms. */
int listen_parse(const char *text, struct listen_address *ret);
/* Each returns the descriptor or -errno; error: one line with what to do. The unix socket is the
 * user's alone (0600); one that a dead tree left is replaced. ret gets the port that was picked. */
int listen_unix(const char *path, char *error, size_t cap);
int listen_http(const char *text, struct listen_address *ret, char *error, size_t cap);
/* Whether somebody could listen there now: 0, -EADDRINUSE or why not. Nothing stays bound. */
int listen_probe(const struct listen_address *a);

/* ---- hosts.c: what an HTTP request may name as Host and as Origin ---- */
struct host_lists {
	char hosts[2049], origins[2049]; /* lower case, comma separated */
};
/* port: of http; tls_port: where stunnel listens, 0 without. -EINVAL for what is no name,
 * -ENAMETOOLONG for too many, with a line in error. */
int hosts_fill(struct host_lists *ret, uint32_t port, const struct serve *serve, uint32_t tls_port,
	       char *error, size_t cap);

/* ---- stunnel.c: TLS in front of the http listener ---- */
/* Checks the files' names and writes stunnel's configuration into a new memfd, or -errno with a
 * line in error. run_as: 0 = stays who it is. */
int stunnel_config(const struct serve *serve, const struct listen_address *backend, uid_t run_as,
		   gid_t run_gid, char *error, size_t cap);
/* Finds the program; -ENOENT with a line in error. */
int stunnel_find(char *ret, size_t cap, char *error, size_t error_cap);
/* Forks the keeper that starts stunnel again and again; takes config. Its process group is its
 * pid, and killing that ends both. ret_told hangs up when the first stunnel has ended. */
int stunnel_start(const char *program, int config, const struct identity *id, pid_t *ret_pid,
		  int *ret_told);
/* Until somebody listens at front: 0; -ECHILD where the first stunnel ended, -ETIMEDOUT. */
int stunnel_await(int told, const struct listen_address *front, uint64_t timeout_ms);

#endif
