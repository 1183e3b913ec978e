/*
 * tests/unit/http_fake.h - an HTTP transport inside a test: the test is its client and what stands
 * behind it, with short times.
 */
#ifndef BAILEY_HTTP_FAKE_H
#define BAILEY_HTTP_FAKE_H

#include "test.h"

#include <signal.h>
#include <sys/socket.h>

#include "fakes/still_clock.h"
#include "http.h"

#define FAKE_LINE "POST /mcp HTTP/1.1\r\n"
#define FAKE_HEADERS                                          \
	"Host: localhost:1\r\nAuthorization: Bearer good\r\n" \
	"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
#define FAKE_POST FAKE_LINE FAKE_HEADERS

static struct event_base *base;
static struct transport *http;
static int peer = -1, ours = -1;
static const struct http_client fake_client = {.hosts = "localhost:1",
					       .origins = "http://localhost:1"};
static struct http_times times = {60, 60, 60, 60, 60, 60, 60};
static char message[256];      /* the last one handed over, cut */
static unsigned messages_seen; /* how many */
static size_t message_len;
static char asked[600]; /* "TOKEN SESSION close" of the last on_admit */
static int end_reason;  /* 1: not ended */
static unsigned drained;
static struct message_side side;
/* What the fake does at once: answer a message with this; the word on admission (-1: later). */
static const char *answer;
static int word;

static inline void
fake_on_message(void *ctx, char *text, size_t len)
{
	static const struct sent as;

	(void)ctx;
	assert_int_equal(text[len], '\0');
	messages_seen++;
	message_len = len;
	(void)snprintf(message, sizeof(message), "%s", text);
	assert_non_null(http->side);
	side = *http->side;
	if (answer != NULL) {
		char copy[256];

		(void)snprintf(copy, sizeof(copy), "%s", answer);
		(void)transport_send(http, copy, strlen(copy), &as);
	}
}

static inline void
fake_on_admit(void *ctx, const struct admit_ask *ask)
{
	(void)ctx;
	(void)snprintf(asked, sizeof(asked), "%s %s%s", ask->token,
		       ask->session == NULL ? "-" : ask->session, ask->close ? " close" : "");
	if (word >= 0)
		http_admitted(http, (enum admit_word)word);
}

static inline void
fake_on_end(void *ctx, int reason)
{
	(void)ctx;
	assert_int_equal(end_reason, 1); /* once */
	end_reason = reason;
}

static inline void
fake_on_drained(void *ctx)
{
	(void)ctx;
	drained++;
}

static const struct transport_events fake_events = {.on_message = fake_on_message,
						    .on_end = fake_on_end,
						    .on_drained = fake_on_drained,
						    .on_admit = fake_on_admit};

static inline int
fake_setup(void **state)
{
	int fds[2];

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	peer = fds[0];
	ours = fds[1];
	base = event_base_new();
	message[0] = asked[0] = '\0';
	messages_seen = 0;
	message_len = 0;
	end_reason = 1;
	drained = 0;
	answer = "{}";
	word = ADMIT_YES;
	times = (struct http_times){60000, 60000, 60000, 60000, 60000, 60000, 60000};
	assert_int_equal(http_new(base, ours, &fake_events, NULL, &fake_client, &times, &http), 0);
	assert_int_equal(transport_start(http), 0);
	assert_true(http->end_is_hangup);
	return 0;
}

static inline int
fake_teardown(void **state)
{
	(void)state;
	transport_free(http);
	event_base_free(base);
	(void)close(ours);
	if (peer >= 0)
		(void)close(peer);
	return 0;
}

static inline void
fake_turn(void)
{
	clock_turn(base);
}

/* That much time passes. */
static inline void
fake_wait(unsigned ms)
{
	clock_pass_in(base, ms);
}

static inline void
fake_write(const char *text, size_t len)
{
	assert_int_equal(send(peer, text, len, MSG_DONTWAIT | MSG_NOSIGNAL), (ssize_t)len);
	fake_turn();
}

static inline void
fake_say(const char *text)
{
	fake_write(text, strlen(text));
}

/* A whole request with this body, and more headers. */
static inline void
fake_post(const char *more, const char *body)
{
	char text[4096];
	int n = snprintf(text, sizeof(text), FAKE_POST "%sContent-Length: %zu\r\n\r\n%s", more,
			 strlen(body), body);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	fake_say(text);
}

/* What came since the last call, NUL-terminated; the end of the stream as "<end>". */
static inline const char *
fake_read(void)
{
	static char text[1 << 16];
	size_t len = 0;
	ssize_t n;

	fake_turn();
	do {
		n = recv(peer, text + len, sizeof(text) - 8 - len, MSG_DONTWAIT);
		len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	text[len] = '\0';
	if (n == 0)
		(void)strcat(text, "<end>");
	return text;
}

/* The status of the one answer that came, 0 for nothing. */
static inline unsigned
fake_status(const char *text)
{
	unsigned status = 0;

	if (text[0] != '\0')
		assert_int_equal(sscanf(text, "HTTP/1.1 %3u ", &status), 1);
	return status;
}

static inline bool
has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

#define FAKE(t) cmocka_unit_test_setup_teardown(t, fake_setup, fake_teardown)

#endif
