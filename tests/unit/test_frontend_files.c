/*
 * tests/unit/test_frontend_files.c - files read, written, listed; hostile listings; every errno.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

#define READ(more) "{\"sandbox_id\":\"" BOX_ID "\",\"path\":\"p\"" more "}"

static void
test_files_read_text(void **state)
{
	struct guest_spec spec;
	const cJSON *r;
	cJSON *answer;

	(void)state;
	call_tool("container_read_file", READ(",\"offset\":3,\"length\":10"));
	waiting_spec(&spec);
	assert_int_equal(spec.kind, RUN_FILE_READ);
	assert_int_equal(spec.offset, 3);
	assert_int_equal(spec.length, 10);
	spec_done(&spec);
	assert_int_equal(fe.call_list->flags, CALL_STEP);
	file_run("h\xc3\xa4\x1b\n", 5, 0, 8);
	answer = tool_result(SHAPE_FILE, &r, false);
	assert_string_equal(text_of(r, "content"), "h\xc3\xa4\x1b\n"); /* exact */
	assert_string_equal(text_of(r, "encoding"), "utf8");
	assert_int_equal(field(r, "size")->valueint, 8);
	assert_int_equal(field(r, "offset")->valueint, 3);
	assert_int_equal(field(r, "next_offset")->valueint, 8);
	assert_true(cJSON_IsTrue(field(r, "eof")));
	cJSON_Delete(answer);
	assert_int_equal(fe.held_bytes, 0);
}

