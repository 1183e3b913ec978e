/*
 * supervisor/status.c - the status socket: who may ask, what broker and reaper
 * answer, and the document that goes out.
 * Runs in: baileyd, under its filter.
 * Input: connections, from which nothing is ever read; rows of broker and reaper.
 * Owns: the listening descriptor, the askers, the question under way.
 *
 * The socket is the tree's user's alone (0600), and the kernel's word is asked
 * once more: root and that user get the document, anybody else the end of the
 * connection. All who ask while a question is under way get its one answer. A
 * child that does not answer within a second is shown as such.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/event.h>

#define ASKERS_MAX 8u
#define ANSWER_MS 1000u
#define PAUSE_MS 100u /* between two looks for a free place or descriptor */
#define WRITE_S 5     /* how long an asker may take to read */

struct asker {
	struct status *owner;
	struct bufferevent *out; /* NULL: a free place */
	bool served;             /* the document is on its way */
};
struct status {
	struct tree *tree;
	int fd;
	uid_t uid;
	struct event *readable, *timer, *again;
	struct asker askers[ASKERS_MAX];
	uint32_t query;
	bool open; /* a question is under way */
	bool waits[CHILD_SINGLES];
	struct findings found;
};

/* ---- what the children tell ---- */

static struct known *
known_of(const struct child *c)
{
	return &c->tree->known[c->id];
}

void
supervisor_on_tally(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_tally *m = &row->u.tally;
	struct known *k = known_of(ctx);

	(void)l;
	if (m->which < TALLY_COUNT && m->value > k->seen[m->which])
		k->seen[m->which] = m->value;
}

static void
take_text(char *to, size_t cap, const struct ipc_str *s)
{
	if (str_copy(to, cap, s->data, s->len) < 0)
		to[0] = '\0';
}

void
supervisor_on_trouble(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_trouble *m = &row->u.trouble;
	struct known *k = known_of(ctx);
	uint64_t now = clock_now_ms();

	(void)l;
	take_text(k->trouble, sizeof(k->trouble), &m->text);
	k->trouble_ms = m->ago_ms < now ? now - m->ago_ms : 0;
}

/* What this answer goes into; NULL: the question is over. */
static struct findings *
found_by(const struct child *c, uint32_t query)
{
	struct status *s = c->tree->status;

	return s != NULL && s->open && s->query == query && s->waits[c->id] ? &s->found : NULL;
}

void
supervisor_on_status_engine(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_status_engine *m = &row->u.status_engine;
	struct findings *f = found_by(ctx, m->query);

	(void)l;
	if (f == NULL)
		return;
	f->have_engine = true;
	f->engine_state = m->state;
	take_text(f->engine_name, sizeof(f->engine_name), &m->name);
	take_text(f->engine_version, sizeof(f->engine_version), &m->version);
	take_text(f->engine_error, sizeof(f->engine_error), &m->last_error);
	f->engine_error_ago_ms = m->error_ago_ms;
}

void
supervisor_on_status_pool(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_status_pool *m = &row->u.status_pool;
	struct findings *f = found_by(ctx, m->query);

	(void)l;
	if (f == NULL || f->n_pools == STATUS_POOLS_MAX)
		return;
	struct pool_fact *p = &f->pools[f->n_pools++];
	*p = (struct pool_fact){.box_class = m->box_class,
				.target = m->target,
				.ready = m->ready,
				.starting = m->starting};
	take_text(p->profile, sizeof(p->profile), &m->profile);
}

void
supervisor_on_status_load(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct findings *f = found_by(ctx, row->u.status_load.query);

	(void)l;
	if (f == NULL)
		return;
	f->have_load = true;
	f->load = row->u.status_load;
}

void
supervisor_on_status_lease(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_status_lease *m = &row->u.status_lease;
	struct findings *f = found_by(ctx, m->query);

	(void)l;
	if (f == NULL || f->n_leases == STATUS_LEASES_MAX)
		return;
	struct lease_fact *x = &f->leases[f->n_leases++];
	*x = (struct lease_fact){.owner_kind = m->owner_kind,
				 .keep = m->keep,
				 .runs = m->runs,
				 .owner = m->owner,
				 .age_ms = m->age_ms,
				 .idle_ms = m->idle_ms,
				 .idle_limit_ms = m->idle_limit_ms,
				 .ttl_ms = m->ttl_ms,
				 .memory_bytes = m->memory_bytes};
	take_text(x->sandbox, sizeof(x->sandbox), &m->sandbox);
	take_text(x->principal, sizeof(x->principal), &m->principal);
	take_text(x->profile, sizeof(x->profile), &m->profile);
}

void
supervisor_on_status_watch(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct findings *f = found_by(ctx, row->u.status_watch.query);

	(void)l;
	if (f == NULL)
		return;
	f->have_watch = true;
	f->watch = row->u.status_watch;
}

/* ---- the answer ---- */

static void
dismiss(struct asker *a)
{
	bufferevent_free(a->out); /* closes */
	*a = (struct asker){.owner = a->owner};
}

