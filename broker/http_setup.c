/*
 * broker/http_setup.c - how a curl handle is set up for the engine, and how its
 * failure is told.
 *
 * Runs in: bailey-broker.
 * Input: trusted; the supervisor's engine settings.
 * Owns: the lists of names and headers in struct http_target.
 *
 * Nothing set here may lead curl to a file, a resolver, a proxy or the
 * environment: the broker is confined when it connects.
 */
#include "http_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_MS 5000L

/* ---- where the engine is ---- */

static bool
is_address(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

static int
set_names(struct http_target *to)
{
	const struct engine_config *c = to->config;
	bool v6 = strchr(c->host, ':') != NULL;
	int n;

	if (c->kind == ENGINE_UNIX) {
		(void)snprintf(to->host, sizeof(to->host), "localhost");
		(void)snprintf(to->origin, sizeof(to->origin), "http://localhost");
		(void)snprintf(to->where, sizeof(to->where), "unix:%s", c->path);
		return 0;
	}
	n = snprintf(to->host, sizeof(to->host), v6 ? "[%s]:%u" : "%s:%u", c->host, c->port);
	if (n < 0 || (size_t)n >= sizeof(to->host))
		return -ENAMETOOLONG;
	(void)snprintf(to->origin, sizeof(to->origin), "%s://%.280s",
		       c->kind == ENGINE_TLS ? "https" : "http", to->host);
	(void)snprintf(to->where, sizeof(to->where), "tcp://%.280s", to->host);
	if (!is_address(c->host)) {
		char entry[400];

		v6 = strchr(c->address, ':') != NULL;
		(void)snprintf(entry, sizeof(entry), v6 ? "%s:%u:[%s]" : "%s:%u:%s", c->host,
			       c->port, c->address);
		to->resolve = curl_slist_append(NULL, entry);
		if (to->resolve == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int
set_headers(struct http_target *to)
{
	static const char *const rows[] = {"Content-Type: application/json",
					   "Expect:", ("User-Agent: bailey/" BAILEY_VERSION)};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct curl_slist *next = curl_slist_append(to->headers, rows[i]);

		if (next == NULL)
			return -ENOMEM;
		to->headers = next;
	}
	return 0;
}

int
http_target_init(struct http_target *to, const struct engine_config *config)
{
	int r;

	to->config = config;
	r = set_names(to);
	return r < 0 ? r : set_headers(to);
}

void
http_target_done(struct http_target *to)
{
	curl_slist_free_all(to->resolve);
	curl_slist_free_all(to->headers);
}

/* ---- a handle ---- */

static CURLcode
set_tls(const struct http_target *to, CURL *curl)
{
	static const struct {
		enum engine_pem_kind kind;
		CURLoption option;
	} rows[] = {{PEM_CA, CURLOPT_CAINFO_BLOB},
		    {PEM_CERT, CURLOPT_SSLCERT_BLOB},
		    {PEM_KEY, CURLOPT_SSLKEY_BLOB}};
	CURLcode r;

	/* Whatever path libcurl was built with must not be looked at. */
	(void)curl_easy_setopt(curl, CURLOPT_CAINFO, NULL);
	(void)curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
	r = curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	for (size_t i = 0; r == CURLE_OK && i < ARRAY_LEN(rows); i++) {
		const struct buf *pem = &to->config->pem[rows[i].kind];
		struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};

		blob.len = buf_len(pem);
		if (blob.len == 0)
			continue;
		blob.data = pem->data + pem->off;
		r = curl_easy_setopt(curl, rows[i].option, &blob);
	}
	return r;
}

CURLcode
http_setup(const struct http_target *to, CURL *curl, const char *path, void *private)
{
	static const struct {
		CURLoption option;
		long value;
	} rows[] = {
		{CURLOPT_NOSIGNAL, 1},
		{CURLOPT_NOPROGRESS, 1},
		{CURLOPT_FOLLOWLOCATION, 0},
		{CURLOPT_NETRC, CURL_NETRC_IGNORED},
		{CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
		{CURLOPT_HTTP09_ALLOWED, 0},
		{CURLOPT_HTTP_CONTENT_DECODING, 0},
		{CURLOPT_PATH_AS_IS, 1},
		{CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS},
		{CURLOPT_DNS_CACHE_TIMEOUT, -1},
		{CURLOPT_TCP_KEEPALIVE, 1},
		{CURLOPT_TCP_KEEPIDLE, 15},
		{CURLOPT_TCP_KEEPINTVL, 5},
		{CURLOPT_SSL_VERIFYPEER, 1},
		{CURLOPT_SSL_VERIFYHOST, 2},
	};
	char url[1400];
	CURLcode r = CURLE_OK;
	int n = snprintf(url, sizeof(url), "%s%s", to->origin, path);

	if (n < 0 || (size_t)n >= sizeof(url))
		return CURLE_URL_MALFORMAT;
	for (size_t i = 0; r == CURLE_OK && i < ARRAY_LEN(rows); i++)
		r = curl_easy_setopt(curl, rows[i].option, rows[i].value);
	if (r == CURLE_OK)
		r = curl_easy_setopt(curl, CURLOPT_URL, url);
	if (r == CURLE_OK)
		r = curl_easy_setopt(curl, CURLOPT_PRIVATE, private);
	if (r == CURLE_OK)
		r = curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* nor from the environment */
	if (r == CURLE_OK)
		r = curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR,
				     to->config->kind == ENGINE_TLS ? "https" : "http");
	if (r == CURLE_OK && to->config->kind == ENGINE_UNIX)
		r = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, to->config->path);
	if (r == CURLE_OK && to->resolve != NULL)
		r = curl_easy_setopt(curl, CURLOPT_RESOLVE, to->resolve);
	if (r == CURLE_OK && to->config->kind == ENGINE_TLS)
		r = set_tls(to, curl);
	return r;
}

/* ---- what went wrong, in our words ---- */

int
http_explain(const struct http_target *to, CURL *curl, CURLcode code, char *out, size_t cap)
{
	static const struct {
		CURLcode code;
		int err;
		const char *text;
	} rows[] = {
		{CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, "gave no answer in time"},
		{CURLE_GOT_NOTHING, -ECONNRESET, "closed the connection without an answer"},
		{CURLE_RECV_ERROR, -ECONNRESET, "broke the connection before its answer was whole"},
		{CURLE_SEND_ERROR, -ECONNRESET, "broke the connection during the request"},
		{CURLE_PARTIAL_FILE, -ECONNRESET, "ended its answer early"},
		{CURLE_PEER_FAILED_VERIFICATION, -ENOTCONN,
		 "has a certificate that does not verify"},
		{CURLE_SSL_CONNECT_ERROR, -ENOTCONN, "refused the TLS handshake"},
		{CURLE_SSL_CERTPROBLEM, -ENOTCONN,
		 "cannot be reached: bad client certificate or key"},
		{CURLE_SSL_CACERT_BADFILE, -ENOTCONN, "cannot be reached: bad CA certificate"},
		{CURLE_OUT_OF_MEMORY, -ENOMEM, "cannot be asked: out of memory"},
		{HTTP_TOO_MANY, -EBUSY, "cannot be asked: too many requests are under way"},
		{CURLE_NOT_BUILT_IN, -ENOTCONN, "cannot be reached: libcurl lacks a TLS feature"},
		/* of CURLOPT_RESOLVE, for a name the supervisor could not look up */
		{CURLE_SETOPT_OPTION_SYNTAX, -ENOTCONN,
		 "cannot be reached: its name has no address"},
	};
	const char *where = to->where;
	long os = 0;

	if (curl != NULL)
		(void)curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os);
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST) {
		const char *why = os > 0 ? strerrordesc_np((int)os) : NULL;

		(void)snprintf(out, cap, "cannot connect to the engine at %.100s: %.60s", where,
			       why != NULL ? why : "it accepts no connection");
		return -ENOTCONN;
	}
	/* How TLS 1.3 ends where a client certificate is asked for. */
	if ((code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR) &&
	    to->config->kind == ENGINE_TLS && buf_len(&to->config->pem[PEM_CERT]) == 0) {
		(void)snprintf(out, cap,
			       "the engine at %.100s may want a client certificate: "
			       "it closed the connection",
			       where);
		return -ENOTCONN;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].code != code)
			continue;
		(void)snprintf(out, cap, "the engine at %.110s %s", where, rows[i].text);
		return rows[i].err;
	}
	(void)snprintf(out, cap, "the engine at %.90s does not speak HTTP as expected (%.60s)",
		       where, curl_easy_strerror(code));
	return -EPROTO;
}
