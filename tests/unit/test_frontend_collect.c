/*
 * tests/unit/test_frontend_collect.c - which form a file comes back in, and the budgets.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

static struct collect *k;

static bool
begin(struct call *c)
{
	return collect_begin(c, k);
}

static bool
end(struct call *c, const struct ipc_call_ended *how)
{
	collect_end(c, k, how);
	return true;
}

static cJSON *list, *blocks;

/* As a client reads it. */
static cJSON *
sent(cJSON *json)
{
	char *text = cJSON_PrintUnformatted(json);
	cJSON *again = cJSON_Parse(text);

	free(text);
	cJSON_Delete(json);
	return again;
}

static void
answer(struct call *c, const struct ipc_call_ended *how)
{
	(void)c;
	(void)how;
	list = sent(collect_take_list(k));
	blocks = sent(collect_take_blocks(k));
}

static const struct step steps[] = {
	{.flags = STEP_RUN, .submit = upcalls_submit},
	{.flags = STEP_RUN, .begin = begin, .submit = upcalls_submit, .end = end},
};
static const struct plan plan = {steps, ARRAY_LEN(steps), answer, NULL};

/* A call whose first exchange is over: the collection begins. */
static void
start(void)
{
	struct reply_to to = {.id = {.kind = RPC_ID_NUMBER, .number = 1}, .rev = REV_2025_11_25};
	struct call *c = call_new(&fe, &to, &plan);
	struct ipc_row row;
	uint64_t no;

	list = blocks = NULL;
	assert_int_equal(specs_file(c, &(struct file_spec){.kind = RUN_FILE_READ, .path = "first"}),
			 0);
	call_start(c);
	no = submitted(&row);
	grant(no, "");
	ended(no, RUN_ok, NULL);
}

static void
stop(void)
{
	assert_non_null(list); /* the plan came to its end */
	assert_null(fe.call_list);
	cJSON_Delete(list);
	cJSON_Delete(blocks);
	collect_free(k);
}

static const cJSON *
entry(int i)
{
	return cJSON_GetArrayItem(list, i);
}

/* What the sandbox is asked to make smaller, from the submission to its end. */
static void
scale_run(const void *data, size_t n, struct guest_g_exit figures, enum run_status status)
{
	struct guest_spec spec;
	struct ipc_row row;
	uint64_t call = submitted(&row);

	assert_int_equal(row.u.call_submit.flags, CALL_STEP);
	assert_int_equal(row.u.call_submit.timeout_ms, 5000);
	assert_int_equal(
		spec_decode(row.u.call_submit.spec.data, row.u.call_submit.spec.len, &spec), 0);
	assert_int_equal(spec.kind, RUN_ARGV);
	assert_int_equal(spec.n_args, 5);
	assert_true(spec.args[3].data[0] == '/');
	spec_done(&spec);
	grant(call, "");
	output(call, STREAM_STDOUT, data, n);
	ended(call, status, &figures);
}

static void
test_collect_forms(void **state)
{
	static const char png[] = "\x89PNG\r\n\x1a\nx";
	cJSON *schema = schema_shape(SHAPE_ARTIFACT);

	(void)state;
	k = collect_new();
	assert_int_equal(collect_add(k, "text", ""), 0);
	assert_int_equal(collect_add(k, "bytes", ""), 0);
	assert_int_equal(collect_add(k, "a.png", ""), 0);
	assert_int_equal(collect_add(k, "gone", ""), 0);
	start();
	file_run("hello", 5, 0, 5);
	file_run("\xff\0", 2, 0, 2);
	file_run(png, sizeof(png) - 1, 0, sizeof(png) - 1);
	file_run("", 0, ENOENT, 0);
	assert_int_equal(cJSON_GetArraySize(list), 4);
	for (int i = 0; i < 4; i++)
		fake_matches(entry(i), schema);
	assert_string_equal(text_of(entry(0), "encoding"), "utf8");
	assert_string_equal(text_of(entry(0), "content"), "hello");
	assert_string_equal(text_of(entry(1), "encoding"), "base64");
	assert_string_equal(text_of(entry(1), "content"), "/wA=");
	assert_string_equal(text_of(entry(2), "encoding"), "image");
	assert_string_equal(text_of(entry(2), "mime_type"), "image/png");
	assert_string_equal(text_of(entry(3), "encoding"), "none");
	assert_true(cJSON_IsNull(field(entry(3), "size")));
	assert_string_not_equal(text_of(entry(3), "message"), "");
	assert_int_equal(cJSON_GetArraySize(blocks), 1);
	cJSON_Delete(schema);
	stop();
}

