/*
 * frontend/main.c - bailey-frontend: one client's protocol, nothing else within reach.
 * Runs in: bailey-frontend.
 * Input: key=value words of the supervisor; then see stdio.c and upcalls.c.
 * Owns: the event loop.
 *
 * Start: what needs a right is done first (the descriptors' probing, epoll),
 * then the process confines itself, proves it, and says ready. From there on it
 * can only read and write what it was born with.
 */
#include <stdlib.h>
#include <string.h>

#include "confine.h"
#include "frontend.h"

static void
be_quiet(int severity, const char *msg)
{
	(void)severity;
	log_debug("libevent: %s", msg);
}

static void
open_all(struct frontend *fe)
{
	int r;

	event_set_log_callback(be_quiet);
	fe->peer_fd = -1;
	fe->base = loop_new();
	if (fe->base == NULL)
		fatal("cannot make an event loop");
	r = stdio_new(fe->base, FD_IN, FD_OUT, &frontend_events, fe, &fe->transport);
	if (r < 0)
		fatal("cannot use the client's descriptors (%d)", r);
	fe->calls = idmap_new(CALLS_MAX);
	if (leave_init(fe) < 0 || memory_open(fe) < 0 || fe->calls == NULL)
		fatal("no memory at the start");
}

static void
close_all(struct frontend *fe)
{
	calls_free_all(fe);
	asks_free_all(fe);
	upcalls_close(fe);
	rpc_batches_free(fe);
	transport_free(fe->transport);
	secret_wipe(&fe->client, sizeof(fe->client));
	event_free(fe->leave_timer);
	memory_close(fe);
	idmap_free(fe->calls);
	event_base_free(fe->base);
}

int
main(int argc, char **argv)
{
	struct frontend fe = {.exit_code = 0};
	struct confine_plan plan;
	uint32_t layers = 0;
	int r;

	log_init("bailey-frontend", LOG_L_WARNING);
	memory_init();
	r = confine_args(argc, argv, &plan);
	if (r < 0)
		fatal("started with words it does not know; the supervisor starts this program");
	plan.table = TABLE_FRONTEND;
	if (plan.debug)
		log_init("bailey-frontend", LOG_L_DEBUG);
	r = confine_start(&plan, FD_PEER);
	if (r < 0)
		fatal("confine_start failed (%d)", r);
	open_all(&fe);
	r = confine_lock(&plan, &layers);
	if (r < 0)
		fatal("confine_lock failed (%d)", r);
	r = confine_selftest(&plan, layers);
	if (r < 0)
		fatal("confine_selftest failed (%d)", r);
	r = upcalls_open(&fe, layers); /* reading begins with the supervisor's word on the client */
	if (r < 0)
		fatal("cannot start (%d)", r);
	(void)event_base_dispatch(fe.base);
	close_all(&fe);
	return fe.exit_code;
}
