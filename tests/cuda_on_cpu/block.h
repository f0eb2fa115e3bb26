/*
 * block — one block of a kernel: its threads are fibers on one CPU, which switch where threads of a
 * GPU wait for each other.
 *
 * A thread runs until it waits at a barrier, waits for the other lanes of its warp, or returns;
 * then another thread that may run goes on, which one the order says. So between two barriers any
 * interleaving of whole pieces may be tried, and all of them are legal. What is wrong ends the
 * program with a line (violation.h): a thread that returned before a barrier that others wait at, a
 * barrier at two places, lanes that do not agree on a collective, its mask or its place, a block
 * that waits for ever.
 *
 * Under ThreadSanitizer only __syncthreads and __syncwarp order memory; shuffles and tensor-core
 * instructions do not.
 *
 * Threads: one system thread runs blocks (queue.c's).
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_BLOCK_H
#define MILLRACE_TESTS_CUDA_ON_CPU_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BLOCK_THREADS_MAX = 1024,
    BLOCK_WARP_THREADS = 32,
    BLOCK_COPIES_MAX = 256, /* asynchronous copies of a thread in progress */
};

/* What kernels read as blockIdx, blockDim and gridDim, and each thread as threadIdx. */
struct block_index {
    uint3 block;
    dim3 block_dim, grid_dim;
};
extern struct block_index shim_index;
extern const uint3 *shim_thread_index; /* of the thread that runs */

/* Runs main(argument) in each thread of the block that shim_index describes. Threads are a multiple
 * of 32. kernel: its address, for messages. */
void block_run(const void *kernel, void (*main)(void *argument), void *argument);

/* __syncthreads; the three with a predicate get the count, the and, the or of all threads from the
 * count that is returned. */
int shim_sync_threads(int predicate, const char *file, int line);

/* A collective of a warp: each lane parks its arguments, and the last to arrive computes for all
 * (collective.h). */
enum collective {
    COLLECTIVE_SYNC,     /* __syncwarp: no arguments */
    COLLECTIVE_SHUFFLE,  /* struct collective_shuffle */
    COLLECTIVE_VOTE,     /* struct collective_vote */
    COLLECTIVE_MATRICES, /* struct collective_matrices: ldmatrix */
    COLLECTIVE_PRODUCT,  /* struct collective_product: mma */
    COLLECTIVE_KIND_COUNT
};
void shim_collective(enum collective kind, uint32_t mask, void *arguments, const char *file,
                     int line);

/* The thread's asynchronous copies, in groups. Who calls does the copying, so that the sanitizers
 * see whose it is. */
struct block_copy {
    void *target;
    const void *source; /* NULL: zeros */
};
void shim_copy_add(void *target, const void *source);
void shim_copy_commit(void);
/* The oldest copy that must have landed where at most `pending` newest groups may be in progress;
 * false: no more. */
bool shim_copy_next(int pending, struct block_copy *ret_copy);

#ifdef __cplusplus
}
#endif

#endif
