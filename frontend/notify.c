/*
 * frontend/notify.c - notifications/message: what happens to a call, for those who asked.
 * Runs in: bailey-frontend.
 * Input: a level named by the client; words of our own.
 * Owns: nothing.
 *
 * A legacy client asks by logging/setLevel, for its connection or, over http, for
 * its session whatever connection a request comes on; a modern request by its own
 * _meta. Without either nothing is sent. Output and code are never logged.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define TEXT_MAX 300u

static const char *const words[LOG_WORDS] = {
	[LOG_NONE] = "",
	[LOG_DEBUG] = "debug",
	[LOG_INFO] = "info",
	[LOG_NOTICE] = "notice",
	[LOG_WARNING] = "warning",
	[LOG_ERROR] = "error",
	[LOG_CRITICAL] = "critical",
	[LOG_ALERT] = "alert",
	[LOG_EMERGENCY] = "emergency",
};

int
notify_level(const struct cJSON *item, uint8_t *ret)
{
	for (uint8_t i = LOG_DEBUG; cJSON_IsString(item) && i < LOG_WORDS; i++) {
		if (strcmp(item->valuestring, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	return -EINVAL;
}

void
notify_set_level(struct frontend *fe, const struct reply_to *to, const struct cJSON *params)
{
	if (notify_level(cJSON_GetObjectItemCaseSensitive(params, "level"), &fe->log_level) < 0) {
		rpc_send_error(fe, to, RPC_PARAMS, NULL,
			       "params.level must be one of: debug, info, notice, warning, error, "
			       "critical, alert, emergency");
		return;
	}
	client_note_level(fe); /* first: the next request may come on another connection */
	rpc_send_result(fe, to, cJSON_CreateObject());
}

void
notify_call(const struct call *c, enum log_word level, const char *fmt, ...)
{
	uint8_t least = c->to.rev == REV_2026_07_28 ? c->to.log_level : c->fe->log_level;
	char text[TEXT_MAX];
	cJSON *params;
	va_list ap;

	if (least == LOG_NONE || (uint8_t)level < least || c->state == CALL_CANCELLED)
		return;
	va_start(ap, fmt);
	/* clang-tidy 14 does not see va_start.
	 * NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	params = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(params, "level", words[level]);
	(void)cJSON_AddStringToObject(params, "logger", "bailey");
	(void)cJSON_AddStringToObject(params, "data", text);
	rpc_send_notification(c->fe, &c->to, "notifications/message", params);
}
