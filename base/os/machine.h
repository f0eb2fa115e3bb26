/*
 * machine — the machine's identity, processor and memory, as reported by the kernel. See
 * thread_pool.h for the CPU count and cgroup.h for limits.
 */
#ifndef MILLRACE_BASE_OS_MACHINE_H
#define MILLRACE_BASE_OS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MACHINE_TEXT_BYTES = 256, MACHINE_HOST_ID_BYTES = 128 };

/* Reads a file's first line without its newline, truncated to bytes. On failure, text is "". */
int machine_read_line(const char *path, char *text, size_t bytes);
/* Whether the path, with root prepended, exists. */
bool machine_has_file(const char *root, const char *path);

/* The machine's boot id, shared by its containers; "" if unknown. Returns text. */
const char *machine_boot_id(char *text, size_t bytes);
/* The host's name and boot id: hosts may share a name (localhost) but not a boot id; containers on
 * one machine have different names. Returns text. */
const char *machine_host_id(char text[MACHINE_HOST_ID_BYTES]);

/* The container engine of this process, such as "docker", detected from files and, if root is "",
 * environment variables; NULL if none is detected. root is prepended to every path read. */
const char *machine_container(const char *root);

/* "unknown" if the kernel gives no name. Returns text. */
const char *machine_cpu_model(char *text, size_t bytes);

/* Available: the kernel's estimate of the memory that programs can allocate without swapping. */
struct machine_memory {
    uint64_t total_bytes, available_bytes;
};
/* Returns 0, -errno or -EBADMSG. */
int machine_read_memory(struct machine_memory *ret_memory);
/* This process's resident memory, now and at its peak; 0 if unknown. */
uint64_t machine_process_bytes(void);
uint64_t machine_process_peak_bytes(void);

#endif
