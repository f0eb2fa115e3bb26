/*
 * flat — streams the bytes of whole tensors, one after another in global row-major order, however
 * they are split into chunks.
 *
 * Each read covers a range that fits the caller's buffer: a few boxes per tensor, which the reader
 * loads. Constant memory.
 */
#ifndef MILLRACE_CKPT_LOAD_FLAT_H
#define MILLRACE_CKPT_LOAD_FLAT_H

#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"

enum { FLAT_BOXES_MAX = 4096 }; /* per load */

/* The dtype to cast floating-point tensors to (cast.h). Others are not cast. */
struct flat_cast {
    bool is_wanted;
    enum dtype dtype;
};

struct flat {
    struct ckpt_reader *reader;
    struct flat_cast cast;
    const struct manifest_tensor *const *tensors; /* borrowed */
    uint64_t tensors_count;
    uint64_t index, done_elements; /* the next element: done_elements of tensors[index] */
    struct ckpt_tensor *wanted;    /* [FLAT_BOXES_MAX] */
};

/* The dtype of a tensor in the stream. cast: may be NULL. */
enum dtype flat_dtype(const struct flat_cast *cast, enum dtype saved);
/* cast: may be NULL. */
int flat_init(struct flat *flat, struct ckpt_reader *reader,
              const struct manifest_tensor *const *tensors, uint64_t tensors_count,
              const struct flat_cast *cast, struct err *err);
void flat_deinit(struct flat *flat);
/* Moves to that element of tensors[index]. */
void flat_seek(struct flat *flat, uint64_t index, uint64_t element);
/* Reads the next bytes of the stream, verified; 0 at its end. bytes_max: at least 8. Elements are
 * not split: fewer bytes than bytes_max mean that the next element does not fit or that the stream
 * ends. */
int flat_read(struct flat *flat, void *buffer, size_t bytes_max, size_t *ret_bytes,
              struct err *err);

#endif
