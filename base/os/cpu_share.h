/*
 * cpu_share — computes how many CPUs each of a host's processes should use.
 *
 *     cpu_placement_read(&placements[rank]);
 *     ... all processes exchange their placements ...
 *     threads = cpu_share(placements, ranks_count, rank);
 *
 * Each of the n processes that may run on a CPU gets 1/n of it, so a process that a launcher bound
 * to its own CPUs keeps them all. A control group limit is divided among the host's processes,
 * because the processes in a container share its groups.
 */
#ifndef MILLRACE_BASE_OS_CPU_SHARE_H
#define MILLRACE_BASE_OS_CPU_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum { CPU_PLACEMENT_CPUS_MAX = 1024, CPU_PLACEMENT_WORDS = CPU_PLACEMENT_CPUS_MAX / 64 };

/* Plain data without padding; exchanged as bytes. */
struct cpu_placement {
    uint64_t host;      /* hash of the host's identity */
    uint64_t cpu_count; /* from thread_pool_cpu_count: affinity, limited by control groups */
    uint64_t cpus[CPU_PLACEMENT_WORDS]; /* affinity; no bits set if unknown */
};

/* Counts the NUMA nodes with CPUs that the calling thread may use, at least 1. root is prepended to
 * every path read. */
unsigned numa_nodes_count(const char *root);

void cpu_placement_read(struct cpu_placement *ret_placement);
/* CPUs for placements[own_index], rounded down, at least 1. */
unsigned cpu_share(const struct cpu_placement *placements, size_t count, size_t own_index);

#endif
