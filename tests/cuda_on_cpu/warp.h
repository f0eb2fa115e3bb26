/*
 * warp — barriers, shuffles and votes as CUDA C++ spells them; default arguments capture the
 * caller's line. C++ only.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_WARP_H
#define MILLRACE_TESTS_CUDA_ON_CPU_WARP_H

#include <string.h>

#include "tests/cuda_on_cpu/collective.h"

#define SHIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SHIM_PLACE)
{
    shim_sync_threads(0, file, line);
}

inline int __syncthreads_count(int predicate, SHIM_PLACE)
{
    return shim_sync_threads(predicate, file, line);
}

inline int __syncthreads_or(int predicate, SHIM_PLACE)
{
    return shim_sync_threads(predicate, file, line) > 0;
}

inline int __syncthreads_and(int predicate, SHIM_PLACE)
{
    return shim_sync_threads(!predicate, file, line) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffff, SHIM_PLACE)
{
    shim_collective(COLLECTIVE_SYNC, mask, nullptr, file, line);
}

namespace cuda_on_cpu {

template <typename T>
T shuffle(enum shuffle kind, unsigned mask, T value, int operand, int width, const char *file,
          int line)
{
    static_assert(sizeof(T) <= SHUFFLE_BYTES_MAX, "a shuffle moves at most 16 bytes here");
    struct collective_shuffle arguments = {};
    arguments.kind = kind;
    arguments.operand = operand;
    arguments.width = width;
    arguments.bytes = sizeof(T);
    memcpy(arguments.value, &value, sizeof(T));
    shim_collective(COLLECTIVE_SHUFFLE, mask, &arguments, file, line);
    memcpy(&value, arguments.result, sizeof(T));
    return value;
}

inline unsigned vote(unsigned mask, int predicate, const char *file, int line)
{
    struct collective_vote arguments = {predicate, 0};
    shim_collective(COLLECTIVE_VOTE, mask, &arguments, file, line);
    return arguments.ballot;
}

} // namespace cuda_on_cpu

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SHIM_PLACE)
{
    return cuda_on_cpu::shuffle(SHUFFLE_INDEX, mask, value, lane, width, file, line);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, SHIM_PLACE)
{
    return cuda_on_cpu::shuffle(SHUFFLE_UP, mask, value, (int)distance, width, file, line);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, SHIM_PLACE)
{
    return cuda_on_cpu::shuffle(SHUFFLE_DOWN, mask, value, (int)distance, width, file, line);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32, SHIM_PLACE)
{
    return cuda_on_cpu::shuffle(SHUFFLE_XOR, mask, value, distance, width, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, SHIM_PLACE)
{
    return cuda_on_cpu::vote(mask, predicate, file, line);
}

inline int __any_sync(unsigned mask, int predicate, SHIM_PLACE)
{
    return cuda_on_cpu::vote(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, SHIM_PLACE)
{
    return cuda_on_cpu::vote(mask, predicate, file, line) == mask;
}

#undef SHIM_PLACE

#endif
