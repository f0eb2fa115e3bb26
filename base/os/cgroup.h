/*
 * cgroup — CPU and memory limits of this process's control groups (versions 1 and 2).
 *
 * A process belongs to one group per hierarchy (/proc/self/cgroup). /proc/self/mountinfo gives the
 * mount point; in a container the mount's root is often the group itself. Ancestor groups limit as
 * well: the lowest limit wins.
 */
#ifndef MILLRACE_BASE_OS_CGROUP_H
#define MILLRACE_BASE_OS_CGROUP_H

#include <stdint.h>

/* Zero: no limit. */
struct cgroup_limits {
    double cpu_count; /* CPU seconds per second: 1.5 is one and a half CPUs */
    uint64_t memory_bytes;
};

/* root is prepended to every path read; "" for this process. Unreadable files impose no limit. */
void cgroup_read_limits(const char *root, struct cgroup_limits *ret_limits);

#endif
