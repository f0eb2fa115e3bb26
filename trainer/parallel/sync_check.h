/*
 * sync_check — do ranks that hold the same still hold the same bits? Hashes of arrays, compared by
 * tensor: a bit that memory, a processor or a network flipped is found at the next look, and its
 * rank, step and tensor are named.
 *
 *     sync_check_begin(check);
 *     sync_check_add(check, &piece);              all ranks, as many and in the same order, though
 *                                                 each adds its own piece of a tensor
 *     sync_check_compare(check, step, status, &options, err);
 *
 * Compared are ranks whose pieces are the same stretch of the tensor. A piece that no other rank
 * holds is compared with itself: looked at once more before it is used for the next time, it is
 * what it was, unless a bit flipped meanwhile.
 *
 *     sync_check_begin_again(check);
 *     sync_check_add(check, &piece);              the same pieces in the same order; the last ones
 *                                                 may be left out
 *     sync_check_end_again(check, status, &options, err);
 */
#ifndef MILLRACE_TRAINER_PARALLEL_SYNC_CHECK_H
#define MILLRACE_TRAINER_PARALLEL_SYNC_CHECK_H

#include "comm/comm.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

struct sync_check;

/* Of what this rank holds of a tensor. */
struct sync_piece {
    const char *
        /* of the moment, "exp_avg"; NULL: a weight. Borrowed until it is compared, as the name */
        kind;
    const char *name;
    uint64_t offset_bytes, bytes; /* of the tensor; 0 bytes: this rank holds none of it */
    const void *data; /* of the device's memory or the host's; nothing that changes it is queued */
};

/* Of pieces_max pieces at most. Borrows comm and device; NULL: the host's memory. Not
 * collective. */
int sync_check_open(struct comm *comm, struct device *device, uint64_t pieces_max,
                    struct sync_check **ret_check, struct err *err);
void sync_check_close(struct sync_check *check); /* NULL is fine */

void sync_check_begin(struct sync_check *check);
/* Reads the piece. What fails is told by the comparison. */
void sync_check_add(struct sync_check *check, const struct sync_piece *piece);
/* Collective. status: what this rank failed with since begin. -EBADMSG on all ranks names those
 * that hold something else than most do, or, where it can't be told who is wrong, all of them. */
int sync_check_compare(struct sync_check *check, uint64_t step, int status,
                       const struct comm_options *options, struct err *err);

/* Was there a comparison that found no difference, and no look at the same since? Alike on all
 * ranks. */
bool sync_check_watches(const struct sync_check *check);
void sync_check_begin_again(struct sync_check *check);
/* Collective; status as above. -EBADMSG on ranks that hold something else than they held,
 * -EREMOTEIO on the others. */
int sync_check_end_again(struct sync_check *check, int status, const struct comm_options *options,
                         struct err *err);

#endif
