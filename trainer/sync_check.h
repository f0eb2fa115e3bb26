/*
 * sync_check — do all ranks still hold the same bits? Hashes of the arrays that each rank holds as a whole, compared by name: a bit that memory or a
 * processor flipped is found at the next look, and its rank, step and tensor are named.
 */
#ifndef MILLRACE_TRAINER_SYNC_CHECK_H
#define MILLRACE_TRAINER_SYNC_CHECK_H

#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "device/device.h"

struct sync_check;

/* Of those that are replicated, which are the same ones on all ranks, in one order. All is borrowed, tensors and what they name too. Not collective. */
int sync_check_open(struct comm *comm, struct device *device, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct sync_check **ret_check, struct err *err);
void sync_check_close(struct sync_check *check); /* NULL is fine */

/* Collective, while nothing changes the arrays. -EBADMSG on all ranks names those that hold something else than most do. */
int sync_check_look(struct sync_check *check, uint64_t step, const struct comm_options *options,
                    struct err *err);

#endif
