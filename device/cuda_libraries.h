/*
 * cuda_libraries — which of NVIDIA's libraries beside the runtime programs find here, and their
 * versions.
 */
#ifndef MILLRACE_DEVICE_CUDA_LIBRARIES_H
#define MILLRACE_DEVICE_CUDA_LIBRARIES_H

#include <stddef.h>

struct cuda_library {
    const char *name;        /* "cuBLASLt" */
    const char *use;         /* what becomes of it in millrace */
    int major, minor, patch; /* 0, 0, 0 where it is absent */
};

enum { CUDA_LIBRARIES_MAX = 3 };

/* Loads each, which stays loaded, and asks it: some tenths of a second. Needs no driver. Their
 * number. */
size_t cuda_libraries_find(struct cuda_library libraries[CUDA_LIBRARIES_MAX]);

#endif
