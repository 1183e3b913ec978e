/* reaper/watch.c: rows of the broker, repeats, nonsense, restarts, the stop. */
#include "reaper_world.h"

#include <sys/stat.h>

#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

/* This reaper dies, and the next one reads the ledger; it has a broker or has none yet. */
static void
reaper_restart(bool broker)
{
	int fd = r.ledger.fd;

	reaper_close();
	ledger_close(&r.ledger);
	memset(&r, 0, sizeof(r));
	assert_int_equal(ledger_open(&r.ledger, fd), 0);
	reaper_open();
	if (!broker)
		r.broker = NULL;
	n_sent = 0;
	watch_recover(&r);
}

static const struct ipc_row *
intend_row(uint64_t box, const char *name, size_t secret_len)
{
	static struct ipc_row row;

	row = *IPC_ROW(watch_intend, .box = box, .name = IPC_STR(name),
		       .end_ns = T0 + 60 * NS_PER_S,
		       .secret = {.data = (const uint8_t *)SECRET, .len = secret_len});
	return &row;
}

static void
test_intent_is_in_the_ledger_before_the_word(void **state)
{
	struct record rec;
	uint32_t cursor = 0, slot;

	(void)state;
	intend(5);
	assert_true(ledger_recover(&r.ledger, &cursor, &slot, &rec));
	assert_int_equal(rec.box, 5);
	assert_int_equal(rec.state, BOX_INTENDED);
	assert_string_equal(rec.name, "bailey-box");
	assert_memory_equal(rec.secret, SECRET, 32);
}

static void
test_intent_that_makes_no_sense_is_refused(void **state)
{
	static const char *const names[] = {"", "a/b", "a b", "../x", "a\n"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		say(intend_row(5, names[i], 32));
		assert_int_equal(only_sent(IPC_NUM_watch_killed)->u.watch_killed.cause,
				 CAUSE_START);
	}
	say(intend_row(0, "bailey-box", 32));
	only_sent(IPC_NUM_watch_killed);
	say(intend_row(5, "bailey-box", 31));
	only_sent(IPC_NUM_watch_killed);
	assert_int_equal(idmap_count(r.boxes), 0);
}

static void
test_repeated_intent(void **state)
{
	(void)state;
	intend(5);
	intend(5);
	assert_int_equal(idmap_count(r.boxes), 1);
	say(intend_row(5, "bailey-other", 32));
	assert_int_equal(only_sent(IPC_NUM_watch_killed)->u.watch_killed.cause, CAUSE_START);
	assert_int_equal(state_of(5), BOX_INTENDED);
}

static void
test_full_ledger_refuses(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 32; i++)
		intend(i);
	say(intend_row(33, "bailey-box", 32));
	assert_int_equal(only_sent(IPC_NUM_watch_killed)->u.watch_killed.cause, CAUSE_START);
	say(IPC_ROW(watch_gone, .box = 7));
	intend(33);
}

static void
test_rows_about_unknown_boxes(void **state)
{
	static const uint64_t boxes[] = {0, 99};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
		say(IPC_ROW(watch_created, .box = boxes[i], .container = IPC_STR(ID), .pid = 1));
		say(IPC_ROW(watch_deadline, .box = boxes[i], .at_ns = 1));
		say(IPC_ROW(watch_kill, .box = boxes[i], .cause = CAUSE_DONE));
		say(IPC_ROW(watch_gone, .box = boxes[i]));
		nothing_sent();
	}
}

static void
test_created_needs_a_container_id(void **state)
{
	static const char *const ids[] = {
		"", "abc", "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
		"../3456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"};

	(void)state;
	intend(5);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		say(IPC_ROW(watch_created, .box = 5, .container = IPC_STR(ids[i]), .pid = 500));
		nothing_sent();
		assert_int_equal(state_of(5), BOX_INTENDED);
	}
	/* and one box is one container */
	created(5);
	say(IPC_ROW(watch_created, .box = 5, .container = IPC_STR(OTHER), .pid = 500));
	nothing_sent();
	assert_int_equal(state_of(5), BOX_CREATED);
}

static void
test_repeated_start_is_answered_again(void **state)
{
	(void)state;
	(void)running_box(5, 500, true);
	started(5, 500, true);
	created(5);
	assert_int_equal(state_of(5), BOX_ARMED);
}

static void
test_kill_with_a_cause_from_nowhere(void **state)
{
	(void)state;
	(void)running_box(5, 500, true);
	say(IPC_ROW(watch_kill, .box = 5, .cause = 4711));
	assert_int_equal(sent[0].row.u.watch_killed.cause, CAUSE_UNUSED);
	n_sent = 0;
}

