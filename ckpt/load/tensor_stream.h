/*
 * tensor_stream — streams the bytes of whole tensors in global row-major order, regardless of their
 * chunks. Each read loads a few boxes per tensor. Constant memory.
 */
#ifndef MILLRACE_CKPT_LOAD_TENSOR_STREAM_H
#define MILLRACE_CKPT_LOAD_TENSOR_STREAM_H

#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"

enum { TENSOR_STREAM_BOXES_MAX = 4096 }; /* per load */

/* The dtype to cast floating-point tensors to (cast.h). */
struct tensor_cast {
    bool is_wanted;
    enum dtype dtype;
};

struct tensor_stream {
    struct ckpt_reader *reader;
    struct tensor_cast cast;
    const struct manifest_tensor *const *tensors; /* borrowed */
    uint64_t tensors_count;
    uint64_t index, done_elements; /* the next element: done_elements of tensors[index] */
    struct ckpt_tensor *wanted;    /* [TENSOR_STREAM_BOXES_MAX] */
};

/* Returns the dtype that a tensor has in the stream. cast: may be NULL. */
enum dtype tensor_stream_dtype(const struct tensor_cast *cast, enum dtype saved);
/* cast: may be NULL. */
int tensor_stream_init(struct tensor_stream *tensor_stream, struct ckpt_reader *reader,
                       const struct manifest_tensor *const *tensors, uint64_t tensors_count,
                       const struct tensor_cast *cast, struct err *err);
void tensor_stream_deinit(struct tensor_stream *tensor_stream);
void tensor_stream_seek(struct tensor_stream *tensor_stream, uint64_t index, uint64_t element);
/* Reads the next bytes of the stream, verified; 0 at its end. bytes_max: at least 8. Elements are
 * not split, so the result may be short before an element that does not fit. */
int tensor_stream_read(struct tensor_stream *tensor_stream, void *buffer, size_t bytes_max,
                       size_t *ret_bytes, struct err *err);

#endif
