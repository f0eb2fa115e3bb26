/*
 * batch_upload — micro-batches of the loader as a model's input, on the device before they are
 * needed.
 *
 *     // takes the batch; input lies in device memory
 *     batch_upload_push(&upload, batch, &input, &valid, err);
 *     ... model_forward and model_backward of input are queued ...
 *     batch_upload_pop(&upload, err);  // what was queued is the last to use it
 *
 * An input is always the full micro-batch: absent items have targets of -1. What the loader decoded
 * is copied from its pinned buffer, what is made here (targets, the starts of documents, the order
 * of tokens) from staging memory, on a stream of its own; the ops' stream waits for the copies, the
 * host, at batch_upload_pop, for those of the micro-batch before, whose batch then goes back to the
 * loader. Where device memory is the host's, inputs point into the batch, which goes back at
 * batch_upload_pop.
 *
 * Threads: the owner of the run. Nothing is allocated after init.
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

/* Immutable. */
struct batch_upload_options {
    uint64_t items; /* of a micro-batch */
    bool images;    /* else tokens */
    bool mixed;     /* images: batches may say that they were mixed with others */
    uint64_t side;  /* of images, pixels */
    uint64_t block; /* tokens */
    uint64_t classes, vocabulary;
    bool document_starts; /* attention stays within documents, which end at document_end */
    int32_t document_end;
};

/* The arrays of one micro-batch, once in host and once in device memory; NULL what the model does
 * not have. */
struct batch_upload_arrays {
    uint8_t *images;
    int32_t *tokens, *targets, *partners, *row_starts, *by_token;
    float *weights; /* of targets, beside partners */
};

struct batch_upload_slot {
    /* Parts of host and device memory; one where device memory is the host's. */
    struct batch_upload_arrays staging, device;
    void *staging_memory, *device_memory;
    struct device_event *copied, *used;
    const struct batch *batch; /* not yet given back */
    struct loader *loader;     /* it came from */
};

/* Owner thread. */
struct batch_upload {
    struct batch_upload_options options;
    struct ops *ops;              /* borrowed */
    struct device_stream *stream; /* copies */
    uint64_t slot_bytes;
    uint32_t *token_counts; /* [vocabulary + 1], for sorting; NULL where nobody sorts */
    struct batch_upload_slot slots[BATCH_UPLOAD_SLOTS];
    uint64_t pushed_count;
    bool is_open; /* between push and pop */
    uint32_t variant;
};

/* Allocates all there is. -ENOMEM. */
int batch_upload_init(struct batch_upload *upload, const struct batch_upload_options *options,
                      struct ops *ops, struct err *err);
/* Gives back what it holds, then waits for its copies. Safe on a zeroed upload. */
void batch_upload_deinit(struct batch_upload *upload);

/* Takes the batch of that loader (NULL: nobody gets it back), also where it fails. The loader has
 * checked labels and tokens against the model's classes and vocabulary. *ret_valid: items (tokens)
 * with a target. Not two without batch_upload_pop. */
int batch_upload_push(struct batch_upload *upload, struct loader *loader, const struct batch *batch,
                      struct model_input *ret_input, uint64_t *ret_valid, struct err *err);
/* Of the input pushed last, below BATCH_UPLOAD_VARIANTS: those of one variant have their arrays at
 * the same places, unless device memory is the host's. */
uint32_t batch_upload_variant(const struct batch_upload *upload);
/* Blocks until the batch before this one is copied, which then goes back: one at most is held
 * between two pushes. */
int batch_upload_pop(struct batch_upload *upload, struct err *err);
/* Gives every batch back to its loader; blocks until they are copied. Before the loader closes. */
int batch_upload_flush(struct batch_upload *upload, struct err *err);

#endif
