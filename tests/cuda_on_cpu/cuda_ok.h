/*
 * cuda_ok — fails the test with CUDA's error message if a runtime call fails.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_CUDA_OK_H
#define MILLRACE_TESTS_CUDA_ON_CPU_CUDA_OK_H

#include "tests/support/test.h"

#include <cuda_runtime_api.h>

static inline void cuda_check(cudaError_t status, const char *call, const char *file, int line)
{
    if (status == cudaSuccess)
        return;
    print_error("%s: %s\n", call, cudaGetErrorString(status));
    _fail(file, line);
}

#define cuda_ok(call) cuda_check((call), #call, __FILE__, __LINE__)

#endif
