/* No slot is lost and none is given twice, whatever happens in which order: random acts of clients,
 * guests, engine and reaper, with every count compared to what it counts. BAILEY_SLOTS_SEED repeats
 * a run's acts. */
#include "test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker_world.h"

#define ACTS 10000
#define PHASE 400u /* acts of calm, acts of storm, and so on */
#define CLIENTS 3u

static uint32_t seed;
static uint64_t submitted; /* the step in which a call was made last */
static uint64_t step_now;

static uint32_t
dice(uint32_t n)
{
	return test_random(&seed) % n;
}

static struct client *
connected(size_t i)
{
	static const uint64_t owner[CLIENTS] = {1, 1,
						2}; /* two fronts of one owner, one of another */

	return world_client(i, OWNER_UID, owner[i]);
}

/* ---- picks ---- */

static struct box *
any_box(bool (*fits)(const struct box *x))
{
	uint32_t skip = dice(8);
	struct box *found = NULL;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.boxes, &cursor, &id, &obj)) {
		if (!fits(obj))
			continue;
		found = obj;
		if (!skip--)
			break;
	}
	return found;
}

static bool
is_any(const struct box *x)
{
	return x->container[0] != '\0' && fake_box(x->id);
}

static bool
is_attached(const struct box *x)
{
	return x->attach && x->state >= BOX_STARTED && fake_box(x->id);
}

static struct run *
any_active(void)
{
	uint32_t skip = dice(8);
	struct run *found = NULL;
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	while (idmap_next(w->b.runs, &cursor, &id, &obj)) {
		struct run *r = obj;

		if (r->phase != PHASE_ACTIVE || !r->box || !r->box->attach || !r->number)
			continue;
		found = r;
		if (!skip--)
			break;
	}
	return found;
}

/* The id of a sandbox that some call of c made once; NULL. */
static const char *
any_sandbox(struct client *c)
{
	for (int i = 0; i < 20 && c->next_call; i++) {
		const struct seen *s = &c->seen[1 + dice((uint32_t)c->next_call)];

		if (s->sandbox[0])
			return s->sandbox;
	}
	return NULL;
}

/* ---- acts ---- */

static void
act_submit(struct client *c)
{
	static const uint32_t mb[] = {0, 0, 0, 128, 700, 2048};
	static const uint32_t more[] = {0, 0, CALL_KEEP, CALL_HOLD};
	const char *profile = dice(4) ? "" : "build"; /* once: IPC_STR reads it twice */
	struct ipc_call_submit m = {.box_class = dice(3),
				    .profile = IPC_STR(profile),
				    .flags = dice(6) ? 0 : CALL_LIVE,
				    .memory_bytes = (uint64_t)mb[dice(ARRAY_LEN(mb))] << 20};

	if (dice(6) == 0)
		m.flags = CALL_STAYS | more[dice(ARRAY_LEN(more))];
	else if (dice(2))
		m.spec = (struct ipc_bin){(const uint8_t *)"code", 4};
	(void)submit_with(c, m);
	submitted = step_now;
}

static void
act_within(struct client *c)
{
	static const uint32_t flags[] = {0, 0, CALL_BACKGROUND, CALL_STEP, CALL_TURNS};
	const char *id = any_sandbox(c);

	if (id && dice(4) == 0)
		(void)link_send(c->link, IPC_ROW(sandbox_destroy, .call = ++c->next_call,
						 .sandbox = {id, 32}));
	else if (id)
		(void)submit_within(c, id, flags[dice(ARRAY_LEN(flags))], "code");
}

static void
act_cancel(struct client *c)
{
	if (c->next_call)
		(void)link_send(c->link, IPC_ROW(call_cancel,
						 .call = c->next_call - dice(6) % c->next_call));
}

static void
act_exit(struct client *c)
{
	const struct guest_g_exit ends[] = {{.how = EXIT_EXITED},
					    {.how = EXIT_EXITED, .exit_code = 3},
					    {.how = EXIT_SIGNALED, .signal = 9},
					    {.how = EXIT_NOT_STARTED, .exit_code = EAGAIN}};
	struct run *r = any_active();

	(void)c;
	if (r)
		fake_guest_exit_of(r->box->id, r->number, &ends[dice(ARRAY_LEN(ends))]);
}

static void
act_die(struct client *c)
{
	struct box *x = any_box(is_attached);

	(void)c;
	if (x && dice(5) == 0)
		fake_guest_bytes(x->id, 1, "\xff garbage that is no frame", 24);
	else if (x)
		fake_die(x->id);
}

static void
act_event(struct client *c)
{
	struct box *x = any_box(is_any);

	(void)c;
	if (dice(8) == 0)
		fake_gap();
	else if (x && dice(2))
		fake_event(x->id, ENGINE_EV_OOM);
	else if (x) {
		fake_die(x->id);
		fake_event(x->id, ENGINE_EV_DESTROY);
	}
}

