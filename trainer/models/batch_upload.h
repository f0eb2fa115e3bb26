/*
 * batch_upload — copies the loader's micro-batches to the device ahead of their use.
 *
 *     // takes ownership of the batch; input is in device memory
 *     batch_upload_push(&upload, batch, &input, &valid, err);
 *     ... queue model_forward and model_backward on input ...
 *     batch_upload_pop(&upload, err);  // after queueing the last use of the input
 *
 * An input is always a full micro-batch: absent items have targets of -1. A separate stream copies
 * data from the loader's pinned buffer and computed arrays (targets, document starts, token order)
 * from staging memory; the ops' stream waits for the copies. If device memory is host memory,
 * inputs point into the batch, which batch_upload_pop releases.
 *
 * Threads: only the owner of the run. Allocates nothing after init.
 */
#ifndef MILLRACE_TRAINER_MODELS_BATCH_UPLOAD_H
#define MILLRACE_TRAINER_MODELS_BATCH_UPLOAD_H

#include "base/err.h"
#include "loader/loader.h"
#include "trainer/models/model.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

enum { BATCH_UPLOAD_SLOTS = 2, BATCH_UPLOAD_VARIANTS = 2 * BATCH_UPLOAD_SLOTS };

struct batch_upload_options {
    uint64_t items;
    bool images;   /* else tokens */
    bool mixup;    /* batches may contain mixup or CutMix images */
    uint64_t side; /* of images, in pixels */
    uint64_t block;
    bool has_lengths; /* sequences are padded; batches have "tokens_length" */
    uint64_t classes, vocabulary;
    bool document_starts; /* attention stays within documents */
    int32_t document_end; /* the token that ends a document */
};

/* Arrays of one micro-batch; NULL if unused by the model. */
struct batch_upload_arrays {
    uint8_t *images;
    int32_t *tokens, *targets, *partners, *row_starts, *rows_by_token;
    float *weights; /* of targets; partners have 1 - weight */
};

struct batch_upload_slot {
    /* equal if device memory is host memory */
    struct batch_upload_arrays staging, device;
    void *staging_memory, *device_memory;
    struct device_event *copy_done, *use_done;
    const struct batch *batch; /* NULL once released */
    struct loader *loader;     /* owns the batch */
};

/* Owner thread only. */
struct batch_upload {
    struct batch_upload_options options;
    struct ops *ops;
    struct device_stream *stream;
    uint32_t *token_counts; /* [vocabulary + 1], for sorting; or NULL */
    struct batch_upload_slot slots[BATCH_UPLOAD_SLOTS];
    uint64_t pushed_count;
    bool is_open; /* between push and pop */
    uint32_t variant;
};

/* -ENOMEM. */
int batch_upload_init(struct batch_upload *upload, const struct batch_upload_options *options,
                      struct ops *ops, struct err *err);
/* Waits for the copies and releases all batches. Safe on a zeroed upload. */
void batch_upload_deinit(struct batch_upload *upload);

/* Takes ownership of the batch, even on failure, and later releases it to the loader (may be NULL).
 * Labels and tokens must be in range. *ret_valid: number of items (or tokens) with a target. Must
 * alternate with batch_upload_pop. */
int batch_upload_push(struct batch_upload *upload, struct loader *loader, const struct batch *batch,
                      struct model_input *ret_input, uint64_t *ret_valid, struct err *err);
/* The newest input's variant, below BATCH_UPLOAD_VARIANTS. Inputs of one variant have the same
 * addresses, unless device memory is host memory. */
uint32_t batch_upload_variant(const struct batch_upload *upload);
/* Blocks until the previous batch is copied, and releases it: at most one batch is held. */
int batch_upload_pop(struct batch_upload *upload, struct err *err);
/* Blocks until all batches are copied and releases them. Call before closing the loader. */
int batch_upload_flush(struct batch_upload *upload, struct err *err);

#endif
