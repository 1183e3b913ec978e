/*
 * frontend/schema.c - what tools/list says, from tools.def and results.def.
 * Runs in: bailey-frontend.
 * Input: none; the tables are compile-time constants.
 * Owns: the tables.
 *
 * Schemas stay flat and plain (no $ref, no unions in the input, items on every
 * array): some clients refuse or drop a tool over anything else.
 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

const struct tool_row tool_rows[TOOL_COUNT] = {
#define TOOL(name, listed, serve, shape, hints, title, description) \
	{#name, listed, SHAPE_##shape, hints, title, description},
#define ARG(tool, name, type, required, min, max, choices, help)
#include "tools.def"
#undef TOOL
#undef ARG
};

const struct arg_row arg_rows[] = {
#define TOOL(name, listed, serve, shape, hints, title, description)
#define ARG(tool, name, type, required, min, max, choices, help) \
	{TOOL_##tool, #name, ARG_##type, required, min, max, choices, help},
#include "tools.def"
#undef TOOL
#undef ARG
};
const size_t arg_row_count = ARRAY_LEN(arg_rows);

enum out_type { /* low bits; then flags */
		OUT_STRING = 1,
		OUT_INTEGER,
		OUT_NUMBER,
		OUT_BOOLEAN,
		OUT_OBJECT,
		OUT_OBJECTS,
		OUT_STRINGS,
		OUT_TYPE_MASK = 15,
		OUT_OR_NULL = 16,
		OUT_OPTIONAL = 32,
};
enum out_nested { /* a shape, or the words a string may be */
		  NEST_NONE,
#define SHAPE(name) NEST_##name,
#define OUT(shape, name, type, nested, help)
#include "results.def"
#undef SHAPE
#undef OUT
		  NEST_STATUS,
		  NEST_ENCODING,
		  NEST_START,
		  NEST_ARTIFACT_FORM,
		  NEST_FILE_ENCODING,
		  NEST_FILE_TYPE,
		  NEST_SANDBOX_STATE,
};

#define STRING OUT_STRING
#define INTEGER OUT_INTEGER
#define NUMBER OUT_NUMBER
#define BOOLEAN OUT_BOOLEAN
#define OBJECT OUT_OBJECT
#define OBJECTS OUT_OBJECTS
#define STRINGS OUT_STRINGS
#define OR_NULL OUT_OR_NULL
#define OPTIONAL OUT_OPTIONAL
static const struct out_row {
	enum tool_shape shape;
	const char *name;
	unsigned type;
	enum out_nested nested;
	const char *help;
} out_rows[] = {
#define SHAPE(name)
#define OUT(shape, name, type, nested, help) {SHAPE_##shape, #name, (type), NEST_##nested, help},
#include "results.def"
#undef SHAPE
#undef OUT
};
#undef STRING
#undef INTEGER
#undef NUMBER
#undef BOOLEAN
#undef OBJECT
#undef OBJECTS
#undef STRINGS
#undef OR_NULL
#undef OPTIONAL

const struct arg_row *
arg_next(enum tool_no tool, size_t *cursor)
{
	while (*cursor < arg_row_count) {
		const struct arg_row *row = &arg_rows[(*cursor)++];

		if (row->tool == tool)
			return row;
	}
	return NULL;
}

/* ---- input ---- */

/* "a|b" as a list */
static void
add_choices(cJSON *object, const char *choices)
{
	cJSON *list = cJSON_AddArrayToObject(object, "enum");

	while (*choices != '\0') {
		size_t n = strcspn(choices, "|");
		cleanup_free char *word = xstrndup(choices, n);

		(void)cJSON_AddItemToArray(list, cJSON_CreateString(word));
		choices += n + (choices[n] == '|');
	}
}

static cJSON *
type_only(const char *type)
{
	cJSON *item = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(item, "type", type);
	return item;
}

/* One element of files[]; what args.c checks. */
static cJSON *
file_schema(void)
{
	static const struct {
		const char *name, *help;
	} fields[] = {
		{"path", "Where to write it; relative to /workspace."},
		{"content", "What to write, as encoding says."},
		{"encoding", "utf8 (default) or base64."},
		{"mode", "Permissions in octal digits, default 644."},
	};
	static const char *const needed[] = {"path", "content"};
	cJSON *item = type_only("object"), *list;
	cJSON *properties = cJSON_AddObjectToObject(item, "properties");

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		cJSON *field = type_only("string");

		if (strcmp(fields[i].name, "encoding") == 0)
			add_choices(field, "utf8|base64");
		(void)cJSON_AddStringToObject(field, "description", fields[i].help);
		(void)cJSON_AddItemToObject(properties, fields[i].name, field);
	}
	list = cJSON_AddArrayToObject(item, "required");
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		(void)cJSON_AddItemToArray(list, cJSON_CreateString(needed[i]));
	(void)cJSON_AddFalseToObject(item, "additionalProperties");
	return item;
}