static void
act_time(struct client *c)
{
	static const uint32_t ms[] = {200, 1000, 1000, 3000, 6000, 16000};

	(void)c;
	if (!w->reaper.link)
		reaper_connect(); /* the supervisor does not let it be away for long */
	world_skew_ms += ms[dice(ARRAY_LEN(ms))];
	broker_tick(&w->b);
}

static void
act_fault(struct client *c)
{
	static const enum fake_op ops[] = {OP_PROBE, OP_IMAGE,  OP_LIST, OP_CREATE, OP_CHECK,
					   OP_START, OP_UPDATE, OP_KILL, OP_REMOVE, OP_ATTACH};
	static const struct {
		int err, http;
	} how[] = {{-EIO, 500},      {-ENOENT, 404}, {-EIO, 409},
		   {-ECONNRESET, 0}, {-ENOTCONN, 0}, {-ETIMEDOUT, 0}};
	uint32_t k = dice(ARRAY_LEN(how));

	(void)c;
	fake_fail(ops[dice(ARRAY_LEN(ops))], how[k].err, how[k].http, "as it happens", 1 + dice(3));
}

static void
act_hold(struct client *c)
{
	enum fake_op op = (enum fake_op)dice(OPS);

	(void)c;
	if (op != OP_EVENTS && dice(3) == 0)
		fake.hold[op] = true;
	else
		for (int i = 0; i < OPS; i++)
			fake_release((enum fake_op)i);
}

static void
act_reaper(struct client *c)
{
	struct scripted_reaper *r = &w->reaper;
	struct box *x = any_box(is_any);
	bool *const words[] = {&r->kill, &r->figures, &r->autoremove, &r->remove};
	uint32_t k = dice(8);

	(void)c;
	if (k < ARRAY_LEN(words))
		*words[k] = !*words[k];
	switch (k) {
	case 4:
		link_free(TAKE(r->link));
		break;
	case 5:
		if (x && r->link) {
			fake_die(x->id);
			reaper_says(IPC_ROW(watch_killed, .box = x->id, .cause = CAUSE_DEADLINE));
		}
		break;
	case 6:
		if (x && r->link)
			reaper_says(IPC_ROW(order_remove, .box = x->id,
					    .container = IPC_STR(x->container),
					    .name = IPC_STR("")));
		break;
	case 7:
		r->kill = r->figures = r->autoremove = r->remove = true;
		reaper_connect();
	}
}

static void
act_guest(struct client *c)
{
	static int number;

	(void)c;
	switch (dice(6)) {
	case 4:
		(void)snprintf(fake.image_id, sizeof(fake.image_id), "sha256:%064d",
			       ++number % 1000);
		break;
	case 0:
		fake.guest.pong = !fake.guest.pong;
		break;
	case 1:
		fake.guest.hello = !fake.guest.hello;
		break;
	case 2:
		fake.guest.obeys = !fake.guest.obeys;
		break;
	case 3:
		fake.send_err = fake.send_err ? 0 : -EPIPE;
		break;
	default:
		fake.guest.pong = fake.guest.hello = fake.guest.obeys = true;
		fake.send_err = 0;
		break;
	}
}

static void
act_leave(struct client *c)
{
	size_t i = (size_t)(c - w->client);

	world_hang_up(c);
	world_turn();
	(void)connected(i);
}

static const struct {
	void (*act)(struct client *c);
	uint32_t calm, storm; /* how often */
} acts[] = {{act_submit, 225, 320}, {act_within, 160, 160}, {act_cancel, 60, 90},
	    {act_exit, 320, 220},   {act_die, 12, 25},      {act_event, 5, 15},
	    {act_time, 60, 60},     {act_fault, 0, 25},     {act_hold, 0, 30},
	    {act_reaper, 0, 25},    {act_guest, 0, 16},     {act_leave, 4, 8}};

static void
random_act(bool storm)
{
	uint32_t sum = 0, k;
	size_t who = dice(CLIENTS), i;
	struct client *c = &w->client[who];

	for (i = 0; i < ARRAY_LEN(acts); i++)
		sum += storm ? acts[i].storm : acts[i].calm;
	k = dice(sum);
	for (i = 0; k >= (storm ? acts[i].storm : acts[i].calm); i++)
		k -= storm ? acts[i].storm : acts[i].calm;
	if (c->link && c->next_call > 4000)
		world_hang_up(c);
	if (!c->link)
		c = connected(who); /* it left, or was dropped for what it sent */
	acts[i].act(c);
}

/* ---- hand-outs ---- */

