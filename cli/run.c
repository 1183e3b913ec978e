/*
 * cli/run.c - `bailey run`: one file in a fresh sandbox, through the same MCP
 * path an agent takes.
 * Runs in: the calling user's terminal.
 * Input: argv and the file, trusted like the user; the run's output, hostile:
 *   it comes back escaped by the frontend, which is undone where it does not go
 *   to a terminal that would obey it.
 * Owns: the private tree while the run lasts.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_MAX (1024u * 1024)
#define STDIN_MAX (4u * 1024 * 1024)

struct run_options {
	const char *language, *file;
	uint64_t timeout_s, memory_mb; /* 0: the profile's default */
	char **args;
	int n_args;
};

static const struct {
	const char *suffix, *language;
} suffixes[] = {{".py", "python"}, {".js", "node"}, {".mjs", "node"},
		{".cjs", "node"},  {".sh", "bash"}, {".bash", "bash"}};

/* NULL: its name says a language, and none of ours. */
static const char *
language_of(const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *name = slash != NULL ? slash + 1 : file;
	const char *dot = strrchr(name, '.');

	if (dot == NULL || dot == name || dot[1] == '\0')
		return "python";
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
		if (strcmp(dot, suffixes[i].suffix) == 0)
			return suffixes[i].language;
	return NULL;
}

/* What getopt found wrong, in the word that was typed: it would name letters alone. */
static int
refuse_option(int c, const char *word)
{
	if (c == ':')
		cli_error("\"%s\" needs a value; bailey run --help says which", word);
	else
		cli_error("unknown option \"%s\"; bailey run --help lists them", word);
	return -EINVAL;
}

static int
parse_options(int argc, char **argv, struct run_options *o)
{
	int c, at;

	*o = (struct run_options){0};
	optind = 1;
	opterr = 0;
	while (at = optind, (c = getopt(argc, argv, "+:l:t:m:")) != -1) {
		if (c == 'l') {
			o->language = optarg;
		} else if (c == 't' && parse_u64(optarg, 1, 86400, &o->timeout_s) < 0) {
			cli_error("-t takes whole seconds from 1, not \"%s\"", optarg);
			return -EINVAL;
		} else if (c == 'm' && parse_u64(optarg, 1, 1u << 20, &o->memory_mb) < 0) {
			cli_error("-m takes whole megabytes from 1, not \"%s\"", optarg);
			return -EINVAL;
		} else if (c == '?' || c == ':') {
			return refuse_option(c, argv[at]);
		}
	}
	o->file = optind < argc ? argv[optind] : "-";
	o->args = argv + (optind < argc ? optind + 1 : argc);
	o->n_args = argc - (int)(o->args - argv);
	if (o->language == NULL)
		o->language = language_of(o->file);
	if (o->language == NULL) {
		cli_error("%s: its name says no language that runs here; say it with -l python, "
			  "-l bash or -l node",
			  o->file);
		return -EINVAL;
	}
	return 0;
}

/* All of fd, at most what b holds. */
static int
read_all(int fd, struct buf *b)
{
	for (;;) {
		uint8_t chunk[8192];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -errno;
		if (n == 0)
			return 0;
		int r = buf_append(b, chunk, (size_t)n);
		if (r < 0)
			return r;
	}
}

/* Adds b as a JSON string; -EILSEQ unless it is UTF-8 without NUL. */
static int
add_text(cJSON *o, const char *key, struct buf *b)
{
	const char *text = (const char *)buf_data(b);
	size_t len = buf_len(b);

	if (len > 0 && (!utf8_valid(text, len) || memchr(text, '\0', len) != NULL))
		return -EILSEQ;
	int r = buf_append(b, "", 1);
	if (r < 0)
		return r;
	cJSON_AddStringToObject(o, key, (const char *)buf_data(b));
	return 0;
}

