/*
 * cgroup — how much CPU and memory the control groups of this process leave it, of version 1 and 2.
 *
 * A process stands in one group of each hierarchy (/proc/self/cgroup), which is mounted somewhere
 * (/proc/self/mountinfo), in a container often with the group itself as the root of the mount.
 * Every group above it limits as well: the least counts.
 */
#ifndef MILLRACE_BASE_CGROUP_H
#define MILLRACE_BASE_CGROUP_H

#include <stdint.h>

/* Zero: no limit. */
struct cgroup_limits {
    double cpu_count; /* CPU time a second: 1.5 are one and a half CPUs */
    uint64_t memory_bytes;
};

/* root stands before every path that is read: "" for this process. What can't be read limits
 * nothing. */
void cgroup_read_limits(const char *root, struct cgroup_limits *ret_limits);

#endif
