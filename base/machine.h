/*
 * machine — what the kernel tells of the machine: what tells it from others, its processor, its
 * memory, and any of the one-line files of /proc and /sys.
 *
 * How many CPUs a pool has is thread_pool.h's; what a control group leaves of them is cgroup.h's.
 */
#ifndef MILLRACE_BASE_MACHINE_H
#define MILLRACE_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

enum { MACHINE_TEXT_BYTES = 256, MACHINE_HOST_BYTES = 128 };

/* The first line of a file of the kernel's, without its end, cut to bytes. -errno where it can't be
 * read; text is then "". */
int machine_read_line(const char *path, char *text, size_t bytes);

/* The id of the machine's boot, which all its containers have; "" where the kernel does not tell.
 * Text holds bytes. Returns text. */
const char *machine_boot(char *text, size_t bytes);
/* What tells this host from others: its name and its boot. Hosts may have one name (localhost), but
 * no two of them the same boot; containers of one machine have names of their own. Returns text. */
const char *machine_host(char text[MACHINE_HOST_BYTES]);

/* What kind of container this process is in, by the marks that container engines leave:
 * "docker"; NULL: none is known. root stands before every path that is read; variables of the
 * environment count where it is "". */
const char *machine_container(const char *root);

/* The processor's name, "unknown" where the kernel has none; text holds bytes. Returns text. */
const char *machine_cpu_model(char *text, size_t bytes);

/* Available: what programs can take without swapping, by the kernel's estimate. */
struct machine_memory {
    uint64_t total_bytes, available_bytes;
};
/* What of this process lies in memory now; 0 where the kernel does not tell. */
uint64_t machine_process_bytes(void);
/* The most of it that ever did. */
uint64_t machine_process_peak_bytes(void);
/* -errno, -EBADMSG. */
int machine_read_memory(struct machine_memory *ret_memory);

#endif
