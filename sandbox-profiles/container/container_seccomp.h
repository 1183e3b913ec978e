/*
 * sandbox-profiles/container/container_seccomp.h - container.def as the engine
 * wants it: one line of JSON for HostConfig.SecurityOpt. Generated when building.
 */
#ifndef BAILEY_CONTAINER_SECCOMP_H
#define BAILEY_CONTAINER_SECCOMP_H

extern const char container_seccomp_json[];

#endif
