/*
 * broker/http_parts.h - what the http*.c files share; only they know libcurl.
 */
#ifndef BAILEY_HTTP_PARTS_H
#define BAILEY_HTTP_PARTS_H

#include "engine_parts.h"

#include <curl/curl.h>
#include <sys/queue.h>

#define HTTP_TOO_MANY CURLE_AGAIN /* our own use of a code no transfer ends with */

/* ---- http_setup.c ---- */
struct http_target {
	const struct engine_config *config;
	struct curl_slist *resolve, *headers;
	char origin[300], host[300], where[320]; /* "http://…", Host header, words for people */
};
int http_target_init(struct http_target *to, const struct engine_config *config);
void http_target_done(struct http_target *to);
/* Everything but method, body and callbacks. */
CURLcode http_setup(const struct http_target *to, CURL *curl, const char *path, void *private);
/* engine.h's code for a failed transfer and a message; curl may be NULL. */
int http_explain(const struct http_target *to, CURL *curl, CURLcode code, char *out, size_t cap);

/* ---- http.c ---- */
/* What every handle in the multi has, and what CURLOPT_PRIVATE points to. */
struct easy {
	struct http *http;
	CURL *curl;
	bool raw, due, finished, oversized;
	CURLcode result;
	TAILQ_ENTRY(easy) all;
	TAILQ_ENTRY(easy) due_link;
};
TAILQ_HEAD(easy_list, easy);

struct http {
	struct event_base *base;
	struct http_target to;
	CURLM *multi;
	struct event *timer, *later;
	struct easy_list all, due;
	size_t count, raws;
	bool pumping, dead; /* freed inside a callback: http_pump lets go of it last */
};

/* Gives a set-up handle (curl may be NULL) to curl; whatever fails is told from the loop. */
void http_easy_begin(struct easy *easy, CURLcode r);
/* Takes the handle out of everything and frees it; what contains it is left to free. */
void http_easy_detach(struct easy *easy);
int http_easy_tell(const struct easy *easy, char *out, size_t cap); /* why it failed */

/* ---- http_raw.c ---- */
void http_raw_deliver(struct http_raw *raw);

#endif
