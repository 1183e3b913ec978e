/*
 * tests/fakes/box_spec.h - a box_spec as a python box has it, for tests.
 */
#ifndef BAILEY_FAKE_BOX_SPEC_H
#define BAILEY_FAKE_BOX_SPEC_H

#include "engine.h"

static const struct box_spec fake_box_spec = {
	.name = "bailey-00112233-7",
	.image = "sha256:7d25e431325c9555e73be1865ccf0c76080b9aa5082e8c885067a039839345c1",
	.box_class = BOX_PYTHON,
	.uid = 10001,
	.gid = 10002,
	.memory_bytes = 512u << 20,
	.cpus_milli = 1500,
	.cpu_shares = 1024,
	.pids = 64,
	.workspace_bytes = 192u << 20,
	.tmp_bytes = 64u << 20,
	.workspace_inodes = 16384,
	.tmp_inodes = 4096,
	.cpus_shown = 2,
	.bind_guest = true,
	.share_dir = "/usr/share/bailey",
	.seccomp_json = "{\"defaultAction\":\"SCMP_ACT_ERRNO\"}",
	.label = {.instance = "00112233445566778899aabbccddeeff",
		  .boot_id = "8a1b0c2d-0000-4000-8000-000000000000",
		  .user_hash = "ffeeddccbbaa99887766554433221100",
		  .tree_pid = 4242,
		  .tree_start = 98765,
		  .pid_ns = 4026531836u,
		  .box = UINT64_MAX},
};
static const struct engine_info fake_engine_info = {
	.api = "1.41", .default_runtime = "runc", .cgroup = 1, .cpus = 2};

#endif
