/*
 * order — see order.h and order_choice.h. Compiled without ThreadSanitizer's instrumentation, like
 * block.c.
 */
#include "tests/cuda_on_cpu/order.h"

#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/order_choice.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ORDER_FORWARD,
    ORDER_REVERSE,
    ORDERS_FIXED, /* the rest are random */
#ifdef MR_SANITIZED
    ORDERS_RANDOM = 1,
#else
    ORDERS_RANDOM = 4,
#endif
};

static size_t current;
static size_t printed_count; /* orders whose seed has been printed */
static uint64_t generator;

/* splitmix64 */
static uint64_t next_random(void)
{
    uint64_t z = generator += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t order_count(void)
{
    return ORDERS_FIXED + ORDERS_RANDOM;
}

void order_set(size_t order)
{
    const char *text = getenv("MR_CUDA_SEED");
    uint64_t seed = (text ? strtoull(text, NULL, 10) : 1) + order;
    current = order;
    generator = seed;
    /* only in this order, which opens memory least often; with STREAMS_AT_ONCE it would take
     * seconds */
    memory_watch(order == ORDER_REVERSE);
    if (order >= ORDERS_FIXED && order >= printed_count) {
        fprintf(stderr, "cuda_on_cpu: order %zu, seed %llu\n", order, (unsigned long long)seed);
        printed_count = order + 1;
    }
}

uint64_t order_random(uint64_t count)
{
    return next_random() % count;
}

bool order_threads_reversed(void)
{
    return current == ORDER_REVERSE;
}

int order_pick_thread(int count)
{
    if (current < ORDERS_FIXED)
        return 0;
    /* half of the time pick the newest, so that some threads run far ahead of others */
    uint64_t random = next_random();
    return random & 1 ? count - 1 : (int)(random / 2 % (uint64_t)count);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t order_pick_block(uint64_t i, uint64_t count)
{
    static uint64_t start, stride;
    if (current == ORDER_FORWARD)
        return i;
    if (current == ORDER_REVERSE)
        return count - 1 - i;
    if (i == 0) {
        start = next_random() % count;
        do
            stride = next_random() % count + 1;
        while (common_divisor(stride, count) != 1);
    }
    /* does not overflow: the grids in tests have far fewer than 2^32 blocks */
    return (start + i * stride) % count;
}

enum stream_policy order_stream_policy(void)
{
    return current == ORDER_FORWARD   ? STREAMS_AT_ONCE
           : current == ORDER_REVERSE ? STREAMS_LATE
                                      : STREAMS_RANDOM;
}
