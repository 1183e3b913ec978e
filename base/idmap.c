/*
 * base/idmap.c - u64 id to object, capped, open addressing; owns no object.
 * Runs in: every process.
 * Input: ids, some chosen by a peer: the cap bounds what a bad choice costs.
 * Owns: the slot array.
 *
 * Linear probing over a power of two kept at most half used. A taken entry
 * leaves a mark, not a hole, so a walk may take what it stands on; the marks
 * go when the array is rebuilt.
 */
#include <errno.h>
#include <stdlib.h>

#include "base.h"

#define IDMAP_FIRST 16u

struct slot {
	uint64_t id; /* 0: empty, or taken when obj is the mark */
	void *obj;
};

struct idmap {
	struct slot *slots;
	size_t size; /* power of two */
	size_t count, marks, max;
};

static char idmap_mark; /* its address marks a taken slot */

struct idmap *
idmap_new(size_t max_entries)
{
	struct idmap *m = xcalloc(1, sizeof(*m));

	m->max = max_entries;
	m->size = IDMAP_FIRST;
	m->slots = xcalloc(m->size, sizeof(*m->slots));
	return m;
}

void
idmap_free(struct idmap *m)
{
	if (m == NULL)
		return;
	free(m->slots);
	free(m);
}

static size_t
idmap_home(const struct idmap *m, uint64_t id)
{
	/* Fibonacci hashing: consecutive ids spread over the high bits. */
	return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (m->size - 1);
}

/* The slot of id, or the first empty one of its chain. */
static struct slot *
idmap_find(const struct idmap *m, uint64_t id)
{
	size_t i = idmap_home(m, id);

	while (m->slots[i].id != id && (m->slots[i].id != 0 || m->slots[i].obj == &idmap_mark))
		i = (i + 1) & (m->size - 1);
	return &m->slots[i];
}

/* Into an array that fits; drops the marks. */
static void
idmap_rebuild(struct idmap *m)
{
	struct slot *old = m->slots;
	size_t old_size = m->size;

	if (m->count * 4 >= m->size)
		m->size *= 2;
	m->slots = xcalloc(m->size, sizeof(*m->slots));
	m->marks = 0;
	for (size_t i = 0; i < old_size; i++) {
		if (old[i].id != 0)
			*idmap_find(m, old[i].id) = old[i];
	}
	free(old);
}

int
idmap_put(struct idmap *m, uint64_t id, void *obj)
{
	struct slot *slot;

	if (id == 0 || obj == NULL)
		return -EINVAL;
	if (idmap_find(m, id)->id == id)
		return -EEXIST;
	if (m->count >= m->max)
		return -ENOSPC;
	if ((m->count + m->marks + 1) * 2 > m->size)
		idmap_rebuild(m);
	slot = idmap_find(m, id);
	*slot = (struct slot){.id = id, .obj = obj};
	m->count++;
	return 0;
}

void *
idmap_get(const struct idmap *m, uint64_t id)
{
	return id == 0 ? NULL : idmap_find(m, id)->obj;
}

void *
idmap_take(struct idmap *m, uint64_t id)
{
	struct slot *slot;
	void *obj;

	if (id == 0)
		return NULL;
	slot = idmap_find(m, id);
	obj = slot->obj;
	if (obj != NULL) {
		*slot = (struct slot){.id = 0, .obj = &idmap_mark};
		m->count--;
		m->marks++;
	}
	return obj;
}

size_t
idmap_count(const struct idmap *m)
{
	return m->count;
}

bool
idmap_next(const struct idmap *m, size_t *cursor, uint64_t *ret_id, void **ret_obj)
{
	while (*cursor < m->size) {
		const struct slot *slot = &m->slots[(*cursor)++];

		if (slot->id == 0)
			continue;
		if (ret_id != NULL)
			*ret_id = slot->id;
		if (ret_obj != NULL)
			*ret_obj = slot->obj;
		return true;
	}
	return false;
}
