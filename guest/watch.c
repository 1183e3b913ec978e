/*
 * guest/watch.c - what poll looks at, and who serves it.
 * Runs in: guest-init (PID 1 of a sandbox).
 * Input: readiness of descriptors.
 * Owns: nothing.
 *
 * The list holds what is open only, in the order in which it is served: output before reports, so
 * that what was written before an end is read before that end is told; signals last, for the same
 * reason. What is served may end a run whose descriptors stand further down: an entry names its
 * run by number, and one that is over is passed by.
 */
#include "guest.h"

void
watch_add(struct watch *w, int fd, short events, enum watch_what what, uint32_t run, uint32_t index)
{
	if (w->n >= WATCH_MAX)
		return; /* the maximum is what all of them need */
	w->p[w->n] = (struct pollfd){.fd = fd, .events = events};
	w->of[w->n].what = what;
	w->of[w->n].run = run;
	w->of[w->n].index = index;
	w->n++;
}

static void
watch_fill_output(struct watch *w, struct guest *g, const struct run *run)
{
	if (run->state != STATE_GOING && run->state != STATE_KILLING)
		return;
	for (uint32_t i = 0; i < GUEST_OUTPUTS; i++) {
		if (run->out[i].fd >= 0 && output_may_read(g, &run->out[i]))
			watch_add(w, run->out[i].fd, POLLIN, WATCH_OUTPUT, run->number, i);
	}
	if (feed_wants_write(&run->feed))
		watch_add(w, run->feed.fd, POLLOUT, WATCH_FEED, run->number, 0);
}

/* Of an evaluation: what its interpreter says, and what it has not been told yet. */
static void
watch_fill_eval(struct watch *w, const struct guest *g, const struct run *run)
{
	bool eval = run->what.kind >= RUN_EVAL_PYTHON && run->what.kind <= RUN_EVAL_BASH;

	if (!eval || run->state != STATE_GOING)
		return;
	watch_add(w, run->runner.control_fd, POLLIN, WATCH_EVAL, run->number, 0);
	if (eval_wants_write(g, run))
		watch_add(w, run->runner.control_fd, POLLOUT, WATCH_EVAL_OUT, run->number, 0);
}

void
watch_fill(struct watch *w, struct guest *g, int signal_fd)
{
	w->n = 0;
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		if (g->runs[i].number != 0)
			watch_fill_output(w, g, &g->runs[i]);
	}
	watch_add(w, g->stream.in_fd, POLLIN, WATCH_IN, 0, 0);
	if (stream_wants_write(&g->stream))
		watch_add(w, g->stream.out_fd, POLLOUT, WATCH_WIRE, 0, 0);
	if (g->prestart == PRESTART_STARTING)
		watch_add(w, g->waiting.control_fd, POLLIN, WATCH_CONTROL, 0, 0);
	if (g->waiting.pid > 0)
		watch_add(w, g->waiting.fd, POLLIN, WATCH_WAITING, 0, 0);
	for (size_t i = 0; i < GUEST_RUNS_MAX; i++) {
		const struct run *run = &g->runs[i];

		if (run->number == 0 || run->runner.pid == 0)
			continue;
		watch_fill_eval(w, g, run);
		watch_add(w, run->runner.fd, POLLIN, WATCH_RUNNER, run->number, 0);
	}
	for (uint32_t i = 0; i < EVAL_LANGUAGES; i++) {
		if (g->eval[i].runner.pid > 0)
			watch_add(w, g->eval[i].runner.fd, POLLIN, WATCH_IDLE, 0, i);
	}
	watch_add(w, signal_fd, POLLIN, WATCH_SIGNAL, 0, 0);
}

static void
watch_take_report(struct guest *g, struct run *run)
{
	struct report report;
	int r = runner_report(&run->runner, &report);

	if (r == 1)
		run_on_report(g, run, &report);
	else if (r < 0)
		children_reap(g); /* its socket closed: its death is about to be told */
}

/* What belongs to one run. */
static void
watch_serve_run(struct guest *g, struct run *run, enum watch_what what, uint32_t index)
{
	if (what == WATCH_OUTPUT && run->out[index].fd >= 0) {
		(void)output_read(&run->out[index], false);
		output_rest(g, &run->out[index]);
		output_pump(g, &run->out[index]);
	} else if (what == WATCH_FEED) {
		feed_pump(g, &run->feed);
	} else if (what == WATCH_EVAL) {
		eval_on_control(g, run);
	} else if (what == WATCH_EVAL_OUT && run->state == STATE_GOING) {
		eval_on_control_out(g, run);
	} else if (what == WATCH_RUNNER && run->runner.pid > 0) {
		watch_take_report(g, run);
	}
}

static void
watch_serve_one(struct guest *g, enum watch_what what, uint32_t index, int fd)
{
	if (what == WATCH_IN)
		stream_read(g);
	else if (what == WATCH_CONTROL && g->prestart == PRESTART_STARTING)
		prestart_on_control(g);
	else if (what == WATCH_WAITING && g->waiting.pid > 0)
		prestart_on_report(g);
	else if (what == WATCH_IDLE)
		eval_on_idle(g, index);
	else if (what == WATCH_SIGNAL)
		guest_on_signal(g, fd);
}

void
watch_serve(const struct watch *w, struct guest *g)
{
	for (size_t i = 0; i < w->n; i++) {
		struct run *run;

		if (w->p[i].revents == 0)
			continue;
		if (w->of[i].run == 0) {
			watch_serve_one(g, w->of[i].what, w->of[i].index, w->p[i].fd);
			continue;
		}
		run = run_find(g, w->of[i].run);
		if (run != NULL)
			watch_serve_run(g, run, w->of[i].what, w->of[i].index);
	}
}
