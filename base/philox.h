/*
 * philox — random numbers that are a pure function of a key and a counter.
 *
 * Philox4x32-10, from Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011. Each random choice is keyed by its purpose and sample. There is no generator state, so
 * choices do not depend on threads or timing.
 */
#ifndef MILLRACE_BASE_PHILOX_H
#define MILLRACE_BASE_PHILOX_H

#include <stdint.h>

/* The sample order depends on these numbers: never renumber. */
enum philox_purpose {
    PHILOX_CROP = 1,
    PHILOX_FLIP = 2,
    PHILOX_SUBSTITUTE = 3,
    PHILOX_INIT = 4,    /* initial parameters */
    PHILOX_CONVERT = 5, /* the converter's shuffle */
    PHILOX_SPLIT = 6,   /* the split that a sample belongs to */
    PHILOX_RANDAUGMENT = 7,
    PHILOX_JITTER = 8,
    PHILOX_MIXUP = 9, /* mixup and cutmix */
    PHILOX_POWERSGD = 10,
    PHILOX_DRAW = 11, /* samples drawn by weight */
};

struct philox_block {
    uint32_t word[4];
};

static inline struct philox_block philox(uint64_t key, uint64_t counter_high, uint64_t counter_low)
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct philox_block){{c0, c1, c2, c3}};
}

/* The random words for one sample and purpose: key = seed; counter = (dataset:16 | purpose:16 |
 * epoch:32, draw:16 | sample:48). */
static inline struct philox_block philox_sample(uint64_t seed, uint32_t dataset, uint32_t epoch,
                                                uint64_t sample, enum philox_purpose purpose,
                                                uint32_t draw)
{
    uint64_t high =
        (uint64_t)(dataset & 0xffffu) << 48 | (uint64_t)((uint32_t)purpose & 0xffffu) << 32 | epoch;
    return philox(seed, high, sample | (uint64_t)(draw & 0xffffu) << 48);
}

/* Returns a value in [0, 1) with 24 random bits. */
static inline double philox_uniform(uint32_t word)
{
    return (double)(word >> 8) * (1.0 / 16777216.0);
}

#endif
