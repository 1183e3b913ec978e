/*
 * tests/unit/frontend_fake.h - a frontend inside a test: its client, broker and
 * supervisor are the test. The links take the fixed descriptors 3 and 4.
 */
#ifndef BAILEY_FRONTEND_FAKE_H
#define BAILEY_FRONTEND_FAKE_H

#include "test.h"

#include <signal.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>

#include "frontend.h"

static struct frontend fe;
static int broker_end = -1, supervisor_end = -1, client_in = -1, client_out = -1;

static inline void
fake_pair(int fixed, int *ret_end)
{
	int fds[2];

	assert_int_equal(fd_seqpacket_pair(fds), 0);
	*ret_end = fcntl(fds[0], F_DUPFD_CLOEXEC, 40);
	assert_true(*ret_end >= 40);
	(void)close(fds[0]);
	if (fds[1] != fixed) {
		assert_int_equal(dup2(fds[1], fixed), fixed);
		(void)close(fds[1]);
	}
}

static inline void
fake_spin(void)
{
	for (int i = 0; i < 20; i++)
		(void)event_base_loop(fe.base, EVLOOP_NONBLOCK);
}

static inline bool
fake_row(int end, enum ipc_role self, enum ipc_role peer, struct ipc_row *ret)
{
	static uint8_t packet[IPC_PACKET_MAX];
	ssize_t n;

	fake_spin();
	n = recv(end, packet, sizeof(packet), MSG_DONTWAIT);
	if (n <= 0)
		return false;
	assert_int_equal(ipc_decode(packet, (size_t)n, peer, self, ret), 0);
	return true;
}

/* The next row the broker got; false when there is none. */
static inline bool
fake_broker_row(struct ipc_row *ret)
{
	return fake_row(broker_end, IPC_BROKER, IPC_FRONTEND, ret);
}

static inline void
fake_tell(int end, enum ipc_role self, const struct ipc_row *row)
{
	static uint8_t packet[IPC_PACKET_MAX];
	size_t n;

	assert_int_equal(ipc_encode(row, self, IPC_FRONTEND, packet, sizeof(packet), &n), 0);
	assert_int_equal(send(end, packet, n, MSG_DONTWAIT), (ssize_t)n);
	fake_spin();
}

static inline void
fake_broker_tell(const struct ipc_row *row)
{
	fake_tell(broker_end, IPC_BROKER, row);
}

static inline void
fake_open(bool configured)
{
	struct ipc_row row;
	int in[2], out[2];

	fe = (struct frontend){.peer_fd = -1};
	/* the fixed numbers first: the loop's own descriptor must not be one of them */
	fake_pair(FD_SUPERVISOR, &supervisor_end);
	fake_pair(FD_PEER, &broker_end);
	fe.base = event_base_new();
	fe.calls = idmap_new(CALLS_MAX);
	assert_int_equal(leave_init(&fe), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	(void)fcntl(out[1], F_SETPIPE_SZ, 1 << 20);
	client_in = in[1];
	client_out = out[0];
	assert_int_equal(stdio_new(fe.base, in[0], out[1], &frontend_events, &fe, &fe.transport),
			 0);
	assert_int_equal(upcalls_open(&fe, 0), 0);
	assert_true(fake_row(supervisor_end, IPC_SUPERVISOR, IPC_FRONTEND, &row));
	assert_int_equal(row.num, IPC_NUM_ready);
	if (configured)
		fake_tell(supervisor_end, IPC_SUPERVISOR, IPC_ROW(configured));
}

static inline void
fake_close(void)
{
	calls_free_all(&fe);
	upcalls_close(&fe);
	rpc_batches_free(&fe);
	transport_free(fe.transport);
	event_free(fe.leave_timer);
	idmap_free(fe.calls);
	event_base_free(fe.base);
	(void)close(client_in);
	(void)close(client_out);
	(void)close(broker_end);
	(void)close(supervisor_end);
}

/* Around a test: FAKE(test) in the list of them. */
static inline int
open_fake(void **state)
{
	(void)state;
	fake_open(true);
	return 0;
}

static inline int
close_fake(void **state)
{
	(void)state;
	fake_close();
	return 0;
}

#define FAKE(t) cmocka_unit_test_setup_teardown(t, open_fake, close_fake)

/* Everything sent to the client so far; static storage, NUL-terminated. */
static inline const char *
fake_sent(void)
{
	static char text[1 << 21];
	ssize_t n;

	fake_spin();
	n = read(client_out, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

/* The first message sent, parsed; the caller deletes it. */
static inline cJSON *
fake_answer(void)
{
	cJSON *json = cJSON_Parse(fake_sent());

	assert_non_null(json);
	return json;
}

static inline void
fake_say(const char *text)
{
	char *copy = strdup(text);

	mcp_on_message(&fe, copy, strlen(copy));
	free(copy);
}

/* The error code of the one answer to text; 0 for a result. */
static inline int
fake_code(const char *text)
{
	cJSON *answer, *error;
	int code;

	fake_say(text);
	answer = fake_answer();
	error = cJSON_GetObjectItemCaseSensitive(answer, "error");
	code = error == NULL ? 0 : cJSON_GetObjectItemCaseSensitive(error, "code")->valueint;
	cJSON_Delete(answer);
	return code;
}

/* Every key of object is a property of schema, every required property is there, at both levels
 * of nesting our results have. */
static inline void
fake_matches(const cJSON *object, const cJSON *schema)
{
	const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
	const cJSON *item;

	assert_true(cJSON_IsObject(object) && cJSON_IsObject(properties));
	cJSON_ArrayForEach(item, object)
	{
		if (cJSON_GetObjectItemCaseSensitive(properties, item->string) == NULL)
			fail_msg("%s is not in the table", item->string);
	}
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(schema, "required"))
	{
		if (cJSON_GetObjectItemCaseSensitive(object, item->valuestring) == NULL)
			fail_msg("%s is missing", item->valuestring);
	}
}

#endif