static uint64_t ready[POOL_CAP * 4]; /* numbers of the boxes that wait */
static size_t n_ready, handed_out;
static char image_before[81]; /* the engine's word on it may come in the same step */

static void
note_ready(void)
{
	size_t cursor = 0;
	uint64_t id;
	void *obj;

	memcpy(image_before, w->b.probe.image_id, sizeof(image_before));
	n_ready = 0;
	while (idmap_next(w->b.boxes, &cursor, &id, &obj))
		if (((struct box *)obj)->pooled == POOL_READY && n_ready < ARRAY_LEN(ready))
			ready[n_ready++] = id;
}

/* After a step in which nothing but a call came: what it took from the pool was fit for it. */
static void
check_taken(void)
{
	for (size_t i = 0; i < n_ready; i++) {
		const struct box *x = box_find(&w->b, ready[i]);
		const struct fake_container *c = fake_box(ready[i]);

		if (!x || x->pooled == POOL_READY || TAILQ_EMPTY(&x->runs))
			continue;
		handed_out++;
		assert_true(c && c->running && !c->removed);
		assert_true(strcmp(x->spec->image, image_before) == 0 ||
			    strcmp(x->spec->image, w->b.probe.image_id) == 0);
		assert_true(clock_now_ms() - x->session.pong_ms < 5000 + 1000);
		assert_true(x->session.last_run <= 1);
	}
}

/* ---- the end ---- */

static void
heal(void)
{
	memset(fake.err, 0, sizeof(fake.err));
	for (int i = 0; i < OPS; i++)
		fake_release((enum fake_op)i);
	fake.send_err = 0;
	fake.guest.pong = fake.guest.hello = fake.guest.obeys = true;
	w->reaper.kill = w->reaper.figures = w->reaper.autoremove = w->reaper.remove = true;
	reaper_connect();
}

/* What was told to end needs moments for it. */
static void
wait_for_ends(void)
{
	for (int i = 0; i < 100 && boxes_in(BOX_ENDING) + boxes_in(BOX_REMOVING) > 0; i++) {
		clock_pass(10);
		world_turn();
	}
}

static void
nothing_left(void)
{
	const struct broker *b = &w->b;

	assert_int_equal(idmap_count(b->boxes), 0);
	assert_int_equal(idmap_count(b->runs), 0);
	assert_int_equal(b->memory_bytes, 0);
	assert_int_equal(b->in_flight + b->starting + b->queued, 0);
	assert_int_equal(b->sandboxes.memory_bytes + b->sandboxes.creating_bytes, 0);
	assert_true(TAILQ_EMPTY(&b->sandboxes.live) && TAILQ_EMPTY(&b->sandboxes.ended));
	assert_true(TAILQ_EMPTY(&b->owners));
	for (size_t i = 0; i < ARRAY_LEN(b->cpu_boxes); i++)
		assert_int_equal(b->cpu_boxes[i], 0);
	assert_int_equal(fake.live_now, 0); /* nor any container */
}

static void
test_no_slot_is_lost(void **state)
{
	const char *given = getenv("BAILEY_SLOTS_SEED");

	(void)state;
	seed = given ? (uint32_t)strtoul(given, NULL, 10) : 20261129;
	fake.guest.exit = false;
	w->b.memory_max_bytes = UINT64_C(12) << 30;
	w->b.owner_memory_max_bytes = UINT64_C(5) << 30;
	for (size_t i = 0; i < CLIENTS; i++)
		(void)connected(i);
	for (step_now = 1; step_now <= ACTS; step_now++) {
		if (step_now % (2 * PHASE) == 0) {
			heal();
			wait_for_ends();
		}
		note_ready();
		random_act(step_now / PHASE % 2);
		world_turn();
		if (submitted == step_now)
			check_taken();
		if (dice(2))
			world_turn();
		world_check_counts();
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		for (uint64_t call = 1; call <= w->client[i].next_call; call++)
			assert_true(w->client[i].seen[call].ends <= 1 &&
				    w->client[i].seen[call].grants <= 1);
		world_hang_up(&w->client[i]);
	}
	heal();
	w->b.settings.flags |= SETTINGS_NO_POOL;
	world_settle();
	pool_drain(&w->b, CAUSE_UNUSED);
	world_later(UINT64_C(3700) * 1000); /* sandboxes that were to be kept */
	for (int i = 0; i < 150 && idmap_count(w->b.boxes); i++) {
		clock_pass(50);
		world_later(1000);
	}
	world_later(UINT64_C(700) * 1000); /* and the memory of them */
	nothing_left();
	print_message("%zu boxes of the pool handed out, %" PRIu64 " containers made\n", handed_out,
		      fake.made);
	assert_true(handed_out > 50);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_slot_is_lost, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
