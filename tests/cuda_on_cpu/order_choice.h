/*
 * order_choice — choices that depend on the order in force, for the shim itself (order.h is for
 * tests).
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_ORDER_CHOICE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_ORDER_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* When queued work runs. */
enum stream_policy {
    STREAMS_AT_ONCE, /* as soon as possible */
    STREAMS_LATE,    /* only what is waited for, and only then */
    STREAMS_RANDOM,
};

bool order_threads_reversed(void);

/* Chooses the thread to continue among `count` runnable threads; 0 has waited longest. */
int order_pick_thread(int count);

/* The i-th of `count` blocks to run. */
uint64_t order_pick_block(uint64_t i, uint64_t count);

enum stream_policy order_stream_policy(void);

/* A random number below count, which must be positive. */
uint64_t order_random(uint64_t count);

#endif
