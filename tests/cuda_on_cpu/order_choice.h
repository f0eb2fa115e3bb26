/*
 * order_choice — what the order in force decides, for the shim itself (order.h is for tests).
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_ORDER_CHOICE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_ORDER_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* When queued work runs. */
enum order_streams {
    STREAMS_AT_ONCE, /* as soon as it may */
    STREAMS_LATE,    /* only what somebody waits for, and only then */
    STREAMS_RANDOM,
};

bool order_threads_reversed(void);

/* Which of `count` threads that may run, 0 the one that has waited longest, goes on. */
int order_pick_thread(int count);

/* The i-th block to run, of count. */
uint64_t order_block(uint64_t i, uint64_t count);

enum order_streams order_streams(void);

/* Below count, which is > 0. */
uint64_t order_random(uint64_t count);

#endif
