/*
 * tests/fuzz/http_fuzz.c - bytes of an HTTP client: the head read in one piece and byte by byte is
 * the same; a connection hands over no more than what was admitted, and ends once.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed; the first byte says how the rest is cut and answered.
 * Owns: one event loop; a socket pair and a transport per input.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct transport *http;
static const struct http_client client = {.hosts = "h", .origins = "http://h"};
static unsigned admitted, handed, ended, how;

static void
on_message(void *ctx, char *text, size_t len)
{
	static const struct sent last, more = {.more = true};
	char note[] = "{}", answer[] = "{}";

	(void)ctx;
	if (++handed > admitted || text[len] != '\0' || len > MESSAGE_MAX || http->side == NULL)
		abort();
	if ((how & 4) != 0)
		(void)transport_send(http, note, 2, &more);
	if ((how & 8) != 0)
		transport_send_nothing(http, (how & 16) != 0);
	else
		(void)transport_send(http, answer, 2, &last);
}

static void
on_end(void *ctx, int reason)
{
	(void)ctx;
	(void)reason;
	if (++ended > 1)
		abort();
}

static void
on_drained(void *ctx)
{
	(void)ctx;
}

static void
on_admit(void *ctx, const struct admit_ask *ask)
{
	(void)ctx;
	if (ask->token == NULL || strlen(ask->token) > HTTP_TOKEN_MAX ||
	    (ask->session != NULL && strlen(ask->session) != HTTP_SESSION_LEN))
		abort();
	admitted++;
	http_admitted(http, (how & 32) != 0 ? ADMIT_NO_SESSION : ADMIT_YES);
}

static const struct transport_events events = {
	.on_message = on_message, .on_end = on_end, .on_drained = on_drained, .on_admit = on_admit};

/* What a parsed head may say. */
static void
check_head(const struct http_head *head)
{
	if (head->length > MESSAGE_MAX || head->target[0] != '/' ||
	    (head->length > 0 && head->method != HTTP_POST) || head->value[HTTP_H_HOST] == NULL ||
	    head->value[HTTP_H_TRANSFER_ENCODING] != NULL)
		abort();
	for (size_t i = 0; i < HTTP_HEADERS; i++) {
		for (const char *p = head->value[i]; p != NULL && *p != '\0'; p++) {
			if ((*p < 0x20 && *p != '\t') || *p >= 0x7f)
				abort();
		}
	}
}

static void
one_head(const uint8_t *data, size_t size)
{
	size_t scanned = 0, step = 0;
	char *text = malloc(size + 1);
	struct http_head head;
	ssize_t whole, part = 0;

	memcpy(text, data, size);
	whole = http_head_end(text, size, &scanned);
	for (size_t n = 1; n <= size && part == 0; n++)
		part = http_head_end(text, n, &step);
	if (part != whole ||
	    (whole > 0 && ((size_t)whole > size || whole > (ssize_t)HTTP_HEAD_MAX)))
		abort();
	if (whole > 0) {
		text[whole] = '\0';
		if (http_head_parse(text, (size_t)whole, &head) == NULL)
			check_head(&head);
	}
	free(text);
}

static void
turn(int peer)
{
	static char sink[65536];

	for (int i = 0; i < 3; i++) {
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
		while (recv(peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
}

static void
one_connection(const uint8_t *data, size_t size)
{
	size_t piece = (how & 2) != 0 ? 7 : 4096;
	int fds[2];

	admitted = handed = ended = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1 ||
	    http_new(base, fds[1], &events, NULL, &client, &http_times_default, &http) < 0 ||
	    transport_start(http) < 0)
		abort();
	while (size > 0) {
		size_t n = size < piece ? size : piece;

		if (send(fds[0], data, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
			break; /* it was cut */
		data += n;
		size -= n;
		turn(fds[0]);
	}
	(void)shutdown(fds[0], SHUT_WR);
	turn(fds[0]);
	if (ended != 1)
		abort();
	transport_free(http);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (base == NULL) {
		(void)signal(SIGPIPE, SIG_IGN);
		log_init("fuzz", LOG_L_ERROR);
		base = event_base_new();
	}
	if (size == 0 || base == NULL)
		return 0;
	how = data[0];
	one_head(data + 1, size - 1);
	one_connection(data + 1, size - 1);
	return 0;
}
