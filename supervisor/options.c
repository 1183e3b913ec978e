/*
 * supervisor/options.c - the environment variables of baileyd, in every mode.
 * Runs in: baileyd, before anything is started.
 * Input: the environment of the user who starts the tree; trusted as far as the
 *	user's own rights go, checked so that a slip gets a clear answer.
 * Owns: nothing.
 */
#include "supervisor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1024) * 1024)
#define CPUS_MAX UINT64_C(64) /* there are files for as many (guest/CMakeLists.txt) */

static int
parse_image(struct options *o, const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n >= sizeof(o->image))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		/* The first character may not look like an option or a path. */
		if (!plain && (i == 0 || strchr("._/:@-", c) == NULL))
			return -EINVAL;
	}
	return str_copy(o->image, sizeof(o->image), s, n);
}

/* "2", "1.5", "0.125": thousandths without floating point. */
static int
parse_cpus(struct options *o, const char *s)
{
	char whole[8];
	uint64_t cores, thousandths = 0;
	const char *dot = strchr(s, '.');
	size_t n = dot != NULL ? (size_t)(dot - s) : strlen(s);

	int r = str_copy(whole, sizeof(whole), s, n);
	if (r < 0)
		return r;
	r = parse_u64(whole, 0, CPUS_MAX, &cores);
	if (r < 0)
		return r;
	if (dot != NULL) {
		char digits[4] = "000";
		size_t given = strlen(dot + 1);
		if (given == 0 || given > 3)
			return -EINVAL;
		memcpy(digits, dot + 1, given);
		r = parse_u64(digits, 0, 999, &thousandths);
		if (r < 0)
			return r;
	}
	uint64_t milli = cores * 1000 + thousandths;
	if (milli < 100 || milli > CPUS_MAX * 1000)
		return -ERANGE;
	o->max_cpus_milli = (uint32_t)milli;
	return 0;
}

static int
parse_memory(struct options *o, const char *s)
{
	uint64_t mib;
	int r = parse_u64(s, 32, 4194304, &mib);

	if (r == 0)
		o->max_memory_bytes = mib * MIB;
	return r;
}

static int
parse_timeout(struct options *o, const char *s)
{
	uint64_t seconds;
	int r = parse_u64(s, 1, 300, &seconds);

	if (r == 0)
		o->timeout_ms = (uint32_t)(seconds * 1000);
	return r;
}

static int
parse_docker_host(struct options *o, const char *s)
{
	static const char *const schemes[] = {"unix:///", "tcp://"};

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (strncmp(s, schemes[i], strlen(schemes[i])) == 0)
			return str_copy(o->docker_host, sizeof(o->docker_host), s, strlen(s));
	return *s == '\0' ? 0 : -EINVAL;
}

static int
parse_tls_verify(struct options *o, const char *s)
{
	o->tls = *s != '\0';
	return 0;
}

static int
parse_dir(char *dst, size_t cap, const char *s)
{
	size_t n = strlen(s);

	if (n == 0)
		return 0;
	if (s[0] != '/' || n > 480)
		return -EINVAL;
	return str_copy(dst, cap, s, n);
}

static int
parse_cert_path(struct options *o, const char *s)
{
	return parse_dir(o->cert_path, sizeof(o->cert_path), s);
}

static int
parse_share_dir(struct options *o, const char *s)
{
	return parse_dir(o->share_dir, sizeof(o->share_dir), s);
}

static int
parse_pool(struct options *o, const char *s)
{
	if (strcmp(s, "0") != 0 && strcmp(s, "1") != 0)
		return -EINVAL;
	o->no_pool = s[0] == '0';
	return 0;
}

static int
parse_count(uint32_t *ret, const char *s)
{
	uint64_t n;
	int r = parse_u64(s, 1, 1536, &n);

	if (r == 0)
		*ret = (uint32_t)n;
	return r;
}

static int
parse_connections(struct options *o, const char *s)
{
	return parse_count(&o->connections, s);
}

static int
parse_connections_user(struct options *o, const char *s)
{
	return parse_count(&o->connections_user, s);
}

static int
parse_debug(struct options *o, const char *s)
{
	if (strcmp(s, "0") != 0 && strcmp(s, "1") != 0)
		return -EINVAL;
	o->debug = o->debug || s[0] == '1';
	return 0;
}

static int
parse_confine(struct options *o, const char *s)
{
	o->confine_log = *s != '\0';
#ifdef BAILEY_CONFINE_LOG
	return o->confine_log && strcmp(s, "log") != 0 ? -EINVAL : 0;
#else
	return o->confine_log ? -EINVAL : 0;
#endif
}

static const struct {
	const char *name;
	int (*parse)(struct options *o, const char *value);
	const char *fallback, *allowed, *help;
} rows[] = {
#define OPTION(name, parser, fallback, allowed, help) \
	{#name, parse_##parser, fallback, allowed, help},
#include "options.def"
#undef OPTION
};

int
options_from_env(struct options *ret, char *error, size_t cap)
{
	struct options o = {.debug = ret->debug};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* Single-threaded, and nothing here changes the environment. */
		const char *value = getenv(rows[i].name); // NOLINT(concurrency-mt-unsafe)
		char shown[256];

		/* An empty variable is one that is not set, as for the engine's own tools. */
		if (value == NULL || *value == '\0')
			value = rows[i].fallback;
		if (rows[i].parse(&o, value) == 0)
			continue;
		size_t n = strlen(value);
		int len = snprintf(error, cap, "%s=%s%s: must be %s", rows[i].name,
				   log_escape(shown, sizeof(shown), value, n > 60 ? 60 : n),
				   n > 60 ? "..." : "", rows[i].allowed);
		if (len < 0)
			error[0] = '\0';
		return -EINVAL;
	}
	*ret = o;
	return 0;
}

void
options_print(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		printf("%-18s %s\n%18s allowed: %s\n%18s default: %s\n", rows[i].name, rows[i].help,
		       "", rows[i].allowed, "",
		       rows[i].fallback[0] != '\0' ? rows[i].fallback : "(empty)");
}
