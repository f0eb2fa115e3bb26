/*
 * gpu_probe — whether this process was given an NVIDIA GPU, by the kernel's files alone.
 *
 * CUDA answers "no device" both where there is none and where the driver is absent or too old or
 * may not be opened. The kernel's files distinguish the two:
 *
 * | found | given |
 * |---|---|
 * | /dev/nvidiaN | yes, unless a control group denies it (EPERM), as in a job without GPUs |
 * | none, in a container | no: /proc and /sys are the host's, a GPU comes by its device file |
 * | none, but a GPU in /proc/driver/nvidia/gpus | yes: the driver is loaded |
 * | none, but a display controller of NVIDIA's on the PCI bus | yes, unless it is vfio-pci's |
 */
#ifndef MILLRACE_DEVICE_GPU_PROBE_H
#define MILLRACE_DEVICE_GPU_PROBE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GPU_PROBE_BYTES = 128, GPU_PROBE_FILES_MAX = 64 };

struct gpu_probe {
    char place[GPU_PROBE_BYTES]; /* the first one: "/dev/nvidia0" */
    int status;                  /* 0, or why its device file can't be opened: -EACCES, -ENODEV */
};

/* root stands before every path that is read; "": this machine. On false ret_probe stays as it
 * was. */
bool gpu_probe_given(const char *root, struct gpu_probe *ret_probe);
/* How many files /dev/nvidiaN there are, whether or not they can be opened. */
unsigned gpu_probe_count_files(const char *root);
/* A value of CUDA_VISIBLE_DEVICES, NULL if unset: does it hide all GPUs on purpose? */
bool gpu_probe_hides_all(const char *visible_devices);

#ifdef __cplusplus
}
#endif

#endif
