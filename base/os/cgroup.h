/*
 * cgroup — CPU and memory limits of this process's control groups (versions 1 and 2): the lowest
 * limits of the groups and their ancestors.
 */
#ifndef MILLRACE_BASE_OS_CGROUP_H
#define MILLRACE_BASE_OS_CGROUP_H

#include <stdint.h>

/* Zero: no limit. */
struct cgroup_limits {
    double cpu_count; /* CPU seconds per second: 1.5 is one and a half CPUs */
    uint64_t memory_bytes;
};

/* root is prepended to every path read; "" for this machine. Unreadable files impose no limit. */
void cgroup_read_limits(const char *root, struct cgroup_limits *ret_limits);

#endif
