/*
 * tests/fakes/fake_engine.h - engine.h without an engine: containers in memory,
 * a guest that speaks the stream, and a script for what shall go wrong.
 */
#ifndef BAILEY_FAKE_ENGINE_H
#define BAILEY_FAKE_ENGINE_H

#include "engine.h"

enum fake_op {
	OP_PROBE,
	OP_IMAGE,
	OP_LIST,
	OP_CREATE,
	OP_CHECK,
	OP_START,
	OP_UPDATE,
	OP_KILL,
	OP_REMOVE,
	OP_ATTACH,
	OP_EVENTS,
	OPS,
};

struct fake_container {
	bool used, running, removed;
	char id[65], name[64];
	struct box_spec spec;
	struct attach *attach;
	uint64_t memory_bytes; /* after updates */
	uint32_t cpus_milli;
};

struct fake_guest { /* what guests do by themselves */
	bool hello, ready, pong, exit;
	bool obeys;           /* answers h_end by EXIT */
	bool deaf;            /* does not say that h_run has come */
	uint32_t ready_class; /* UINT32_MAX: the class asked for */
	uint32_t uid;
	const char *out; /* written to stdout before EXIT */
	struct guest_g_exit result;
};

struct fake_engine {
	struct event_base *base;
	int err[OPS]; /* this operation fails with it … */
	int http[OPS];
	const char *message[OPS];
	uint32_t times[OPS]; /* … so many times; 0 = always */
	bool hold[OPS];      /* not answered until fake_release */
	uint32_t calls[OPS], probes_in_flight;
	struct engine_info info;
	char image_id[81];
	struct fake_guest guest;
	struct fake_container box[1024];
	size_t n_boxes;
	uint64_t made;
	struct engine_container *strangers; /* also in the list */
	size_t n_strangers;
	uint32_t live_now, live_most;
	char last_removed[65];
	/* host frames the guests got, by type, and the last run's specification */
	uint32_t host_frames[256];
	uint8_t spec[4096];
	size_t spec_len;
	uint64_t last_ack;
	uint64_t credit[STREAMS];      /* the last one of each stream */
	uint32_t pause_us;             /* of the last h_pace */
	uint32_t last_run;             /* number of the run begun last */
	struct guest_h_hello greeting; /* the last h_hello */
	struct guest_h_sync sync;      /* the last h_sync */
	int send_err;                  /* what attach_send answers */
};
extern struct fake_engine fake;

void fake_reset(struct event_base *base); /* also frees what a test left */
void fake_fail(enum fake_op op, int err, int http, const char *message, uint32_t times);
void fake_release(enum fake_op op);
struct fake_container *fake_box(uint64_t box); /* by our label; NULL */
/* The guest of box sends one frame, or raw bytes; closes its stream; the engine tells. */
void fake_guest_frame(uint64_t box, enum guest_type type, uint8_t stream, uint32_t run,
		      uint64_t seq, const void *payload, size_t len);
void fake_guest_bytes(uint64_t box, int stream, const void *p, size_t n);
void fake_guest_exit(uint64_t box, const struct guest_g_exit *e); /* of the run begun last */
void fake_guest_exit_of(uint64_t box, uint32_t run, const struct guest_g_exit *e);
void fake_guest_out(uint64_t box, uint32_t run, uint8_t stream, const void *p, size_t n);
uint64_t fake_next_seq(uint64_t box);
void fake_die(uint64_t box); /* the container ends; its stream closes */
void fake_event(uint64_t box, enum engine_event_kind kind);
void fake_gap(void);

#endif
