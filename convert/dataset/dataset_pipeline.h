/*
 * dataset_pipeline — encodes items in parallel and delivers them in order.
 *
 *     positions      ... 41 | 42  43  44  45  46 | 47 ...
 *                delivered   a ring of slots: encoded or being encoded, in any order; 42 is the
 *                             next one delivered
 *
 * Memory is bounded by the slots and by the bytes of their items. One thread takes items; workers
 * encode.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_PIPELINE_H
#define MILLRACE_CONVERT_DATASET_DATASET_PIPELINE_H

#include "convert/dataset/encode_item.h"

enum {
    PIPELINE_SLOTS_MAX = 1024,
    PIPELINE_BYTES_MAX = 256 << 20,    /* in progress; a single item may be larger */
    PIPELINE_KEEP_BYTES_MAX = 1 << 20, /* of a slot, retained for the next item */
};

/* An item, encoded or being encoded. */
struct pipeline_item {
    struct source_item item;
    bool is_stored; /* already in a shard of an earlier run */
    int status;     /* of the encoding */
    struct err err;
    struct encoded_item encoded;
};

struct pipeline;

/* Starts at position first. next_items: for each split, the position that an earlier run reached.
 * Starts the workers (0: one per CPU). source must outlive the pipeline. */
int pipeline_open(struct io *io, const struct source *source, uint64_t first,
                  const uint64_t *next_items, struct pipeline **ret_pipeline, struct err *err);
/* Waits for the next item in order, which is the caller's until pipeline_release. False after
 * timeout_ms. At least one item must be left. */
bool pipeline_next(struct pipeline *pipeline, int timeout_ms, struct pipeline_item **ret_item);
void pipeline_release(struct pipeline *pipeline);
void pipeline_close(struct pipeline *pipeline); /* waits for items being encoded; NULL is fine */

#endif
