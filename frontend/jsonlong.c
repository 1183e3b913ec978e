/*
 * frontend/jsonlong.c - a message with one very long string, parsed around it.
 * Runs in: bailey-frontend.
 * Input: text that passed jsonlint.c; still untrusted.
 * Owns: nothing past a call.
 *
 * A file's content is most of the message that brings it. The gate has read every byte of it;
 * cJSON would read it twice more and copy it. It is given the message with one byte in the
 * string's place: one that no UTF-8 text has, so no string of the client's can be taken for it.
 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "message.h"

#define STAND_IN '\xff'

static bool
is_stand_in(const cJSON *item)
{
	return cJSON_IsString(item) && item->valuestring[0] == STAND_IN;
}

/* Down to the first child, else to the next, else to the next of the nearest parent with one. */
static cJSON *
find_stand_in(cJSON *item)
{
	cJSON *above[JSON_DEPTH_MAX + 1];
	size_t depth = 0;

	while (item != NULL && !is_stand_in(item)) {
		if (item->child != NULL && depth < ARRAY_LEN(above)) {
			above[depth++] = item;
			item = item->child;
			continue;
		}
		while (item->next == NULL && depth > 0)
			item = above[--depth];
		item = item->next;
	}
	return item;
}

struct cJSON *
rpc_parse_long(char *text, size_t len, const struct json_lint *lint, size_t least)
{
	size_t at = lint->long_at, end = at + lint->long_len;
	cJSON *json, *item;
	char *cut;

	if (lint->long_len < least || lint->long_len == 0)
		return rpc_parse(text, len);
	cut = malloc(len - lint->long_len + 2);
	if (cut == NULL)
		return NULL;
	memcpy(cut, text, at);
	cut[at] = STAND_IN;
	memcpy(cut + at + 1, text + end, len - end + 1);
	json = rpc_parse(cut, len - lint->long_len + 1);
	free(cut);
	item = find_stand_in(json);
	if (item == NULL) {
		cJSON_Delete(json);
		return NULL;
	}
	text[end] = '\0'; /* where its closing quote was */
	free(item->valuestring);
	item->valuestring = text + at;
	item->type |= cJSON_IsReference;
	return json;
}