static cJSON *
input_property(const struct arg_row *row)
{
	cJSON *item;

	switch (row->type) {
	case ARG_STRING:
		item = type_only("string");
		if (row->min > 0)
			(void)cJSON_AddNumberToObject(item, "minLength", (double)row->min);
		(void)cJSON_AddNumberToObject(item, "maxLength", (double)row->max);
		break;
	case ARG_CHOICE:
		item = type_only("string");
		add_choices(item, row->choices);
		break;
	case ARG_INTEGER:
		item = type_only("integer");
		(void)cJSON_AddNumberToObject(item, "minimum", (double)row->min);
		(void)cJSON_AddNumberToObject(item, "maximum", (double)row->max);
		break;
	case ARG_NUMBER:
		item = type_only("number");
		result_add_milli(item, "minimum", row->min);
		result_add_milli(item, "maximum", row->max);
		break;
	case ARG_OFFSET:
		item = type_only("integer");
		(void)cJSON_AddNumberToObject(item, "minimum", -(double)row->max);
		(void)cJSON_AddNumberToObject(item, "maximum", (double)row->max);
		break;
	case ARG_BOOLEAN:
		item = type_only("boolean");
		break;
	case ARG_FILES:
		item = type_only("array");
		(void)cJSON_AddItemToObject(item, "items", file_schema());
		(void)cJSON_AddNumberToObject(item, "maxItems", (double)row->max);
		break;
	case ARG_STRINGS:
		item = type_only("array");
		(void)cJSON_AddItemToObject(item, "items", type_only("string"));
		(void)cJSON_AddNumberToObject(item, "maxItems", (double)row->max);
		break;
	case ARG_STRMAP:
	default:
		item = type_only("object");
		(void)cJSON_AddItemToObject(item, "additionalProperties", type_only("string"));
		break;
	}
	(void)cJSON_AddStringToObject(item, "description", row->help);
	return item;
}

static cJSON *
input_schema(enum tool_no tool)
{
	cJSON *schema = type_only("object");
	cJSON *properties = cJSON_AddObjectToObject(schema, "properties");
	cJSON *required = cJSON_CreateArray();
	const struct arg_row *row;
	size_t cursor = 0;

	while ((row = arg_next(tool, &cursor)) != NULL) {
		(void)cJSON_AddItemToObject(properties, row->name, input_property(row));
		if (row->required)
			(void)cJSON_AddItemToArray(required, cJSON_CreateString(row->name));
	}
	if (cJSON_GetArraySize(required) > 0)
		(void)cJSON_AddItemToObject(schema, "required", required);
	else
		cJSON_Delete(required);
	(void)cJSON_AddFalseToObject(schema, "additionalProperties");
	return schema;
}

/* ---- output ---- */

static void
add_out_words(cJSON *item, enum out_nested nested)
{
	static const char *const words[] = {
		[NEST_ENCODING] = "utf-8|escaped|base64",
		[NEST_START] = "warm|live|cold",
		[NEST_ARTIFACT_FORM] = "utf8|base64|image|link|none",
		[NEST_FILE_ENCODING] = "utf8|base64",
		[NEST_FILE_TYPE] = "file|directory|symlink|other",
		[NEST_SANDBOX_STATE] = "running|ended",
	};
	cJSON *list;

	if (nested < NEST_STATUS)
		return;
	if (nested != NEST_STATUS) {
		add_choices(item, words[nested]);
		if (nested == NEST_START)
			(void)cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(item, "enum"),
						   cJSON_CreateNull());
		return;
	}
	list = cJSON_AddArrayToObject(item, "enum");
	for (int s = 0; s < RUN_STATUS_COUNT; s++)
		(void)cJSON_AddItemToArray(list,
					   cJSON_CreateString(run_status_name((enum run_status)s)));
}

