/*
 * local_plan — the chunks that a rank stores, serialized for the other ranks.
 *
 * Serialized form: u64 file_bytes, u64 chunks, then each chunk's record and NUL-terminated name,
 * padded to a multiple of 8 bytes to align the next record.
 */
#ifndef MILLRACE_CKPT_SAVE_LOCAL_PLAN_H
#define MILLRACE_CKPT_SAVE_LOCAL_PLAN_H

#include "base/err.h"
#include "base/str.h"
#include "ckpt/save/layout.h"
#include "comm/comm.h"

#include <stdint.h>

struct local_plan_head {
    uint64_t file_bytes, chunks_count;
};

struct local_plan_chunk {
    uint64_t name_bytes, dtype, rank, replicated;
    uint64_t shape[DTYPE_RANK_MAX], start[DTYPE_RANK_MAX],
        extent[DTYPE_RANK_MAX]; /* zero beyond rank */
    uint64_t offset_bytes;
};

/* Limits per rank. Their sums over CKPT_RANKS_MAX ranks do not overflow. */
#define LOCAL_PLAN_TEXT_BYTES_MAX   (UINT64_C(1) << 30)
#define LOCAL_PLAN_ARRAYS_BYTES_MAX (UINT64_C(1) << 43)

/* The texts of all ranks. */
struct local_plan {
    char *texts; /* owned */
    size_t bytes_max;
};

/* Checks that a rank's text, aligned for u64, is well-formed and within bounds. -EPROTO names the
 * rank. */
int local_plan_check(const char *text, size_t bytes, int rank, struct err *err);

/* Exchanges plans with all ranks and checks theirs (-EPROTO). Collective; blocks. file_bytes: size
 * of the file with the chunks. status: this rank's status so far, with its detail in err. */
int local_plan_exchange(struct comm *comm, int status, const struct layout_chunk *chunks,
                        uint64_t chunks_count, uint64_t file_bytes, struct local_plan *ret_plan,
                        struct err *err);

struct local_plan_input {
    struct layout_chunk *chunks;
    uint64_t chunks_count, file_bytes;
};
/* Like local_plan_exchange, but without communication. */
int local_plan_collect(const struct local_plan_input *parts, int ranks, struct local_plan *ret_plan,
                       struct err *err);

const struct local_plan_head *local_plan_get(const struct local_plan *local, int rank);
const struct local_plan_chunk *local_plan_first(const struct local_plan_head *head);
const struct local_plan_chunk *local_plan_next(const struct local_plan_chunk *chunk);
const char *local_plan_name(const struct local_plan_chunk *chunk);

#endif
