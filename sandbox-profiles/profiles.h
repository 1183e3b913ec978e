/*
 * sandbox-profiles/profiles.h - the built-in profiles: what a sandbox gets by
 * default and the most a request may ask for. base only; used by broker and cli.
 */
#ifndef BAILEY_PROFILES_H
#define BAILEY_PROFILES_H

#include "base.h"

#define PROFILE_MEMORY_MIN_BYTES (UINT64_C(32) << 20) /* least a request may ask for */
#define PROFILE_NODE_MEMORY_MIN_BYTES (UINT64_C(96) << 20)
#define PROFILE_CLASSES 3 /* pool[]: shell, python, node, in this order (enum box_class) */

struct profile {
	const char *name;
	const char *image; /* "" = the tree's */
	uint32_t cpus_milli, cpus_max_milli, cpu_shares;
	uint64_t memory_bytes, memory_max_bytes; /* = swap limit */
	uint32_t pids;
	uint32_t timeout_ms, timeout_max_ms;
	uint64_t workspace_bytes, tmp_bytes, workspace_inodes, tmp_inodes;
	uint32_t lifetime_s, lifetime_max_s, idle_s;
	uint32_t pool[PROFILE_CLASSES];
};

/* "" is the default profile. NULL: no such profile. */
const struct profile *profile_find(const char *name, size_t len);
size_t profile_count(void);
const struct profile *profile_at(size_t i); /* i < profile_count() */

#endif
