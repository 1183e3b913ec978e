/*
 * frontend/collect.c - files a run left: read one after the other, returned as images, text, base64
 * or links.
 * Runs in: bailey-frontend.
 * Input: paths of the client and of listings; bytes from a sandbox, untrusted in every way.
 * Owns: what is still to be read, and what has been.
 *
 * Each path is read as a file first; one that is a directory is listed, and its
 * files take their turn. An image that is too large is made smaller inside the
 * sandbox, where its image has Pillow. What fits no budget becomes a link: to the
 * file where its sandbox stays, else to the kept output of the very run that read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "frontend.h"

#define TEXT_BUDGET ((size_t)256 << 10) /* of an answer; text, or base64 of what is none */
#define IMAGE_BUDGET ((size_t)1000000)  /* of an answer; base64 */
#define PART_MAX (LOG_MAX - (8U << 10)) /* read of one file: what is kept of a run's output */
#define SCALED_MIN ((size_t)4096)       /* less is not worth a look */
#define SCALED_MAX 8u                   /* of an answer: each may take its seconds */
#define SCALE_NO_PILLOW 3u              /* guest/python/scale.py */
#define LISTING_MAX ((size_t)512 << 10)
#define URI_MAX (3 * (size_t)FILE_PATH_MAX + 128)

struct wanted {
	char *path;
	char sandbox[SANDBOX_ID_LEN + 1];
	bool listing; /* it is a directory */
	bool found;   /* by a listing: it cannot be one */
	bool scaling; /* it was read and is too large: a smaller one comes */
};
/* A file that was read. */
struct was_read {
	uint64_t size;
	const char *type; /* of an image, or NULL */
	bool all;
	char run_id[33]; /* of the run whose output holds it */
};
struct collect {
	struct wanted items[COLLECT_MAX];
	size_t n, at;
	bool truncated;
	unsigned scaled;           /* tries */
	struct was_read too_large; /* the one that is made smaller */
	size_t text_left, image_left;
	cJSON *list, *blocks;
};

struct collect *
collect_new(void)
{
	struct collect *k = xcalloc(1, sizeof(*k));

	k->text_left = TEXT_BUDGET;
	k->image_left = IMAGE_BUDGET;
	k->list = cJSON_CreateArray();
	k->blocks = cJSON_CreateArray();
	return k;
}

void
collect_free(struct collect *k)
{
	if (k == NULL)
		return;
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i].path);
	cJSON_Delete(k->list);
	cJSON_Delete(k->blocks);
	free(k);
}

static struct wanted *
add(struct collect *k, char *path, const char *sandbox)
{
	struct wanted *w;

	if (k->n == COLLECT_MAX) {
		k->truncated = true;
		free(path);
		return NULL;
	}
	w = &k->items[k->n++];
	*w = (struct wanted){.path = path};
	(void)str_copy(w->sandbox, sizeof(w->sandbox), sandbox, strlen(sandbox));
	return w;
}

int
collect_add(struct collect *k, const char *path, const char *sandbox)
{
	return add(k, xstrdup(path), sandbox) == NULL ? -ENOSPC : 0;
}

struct cJSON *
collect_take_blocks(struct collect *k)
{
	return TAKE(k->blocks);
}

bool
collect_truncated(const struct collect *k)
{
	return k->truncated;
}

