/*
 * gpu_probe — detects from kernel files whether this process has an NVIDIA GPU.
 *
 * CUDA reports "no device" both when there is none and when the driver is absent, too old or not
 * accessible. The kernel's files distinguish these cases. The process has a GPU if
 *
 *   - /dev/nvidiaN exists, unless a control group denies it (EPERM), as in a job without GPUs;
 *   - outside a container (where /proc and /sys are the host's), a GPU is listed in
 *     /proc/driver/nvidia/gpus, or an NVIDIA display controller is on the PCI bus and vfio-pci does
 *     not own it.
 */
#ifndef MILLRACE_DEVICE_GPU_PROBE_H
#define MILLRACE_DEVICE_GPU_PROBE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_PROBE_BYTES = 128, GPU_PROBE_FILES_MAX = 64 };

struct gpu_probe {
    char gpu_path[GPU_PROBE_BYTES]; /* the first GPU: "/dev/nvidia0" */
    int status; /* 0, or the error on opening its device file: -EACCES, -ENODEV */
};

/* root: prefix of every path; "": this machine. If false, *ret_probe is unchanged. */
bool gpu_probe_find(const char *root, struct gpu_probe *ret_probe);
/* Counts the files /dev/nvidiaN, including those that cannot be opened. */
unsigned gpu_probe_count_files(const char *root);
/* Whether this value of CUDA_VISIBLE_DEVICES (NULL: unset) hides all GPUs. */
bool gpu_probe_hides_all(const char *visible_devices);

#ifdef __cplusplus
}
#endif

#endif
