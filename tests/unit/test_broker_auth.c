/* broker/auth.c: tokens bind a link once, sessions are their principal's, cancels reach only own
 * calls. */
#include "test.h"

#include <event2/event.h>

#include "broker_world.h"

struct answer { /* the newest of each kind */
	uint64_t call;
	uint32_t ok, rev, count;
	char text[65];
};
struct browser { /* a frontend of an http connection */
	struct link *link;
	struct link_config config;
	bool closed;
	struct answer auth, session, relayed;
	uint32_t ended, cancelled;
	uint64_t last_call;
};
static struct browser browser[4];

static void
keep(struct answer *a, uint64_t call, uint32_t ok, const struct ipc_str *text)
{
	a->call = call;
	a->ok = ok;
	a->count++;
	assert_int_equal(str_copy(a->text, sizeof(a->text), text->data, text->len), 0);
}

static void
on_row(void *ctx, struct link *l, const struct ipc_row *row)
{
	struct browser *x = ctx;

	(void)l;
	if (row->num == IPC_NUM_auth_end) {
		keep(&x->auth, row->u.auth_end.call, row->u.auth_end.ok,
		     &row->u.auth_end.principal);
	} else if (row->num == IPC_NUM_session_row) {
		keep(&x->session, row->u.session_row.call, row->u.session_row.ok,
		     &row->u.session_row.session);
		x->session.rev = row->u.session_row.rev;
	} else if (row->num == IPC_NUM_ask_answered) {
		keep(&x->relayed, row->u.ask_answered.data.len, 1, &row->u.ask_answered.id);
	} else if (row->num == IPC_NUM_call_ended) {
		x->ended++;
		x->cancelled += row->u.call_ended.status == RUN_cancelled;
	}
}

static const struct link_route routes[] = {
	{.num = IPC_NUM_auth_end, .handler = on_row},
	{.num = IPC_NUM_session_row, .handler = on_row},
	{.num = IPC_NUM_ask_answered, .handler = on_row},
	{.num = IPC_NUM_call_granted, .handler = on_row},
	{.num = IPC_NUM_call_ended, .handler = on_row},
};

static void
on_closed(void *ctx, struct link *l, int reason)
{
	struct browser *x = ctx;

	(void)l;
	(void)reason;
	x->closed = true;
	link_free(TAKE(x->link));
}

static struct browser *
connect_as(size_t i, enum owner_kind kind, uint64_t owner)
{
	struct browser *x = &browser[i];
	struct ipc_peer peer = {
		.role = IPC_FRONTEND, .peer_id = 100 + i, .owner_kind = kind, .owner = owner};
	int fds[2];

	link_free(TAKE(x->link));
	world_settle();
	*x = (struct browser){.config = {.self = IPC_FRONTEND,
					 .peer = IPC_BROKER,
					 .routes = routes,
					 .n_routes = ARRAY_LEN(routes),
					 .ctx = x,
					 .queue_max = 1u << 20,
					 .on_closed = on_closed}};
	assert_int_equal(fd_seqpacket_pair(fds), 0);
	x->link = link_new(w->base, fds[1], &x->config);
	assert_int_equal(front_open(&w->b, &peer, fds[0]), 0);
	return x;
}

static struct browser *
browse(size_t i)
{
	return connect_as(i, OWNER_TOKEN, 0);
}

static void
say(struct browser *x, const struct ipc_row *row)
{
	assert_int_equal(link_send(x->link, row), 0);
	world_settle();
}

static uint32_t
check_token(struct browser *x, const char *token)
{
	uint32_t before = x->auth.count;

	say(x, IPC_ROW(token_check, .call = before + 1000,
		       .token = {(const uint8_t *)token, strlen(token)}));
	assert_int_equal(x->auth.count, before + 1);
	assert_int_equal(x->auth.call, before + 1000);
	return x->auth.ok;
}

static struct browser *
logged_in(size_t i, const char *token)
{
	struct browser *x = browse(i);

	assert_true(check_token(x, token));
	return x;
}

static void
test_connections_of_one_principal(void **state)
{
	static struct front others[PRINCIPAL_FRONTS_MAX - 1];
	struct browser *x;

	(void)state;
	x = logged_in(0, "ann's token");
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		others[i] = (struct front){.owner = TAILQ_FIRST(&w->b.fronts)->owner};
		TAILQ_INSERT_TAIL(&w->b.fronts, &others[i], entry);
	}
	x = browse(1);
	assert_int_equal(check_token(x, "ann's token"), AUTH_CROWDED);
	assert_string_equal(x->auth.text, "");
	assert_int_equal(check_token(x, "ann's token"), AUTH_CROWDED);
	assert_false(x->closed);
	(void)logged_in(2, "bob's token"); /* there is room for others */
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		TAILQ_REMOVE(&w->b.fronts, &others[i], entry);
	assert_int_equal(check_token(x, "ann's token"), AUTH_BOUND);
}

