/* A session that goes on: SYNC, what comes again, calls that go on, begin anew or are lost. */
#include "test.h"

#include <errno.h>
#include <event2/event.h>

#include "broker_world.h"

static char id[33], run_id[33];
static uint64_t box;

/* A sandbox with one run going on; of its output "first" is acknowledged, "second" is not. */
static uint64_t
begin_run(uint32_t flags)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	world_remember();
	w->b.settings.flags |= SETTINGS_NO_POOL;
	fake.guest.exit = false;
	memcpy(id, stay(c, CALL_KEEP), sizeof(id));
	call = submit_within(c, id, flags, "code");
	assert_true(granted(c, call));
	world_settle();
	box = box_in(BOX_STAYS)->id;
	memcpy(run_id, TAILQ_FIRST(&box_in(BOX_STAYS)->runs)->run_id, sizeof(run_id));
	fake_guest_out(box, 1, STREAM_STDOUT, "first ", 6);
	world_later(1000);
	fake_guest_out(box, 1, STREAM_STDOUT, "second ", 7);
	world_settle();
	return call;
}

static uint64_t
begin(uint32_t flags)
{
	uint64_t call = begin_run(flags);

	world_broker_dies();
	world_settle();
	return call;
}

static void
resume(struct client *c, uint64_t call, uint64_t out)
{
	c->next_call = call;
	(void)link_send(c->link, IPC_ROW(call_resume, .call = call, .run_id = IPC_STR(run_id),
					 .sandbox = IPC_STR(id), .out1 = out, .credit1 = out + 1000,
					 .credit2 = GUEST_WINDOW, .credit3 = GUEST_WINDOW));
	world_settle();
}

static void
answer(uint64_t host_seq, const void *before, size_t n)
{
	struct guest_g_sync_ack m = {.last_host_seq = host_seq};
	uint8_t payload[24];

	memcpy(m.nonce, fake.sync.nonce, sizeof(m.nonce));
	guest_put_g_sync_ack(&m, payload);
	(void)fake_next_seq(box); /* the first was acknowledged */
	fake_guest_bytes(box, 1, before, n);
	fake_guest_frame(box, GUEST_g_sync_ack, 0, 0, 0, payload, sizeof(payload));
}

static void
stands(uint32_t run, uint64_t received, bool ordered)
{
	struct guest_g_stands m = {.received = received, .granted = 500, .ordered = ordered};
	uint8_t payload[24];

	guest_put_g_stands(&m, payload);
	fake_guest_frame(box, GUEST_g_stands, 0, run, 0, payload, sizeof(payload));
}

static void
out(uint64_t seq, const char *text)
{
	fake_guest_frame(box, GUEST_g_out, STREAM_STDOUT, 1, seq, text, strlen(text));
}

static void
goodbye(uint64_t seq)
{
	struct guest_g_exit e = {.how = EXIT_EXITED};
	uint8_t payload[104];

	guest_put_g_exit(&e, payload);
	fake_guest_frame(box, GUEST_g_exit, 0, 1, seq, payload, sizeof(payload));
}