static int
add_code(cJSON *arguments, const char *file)
{
	struct buf code;
	bool is_stdin = strcmp(file, "-") == 0;
	cleanup_close int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					: open(file, O_RDONLY | O_CLOEXEC);

	if (fd == -1) {
		cli_error("cannot open %s: %s", file, strerror(errno));
		return -errno;
	}
	if (is_stdin && isatty(fd))
		cli_error("reading the code from the terminal; end it with Ctrl-D");
	buf_init(&code, CODE_MAX + 1);
	int r = read_all(fd, &code);
	if (r == 0)
		r = add_text(arguments, "code", &code);
	buf_done(&code);
	if (r == -ENOSPC)
		cli_error("%s is larger than 1 MiB, the most one run takes", file);
	else if (r == -EILSEQ)
		cli_error("%s is not UTF-8 text", file);
	else if (r < 0)
		cli_error("cannot read %s: %s", file, strerror(-r));
	return r;
}

/* What is piped in becomes the run's stdin, unless the code itself came that way. */
static int
add_stdin(cJSON *arguments, const char *file)
{
	struct buf in;
	struct stat st;

	if (strcmp(file, "-") == 0 || isatty(STDIN_FILENO) || fstat(STDIN_FILENO, &st) == -1 ||
	    S_ISCHR(st.st_mode))
		return 0;
	buf_init(&in, STDIN_MAX + 1);
	int r = read_all(STDIN_FILENO, &in);
	if (r == 0 && buf_len(&in) > 0)
		r = add_text(arguments, "stdin", &in);
	buf_done(&in);
	if (r < 0)
		cli_error("standard input cannot be handed on: %s",
			  r == -ENOSPC   ? "it is larger than 4 MiB"
			  : r == -EILSEQ ? "it is not UTF-8 text"
					 : strerror(-r));
	return r;
}

static cJSON *
build_arguments(const struct run_options *o)
{
	cJSON *arguments = cJSON_CreateObject();

	cJSON_AddStringToObject(arguments, "language", o->language);
	if (o->timeout_s != 0)
		cJSON_AddNumberToObject(arguments, "timeout_seconds", (double)o->timeout_s);
	if (o->memory_mb != 0)
		cJSON_AddNumberToObject(arguments, "memory_mb", (double)o->memory_mb);
	if (o->n_args > 0) {
		cJSON *args = cJSON_AddArrayToObject(arguments, "args");
		for (int i = 0; i < o->n_args; i++)
			cJSON_AddItemToArray(args, cJSON_CreateString(o->args[i]));
	}
	if (add_code(arguments, o->file) < 0 || add_stdin(arguments, o->file) < 0) {
		cJSON_Delete(arguments);
		return NULL;
	}
	return arguments;
}

static size_t
put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00u >> n & 0xf0) | c);
	return n;
}

/* The length of a \u{HEX} that starts p, its code point in *ret_c; 0 where there is none. */
static size_t
code_point(const char *p, uint32_t *ret_c)
{
	const char *hex = "0123456789ABCDEF", *at;
	size_t digits = 0;
	uint32_t c = 0;

	if (strncmp(p, "\\u{", 3) != 0)
		return 0;
	for (p += 3; digits < 7 && p[digits] != '\0'; digits++) {
		at = strchr(hex, p[digits]);
		if (at == NULL)
			break;
		c = c << 4 | (uint32_t)(at - hex);
	}
	*ret_c = c;
	return digits > 0 && p[digits] == '}' && c <= 0x10ffff ? digits + 4 : 0;
}

/* In place: a doubled backslash is one, \u{HEX} a code point; the result is never longer. */
static size_t
undo_escapes(char *text)
{
	size_t n = 0;

	for (const char *p = text; *p != '\0';) {
		uint32_t c = 0;
		size_t len = code_point(p, &c);

		if (len > 0) {
			n += put_utf8(text + n, c);
			p += len;
		} else {
			bool doubled = p[0] == '\\' && p[1] == '\\';

			text[n++] = *p;
			p += doubled ? 2 : 1;
		}
	}
	return n;
}

