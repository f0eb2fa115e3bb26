/*
 * checkpoint_hf_plan — plans a transformers folder: each tensor's sources, its file, and its
 * pieces.
 */
#ifndef MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_HF_PLAN_H
#define MILLRACE_CONVERT_CHECKPOINT_CHECKPOINT_HF_PLAN_H

#include "base/log.h"
#include "ckpt/format/hf_model.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/reader.h"
#include "ckpt/load/tensor_stream.h"

enum { HF_FILE_NAME_BYTES = 64 };

/* An output tensor. Its sources are one checkpoint tensor, or q, k and v. */
struct hf_tensor {
    struct safetensors_entry entry; /* its offset is set when the file's header is encoded */
    struct hf_location location;
    const struct manifest_tensor
        *source[HF_PARTS_MAX]; /* [location.parts], owned by the manifest */
    uint64_t bytes, file;
};

/* Rows of a tensor that form a piece (pieces.h). */
struct hf_rows {
    const struct hf_tensor *tensor;
    uint64_t first, count;
};

struct hf_plan {
    /* [tensors_count], by file, then in safetensors order. */
    struct hf_tensor *tensors;
    char (*names)[HF_NAME_BYTES_MAX];
    uint64_t tensors_count, cast_count, files_count, bytes;
    uint64_t buffer_bytes; /* upper bound for pieces and rows */
    struct hf_rows *rows;  /* [pieces_count] in tensor order */
    uint64_t pieces_count;
};

/* Borrowed; the reader must outlive the plan. */
struct hf_plan_options {
    const struct ckpt_reader *reader;
    const struct hf_model *model;
    const struct tensor_cast *cast;
    uint64_t max_file_bytes; /* limit for tensors; 0: one file */
    const struct log *log;
};

/* Plans all tensors except the optimizer's. -ENOTSUP names a tensor that transformers' model
 * lacks. */
int hf_plan_init(struct hf_plan *plan, const struct hf_plan_options *options, struct err *err);
void hf_plan_deinit(struct hf_plan *plan); /* plan may be zeroed */

/* A row spans the last dimension; a vector is one row. */
uint64_t hf_tensor_row_bytes(const struct hf_tensor *tensor);
/* "model-00001-of-00002.safetensors" */
const char *hf_plan_file_name(const struct hf_plan *plan, uint64_t file,
                              char name[HF_FILE_NAME_BYTES]);

#endif