static void
test_a_call_goes_on(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);
	struct store_extent extent;
	const uint8_t *p;
	uint64_t at;
	struct owner *o;

	(void)state;
	assert_int_equal(fake.host_frames[GUEST_h_sync], 0); /* its frontend has not spoken */
	resume(c, call, 9);                                  /* of 13 it has had 9 */
	assert_int_equal(fake.host_frames[GUEST_h_sync], 1);
	assert_int_equal(fake.sync.last_guest_seq, 1);
	assert_string_equal((const char *)fake.sync.secret, "as the ledger has it");
	answer(1, "what was on its way \x44\0\x18\0", 24);
	assert_int_equal(box_in(BOX_STAYS)->id, box);
	stands(1, 77, true);
	world_settle();
	assert_true(seen_of(c, call)->resumed);
	assert_int_equal(seen_of(c, call)->resume.again, 0);
	assert_int_equal(seen_of(c, call)->resume.received, 77);
	assert_int_equal(seen_of(c, call)->resume.granted, 500);
	assert_int_equal(fake.credit[STREAM_STDOUT], 1009);
	out(2, "second "); /* again */
	out(3, "third");
	world_settle();
	assert_string_equal(seen_of(c, call)->out, "ond third"); /* each byte once */
	o = owner_get(&w->b, OWNER_UID, 1, "");
	store_extent(w->b.store, store_find(w->b.store, run_id, o), STREAM_STDOUT, &extent);
	assert_int_equal(extent.written, 18);
	assert_int_equal(store_read(w->b.store, store_find(w->b.store, run_id, o), STREAM_STDOUT, 0,
				    &at, &p),
			 18);
	assert_memory_equal(p, "first second third", 18);
	owner_unref(&w->b, o);
	goodbye(4);
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_ok);
	/* and the next run has a number that was never used */
	(void)submit_within(c, id, 0, "more");
	world_settle();
	assert_int_equal(fake.last_run, 2);
}

/* Whatever is cut off the answer comes with the next bytes. */
static void
test_an_answer_in_pieces(void **state)
{
	struct guest_g_sync_ack m = {.last_host_seq = 1};
	uint8_t payload[24], frame[64];
	size_t n;

	(void)state;
	for (size_t cut = 1; cut < 44; cut += 3) {
		uint64_t call;

		if (cut > 1) {
			assert_int_equal(world_teardown(state), 0);
			assert_int_equal(world_setup(state), 0);
		}
		call = begin(0);
		resume(world_client(0, OWNER_UID, 1), call, 6);
		memcpy(m.nonce, fake.sync.nonce, sizeof(m.nonce));
		guest_put_g_sync_ack(&m, payload);
		n = guest_frame_write(frame, GUEST_g_sync_ack, 0, 0, 0, payload, sizeof(payload));
		fake_guest_bytes(box, 1, m.nonce, 16); /* the nonce alone is no answer */
		fake_guest_bytes(box, 1, frame, cut);
		assert_non_null(box_in(BOX_CLAIMED));
		fake_guest_bytes(box, 1, frame + cut, n - cut);
		assert_non_null(box_in(BOX_STAYS));
		stands(1, 0, true);
		assert_non_null(box_in(BOX_STAYS));
	}
}

static void
test_what_never_began_begins_anew(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	resume(c, call, 6);
	answer(0, "", 0); /* its h_run was the first host frame */
	world_settle();
	assert_true(seen_of(c, call)->resumed);
	assert_int_equal(seen_of(c, call)->resume.again, 1);
	assert_int_equal(idmap_count(w->b.runs), 0);
	/* parts of its specification came all the same: they are thrown away */
	stands(1, 0, false);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 1);
	assert_non_null(box_in(BOX_STAYS));
	(void)submit_within(c, id, 0, "more");
	world_settle();
	assert_int_equal(fake.last_run, 2);
}

/* Its frontend has the word and has sent nothing of its specification. */
static void
test_what_has_the_word_alone_begins_anew(void **state)
{
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t call;

	(void)state;
	world_remember();
	w->b.settings.flags |= SETTINGS_NO_POOL;
	memcpy(id, stay(c, CALL_KEEP), sizeof(id));
	c->auto_run = false;
	call = submit_within(c, id, 0, "");
	assert_true(granted(c, call));
	memcpy(run_id, TAILQ_FIRST(&box_in(BOX_STAYS)->runs)->run_id, sizeof(run_id));
	world_broker_dies();
	world_settle();
	c = world_client(0, OWNER_UID, 1);
	resume(c, call, 0);
	answer(0, "", 0);
	world_settle();
	assert_true(seen_of(c, call)->resumed);
	assert_int_equal(seen_of(c, call)->resume.again, 1);
	assert_non_null(box_in(BOX_STAYS));
}

