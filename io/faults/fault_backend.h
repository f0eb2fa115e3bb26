/*
 * fault_backend — declarations shared by fault_backend.c and fault_queue.c.
 */
#ifndef MILLRACE_IO_FAULTS_FAULT_BACKEND_H
#define MILLRACE_IO_FAULTS_FAULT_BACKEND_H

#include "io/faults/io_fault.h"

enum { FAULT_POLL_NS = 2000000 }; /* how often held operations check for their release */

struct io_fault {
    struct io base;
    struct io_ops ops; /* the inner backend's scheme and a name derived from its name */
    struct io_lock_ops locks;
    char name[64];
    struct io *inner; /* immutable */
    struct fault_rules rules;
    atomic_bool is_released;
    atomic_uint_least64_t operations[FAULT_OPERATIONS], read_bytes, hits, held, in_flight,
        unsafe_aborts;
};

/* Immutable, except next, which belongs to the transaction. */
struct io_file {
    struct io_fault *fault;
    struct io_file *inner;
    struct io_file *next;         /* in the transaction's list of unfinalized files */
    char path[IO_PATH_BYTES_MAX]; /* matched by rules */
};

/* Counts the operation and applies the rules. */
struct fault_verdict fault_apply(struct io_fault *fault, enum fault_operation operation,
                                 const char *path, uint64_t offset);

/* fault_queue.c: hooks of struct io_ops. */
int fault_queue_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err);
void fault_queue_close(struct io_queue *queue);
void fault_queue_register(struct io_queue *queue, void *memory, size_t bytes);
int fault_queue_submit(struct io_queue *queue, struct io_request *const *requests, unsigned count);
int fault_queue_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                     unsigned count_min, int timeout_ms);
void fault_queue_cancel(struct io_queue *queue, struct io_request *request);

#endif