static void
on_written(struct bufferevent *out, void *ctx)
{
	struct asker *a = ctx;

	(void)out;
	if (a->served)
		dismiss(a);
}

static void
on_trouble(struct bufferevent *out, short what, void *ctx)
{
	(void)out;
	(void)what;
	dismiss(ctx); /* it is gone, or does not read */
}

static void
answer_all(struct status *s)
{
	const struct timeval most = {.tv_sec = WRITE_S};
	struct buf text;

	s->open = false;
	(void)event_del(s->timer);
	buf_init(&text, DOCUMENT_MAX);
	document_write(&text, s->tree, &s->found);
	for (size_t i = 0; i < ASKERS_MAX; i++) {
		struct asker *a = &s->askers[i];

		if (a->out == NULL || a->served)
			continue;
		a->served = true;
		bufferevent_set_timeouts(a->out, NULL, &most);
		if (bufferevent_write(a->out, buf_data(&text), buf_len(&text)) == -1)
			dismiss(a);
	}
	buf_done(&text);
}

static void
no_longer_waited_for(struct status *s, enum child_id id)
{
	s->waits[id] = false;
	for (size_t i = 0; i < CHILD_SINGLES; i++)
		if (s->waits[i])
			return;
	answer_all(s);
}

void
supervisor_on_status_end(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_status_end *m = &row->u.status_end;
	const struct child *c = ctx;
	struct findings *f = found_by(c, m->query);

	(void)l;
	if (f == NULL)
		return;
	f->answered[c->id] = true;
	f->left_out += m->left_out;
	no_longer_waited_for(c->tree->status, c->id);
}

void
status_child_ended(struct child *c)
{
	struct known *k = known_of(c);
	struct status *s = c->tree->status;

	for (size_t i = 0; i < TALLY_COUNT; i++)
		k->sum[i] += k->seen[i];
	memset(k->seen, 0, sizeof(k->seen));
	if (s != NULL && s->open && s->waits[c->id])
		no_longer_waited_for(s, c->id);
}

/* ---- the question ---- */

static void
on_timer(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	answer_all(arg);
}

static void
ask(struct status *s)
{
	if (s->open)
		return;
	memset(&s->found, 0, sizeof(s->found));
	s->query++;
	s->open = true;
	bool any = false;
	for (size_t i = 0; i < CHILD_SINGLES; i++) {
		const struct child *c = &s->tree->child[i];
		s->waits[i] = c->state == CHILD_READY && c->link != NULL &&
			      link_send(c->link, IPC_ROW(status_ask, .query = s->query)) == 0;
		any = any || s->waits[i];
	}
	if (!any)
		answer_all(s);
	else
		loop_add_ms(s->timer, ANSWER_MS);
}

static bool
may_ask(const struct status *s, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && len == sizeof(who) &&
	       (who.uid == 0 || who.uid == s->uid);
}

static struct asker *
free_place(struct status *s)
{
	for (size_t i = 0; i < ASKERS_MAX; i++)
		if (s->askers[i].out == NULL)
			return &s->askers[i];
	return NULL;
}

static void
on_again(int fd, short what, void *arg)
{
	struct status *s = arg;

	(void)fd;
	(void)what;
	loop_add(s->readable, NULL);
}

static void
pause_asking(struct status *s)
{
	(void)event_del(s->readable);
	loop_add_ms(s->again, PAUSE_MS);
}

static void
on_asked(int listener, short what, void *arg)
{
	struct status *s = arg;
	struct asker *a = free_place(s);
	cleanup_close int fd = -1;

	(void)what;
	if (a == NULL) {
		pause_asking(s); /* they wait: turned away, they would take us for somebody else */
		return;
	}
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd == -1) {
		/* The asker still waits, and would be told of at once. */
		if (accept_is_shortage(errno))
			pause_asking(s);
		return;
	}
	tally_add(TALLY_status_asked);
	if (!may_ask(s, fd)) {
		tally_add(TALLY_status_refused);
		return;
	}
	a->owner = s;
	a->out = bufferevent_socket_new(s->tree->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (a->out == NULL)
		return;
	(void)TAKE_FD(fd);
	bufferevent_setcb(a->out, NULL, on_written, on_trouble, a);
	ask(s);
}

struct status *
status_new(struct tree *t, int fd, uid_t uid)
{
	struct status *s = xcalloc(1, sizeof(*s));

	s->tree = t;
	s->fd = fd;
	s->uid = uid;
	s->timer = event_new(t->base, -1, 0, on_timer, s);
	s->readable = event_new(t->base, fd, EV_READ | EV_PERSIST, on_asked, s);
	s->again = event_new(t->base, -1, 0, on_again, s);
	if (s->timer == NULL || s->again == NULL || s->readable == NULL ||
	    event_add(s->readable, NULL) == -1)
		fatal("no event for the status socket");
	return s;
}

void
status_free(struct status *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < ASKERS_MAX; i++)
		if (s->askers[i].out != NULL)
			dismiss(&s->askers[i]);
	event_free(s->timer);
	event_free(s->again);
	event_free(s->readable);
	cleanup_closep(&s->fd);
	free(s);
}
