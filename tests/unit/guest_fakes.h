/*
 * tests/unit/guest_fakes.h - main.c's part for tests of guest/, and a guest with
 * pipes in the place of a container's streams.
 */
#ifndef BAILEY_GUEST_FAKES_H
#define BAILEY_GUEST_FAKES_H

#include <signal.h>
#include <sys/mman.h>

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

void
guest_on_signal(struct guest *g, int fd)
{
	(void)g;
	(void)fd;
}

struct fake {
	struct guest g;
	int host_in, host_out;           /* the host's ends: write to, read from */
	int run_stdin, run_out, run_err; /* the run's ends of the last runner made */
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

	assert_non_null(f);
	fake_pipe(in);
	fake_pipe(out);
	f->host_in = in[1];
	f->host_out = out[0];
	f->run_stdin = f->run_out = f->run_err = -1;
	stream_init(&f->g.stream, in[0], out[1]);
	f->g.spare = RUNNER_NONE;
	f->g.waiting = RUNNER_NONE;
	eval_init(&f->g);
	f->g.stream.session = SESSION_OPEN;
	return f;
}

/* What children_take would give: pipes, memory, and a number no process has. */
static inline struct runner
fake_runner(struct fake *f)
{
	struct runner r = RUNNER_NONE;
	int feed[2];
	int first[2];
	int second[2];

	fake_pipe(feed);
	fake_pipe(first);
	fake_pipe(second);
	(void)close(f->run_stdin);
	(void)close(f->run_out);
	(void)close(f->run_err);
	f->run_stdin = feed[0];
	f->run_out = first[1];
	f->run_err = second[1];
	r.pid = INT32_MAX;
	r.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	r.stdin_fd = feed[1];
	r.out_fds[0] = first[0];
	r.out_fds[1] = second[0];
	r.launch = mmap(NULL, sizeof(*r.launch), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r.launch, MAP_FAILED);
	return r;
}

/* A run that goes on, in the first free slot. */
static inline struct run *
fake_run(struct fake *f, uint32_t number)
{
	struct runner r = fake_runner(f);
	struct run *run = f->g.runs;

	while (run->number != 0)
		run++;
	*run = (struct run){.number = number, .state = STATE_GOING, .runner = RUNNER_NONE};
	buf_init(&run->spec, GUEST_SPEC_MAX);
	for (uint8_t i = 0; i < GUEST_OUTPUTS; i++)
		output_init(&run->out[i], number, i + STREAM_STDOUT);
	feed_init(&run->feed, number);
	run_adopt(run, &r);
	return run;
}

static inline void
fake_free(struct fake *f)
{
	struct guest *g = &f->g;
	const int fds[] = {f->host_in, f->host_out,     f->run_stdin,    f->run_out,
			   f->run_err, g->stream.in_fd, g->stream.out_fd};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number == 0)
			continue;
		runner_close(&g->runs[i].runner);
		feed_close(&g->runs[i].feed);
		for (size_t j = 0; j < GUEST_OUTPUTS; j++)
			output_done(&g->runs[i].out[j]);
		spec_done(&g->runs[i].what);
		buf_done(&g->runs[i].spec);
	}
	runner_close(&g->spare);
	runner_close(&g->waiting);
	buf_done(&g->stream.in);
	buf_done(&g->stream.wire);
	buf_done(&g->stream.kept);
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
