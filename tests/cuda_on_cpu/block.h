/*
 * block — runs one block of a kernel, with its threads as fibers on one CPU.
 *
 * A thread runs until it waits at a barrier, waits for the other lanes of its warp, or returns.
 * Then another runnable thread continues, chosen by the order (order_choice.h). Between two
 * barriers, any interleaving of threads is legal, and tests may try it. These errors end the
 * program with one line (violation.h): a thread that returned before a barrier that others wait at,
 * one barrier reached from two places, lanes that disagree on a collective operation, its mask or
 * its place in the code, or threads that deadlock.
 *
 * Under ThreadSanitizer only __syncthreads and __syncwarp order memory; shuffles and tensor-core
 * instructions do not.
 *
 * Only one system thread, queue.c's, runs blocks.
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
    BLOCK_COPIES_MAX = 256, /* asynchronous copies in progress per thread */
};

/* The values that kernels read as blockIdx, blockDim, gridDim and threadIdx. */
struct block_index {
    uint3 block;
    dim3 block_dim, grid_dim;
};
extern struct block_index shim_index;
extern const uint3 *shim_thread_index; /* of the running thread */

/* Runs main(argument) in each thread of the block that shim_index describes. The number of threads
 * must be a multiple of 32. kernel: the kernel's address, for messages. */
void block_run(const void *kernel, void (*main)(void *argument), void *argument);

/* Implements __syncthreads. Returns the number of threads with a nonzero predicate. The three
 * variants with a predicate derive their results from it. */
int shim_sync_threads(int predicate, const char *file, int line);

/* Warp collectives: each lane passes its arguments, and the last to arrive computes the results for
 * all lanes (collective.h). */
enum collective {
    COLLECTIVE_SYNC,     /* __syncwarp, no arguments */
    COLLECTIVE_SHUFFLE,  /* struct collective_shuffle */
    COLLECTIVE_VOTE,     /* struct collective_vote */
    COLLECTIVE_MATRICES, /* struct collective_matrices: ldmatrix */
    COLLECTIVE_PRODUCT,  /* struct collective_product: mma */
    COLLECTIVE_KIND_COUNT
};
void shim_collective(enum collective kind, uint32_t mask, void *arguments, const char *file,
                     int line);

/* The thread's asynchronous copies, in groups. The caller copies the data, so that the sanitizers
 * attribute the accesses to the right thread. */
struct block_copy {
    void *target;
    const void *source; /* NULL: zeros */
};
void shim_copy_add(void *target, const void *source);
void shim_copy_commit(void);
/* Removes the oldest copy, unless it belongs to the `pending` newest groups. Returns false if there
 * is none. */
bool shim_copy_pop(int pending, struct block_copy *ret_copy);

#ifdef __cplusplus
}
#endif

#endif
