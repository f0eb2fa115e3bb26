/*
 * cpu_share — see cpu_share.h.
 */
#include "base/os/cpu_share.h"

#include "base/hash.h"
#include "base/os/machine.h"
#include "base/os/thread_pool.h"

#include <assert.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1024, LIST_BYTES = 4096 };

#define ROUNDING 1e-6 /* exceeds the rounding error of sums of 1/n */

static_assert(CPU_SETSIZE >= CPU_PLACEMENT_CPUS_MAX, "a cpu_set_t holds every CPU of a placement");

static bool has_cpu(const struct cpu_placement *placement, unsigned cpu)
{
    return placement->cpus[cpu / 64] >> cpu % 64 & 1;
}

void cpu_placement_read(struct cpu_placement *ret_placement)
{
    char host[MACHINE_HOST_ID_BYTES];
    cpu_set_t set;
    *ret_placement = (struct cpu_placement){.cpu_count = thread_pool_cpu_count()};
    machine_host_id(host);
    ret_placement->host = hash_64(host, strlen(host));
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    for (unsigned cpu = 0; cpu < CPU_PLACEMENT_CPUS_MAX; cpu++)
        if (CPU_ISSET(cpu, &set))
            ret_placement->cpus[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

/* Whether the kernel's list ("0-3,8") contains a CPU of the set. */
static bool list_overlaps(const char *list, const cpu_set_t *set)
{
    const char *rest = list;
    while (*rest >= '0' && *rest <= '9') {
        char *end;
        unsigned long first = strtoul(rest, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, set))
                return true;
        rest = *end == ',' ? end + 1 : end;
    }
    return false;
}

unsigned numa_nodes_count(const char *root)
{
    unsigned count = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    for (unsigned node = 0; node < NODES_MAX; node++) {
        char path[PATH_MAX], list[LIST_BYTES];
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u/cpulist", root, node);
        count += machine_read_line(path, list, sizeof list) == 0 && list_overlaps(list, &set);
    }
    return count > 0 ? count : 1;
}

static size_t count_on_host(const struct cpu_placement *placements, size_t count, size_t own_index)
{
    size_t processes = 0;
    for (size_t i = 0; i < count; i++)
        processes += placements[i].host == placements[own_index].host;
    return processes;
}

/* Counts the processes on the same host that may run on the CPU. */
static size_t count_on_cpu(const struct cpu_placement *placements, size_t count, size_t own_index,
                           unsigned cpu)
{
    size_t processes = 0;
    for (size_t i = 0; i < count; i++)
        processes +=
            placements[i].host == placements[own_index].host && has_cpu(&placements[i], cpu);
    return processes;
}

unsigned cpu_share(const struct cpu_placement *placements, size_t count, size_t own_index)
{
    uint64_t cpus_count = 0;
    double share = 0;
    for (unsigned cpu = 0; cpu < CPU_PLACEMENT_CPUS_MAX; cpu++)
        if (has_cpu(&placements[own_index], cpu)) {
            cpus_count++;
            share += 1.0 / (double)count_on_cpu(placements, count, own_index, cpu);
        }
    /* The affinity is unknown, or a control group allows less. */
    bool is_limited = cpus_count == 0 || placements[own_index].cpu_count < cpus_count;
    double limit = (double)placements[own_index].cpu_count /
                   (double)count_on_host(placements, count, own_index);
    if (is_limited && (cpus_count == 0 || limit < share))
        share = limit;
    return share >= 1 ? (unsigned)(share + ROUNDING) : 1;
}
