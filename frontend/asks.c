/*
 * frontend/asks.c - requests of ours to a legacy client: sent on the stream of the request they
 * belong to, answered at any time, by any connection of the client.
 * Runs in: bailey-frontend.
 * Input: responses; untrusted. Those of other connections come by way of the broker.
 * Owns: the requests that wait, their timers and what their askers left here.
 *
 * A request's id is random: over http the response may come on another connection,
 * whose frontend hands it to the owner's others by way of the broker, and two of
 * them must never wait for the same one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define ASKS_MAX 16u
#define WAIT_S 60
#define TEXT_MAX 32768u /* of a response for another connection */
#define PREFIX "bailey-"
#define RANDOM_BYTES 12u
#define ID_LEN (sizeof(PREFIX) - 1 + (size_t)2 * RANDOM_BYTES)

struct ask {
	struct frontend *fe;
	struct reply_to to;
	char id[ID_LEN + 1];
	ask_done done;
	void *arg;
	struct event *timer;
	struct ask *next;
};

uint32_t
asks_capabilities(const struct cJSON *capabilities)
{
	static const struct {
		const char *name;
		enum client_can bit;
	} names[] = {
		{"sampling", CAN_SAMPLING}, {"elicitation", CAN_ELICITATION}, {"roots", CAN_ROOTS}};
	uint32_t can = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(capabilities, names[i].name)))
			can |= names[i].bit;
	}
	return can;
}

static void
ask_free(struct ask *a)
{
	event_free(a->timer);
	free(a->arg);
	free(a);
}

/* Ends the request at *at, which leaves the list first: done may ask again. */
static void
finish(struct ask **at, const cJSON *result)
{
	struct ask *a = *at;

	*at = a->next;
	a->done(a->fe, &a->to, result, a->arg);
	ask_free(a);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct ask *a = arg, **at = &a->fe->asks;

	(void)fd;
	(void)what;
	while (*at != a)
		at = &(*at)->next;
	finish(at, NULL);
}

int
asks_send(struct frontend *fe, const struct reply_to *to, enum client_can need, const char *method,
	  struct cJSON *params, ask_done done, void *arg)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	uint8_t random[RANDOM_BYTES];
	unsigned n = 0;
	struct ask *a;

	for (a = fe->asks; a != NULL; a = a->next)
		n++;
	if (n >= ASKS_MAX || to->rev == REV_2026_07_28 || (fe->client_can & need) == 0) {
		cJSON_Delete(params);
		free(arg);
		return n >= ASKS_MAX ? -ENOBUFS : -ENOTSUP;
	}
	a = xcalloc(1, sizeof(*a));
	a->fe = fe;
	a->to = *to;
	a->done = done;
	a->arg = arg;
	memcpy(a->id, PREFIX, sizeof(PREFIX));
	random_bytes(random, sizeof(random));
	hex_encode(a->id + sizeof(PREFIX) - 1, random, sizeof(random));
	a->timer = event_new(fe->base, -1, 0, on_timer, a);
	if (a->timer == NULL || event_add(a->timer, &wait) < 0)
		fatal("no memory for a timer");
	a->next = fe->asks;
	fe->asks = a;
	rpc_send_request(fe, to, a->id, method, params);
	return 0;
}

/* true: it was one of ours. */
static bool
answered(struct frontend *fe, const cJSON *json, const char *id)
{
	for (struct ask **at = &fe->asks; *at != NULL; at = &(*at)->next) {
		if (strcmp((*at)->id, id) != 0)
			continue;
		finish(at, cJSON_GetObjectItemCaseSensitive(json, "result"));
		return true;
	}
	return false;
}

/* NULL where it is no id that a frontend makes. */
static const char *
id_of(const cJSON *json)
{
	const cJSON *id = cJSON_GetObjectItemCaseSensitive(json, "id");

	if (!cJSON_IsString(id) || strncmp(id->valuestring, PREFIX, sizeof(PREFIX) - 1) != 0 ||
	    strlen(id->valuestring) != ID_LEN)
		return NULL;
	return id->valuestring;
}

void
asks_response(struct frontend *fe, const struct cJSON *json)
{
	const char *id = id_of(json);
	cleanup_free char *text = NULL;

	if (id == NULL || answered(fe, json, id) || !client_has_sessions(fe))
		return;
	text = cJSON_PrintUnformatted(json);
	if (text != NULL && strlen(text) <= TEXT_MAX)
		(void)upcalls_answer(fe, id, text, strlen(text));
}

void
asks_text(struct frontend *fe, const char *text, size_t len)
{
	cleanup_free char *copy = xstrndup(text, len);
	struct json_lint lint;
	const char *id;
	cJSON *json;

	if (fe->asks == NULL || strlen(copy) != len || jsonlint(copy, len, &lint) < 0)
		return;
	json = rpc_parse(copy, len);
	id = id_of(json);
	if (id != NULL)
		(void)answered(fe, json, id);
	cJSON_Delete(json);
}

void
asks_free_all(struct frontend *fe)
{
	while (fe->asks != NULL) {
		struct ask *a = fe->asks;

		fe->asks = a->next;
		ask_free(a);
	}
}
