/*
 * dataset_pipeline — items encoded side by side, handed over in order.
 *
 *     positions      ... 41 | 42  43  44  45  46 | 47 ...
 *                     given   a ring of slots: encoded or being encoded, in any order; 42 is the
 *                             next one given
 *
 * Memory is bounded by the slots and by the bytes of their items. One thread asks for items;
 * workers encode.
 */
#ifndef MILLRACE_CONVERT_DATASET_PIPELINE_H
#define MILLRACE_CONVERT_DATASET_PIPELINE_H

#include "convert/encode_item.h"

enum {
    PIPELINE_SLOTS_MAX = 1024,
    PIPELINE_BYTES_MAX = 256 << 20,    /* of items in progress; one alone may be larger */
    PIPELINE_KEEP_BYTES_MAX = 1 << 20, /* a slot's memory that is kept for the next item */
};

/* One item, encoded or not. */
struct pipeline_item {
    struct source_item item;
    bool passed_over; /* it is in a shard of an earlier run already */
    int status;       /* of the encoding */
    struct err err;
    struct encoded_item encoded;
};

struct pipeline;

/* From position first on. next_items: of each split, the position up to which an earlier run has
 * come. Starts the workers (0: one a CPU). source must live as long. */
int pipeline_open(struct io *io, const struct source *source, uint64_t first,
                  const uint64_t *next_items, struct pipeline **ret_pipeline, struct err *err);
/* Waits for the next item in order, which belongs to the caller until pipeline_release. False after
 * timeout_ms. There must be one left. */
bool pipeline_next(struct pipeline *pipeline, int timeout_ms, struct pipeline_item **ret_item);
void pipeline_release(struct pipeline *pipeline);
void pipeline_close(struct pipeline *pipeline); /* waits for items being encoded; NULL is fine */

#endif