static void
test_restart_with_the_same_broker(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = T0 + 100 * NS_PER_S));
	reaper_restart(true);
	assert_int_equal(state_of(5), BOX_ARMED);
	/* the broker speaks for its box again within two seconds */
	intend(5);
	started(5, 500, true);
	pass(50 * NS_PER_S);
	assert_int_equal(p->signals, 0);
	/* and the old deadline still stands */
	pass(50 * NS_PER_S);
	assert_int_equal(p->signals, 1);
	n_sent = 0;
}

/* Box 5, whose deadline passed while there was no reaper; the next one is there. */
static struct process *
restarted_past_a_deadline(void)
{
	struct process *p = running_box(5, 500, true);

	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = T0 + 2 * NS_PER_S));
	now_ns += 5 * NS_PER_S;
	reaper_restart(true);
	return p;
}

/* The run ended unheard: the broker says so before the old word counts. */
static void
test_restart_after_a_deadline_that_was_withdrawn(void **state)
{
	struct process *p = restarted_past_a_deadline();

	(void)state;
	pass(NS_PER_S);
	assert_int_equal(p->signals, 0);
	intend(5);
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = 0));
	pass(30 * NS_PER_S);
	assert_int_equal(p->signals, 0);
	n_sent = 0;
}

static void
test_restart_after_a_deadline_that_stands(void **state)
{
	struct process *p = restarted_past_a_deadline();

	(void)state;
	intend(5);
	pass(2 * NS_PER_S - 1);
	assert_int_equal(p->signals, 0);
	pass(1);
	assert_int_equal(p->signals, 1);
	assert_int_equal(sent[0].row.u.watch_killed.cause, CAUSE_DEADLINE);
	n_sent = 0;
}

static void
test_restart_when_nobody_claims_a_box(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	reaper_restart(true);
	pass(2 * NS_PER_S - 1);
	assert_int_equal(p->signals, 0);
	pass(1);
	assert_int_equal(p->signals, 1);
	assert_int_equal(sent[0].row.u.watch_killed.cause, CAUSE_BROKER_GONE);
	n_sent = 0;
}

/* The box ended while no reaper ran: known by its cgroup check failing. */
static void
test_restart_when_the_box_is_gone_already(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	process_die(p);
	reaper_restart(true);
	nothing_sent();
	pass(2 * NS_PER_S);
	pass(200 * NS_PER_MS);
	assert_int_equal(sent[n_sent - 1].row.num, IPC_NUM_order_remove);
	n_sent = 0;
	say(IPC_ROW(watch_gone, .box = 5));
	assert_int_equal(idmap_count(r.boxes), 0);
}

static void
test_restart_takes_up_a_removal(void **state)
{
	(void)state;
	(void)running_box(5, 500, true);
	say(IPC_ROW(watch_kill, .box = 5, .cause = CAUSE_DONE));
	reaper_restart(true);
	pass(0);
	only_sent(IPC_NUM_order_remove); /* and no second watch_killed */
	say(IPC_ROW(watch_gone, .box = 5));
	reaper_restart(true);
	assert_int_equal(idmap_count(r.boxes), 0);
}

int __wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd);
int
__wrap_link_send_fd(struct link *l, const struct ipc_row *row, int fd)
{
	assert_true(fd >= 0);
	return __wrap_link_send(l, row);
}