static void
test_files_read_forms(void **state)
{
	static const struct {
		const char *more;
		const char *data;
		size_t n;
		uint64_t size;
		const char *encoding, *content; /* NULL: refused */
		int next;
	} rows[] = {
		{"", "\xff\xfe", 2, 2, "base64", "//4=", 2},
		{"", "a\0b", 3, 3, "base64", "YQBi", 3},
		{"", "", 0, 0, "utf8", "", 0},
		/* a code point cut by the end of the part waits for the next one */
		{"", "ab\xe4\xb8", 4, 9, "utf8", "ab", 2},
		/* … but not at the end of the file */
		{"", "ab\xe4\xb8", 4, 4, "base64", "YWLkuA==", 4},
		/* and something always comes */
		{"", "\xe4\xb8", 2, 9, "base64", "5Lg=", 2},
		{",\"encoding\":\"base64\"", "ab", 2, 2, "base64", "YWI=", 2},
		{",\"encoding\":\"utf8\"", "ab", 2, 2, "utf8", "ab", 2},
		{",\"encoding\":\"utf8\"", "a\xff", 2, 2, NULL, NULL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const cJSON *r;
		cJSON *answer;
		char args[200];

		(void)snprintf(args, sizeof(args), READ("%s"), rows[i].more);
		call_tool("container_read_file", args);
		file_run(rows[i].data, rows[i].n, 0, rows[i].size);
		answer = tool_result(SHAPE_FILE, &r, rows[i].content == NULL);
		if (rows[i].content == NULL) {
			assert_non_null(strstr(text_of(r, "message"), "base64"));
		} else {
			assert_string_equal(text_of(r, "encoding"), rows[i].encoding);
			assert_string_equal(text_of(r, "content"), rows[i].content);
			assert_int_equal(field(r, "next_offset")->valueint, rows[i].next);
			assert_int_equal(cJSON_IsTrue(field(r, "eof")),
					 rows[i].next == (int)rows[i].size);
		}
		cJSON_Delete(answer);
	}
}

/* A sandbox that sends more than was asked for is believed nothing. */
static void
test_files_read_more_than_asked(void **state)
{
	const cJSON *r;
	cJSON *answer;

	(void)state;
	call_tool("container_read_file", READ(",\"length\":4"));
	file_run("12345", 5, 0, 5);
	answer = tool_result(SHAPE_FILE, &r, true);
	assert_string_equal(text_of(r, "status"), "internal");
	assert_null(cJSON_GetObjectItemCaseSensitive(r, "content"));
	cJSON_Delete(answer);
}

static void
test_files_errors(void **state)
{
	static const struct {
		uint32_t error;
		const char *status;
	} rows[] = {{ENOENT, "not_found"},  {EISDIR, "denied"},       {ENOTDIR, "denied"},
		    {EACCES, "denied"},     {EXDEV, "denied"},        {ELOOP, "denied"},
		    {EINVAL, "denied"},     {ENAMETOOLONG, "denied"}, {ENOSPC, "disk_full"},
		    {EDQUOT, "disk_full"},  {EFBIG, "disk_full"},     {EROFS, "denied"},
		    {ENOMEM, "oom_killed"}, {EBUSY, "busy"},          {12345, "denied"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const cJSON *r;
		cJSON *answer;

		call_tool("container_read_file", READ(""));
		file_run("", 0, rows[i].error, 0);
		answer = tool_result(SHAPE_FILE, &r, true);
		assert_string_equal(text_of(r, "status"), rows[i].status);
		assert_string_not_equal(text_of(r, "message"), "");
		assert_true(cJSON_IsNull(field(r, "size")));
		cJSON_Delete(answer);
	}
}

/* Ends that are not the file's: the broker's status and words are what is told. */
static void
test_files_other_ends(void **state)
{
	struct guest_g_exit late = {.how = EXIT_EXITED, .exit_code = EIO, .flags = EXIT_TIMED_OUT};
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	uint64_t call;

	(void)state;
	call_tool("container_read_file", READ(""));
	fake_broker_tell(IPC_ROW(call_ended, .call = submitted(&row), .status = RUN_not_found,
				 .message = IPC_STR("It ended 2 minutes ago: idle.")));
	answer = tool_result(SHAPE_FILE, &r, true);
	assert_string_equal(text_of(r, "message"), "It ended 2 minutes ago: idle.");
	cJSON_Delete(answer);
	call_tool("container_read_file", READ(""));
	call = submitted(&row);
	grant(call, "");
	ended(call, RUN_timed_out, &late);
	answer = tool_result(SHAPE_FILE, &r, true);
	assert_string_equal(text_of(r, "status"), "timed_out");
	cJSON_Delete(answer);
	call_tool("container_read_file", READ(""));
	call = submitted(&row);
	grant(call, "");
	ended(call, RUN_ok, NULL); /* without the guest's report nothing is known */
	answer = tool_result(SHAPE_FILE, &r, true);
	assert_string_equal(text_of(r, "status"), "internal");
	cJSON_Delete(answer);
}

static void
test_files_write(void **state)
{
	static const struct {
		const char *more;
		uint32_t flags, mode;
		uint64_t offset;
		const char *bytes;
	} rows[] = {
		{",\"content\":\"abc\"", SPEC_TRUNCATE | SPEC_STDIN, 0, 0, "abc"},
		{",\"content\":\"\"", SPEC_TRUNCATE, 0, 0, ""},
		{",\"content\":\"YWJj\",\"encoding\":\"base64\",\"mode\":\"0755\"",
		 SPEC_TRUNCATE | SPEC_STDIN, 0755, 0, "abc"},
		{",\"content\":\"abc\",\"append\":true", SPEC_APPEND | SPEC_STDIN, 0, 0, "abc"},
		{",\"content\":\"abc\",\"offset\":0", SPEC_STDIN, 0, 0, "abc"},
		{",\"content\":\"abc\",\"offset\":7,\"append\":false", SPEC_STDIN, 0, 7, "abc"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct guest_spec spec;
		const cJSON *r;
		cJSON *answer;
		char args[300];

		(void)snprintf(args, sizeof(args), READ("%s"), rows[i].more);
		call_tool("container_write_file", args);
		waiting_spec(&spec);
		assert_int_equal(spec.kind, RUN_FILE_WRITE);
		assert_int_equal(spec.flags, rows[i].flags);
		assert_int_equal(spec.mode, rows[i].mode);
		assert_int_equal(spec.offset, rows[i].offset);
		spec_done(&spec);
		assert_int_equal(buf_len(&fe.call_list->input), strlen(rows[i].bytes));
		assert_memory_equal(buf_data(&fe.call_list->input), rows[i].bytes,
				    strlen(rows[i].bytes));
		file_run("", 0, 0, 10);
		answer = tool_result(SHAPE_FILE, &r, false);
		assert_int_equal(field(r, "bytes")->valueint, strlen(rows[i].bytes));
		assert_int_equal(field(r, "size")->valueint, 10);
		cJSON_Delete(answer);
	}
}

static void
test_files_write_refused(void **state)
{
	static const struct {
		const char *more, *why;
	} rows[] = {
		{",\"content\":\"abc\",\"encoding\":\"base64\"", "is not base64"},
		{",\"content\":\"x\",\"mode\":\"999\"", "octal"},
		{",\"content\":\"x\",\"offset\":1,\"append\":true", "not both"},
	};
	size_t n = WRITE_MAX + 1;
	char *big = malloc(n + 1), *args = NULL;
	struct ipc_row row;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[300];

		(void)snprintf(text, sizeof(text), READ("%s"), rows[i].more);
		call_tool("container_write_file", text);
		assert_non_null(strstr(fake_sent(), rows[i].why));
		assert_false(next_row(&row));
	}
	memset(big, 'x', n);
	for (size_t more = 0; more <= 1; more++) {
		big[WRITE_MAX + more] = '\0';
		assert_true(asprintf(&args, READ(",\"content\":\"%s\""), big) > 0);
		call_tool("container_write_file", args);
		free(args);
		assert_int_equal(strstr(fake_sent(), "more than 4 MiB") != NULL, more == 1);
		big[WRITE_MAX + more] = 'x';
	}
	free(big);
}

static void
test_files_list(void **state)
{
	static const char listing[] = "f 0644 12 1700000000 a b\0d 755 4096 0 d\0"
				      "l 777 3 -5 d/\x1b\xff\0o 600 0 1 p";
	const cJSON *r, *rows, *item;
	cJSON *answer, *schema = schema_shape(SHAPE_ENTRY);
	struct guest_spec spec;

	(void)state;
	call_tool("container_list_files", READ(",\"depth\":3"));
	waiting_spec(&spec);
	assert_int_equal(spec.kind, RUN_FILE_LIST);
	assert_int_equal(spec.length, 3);
	spec_done(&spec);
	file_run(listing, sizeof(listing), 0, 4);
	answer = tool_result(SHAPE_FILES, &r, false);
	rows = field(r, "entries");
	assert_int_equal(cJSON_GetArraySize(rows), 4);
	cJSON_ArrayForEach(item, rows) fake_matches(item, schema);
	item = cJSON_GetArrayItem(rows, 0);
	assert_string_equal(text_of(item, "path"), "a b");
	assert_string_equal(text_of(item, "mode"), "644");
	assert_int_equal(field(item, "size")->valueint, 12);
	item = cJSON_GetArrayItem(rows, 2);
	assert_string_equal(text_of(item, "type"), "symlink");
	assert_string_equal(text_of(item, "path"), "d/\\u{1B}\xef\xbf\xbd");
	assert_int_equal(field(item, "modified")->valueint, -5);
	assert_true(cJSON_IsFalse(field(r, "truncated")));
	cJSON_Delete(answer);
	cJSON_Delete(schema);
}

/* A listing is the sandbox's word: what breaks the form ends it, and nothing is made up. */
static void
test_files_next_hostile(void **state)
{
	static const struct {
		const char *data;
		size_t n;
	} rows[] = {
		{"", 0},
		{"f", 1},
		{"f 644 1 1 a", 11}, /* no end */
		{"\0", 1},
		{"f\0", 2},
		{"x 644 1 1 a\0", 12},
		{"f644 1 1 a\0", 11},
		{"f 888 1 1 a\0", 12},
		{"f 10000 1 1 a\0", 14},
		{"f 644 -1 1 a\0", 13},
		{"f 644 1 1 \0", 11}, /* no name */
		{"f 644 1 1\0", 10},
		{"f 644 1 --1 a\0", 14},
		{"f 644  1 1 a\0", 13},
		{"f 644 18446744073709551616 1 a\0", 31},
		{"f 644 1 9223372036854775808 a\0", 30},
		{"f 644 1\0 1 a\0", 13},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct list_cursor cursor;
		struct list_entry entry;
		/* of exactly that size, so that a sanitizer sees a read past it */
		uint8_t *copy = malloc(rows[i].n == 0 ? 1 : rows[i].n);

		memcpy(copy, rows[i].data, rows[i].n);
		cursor = (struct list_cursor){copy, copy + rows[i].n};
		if (files_next(&cursor, &entry))
			fail_msg("row %zu", i);
		free(copy);
	}
}

static void
test_files_list_is_cut(void **state)
{
	struct buf b;
	const cJSON *r;
	cJSON *answer;

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 1200; i++) {
		(void)buf_printf(&b, "f 644 1 1 %d", i);
		(void)buf_append(&b, "", 1);
	}
	call_tool("container_list_files", READ(""));
	file_run(buf_data(&b), buf_len(&b), 0, 1200);
	answer = tool_result(SHAPE_FILES, &r, false);
	assert_int_equal(cJSON_GetArraySize(field(r, "entries")), 1000);
	assert_true(cJSON_IsTrue(field(r, "truncated")));
	assert_non_null(strstr(text_of(r, "message"), "first 1000"));
	cJSON_Delete(answer);
	buf_done(&b);
}

/* What calls in flight may receive is counted before it comes. */
static void
test_files_read_counts_against_the_cap(void **state)
{
	struct ipc_row row;
	const cJSON *r;
	cJSON *answer;
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		call_tool("container_read_file", READ(",\"length\":2097152"));
		n += next_row(&row);
	}
	assert_int_equal(n, CALLS_BYTES_MAX / READ_MAX);
	(void)fake_sent();
	call_tool("container_read_file", READ(",\"length\":2097152"));
	answer = tool_result(SHAPE_FILE, &r, true);
	assert_string_equal(text_of(r, "status"), "busy");
	cJSON_Delete(answer);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_files_read_text),
		FAKE(test_files_read_forms),
		FAKE(test_files_read_more_than_asked),
		FAKE(test_files_errors),
		FAKE(test_files_other_ends),
		FAKE(test_files_write),
		FAKE(test_files_write_refused),
		FAKE(test_files_list),
		cmocka_unit_test(test_files_next_hostile),
		FAKE(test_files_list_is_cut),
		FAKE(test_files_read_counts_against_the_cap),
	};

	return cmocka_run_group_tests_name("frontend_files", tests, NULL, NULL);
}
