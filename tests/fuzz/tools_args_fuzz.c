/*
 * tests/fuzz/tools_args_fuzz.c - arguments of every tool: what is refused comes with a sentence
 * that is text.
 * Runs in: ctest (replay), libFuzzer.
 * Input: fuzzed; the first byte names the tool.
 * Owns: nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_lint lint;
	struct buf why;
	char *text;
	cJSON *json;
	bool hidden;

	if (size < 2)
		return 0;
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (jsonlint(text, size - 1, &lint) == 0) {
		json = rpc_parse_long(text, size - 1, &lint, 16);
		buf_init(&why, 4096);
		if (cJSON_IsObject(json) &&
		    args_check((enum tool_no)(data[0] % TOOL_COUNT), json, &why) < 0 &&
		    (buf_len(&why) == 0 || !text_scan(buf_data(&why), buf_len(&why), &hidden) ||
		     hidden))
			abort();
		buf_done(&why);
		cJSON_Delete(json);
	}
	free(text);
	return 0;
}