const char *
collect_image_type(const uint8_t *data, size_t len)
{
	static const struct {
		const char *magic, *type;
		size_t len;
	} types[] = {
		{"\x89PNG\r\n\x1a\n", "image/png", 8},
		{"\xff\xd8\xff", "image/jpeg", 3},
		{"GIF87a", "image/gif", 6},
		{"GIF89a", "image/gif", 6},
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (len >= types[i].len && memcmp(data, types[i].magic, types[i].len) == 0)
			return types[i].type;
	}
	if (len >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}

static cJSON *
new_entry(struct collect *k, const struct wanted *w, const char *encoding)
{
	cJSON *entry = cJSON_CreateObject();

	(void)cJSON_AddItemToArray(k->list, entry);
	result_add_visible(entry, "path", w->path, strlen(w->path));
	(void)cJSON_AddNullToObject(entry, "size");
	(void)cJSON_AddStringToObject(entry, "encoding", encoding);
	return entry;
}

/* ---- the step ---- */

/* What base64 of it fits. */
static size_t
image_room(const struct collect *k)
{
	return k->image_left / 4 * 3;
}

bool
collect_begin(struct call *c, struct collect *k)
{
	for (; k->at < k->n; k->at++) {
		struct wanted *w = &k->items[k->at];
		struct file_spec spec = {.kind = w->listing ? RUN_FILE_LIST : RUN_FILE_READ,
					 .path = w->path,
					 .length = w->listing ? DEPTH_MAX : PART_MAX};

		if (w->scaling && specs_scale(c, w->path, image_room(k)) == 0) {
			output_init_whole(&c->out[0], PART_MAX);
			return true;
		}
		if (specs_file(c, &spec) == 0) {
			output_init_whole(&c->out[0], w->listing ? LISTING_MAX : PART_MAX);
			return true;
		}
		(void)cJSON_AddStringToObject(new_entry(k, w, "none"), "message",
					      "This is not a path.");
	}
	return false;
}

/* The files of a listing take their turn. */
static void
add_listed(struct collect *k, const struct wanted *dir, const struct output *o)
{
	struct list_cursor cursor = {.at = buf_data(&o->head)};
	size_t n = strlen(dir->path);
	struct list_entry entry;

	cursor.end = cursor.at + buf_len(&o->head);
	while (!k->truncated && files_next(&cursor, &entry)) {
		struct wanted *w;

		if (entry.type != 'f')
			continue;
		w = add(k,
			xasprintf("%s%s%s", dir->path, n > 0 && dir->path[n - 1] == '/' ? "" : "/",
				  entry.path),
			dir->sandbox);
		if (w != NULL)
			w->found = true;
	}
	if (cursor.at != cursor.end)
		k->truncated = true;
}

static void
set_size(cJSON *entry, uint64_t size)
{
	cJSON_DeleteItemFromObjectCaseSensitive(entry, "size");
	result_add_count(entry, "size", size);
}

static void
add_image(struct collect *k, cJSON *entry, const char *type, const uint8_t *data, size_t len)
{
	cJSON *block = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(entry, "mime_type", type);
	(void)cJSON_AddStringToObject(block, "type", "image");
	files_add_bytes(block, "data", data, len, false);
	(void)cJSON_AddStringToObject(block, "mimeType", type);
	(void)cJSON_AddItemToArray(k->blocks, block);
}

static void
add_link(struct collect *k, cJSON *entry, const struct wanted *w, const char *run_id,
	 const char *type)
{
	const char *name = strrchr(w->path, '/');
	struct buf uri;
	cJSON *block = cJSON_CreateObject();

	name = name == NULL || name[1] == '\0' ? w->path : name + 1;
	buf_init(&uri, URI_MAX);
	if (w->sandbox[0] != '\0')
		resources_file_uri(&uri, w->sandbox, w->path);
	else
		(void)buf_printf(&uri, "bailey://runs/%s/stdout", run_id);
	(void)buf_append(&uri, "", 1);
	(void)cJSON_AddStringToObject(entry, "uri", (const char *)buf_data(&uri));
	(void)cJSON_AddStringToObject(block, "type", "resource_link");
	(void)cJSON_AddStringToObject(block, "uri", (const char *)buf_data(&uri));
	result_add_visible(block, "name", name, strlen(name));
	if (type != NULL) {
		(void)cJSON_AddStringToObject(entry, "mime_type", type);
		(void)cJSON_AddStringToObject(block, "mimeType", type);
	}
	(void)cJSON_AddItemToArray(k->blocks, block);
	buf_done(&uri);
}

static void
add_unshown(struct collect *k, const struct wanted *w, const struct was_read *file)
{
	cJSON *entry;

	if (w->sandbox[0] != '\0' || file->all) {
		entry = new_entry(k, w, "link");
		add_link(k, entry, w, file->run_id, file->type);
	} else {
		entry = new_entry(k, w, "none");
		(void)cJSON_AddStringToObject(
			entry, "message",
			"Larger than 1 MiB. Run it in a sandbox of container_create_sandbox and "
			"read the file in parts.");
	}
	set_size(entry, file->size);
}

/* A file that was read: the form that fits what is left of the budgets. true: it is an image, and a
 * smaller one may fit. */
static bool
add_file(struct collect *k, const struct call *c, const struct wanted *w, uint64_t size)
{
	const uint8_t *data = buf_data(&c->out[0].head);
	size_t len = buf_len(&c->out[0].head), shown, encoded = (len + 2) / 3 * 4;
	struct was_read file = {.size = size,
				.type = collect_image_type(data, len),
				.all = c->out[0].received == len && size == len};
	bool text = files_is_text(data, len, false, &shown);
	cJSON *entry;

	memcpy(file.run_id, c->grant.run_id, sizeof(file.run_id));
	if (file.all && file.type != NULL && encoded <= k->image_left) {
		k->image_left -= encoded;
		entry = new_entry(k, w, "image");
		add_image(k, entry, file.type, data, len);
	} else if (file.all && file.type == NULL && (text ? len : encoded) <= k->text_left) {
		k->text_left -= text ? len : encoded;
		entry = new_entry(k, w, text ? "utf8" : "base64");
		files_add_bytes(entry, "content", data, len, text);
	} else if (file.type != NULL && k->scaled < SCALED_MAX && image_room(k) >= SCALED_MIN) {
		k->too_large = file;
		return true;
	} else {
		add_unshown(k, w, &file);
		return false;
	}
	set_size(entry, size);
	return false;
}

/* What the sandbox made of an image that was too large; whatever that is, it must be one and fit.
 */
static void
add_scaled(struct collect *k, const struct call *c, const struct wanted *w,
	   const struct ipc_call_ended *ended)
{
	const uint8_t *data = buf_data(&c->out[0].head);
	size_t len = buf_len(&c->out[0].head), encoded = (len + 2) / 3 * 4;
	const char *type = collect_image_type(data, len);
	struct guest_g_exit guest;
	cJSON *entry;

	k->scaled++;
	if (!result_exit(ended, &guest) || guest.how == EXIT_NOT_STARTED ||
	    (guest.how == EXIT_EXITED && guest.exit_code == SCALE_NO_PILLOW))
		k->scaled = SCALED_MAX; /* nor for the others */
	if (result_known(ended->status) != RUN_ok || type == NULL || encoded > k->image_left ||
	    c->out[0].received != len) {
		add_unshown(k, w, &k->too_large);
		return;
	}
	k->image_left -= encoded;
	entry = new_entry(k, w, "image");
	add_image(k, entry, type, data, len);
	(void)cJSON_AddStringToObject(
		entry, "message", "The image block is a smaller version; the file is as it was.");
	set_size(entry, k->too_large.size);
}

void
collect_end(struct call *c, struct collect *k, const struct ipc_call_ended *ended)
{
	struct wanted *w = &k->items[k->at];
	uint64_t size = 0;
	struct file_fault fault;

	if (w->scaling) {
		k->at++;
		add_scaled(k, c, w, ended);
		return;
	}
	fault = files_fault(ended, &size);
	if (!w->listing && !w->found && files_errno(ended) == EISDIR) {
		w->listing = true; /* its turn again */
		return;
	}
	k->at++;
	if (fault.status != RUN_ok) {
		cJSON *entry = new_entry(k, w, "none");

		if (fault.said.len == 0)
			fault.said = IPC_STR(run_status_advice(fault.status));
		result_add_visible(entry, "message", fault.said.data, fault.said.len);
	} else if (w->listing) {
		add_listed(k, w, &c->out[0]);
	} else if (add_file(k, c, w, size)) {
		w->scaling = true; /* its turn again */
		k->at--;
	}
}

struct cJSON *
collect_take_list(struct collect *k)
{
	for (; k->at < k->n; k->at++) {
		const struct wanted *w = &k->items[k->at];

		if (w->scaling)
			add_unshown(k, w, &k->too_large);
		else
			(void)cJSON_AddStringToObject(new_entry(k, w, "none"), "message",
						      "The sandbox ended, or could not be reached "
						      "any more, before this was read.");
	}
	return TAKE(k->list);
}
