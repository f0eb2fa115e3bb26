/*
 * flat — the bytes of whole tensors, one after another in global row-major order, whatever chunks
 * they lie in.
 *
 * The stream is cut into ranges that fit the caller's buffer; a range of a tensor is a few boxes,
 * which the reader loads. Constant memory.
 */
#ifndef MILLRACE_CKPT_LOAD_FLAT_H
#define MILLRACE_CKPT_LOAD_FLAT_H

#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"

enum { FLAT_BOXES_MAX = 4096 }; /* loaded at a time */

/* What the floating-point ones are cast to (cast.h); others stay as they are. */
struct flat_cast {
    bool is_wanted;
    enum dtype dtype;
};

struct flat {
    struct ckpt_reader *reader;
    struct flat_cast cast;
    const struct manifest_tensor *const *tensors; /* borrowed */
    uint64_t tensors_count;
    uint64_t index, done_elements; /* the next element is that of tensors[index] */
    struct ckpt_tensor *wanted;    /* [FLAT_BOXES_MAX] */
};

/* The dtype that a tensor has in the stream. cast: NULL, as it is. */
enum dtype flat_dtype(const struct flat_cast *cast, enum dtype saved);
/* cast: NULL, none. */
int flat_init(struct flat *flat, struct ckpt_reader *reader,
              const struct manifest_tensor *const *tensors, uint64_t tensors_count,
              const struct flat_cast *cast, struct err *err);
void flat_deinit(struct flat *flat);
/* The next byte is the first of that element of tensors[index]. */
void flat_seek(struct flat *flat, uint64_t index, uint64_t element);
/* The next bytes of the stream, verified; 0 at its end. bytes_max: 8 at least. Elements are not
 * cut: less than bytes_max comes only where the next does not fit, or at the end. */
int flat_read(struct flat *flat, void *buffer, size_t bytes_max, size_t *ret_bytes,
              struct err *err);

#endif
