/*
 * run_ranks — this rank's communicators and CPUs, and the collectives that a run calls directly.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_RANKS_H
#define MILLRACE_TRAINER_RUN_RUN_RANKS_H

#include "comm/comm.h"
#include "comm/comm_wrapper.h"
#include "trainer/config/config.h"

/* Zero before run_ranks_open. Owner thread. */
struct run_ranks {
    struct comm *comm; /* between ranks; counts bytes */
    /* own_comm: opened and closed by the run; NULL: none. */
    struct comm *uncounted_comm, *own_comm;
    struct comm *bulk_comm; /* for weights and gradients; counts bytes: comm, or NCCL */
    struct comm *nccl_comm; /* NULL: not used */
    unsigned cpus;          /* this rank's share; 0: all */
    uint64_t timeout_ns;    /* per collective; 0: none */
    struct comm_counts traffic;
    /* Passes wait for communication: with parallel.debug, and in the first step with NCCL, where
     * loading a kernel may wait for NCCL kernels that wait for other ranks. */
    bool serialized;
};

/* external_comm: borrowed; NULL: a single rank. Collective. */
int run_ranks_open(struct run_ranks *ranks, struct comm *external_comm,
                   const struct train_config *config, struct err *err);
void run_ranks_close(struct run_ranks *ranks); /* safe on a zeroed struct */
/* Open comm on uncounted_comm, and bulk_comm on nccl_comm. */
int run_ranks_open_counting_comm(struct run_ranks *ranks, const struct train_config *config,
                                 struct err *err);
int run_ranks_open_bulk_comm(struct run_ranks *ranks, struct err *err);
/* Ends NCCL work in progress on this rank. Call on every rank before freeing device memory, which
 * would wait for that work. */
void run_ranks_abort_nccl(struct run_ranks *ranks);

/* For a collective that begins now. purpose: its name in messages; must outlive the collective. */
struct comm_options run_ranks_comm_options(const struct run_ranks *ranks, const char *purpose);
int run_ranks_agree(const struct run_ranks *ranks, int status, const char *purpose,
                    struct err *err);
/* In place. Collective. */
int run_ranks_reduce(const struct run_ranks *ranks, int64_t *values, size_t count,
                     enum comm_i64_op op, const char *purpose, struct err *err);
/* *ret_all: by rank, malloc'ed. Collective. */
int run_ranks_gather(const struct run_ranks *ranks, const void *own, size_t bytes,
                     const char *purpose, void **ret_all, struct err *err);

#endif
