/*
 * tests/fuzz/frontend_line_fuzz.c - lines of a client through the whole frontend, with a broker
 * that is only a socket; at the end the links and all calls are as at the start.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed.
 * Owns: one frontend for all inputs.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct frontend fe;
static int broker_end = -1;

/* A pair whose one end is the fixed descriptor; the other end, out of the way. */
static int
pair_on(int fixed)
{
	int fds[2], mine, theirs;

	if (fd_seqpacket_pair(fds) < 0)
		abort();
	mine = fcntl(fds[0], F_DUPFD_CLOEXEC, 50);
	theirs = fcntl(fds[1], F_DUPFD_CLOEXEC, 50);
	(void)close(fds[0]);
	(void)close(fds[1]);
	if (mine == -1 || dup2(theirs, fixed) == -1)
		abort();
	(void)close(theirs);
	return mine;
}

static void
open_once(void)
{
	int null;

	log_init("fuzz", LOG_L_ERROR);
	fe = (struct frontend){.peer_fd = -1, .configured = true};
	(void)pair_on(FD_SUPERVISOR);
	broker_end = pair_on(FD_PEER);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	fe.base = event_base_new();
	fe.calls = idmap_new(CALLS_MAX);
	if (leave_init(&fe) < 0 || upcalls_open(&fe, 0) < 0 ||
	    stdio_new(fe.base, null, null, &frontend_events, &fe, &fe.transport) < 0)
		abort();
}

/* What the broker may say to the calls that are open. */
static void
play_broker(void)
{
	static const struct ipc_call_granted grant = {
		.timeout_ms = 1000, .run_id = {"0123", 4}, .sandbox = {"", 0}};

	struct call *next;

	for (struct call *c = fe.call_list; c != NULL; c = next) {
		next = c->next; /* an event ends at most its own call */
		if ((call_step(c)->flags & STEP_RUN) != 0)
			call_event(c, EV_GRANTED, &grant);
	}
	(void)event_base_loop(fe.base, EVLOOP_NONBLOCK);
	calls_answer_all(&fe, RUN_ok); /* some go on with their next step */
	calls_free_all(&fe);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char packet[IPC_PACKET_MAX];

	if (fe.base == NULL)
		open_once();
	fe.negotiated = REV_NONE;
	while (size > 0) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t n = end == NULL ? size : (size_t)(end - data);
		char *line = malloc(n + 1);

		memcpy(line, data, n);
		line[n] = '\0';
		mcp_on_message(&fe, line, n);
		free(line);
		n += end != NULL;
		data += n;
		size -= n;
	}
	play_broker();
	rpc_batches_free(&fe);
	while (recv(broker_end, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
	(void)event_base_loop(fe.base, EVLOOP_NONBLOCK);
	if (fe.leaving || fe.broker == NULL || fe.held_bytes != 0 || idmap_count(fe.calls) != 0)
		abort();
	return 0;
}
