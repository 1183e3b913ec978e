/*
 * frontend/args.c - a tool's arguments against tools.def, and how they are read afterwards.
 * Runs in: bailey-frontend.
 * Input: untrusted arguments, JSON that passed jsonlint.c.
 * Owns: nothing.
 *
 * A bad argument becomes a sentence that names it, what was wrong and what is
 * allowed, so that a model can correct itself.
 */
#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define SHOWN_MAX 64u /* bytes of a client's own word in a sentence */

/* ---- read, once checked ---- */

const char *
args_text(const struct cJSON *args, const char *name, const char *otherwise)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(args, name);

	return item == NULL ? otherwise : item->valuestring;
}

uint64_t
args_milli(const struct cJSON *args, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(args, name);

	return item == NULL ? 0 : (uint64_t)(item->valuedouble * 1000.0 + 0.5);
}

uint64_t
args_number(const struct cJSON *args, const char *name, uint64_t otherwise)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(args, name);

	return item == NULL ? otherwise : (uint64_t)item->valuedouble;
}

bool
args_true(const struct cJSON *args, const char *name)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args, name));
}

int
args_mode(const char *text, uint32_t *ret)
{
	uint32_t mode = 0;

	for (const char *at = text; *at != '\0'; at++) {
		if (*at < '0' || *at > '7' || at - text >= 4)
			return -EINVAL;
		mode = mode * 8 + (uint32_t)(*at - '0');
	}
	if (mode == 0 || mode > 0777)
		return -EINVAL;
	*ret = mode;
	return 0;
}

static bool
is_encoding(const char *word)
{
	return strcmp(word, "utf8") == 0 || strcmp(word, "base64") == 0;
}

int
args_content(const char *text, const char *encoding, struct buf *b)
{
	size_t n = strlen(text);

	return strcmp(encoding, "base64") == 0 ? base64_decode(b, text, n) : buf_append(b, text, n);
}

/* ---- checked ---- */

static const char *
json_type(const cJSON *item)
{
	if (cJSON_IsString(item))
		return "a string";
	if (cJSON_IsNumber(item))
		return "a number";
	if (cJSON_IsBool(item))
		return "a boolean";
	if (cJSON_IsNull(item))
		return "null";
	return cJSON_IsArray(item) ? "an array" : "an object";
}

static int
wrong_type(struct buf *why, const char *name, const char *wanted, const cJSON *item)
{
	(void)buf_printf(why, "Argument \"%s\" must be %s, not %s.", name, wanted, json_type(item));
	return -EINVAL;
}

static int
check_string(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	size_t n;

	if (!cJSON_IsString(item))
		return wrong_type(why, row->name, "a string", item);
	n = strlen(item->valuestring);
	if (n >= row->min && n <= row->max)
		return 0;
	if (n < row->min)
		(void)buf_printf(why, "Argument \"%s\" must not be empty.", row->name);
	else
		(void)buf_printf(why, "Argument \"%s\" has %zu bytes; at most %llu are allowed.",
				 row->name, n, (unsigned long long)row->max);
	return -EINVAL;
}

static int
check_choice(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	const char *at = row->choices;

	if (cJSON_IsString(item)) {
		size_t len = strlen(item->valuestring);

		while (*at != '\0') {
			size_t n = strcspn(at, "|");

			if (n == len && memcmp(at, item->valuestring, n) == 0)
				return 0;
			at += n + (at[n] == '|');
		}
	}
	(void)buf_printf(why, "Argument \"%s\" must be one of: ", row->name);
	for (at = row->choices; *at != '\0'; at++) {
		if (*at == '|')
			(void)buf_append(why, ", ", 2);
		else
			(void)buf_append(why, at, 1);
	}
	(void)buf_append(why, ".", 1);
	return -EINVAL;
}

