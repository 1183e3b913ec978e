/*
 * tests/unit/test_frontend_contents.c - what a read resource says of bytes that are missing.
 * Runs in: ctest.
 * Input: none.
 * Owns: the fake frontend, per test.
 */
#include "frontend_tool.h"

/* What is not kept is told where it is missing: before, between and behind what is. */
static void
test_contents_gaps(void **state)
{
	static const struct {
		const char *head, *tail;
		uint64_t first, second, written;
		const char *contents[5], *key[5];
	} rows[] = {
		{"begin\n",
		 "end\n",
		 0,
		 100,
		 104,
		 {"begin\n\n[94 bytes are missing here: they were not kept]\nend\n"},
		 {"text"}},
		{"b",
		 "e",
		 0,
		 100,
		 300,
		 {"b\n[99 bytes are missing here: they were not kept]\ne\n[199 bytes are missing "
		  "here: they were not kept]\n"},
		 {"text"}},
		/* \u00fc, cut in its middle */
		{"b\xc3",
		 "\xbc"
		 "e",
		 7,
		 100,
		 102,
		 {"\n[7 bytes are missing here: they were not kept]\nb\n[93 bytes are missing "
		  "here: they were not kept]\ne"},
		 {"text"}},
		{"\xff\xff",
		 "\xfe\xfe",
		 0,
		 100,
		 103,
		 {"//8=", "\n[98 bytes are missing here: they were not kept]\n",
		  "/v4=", "\n[1 bytes are missing here: they were not kept]\n"},
		 {"blob", "text", "blob", "text"}},
		{"all", "of it", 0, 3, 8, {"allof it"}, {"text"}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ipc_row row;
		cJSON *answer;
		const cJSON *list;
		uint64_t call;
		int n = 0;

		read_uri("bailey://runs/" RUN_ID "/stdout");
		assert_true(next_row(&row));
		call = row.u.log_read.call;
		tell_kept(call, rows[i].first, rows[i].head, strlen(rows[i].head));
		tell_kept(call, rows[i].second, rows[i].tail, strlen(rows[i].tail));
		fake_broker_tell(IPC_ROW(log_end, .call = call, .status = RUN_ok,
					 .run_id = IPC_STR(RUN_ID), .written = rows[i].written));
		answer = fake_answer();
		list = field(field(answer, "result"), "contents");
		for (; n < 5 && rows[i].contents[n] != NULL; n++)
			assert_string_equal(text_of(cJSON_GetArrayItem(list, n), rows[i].key[n]),
					    rows[i].contents[n]);
		assert_int_equal(cJSON_GetArraySize(list), n);
		cJSON_Delete(answer);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {FAKE(test_contents_gaps)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
