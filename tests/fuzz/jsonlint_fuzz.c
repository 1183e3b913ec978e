/*
 * tests/fuzz/jsonlint_fuzz.c - the JSON gate: what passes, the parser takes, prints and the gate
 * takes again; a told id lies inside the text.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed.
 * Owns: nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Parsed around its longest string, a text gives the same tree. */
static void
parse_around(char *text, size_t size, const struct json_lint *lint, const cJSON *json)
{
	cJSON *around = rpc_parse_long(text, size, lint, 1);

	if (around == NULL || !cJSON_Compare(json, around, true))
		abort();
	cJSON_Delete(around);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_lint lint, of_print;
	char *text = malloc(size + 1), *again;
	cJSON *json;

	memcpy(text, data, size);
	text[size] = '\0';
	if (jsonlint(text, size, &lint) == 0) {
		json = rpc_parse(text, size);
		if (json == NULL)
			abort();
		again = cJSON_PrintUnformatted(json);
		/* numbers may print longer than they were read */
		if (again == NULL ||
		    (jsonlint(again, strlen(again), &of_print) < 0 && of_print.grammar))
			abort();
		free(again);
		parse_around(text, size, &lint, json); /* last: it changes the text */
		cJSON_Delete(json);
	} else if (lint.why == NULL || lint.at > size || lint.id_len > size ||
		   lint.id_at > size - lint.id_len) {
		abort();
	}
	free(text);
	return 0;
}