static int
check_number(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	bool whole = row->type != ARG_NUMBER;
	double scale = whole ? 1.0 : 1000.0;
	double value, max = (double)row->max / scale;
	double min = row->type == ARG_OFFSET ? -max : (double)row->min / scale;

	if (!cJSON_IsNumber(item))
		return wrong_type(why, row->name, whole ? "a whole number" : "a number", item);
	value = item->valuedouble;
	if (value >= min && value <= max) {
		if (!whole || value == (double)(int64_t)value)
			return 0;
		(void)buf_printf(why, "Argument \"%s\" must be a whole number.", row->name);
		return -EINVAL;
	}
	(void)buf_printf(why, "Argument \"%s\" must be between %.16g and %.16g, not %.9g.",
			 row->name, min, max, value);
	return -EINVAL;
}

/* An array of strings, or an object of them whose keys are environment names. */
static int
check_many(const struct arg_row *row, const cJSON *list, struct buf *why)
{
	bool map = row->type == ARG_STRMAP;
	const cJSON *item;
	uint64_t count = 0;

	if (map ? !cJSON_IsObject(list) : !cJSON_IsArray(list))
		return wrong_type(why, row->name,
				  map ? "an object of strings" : "an array of strings", list);
	cJSON_ArrayForEach(item, list)
	{
		size_t n;

		if (map && !spec_env_name_ok(item->string, strlen(item->string))) {
			(void)buf_printf(why, "Argument \"%s\" has the name \"", row->name);
			n = strlen(item->string);
			n = text_floor((const uint8_t *)item->string,
				       n < SHOWN_MAX ? n : SHOWN_MAX);
			(void)text_append_visible(why, (const uint8_t *)item->string, n);
			(void)buf_printf(why, "\"; names must match [A-Za-z_][A-Za-z0-9_]*.");
			return -EINVAL;
		}
		if (!cJSON_IsString(item)) {
			(void)buf_printf(why, "Every value in \"%s\" must be a string, not %s.",
					 row->name, json_type(item));
			return -EINVAL;
		}
		n = strlen(item->valuestring) + (map ? strlen(item->string) + 1 : 0);
		if (n > SPEC_ITEM_MAX) {
			(void)buf_printf(why, "A value in \"%s\" has more than %u bytes.",
					 row->name, SPEC_ITEM_MAX);
			return -EINVAL;
		}
		count++;
	}
	if (count < row->min) {
		(void)buf_printf(why, "Argument \"%s\" must not be empty.", row->name);
		return -EINVAL;
	}
	if (count <= row->max)
		return 0;
	(void)buf_printf(why, "Argument \"%s\" has %llu entries; at most %llu are allowed.",
			 row->name, (unsigned long long)count, (unsigned long long)row->max);
	return -EINVAL;
}

/* ---- files[]: the one nested argument ---- */

static const struct {
	const char *name;
	size_t min, max;
	bool required;
} file_fields[] = {
	{"path", 1, FILE_PATH_MAX, true},
	{"content", 0, MESSAGE_MAX, true},
	{"encoding", 4, 6, false},
	{"mode", 1, 5, false},
};

static int
file_field(const cJSON *item, size_t at, struct buf *why)
{
	size_t i = 0, n;

	while (i < ARRAY_LEN(file_fields) && strcmp(file_fields[i].name, item->string) != 0)
		i++;
	if (i == ARRAY_LEN(file_fields)) {
		(void)buf_printf(why,
				 "files[%zu] has an unknown field; it takes path, content, "
				 "encoding, mode.",
				 at);
		return -EINVAL;
	}
	if (!cJSON_IsString(item)) {
		(void)buf_printf(why, "files[%zu].%s must be a string, not %s.", at, item->string,
				 json_type(item));
		return -EINVAL;
	}
	n = strlen(item->valuestring);
	if (n >= file_fields[i].min && n <= file_fields[i].max)
		return 0;
	(void)buf_printf(why, "files[%zu].%s has %zu bytes; %zu to %zu are allowed.", at,
			 item->string, n, file_fields[i].min, file_fields[i].max);
	return -EINVAL;
}