/* nested: the schema of the row's own shape, taken. */
static cJSON *
output_property(const struct out_row *row, cJSON *nested)
{
	static const char *const names[] = {
		[OUT_STRING] = "string",   [OUT_INTEGER] = "integer", [OUT_NUMBER] = "number",
		[OUT_BOOLEAN] = "boolean", [OUT_OBJECT] = "object",   [OUT_OBJECTS] = "array",
		[OUT_STRINGS] = "array",
	};
	unsigned type = row->type & OUT_TYPE_MASK;
	cJSON *item = type == OUT_OBJECT ? nested : cJSON_CreateObject();

	if ((row->type & OUT_OR_NULL) != 0) {
		cJSON *both = cJSON_CreateArray();

		(void)cJSON_AddItemToArray(both, cJSON_CreateString(names[type]));
		(void)cJSON_AddItemToArray(both, cJSON_CreateString("null"));
		cJSON_DeleteItemFromObjectCaseSensitive(item, "type");
		(void)cJSON_AddItemToObject(item, "type", both);
	} else if (type != OUT_OBJECT) {
		(void)cJSON_AddStringToObject(item, "type", names[type]);
	}
	if (type == OUT_OBJECTS)
		(void)cJSON_AddItemToObject(item, "items", nested);
	if (type == OUT_STRINGS)
		(void)cJSON_AddItemToObject(item, "items", type_only("string"));
	add_out_words(item, row->nested);
	(void)cJSON_AddStringToObject(item, "description", row->help);
	return item;
}

/* The shape wanted and all it is made of: nested ones stand before their users. */
static void
mark_needed(bool needed[SHAPE_COUNT], enum tool_shape wanted)
{
	needed[wanted] = true;
	for (size_t i = ARRAY_LEN(out_rows); i-- > 0;) {
		const struct out_row *row = &out_rows[i];

		if (needed[row->shape] && row->nested != NEST_NONE && row->nested < NEST_STATUS)
			needed[row->nested - 1] = true;
	}
}

/* Nested shapes stand first in the table, so one pass over it builds them all. */
struct cJSON *
schema_shape(enum tool_shape wanted)
{
	cJSON *shapes[SHAPE_COUNT] = {NULL}, *result;
	bool needed[SHAPE_COUNT] = {false};

	mark_needed(needed, wanted);
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		if (!needed[i])
			continue;
		shapes[i] = type_only("object");
		(void)cJSON_AddObjectToObject(shapes[i], "properties");
		(void)cJSON_AddArrayToObject(shapes[i], "required");
		(void)cJSON_AddFalseToObject(shapes[i], "additionalProperties");
	}
	for (size_t i = 0; i < ARRAY_LEN(out_rows); i++) {
		const struct out_row *row = &out_rows[i];
		cJSON *shape = shapes[row->shape], *nested = NULL;

		if (shape == NULL)
			continue;
		if (row->nested != NEST_NONE && row->nested < NEST_STATUS)
			nested = cJSON_Duplicate(shapes[row->nested - 1], true);
		(void)cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(shape, "properties"),
					    row->name, output_property(row, nested));
		if ((row->type & OUT_OPTIONAL) == 0)
			(void)cJSON_AddItemToArray(
				cJSON_GetObjectItemCaseSensitive(shape, "required"),
				cJSON_CreateString(row->name));
	}
	result = TAKE(shapes[wanted]);
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		cJSON_Delete(shapes[i]);
	return result;
}

static cJSON *
annotations(const struct tool_row *row)
{
	cJSON *hints = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(hints, "title", row->title);
	(void)cJSON_AddBoolToObject(hints, "readOnlyHint", (row->hints & HINT_READ_ONLY) != 0);
	(void)cJSON_AddBoolToObject(hints, "destructiveHint", (row->hints & HINT_DESTRUCTIVE) != 0);
	(void)cJSON_AddBoolToObject(hints, "idempotentHint", (row->hints & HINT_IDEMPOTENT) != 0);
	(void)cJSON_AddBoolToObject(hints, "openWorldHint", false);
	return hints;
}

struct cJSON *
schema_tool(enum tool_no tool, enum mcp_rev rev)
{
	const struct tool_row *row = &tool_rows[tool];
	cJSON *item = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(item, "name", row->name);
	if (rev >= REV_2025_06_18)
		(void)cJSON_AddStringToObject(item, "title", row->title);
	(void)cJSON_AddStringToObject(item, "description", row->description);
	(void)cJSON_AddItemToObject(item, "inputSchema", input_schema(tool));
	if (rev >= REV_2025_06_18 && row->shape != SHAPE_ANY)
		(void)cJSON_AddItemToObject(item, "outputSchema", schema_shape(row->shape));
	if (rev >= REV_2025_03_26)
		(void)cJSON_AddItemToObject(item, "annotations", annotations(row));
	return item;
}
