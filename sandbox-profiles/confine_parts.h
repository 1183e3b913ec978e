/*
 * sandbox-profiles/confine_parts.h - what confine.c is made of. Only the files
 * of this room include it.
 */
#ifndef BAILEY_CONFINE_PARTS_H
#define BAILEY_CONFINE_PARTS_H

#include "confine.h"

/* namespaces.c. 1: in force; 0: the kernel refused and nothing has changed that
 * widens anything; -errno: stopped half-way, the caller must not go on. */
int confine_namespaces(const struct confine_plan *plan);

/* limits.c: each 0/-errno. */
int confine_ids_check(bool expect_uid);
int confine_limits(enum confine_table table);
/* Nothing stays but, with keep_kill, CAP_KILL (-EPERM where it is missing). */
int confine_caps_drop(bool keep_kill);
/* At most `allowed` (bits by capability number) is held anywhere; ambient included. */
int confine_caps_check(uint64_t allowed);
/* 1: no file can be opened, made or changed any more; 0: the kernel has no Landlock. */
int confine_no_files(void);

/* The capabilities a table's process may keep. */
uint64_t confine_caps_kept(const struct confine_plan *plan);
/* Set for programs whose table answers openat with EACCES. */
bool confine_opens_nothing(enum confine_table table);

#endif
