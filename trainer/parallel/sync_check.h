/*
 * sync_check — detects ranks whose copies of a tensor diverge, for example after a bit flip in
 * memory, a processor or the network. It compares hashes; the error names the rank, step and
 * tensor.
 *
 *     sync_check_begin(check);
 *     sync_check_add(check, &piece);              all ranks: the same tensors, in the same
 *                                                 order; each adds its own piece
 *     sync_check_compare(check, step, status, &options, err);
 *
 * Ranks that hold the same range of a tensor are compared. A piece that only one rank holds is
 * hashed again before its next use: its hash changes only if a bit flipped.
 *
 *     sync_check_begin_recheck(check);
 *     sync_check_add(check, &piece);              the same pieces in the same order; the last ones
 *                                                 may be omitted
 *     sync_check_end_recheck(check, status, &options, err);
 */
#ifndef MILLRACE_TRAINER_PARALLEL_SYNC_CHECK_H
#define MILLRACE_TRAINER_PARALLEL_SYNC_CHECK_H

#include "comm/comm.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

struct sync_check;

/* This rank's piece of a tensor. */
struct sync_piece {
    /* The moment's name, such as "exp_avg"; NULL: a weight. Borrowed, like name, until the
     * comparison. */
    const char *kind;
    const char *name;
    uint64_t offset_bytes, bytes; /* range in the tensor; may be empty */
    const void *data;             /* device or host memory; no queued work may change it */
};

/* Borrows comm and device; device NULL: host memory. Not collective. */
int sync_check_open(struct comm *comm, struct device *device, uint64_t pieces_max,
                    struct sync_check **ret_check, struct err *err);
void sync_check_close(struct sync_check *check); /* NULL is fine */

void sync_check_begin(struct sync_check *check);
/* Hashes the piece. The comparison returns any failure. */
void sync_check_add(struct sync_check *check, const struct sync_piece *piece);
/* Collective. status: this rank's failure since sync_check_begin, or 0. -EBADMSG on all ranks: the
 * error names the ranks in the minority, or all ranks on a tie. */
int sync_check_compare(struct sync_check *check, uint64_t step, int status,
                       const struct comm_options *options, struct err *err);

/* True after a comparison that found no difference, until the recheck. All ranks get the same
 * result. */
bool sync_check_can_recheck(const struct sync_check *check);
void sync_check_begin_recheck(struct sync_check *check);
/* Collective; status as above. -EBADMSG on ranks whose data changed, -EREMOTEIO on the others. */
int sync_check_end_recheck(struct sync_check *check, int status, const struct comm_options *options,
                           struct err *err);

#endif