static void
replace_tokens(const char *const rows[][2], uint32_t n)
{
	uint8_t hash[32];

	for (uint32_t i = 0; i < n; i++) {
		sha256(rows[i][1], strlen(rows[i][1]), hash);
		assert_int_equal(
			auth_on_token(&w->b, &(struct ipc_token){.principal = IPC_STR(rows[i][0]),
								 .hash = {hash, sizeof(hash)}}),
			0);
	}
	assert_int_equal(auth_on_tokens_end(&w->b, &(struct ipc_tokens_end){.count = n}), 0);
	world_settle();
}

/* The file was read again: what a token bound ends with the token, not with its principal. */
static void
test_revoked(void **state)
{
	static const char *const first[][2] = {
		{"ann", "one"}, {"ann", "two"}, {"bob", "three"}, {"cy", "four"}};
	static const char *const then[][2] = {{"ann", "two"}, {"eve", "three"}, {"dan", "five"}};

	(void)state;
	replace_tokens(first, 4);
	struct browser *one = logged_in(0, "one"), *two = logged_in(1, "two"),
		       *three = logged_in(2, "three"), *nobody = browse(3);
	replace_tokens(then, 3);
	assert_true(one->closed);
	assert_int_equal(one->auth.ok, AUTH_REVOKED);
	assert_string_equal(one->auth.text, "");
	assert_false(two->closed);
	assert_int_equal(two->auth.ok, AUTH_BOUND);
	assert_true(three->closed); /* the same token, but it says somebody else now */
	assert_false(nobody->closed);
	assert_int_equal(check_token(nobody, "one"), AUTH_NO);
	assert_int_equal(check_token(nobody, "five"), AUTH_BOUND);
}

static const char *
open_session(struct browser *x, uint32_t rev)
{
	say(x, IPC_ROW(session_open, .call = 7, .rev = rev));
	assert_true(x->session.ok && x->session.call == 7 && x->session.rev == rev);
	assert_int_equal(strlen(x->session.text), 48);
	return x->session.text;
}

static bool
session_good(struct browser *x, const char *id)
{
	say(x, IPC_ROW(session_check, .call = 8, .session = IPC_STR(id)));
	assert_int_equal(x->session.call, 8);
	if (x->session.ok)
		assert_string_equal(x->session.text, id);
	else
		assert_string_equal(x->session.text, "");
	return x->session.ok;
}

static void
add_row(const char *principal, const char *token)
{
	uint8_t hash[32];

	sha256(token, strlen(token), hash);
	assert_int_equal(auth_on_token(&w->b, &(struct ipc_token){.principal = IPC_STR(principal),
								  .hash = {hash, 32}}),
			 0);
}

static int
tokens(uint32_t count)
{
	return auth_on_tokens_end(&w->b, &(struct ipc_tokens_end){.count = count});
}

static int
setup(void **state)
{
	(void)world_setup(state);
	memset(browser, 0, sizeof(browser));
	add_row("ann", "ann's token");
	add_row("bob", "bob's token");
	add_row("ann", "ann's other token");
	assert_int_equal(tokens(3), 0);
	return 0;
}

static int
teardown(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(browser); i++)
		link_free(TAKE(browser[i].link));
	world_settle();
	return world_teardown(state);
}

static void
test_the_first_good_token_binds(void **state)
{
	struct browser *x = browse(0), *y = browse(1);

	(void)state;
	assert_false(check_token(x, "nobody's token"));
	assert_string_equal(x->auth.text, "");
	assert_true(check_token(x, "ann's token"));
	assert_string_equal(x->auth.text, "ann");
	assert_true(check_token(x, "ann's token"));
	assert_true(check_token(x, "ann's other token")); /* the same principal */
	assert_true(check_token(y, "ann's token"));
	struct front *f = TAILQ_FIRST(&w->b.fronts);
	assert_ptr_equal(f->owner, TAILQ_NEXT(f, entry)->owner); /* one owner */
	assert_false(check_token(x, "bob's token"));
	assert_string_equal(x->auth.text, "");
	world_settle();
	assert_true(x->closed);
	assert_false(check_token(y, "ann's tokem")); /* a bound one has no second try */
	world_settle();
	assert_true(y->closed);
}

static void
test_three_wrong_ones_close(void **state)
{
	static const char *const wrong[] = {"", "ann's toke", "ann's token "};
	struct browser *x = browse(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_false(x->closed);
		assert_false(check_token(x, wrong[i]));
	}
	world_settle();
	assert_true(x->closed);
	assert_int_equal(w->b.n_fronts, 0);
}