static void
test_a_frontend_that_does_not_come(void **state)
{
	(void)state;
	(void)begin(0);
	world_later(1500);
	world_settle();
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_sync], 1);
	fake.guest.obeys = false;
	answer(1, "", 0);
	assert_non_null(TAILQ_FIRST(&box_in(BOX_STAYS)->runs)->timer);
	stands(1, 0, true);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 1); /* as at any end of a connection */
	out(2, "second ");
	goodbye(3);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_non_null(box_in(BOX_STAYS));
}

static void
test_a_background_run_goes_on(void **state)
{
	uint64_t call = begin(CALL_BACKGROUND);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	assert_int_equal(fake.host_frames[GUEST_h_sync], 1); /* nobody is waited for */
	answer(1, "", 0);
	stands(1, 0, true);
	out(2, "second ");
	out(3, "third");
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 1);
	assert_true(fake.credit[STREAM_STDOUT] > GUEST_WINDOW);
	/* its call was answered; should the frontend not know, it hears so */
	resume(c, call, 0);
	assert_int_equal(seen_of(c, call)->end.status, RUN_running);
	goodbye(4);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
}

static void
test_a_call_that_comes_meanwhile_waits(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);
	uint64_t more;

	(void)state;
	resume(c, call, 6);
	more = submit_within(c, id, 0, "more");
	world_settle();
	assert_false(seen_of(c, more)->granted);
	answer(1, "", 0);
	assert_true(granted(c, more));
	world_settle();
	assert_int_equal(fake.last_run, 2);
}

static void
test_a_box_that_is_gone(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	resume(c, call, 6);
	fake_die(box); /* tried again, until the reaper or the engine says so */
	assert_non_null(box_in(BOX_CLAIMED));
	reaper_says(IPC_ROW(watch_kept, .box = box, .word = KEPT_ENDING, .cause = CAUSE_DEADLINE));
	world_settle();
	assert_true(seen_of(c, call)->ended);
	assert_null(box_in(BOX_CLAIMED));
	assert_int_equal(TAILQ_FIRST(&w->b.sandboxes.ended)->cause, CAUSE_DEADLINE);
	/* one more that asks for it later */
	(void)link_send(c->link, IPC_ROW(call_resume, .call = call + 1, .run_id = IPC_STR(run_id),
					 .sandbox = IPC_STR(id)));
	assert_true(ended(c, call + 1));
	assert_int_equal(seen_of(c, call + 1)->end.status, RUN_lost);
}

/* Longer silence than a guest bears: that is why it ended, not by itself. */
static void
test_a_silence_is_said(void **state)
{
	struct client *c;
	uint64_t call;

	(void)state;
	(void)begin(0);
	world_later(1000);
	w->reaper.keeps = false;
	world_skew_ms += 9000;
	world_broker_dies();
	reaper_says(IPC_ROW(watch_kept, .box = box, .word = KEPT_UNKNOWN));
	world_settle();
	c = world_client(0, OWNER_UID, 1);
	call = submit_within(c, id, 0, "x");
	assert_true(ended(c, call));
	assert_int_equal(seen_of(c, call)->end.status, RUN_not_found);
	assert_non_null(strstr(seen_of(c, call)->message, "because the broker was silent for 9 s"));
}

/* One broker that stood still. */
static void
test_a_stopped_broker_says_so(void **state)
{
	uint32_t away_s;

	(void)state;
	broker_tick(&w->b);
	assert_int_equal(resume_death(&w->b, &away_s), CAUSE_DIED);
	assert_int_equal(away_s, 0);
	world_skew_ms += 12000;
	assert_int_equal(resume_death(&w->b, &away_s), CAUSE_BROKER_GONE);
	assert_int_equal(away_s, 12);
	broker_tick(&w->b); /* its clock may come before the news */
	assert_int_equal(resume_death(&w->b, &away_s), CAUSE_BROKER_GONE);
	assert_int_equal(away_s, 12);
	for (int i = 0; i < 11; i++) {
		world_skew_ms += 1000;
		broker_tick(&w->b);
	}
	assert_int_equal(resume_death(&w->b, &away_s), CAUSE_DIED);
}