static int
directory(const char *root, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void
put_at(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

static void
sent_counters(enum ipc_num then)
{
	static const uint32_t which[] = {COUNTER_OOM, COUNTER_PIDS};

	assert_int_equal(n_sent, 3);
	for (size_t i = 0; i < ARRAY_LEN(which); i++) {
		assert_int_equal(sent[i].row.num, IPC_NUM_watch_counter);
		assert_int_equal(sent[i].row.u.watch_counter.box, 5);
		assert_int_equal(sent[i].row.u.watch_counter.which, which[i]);
	}
	assert_int_equal(sent[2].row.num, then);
	n_sent = 0;
}

/* What there is of them, before the word; a later broker gets them too. */
static void
test_counters_go_to_the_broker(void **state)
{
	char root[] = "/tmp/bailey-watch.XXXXXX", command[64];
	struct process *p = process_new(500, true);
	int inner;
	size_t fds;

	(void)state;
	assert_non_null(mkdtemp(root));
	r.proc_fd = directory(root, "proc");
	r.cgroup_fd = directory(root, "cg");
	inner = directory(root, "proc/500");
	put_at(inner, "cgroup", "0::/c\n");
	assert_int_equal(close(inner), 0);
	inner = directory(root, "cg/c");
	put_at(inner, "memory.events", "oom_kill 0\n");
	put_at(inner, "pids.events", "max 0\n");
	assert_int_equal(close(inner), 0);
	fds = test_open_fds();
	intend(5);
	created(5);
	say(IPC_ROW(watch_created, .box = 5, .container = IPC_STR(ID), .pid = 500));
	sent_counters(IPC_NUM_watch_held);
	assert_int_equal(test_open_fds(), fds + 3); /* and the pidfd */
	say(IPC_ROW(watch_stays, .box = 5));
	watch_broker_lost(&r);
	watch_broker_new(&r);
	say(IPC_ROW(watch_claim, .box = 5));
	sent_counters(IPC_NUM_watch_kept);
	process_die(p);
	look();
	assert_int_equal(test_open_fds(), fds);
	n_sent = 0;
	assert_int_equal(close(r.proc_fd), 0);
	assert_int_equal(close(r.cgroup_fd), 0);
	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

static const struct ipc_watch_kept *
claim(uint64_t box)
{
	say(IPC_ROW(watch_claim, .box = box));
	return &only_sent(IPC_NUM_watch_kept)->u.watch_kept;
}

static void
test_a_box_that_stays_is_claimed(void **state)
{
	struct process *p = running_box(5, 500, true), *q = running_box(6, 501, true);
	const struct ipc_watch_kept *m;

	(void)state;
	say(IPC_ROW(watch_stays, .box = 5));
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = T0 + 60 * NS_PER_S));
	nothing_sent();
	r.broker = NULL;
	watch_broker_lost(&r);
	look();
	assert_int_equal(p->signals, 0);
	assert_int_equal(q->signals, 1); /* of single use */
	n_sent = 0;
	pass(7 * NS_PER_S);
	r.broker = BROKER;
	watch_broker_new(&r);
	n_sent = 0;
	m = claim(5);
	assert_int_equal(m->word, KEPT_ALIVE);
	assert_int_equal(m->pid, 500);
	assert_int_equal(m->own_kill, 1);
	assert_int_equal(m->end_ns, T0 + 3600 * NS_PER_S);
	assert_int_equal(m->deadline_ns, T0 + 60 * NS_PER_S);
	assert_memory_equal(m->secret.data, SECRET, 32);
	assert_memory_equal(m->container.data, ID, 64);
	assert_int_equal(claim(6)->word, KEPT_ENDING);
	assert_int_equal(claim(99)->word, KEPT_UNKNOWN);
	pass(20 * NS_PER_S);
	assert_int_equal(p->signals, 0);
	/* its deadline stands through all of it */
	pass(33 * NS_PER_S);
	assert_int_equal(p->signals, 1);
	n_sent = 0;
}

static void
test_a_box_that_nobody_claims_ends(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_stays, .box = 5));
	r.broker = NULL;
	watch_broker_lost(&r);
	pass(4 * NS_PER_S);
	reaper_restart(false);
	pass(8 * NS_PER_S - 1);
	assert_int_equal(p->signals, 0);
	pass(1);
	assert_int_equal(p->signals, 1);
}

static void
test_deadlines_fire_without_a_broker(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_stays, .box = 5));
	say(IPC_ROW(watch_deadline, .box = 5, .at_ns = T0 + 2 * NS_PER_S));
	r.broker = NULL;
	watch_broker_lost(&r);
	pass(2 * NS_PER_S);
	assert_int_equal(p->signals, 1);
	r.broker = BROKER;
	watch_broker_new(&r);
	n_sent = 0;
	assert_int_equal(claim(5)->cause, CAUSE_DEADLINE);
}

static void
test_without_a_supervisor_nothing_stays(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	say(IPC_ROW(watch_stays, .box = 5));
	say(IPC_ROW(watch_stays, .box = 99)); /* it ended meanwhile */
	watch_abandoned(&r);
	look();
	assert_int_equal(p->signals, 1);
	n_sent = 0;
}

static void
test_stop_ends_all_and_refuses_new_ones(void **state)
{
	struct process *p = running_box(5, 500, true);

	(void)state;
	intend(6);
	watch_stop(&r, 1500);
	look();
	assert_int_equal(p->signals, 1);
	n_sent = 0;
	say(intend_row(7, "bailey-box", 32));
	assert_int_equal(only_sent(IPC_NUM_watch_killed)->u.watch_killed.cause, CAUSE_STOPPED);
	say(IPC_ROW(watch_gone, .box = 5));
	assert_int_equal(idle_calls, 0);
	say(IPC_ROW(watch_gone, .box = 6));
	assert_true(idle_calls > 0);
}

static void
test_stop_ends_after_its_grace(void **state)
{
	(void)state;
	intend(6);
	watch_stop(&r, 1500);
	pass(1499 * NS_PER_MS);
	assert_int_equal(idle_calls, 0);
	pass(NS_PER_MS);
	assert_int_equal(idle_calls, 1);
	n_sent = 0;
}

