/*
 * hash — what ckpt.h's section hashes are made of.
 */
#ifndef MILLRACE_CKPT_LOAD_HASH_H
#define MILLRACE_CKPT_LOAD_HASH_H

#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "ckpt/load/flat.h"
#include "ckpt/load/reader.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One look at several hashes, which read so many bytes of tensors together. Owner thread. */
struct hash_watch {
    const struct ckpt_watch *watch;
    uint64_t done_bytes, bytes;
    const atomic_int *stop; /* non-zero: end soon with -EINTR; NULL: never */
};

/* The hash over the reader's tensors that `selected` names, as ckpt_hash defines it for a section;
 * as if they were saved as cast says (NULL: as they are). watch: NULL, nobody is told. Blocks;
 * constant memory. */
int hash_tensors(struct ckpt_reader *reader,
                 bool (*selected)(const void *context, const char *name), const void *context,
                 const struct flat_cast *cast, struct hash_watch *watch, uint64_t *ret_count,
                 struct hash128 *ret_hash, struct err *err);
bool hash_is_optimizer(const char *name);

#endif