static void
test_lies(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	/* another owner's frontend gets nothing */
	resume(world_client(1, OWNER_UID, 2), call, 6);
	assert_int_equal(seen_of(&w->client[1], call)->end.status, RUN_lost);
	/* counts that cannot be */
	resume(c, call, 5);
	assert_int_equal(seen_of(c, call)->end.status, RUN_lost);
	resume(c, call + 1, (uint64_t)1 << 40);
	assert_int_equal(seen_of(c, call + 1)->end.status, RUN_lost);
	resume(c, call + 1, 6); /* a number twice */
	world_settle();
	assert_true(c->closed);
	/* a guest that has runs nobody began */
	world_later(1500);
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	world_settle();
	answer(1, "", 0);
	stands(9, 0, true);
	assert_null(box_in(BOX_STAYS));
}

static void
test_a_guest_that_says_everything_else(void **state)
{
	static uint8_t noise[65536];

	(void)state;
	(void)begin(CALL_BACKGROUND);
	for (int i = 0; i < 80 && box_in(BOX_CLAIMED); i++)
		fake_guest_bytes(box, 1, noise, sizeof(noise));
	assert_null(box_in(BOX_CLAIMED));
}

static void
cancel_meanwhile(struct client *c, uint64_t call)
{
	fake.guest.obeys = false;
	resume(c, call, 6);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
}

/* Cancelled before its session goes on: its guest is told with a number that follows. */
static void
test_a_call_cancelled_meanwhile(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	cancel_meanwhile(c, call);
	assert_int_equal(seen_of(c, call)->end.status, RUN_cancelled);
	assert_int_equal(fake.host_frames[GUEST_h_end], 0);
	assert_null(TAILQ_FIRST(&box_in(BOX_CLAIMED)->runs)->timer);
	answer(1, "", 0);
	stands(1, 0, true);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 1);
	assert_int_equal(box_in(BOX_STAYS)->session.host_seq, 2);
	assert_non_null(TAILQ_FIRST(&box_in(BOX_STAYS)->runs)->timer);
	out(2, "second ");
	goodbye(3);
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	assert_non_null(box_in(BOX_STAYS));
}

/* A guest that does not say how a withdrawn run stands does not keep it for that. */
static void
test_a_cancelled_run_that_never_stands(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	cancel_meanwhile(c, call);
	answer(1, "", 0);
	world_settle();
	assert_non_null(box_in(BOX_STAYS));
	clock_pass(2100);
	world_settle();
	assert_null(box_in(BOX_STAYS));
	assert_int_equal(w->reaper.last_cause, CAUSE_SILENT);
}

/* What a frontend sends meanwhile reaches no guest; what it grants is not forgotten. */
static void
test_frames_that_come_meanwhile(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);
	struct guest_h_credit more = {.limit = 2000};
	uint8_t payload[8];

	(void)state;
	resume(c, call, 6);
	send_frame(c, call, GUEST_h_stdin, STREAM_STDIN, "x", 1);
	guest_put_h_credit(&more, payload);
	send_frame(c, call, GUEST_h_credit, STREAM_STDOUT, payload, sizeof(payload));
	world_settle();
	assert_false(c->closed);
	assert_int_equal(fake.host_frames[GUEST_h_stdin], 0);
	answer(1, "", 0);
	send_frame(c, call, GUEST_h_credit, STREAM_STDOUT, payload, sizeof(payload));
	world_settle();
	stands(1, 0, true);
	world_settle();
	assert_false(c->closed);
	assert_int_equal(fake.credit[STREAM_STDOUT], 2000);
	more.limit = UINT64_MAX;
	guest_put_h_credit(&more, payload);
	send_frame(c, call, GUEST_h_credit, STREAM_STDOUT, payload, sizeof(payload));
	world_settle();
	assert_true(c->closed);
}

