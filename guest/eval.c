/*
 * guest/eval.c - interpreters that stay, one per language, and whose turn it is.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: code of the caller; records of an interpreter, which may be user code's.
 * Owns: the runner of an interpreter that rests, and who waits for it.
 *
 * An evaluation is a run. While it goes on it has the interpreter's runner, so
 * its death, a timeout or an h_end is what it is for any run; the interpreter is
 * gone then, and the next evaluation starts another one. When the interpreter
 * says that it is done, its runner comes back here.
 *
 * To the interpreter, at GUEST_CONTROL_FD: the code's length as ten digits, the
 * code. From it, each ended by a NUL: 'v' and the value's text, 'i' and the path
 * of an image, at last 'e' and the exit code; the first two go out as they are.
 * Images it has left in EVAL_IMAGES follow, whatever the language.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define EVAL_HEADER_LEN 10u
#define EVAL_RECORD_MAX 66560u /* a driver's cap of 64 KiB, and its note that it cut */
#define EVAL_IMAGES GUEST_WORKSPACE "/artifacts"
#define EVAL_DRAINS 3u /* reads that a pipe of the greatest size has less than */

static struct eval *
eval_of(struct guest *g, const struct run *run)
{
	return &g->eval[run->what.kind - RUN_EVAL_PYTHON];
}

void
eval_init(struct guest *g)
{
	for (size_t i = 0; i < EVAL_LANGUAGES; i++) {
		struct eval *e = &g->eval[i];

		*e = (struct eval){.runner = RUNNER_NONE};
		buf_init(&e->out, EVAL_HEADER_LEN + SPEC_CODE_MAX);
		buf_init(&e->in, EVAL_RECORD_MAX);
	}
}

/* ---- the interpreter ---- */

/* Nothing was said while it rested: then it waits for code, as it should. */
static bool
eval_is_at_rest(struct eval *e)
{
	struct report report;
	char byte;

	if (e->runner.pid <= 0 || runner_report(&e->runner, &report) != 0)
		return false;
	return recv(e->runner.control_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == -1 &&
	       errno == EAGAIN;
}

void
eval_on_control_out(struct guest *g, struct run *run)
{
	struct eval *e = eval_of(g, run);

	while (buf_len(&e->out) > 0) {
		ssize_t n = send(run->runner.control_fd, buf_data(&e->out), buf_len(&e->out),
				 MSG_NOSIGNAL);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		if (n == -1)
			break; /* it is ending: its report comes */
		buf_consume(&e->out, (size_t)n);
	}
	buf_done(&e->out); /* up to a mebibyte that nobody needs meanwhile */
}

/* ---- turns ---- */

static int
eval_find_interpreter(struct guest *g, struct eval *e, struct run *run)
{
	if (!eval_is_at_rest(e)) {
		children_drop(g, &e->runner); /* where there is one */
		run->result.start = START_LIVE;
		return run_launch(g, run);
	}
	run->result.start = START_WARM;
	run->base_cpu_us = runner_cpu_us(&e->runner);
	run->started_us = clock_now_us();
	run_adopt(run, &e->runner);
	runner_continue(&run->runner); /* others in the sandbox may have stopped it */
	return 0;
}

static int
eval_go(struct guest *g, struct eval *e, struct run *run)
{
	int r;

	buf_clear(&e->out); /* of one that could not be started */
	r = buf_printf(&e->out, "%010zu", run->what.code.len);
	if (r == 0)
		r = buf_append(&e->out, run->what.code.data, run->what.code.len);
	if (r < 0)
		return -r;
	r = eval_find_interpreter(g, e, run);
	if (r != 0)
		return r;
	e->going = run->number;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &e->began); /* cannot fail */
	run->result.flags |= EXIT_INTERPRETER_GONE;            /* unless it says that it is done */
	eval_on_control_out(g, run);
	run_begin(g, run);
	return 0;
}

int
eval_start(struct guest *g, struct run *run)
{
	struct eval *e = eval_of(g, run);
	const struct ipc_bin *code = &run->what.code;

	/* Its input has ended before: the interpreter was there. And bash knows no NUL. */
	if ((run->what.flags & SPEC_STDIN) != 0)
		return EINVAL;
	if (run->what.kind == RUN_EVAL_BASH && code->len > 0 &&
	    memchr(code->data, '\0', code->len) != NULL)
		return EINVAL;
	if (e->going == 0)
		return eval_go(g, e, run);
	if (e->n_waiting == EVAL_WAITING_MAX)
		return EBUSY;
	e->waiting[e->n_waiting++] = run->number;
	run->state = STATE_WAITING;
	return 0;
}

void
eval_forget(struct guest *g, const struct run *run)
{
	struct eval *e = eval_of(g, run);
	size_t kept = 0;

	for (size_t i = 0; i < e->n_waiting; i++) {
		if (e->waiting[i] != run->number)
			e->waiting[kept++] = e->waiting[i];
	}
	e->n_waiting = kept;
}

