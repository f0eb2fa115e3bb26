/*
 * dataset_pipeline — encodes items in parallel and delivers them in order.
 *
 * A ring of slots holds items during and after encoding. The number of slots and a limit on their
 * bytes bound the memory. One thread, the caller, consumes the items; while none is ready, it
 * encodes items like the workers.
 */
#ifndef MILLRACE_CONVERT_DATASET_DATASET_PIPELINE_H
#define MILLRACE_CONVERT_DATASET_DATASET_PIPELINE_H

#include "convert/dataset/encode_item.h"

enum {
    PIPELINE_SLOTS_MAX = 1024,
    PIPELINE_BYTES_MAX = 256 << 20, /* in progress; one item may exceed it */
};

struct pipeline_item {
    struct source_item item;
    bool is_stored; /* an earlier run stored it in a shard */
    bool is_last;   /* with a status: the source cannot be read on */
    int status;
    struct err err;
    struct encoded_item encoded;
};

struct pipeline;

/* Starts the workers at position first, one thread less than source->options->workers. next_items:
 * per split, the position that an earlier run reached. source must outlive the pipeline. */
int pipeline_open(struct io *io, const struct source *source, uint64_t first,
                  const uint64_t *next_items, struct pipeline **ret_pipeline, struct err *err);
/* Waits for the next item in order; the caller owns it until pipeline_release. Returns false at the
 * end, and after timeout_ms, or after encoding some items if that takes longer. */
bool pipeline_next(struct pipeline *pipeline, int timeout_ms, struct pipeline_item **ret_item);
/* Whether pipeline_next has returned all items; false until it finds that none are left. */
bool pipeline_is_at_end(const struct pipeline *pipeline);
void pipeline_release(struct pipeline *pipeline);
void pipeline_close(struct pipeline *pipeline); /* waits for items being encoded; NULL is fine */

#endif
