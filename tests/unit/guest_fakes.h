/*
 * tests/unit/guest_fakes.h - main.c's part for tests of guest/, and a guest with
 * pipes in the place of a container's streams.
 */
#ifndef BAILEY_GUEST_FAKES_H
#define BAILEY_GUEST_FAKES_H

#include <signal.h>

#include "guest.h"

void
guest_end(enum guest_end_code code)
{
	_exit((int)code); /* tests that expect it run in a child */
}

int
guest_on_h_hello(struct guest *g, const struct guest_h_hello *hello)
{
	g->hello = *hello;
	memcpy(g->stream.secret, hello->secret, sizeof(g->stream.secret));
	g->stream.session = SESSION_OPEN;
	return 0;
}

struct fake {
	struct guest g;
	struct launch launch;
	int host_in, host_out;           /* the host's ends: write to, read from */
	int run_stdin, run_out, run_err; /* the run's ends */
};

static inline void
fake_pipe(int fds[2])
{
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
}

static inline struct fake *
fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));
	int in[2];
	int out[2];
	int feed[2];
	int first[2];
	int second[2];

	assert_non_null(f);
	fake_pipe(in);
	fake_pipe(out);
	fake_pipe(feed);
	fake_pipe(first);
	fake_pipe(second);
	f->host_in = in[1];
	f->host_out = out[0];
	f->run_stdin = feed[0];
	f->run_out = first[1];
	f->run_err = second[1];
	stream_init(&f->g.stream, in[0], out[1]);
	output_init(&f->g.out[0], first[0], STREAM_STDOUT);
	output_init(&f->g.out[1], second[0], STREAM_STDERR);
	feed_init(&f->g.feed, feed[1]);
	buf_init(&f->g.run.spec, GUEST_SPEC_MAX);
	f->g.runner = (struct runner){.pid = 1000,
				      .fd = -1,
				      .control_fd = -1,
				      .launch = &f->launch,
				      .out_ends = {-1, -1}};
	f->g.stream.session = SESSION_OPEN;
	return f;
}

static inline void
fake_free(struct fake *f)
{
	struct guest *g = &f->g;
	const int fds[] = {f->host_in,      f->host_out,      f->run_stdin, f->run_out,  f->run_err,
			   g->stream.in_fd, g->stream.out_fd, g->out[0].fd, g->out[1].fd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	feed_close(&g->feed);
	buf_done(&g->stream.in);
	buf_done(&g->stream.wire);
	buf_done(&g->stream.kept);
	buf_done(&g->out[0].pending);
	buf_done(&g->out[1].pending);
	buf_done(&g->run.spec);
	spec_done(&g->run.what);
	free(f);
}

/* The next frame the host would read; payload borrows from b, which is consumed with the next
 * call. False when there is none. */
static inline bool
fake_next_frame(struct buf *b, struct guest_frame *ret)
{
	size_t used = 0;
	int r = guest_frame_parse(buf_data(b), buf_len(b), G2H, ret, &used);

	assert_true(r >= 0);
	if (r == 1)
		b->off += used; /* not buf_consume: the payload stays readable */
	return r == 1;
}

#endif