static void
test_an_answer_that_does_not_come(void **state)
{
	uint32_t attached;

	(void)state;
	(void)begin(CALL_BACKGROUND);
	attached = fake.calls[OP_ATTACH];
	assert_int_equal(fake.host_frames[GUEST_h_sync], 1);
	box_event(box_in(BOX_CLAIMED), ON_TIMER); /* too early */
	assert_true(evtimer_pending(box_in(BOX_CLAIMED)->timer, NULL));
	world_skew_ms += 2100;
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	world_settle();
	assert_int_equal(fake.calls[OP_ATTACH], attached + 1);
	assert_int_equal(fake.host_frames[GUEST_h_sync], 2);
	world_skew_ms += 8000; /* for longer than its guest can have waited */
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	world_settle();
	assert_null(box_in(BOX_CLAIMED));
}

static void
test_a_refused_attach_is_tried_after_a_pause(void **state)
{
	uint32_t attached;

	(void)state;
	(void)begin(CALL_BACKGROUND);
	attached = fake.calls[OP_ATTACH];
	fake_fail(OP_ATTACH, -EEXIST, 409, "not now", 0);
	box_event(box_in(BOX_CLAIMED), ON_CLOSED);
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	for (int i = 0; i < 20; i++)
		world_turn();
	assert_int_equal(fake.calls[OP_ATTACH], attached + 1);
	assert_true(evtimer_pending(box_in(BOX_CLAIMED)->timer, NULL));
	fake_fail(OP_ATTACH, 0, 0, NULL, 0);
	box_event(box_in(BOX_CLAIMED), ON_TIMER);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_sync], 2);
	answer(1, "", 0);
	assert_non_null(box_in(BOX_STAYS));
}

/* A second death soon after the first finds what is true by then. */
static void
test_a_second_death(void **state)
{
	uint64_t call = begin(0);
	struct client *c = world_client(0, OWNER_UID, 1);

	(void)state;
	resume(c, call, 6);
	(void)link_send(c->link, IPC_ROW(call_cancel, .call = call));
	assert_true(ended(c, call));
	answer(1, "", 0);
	world_broker_dies();
	assert_true(TAILQ_FIRST(&box_in(BOX_CLAIMED)->runs)->withdrawn);
}

/* Parts that were told to end: their EXIT may come to the next broker, or they stand there again.
 */
static void
test_parts_at_a_second_death(void **state)
{
	uint64_t call = begin(0);

	(void)state;
	fake.guest.obeys = false;
	resume(world_client(0, OWNER_UID, 1), call, 6);
	answer(0, "", 0);
	stands(1, 0, false);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 1);
	world_broker_dies();
	world_settle();
	assert_int_equal(idmap_count(w->b.runs), 0);
	answer(0, "", 0);
	stands(1, 0, false);
	world_settle();
	assert_int_equal(fake.host_frames[GUEST_h_end], 2);
	world_broker_dies();
	world_settle();
	answer(1, "", 0);
	goodbye(2);
	world_broker_dies(); /* before any acknowledgement */
	world_settle();
	assert_int_equal(fake.sync.last_guest_seq, 2);
	answer(1, "", 0);
	assert_non_null(box_in(BOX_STAYS));
}

/* What was read and is not done with comes again, its EXIT too. */
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_call_goes_on),
		T(test_an_answer_in_pieces),
		T(test_what_never_began_begins_anew),
		T(test_what_has_the_word_alone_begins_anew),
		T(test_a_frontend_that_does_not_come),
		T(test_a_background_run_goes_on),
		T(test_a_call_that_comes_meanwhile_waits),
		T(test_a_box_that_is_gone),
		T(test_a_silence_is_said),
		T(test_a_stopped_broker_says_so),
		T(test_a_call_cancelled_meanwhile),
		T(test_a_cancelled_run_that_never_stands),
		T(test_frames_that_come_meanwhile),
		T(test_an_answer_that_does_not_come),
		T(test_a_refused_attach_is_tried_after_a_pause),
		T(test_a_second_death),
		T(test_parts_at_a_second_death),
		T(test_lies),
		T(test_a_guest_that_says_everything_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
