/*
 * tests/unit/test_frontend_resources.c - run output and sandbox files as resources; what is none.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

#define FILE_URI(path) "bailey://sandboxes/" BOX_ID "/files/" path

static const cJSON *
content(const cJSON *answer)
{
	const cJSON *list = field(field(answer, "result"), "contents");

	assert_int_equal(cJSON_GetArraySize(list), 1);
	return cJSON_GetArrayItem(list, 0);
}

static int
error_code(void)
{
	cJSON *answer = fake_answer();
	int code = field(field(answer, "error"), "code")->valueint;

	assert_true(cJSON_HasObjectItem(field(field(answer, "error"), "data"), "uri"));
	cJSON_Delete(answer);
	return code;
}

static void
test_resources_file(void **state)
{
	static const struct {
		const char *uri, *path;
		const char *data;
		size_t n;
		const char *mime, *key, *value;
	} rows[] = {
		{FILE_URI("a.txt"), "/workspace/a.txt", "hi", 2, "text/plain", "text", "hi"},
		{FILE_URI("/tmp/a%20b%25"), "/tmp/a b%", "\xff", 1, "application/octet-stream",
		 "blob", "/w=="},
		/* an escape sequence would be acted on where it is shown */
		{FILE_URI("esc"), "/workspace/esc", "a\x1b[2J", 5, "application/octet-stream",
		 "blob", "YRtbMko="},
		{FILE_URI("p.gif"), "/workspace/p.gif", "GIF89a", 6, "image/gif", "blob",
		 "R0lGODlh"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct guest_spec spec;
		cJSON *answer;

		read_uri(rows[i].uri);
		waiting_spec(&spec);
		assert_int_equal(spec.kind, RUN_FILE_READ);
		assert_int_equal(spec.code.len, strlen(rows[i].path));
		assert_memory_equal(spec.code.data, rows[i].path, spec.code.len);
		spec_done(&spec);
		file_run(rows[i].data, rows[i].n, 0, rows[i].n);
		answer = fake_answer();
		assert_string_equal(text_of(content(answer), "uri"), rows[i].uri);
		assert_string_equal(text_of(content(answer), "mimeType"), rows[i].mime);
		assert_string_equal(text_of(content(answer), rows[i].key), rows[i].value);
		cJSON_Delete(answer);
	}
}

static void
test_resources_directory(void **state)
{
	static const char listing[] = "f 644 12 1 a\0d 755 0 1 b\x1b";
	cJSON *answer;

	(void)state;
	read_uri(FILE_URI("d"));
	file_run("", 0, EISDIR, 0);
	file_run(listing, sizeof(listing), 0, 2);
	answer = fake_answer();
	assert_string_equal(text_of(content(answer), "text"), "f 12 a\nd 0 b\\u{1B}\n");
	cJSON_Delete(answer);
	/* and when it is gone by then */
	read_uri(FILE_URI("d"));
	file_run("", 0, EISDIR, 0);
	file_run("", 0, ENOENT, 0);
	assert_int_equal(error_code(), RPC_RESOURCE);
}

static void
test_resources_file_faults(void **state)
{
	static const struct {
		uint32_t error;
		uint64_t size;
		int code;
	} rows[] = {{ENOENT, 0, RPC_RESOURCE},
		    {EXDEV, 0, RPC_PARAMS},
		    {0, READ_MAX + 1, RPC_PARAMS},
		    {EBUSY, 0, RPC_INTERNAL}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		read_uri(FILE_URI("f"));
		file_run("", 0, rows[i].error, rows[i].size);
		assert_int_equal(error_code(), rows[i].code);
		assert_int_equal(fe.held_bytes, 0);
	}
}

static void
test_resources_run(void **state)
{
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	read_uri("bailey://runs/" RUN_ID "/stderr");
	assert_true(next_row(&row));
	assert_int_equal(row.num, IPC_NUM_log_read);
	assert_int_equal(row.u.log_read.stream, STREAM_STDERR);
	tell_kept(row.u.log_read.call, 0, "err", 3);
	fake_broker_tell(IPC_ROW(log_end, .call = row.u.log_read.call, .status = RUN_nonzero,
				 .run_id = IPC_STR(RUN_ID)));
	answer = fake_answer();
	assert_string_equal(text_of(content(answer), "text"), "err");
	cJSON_Delete(answer);
	read_uri("bailey://runs/" RUN_ID "/stdout");
	assert_true(next_row(&row));
	fake_broker_tell(IPC_ROW(log_end, .call = row.u.log_read.call, .status = RUN_not_found));
	assert_int_equal(error_code(), RPC_RESOURCE);
}

/* The broker dies in the middle of its rows: the next one's are the answer, and nothing else. */
static struct ipc_row
asked_again(void)
{
	struct ipc_row row;

	call_event(fe.call_list, EV_LINK_DOWN, NULL);
	call_event(fe.call_list, EV_LINK_UP, NULL);
	assert_true(next_row(&row));
	return row;
}

