/*
 * device_math — functions that CUDA provides only on the device, as exact as in the C library.
 * Where a device rounds differently (exp, tanh, the fast variants), comparisons need tolerances.
 * C++ only.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_DEVICE_MATH_H
#define MILLRACE_TESTS_CUDA_ON_CPU_DEVICE_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace cuda_on_cpu {

template <typename To, typename From> inline To bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

} // namespace cuda_on_cpu

inline float __uint_as_float(unsigned x)
{
    return cuda_on_cpu::bits_as<float>(x);
}

inline float __int_as_float(int x)
{
    return cuda_on_cpu::bits_as<float>(x);
}

inline unsigned __float_as_uint(float x)
{
    return cuda_on_cpu::bits_as<unsigned>(x);
}

inline int __float_as_int(float x)
{
    return cuda_on_cpu::bits_as<int>(x);
}

inline double __longlong_as_double(long long x)
{
    return cuda_on_cpu::bits_as<double>(x);
}

inline long long __double_as_longlong(double x)
{
    return cuda_on_cpu::bits_as<long long>(x);
}

template <typename T> inline T min(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> inline T max(T a, T b)
{
    return a < b ? b : a;
}

inline float __expf(float x)
{
    return expf(x);
}

inline float __logf(float x)
{
    return logf(x);
}

inline float __fdividef(float a, float b)
{
    return a / b;
}

inline float rsqrtf(float x)
{
    return (float)(1 / sqrt((double)x));
}

inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}

inline float __frcp_rn(float x)
{
    return 1 / x;
}

inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

inline float __fadd_rn(float a, float b)
{
    return a + b;
}

inline float __fsub_rn(float a, float b)
{
    return a - b;
}

inline float __fmul_rn(float a, float b)
{
    return a * b;
}

inline float __fdiv_rn(float a, float b)
{
    return a / b;
}

inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

inline double __dadd_rn(double a, double b)
{
    return a + b;
}

inline double __dmul_rn(double a, double b)
{
    return a * b;
}

inline float __saturatef(float x)
{
    return x > 0 ? (x < 1 ? x : 1) : 0;
}

inline int __float2int_rn(float x)
{
    return (int)nearbyintf(x);
}

inline long long __float2ll_rn(float x)
{
    return llrintf(x);
}

inline long long __double2ll_rn(double x)
{
    return llrint(x);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}

inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline void __threadfence()
{
}
inline void __threadfence_block()
{
}

/* Loads and stores that have a cache hint in CUDA. */
template <typename T> inline T __ldg(const T *x)
{
    return *x;
}

template <typename T> inline T __ldcs(const T *x)
{
    return *x;
}

template <typename T> inline T __ldcg(const T *x)
{
    return *x;
}

template <typename T> inline T __ldlu(const T *x)
{
    return *x;
}

template <typename T> inline void __stcs(T *x, T value)
{
    *x = value;
}

template <typename T> inline void __stcg(T *x, T value)
{
    *x = value;
}

/* Only for integers: their sums do not depend on the order. Relaxed: these operations order no
 * other memory accesses. */
inline int atomicAdd(int *x, int value)
{
    return __atomic_fetch_add(x, value, __ATOMIC_RELAXED);
}

inline unsigned atomicAdd(unsigned *x, unsigned value)
{
    return __atomic_fetch_add(x, value, __ATOMIC_RELAXED);
}

inline unsigned long long atomicAdd(unsigned long long *x, unsigned long long value)
{
    return __atomic_fetch_add(x, value, __ATOMIC_RELAXED);
}

inline unsigned atomicOr(unsigned *x, unsigned value)
{
    return __atomic_fetch_or(x, value, __ATOMIC_RELAXED);
}

namespace cuda_on_cpu {

template <typename T> inline T atomic_max(T *x, T value)
{
    T old = __atomic_load_n(x, __ATOMIC_RELAXED);
    while (old < value &&
           !__atomic_compare_exchange_n(x, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

} // namespace cuda_on_cpu

inline int atomicMax(int *x, int value)
{
    return cuda_on_cpu::atomic_max(x, value);
}

inline unsigned atomicMax(unsigned *x, unsigned value)
{
    return cuda_on_cpu::atomic_max(x, value);
}

#endif
