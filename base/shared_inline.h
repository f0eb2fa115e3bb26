/*
 * shared_inline — declares an inline function usable from both C code and CUDA kernels. Header
 * only.
 */
#ifndef MILLRACE_BASE_SHARED_INLINE_H
#define MILLRACE_BASE_SHARED_INLINE_H

#ifdef __CUDACC__
#define SHARED_INLINE __host__ __device__ static inline
#else
#define SHARED_INLINE static inline
#endif

#endif
