/*
 * cpu_share — how many CPUs each process should use where several may run on the same ones.
 *
 *     cpu_seat_read(&seats[rank]);
 *     ... all processes exchange their seats ...
 *     threads = cpu_share(seats, ranks_count, rank);
 *
 * A CPU counts for one nth with each of the n processes that may run on it. Processes that a
 * launcher bound to CPUs of their own keep these; processes that share CPUs divide them. A limit of
 * the control group is divided among the processes of the host: those of one container share its
 * groups.
 */
#ifndef MILLRACE_BASE_CPU_SHARE_H
#define MILLRACE_BASE_CPU_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum { CPU_SEAT_CPUS_MAX = 1024, CPU_SEAT_WORDS = CPU_SEAT_CPUS_MAX / 64 };

/* Plain data without padding, to be exchanged as bytes. */
struct cpu_seat {
    uint64_t host;      /* hash of what identifies the host */
    uint64_t cpu_count; /* as thread_pool_cpu_count: affinity, limited by control groups */
    uint64_t cpus[CPU_SEAT_WORDS]; /* affinity; no bit is set where the kernel does not say */
};

/* How many core groups the calling thread may run in, at least 1. A core group is the processors
 * of a NUMA node: those that reach one part of the memory fastest. root stands before every path
 * that is read. */
unsigned cpu_groups_count(const char *root);

/* Of the calling thread. */
void cpu_seat_read(struct cpu_seat *ret_seat);
/* The share of seats[own], rounded down, at least 1. Pure. */
unsigned cpu_share(const struct cpu_seat *seats, size_t count, size_t own);

#endif
