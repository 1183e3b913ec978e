/*
 * sandbox-profiles/container/render.c - container.def as the engine's JSON.
 * Runs in: the build only: render json | render c, on stdout.
 * Input: container.def, compiled in; trusted.
 * Owns: nothing.
 * Calls with the same rule share one entry. A condition with a mask puts the
 * mask in "value" and the wanted bits in "valueTwo": that is how the engine
 * hands SCMP_CMP_MASKED_EQ on.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CONDITIONS_MAX 3
#ifdef __x86_64__
#define ARCHITECTURE "SCMP_ARCH_X86_64" /* and neither X86 nor X32 */
#else
#define ARCHITECTURE "SCMP_ARCH_AARCH64"
#endif
#define CLONE_ANY_NAMESPACE                                                            \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)
#define SOCKET_TYPE 0xf /* the kernel's own mask: what is above are flags */

struct condition {
	bool used, masked;
	unsigned int arg;
	uint64_t mask, value;
};
struct row {
	const char *name;
	int err; /* 0: allowed */
	struct condition conditions[CONDITIONS_MAX];
};

static const struct row rows[] = {
#define EQ(arg_, value_)                                 \
	{                                                \
		true, false, arg_, 0, (uint64_t)(value_) \
	}
#define MASKED(arg_, mask_, value_)                                     \
	{                                                               \
		true, true, arg_, (uint64_t)(mask_), (uint64_t)(value_) \
	}
#define ALLOW(call) {.name = #call},
#define ALLOW_IF(call, ...) {.name = #call, .conditions = {__VA_ARGS__}},
#define ERRNO(call, number) {.name = #call, .err = (number)},
#include "container.def"
};
static const size_t row_count = sizeof(rows) / sizeof(rows[0]);

static bool
same_plain_rule(const struct row *a, const struct row *b)
{
	return a->err == b->err && !a->conditions[0].used && !b->conditions[0].used;
}

static bool
already_put(const struct row *row)
{
	for (const struct row *before = rows; before < row; before++) {
		if (same_plain_rule(before, row))
			return true;
	}
	return false;
}

static void
put_conditions(FILE *out, const struct row *row)
{
	(void)fprintf(out, "\"args\":[");
	for (size_t i = 0; i < CONDITIONS_MAX && row->conditions[i].used; i++) {
		const struct condition *c = &row->conditions[i];

		(void)fprintf(out,
			      "%s{\"index\":%u,\"value\":%" PRIu64 ",\"valueTwo\":%" PRIu64
			      ",\"op\":\"%s\"}",
			      i == 0 ? "" : ",", c->arg, c->masked ? c->mask : c->value,
			      c->masked ? c->value : 0,
			      c->masked ? "SCMP_CMP_MASKED_EQ" : "SCMP_CMP_EQ");
	}
	(void)fprintf(out, "],");
}

/* One entry for a row with conditions, or for all rows without that end alike. */
static void
put_entry(FILE *out, const struct row *first)
{
	(void)fprintf(out, "{\"names\":[\"%s\"", first->name);
	if (!first->conditions[0].used) {
		for (const struct row *row = first + 1; row < rows + row_count; row++) {
			if (same_plain_rule(first, row))
				(void)fprintf(out, ",\"%s\"", row->name);
		}
	}
	(void)fprintf(out, "],");
	if (first->conditions[0].used)
		put_conditions(out, first);
	if (first->err != 0)
		(void)fprintf(out, "\"errnoRet\":%d,", first->err);
	(void)fprintf(out, "\"action\":\"%s\"}",
		      first->err == 0 ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
}

/* Some engines ignore the default's errno: EPERM is what all of them mean by it.
 * The native architecture goes without saying, but only where it is said does
 * runc 1.1 answer ENOSYS for calls younger than itself, which libraries expect. */
static void
put_json(FILE *out)
{
	(void)fprintf(out,
		      "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":%d,"
		      "\"architectures\":[\"%s\"],\"syscalls\":[",
		      EPERM, ARCHITECTURE);
	for (const struct row *row = rows; row < rows + row_count; row++) {
		if (already_put(row))
			continue;
		if (row != rows)
			(void)fputc(',', out);
		put_entry(out, row);
	}
	(void)fprintf(out, "]}");
}

static void
put_c(FILE *out, const char *json)
{
	(void)fprintf(out, "/* Generated from container.def by render.c. */\n"
			   "#include \"container_seccomp.h\"\n\n"
			   "const char container_seccomp_json[] = \"");
	for (const char *c = json; *c != '\0'; c++) {
		if (*c == '"')
			(void)fputc('\\', out);
		(void)fputc(*c, out);
	}
	(void)fprintf(out, "\";\n");
}

int
main(int argc, char **argv)
{
	char *json = NULL;
	size_t len = 0;
	bool as_c = argc == 2 && strcmp(argv[1], "c") == 0;

	if (!as_c && (argc != 2 || strcmp(argv[1], "json") != 0)) {
		(void)fprintf(stderr, "usage: render json|c\n");
		return 64;
	}
	FILE *memory = open_memstream(&json, &len);
	if (memory == NULL)
		return 71;
	put_json(memory);
	if (fclose(memory) != 0)
		return 71;
	if (as_c)
		put_c(stdout, json);
	else
		(void)printf("%s\n", json);
	free(json);
	/* Says whether any of the above failed to be written. */
	return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 74;
}
