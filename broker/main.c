/*
 * broker/main.c - start of bailey-broker: the only process with the engine's
 * socket. Gives up its rights, says ready, runs the loop.
 *
 * Runs in: bailey-broker.
 * Input: confine words on the command line, from the supervisor (trusted).
 * Owns: the event base, struct broker, the descriptors it was started with.
 */
#include <stdlib.h>
#include <time.h>

#include <event2/event.h>

#include "broker.h"
#include "confine.h"

static uint32_t
confine_self(int argc, char **argv, struct store **ret_store, struct keep **ret_keep)
{
	struct confine_plan plan = {.table = TABLE_BROKER};
	uint32_t layers = 0;
	int r;

	if (confine_args(argc, argv, &plan) < 0)
		fatal("started with unknown words; it is the supervisor that starts it");
	log_init("bailey-broker", plan.debug    ? LOG_L_DEBUG
				  : plan.events ? LOG_L_INFO
						: LOG_L_WARNING);
	r = confine_start(&plan, FD_STATE);
	if (r < 0)
		fatal("confine_start: error %d", r);
	tzset(); /* reads a file once; never again under the filter */
	r = engine_global_init();
	if (r < 0)
		fatal("engine client: error %d", r);
	/* Reads back what a former broker kept, which takes calls that the filter has not. */
	r = store_open(FD_STATE, ret_store);
	if (r < 0)
		fatal("the memory for kept output: error %d", r);
	r = keep_open(FD_STATE, KEEP_AT, ret_keep);
	if (r < 0)
		fatal("the memory for sandboxes: error %d", r);
	r = confine_lock(&plan, &layers);
	if (r < 0)
		fatal("confine_lock: error %d", r);
	r = confine_selftest(&plan, layers);
	if (r < 0)
		fatal("confine_selftest: error %d", r);
	return layers;
}

int
main(int argc, char **argv)
{
	static struct broker broker;
	struct event_base *base;
	struct store *store = NULL;
	struct keep *keep = NULL;
	uint32_t layers;
	int r;

	log_init("bailey-broker", LOG_L_WARNING);
	layers = confine_self(argc, argv, &store, &keep);
	base = loop_new();
	if (!base || broker_init(&broker, base) < 0)
		fatal("no event loop");
	broker.store = store;
	broker.keep = keep;
	if (supervised_open(&broker, FD_SUPERVISOR) < 0 || orders_open(&broker, FD_PEER) < 0)
		fatal("the supervisor gave no links");
	r = link_send(broker.supervisor, IPC_ROW(ready, .version = IPC_VERSION, .layers = layers));
	if (r < 0)
		fatal("the supervisor does not listen: error %d", r);
	(void)event_base_dispatch(base);
	broker_done(&broker);
	event_base_free(base);
	return 0;
}