/* Past its budget text becomes a link to the output of the run that read it, which is kept; what is
 * too large for that is only named. */
static void
test_collect_text_budget(void **state)
{
	size_t n = 200 << 10, whole = (1 << 20) - (8 << 10);
	char *data = malloc(whole);

	(void)state;
	memset(data, 'x', whole);
	k = collect_new();
	for (int i = 0; i < 4; i++)
		assert_int_equal(collect_add(k, "f", ""), 0);
	start();
	file_run(data, n, 0, n);
	file_run(data, n, 0, n); /* does not fit any more */
	file_run(data, 50 << 10, 0, 50 << 10);
	file_run(data, whole, 0, whole + 1);
	assert_string_equal(text_of(entry(0), "encoding"), "utf8");
	assert_string_equal(text_of(entry(1), "encoding"), "link");
	assert_string_equal(text_of(entry(1), "uri"), "bailey://runs/" RUN_ID "/stdout");
	assert_string_equal(text_of(entry(2), "encoding"), "utf8");
	assert_string_equal(text_of(entry(3), "encoding"), "none");
	assert_int_equal(field(entry(3), "size")->valueint, 1040385);
	assert_int_equal(cJSON_GetArraySize(blocks), 1);
	assert_string_equal(text_of(cJSON_GetArrayItem(blocks, 0), "type"), "resource_link");
	stop();
	free(data);
}

/* Images have a budget of their own; where the sandbox stays, the link is to the file. */
static void
test_collect_image_budget(void **state)
{
	size_t n = 500000;
	char *data = malloc(n);

	(void)state;
	memset(data, 'x', n);
	memcpy(data, "\xff\xd8\xff", 3);
	k = collect_new();
	assert_int_equal(collect_add(k, "/tmp/a b.jpg", BOX_ID), 0);
	assert_int_equal(collect_add(k, "/tmp/a b.jpg", BOX_ID), 0);
	assert_int_equal(collect_add(k, "/tmp/t", BOX_ID), 0);
	start();
	file_run(data, n, 0, n);
	file_run(data, n, 0, n);
	scale_run("", 0, (struct guest_g_exit){.how = EXIT_NOT_STARTED}, RUN_denied);
	file_run("t", 1, 0, 1);
	assert_string_equal(text_of(entry(0), "encoding"), "image");
	assert_string_equal(text_of(entry(1), "encoding"), "link");
	assert_string_equal(text_of(entry(1), "uri"),
			    "bailey://sandboxes/" BOX_ID "/files//tmp/a%20b.jpg");
	assert_string_equal(text_of(cJSON_GetArrayItem(blocks, 1), "mimeType"), "image/jpeg");
	assert_string_equal(text_of(cJSON_GetArrayItem(blocks, 1), "name"), "a b.jpg");
	assert_string_equal(text_of(entry(2), "encoding"), "utf8");
	stop();
	free(data);
}

static void
test_collect_directory(void **state)
{
	static const char listing[] = "d 755 1 1 sub\0f 644 1 1 sub/a\0l 777 1 1 link\0f 644 1 1 b";

	(void)state;
	k = collect_new();
	assert_int_equal(collect_add(k, "out", ""), 0);
	start();
	file_run("", 0, EISDIR, 0);
	file_run(listing, sizeof(listing), 0, 4);
	file_run("A", 1, 0, 1);
	file_run("", 0, EISDIR, 0); /* it was a file a moment ago: not looked into again */
	assert_int_equal(cJSON_GetArraySize(list), 2);
	assert_string_equal(text_of(entry(0), "path"), "out/sub/a");
	assert_string_equal(text_of(entry(1), "path"), "out/b");
	assert_string_equal(text_of(entry(1), "encoding"), "none");
	assert_false(collect_truncated(k));
	stop();
}

static void
test_collect_has_an_end(void **state)
{
	struct buf listing;

	(void)state;
	buf_init(&listing, 1 << 20);
	for (int i = 0; i < 200; i++) {
		(void)buf_printf(&listing, "f 644 1 1 %d", i);
		(void)buf_append(&listing, "", 1);
	}
	k = collect_new();
	assert_int_equal(collect_add(k, "out/", ""), 0);
	start();
	file_run("", 0, EISDIR, 0);
	file_run(buf_data(&listing), buf_len(&listing), 0, 200);
	for (unsigned i = 1; i < COLLECT_MAX; i++)
		file_run("x", 1, 0, 1);
	assert_int_equal(cJSON_GetArraySize(list), COLLECT_MAX - 1);
	assert_string_equal(text_of(entry(0), "path"), "out/0");
	assert_true(collect_truncated(k));
	stop();
	buf_done(&listing);
}

