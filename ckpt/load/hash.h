/*
 * hash — computes the section hashes of ckpt.h.
 */
#ifndef MILLRACE_CKPT_LOAD_HASH_H
#define MILLRACE_CKPT_LOAD_HASH_H

#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "ckpt/load/reader.h"
#include "ckpt/load/tensor_stream.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Progress of several hashes, of `bytes` in total. */
struct hash_progress {
    const struct ckpt_progress *progress;
    uint64_t done_bytes, bytes;
    const atomic_int *stop; /* non-zero: stop soon with -EINTR; NULL: never */
};

/* Hashes the selected tensors like a section of ckpt_hash, as if they had been saved with `cast`
 * (NULL: none). progress: may be NULL. Blocks; constant memory. */
int hash_tensors(struct ckpt_reader *reader,
                 bool (*is_selected)(const void *context, const char *name), const void *context,
                 const struct tensor_cast *cast, struct hash_progress *progress,
                 uint64_t *ret_count, struct hash128 *ret_hash, struct err *err);
bool hash_is_optimizer(const char *name);

#endif
