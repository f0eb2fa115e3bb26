/*
 * nccl_wire — moves bytes between the processes of an NCCL stand-in communicator: one Unix socket
 * per pair of ranks.
 *
 * Not thread-safe.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_NCCL_WIRE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_NCCL_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nccl_wire;

/* A message to or from another rank. Its length is sent first; a mismatch is a violation. */
struct nccl_move {
    int peer;
    bool is_send;
    char *data;
    size_t bytes;
    uint64_t header;   /* the length that is sent or received */
    size_t done_bytes; /* of the length and the data together */
};

/* Finds the other ranks by comm_id. Blocks until all are connected or *stop is set. Returns 0 or
 * -1. */
int nccl_wire_open(uint64_t comm_id, int rank, int ranks, const atomic_bool *stop,
                   struct nccl_wire **ret_wire);
/* Notifies the other ranks that this one is leaving, and blocks until each of them leaves, closes
 * or is gone. wire may be NULL. */
void nccl_wire_leave(struct nccl_wire *wire);
void nccl_wire_close(struct nccl_wire *wire); /* wire may be NULL */
/* Sends and receives all moves, in order for each rank and direction. Returns 0, or -1 if another
 * rank is gone or *stop is set. */
int nccl_wire_move(struct nccl_wire *wire, struct nccl_move *moves, size_t count,
                   const atomic_bool *stop);

#endif
