/*
 * sandbox-profiles/profiles.c - profiles.def as an array, and the look-up by name.
 * Runs in: broker, cli.
 * Input: profile names from clients; untrusted, only compared.
 * Owns: nothing.
 */
#include "profiles.h"

#include <string.h>

#define MIB(n) ((uint64_t)(n) << 20)

static const struct profile profiles[] = {
#define PROFILE(name_, cpus, cpus_max, shares, memory, memory_max, pids_, timeout, timeout_max, \
		workspace, tmp, workspace_inodes_, tmp_inodes_, lifetime, lifetime_max, idle,   \
		shell, python, node)                                                            \
	{.name = #name_,                                                                        \
	 .image = "",                                                                           \
	 .cpus_milli = (cpus),                                                                  \
	 .cpus_max_milli = (cpus_max),                                                          \
	 .cpu_shares = (shares),                                                                \
	 .memory_bytes = MIB(memory),                                                           \
	 .memory_max_bytes = MIB(memory_max),                                                   \
	 .pids = (pids_),                                                                       \
	 .timeout_ms = (timeout)*1000,                                                          \
	 .timeout_max_ms = (timeout_max)*1000,                                                  \
	 .workspace_bytes = MIB(workspace),                                                     \
	 .tmp_bytes = MIB(tmp),                                                                 \
	 .workspace_inodes = (workspace_inodes_),                                               \
	 .tmp_inodes = (tmp_inodes_),                                                           \
	 .lifetime_s = (lifetime),                                                              \
	 .lifetime_max_s = (lifetime_max),                                                      \
	 .idle_s = (idle),                                                                      \
	 .pool = {(shell), (python), (node)}},
#include "profiles.def"
#undef PROFILE
};

size_t
profile_count(void)
{
	return ARRAY_LEN(profiles);
}

const struct profile *
profile_at(size_t i)
{
	return &profiles[i];
}

const struct profile *
profile_find(const char *name, size_t len)
{
	if (len == 0)
		return &profiles[0];
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if (strlen(profiles[i].name) == len && memcmp(profiles[i].name, name, len) == 0)
			return &profiles[i];
	}
	return NULL;
}
