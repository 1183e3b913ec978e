/*
 * supervisor/serve.c - the command line: what a tree serves, and which words
 * go together.
 * Runs in: baileyd, first thing.
 * Input: argv of the user who starts it.
 * Owns: nothing; strings stay argv's.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TLS_LISTEN "0.0.0.0:8443"

static int
refuse(char *error, size_t cap, const char *line)
{
	(void)snprintf(error, cap, "%s", line); /* cut at worst */
	return -EINVAL;
}

static int
add_host(struct serve *s, const char *name, char *error, size_t cap)
{
	if (s->n_hosts == SERVE_HOSTS)
		return refuse(error, cap, "--host: at most eight names");
	s->host[s->n_hosts++] = name;
	return 0;
}

/* One word and its values: how many of argv it took, 0 for an unknown word, -EINVAL. */
static int
take_word(struct arguments *a, char **argv, int left, char *error, size_t cap)
{
	const struct {
		const char *word;
		bool *flag;
		const char **value[2];
	} words[] = {
		{"--private", &a->private_tree, {NULL}},
		{"--stdio", &a->serve.stdio, {NULL}},
		{"-v", &a->debug, {NULL}},
		{"-T", &a->tables, {NULL}},
		{"--version", &a->version, {NULL}},
		{"--help", &a->help, {NULL}},
		{"-h", &a->help, {NULL}},
		{"--socket", NULL, {&a->serve.socket}},
		{"--http", NULL, {&a->serve.http}},
		{"--status", NULL, {&a->serve.status}},
		{"--tokens", NULL, {&a->serve.tokens}},
		{"--tls", NULL, {&a->serve.tls_cert, &a->serve.tls_key}},
		{"--tls-listen", NULL, {&a->serve.tls_listen}},
	};
	size_t k = 0;
	int taken = 1;

	if (strcmp(argv[0], "--host") == 0 && left > 1) {
		int r = add_host(&a->serve, argv[1], error, cap);
		return r < 0 ? r : 2;
	}
	while (k < ARRAY_LEN(words) && strcmp(argv[0], words[k].word) != 0)
		k++;
	if (k == ARRAY_LEN(words))
		return 0;
	if (words[k].flag != NULL)
		*words[k].flag = true;
	for (size_t v = 0; v < 2 && words[k].value[v] != NULL; v++) {
		if (taken >= left || argv[taken][0] == '\0' || argv[taken][0] == '-') {
			(void)snprintf(error, cap, "%s needs %s", words[k].word,
				       words[k].value[1] != NULL ? "two values" : "a value");
			return -EINVAL;
		}
		*words[k].value[v] = argv[taken++];
	}
	return taken;
}

/* Which words go together. */
static int
check(struct serve *s, char *error, size_t cap)
{
	if (s->stdio && (s->socket != NULL || s->http != NULL))
		return refuse(error, cap,
			      "--stdio serves one client and goes with neither "
			      "--socket nor --http");
	if (s->stdio && s->status != NULL)
		return refuse(error, cap, "--status goes with --socket or --http");
	if (!s->stdio && s->socket == NULL && s->http == NULL)
		return refuse(error, cap,
			      "nothing to serve: --stdio, --socket PATH or --http "
			      "ADDRESS:PORT");
	if (s->http != NULL && s->tokens == NULL)
		return refuse(error, cap,
			      "--http needs --tokens FILE: every user of this machine can reach a "
			      "loopback port, and only a token says who it is");
	if (s->http == NULL && (s->tokens != NULL || s->tls_cert != NULL || s->n_hosts > 0))
		return refuse(error, cap, "--tokens, --tls and --host go with --http");
	if (s->tls_cert == NULL && s->tls_listen != NULL)
		return refuse(error, cap, "--tls-listen goes with --tls CERT KEY");
	if (s->tls_cert != NULL && s->tls_listen == NULL)
		s->tls_listen = TLS_LISTEN;
	return 0;
}

int
serve_parse(int argc, char **argv, struct arguments *ret, char *error, size_t cap)
{
	struct arguments a = {.help = false};

	for (int i = 1; i < argc;) {
		int taken = take_word(&a, argv + i, argc - i, error, cap);
		if (taken < 0)
			return taken;
		if (taken == 0) {
			char shown[256];
			(void)snprintf(error, cap, "unknown argument %s",
				       log_escape(shown, sizeof(shown), argv[i], strlen(argv[i])));
			return -EINVAL;
		}
		i += taken;
	}
	if (!a.version && !a.help && !a.tables) {
		if (!a.private_tree)
			return refuse(error, cap, "--private is missing");
		int r = check(&a.serve, error, cap);
		if (r < 0)
			return r;
	}
	*ret = a;
	return 0;
}
