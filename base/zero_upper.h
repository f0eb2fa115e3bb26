/*
 * zero_upper — clears the upper halves of the x86 vector registers.
 *
 * Call it after code of a library that uses AVX and does not clear them itself. Otherwise, on some
 * processors, each later SSE instruction of the thread waits for the register's old upper half:
 * XXH3 is four times slower after ISA-L's AVX-512 CRC on an AMD EPYC (Zen 5). New threads inherit
 * the state.
 */
#ifndef MILLRACE_BASE_ZERO_UPPER_H
#define MILLRACE_BASE_ZERO_UPPER_H

#if defined(__x86_64__)
static inline void zero_upper(void)
{
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper"
                         :
                         :
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#else
static inline void zero_upper(void)
{
}
#endif

#endif
