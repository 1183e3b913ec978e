/*
 * broker/http_raw.c - connections to the engine without HTTP on them, made by
 * libcurl so that TLS is the same as everywhere.
 *
 * Runs in: bailey-broker.
 * Input: untrusted bytes, handed on unlooked at.
 * Owns: the easy handle of each connection; its descriptor is curl's.
 *
 * The handle stays in the multi after the connection stands: taking it out
 * closes it. curl then no longer watches the descriptor; our user does.
 */
#include "http_parts.h"

#include <errno.h>
#include <stdlib.h>

struct http_raw {
	struct easy easy;
	curl_socket_t fd;
	void *ctx;
	void (*opened)(void *ctx, int err, const char *message);
};
_Static_assert(offsetof(struct http_raw, easy) == 0, "http.c goes from one to the other");

void
http_raw_deliver(struct http_raw *raw)
{
	char message[ENGINE_MESSAGE_MAX] = "";
	int err = 0;

	if (raw->easy.result != CURLE_OK)
		err = http_easy_tell(&raw->easy, message, sizeof(message));
	else if (curl_easy_getinfo(raw->easy.curl, CURLINFO_ACTIVESOCKET, &raw->fd) != CURLE_OK ||
		 raw->fd == CURL_SOCKET_BAD)
		err = -ENOTCONN;
	raw->opened(raw->ctx, err, message);
}

struct http_raw *
http_raw_open(struct http *h, uint32_t deadline_ms, void *ctx,
	      void (*opened)(void *ctx, int err, const char *message))
{
	struct http_raw *raw = xcalloc(1, sizeof(*raw));
	CURLcode r = CURLE_OUT_OF_MEMORY;

	raw->easy.http = h;
	raw->easy.raw = true;
	raw->fd = CURL_SOCKET_BAD;
	raw->ctx = ctx;
	raw->opened = opened;
	raw->easy.curl = curl_easy_init();
	if (raw->easy.curl != NULL)
		r = http_setup(&h->to, raw->easy.curl, "/", &raw->easy);
	if (r == CURLE_OK)
		r = curl_easy_setopt(raw->easy.curl, CURLOPT_CONNECT_ONLY, 1L);
	if (r == CURLE_OK)
		r = curl_easy_setopt(raw->easy.curl, CURLOPT_TIMEOUT_MS, (long)deadline_ms);
	http_easy_begin(&raw->easy, r);
	return raw;
}

int
http_raw_fd(const struct http_raw *raw)
{
	return raw->fd;
}

bool
http_raw_same_retry(const struct http_raw *raw)
{
	return raw->easy.http->to.config->kind == ENGINE_TLS;
}

ssize_t
http_raw_send(struct http_raw *raw, const void *p, size_t n)
{
	size_t sent = 0;
	CURLcode r = curl_easy_send(raw->easy.curl, p, n, &sent);

	if (r == CURLE_AGAIN || (r == CURLE_OK && sent == 0))
		return -EAGAIN;
	return r == CURLE_OK ? (ssize_t)sent : -EPIPE;
}

ssize_t
http_raw_recv(struct http_raw *raw, void *p, size_t n)
{
	size_t got = 0;
	CURLcode r = curl_easy_recv(raw->easy.curl, p, n, &got);

	if (r == CURLE_AGAIN)
		return -EAGAIN;
	return r == CURLE_OK ? (ssize_t)got : -EPIPE;
}

void
http_raw_close(struct http_raw *raw)
{
	if (raw == NULL)
		return;
	http_easy_detach(&raw->easy);
	free(raw);
}
