/*
 * checkpoint_hf_plan — what a folder of transformers' is made of: which of our tensors make each of
 * theirs, in which file it stands, and which of its rows are made at a time.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_HF_PLAN_H
#define MILLRACE_CONVERT_CHECKPOINT_HF_PLAN_H

#include "base/log.h"
#include "ckpt/format/hf_names.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/flat.h"
#include "ckpt/load/reader.h"

enum { HF_FILE_NAME_BYTES = 64 };

/* A tensor of theirs: of one of ours, or of q, k and v. */
struct hf_tensor {
    struct safetensors_entry
        entry; /* where it lies in its file is known when the file's header is */
    struct hf_place place;
    const struct manifest_tensor *ours[HF_PARTS_MAX]; /* [place.parts], of the reader's manifest */
    uint64_t bytes, file;
};

/* The rows of a tensor that are a piece (pieces.h). */
struct hf_rows {
    const struct hf_tensor *tensor;
    uint64_t first, count;
};

struct hf_plan {
    struct hf_tensor
        *tensors; /* [tensors_count] in the order of files, and within them of safetensors */
    char (*names)[HF_NAME_BYTES_MAX];
    uint64_t tensors_count, cast_count, files_count, bytes;
    uint64_t buffer_bytes; /* no piece is larger, and no row */
    struct hf_rows *rows;  /* [pieces_count] in the order of tensors */
    uint64_t pieces_count;
};

/* All are borrowed, the reader as long as the plan is. */
struct hf_plan_options {
    const struct ckpt_reader *reader;
    enum hf_family family;
    const struct flat_cast *cast;
    uint64_t max_file_bytes; /* of tensors in one file; 0: one file */
    const struct log *log;
};

/* Of all tensors but the optimizer's. -ENOTSUP names one that their model has no place for. */
int hf_plan_init(struct hf_plan *plan, const struct hf_plan_options *options, struct err *err);
void hf_plan_deinit(struct hf_plan *plan); /* safe on a zeroed one */

/* Rows that are written at a time are of the last dimension; a vector is one row. */
uint64_t hf_tensor_row_bytes(const struct hf_tensor *tensor);
/* "model-00001-of-00002.safetensors" */
const char *hf_plan_file_name(const struct hf_plan *plan, uint64_t file,
                              char name[HF_FILE_NAME_BYTES]);

#endif
