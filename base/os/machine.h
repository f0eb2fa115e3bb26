/*
 * machine — machine facts from the kernel: identity, processor, memory, and one-line files of /proc
 * and /sys.
 *
 * See thread_pool.h for the CPU count and cgroup.h for control group limits.
 */
#ifndef MILLRACE_BASE_OS_MACHINE_H
#define MILLRACE_BASE_OS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

enum { MACHINE_TEXT_BYTES = 256, MACHINE_HOST_ID_BYTES = 128 };

/* Reads the first line of a kernel file, without the newline, truncated to bytes. On -errno text is
 * "". */
int machine_read_line(const char *path, char *text, size_t bytes);

/* The machine's boot id, shared by its containers; "" if unknown. Returns text of size bytes.  */
const char *machine_boot(char *text, size_t bytes);
/* Identifies this host: its name and boot id. Different hosts may share a name (localhost) but not
 * a boot id; containers of one machine have different names. Returns text. */
const char *machine_host_id(char text[MACHINE_HOST_ID_BYTES]);

/* The kind of container this process runs in, such as "docker", detected by files and environment
 * variables of container engines; NULL if none is detected. root is prepended to every path read;
 * the environment is used only if root is "". */
const char *machine_container(const char *root);

/* The processor's name, "unknown" where the kernel has none; text holds bytes. Returns text. */
const char *machine_cpu_model(char *text, size_t bytes);

/* Available: what programs can take without swapping, by the kernel's estimate. */
struct machine_memory {
    uint64_t total_bytes, available_bytes;
};
/* Resident memory of this process; 0 if unknown. */
uint64_t machine_process_bytes(void);
/* Its peak. */
uint64_t machine_process_peak_bytes(void);
/* -errno, -EBADMSG. */
int machine_read_memory(struct machine_memory *ret_memory);

#endif
