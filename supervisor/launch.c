/*
 * supervisor/launch.c - puts a child into the world: links, command line,
 * process, settings, in this order.
 * Runs in: baileyd.
 * Input: trusted.
 * Owns: nothing that outlives the call but what it stores in struct child.
 * All a child has to know is in its sockets before it looks: nothing waits for
 * its "ready".
 */
#include "supervisor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 10

struct words {
	char *word[WORDS_MAX + 1];
	size_t n;
};

static void
words_add(struct words *w, char *word)
{
	if (w->n == WORDS_MAX)
		fatal("too many words for a child");
	w->word[w->n++] = word;
}

/* The directory of the engine's socket. While that is not there, the nearest one above it that
 * is, so that an engine which comes later is found: a broker sees what was bound at its start. */
static char *
engine_dir(const char *dir)
{
	char *at = xstrdup(dir);

	for (;;) {
		cleanup_close int fd = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
		char *slash = strrchr(at, '/');
		if (fd != -1 || slash == NULL || slash == at)
			return at;
		*slash = '\0';
	}
}

static void
words_add_engine(struct words *w, const struct engine_target *engine)
{
	if (engine->kind != ENGINE_UNIX) {
		words_add(w, xstrdup("net=1"));
		return;
	}
	char *dir = engine_dir(engine->dir);
	words_add(w, xasprintf("bind=%s", dir));
	free(dir);
}

/* The command line of a child: what it has to give up, in confine.h's words. */
static void
words_fill(struct words *w, const struct child *c)
{
	const struct tree *t = c->tree;

	words_add(w, xstrdup(children_name(c->id)));
	words_add(w, xasprintf("parent=%d", (int)getpid()));
	if (t->options.debug)
		words_add(w, xstrdup("debug=1"));
	else if ((t->serve.socket != NULL || t->serve.http != NULL) && c->id != CHILD_FRONTEND)
		words_add(w, xstrdup("events=1"));
	if (t->options.confine_log)
		words_add(w, xstrdup("confine=log"));
	bool local = t->engine.kind == ENGINE_UNIX;
	if (c->id == CHILD_BROKER)
		words_add(w, xstrdup(local ? "engine=unix" : "engine=tcp"));
	if (t->identity.switch_ids) {
		words_add(w, xstrdup("uid=1"));
		if (c->id == CHILD_REAPER)
			words_add(w, xstrdup("kill=1"));
		return;
	}
	words_add(w, xstrdup("ns=1"));
	if (c->id == CHILD_BROKER)
		words_add_engine(w, &t->engine);
	if (c->id == CHILD_REAPER) {
		words_add(w, xstrdup("bind=/proc"));
		words_add(w, xstrdup("bind=/sys/fs/cgroup"));
		words_add(w, xstrdup("bindro=1"));
	}
}

/* What outlives the process and is handed to the next one. */
static int
state_of(const struct child *c)
{
	if (c->id == CHILD_REAPER)
		return c->tree->ledger;
	return c->id == CHILD_BROKER ? c->tree->output : -1;
}

static int
spawn(struct child *c, int link_end, int peer)
{
	struct words w = {.n = 0};
	bool frontend = c->id == CHILD_FRONTEND;
	bool accepted = c->client.fd != -1; /* else the client is on our own 0 and 1 */

	words_fill(&w, c);
	const struct spawn_plan plan = {
		.exe = c->tree->exe[c->id],
		.stdio = {accepted   ? c->client.fd
			  : frontend ? FD_IN
				     : -1,
			  accepted   ? c->client.fd
			  : frontend ? FD_OUT
				     : -1},
		.supervisor = link_end,
		.peer = peer,
		.state = state_of(c),
		.argv = w.word,
		.identity = &c->tree->identity,
		.child = c->id,
	};
	int r = spawn_child(&plan, &c->pid);
	for (size_t i = 0; i < w.n; i++)
		free(w.word[i]);
	return r;
}

int
launch(struct child *c)
{
	struct tree *t = c->tree;
	cleanup_close int peer = -1;
	bool http = c->client.kind == CLIENT_HTTP;
	const struct settings_source settings = {
		.options = &t->options,
		.facts = &t->facts,
		.engine = &t->engine,
		.tokens = &t->tokens,
		.client = {.kind = c->client.kind,
			   .hosts = http ? t->lists.hosts : "",
			   .origins = http ? t->lists.origins : ""},
	};
	int pair[2];

	int r = wiring_before_start(c, &peer);
	if (r < 0)
		return r;
	r = fd_seqpacket_pair(pair);
	if (r < 0)
		return r;
	cleanup_close int link_end = pair[1];
	c->link = link_new(t->base, pair[0], &c->link_config);
	c->started_ms = clock_now_ms();
	r = spawn(c, link_end, peer);
	/* Its end must be the end of the connection: only the frontend keeps the socket. */
	cleanup_closep(&c->client.fd);
	c->client.fd = -1;
	if (r == 0)
		r = settings_send(c->link, c->id, &settings);
	/* What follows settings: descriptors for peers that come by message. */
	return r < 0 ? r : wiring_after_start(c);
}