static void
test_stop_without_boxes_or_broker_ends_at_once(void **state)
{
	(void)state;
	watch_stop(&r, 1500);
	assert_int_equal(idle_calls, 1);
	r.stopping = false;
	intend(6);
	r.broker = NULL;
	watch_broker_lost(&r);
	watch_stop(&r, 1500);
	assert_int_equal(idle_calls, 2);
}

static void
test_sweep_candidate_is_answered(void **state)
{
	(void)state;
	assert_int_equal(str_copy(r.facts.boot_id, sizeof(r.facts.boot_id), "boot-now", 8), 0);
	say(IPC_ROW(sweep_candidate, .container = IPC_STR(ID), .boot_id = IPC_STR("boot-old")));
	assert_int_equal(only_sent(IPC_NUM_sweep_verdict)->u.sweep_verdict.dead, 1);
	say(IPC_ROW(sweep_candidate, .container = IPC_STR(ID), .boot_id = IPC_STR("boot-now"),
		    .running = 1));
	assert_int_equal(only_sent(IPC_NUM_sweep_verdict)->u.sweep_verdict.dead, 0);
}

/* Any order of rows a broken broker may send: no crash, no signal outside its boxes. */
static void
test_random_rows(void **state)
{
	uint32_t seed = 20261129;

	(void)state;
	for (uint32_t pid = 501; pid <= 506; pid++)
		(void)process_new(pid, pid % 3 != 0);
	for (int i = 0; i < 20000; i++) {
		uint64_t box = 1 + test_random(&seed) % 6;
		uint32_t pid = test_random(&seed) % 3 == 0 ? 0 : 500 + (uint32_t)box;

		switch (test_random(&seed) % 10) {
		case 8:
			say(IPC_ROW(watch_stays, .box = box));
			break;
		case 9:
			say(IPC_ROW(watch_claim, .box = box));
			watch_broker_lost(&r);
			break;
		case 0:
		case 1:
			say(intend_row(box, "bailey-box", 32));
			break;
		case 2:
		case 3:
			say(IPC_ROW(watch_created, .box = box, .container = IPC_STR(ID),
				    .pid = pid));
			break;
		case 4:
			say(IPC_ROW(watch_deadline, .box = box, .at_ns = now_ns + 3 * NS_PER_S));
			break;
		case 5:
			say(IPC_ROW(watch_kill, .box = box, .cause = test_random(&seed) % 14));
			break;
		case 6:
			say(IPC_ROW(watch_gone, .box = box));
			break;
		default:
			pass(NS_PER_S);
			break;
		}
		n_sent = 0;
		struct process *p = &process[box - 1];
		if (p->dead && i % 5 == 0) { /* the number belongs to another process now */
			char byte;
			assert_int_equal(read(p->pipe[0], &byte, 1), 1);
			p->dead = false;
		}
		if (i % 97 == 0) {
			reaper_restart(true);
			n_sent = 0;
		}
	}
	/* and in the end every box can still be ended */
	now_ns += 7200 * NS_PER_S;
	watch_stop(&r, 1500);
	for (size_t i = 0; i < n_processes; i++)
		if (!process[i].dead)
			process_die(&process[i]); /* those only the engine may end */
	look();
	for (uint64_t box = 1; box <= 6; box++)
		say(IPC_ROW(watch_gone, .box = box));
	assert_int_equal(idmap_count(r.boxes), 0);
	n_sent = 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_intent_is_in_the_ledger_before_the_word),
		T(test_intent_that_makes_no_sense_is_refused),
		T(test_repeated_intent),
		T(test_full_ledger_refuses),
		T(test_rows_about_unknown_boxes),
		T(test_created_needs_a_container_id),
		T(test_repeated_start_is_answered_again),
		T(test_kill_with_a_cause_from_nowhere),
		T(test_restart_with_the_same_broker),
		T(test_restart_after_a_deadline_that_was_withdrawn),
		T(test_restart_after_a_deadline_that_stands),
		T(test_restart_when_nobody_claims_a_box),
		T(test_restart_when_the_box_is_gone_already),
		T(test_restart_takes_up_a_removal),
		T(test_counters_go_to_the_broker),
		T(test_a_box_that_stays_is_claimed),
		T(test_a_box_that_nobody_claims_ends),
		T(test_deadlines_fire_without_a_broker),
		T(test_without_a_supervisor_nothing_stays),
		T(test_stop_ends_all_and_refuses_new_ones),
		T(test_stop_ends_after_its_grace),
		T(test_stop_without_boxes_or_broker_ends_at_once),
		T(test_sweep_candidate_is_answered),
		T(test_random_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
