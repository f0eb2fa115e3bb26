/*
 * gcd — the greatest common divisor.
 */
#ifndef MILLRACE_SAMPLER_GCD_H
#define MILLRACE_SAMPLER_GCD_H

#include <stdint.h>

/* gcd(a, 0) = a. */
static inline uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
