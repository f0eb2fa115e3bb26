/*
 * tensor_core — wrappers for PTX instructions without a C++ equivalent: asynchronous copies to
 * shared memory, loads of matrix fragments, and their products. The tests use plain C++ instead
 * (tests/cuda_on_cpu/). C++ only.
 *
 * Fragments of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), with lane = threadIdx.x
 * % 32, group = lane / 4, pair = lane % 4, and element pairs packed low half first:
 *
 *     A (16 x 16, row-major)   a[0]: row group,     columns 2 pair, +1
 *                              a[1]: row group + 8, columns 2 pair, +1
 *                              a[2]: row group,     columns 2 pair + 8, +9
 *                              a[3]: row group + 8, columns 2 pair + 8, +9
 *     B (16 x 8, by columns)   b[0]: column group, rows 2 pair, +1
 *                              b[1]: column group, rows 2 pair + 8, +9
 *     C, D (16 x 8, float)     c[0], c[1]: row group,     columns 2 pair, +1
 *                              c[2], c[3]: row group + 8, columns 2 pair, +1
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_TENSOR_CORE_H
#define MILLRACE_TRAINER_OPS_CUDA_TENSOR_CORE_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__

__device__ inline uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Starts copying 16 bytes from global to shared memory, both 16-byte aligned. If not valid, writes
 * zeros without reading the source. */
__device__ inline void copy_async_16(void *shared, const void *global, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)),
                 "l"(global), "r"(valid ? 16 : 0)
                 : "memory");
}

/* Ends the group of copies that this thread started since the last commit. */
__device__ inline void copy_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until at most `pending` of this thread's newest groups are in progress. To see copies
 * issued by other threads, a barrier is needed as well. */
template <int pending> __device__ inline void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(pending) : "memory");
}

/* Reads threadIdx.x again, so that values derived from it occupy no registers across a loop that
 * has none to spare. */
__device__ inline unsigned reload_thread_index()
{
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
    return thread;
}

/* Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes the address
 * (16-byte aligned) of row l % 8 of matrix l / 8. r[m] receives two adjacent elements, from 2 (lane
 * % 4) on, of row lane / 4 of matrix m, or of its transpose if `transposed`. */
template <bool transposed>
__device__ inline void load_matrices(uint32_t r[4], const void *shared_row)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(shared_row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(shared_address(shared_row))
                     : "memory");
}

/* 2^x with a relative error of at most 2^-22; 0 below the smallest normal number; exactly 1 for x =
 * 0. */
__device__ inline float exp2_approximate(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
    return power;
}

/* c += a b, accumulated in float. T: __nv_bfloat16 or __half. */
template <typename T>
__device__ inline void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2]);

template <>
__device__ inline void multiply_add<__nv_bfloat16>(float c[4], const uint32_t a[4],
                                                   const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ inline void multiply_add<__half>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

#endif
