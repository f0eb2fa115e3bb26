/*
 * tensor_core — the functions of trainer/ops/cuda/tensor_core.h for the CPU. C++ only.
 *
 * An asynchronous copy takes place when its thread waits for it. Until then, its target is NaN and
 * is poisoned for AddressSanitizer.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_TENSOR_CORE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_TENSOR_CORE_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/cuda_on_cpu/collective.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/cuda_on_cpu/violation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_on_cpu {

enum { COPY_BYTES = 16 };

inline void check_16(const void *memory, const char *what)
{
    if (reinterpret_cast<uintptr_t>(memory) % COPY_BYTES)
        shim_violation("%s is not 16-byte aligned", what);
}

} // namespace cuda_on_cpu

inline void copy_async_16(void *shared, const void *global, bool valid)
{
    cuda_on_cpu::check_16(shared, "the target of an asynchronous copy");
    if (!shim_is_shared(shared, cuda_on_cpu::COPY_BYTES))
        shim_violation("the target of an asynchronous copy is not shared memory");
    if (valid)
        cuda_on_cpu::check_16(global, "the source of an asynchronous copy");
    memset(shared, 0xff, cuda_on_cpu::COPY_BYTES);
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(shared, cuda_on_cpu::COPY_BYTES);
#endif
    shim_copy_add(shared, valid ? global : nullptr);
}

inline void copy_async_commit()
{
    shim_copy_commit();
}

template <int pending> inline void copy_async_wait()
{
    static const unsigned char zeros[cuda_on_cpu::COPY_BYTES] = {};
    struct block_copy copy;
    while (shim_copy_pop(pending, &copy)) {
#if defined(__SANITIZE_ADDRESS__)
        ASAN_UNPOISON_MEMORY_REGION(copy.target, cuda_on_cpu::COPY_BYTES);
#endif
        memcpy(copy.target, copy.source ? copy.source : zeros, cuda_on_cpu::COPY_BYTES);
    }
}

inline unsigned reload_thread_index()
{
    return threadIdx.x;
}

template <bool transposed>
inline void load_matrices(uint32_t r[4], const void *shared_row,
                          const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    cuda_on_cpu::check_16(shared_row, "a row of ldmatrix");
    if (!shim_is_shared(shared_row, cuda_on_cpu::COPY_BYTES))
        shim_violation("a row of ldmatrix at %s:%d is not shared memory", file, line);
    struct collective_matrices arguments = {};
    arguments.transposed = transposed;
    memcpy(arguments.row, shared_row, sizeof arguments.row);
    shim_collective(COLLECTIVE_MATRICES, UINT32_MAX, &arguments, file, line);
    memcpy(r, arguments.result, sizeof arguments.result);
}

inline float exp2_approximate(float x)
{
    float power = exp2f(x);
    return power < FLT_MIN ? 0 : power;
}

template <typename T>
inline void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2],
                         const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    static_assert(sizeof(T) == 2, "bfloat16 or half");
    struct collective_product arguments = {};
    arguments.is_fp16 = std::is_same_v<T, __half>;
    memcpy(arguments.a, a, sizeof arguments.a);
    memcpy(arguments.b, b, sizeof arguments.b);
    memcpy(arguments.c, c, sizeof arguments.c);
    shim_collective(COLLECTIVE_PRODUCT, UINT32_MAX, &arguments, file, line);
    memcpy(c, arguments.c, sizeof arguments.c);
}

#endif
