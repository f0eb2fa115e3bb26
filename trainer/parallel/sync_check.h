/*
 * sync_check — checks that ranks with the same data hold the same bits. It compares hashes of
 * arrays per tensor. A bit flipped by memory, a processor or a network is found at the next check;
 * the error names the rank, step and tensor.
 *
 *     sync_check_begin(check);
 *     sync_check_add(check, &piece);              all ranks: the same number, in the same order;
 *                                                 each adds its own piece of a tensor
 *     sync_check_compare(check, step, status, &options, err);
 *
 * The comparison is between ranks whose pieces are the same range of the tensor. A piece that no
 * other rank holds is compared with itself: it is hashed again before its next use, and differs
 * only if a bit flipped meanwhile.
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
    /* Name of the moment, "exp_avg"; NULL: a weight. Borrowed, like name, until the comparison. */
    const char *kind;
    const char *name;
    uint64_t offset_bytes, bytes; /* range in the tensor; 0 bytes: this rank holds none of it */
    const void *data;             /* In device or host memory. No queued work may change it. */
};

/* For at most pieces_max pieces. Borrows comm and device; device NULL: host memory. Not
 * collective. */
int sync_check_open(struct comm *comm, struct device *device, uint64_t pieces_max,
                    struct sync_check **ret_check, struct err *err);
void sync_check_close(struct sync_check *check); /* NULL is fine */

void sync_check_begin(struct sync_check *check);
/* Reads the piece. The comparison returns any failure. */
void sync_check_add(struct sync_check *check, const struct sync_piece *piece);
/* Collective. status: this rank's failure since begin, or 0. -EBADMSG on all ranks: the error names
 * the ranks that differ from the most common bits, or all of them on a tie. */
int sync_check_compare(struct sync_check *check, uint64_t step, int status,
                       const struct comm_options *options, struct err *err);

/* True if the last comparison found no difference and its pieces have not been checked again since.
 * The same on all ranks. */
bool sync_check_can_recheck(const struct sync_check *check);
void sync_check_begin_recheck(struct sync_check *check);
/* Collective; status as above. -EBADMSG on ranks whose data changed, -EREMOTEIO on the others. */
int sync_check_end_recheck(struct sync_check *check, int status, const struct comm_options *options,
                           struct err *err);

#endif