static int
check_file(const cJSON *file, size_t at, struct buf *why)
{
	const cJSON *item;
	uint32_t mode;

	if (!cJSON_IsObject(file)) {
		(void)buf_printf(why, "files[%zu] must be an object, not %s.", at, json_type(file));
		return -EINVAL;
	}
	cJSON_ArrayForEach(item, file)
	{
		if (file_field(item, at, why) < 0)
			return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_LEN(file_fields); i++) {
		if (file_fields[i].required && args_text(file, file_fields[i].name, NULL) == NULL) {
			(void)buf_printf(why, "files[%zu].%s is missing.", at, file_fields[i].name);
			return -EINVAL;
		}
	}
	if (!is_encoding(args_text(file, "encoding", "utf8"))) {
		(void)buf_printf(why, "files[%zu].encoding must be one of: utf8, base64.", at);
		return -EINVAL;
	}
	if (args_mode(args_text(file, "mode", "644"), &mode) < 0) {
		(void)buf_printf(why, "files[%zu].mode must be octal digits such as 755.", at);
		return -EINVAL;
	}
	return 0;
}

static int
check_files(const struct arg_row *row, const cJSON *list, struct buf *why)
{
	const cJSON *file;
	size_t at = 0;

	if (!cJSON_IsArray(list))
		return wrong_type(why, row->name, "an array of objects", list);
	if ((uint64_t)cJSON_GetArraySize(list) > row->max) {
		(void)buf_printf(why, "Argument \"%s\" has %d entries; at most %llu are allowed.",
				 row->name, cJSON_GetArraySize(list), (unsigned long long)row->max);
		return -EINVAL;
	}
	cJSON_ArrayForEach(file, list)
	{
		if (check_file(file, at++, why) < 0)
			return -EINVAL;
	}
	return 0;
}

static int
check_one(const struct arg_row *row, const cJSON *item, struct buf *why)
{
	switch (row->type) {
	case ARG_STRING:
		return check_string(row, item, why);
	case ARG_CHOICE:
		return check_choice(row, item, why);
	case ARG_INTEGER:
	case ARG_OFFSET:
	case ARG_NUMBER:
		return check_number(row, item, why);
	case ARG_BOOLEAN:
		return cJSON_IsBool(item) ? 0 : wrong_type(why, row->name, "true or false", item);
	case ARG_FILES:
		return check_files(row, item, why);
	case ARG_STRINGS:
	case ARG_STRMAP:
	default:
		return check_many(row, item, why);
	}
}

static int
unknown_argument(enum tool_no tool, const char *name, struct buf *why)
{
	const struct arg_row *row;
	size_t cursor = 0, n = strlen(name);
	const char *sep = "";

	(void)buf_printf(why, "Unknown argument \"");
	n = text_floor((const uint8_t *)name, n < SHOWN_MAX ? n : SHOWN_MAX);
	(void)text_append_visible(why, (const uint8_t *)name, n);
	(void)buf_printf(why, "\". %s takes ", tool_rows[tool].name);
	while ((row = arg_next(tool, &cursor)) != NULL) {
		(void)buf_printf(why, "%s%s", sep, row->name);
		sep = ", ";
	}
	(void)buf_printf(why, "%s.", *sep == '\0' ? "no arguments" : "");
	return -EINVAL;
}

int
args_check(enum tool_no tool, const struct cJSON *args, struct buf *why)
{
	const struct arg_row *row;
	const cJSON *item;
	size_t cursor = 0;
	int r;

	cJSON_ArrayForEach(item, args)
	{
		cursor = 0;
		while ((row = arg_next(tool, &cursor)) != NULL &&
		       strcmp(row->name, item->string) != 0)
			;
		if (row == NULL)
			return unknown_argument(tool, item->string, why);
		r = check_one(row, item, why);
		if (r < 0)
			return r;
	}
	cursor = 0;
	while ((row = arg_next(tool, &cursor)) != NULL) {
		if (row->required && cJSON_GetObjectItemCaseSensitive(args, row->name) == NULL) {
			(void)buf_printf(why, "Argument \"%s\" is missing. %s", row->name,
					 row->help);
			return -EINVAL;
		}
	}
	return 0;
}
