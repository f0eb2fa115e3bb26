/*
 * nccl_wire — moves bytes between the processes of an NCCL stand-in communicator: one Unix socket
 * per pair of ranks.
 *
 * Threads: one at a time.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_NCCL_WIRE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_NCCL_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nccl_wire;

/* A message to or from another rank. Its length is sent first: ranks that disagree on it are a
 * violation. */
struct nccl_move {
    int peer;
    bool is_send;
    char *data;
    size_t bytes;
    uint64_t header; /* the length, as sent or received */
    size_t at;       /* progress in the length and data together */
};

/* Finds the other ranks by the name. Blocks until all are connected or *stop. 0, or -1. */
int nccl_wire_open(uint64_t name, int rank, int ranks, const atomic_bool *stop,
                   struct nccl_wire **ret_wire);
/* Notifies the other ranks that this one leaves, and blocks until each of them leaves, closes or is
 * gone. NULL is fine. */
void nccl_wire_leave(struct nccl_wire *wire);
void nccl_wire_close(struct nccl_wire *wire); /* NULL is fine */
/* Sends and receives all moves, those of one rank and direction in order. 0, or -1 if another rank
 * is gone or *stop. */
int nccl_wire_move(struct nccl_wire *wire, struct nccl_move *moves, size_t count,
                   const atomic_bool *stop);

#endif
