/*
 * cuda_libraries — finds NVIDIA's libraries, except the CUDA runtime, and their versions.
 */
#ifndef MILLRACE_DEVICE_CUDA_LIBRARIES_H
#define MILLRACE_DEVICE_CUDA_LIBRARIES_H

#include <stddef.h>

struct cuda_library {
    const char *name;        /* "cuBLASLt" */
    const char *use;         /* its purpose in millrace */
    int major, minor, patch; /* 0, 0, 0 if absent */
};

enum { CUDA_LIBRARIES_MAX = 3 };

/* Loads each library permanently and queries its version, which takes a few tenths of a second.
 * Needs no driver. Returns their number. */
size_t cuda_libraries_find(struct cuda_library libraries[CUDA_LIBRARIES_MAX]);

#endif
