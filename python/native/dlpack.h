/*
 * dlpack — the binary interface of DLPack 1.0, by which arrays are exchanged without copies
 * (https://dmlc.github.io/dlpack/latest/c_api.html). Names are ours; the layouts are DLPack's.
 */
#ifndef MILLRACE_PYTHON_DLPACK_H
#define MILLRACE_PYTHON_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };
enum { DLPACK_CPU = 1 }; /* kDLCPU; pinned memory is exported as it, since the host may use it */
enum {
    DLPACK_INT = 0,
    DLPACK_UINT = 1,
    DLPACK_FLOAT = 2,
    DLPACK_BFLOAT = 4,
    DLPACK_BOOL = 6,
};

struct dlpack_device {
    int32_t type, number;
};

struct dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes; /* 1 */
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t rank;
    struct dlpack_dtype dtype;
    int64_t *shape, *strides; /* in elements */
    uint64_t offset_bytes;
};

/* Capsule "dltensor". */
struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

/* Capsule "dltensor_versioned". */
struct dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