/* The bytes of the run where nobody obeys them; on a terminal the safe form stays. */
static void
print_part(char *text, const char *encoding, bool terminal, FILE *out)
{
	size_t len = strlen(text);
	struct buf bytes;

	buf_init(&bytes, len);
	if (!terminal && strcmp(encoding, "base64") == 0 && base64_decode(&bytes, text, len) == 0)
		(void)fwrite(buf_data(&bytes), 1, buf_len(&bytes), out);
	else if (!terminal && strcmp(encoding, "escaped") == 0)
		(void)fwrite(text, 1, undo_escapes(text), out);
	else
		(void)fwrite(text, 1, len, out);
	buf_done(&bytes);
}

/* Head, a note of what was left out, tail. */
static void
print_stream(const cJSON *result, const char *key, bool terminal, FILE *out)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "%s_encoding", key);
	const char *encoding = mcp_result_str(result, name);
	if (terminal && strcmp(encoding, "base64") == 0)
		cli_error("%s is not UTF-8; shown as base64", key);
	cleanup_free char *head = xstrdup(mcp_result_str(result, key));
	print_part(head, encoding, terminal, out);
	(void)snprintf(name, sizeof(name), "%s_omitted_bytes", key);
	double omitted = mcp_result_num(result, name, 0);
	if (omitted > 0) {
		(void)fflush(out);
		cli_error("%.0f bytes of %s left out here; write long results to a file", omitted,
			  key);
		(void)snprintf(name, sizeof(name), "%s_tail", key);
		cleanup_free char *tail = xstrdup(mcp_result_str(result, name));
		print_part(tail, encoding, terminal, out);
	}
	(void)fflush(out); /* a closed reader is no fault of the run */
}

static void
print_reason(const cJSON *result, const char *status)
{
	const char *message = mcp_result_str(result, "message");
	const cJSON *content = cJSON_GetObjectItemCaseSensitive(result, "content");
	const cJSON *text =
		cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(content, 0), "text");
	cli_error("%s: %s", status[0] != '\0' ? status : "not run",
		  message[0] != '\0'     ? message
		  : cJSON_IsString(text) ? text->valuestring
					 : "no reason given");
}

/* A limit that was met does not change how the code ended (oom_killed, disk_full …). */
static int
exit_code_of(const cJSON *result)
{
	static const char *const plain[] = {"ok", "nonzero", "signaled"};
	const char *status = mcp_result_str(result, "status");
	double code = mcp_result_num(result, "exit_code", -1);
	double signal = mcp_result_num(result, "signal", 0);
	bool said = false;

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		said = said || strcmp(status, plain[i]) == 0;
	if (!said)
		print_reason(result, status);
	if (strcmp(status, "timed_out") == 0)
		return CLI_TIMED_OUT;
	if (signal > 0)
		return 128 + (int)signal;
	return code >= 0 ? (int)code : CLI_NOT_RUN;
}

int
cmd_run(int argc, char **argv)
{
	struct run_options o;
	struct mcp_client client;

	if (parse_options(argc, argv, &o) < 0)
		return CLI_USAGE;
	char **server = mcp_client_argv();
	cJSON *arguments = server == NULL ? NULL : build_arguments(&o);
	if (arguments == NULL)
		return CLI_NOT_RUN;
	int r = mcp_open(&client, server);
	if (r < 0) {
		cJSON_Delete(arguments);
		mcp_open_failed(r);
		return CLI_NOT_RUN;
	}
	cJSON *result = mcp_call(&client, "execute_code", arguments, false, NULL);
	int code = CLI_NOT_RUN;
	if (result != NULL) {
		print_stream(result, "stdout", isatty(STDOUT_FILENO) == 1, stdout);
		print_stream(result, "stderr", isatty(STDERR_FILENO) == 1, stderr);
		code = exit_code_of(result);
		cJSON_Delete(result);
	}
	(void)mcp_close(&client); /* the run's own ending is what counts */
	return code;
}
