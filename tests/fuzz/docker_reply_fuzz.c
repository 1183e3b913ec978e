/* tests/fuzz/docker_reply_fuzz.c - everything that reads the engine's JSON or headers. */
#include "../fakes/box_spec.h"
#include "engine_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct engine_container *list = NULL;
	struct engine_info info = {0};
	struct engine_event ev;
	struct attach_head head;
	char message[ENGINE_MESSAGE_MAX], id[72];
	const char *field = NULL;
	uint32_t n32;
	size_t n = 0;

	docker_reply_message(data, size, message);
	for (const char *p = message; *p != '\0'; p++) {
		if (*p < ' ' || *p > '~')
			abort();
	}
	if (docker_reply_created(data, size, id) == 0 && !docker_id_ok(id))
		abort();
	if (docker_reply_image(data, size, id) == 0 && strlen(id) != 71)
		abort();
	(void)docker_reply_pid(data, size, &n32);
	(void)docker_reply_version(data, size, &info);
	(void)docker_reply_info(data, size, &info);
	if (docker_reply_list(data, size, &list, &n) == 0)
		free(list);
	if (docker_reply_event(data, size, &ev) == 1 && !docker_id_ok(ev.id))
		abort();
	if (docker_check(data, size, &fake_box_spec, &fake_engine_info, &field) == -EPERM &&
	    field == NULL)
		abort();
	if (attach_head_parse(data, size, &head) > (ssize_t)size)
		abort();
	return 0;
}
