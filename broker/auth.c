/*
 * broker/auth.c - who an http client is: tokens, its sessions, and cancels and
 * answers that come on another of its connections.
 *
 * Runs in: bailey-broker.
 * Input: token rows of the supervisor (trusted); tokens, session ids and tags of
 *        frontends (untrusted).
 * Owns: struct auth. Only hashes of tokens are here.
 *
 * A token is compared with every row, so that the time tells nothing of where or
 * whether one matched. A session is only a name: it belongs to a principal, and
 * every use of it comes on a link that has shown a token of the same one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker.h"

void
auth_init(struct broker *b)
{
	b->auth = (struct auth){.rows = NULL};
	TAILQ_INIT(&b->auth.sessions);
}

static void
session_free(struct broker *b, struct auth_session *s)
{
	TAILQ_REMOVE(&b->auth.sessions, s, entry);
	owner_unref(b, s->owner);
	free(s);
}

void
auth_done(struct broker *b)
{
	struct auth_session *s;

	while ((s = TAILQ_FIRST(&b->auth.sessions)))
		session_free(b, s);
	free(TAKE(b->auth.rows));
	free(TAKE(b->auth.fresh));
	b->auth.n = b->auth.n_fresh = 0;
}

void
auth_tick(struct broker *b, uint64_t now_ms)
{
	struct auth_session *s;

	while ((s = TAILQ_FIRST(&b->auth.sessions)) && now_ms - s->used_ms >= SESSION_IDLE_MS)
		session_free(b, s);
}

/* ---- tokens ---- */

int
auth_on_token(struct broker *b, const struct ipc_token *m)
{
	struct auth *a = &b->auth;
	struct auth_token row = {.principal = ""};

	if (a->n_fresh == TOKENS_MAX || m->principal.len == 0 || m->hash.len != sizeof(row.hash) ||
	    str_copy(row.principal, sizeof(row.principal), m->principal.data, m->principal.len) < 0)
		return -EINVAL;
	memcpy(row.hash, m->hash.data, sizeof(row.hash));
	if (!a->fresh)
		a->fresh = xcalloc(TOKENS_MAX, sizeof(*a->fresh));
	a->fresh[a->n_fresh++] = row;
	return 0;
}

static bool
still_good(const struct auth *a, const struct front *f)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (memcmp(f->token, a->rows[i].hash, sizeof(f->token)) == 0 &&
		    strcmp(f->owner->principal, a->rows[i].principal) == 0)
			return true;
	return false;
}

/* Links bound by a token that is none any more: their frontends hear it and end. */
static void
drop_revoked(struct broker *b)
{
	struct front *f, *next;

	for (f = TAILQ_FIRST(&b->fronts); f; f = next) {
		next = TAILQ_NEXT(f, entry);
		if (!f->owner || f->owner->kind != OWNER_TOKEN || still_good(&b->auth, f))
			continue;
		(void)link_send(f->link,
				IPC_ROW(auth_end, .ok = AUTH_REVOKED, .principal = IPC_STR("")));
		front_drop(f, "its token was revoked");
	}
}

int
auth_on_tokens_end(struct broker *b, const struct ipc_tokens_end *m)
{
	struct auth *a = &b->auth;

	if (m->count != a->n_fresh)
		return -EINVAL;
	free(a->rows);
	a->rows = TAKE(a->fresh);
	a->n = a->n_fresh;
	a->n_fresh = 0;
	drop_revoked(b);
	return 0;
}

/* NULL: no such token. */
static const char *
principal_of(const struct auth *a, const struct ipc_bin *token, uint8_t hash[32])
{
	const char *found = NULL;

	sha256(token->data, token->len, hash);
	for (uint32_t i = 0; i < a->n; i++)
		found = mem_equal_ct(hash, a->rows[i].hash, 32) ? a->rows[i].principal : found;
	return found;
}

void
broker_on_token_check(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_token_check *m = &row->u.token_check;
	struct front *f = ctx;
	uint8_t hash[32];
	const char *principal = principal_of(&f->b->auth, &m->token, hash);
	bool was_bound = front_bound(f);
	int r = principal ? owner_bind(f, principal) : -EACCES;
	enum auth_word word = r == 0 ? AUTH_BOUND : r == -EBUSY ? AUTH_CROWDED : AUTH_NO;

	if (word == AUTH_BOUND && !was_bound)
		memcpy(f->token, hash, sizeof(f->token));
	secret_wipe(hash, sizeof(hash));
	(void)link_send(l, IPC_ROW(auth_end, .call = m->call, .ok = word,
				   .principal = IPC_STR(word == AUTH_BOUND ? principal : "")));
	if (word != AUTH_NO)
		return;
	tally_add(TALLY_auth_refused);
	if (was_bound)
		front_drop(f, "a second token");
	else if (++f->wrong_tokens >= TOKENS_WRONG_MAX)
		front_drop(f, "wrong tokens");
}

