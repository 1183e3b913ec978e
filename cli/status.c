/*
 * cli/status.c - `bailey status`: asks a running tree for its status document
 * and prints it, as it came or as text.
 * Runs in: the calling user's terminal.
 * Input: the document of our own daemon; of whatever stands at the path, if
 * somebody names a wrong one: so it is bounded, timed and parsed with care.
 * Owns: nothing.
 */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATUS_SOCKET "/run/bailey/mcp.sock.status"
#define DOCUMENT_MAX ((size_t)512 * 1024)
#define ANSWER_MS 5000
#define SPAN_MAX 320 /* any double, written out */

/* All it says until its end: 0, -ETIMEDOUT, -EMSGSIZE or what read failed with. */
static int
read_all(int fd, struct buf *in)
{
	uint64_t until = clock_now_ms() + ANSWER_MS;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_now_ms();
		uint8_t *room;

		if (now >= until || poll(&p, 1, (int)(until - now)) == 0)
			return -ETIMEDOUT;
		if (buf_reserve(in, 4096, &room) < 0)
			return -EMSGSIZE;
		ssize_t n = read(fd, room, 4096);
		if (n == -1 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0)
			buf_commit(in, (size_t)n);
	}
}

static int
no_status(const char *path, int r)
{
	if (r == -EACCES || r == -EPERM)
		cli_error("%s is not open to this user: only who runs the server, and root, may "
			  "ask for its status",
			  path);
	else if (r == -ENOENT)
		cli_error("there is no %s: no server runs with that socket (bailey serve --socket "
			  "PATH makes PATH.status; --status names another)",
			  path);
	else if (r == -ECONNREFUSED)
		cli_error("%s is left over from a server that has ended; nobody answers there",
			  path);
	else if (r == -ENAMETOOLONG)
		cli_error("%s: the path of a socket has at most 107 bytes", path);
	else if (r == -ETIMEDOUT)
		cli_error("%s does not answer: the server hangs, or this is no status socket",
			  path);
	else
		cli_error("%s: %s", path, strerror(-r));
	return CLI_FAILED;
}

/* The document, which the caller deletes; NULL after a message. */
static cJSON *
fetch(const char *path, struct buf *text)
{
	cleanup_close int fd = bridge_connect(path);

	if (fd < 0) {
		(void)no_status(path, fd);
		return NULL;
	}
	(void)shutdown(fd, SHUT_WR); /* an MCP socket named by mistake then ends at once */
	int r = read_all(fd, text);
	if (r < 0) {
		(void)no_status(path, r);
		return NULL;
	}
	cJSON *doc = cJSON_ParseWithLength((const char *)buf_data(text), buf_len(text));
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(doc, "bailey_status");
	if (cJSON_IsNumber(version) && version->valueint == 1)
		return doc;
	cJSON_Delete(doc);
	if (buf_len(text) == 0)
		cli_error("%s closed the connection without a word: it is no status socket (the "
			  "one beside an MCP socket ends in .status), or its server is not yours",
			  path);
	else
		cli_error("what %s answers is no status: is it the status socket?", path);
	return NULL;
}

/* ---- as text ---- */

static const cJSON *
get(const cJSON *from, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(from, name);
}

