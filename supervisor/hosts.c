/*
 * supervisor/hosts.c - which Host and Origin an HTTP request may name. A page
 * that rebinds its own name to this machine's loopback names neither.
 * Runs in: baileyd at its start.
 * Input: the command line; trusted, checked so that a slip gets a clear answer.
 * Owns: nothing.
 */
#include "supervisor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 253u

/* Port 0: the scheme's own, which browsers leave out. */
static int
add(struct buf *list, const char *scheme, const char *name, uint32_t port)
{
	int r = buf_printf(list, "%s%s%s", buf_len(list) > 0 ? "," : "", scheme, name);

	return r < 0 || port == 0 ? r : buf_printf(list, ":%u", port);
}

struct lists {
	struct buf hosts, origins;
};

static int
add_both(struct lists *l, const char *scheme, const char *name, uint32_t port)
{
	int r = add(&l->hosts, "", name, port);

	return r < 0 ? r : add(&l->origins, scheme, name, port);
}

static void
text_of(char *out, struct buf *b)
{
	if (buf_len(b) > 0)
		memcpy(out, buf_data(b), buf_len(b)); /* at most its maximum */
	out[buf_len(b)] = '\0';
	buf_done(b);
}

/* A host name or address as it stands in a Host header, without its port. */
static bool
name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n > NAME_MAX_BYTES)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && strchr(".-:[]", name[i]) == NULL)
			return false;
	return true;
}

static int
add_all(struct lists *l, uint32_t port, const struct serve *serve, uint32_t tls_port)
{
	static const char *const local[] = {"127.0.0.1", "localhost", "[::1]"};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(local) && r == 0; i++)
		r = add_both(l, "http://", local[i], port);
	for (size_t i = 0; i < ARRAY_LEN(local) && r == 0 && tls_port != 0; i++)
		r = add_both(l, "https://", local[i], tls_port);
	for (size_t i = 0; i < serve->n_hosts && r == 0; i++) {
		char name[NAME_MAX_BYTES + 1] = "";

		for (size_t k = 0; serve->host[i][k] != '\0'; k++)
			name[k] = (char)tolower((unsigned char)serve->host[i][k]);
		r = add_both(l, "https://", name, 0);
		if (r == 0 && tls_port != 0)
			r = add_both(l, "https://", name, tls_port);
	}
	return r;
}

int
hosts_fill(struct host_lists *ret, uint32_t port, const struct serve *serve, uint32_t tls_port,
	   char *error, size_t cap)
{
	struct lists l;

	for (size_t i = 0; i < serve->n_hosts; i++) {
		if (name_ok(serve->host[i]))
			continue;
		(void)snprintf(
			error, cap,
			"--host takes a name as it stands in a URL, such as build.example.org");
		return -EINVAL;
	}
	buf_init(&l.hosts, sizeof(ret->hosts) - 1);
	buf_init(&l.origins, sizeof(ret->origins) - 1);
	int r = add_all(&l, port, serve, tls_port);
	if (r == 0) {
		text_of(ret->hosts, &l.hosts);
		text_of(ret->origins, &l.origins);
		return 0;
	}
	(void)snprintf(error, cap, "--host: too many or too long names");
	buf_done(&l.hosts);
	buf_done(&l.origins);
	return -ENAMETOOLONG;
}