void
eval_over(struct guest *g, const struct run *run)
{
	struct eval *e = eval_of(g, run);

	if (e->going != run->number)
		return;
	e->going = 0;
	buf_done(&e->out);
	buf_done(&e->in);
	while (e->going == 0 && e->n_waiting > 0) {
		struct run *next = run_find(g, e->waiting[0]);
		int err;

		if (next == NULL) {
			e->n_waiting = 0; /* cannot be: who ends while waiting is forgotten */
			return;
		}
		eval_forget(g, next);
		err = eval_go(g, e, next);
		if (err != 0)
			run_fail(g, next, err);
	}
}

/* ---- what the interpreter says ---- */

bool
eval_wants_write(const struct guest *g, const struct run *run)
{
	const struct eval *e = &g->eval[run->what.kind - RUN_EVAL_PYTHON];

	return e->going == run->number && buf_len(&e->out) > 0;
}

/* What it wrote before it said that it is done is in the pipes; what others of it still write is
 * another evaluation's. */
static void
eval_finish(struct guest *g, struct eval *e, struct run *run, uint32_t code)
{
	uint64_t cpu_us = runner_cpu_us(&run->runner);

	for (size_t i = 0; i < ARRAY_LEN(run->runner.out_fds); i++) {
		size_t n = 0;

		while (n < EVAL_DRAINS && !output_read(&run->out[i], false))
			n++;
	}
	images_put(&run->out[STREAM_VALUE - 1], EVAL_IMAGES, &e->began);
	run->result.how = EXIT_EXITED;
	run->result.exit_code = code;
	run->result.flags &= ~(uint32_t)EXIT_INTERPRETER_GONE;
	run->result.wall_us = clock_now_us() - run->started_us;
	run->result.cpu_us = cpu_us > run->base_cpu_us ? cpu_us - run->base_cpu_us : 0;
	run->ended = true;
	run_lend_back(run, &e->runner);
	run_drain(g, run);
}

/* One record, its NUL included. 1: it was the last; 0; -EBADMSG. */
static int
eval_take(struct run *run, const uint8_t *p, size_t n, uint64_t *ret_code)
{
	if (p[0] == 'e')
		return parse_u64((const char *)p + 1, 0, 255, ret_code) < 0 ? -EBADMSG : 1;
	if (p[0] != 'v' && p[0] != 'i')
		return -EBADMSG;
	output_put(&run->out[STREAM_VALUE - 1], p, n);
	return 0;
}

/* All whole records of e->in. As eval_take. */
static int
eval_take_all(struct eval *e, struct run *run, uint64_t *ret_code)
{
	int r = 0;

	while (r == 0 && buf_len(&e->in) > 0) {
		const uint8_t *p = buf_data(&e->in);
		const uint8_t *end = memchr(p, '\0', buf_len(&e->in));

		if (end == NULL)
			return 0;
		r = eval_take(run, p, (size_t)(end - p) + 1, ret_code);
		buf_consume(&e->in, (size_t)(end - p) + 1);
	}
	/* Done before it has read all, or with something to add: it is not what we started. */
	if (r == 1 && (buf_len(&e->in) > 0 || buf_len(&e->out) > 0))
		return -EBADMSG;
	return r;
}

void
eval_on_control(struct guest *g, struct run *run)
{
	static uint8_t chunk[EVAL_RECORD_MAX];
	struct eval *e = eval_of(g, run);
	uint64_t code = 0;
	ssize_t n;
	int r;

	if (run->state != STATE_GOING || e->going != run->number)
		return;
	n = recv(run->runner.control_fd, chunk, EVAL_RECORD_MAX - buf_len(&e->in), MSG_DONTWAIT);
	if (n <= 0)
		return; /* nothing there, or it is ending and its report comes */
	r = buf_append(&e->in, chunk, (size_t)n);
	if (r == 0)
		r = eval_take_all(e, run, &code);
	if (r == 0 && buf_len(&e->in) == EVAL_RECORD_MAX)
		r = -EMSGSIZE;
	if (r < 0)
		run_kill(g, run);
	else if (r == 1)
		eval_finish(g, e, run, (uint32_t)code);
}

/* ---- an interpreter that ends while it rests ---- */

void
eval_on_idle(struct guest *g, uint32_t index)
{
	struct eval *e = &g->eval[index];
	struct report report;

	if (e->runner.fd != -1 && runner_report(&e->runner, &report) != 0)
		children_drop(g, &e->runner);
}

void
eval_on_runner_gone(struct guest *g)
{
	for (size_t i = 0; i < EVAL_LANGUAGES; i++) {
		if (g->eval[i].runner.pid == 0 && g->eval[i].runner.fd != -1)
			runner_close(&g->eval[i].runner);
	}
}
