/*
 * base/log.c - one line per event on descriptor 2, and the end of a process.
 * Runs in: every process and the guest, also under a system call filter.
 * Input: format strings of our own; peer text only through log_escape.
 * Owns: the process name, its pid and the level.
 *
 * vsnprintf and send(2) or write(2), one a line: stdio streams and dprintf ask
 * for fstat and lseek, which the filters do not have.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base.h"

#define LOG_TEXT_MAX 1000
#define LOG_PEER_MAX 200
#define LOG_WINDOW_MS 10000
#define EXIT_FATAL 70 /* EX_SOFTWARE */

static struct {
	char name[32];
	long pid;
	enum log_level max_level;
	struct log_note last; /* the latest warning or error */
} log_state = {.name = "bailey", .max_level = LOG_L_INFO};

/* syslog numbers: journald reads them as the line's priority */
static const char log_prio[] = {
	[LOG_L_ERROR] = '3',
	[LOG_L_WARNING] = '4',
	[LOG_L_INFO] = '6',
	[LOG_L_DEBUG] = '7',
};

void
log_init(const char *process_name, enum log_level max_level)
{
	(void)snprintf(log_state.name, sizeof(log_state.name), "%s", process_name);
	log_state.pid = (long)getpid();
	log_state.max_level = max_level;
}

/* A log that cannot be written has nobody left to be told, and one whose reader does not read
 * must hold nobody: such a line is lost. A socket is asked not to wait; a pipe has its own flag
 * (the supervisor's spawn_unblock_log). */
static void
log_write(const char *line, size_t len)
{
	ssize_t n;

	do
		n = send(FD_LOG, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n == -1 && errno == EINTR);
	if (n != -1 || errno != ENOTSOCK)
		return;
	while (write(FD_LOG, line, len) == -1 && errno == EINTR)
		continue;
}

static void
log_line(enum log_level level, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

/* Bytes that a terminal or a line's reader would act on become \xHH; others stay. */
static size_t
put_plain(char *out, size_t cap, const char *text)
{
	size_t used = 0;

	for (unsigned char before = 0; *text != '\0' && cap - used >= 4; text++) {
		unsigned char c = (unsigned char)*text;
		bool c1 = before == 0xc2 && c >= 0x80 && c < 0xa0; /* UTF-8 of U+0080 to U+009F */

		before = c;
		if (c >= 0x20 && c != 0x7f && !c1) {
			out[used++] = (char)c;
			continue;
		}
		hex_escape(out + used, c);
		used += 4;
	}
	return used;
}

static void
remember(enum log_level level, const char *text, size_t len)
{
	struct log_note *n = &log_state.last;

	if (level > LOG_L_WARNING)
		return;
	n->seq++;
	n->at_ms = clock_now_ms();
	if (len > sizeof(n->text) - 1)
		len = sizeof(n->text) - 1;
	memcpy(n->text, text, len);
	n->text[len] = '\0';
}

static void
log_line(enum log_level level, const char *fmt, va_list args)
{
	char text[LOG_TEXT_MAX + 1], line[LOG_TEXT_MAX + 80];
	int error = errno; /* %m of the caller's format */
	int head;

	head = snprintf(line, sizeof(line), "<%c>%s[%ld]: ", log_prio[level], log_state.name,
			log_state.pid);
	if (head < 0)
		return;
	errno = error;
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		return;
	size_t len = put_plain(line + head, LOG_TEXT_MAX + 3, text);
	remember(level, line + head, len);
	len += (size_t)head;
	line[len++] = '\n';
	log_write(line, len);
}

bool
log_shows(enum log_level level)
{
	return level <= log_state.max_level;
}

const struct log_note *
log_last(void)
{
	return &log_state.last;
}

void
log_at(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list args;

	if (level > log_state.max_level)
		return;
	va_start(args, fmt);
	log_line(level, fmt, args);
	va_end(args);
	errno = saved;
}

const char *
log_escape(char *out, size_t cap, const char *text, size_t len)
{
	size_t used = 0;

	if (cap == 0)
		return out;
	if (len > LOG_PEER_MAX)
		len = LOG_PEER_MAX;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		/* The backslash too, or an escape could be forged. */
		bool plain = c >= 0x20 && c < 0x7f && c != '\\';

		if (cap - used <= (plain ? 1U : 4U))
			break;
		if (plain) {
			out[used++] = (char)c;
			continue;
		}
		hex_escape(out + used, c);
		used += 4;
	}
	out[used] = '\0';
	return out;
}

bool
log_allowed(struct log_limit *limit, uint32_t per_10s)
{
	uint64_t now_ms = clock_now_ms();

	if (limit->window_start_ms == 0 || now_ms - limit->window_start_ms >= LOG_WINDOW_MS) {
		if (limit->dropped > 0)
			log_warn("%u more lines of one kind were left out",
				 (unsigned int)limit->dropped);
		*limit = (struct log_limit){.window_start_ms = now_ms};
	}
	if (limit->count >= per_10s) {
		limit->dropped++;
		return false;
	}
	limit->count++;
	return true;
}

void
fatal(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(LOG_L_ERROR, fmt, args);
	va_end(args);
	_exit(EXIT_FATAL);
}