static double
number(const cJSON *from, const char *name)
{
	const cJSON *n = get(from, name);

	return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* In room, fit for a terminal. */
static const char *
text(const cJSON *from, const char *name, char room[300])
{
	const cJSON *s = get(from, name);
	const char *said = cJSON_IsString(s) ? s->valuestring : "-";

	return log_escape(room, 300, said, strlen(said));
}

/* "3.2 s", "4 min", "2 h" */
static const char *
span(double ms, char room[SPAN_MAX])
{
	if (ms < 120e3)
		(void)snprintf(room, SPAN_MAX, "%.1f s", ms / 1e3);
	else if (ms < 7200e3)
		(void)snprintf(room, SPAN_MAX, "%.0f min", ms / 60e3);
	else
		(void)snprintf(room, SPAN_MAX, "%.1f h", ms / 3600e3);
	return room;
}

static void
print_event(const char *what, const cJSON *event)
{
	char room[300], ago[SPAN_MAX];

	if (cJSON_IsObject(event))
		printf("    %s: %s (%s ago)\n", what, text(event, "text", room),
		       span(number(event, "ago_ms"), ago));
}

static void
print_processes(const cJSON *doc)
{
	const cJSON *p;
	char room[300], state[300], up[SPAN_MAX];

	puts("processes");
	cJSON_ArrayForEach(p, get(doc, "processes"))
	{
		printf("  %-14s %-9s pid %.0f, up %s, restarts %.0f%s\n", text(p, "name", room),
		       text(p, "state", state), number(p, "pid"), span(number(p, "uptime_ms"), up),
		       number(p, "restarts"),
		       cJSON_IsTrue(get(p, "answered")) ? "" : ", DOES NOT ANSWER");
		print_event("last end", get(p, "last_end"));
		print_event("last error", get(p, "last_error"));
	}
}

static void
print_engine(const cJSON *doc)
{
	const cJSON *e = get(doc, "engine"), *l = get(doc, "load"), *w = get(doc, "watch");
	char room[300], name[300], version[300], span_room[SPAN_MAX];

	if (cJSON_IsObject(e)) {
		printf("engine\n  %s: %s %s\n", text(e, "state", room), text(e, "name", name),
		       text(e, "version", version));
		print_event("last error", get(e, "last_error"));
	}
	if (cJSON_IsObject(l))
		printf("load\n  %.0f calls in flight, %.0f of them paced, %.0f of %.0f queued, "
		       "%.0f "
		       "boxes, %.0f MB of %.0f MB, %.0f owners\n",
		       number(l, "in_flight"), number(l, "paced"), number(l, "queued"),
		       number(l, "queued_max"), number(l, "boxes"),
		       number(l, "memory_bytes") / 1048576, number(l, "memory_max_bytes") / 1048576,
		       number(l, "owners"));
	if (cJSON_IsObject(w))
		printf("watched\n  %.0f boxes, %.0f running, %.0f ending, oldest removal %s\n",
		       number(w, "boxes"), number(w, "armed"), number(w, "ending"),
		       span(number(w, "oldest_removal_ms"), span_room));
}

static void
print_pools(const cJSON *doc)
{
	const cJSON *p;
	char profile[300], class[300];

	puts("pools");
	cJSON_ArrayForEach(p, get(doc, "pools"))
		printf("  %-10s %-7s %.0f of %.0f ready, %.0f starting\n",
		       text(p, "profile", profile), text(p, "box_class", class), number(p, "ready"),
		       number(p, "target"), number(p, "starting"));
}

static void
print_sandboxes(const cJSON *doc)
{
	const cJSON *s;
	char id[300], owner[300], age[SPAN_MAX], idle[SPAN_MAX], left[SPAN_MAX];

	puts("sandboxes");
	cJSON_ArrayForEach(s, get(doc, "sandboxes")) printf(
		"  %s  %s, age %s, idle %s, ends in %s at the latest, %.0f runs%s\n",
		text(s, "sandbox_id", id), text(s, "owner", owner), span(number(s, "age_ms"), age),
		span(number(s, "idle_ms"), idle), span(number(s, "expires_in_ms"), left),
		number(s, "runs"), cJSON_IsTrue(get(s, "keep")) ? ", kept" : "");
	if (number(doc, "sandboxes_left_out") > 0)
		printf("  and %.0f more\n", number(doc, "sandboxes_left_out"));
}

static void
print_text(const cJSON *doc)
{
	const cJSON *c, *connections = get(doc, "connections");
	char room[300];

	printf("bailey %s, %.0f of %.0f connections\n", text(doc, "version", room),
	       number(connections, "open"), number(connections, "max"));
	print_processes(doc);
	print_engine(doc);
	print_pools(doc);
	print_sandboxes(doc);
	puts("counters (those above 0)");
	cJSON_ArrayForEach(c, get(doc, "counters"))
	{
		if (cJSON_IsNumber(c) && c->string != NULL && c->valuedouble > 0)
			printf("  %-20s %.0f\n",
			       log_escape(room, sizeof(room), c->string, strlen(c->string)),
			       c->valuedouble);
	}
}

/* Printed anew: whatever answered at that path, no control byte of it reaches a terminal. */
static void
print_json(const cJSON *doc)
{
	cleanup_free char *text = cJSON_PrintUnformatted(doc);

	if (text != NULL)
		(void)puts(text);
}

int
cmd_status(int argc, char **argv)
{
	cleanup_free char *path = NULL;
	bool json = false, wrong = false;
	struct buf said;

	for (int i = 1; i < argc && !wrong; i++) {
		bool socket = strcmp(argv[i], "--socket") == 0;

		if (strcmp(argv[i], "--json") == 0) {
			json = true;
		} else if ((socket || strcmp(argv[i], "--status") == 0) && i + 1 < argc &&
			   path == NULL) {
			i++;
			path = socket ? xasprintf("%s.status", argv[i]) : xstrdup(argv[i]);
		} else {
			wrong = true;
		}
	}
	if (wrong) {
		cli_error("usage: bailey status [--json] [--socket PATH | --status PATH]");
		return CLI_USAGE;
	}
	buf_init(&said, DOCUMENT_MAX);
	cJSON *doc = fetch(path != NULL ? path : STATUS_SOCKET, &said);
	if (doc != NULL && json)
		print_json(doc);
	else if (doc != NULL)
		print_text(doc);
	bool ok = doc != NULL && fflush(stdout) == 0;
	cJSON_Delete(doc);
	buf_done(&said);
	return ok ? CLI_OK : CLI_FAILED;
}
