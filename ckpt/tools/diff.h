/*
 * diff — compares two checkpoints: which tensors differ, in how many elements, and by how much.
 *
 *     struct diff_side a = {io, "runs/a/ckpt"}, b = {other_io, "model.safetensors"};
 *     diff_open(&a, &b, &options, &diff, err);  // reads and compares everything selected
 *     for (i = 0; i < diff->tensors_count; i++) ...
 *     diff_close(diff);
 *
 * Compares bits: -0 and 0 differ (by 0), and NaNs are equal only if their bits are. A diff is empty
 * if and only if ckpt_hash gives both sides the same hashes.
 *
 * Verifies the blocks. Memory: 8 MiB per side, plus the readers and the tensors' descriptions.
 */
#ifndef MILLRACE_CKPT_TOOLS_DIFF_H
#define MILLRACE_CKPT_TOOLS_DIFF_H

#include "ckpt/format/element.h"
#include "ckpt/load/reader.h"
#include "ckpt/tools/jsonx_diff.h"

#include <stdbool.h>

enum diff_kind {
    DIFF_NONE,
    DIFF_VALUES, /* same dtype and shape; elements differ */
    DIFF_TYPE,   /* different dtype or shape; elements are not compared */
    DIFF_ONLY_A,
    DIFF_ONLY_B,
};

struct diff_tensor {
    enum diff_kind kind;
    const struct manifest_tensor *a, *b; /* owned by the readers; NULL: absent on that side */
    /* DIFF_VALUES: */
    uint64_t different_count; /* elements */
    uint64_t nan_count;       /* those with a NaN on at least one side */
    struct element largest;   /* distance; NaN exceeds all others */
    uint64_t largest_at;      /* the first element with that distance, in row-major order */
    struct element largest_a, largest_b;
};

/* Counts for the model or the optimizer section. */
struct diff_section {
    uint64_t compared_count; /* tensors with the same dtype and shape on both sides */
    uint64_t compared_bytes; /* per side */
    uint64_t different_count, type_count, only_a_count, only_b_count;
};

/* Immutable. Owns everything in it. */
struct diff {
    struct ckpt_reader *a, *b;
    struct diff_tensor *tensors; /* sorted by name */
    uint64_t tensors_count;
    struct diff_section sections[CKPT_LOADER];
    bool has_loader[2];
    struct jsonx_diff loader; /* differences in the loader's state; paths begin with "loader" */
};

/* A step, a folder of steps (its newest complete one) or a safetensors file. */
struct diff_side {
    struct io *io;
    const char *path;
};

/* Borrowed during the call. */
struct diff_options {
    const char *only; /* NULL: all; "model", "optimizer", "loader", or a glob over tensor names */
    const struct log *log;
    /* bytes_done and bytes include both sides. May be NULL. */
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *progress_context;
};

/* Blocks. -ENOENT also if nothing is selected on either side. Also fails like ckpt_reader_open and
 * ckpt_reader_load. */
int diff_open(const struct diff_side *a, const struct diff_side *b,
              const struct diff_options *options, struct diff **ret_diff, struct err *err);
void diff_close(struct diff *diff); /* NULL is fine */
bool diff_is_empty(const struct diff *diff);

#endif