static void
test_collect_paths_that_are_none(void **state)
{
	char *path = calloc(1, FILE_PATH_MAX + 100);

	(void)state;
	memset(path, 'p', FILE_PATH_MAX + 99);
	k = collect_new();
	assert_int_equal(collect_add(k, path, ""), 0);
	assert_int_equal(collect_add(k, "f", ""), 0);
	start();
	file_run("x", 1, 0, 1);
	assert_int_equal(cJSON_GetArraySize(list), 2);
	assert_string_equal(text_of(entry(0), "message"), "This is not a path.");
	stop();
	free(path);
}

static void
test_collect_image_types(void **state)
{
	static const struct {
		const char *data;
		size_t n;
		const char *type;
	} rows[] = {
		{"\x89PNG\r\n\x1a\n", 8, "image/png"},
		{"\x89PNG\r\n\x1a", 7, NULL},
		{"\xff\xd8\xff\xe0", 4, "image/jpeg"},
		{"GIF87a", 6, "image/gif"},
		{"GIF89a;", 7, "image/gif"},
		{"GIF88a", 6, NULL},
		{"RIFF....WEBP", 12, "image/webp"},
		{"RIFF....WAVE", 12, NULL},
		{"RIFF....WEB", 11, NULL},
		{"<svg", 4, NULL},
		{"", 0, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *type = collect_image_type((const uint8_t *)rows[i].data, rows[i].n);

		if (rows[i].type == NULL)
			assert_null(type);
		else
			assert_string_equal(type, rows[i].type);
	}
}

/* An image past the budget comes back smaller, or as the link it was, whatever the sandbox says. */
static void
test_collect_scales(void **state)
{
	static const char png[] = "\x89PNG\r\n\x1a\nx", jpeg[] = "\xff\xd8\xffx";
	const struct guest_g_exit good = {.how = EXIT_EXITED},
				  bad = {.how = EXIT_EXITED, .exit_code = 1},
				  none = {.how = EXIT_EXITED, .exit_code = 3};
	size_t whole = (1 << 20) - (8 << 10), n = 800000;
	char *data = calloc(1, whole);
	cJSON *schema = schema_shape(SHAPE_ARTIFACT);

	(void)state;
	memcpy(data, png, sizeof(png));
	k = collect_new();
	for (int i = 0; i < 6; i++)
		assert_int_equal(collect_add(k, "a.png", ""), 0);
	start();
	file_run(data, whole, 0, 30 << 20); /* more than what is read of it */
	scale_run(jpeg, sizeof(jpeg), good, RUN_ok);
	file_run(data, n, 0, n);
	scale_run("", 0, bad, RUN_nonzero);
	file_run(data, n, 0, n);
	scale_run("no image", 8, good, RUN_ok);
	file_run(data, n, 0, n);
	scale_run(data, n, good, RUN_ok); /* as large as before */
	file_run(data, n, 0, n);
	scale_run("", 0, none, RUN_nonzero);
	file_run(data, n, 0, n); /* nothing there can do it: not asked again */
	for (int i = 0; i < 6; i++) {
		fake_matches(entry(i), schema);
		assert_string_equal(text_of(entry(i), "encoding"), i == 0 ? "image" : "link");
		assert_string_equal(text_of(entry(i), "mime_type"),
				    i == 0 ? "image/jpeg" : "image/png");
		assert_int_equal(field(entry(i), "size")->valueint, i == 0 ? 30 << 20 : (int)n);
		if (i > 0)
			assert_string_equal(text_of(entry(i), "uri"),
					    "bailey://runs/" RUN_ID "/stdout");
	}
	assert_string_not_equal(text_of(entry(0), "message"), "");
	assert_string_equal(text_of(cJSON_GetArrayItem(blocks, 0), "type"), "image");
	cJSON_Delete(schema);
	free(data);
	stop();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FAKE(test_collect_forms),
		FAKE(test_collect_scales),
		FAKE(test_collect_text_budget),
		FAKE(test_collect_image_budget),
		FAKE(test_collect_directory),
		FAKE(test_collect_has_an_end),
		FAKE(test_collect_paths_that_are_none),
		cmocka_unit_test(test_collect_image_types),
	};

	return cmocka_run_group_tests_name("frontend_collect", tests, NULL, NULL);
}