static void
test_resources_asked_again(void **state)
{
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	read_uri("bailey://runs/" RUN_ID "/stdout");
	assert_true(next_row(&row));
	tell_kept(row.u.log_read.call, 0, "all", 3);
	row = asked_again();
	tell_kept(row.u.log_read.call, 0, "all of", 6);
	tell_kept(row.u.log_read.call, 6, " it", 3);
	fake_broker_tell(IPC_ROW(log_end, .call = row.u.log_read.call, .status = RUN_ok,
				 .run_id = IPC_STR(RUN_ID)));
	answer = fake_answer();
	assert_string_equal(text_of(content(answer), "text"), "all of it");
	cJSON_Delete(answer);
	say_rev(REV_2026_07_28, "resources/list", "{}");
	assert_true(next_row(&row));
	fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
				 .sandbox = IPC_STR(BOX_ID), .alive = 0));
	row = asked_again();
	fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
				 .sandbox = IPC_STR(BOX_ID), .alive = 0));
	fake_broker_tell(IPC_ROW(list_end, .call = row.u.sandbox_list.call));
	answer = fake_answer();
	assert_int_equal(cJSON_GetArraySize(field(field(answer, "result"), "resources")), 2);
	cJSON_Delete(answer);
}

/* What no template matches costs the broker nothing and is told as what is unknown. */
static void
test_resources_not_found(void **state)
{
	static const char *const uris[] = {
		"",
		"file:///etc/passwd",
		"bailey://",
		"bailey://runs/",
		"bailey://runs/" RUN_ID,
		"bailey://runs/" RUN_ID "/value",
		"bailey://runs/" RUN_ID "/stdout/x",
		"bailey://runs/x/stdout",
		"bailey://sandboxes/" BOX_ID,
		"bailey://sandboxes/" BOX_ID "/file/x",
		"bailey://sandboxes/x/files/x",
		FILE_URI("%zz"),
		FILE_URI("a%4"),
		FILE_URI("a%00b"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(uris); i++) {
		struct ipc_row row;

		read_uri(uris[i]);
		assert_int_equal(error_code(), RPC_RESOURCE);
		assert_false(next_row(&row));
		assert_null(fe.call_list);
		assert_int_equal(fe.held_bytes, 0);
	}
	say_rev(REV_2026_07_28, "resources/read", "{\"uri\":\"bailey://runs/x/stdout\"}");
	assert_int_equal(error_code(), RPC_PARAMS);
}

static void
test_resources_list(void **state)
{
	const cJSON *list;
	struct ipc_row row;
	cJSON *answer;

	(void)state;
	say_rev(REV_2026_07_28, "resources/list", "{}");
	assert_true(next_row(&row));
	assert_int_equal(row.num, IPC_NUM_sandbox_list);
	fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
				 .sandbox = IPC_STR(BOX_ID), .alive = 1));
	fake_broker_tell(IPC_ROW(sandbox_row, .call = row.u.sandbox_list.call,
				 .sandbox = IPC_STR(RUN_ID), .alive = 0));
	fake_broker_tell(IPC_ROW(list_end, .call = row.u.sandbox_list.call));
	answer = fake_answer();
	list = field(field(answer, "result"), "resources");
	assert_int_equal(cJSON_GetArraySize(list), 5);
	assert_string_equal(text_of(cJSON_GetArrayItem(list, 0), "uri"),
			    "bailey://runs/" BOX_ID "/stdout");
	assert_string_equal(text_of(cJSON_GetArrayItem(list, 2), "uri"), FILE_URI("/workspace"));
	assert_string_equal(text_of(field(answer, "result"), "cacheScope"), "private");
	cJSON_Delete(answer);
	/* a broker that is away means an empty list, not an error */
	say_rev(REV_2025_11_25, "resources/list", "{}");
	call_answer(fe.call_list, RUN_engine_unavailable);
	assert_non_null(strstr(fake_sent(), "\"resources\":[]"));
}

/* A URI that is made is read as the path it was made of. */
static void
test_resources_file_uri_and_back(void **state)
{
	static const char *const paths[] = {"/workspace/a b", "x%y", "/tmp/\xc3\xa4?#[]",
					    "-._~/:@"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct guest_spec spec;
		struct buf uri;
		const char *path = paths[i];
		size_t skip = path[0] == '/' ? 0 : strlen("/workspace/");

		buf_init(&uri, 1024);
		resources_file_uri(&uri, BOX_ID, path);
		assert_int_equal(buf_append(&uri, "", 1), 0);
		read_uri((const char *)buf_data(&uri));
		waiting_spec(&spec);
		assert_int_equal(spec.code.len, strlen(path) + skip);
		assert_memory_equal(spec.code.data + skip, path, strlen(path));
		spec_done(&spec);
		buf_done(&uri);
		call_free(fe.call_list);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_resources_file),        FAKE(test_resources_directory),
		FAKE(test_resources_file_faults), FAKE(test_resources_run),
		FAKE(test_resources_asked_again), FAKE(test_resources_not_found),
		FAKE(test_resources_list),        FAKE(test_resources_file_uri_and_back),
	};

	return cmocka_run_group_tests_name("frontend_resources", tests, NULL, NULL);
}
