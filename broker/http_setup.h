/*
 * broker/http_setup.h - what http.c and http_setup.c share; the two that know libcurl.
 */
#ifndef BAILEY_HTTP_SETUP_H
#define BAILEY_HTTP_SETUP_H

#include "engine_parts.h"

#include <curl/curl.h>

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

#endif
