/*
 * tests/fuzz/guest_stream_fuzz.c - any bytes into the guest's frame intake, its effects
 * (runs, stdin, output) faked at link time of this file.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed; pieces of up to 64 bytes less one by their first byte, so that frames
 * are cut; checksums are put right where the highest bit of the first byte says so.
 * Owns: one guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t last_seen; /* what was acted on came in order */

void
guest_end(enum guest_end_code code)
{
	(void)code;
	abort(); /* intake reports an end, it does not act */
}

int
guest_on_h_hello(struct guest *g, const struct guest_h_hello *hello)
{
	g->hello = *hello;
	g->stream.session = SESSION_OPEN;
	memcpy(g->stream.secret, hello->secret, sizeof(g->stream.secret));
	return 0;
}

void
guest_on_signal(struct guest *g, int fd)
{
	(void)g;
	(void)fd;
}

/* Nothing is written, opened, started or killed. */
int __wrap_launch_write_code(const struct guest_spec *spec);
__typeof__(launch_fill_run) __wrap_launch_fill_run;
int __wrap_runner_order(struct runner *r);
int __wrap_children_take(struct guest *g, struct runner *ret);
int __wrap_open(const char *path, int flags, ...);
uint32_t __wrap_tree_kill(pid_t root);
uint32_t __wrap_children_kill_strangers(struct guest *g);

int
__wrap_children_take(struct guest *g, struct runner *ret)
{
	(void)g;
	*ret = RUNNER_NONE;
	return 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	errno = EACCES;
	return -1;
}

uint32_t
__wrap_children_kill_strangers(struct guest *g)
{
	(void)g;
	return 1;
}

int
__wrap_launch_write_code(const struct guest_spec *spec)
{
	return spec->kind == RUN_NODE ? ENOSPC : 0;
}

int
__wrap_launch_fill_run(struct launch *l, const struct guest_spec *spec,
		       const struct guest_spec *kept, uint32_t cpus)
{
	(void)l;
	(void)kept;
	(void)cpus;
	return spec->kind == RUN_PYTHON ? ENOENT : 0;
}

int
__wrap_runner_order(struct runner *r)
{
	(void)r;
	return 0;
}

uint32_t
__wrap_tree_kill(pid_t root)
{
	(void)root;
	return 1;
}

/* Puts right the checksum of a whole frame at p. */
static void
mend(uint8_t *p, size_t size)
{
	size_t body;
	uint32_t sum;

	if (size < GUEST_HEADER_LEN || p[0] == 0)
		return;
	body = GUEST_HEADER_LEN + p[2] + 256U * p[3];
	if (size < body + GUEST_CRC_LEN)
		return;
	sum = crc32c(0, p, body);
	for (size_t i = 0; i < GUEST_CRC_LEN; i++)
		p[body + i] = (uint8_t)(sum >> 8 * i);
}

static void
mend_all(uint8_t *p, size_t size)
{
	for (size_t at = 0; at + GUEST_HEADER_LEN < size;) {
		size_t n = 1;

		if (p[at] != 0) {
			mend(p + at, size - at);
			n = GUEST_HEADER_LEN + p[at + 2] + 256U * p[at + 3] + GUEST_CRC_LEN;
		}
		at += n;
	}
}

/* What a slot holds; its runner has neither descriptors nor memory. */
static void
run_release(struct run *run)
{
	if (run->number == 0)
		return;
	for (size_t i = 0; i < GUEST_OUTPUTS; i++)
		output_done(&run->out[i]);
	feed_close(&run->feed);
	spec_done(&run->what);
	buf_done(&run->spec);
	free(run->files);
}

static void
check(const struct guest *g)
{
	const struct stream *s = &g->stream;

	if (s->last_host < last_seen || s->acked > s->last_built ||
	    s->kept_on_wire > buf_len(&s->kept))
		abort();
	last_seen = s->last_host;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct guest g;
	uint8_t *copy;
	size_t step;

	if (size < 2 || (copy = malloc(size)) == NULL)
		return 0;
	memcpy(copy, data, size);
	if ((copy[0] & 0x80) != 0)
		mend_all(copy + 1, size - 1);
	step = (size_t)(copy[0] & 0x3f) + 1;
	memset(&g, 0, sizeof(g));
	last_seen = 0;
	stream_init(&g.stream, -1, -1);
	g.spare = RUNNER_NONE;
	g.waiting = RUNNER_NONE;
	eval_init(&g);
	for (size_t at = 1; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;

		if (buf_append(&g.stream.in, copy + at, n) < 0 || stream_intake(&g) != 0)
			break;
		check(&g);
	}
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++)
		run_release(&g.runs[i]);
	for (size_t i = 0; i < EVAL_LANGUAGES; i++) {
		buf_done(&g.eval[i].in);
		buf_done(&g.eval[i].out);
	}
	buf_done(&g.stream.in);
	buf_done(&g.stream.wire);
	buf_done(&g.stream.kept);
	free(copy);
	return 0;
}
