/*
 * dtype — element types of tensors and their safetensors names. Header only.
 */
#ifndef MILLRACE_BASE_DTYPE_H
#define MILLRACE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* File formats store only the names; the numbers may change. */
enum dtype {
    DTYPE_BOOL,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_F8_E5M2,
    DTYPE_F8_E4M3,
    DTYPE_I16,
    DTYPE_U16,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_I32,
    DTYPE_U32,
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_I64,
    DTYPE_U64,
    DTYPE_COUNT
};

enum { DTYPE_RANK_MAX = 8 }; /* dimensions of a tensor */

static inline const char *dtype_name(enum dtype dtype)
{
    static const char *const names[DTYPE_COUNT] = {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
                                                   "I16",  "U16", "F16", "BF16",    "I32",
                                                   "U32",  "F32", "F64", "I64",     "U64"};
    return names[dtype];
}

static inline size_t dtype_bytes(enum dtype dtype)
{
    static const unsigned char bytes[DTYPE_COUNT] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
    return bytes[dtype];
}

static inline bool dtype_from_name(const char *name, enum dtype *ret_dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_name((enum dtype)i)) == 0) {
            *ret_dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

#ifdef __cplusplus
}
#endif

#endif