static void
test_without_a_token_nothing(void **state)
{
	struct browser *x = browse(0);

	(void)state;
	say(x, IPC_ROW(session_open, .call = 1));
	world_settle();
	assert_true(x->closed);
	assert_int_equal(x->session.count, 0);
	x = browse(0);
	say(x, IPC_ROW(log_read, .call = 1, .stream = 1));
	world_settle();
	assert_true(x->closed);
	x = connect_as(0, OWNER_UID, 1000); /* and no token makes another of a user */
	assert_false(check_token(x, "ann's token"));
	world_settle();
	assert_true(x->closed);
}

static void
test_rows_replace_all(void **state)
{
	struct browser *x;
	uint8_t hash[32] = {0};
	struct ipc_token bad[] = {
		{.principal = IPC_STR("")},
		{.principal = IPC_STR("x"), .hash = {hash, 31}},
		{.principal = {"a\0b", 3}, .hash = {hash, 32}},
	};

	(void)state;
	add_row("cid", "cid's token");
	assert_true(check_token(browse(0), "ann's token")); /* not before tokens_end */
	assert_int_equal(tokens(2), -EINVAL);
	assert_int_equal(tokens(1), 0);
	x = logged_in(0, "cid's token");
	assert_string_equal(x->auth.text, "cid");
	assert_false(check_token(browse(1), "ann's token"));
	assert_int_equal(tokens(0), 0); /* nobody */
	assert_false(check_token(browse(1), "cid's token"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(auth_on_token(&w->b, &bad[i]), -EINVAL);
	for (uint32_t i = 0; i < TOKENS_MAX; i++) {
		char token[16];
		(void)snprintf(token, sizeof(token), "t%u", i);
		add_row("many", token);
	}
	assert_int_equal(auth_on_token(&w->b, &(struct ipc_token){.principal = IPC_STR("x"),
								  .hash = {hash, 32}}),
			 -EINVAL);
	assert_int_equal(tokens(TOKENS_MAX), 0);
	assert_true(check_token(browse(1), "t0"));
	assert_true(check_token(browse(1), "t255"));
}

static void
test_sessions(void **state)
{
	struct browser *ann = logged_in(0, "ann's token"), *bob = logged_in(1, "bob's token");
	char first[65], second[65];

	(void)state;
	(void)snprintf(first, sizeof(first), "%s", open_session(ann, 3));
	(void)snprintf(second, sizeof(second), "%s", open_session(ann, 4));
	assert_string_not_equal(first, second);
	assert_true(session_good(ann, first));
	assert_int_equal(ann->session.rev, 3);
	assert_false(session_good(bob, first));
	assert_false(session_good(ann, ""));
	first[47] ^= 1;
	assert_false(session_good(ann, first));
	first[47] ^= 1;
	ann = logged_in(2, "ann's other token"); /* on any connection of hers */
	assert_true(session_good(ann, first));
	say(ann, IPC_ROW(session_check, .call = 9, .session = IPC_STR(first), .close = 1));
	assert_false(ann->session.ok);
	assert_string_equal(ann->session.text, first); /* this one closed it */
	assert_false(session_good(ann, first));
	assert_true(session_good(ann, second));
}

/* The number kept with a session is what its owner last said, on any connection. */
static void
test_session_notes(void **state)
{
	struct browser *ann = logged_in(0, "ann's token"), *bob = logged_in(1, "bob's token");
	char id[65];

	(void)state;
	(void)snprintf(id, sizeof(id), "%s", open_session(ann, 3));
	say(bob, IPC_ROW(session_note, .session = IPC_STR(id), .rev = 9));
	say(ann, IPC_ROW(session_note, .session = IPC_STR("none"), .rev = 9));
	assert_true(session_good(ann, id));
	assert_int_equal(ann->session.rev, 3);
	say(logged_in(2, "ann's other token"),
	    IPC_ROW(session_note, .session = IPC_STR(id), .rev = 0x50003));
	assert_true(session_good(ann, id));
	assert_int_equal(ann->session.rev, 0x50003);
}

static void
test_idle_sessions_end(void **state)
{
	struct browser *ann = logged_in(0, "ann's token");
	char used[65], idle[65];

	(void)state;
	(void)snprintf(used, sizeof(used), "%s", open_session(ann, 1));
	(void)snprintf(idle, sizeof(idle), "%s", open_session(ann, 1));
	world_later(SESSION_IDLE_MS / 2);
	assert_true(session_good(ann, used));
	world_skew_ms += SESSION_IDLE_MS / 2; /* no tick yet */
	assert_false(session_good(ann, idle));
	world_later(1);
	assert_null(TAILQ_NEXT(TAILQ_FIRST(&w->b.auth.sessions), entry));
	assert_true(session_good(ann, used));
	world_later(SESSION_IDLE_MS);
	assert_true(TAILQ_EMPTY(&w->b.auth.sessions));
}

static void
test_the_one_idle_longest_goes(void **state)
{
	struct browser *ann = logged_in(0, "ann's token"), *bob = logged_in(1, "bob's token");
	char bobs[65], first[65], second[65];

	(void)state;
	(void)snprintf(bobs, sizeof(bobs), "%s", open_session(bob, 1));
	(void)snprintf(first, sizeof(first), "%s", open_session(ann, 1));
	(void)snprintf(second, sizeof(second), "%s", open_session(ann, 1));
	for (uint32_t i = 2; i < SESSIONS_MAX; i++)
		(void)open_session(ann, 1);
	assert_true(session_good(ann, first));
	(void)open_session(ann, 1);
	assert_false(session_good(ann, second));
	assert_true(session_good(ann, first));
	assert_true(session_good(bob, bobs)); /* not hers */
}

/* A call that waits: nothing of the engine moves. */
static void
call(struct browser *x, const char *tag)
{
	say(x, IPC_ROW(call_submit, .call = ++x->last_call, .box_class = BOX_SHELL,
		       .tag = IPC_STR(tag)));
}

static void
cancel(struct browser *x, const char *tag)
{
	say(x, IPC_ROW(cancel_tag, .tag = IPC_STR(tag)));
}

static void
test_cancel_by_tag(void **state)
{
	struct browser *ann = logged_in(0, "ann's token"), *other = logged_in(1, "ann's token"),
		       *bob = logged_in(2, "bob's token");

	(void)state;
	fake.hold[OP_CREATE] = true;
	call(ann, "s:1");
	call(ann, "s:11");
	call(ann, "");
	call(bob, "s:1");
	cancel(other, "");
	cancel(other, "s:");
	cancel(other, "s:2");
	assert_int_equal(ann->ended, 0);
	cancel(other, "s:1");
	assert_int_equal(ann->cancelled, 1);
	assert_int_equal(ann->ended, 1);
	assert_int_equal(bob->ended, 0);
	cancel(other, "s:1"); /* late */
	assert_int_equal(ann->ended, 1);
	cancel(bob, "s:1");
	assert_int_equal(bob->cancelled, 1);
}

static void
test_a_closed_session_cancels_its_calls(void **state)
{
	struct browser *ann = logged_in(0, "ann's token"), *other = logged_in(1, "ann's token");
	char id[65], tag[100];

	(void)state;
	fake.hold[OP_CREATE] = true;
	(void)snprintf(id, sizeof(id), "%s", open_session(other, 1));
	(void)snprintf(tag, sizeof(tag), "%s:1", id);
	call(ann, tag);
	(void)snprintf(tag, sizeof(tag), "%s:\"x\"", id);
	call(ann, tag);
	call(ann, ":1");
	say(other, IPC_ROW(session_check, .call = 9, .session = IPC_STR(id), .close = 1));
	assert_int_equal(ann->cancelled, 2);
	assert_int_equal(ann->ended, 2);
}

/* A client's answer reaches its own other connections, nobody else's, and not where it came from.
 */
static void
test_answers_reach_own_connections(void **state)
{
	struct browser *x = logged_in(0, "ann's token"), *y = logged_in(1, "ann's other token"),
		       *bob = logged_in(2, "bob's token"), *stranger = browse(3);
	struct ipc_bin data = {(const uint8_t *)"{}", 2};

	(void)state;
	say(x, IPC_ROW(ask_answer, .id = IPC_STR("s:1"), .data = data));
	assert_int_equal(y->relayed.count, 1);
	assert_int_equal(y->relayed.call, 2);
	assert_string_equal(y->relayed.text, "s:1");
	assert_int_equal(x->relayed.count + bob->relayed.count + stranger->relayed.count, 0);
	say(x, IPC_ROW(ask_answer, .id = IPC_STR(""), .data = data));
	assert_int_equal(y->relayed.count, 1);
	/* before a token there is nobody to relay for */
	say(stranger, IPC_ROW(ask_answer, .id = IPC_STR("s:1"), .data = data));
	assert_true(stranger->closed);
	assert_int_equal(y->relayed.count, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_first_good_token_binds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connections_of_one_principal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_three_wrong_ones_close, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_a_token_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_revoked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows_replace_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sessions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_session_notes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle_sessions_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_one_idle_longest_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancel_by_tag, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_reach_own_connections, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_closed_session_cancels_its_calls, setup,
						teardown),
	};

	log_init("test", LOG_L_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
