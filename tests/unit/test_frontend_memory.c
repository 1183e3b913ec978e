/* frontend/memory.c: memory goes back once nothing happened for a second, and only where it is
 * worth it. */
#include "test.h"

#include <event2/event.h>
#include <malloc.h>

#include <cjson/cJSON.h>

#include "fakes/still_clock.h"
#include "frontend.h"

static size_t free_bytes, trims;

struct mallinfo2 __wrap_mallinfo2(void);
struct mallinfo2
__wrap_mallinfo2(void)
{
	return (struct mallinfo2){.fordblks = free_bytes};
}

int __wrap_malloc_trim(size_t pad);
int
__wrap_malloc_trim(size_t pad)
{
	assert_int_equal(pad, 0);
	trims++;
	return 1;
}

static bool memory_out;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *
__wrap_malloc(size_t n)
{
	return memory_out ? NULL : __real_malloc(n);
}

static void
test_after_a_second_without_use(void **state)
{
	struct frontend fe = {.base = event_base_new()};

	(void)state;
	memory_used(&fe); /* not open: nothing */
	assert_int_equal(memory_open(&fe), 0);
	free_bytes = (size_t)4 << 20;
	memory_used(&fe);
	clock_pass_in(fe.base, 700);
	memory_used(&fe); /* counts anew */
	clock_pass_in(fe.base, 990);
	assert_int_equal(trims, 0);
	clock_pass_in(fe.base, 20);
	assert_int_equal(trims, 1);
	free_bytes = 1000; /* not worth it */
	memory_used(&fe);
	clock_pass_in(fe.base, 1200);
	assert_int_equal(trims, 1);
	memory_close(&fe);
	memory_close(&fe);
	event_base_free(fe.base);
}

/* What an answer is made of: each of these used to leave a piece out. */
static void
no_memory_for_json(void *arg)
{
	cJSON *object = cJSON_CreateObject();

	(void)arg;
	memory_out = true;
	(void)cJSON_AddStringToObject(object, "stdout", "text");
}

static void
no_memory_for_a_buffer(void *arg)
{
	struct buf b;

	(void)arg;
	buf_init(&b, 1000);
	memory_out = true;
	(void)buf_append(&b, "text", 4);
}

static void
test_no_memory_is_the_end(void **state)
{
	(void)state;
	test_is_fatal(no_memory_for_json, NULL);
	test_is_fatal(no_memory_for_a_buffer, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_a_second_without_use),
		cmocka_unit_test(test_no_memory_is_the_end),
	};

	memory_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