/* ---- sessions ---- */

static void
answer_session(struct link *l, uint64_t call, bool ok, const char *id, uint32_t rev)
{
	(void)link_send(l, IPC_ROW(session_row, .call = call, .ok = ok, .session = IPC_STR(id),
				   .rev = rev));
}

/* Room for one more session of an owner: the one idle longest goes. */
static void
make_room(struct broker *b, const struct owner *o)
{
	struct auth_session *s, *longest = NULL;
	uint32_t n = 0;

	TAILQ_FOREACH(s, &b->auth.sessions, entry)
	{
		if (s->owner != o)
			continue;
		longest = longest ? longest : s;
		n++;
	}
	if (n >= SESSIONS_MAX)
		session_free(b, longest);
}

void
broker_on_session_open(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_session_open *m = &row->u.session_open;
	struct front *f = ctx;
	uint8_t id[SESSION_CHARS / 2];

	make_room(f->b, f->owner);
	struct auth_session *s = xcalloc(1, sizeof(*s));
	s->owner = owner_ref(f->owner);
	s->rev = m->rev;
	s->used_ms = clock_now_ms();
	random_bytes(id, sizeof(id));
	hex_encode(s->id, id, sizeof(id));
	TAILQ_INSERT_TAIL(&f->b->auth.sessions, s, entry);
	answer_session(l, m->call, true, s->id, s->rev);
}

static struct auth_session *
session_find(struct broker *b, const struct owner *o, const struct ipc_str *id)
{
	struct auth_session *s, *found = NULL;

	if (id->len != SESSION_CHARS)
		return NULL;
	TAILQ_FOREACH(s, &b->auth.sessions, entry)
	if (s->owner == o && mem_equal_ct(s->id, id->data, SESSION_CHARS))
		found = s;
	return found;
}

/* Cancels the owner's calls whose tag is that text or, with prefix, begins with it. */
static void
cancel_tagged(struct broker *b, const struct owner *o, const char *text, size_t len, bool prefix)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(b->runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		/* Without a front its call has been answered: what goes on is no call. */
		if (r->front && r->owner == o && strncmp(r->tag, text, len) == 0 &&
		    (prefix || r->tag[len] == '\0'))
			run_cancel(r, CAUSE_CANCEL);
	}
}

static void
session_close(struct broker *b, struct auth_session *s)
{
	char start[SESSION_CHARS + 2];

	memcpy(start, s->id, SESSION_CHARS);
	start[SESSION_CHARS] = ':';
	cancel_tagged(b, s->owner, start, SESSION_CHARS + 1, true);
	session_free(b, s);
}

void
broker_on_session_check(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_session_check *m = &row->u.session_check;
	struct front *f = ctx;
	struct broker *b = f->b;
	struct auth_session *s = session_find(b, f->owner, &m->session);
	uint64_t now = clock_now_ms();

	if (!s || now - s->used_ms >= SESSION_IDLE_MS) {
		answer_session(l, m->call, false, "", 0);
		return;
	}
	answer_session(l, m->call, m->close == 0, s->id, s->rev);
	if (m->close) {
		session_close(b, s);
		return;
	}
	s->used_ms = now;
	TAILQ_REMOVE(&b->auth.sessions, s, entry);
	TAILQ_INSERT_TAIL(&b->auth.sessions, s, entry);
}

void
broker_on_session_note(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_session_note *m = &row->u.session_note;
	struct front *f = ctx;
	struct auth_session *s = session_find(f->b, f->owner, &m->session);

	(void)l;
	if (s)
		s->rev = m->rev;
}

void
broker_on_cancel_tag(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_str *tag = &row->u.cancel_tag.tag;
	struct front *f = ctx;

	(void)l;
	if (tag->len > 0) /* calls without a tag are not to be found by it */
		cancel_tagged(f->b, f->owner, tag->data, tag->len, false);
}

/* Which connection asked is not known here; the question's id is known to it alone. */
void
broker_on_ask_answer(void *ctx, struct link *l, const struct ipc_row *row)
{
	const struct ipc_ask_answer *m = &row->u.ask_answer;
	struct front *f = ctx, *other;

	(void)l;
	if (m->id.len == 0)
		return;
	TAILQ_FOREACH(other, &f->b->fronts, entry)
	if (other != f && other->owner == f->owner)
		(void)link_send(other->link, IPC_ROW(ask_answered, .id = m->id, .data = m->data));
}
